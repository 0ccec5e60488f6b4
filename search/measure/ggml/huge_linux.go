package ggml

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks for huge pages, before memory is written to, where they are whole.
func hugePages(at pointer, size int) {
	const page = 2 << 20
	b := unsafe.Slice((*byte)(at), size)
	skip := int(-uintptr(at) % page)
	if size-skip >= page {
		unix.Madvise(b[skip:skip+(size-skip)/page*page], unix.MADV_HUGEPAGE) // refused: small pages
	}
}
