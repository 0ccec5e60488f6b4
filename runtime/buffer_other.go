//go:build !linux

package runtime

func newBuffer(size int) (*Buffer, error) { return heapBuffer(size), nil }
