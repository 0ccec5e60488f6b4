package runtime

import "syscall"

// newBuffer maps memory in which a whole number of huge pages fits, and asks for
// them. A system that has none for us gives usual pages.
func newBuffer(size int) (*Buffer, error) {
	if size < hugePage {
		return heapBuffer(size), nil
	}
	all, err := syscall.Mmap(-1, 0, size+hugePage, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	data := all[alignment(all, hugePage):][:size:size]
	const hugePages = 14 // MADV_HUGEPAGE
	_ = syscall.Madvise(data, hugePages)
	return &Buffer{data, func() error { return syscall.Munmap(all) }}, nil
}
