//go:build !(linux && amd64 && peer)

package ggml

import (
	"errors"
	"runtime"
)

var errHere = absent()

func absent() error {
	if runtime.GOOS+"/"+runtime.GOARCH == "linux/amd64" {
		return ErrStatic
	}
	return errors.New("ggml: libraries are loaded on linux/amd64 only; this is " + runtime.GOOS + "/" + runtime.GOARCH)
}

func load(string) (uintptr, error) { return 0, errHere }

func score(string) (int, error) { return 0, errHere }

func bind(uintptr, string, any) error { return errHere }

func bindAddress(uintptr, any) {}

func hugePages(pointer, int) {}

func quiet(*functions) {}
