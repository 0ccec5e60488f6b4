//go:build (linux || darwin) && (amd64 || arm64)

package vk

import "github.com/ebitengine/purego"

func load(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func lookup(lib uintptr, symbol string) (uintptr, error) { return purego.Dlsym(lib, symbol) }
