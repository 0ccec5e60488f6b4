//go:build amd64 || arm64

package vk

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Tested under Wine only. The loader comes with every driver.
var libraryNames = []string{"vulkan-1.dll"}

// load looks in the folder of the system only, unless the name is a path.
func load(name string) (uintptr, error) {
	flags := uintptr(windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if name != libraryNames[0] {
		flags = 0
	}
	lib, err := windows.LoadLibraryEx(name, 0, flags)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return uintptr(lib), nil
}

func lookup(lib uintptr, symbol string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(lib), symbol)
}
