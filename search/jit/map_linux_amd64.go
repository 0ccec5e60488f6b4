package jit

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const supported = true

// call calls the function at entry with one argument, on a stack with room for
// code that does not check it.
//
//go:noescape
func call(entry uintptr, args unsafe.Pointer)

// mapCode returns executable pages that begin with code.
func mapCode(code []byte) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, len(code), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("jit: mmap of %d bytes: %w", len(code), err)
	}
	copy(mem, code)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.Munmap(mem)
		return nil, fmt.Errorf("jit: mprotect: %w", err)
	}
	return mem, nil
}

// Call runs f with a pointer to the parameters, 8-byte words.
func (f Func) Call(words []uint64) {
	if f.img.mem == nil {
		panic("jit: " + f.name + " was closed")
	}
	call(uintptr(unsafe.Pointer(&f.img.mem[f.at])), unsafe.Pointer(unsafe.SliceData(words)))
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

// guarded is memory of whole pages between two pages that cannot be touched.
type guarded struct{ all, buf []byte }

// guard returns n bytes that end at (or, with low, begin at) a guard page, so
// that touching the byte after (before) them ends the process.
func guard(n int, low bool) (guarded, error) {
	page := unix.Getpagesize()
	inner := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return guarded{}, fmt.Errorf("jit: mmap of %d bytes: %w", n, err)
	}
	for _, p := range [][]byte{all[:page], all[page+inner:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			unix.Munmap(all)
			return guarded{}, fmt.Errorf("jit: mprotect: %w", err)
		}
	}
	if low {
		return guarded{all, all[page : page+n]}, nil
	}
	return guarded{all, all[page+inner-n : page+inner]}, nil
}

func (g guarded) free() { unix.Munmap(g.all) }

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
