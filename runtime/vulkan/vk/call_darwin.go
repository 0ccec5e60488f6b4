//go:build amd64 || arm64

package vk

// Untested. The loader comes with the Vulkan SDK or Homebrew; MoltenVK alone also has the functions of a loader.
var libraryNames = []string{
	"libvulkan.1.dylib", "libvulkan.dylib", "/usr/local/lib/libvulkan.1.dylib", "/opt/homebrew/lib/libvulkan.1.dylib",
	"libMoltenVK.dylib", "/usr/local/lib/libMoltenVK.dylib", "/opt/homebrew/lib/libMoltenVK.dylib",
}
