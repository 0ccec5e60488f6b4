//go:build !(linux && amd64 && peer)

package library

import (
	"errors"
	"runtime"
)

var errHere = absent()

func absent() error {
	if runtime.GOOS+"/"+runtime.GOARCH == "linux/amd64" {
		return ErrStatic
	}
	return errors.New("libraries are loaded on linux/amd64 only; this is " + runtime.GOOS + "/" + runtime.GOARCH)
}

// Load is the error of Here.
func Load(string) (uintptr, error) { return 0, errHere }

// Unload does nothing.
func Unload(uintptr) {}

// Bind is the error of Here.
func Bind(uintptr, string, any) error { return errHere }

// BindAddress does nothing.
func BindAddress(uintptr, any) {}

// Callback does nothing.
func Callback(any) uintptr { return 0 }
