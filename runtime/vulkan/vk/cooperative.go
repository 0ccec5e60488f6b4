package vk

import "unsafe"

// The extension VK_KHR_cooperative_matrix, which Debian 12's registry does not have yet.

// PhysicalDeviceCooperativeMatrixFeaturesKHR is VkPhysicalDeviceCooperativeMatrixFeaturesKHR.
type PhysicalDeviceCooperativeMatrixFeaturesKHR struct {
	SType                               uint32
	PNext                               unsafe.Pointer
	CooperativeMatrix                   uint32
	CooperativeMatrixRobustBufferAccess uint32
}

// CooperativeMatrixPropertiesKHR is VkCooperativeMatrixPropertiesKHR.
type CooperativeMatrixPropertiesKHR struct {
	SType                           uint32
	PNext                           unsafe.Pointer
	MSize, NSize, KSize             uint32
	AType, BType, CType, ResultType uint32
	SaturatingAccumulation, Scope   uint32
}

// Types of these structs.
const (
	StructureTypePhysicalDeviceCooperativeMatrixFeatures = 1000506000
	StructureTypeCooperativeMatrixProperties             = 1000506001
)

// CooperativeCommands are functions of the extension. One that is not there is nil.
type CooperativeCommands struct {
	GetPhysicalDeviceCooperativeMatrixPropertiesKHR func(physicalDevice PhysicalDevice, pPropertyCount *uint32, pProperties *CooperativeMatrixPropertiesKHR) Result
}
