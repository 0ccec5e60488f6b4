//go:build (linux || darwin || windows) && (amd64 || arm64)

package vk

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Supported says why this platform has no Vulkan here, "" if it has.
const Supported = ""

func openLibrary(name, symbol string, to any) error {
	lib, err := load(name)
	if err != nil {
		return err
	}
	address, err := lookup(lib, symbol)
	if err != nil {
		return fmt.Errorf("%s is no loader of Vulkan: %w", name, err)
	}
	purego.RegisterFunc(to, address)
	return nil
}

func register(to any, address uintptr) { purego.RegisterFunc(to, address) }

// NewCallback is the address of a function that C may call with messages. It is never freed.
func NewCallback(f func(severity, types uint32, data *DebugUtilsMessengerCallbackDataEXT, user unsafe.Pointer) uintptr) uintptr {
	return purego.NewCallback(f)
}
