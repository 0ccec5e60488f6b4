package main

// What tmacc uses of Vulkan, by the names of C. Each struct stands behind the structs that it holds.

var handles = []string{
	"VkInstance", "VkPhysicalDevice", "VkDevice", "VkQueue", "VkCommandBuffer", "VkDeviceMemory", "VkBuffer", "VkShaderModule", "VkPipeline",
	"VkPipelineLayout", "VkPipelineCache", "VkDescriptorSetLayout", "VkDescriptorPool", "VkDescriptorSet", "VkCommandPool", "VkQueryPool",
	"VkSemaphore", "VkFence", "VkDebugUtilsMessengerEXT",
}

var structs = []string{
	"VkApplicationInfo", "VkInstanceCreateInfo", "VkLayerProperties", "VkExtensionProperties", "VkValidationFeaturesEXT",
	"VkDebugUtilsMessengerCreateInfoEXT", "VkDebugUtilsMessengerCallbackDataEXT",
	"VkPhysicalDeviceLimits", "VkPhysicalDeviceSparseProperties", "VkPhysicalDeviceProperties", "VkPhysicalDeviceProperties2",
	"VkConformanceVersion", "VkPhysicalDeviceVulkan11Properties", "VkPhysicalDeviceVulkan12Properties", "VkPhysicalDeviceVulkan13Properties",
	"VkPhysicalDeviceFeatures", "VkPhysicalDeviceFeatures2",
	"VkPhysicalDeviceVulkan11Features", "VkPhysicalDeviceVulkan12Features", "VkPhysicalDeviceVulkan13Features",
	"VkMemoryType", "VkMemoryHeap", "VkPhysicalDeviceMemoryProperties", "VkPhysicalDeviceMemoryProperties2",
	"VkPhysicalDeviceMemoryBudgetPropertiesEXT", "VkExtent3D", "VkQueueFamilyProperties",
	"VkDeviceQueueCreateInfo", "VkDeviceCreateInfo",
	"VkBufferCreateInfo", "VkMemoryRequirements", "VkMemoryAllocateInfo",
	"VkShaderModuleCreateInfo", "VkDescriptorSetLayoutBinding", "VkDescriptorSetLayoutCreateInfo", "VkPushConstantRange",
	"VkPipelineLayoutCreateInfo", "VkSpecializationMapEntry", "VkSpecializationInfo", "VkPipelineShaderStageCreateInfo",
	"VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", "VkComputePipelineCreateInfo", "VkPipelineCacheCreateInfo",
	"VkDescriptorPoolSize", "VkDescriptorPoolCreateInfo", "VkDescriptorSetAllocateInfo", "VkDescriptorBufferInfo", "VkWriteDescriptorSet",
	"VkCommandPoolCreateInfo", "VkCommandBufferAllocateInfo", "VkCommandBufferBeginInfo", "VkMemoryBarrier2", "VkDependencyInfo", "VkBufferCopy",
	"VkQueryPoolCreateInfo", "VkSemaphoreTypeCreateInfo", "VkSemaphoreCreateInfo", "VkSemaphoreWaitInfo",
	"VkSemaphoreSubmitInfo", "VkCommandBufferSubmitInfo", "VkSubmitInfo2",
}

var loaderCommands = []string{
	"vkEnumerateInstanceVersion", "vkEnumerateInstanceLayerProperties", "vkEnumerateInstanceExtensionProperties", "vkCreateInstance",
}

var instanceCommands = []string{
	"vkDestroyInstance", "vkEnumeratePhysicalDevices", "vkGetPhysicalDeviceProperties", "vkGetPhysicalDeviceProperties2",
	"vkGetPhysicalDeviceFeatures2", "vkGetPhysicalDeviceMemoryProperties2", "vkGetPhysicalDeviceQueueFamilyProperties",
	"vkEnumerateDeviceExtensionProperties", "vkCreateDevice", "vkGetDeviceProcAddr",
	"vkCreateDebugUtilsMessengerEXT", "vkDestroyDebugUtilsMessengerEXT",
}

