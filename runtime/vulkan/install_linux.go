package vulkan

const installLoader = "Debian and Ubuntu: libvulkan1; Fedora: vulkan-loader; Arch: vulkan-icd-loader"
