//go:build !linux

package ggml

func hugePages(pointer, int) {}