var deviceCommands = []string{
	"vkDestroyDevice", "vkDeviceWaitIdle", "vkGetDeviceQueue", "vkQueueSubmit2",
	"vkCreateBuffer", "vkDestroyBuffer", "vkGetBufferMemoryRequirements", "vkAllocateMemory", "vkFreeMemory", "vkBindBufferMemory", "vkMapMemory",
	"vkCreateShaderModule", "vkDestroyShaderModule", "vkCreateDescriptorSetLayout", "vkDestroyDescriptorSetLayout",
	"vkCreatePipelineLayout", "vkDestroyPipelineLayout", "vkCreatePipelineCache", "vkDestroyPipelineCache", "vkGetPipelineCacheData",
	"vkCreateComputePipelines", "vkDestroyPipeline",
	"vkCreateDescriptorPool", "vkDestroyDescriptorPool", "vkAllocateDescriptorSets", "vkUpdateDescriptorSets",
	"vkCreateCommandPool", "vkDestroyCommandPool", "vkAllocateCommandBuffers", "vkBeginCommandBuffer", "vkEndCommandBuffer",
	"vkCmdBindPipeline", "vkCmdBindDescriptorSets", "vkCmdPushConstants", "vkCmdDispatch", "vkCmdDispatchIndirect", "vkCmdPipelineBarrier2",
	"vkCmdCopyBuffer", "vkCmdResetQueryPool", "vkCmdWriteTimestamp2",
	"vkCreateQueryPool", "vkDestroyQueryPool", "vkGetQueryPoolResults", "vkCreateSemaphore", "vkDestroySemaphore", "vkWaitSemaphores",
}

var constants = []string{
	"VK_SUCCESS", "VK_TIMEOUT", "VK_ERROR_OUT_OF_HOST_MEMORY", "VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_DEVICE_LOST",
	"VK_ERROR_INCOMPATIBLE_DRIVER",
	"VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU", "VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU",
	"VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU", "VK_PHYSICAL_DEVICE_TYPE_CPU",
	"VK_QUEUE_GRAPHICS_BIT", "VK_QUEUE_COMPUTE_BIT", "VK_QUEUE_TRANSFER_BIT",
	"VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT", "VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT", "VK_MEMORY_PROPERTY_HOST_COHERENT_BIT",
	"VK_MEMORY_PROPERTY_HOST_CACHED_BIT", "VK_MEMORY_HEAP_DEVICE_LOCAL_BIT",
	"VK_BUFFER_USAGE_TRANSFER_SRC_BIT", "VK_BUFFER_USAGE_TRANSFER_DST_BIT", "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT", "VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT",
	"VK_SHARING_MODE_CONCURRENT",
	"VK_SHADER_STAGE_COMPUTE_BIT", "VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT",
	"VK_DESCRIPTOR_TYPE_STORAGE_BUFFER", "VK_PIPELINE_BIND_POINT_COMPUTE", "VK_COMMAND_BUFFER_LEVEL_PRIMARY",
	"VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT", "VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT", "VK_QUERY_TYPE_TIMESTAMP", "VK_QUERY_RESULT_64_BIT", "VK_QUERY_RESULT_WAIT_BIT",
	"VK_SEMAPHORE_TYPE_TIMELINE",
	"VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT", "VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT", "VK_PIPELINE_STAGE_2_COPY_BIT",
	"VK_PIPELINE_STAGE_2_HOST_BIT", "VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT",
	"VK_ACCESS_2_INDIRECT_COMMAND_READ_BIT", "VK_ACCESS_2_SHADER_STORAGE_READ_BIT", "VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT",
	"VK_ACCESS_2_TRANSFER_READ_BIT", "VK_ACCESS_2_TRANSFER_WRITE_BIT", "VK_ACCESS_2_HOST_READ_BIT",
	"VK_ACCESS_2_MEMORY_READ_BIT", "VK_ACCESS_2_MEMORY_WRITE_BIT",
	"VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
	"VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT",
	"VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR",
	"VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT",
}
