//go:build !((linux || darwin || windows) && (amd64 || arm64))

package vk

import (
	"errors"
	"runtime"
	"unsafe"
)

// Supported says why this platform has no Vulkan here, "" if it has.
const Supported = "tmacc calls Vulkan on linux, windows and darwin, on amd64 and arm64 only: this is " + runtime.GOOS + "/" + runtime.GOARCH

var libraryNames = []string{""}

func openLibrary(name, symbol string, to any) error { return errors.New(Supported) }

func register(to any, address uintptr) {}

// NewCallback is 0: nothing calls back.
func NewCallback(f func(severity, types uint32, data *DebugUtilsMessengerCallbackDataEXT, user unsafe.Pointer) uintptr) uintptr {
	return 0
}
