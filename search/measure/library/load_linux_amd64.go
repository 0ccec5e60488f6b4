//go:build peer

package library

import "github.com/ebitengine/purego"

var errHere error

// Load loads a library and the libraries that it depends on. It stays loaded until Unload.
func Load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// Unload takes back one Load.
func Unload(lib uintptr) { purego.Dlclose(lib) }

// Bind makes *to, a function, the one of that name.
func Bind(lib uintptr, name string, to any) error {
	addr, err := purego.Dlsym(lib, name)
	if err == nil {
		BindAddress(addr, to)
	}
	return err
}

// BindAddress makes *to, a function, the one at an address.
func BindAddress(addr uintptr, to any) { purego.RegisterFunc(to, addr) }

// Callback makes a function that libraries call, for as long as the process runs.
func Callback(f any) uintptr { return purego.NewCallback(f) }
