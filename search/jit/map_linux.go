//go:build linux && (amd64 || arm64)

package jit

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call calls the function at entry with one argument, on a stack with room for
// code that does not check it.
//
//go:noescape
func call(entry uintptr, args unsafe.Pointer)

// fetchable makes cores fetch as instructions the n bytes that were written at from.
//
//go:noescape
func fetchable(from unsafe.Pointer, n int)

// mapCode returns executable pages that begin with code. An error that the system does not let memory become executable is a *Denied.
func mapCode(code []byte) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, len(code), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("jit: mmap of %d bytes: %w", len(code), err)
	}
	copy(mem, code)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.Munmap(mem)
		if errors.Is(err, unix.ENOMEM) {
			return nil, fmt.Errorf("jit: mprotect of %d bytes: %w", len(code), err)
		}
		return nil, &Denied{fmt.Errorf("mprotect: %w", err)}
	}
	fetchable(unsafe.Pointer(&mem[0]), len(mem))
	return mem, nil
}

// Call runs f with a pointer to the parameters, 8-byte words.
func (f Func) Call(words []uint64) {
	if f.img.mem == nil {
		panic("jit: " + f.name + " was closed")
	}
	call(uintptr(unsafe.Pointer(&f.img.mem[f.At])), unsafe.Pointer(unsafe.SliceData(words)))
}

// Close unmaps all functions; none may be running or be called again.
func (m *Image) Close() error {
	mem := m.mem
	m.mem = nil
	if mem == nil {
		return nil
	}
	return unix.Munmap(mem)
}
