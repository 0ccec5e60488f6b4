//go:build !(linux && amd64)

package ggml

import (
	"errors"
	"runtime"
)

var errElsewhere = errors.New("libraries are loaded on linux/amd64 only; this is " + runtime.GOOS + "/" + runtime.GOARCH)

func load(string) (uintptr, error) { return 0, errElsewhere }

func score(string) (int, error) { return 0, errElsewhere }

func bind(uintptr, string, any) error { return errElsewhere }

func bindAddress(uintptr, any) {}

func hugePages(pointer, int) {}

func quiet(*functions) {}
