//go:build !linux

package vulkan

const installLoader = "on Windows it comes with the GPU's driver; on macOS with Homebrew's vulkan-loader and molten-vk, or with the Vulkan SDK"
