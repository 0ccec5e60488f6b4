//go:build unix && !aix && !solaris && !illumos

package runtime

import (
	"os"
	"syscall"
)

// mapFile maps a file of size bytes, read-only.
func mapFile(f *os.File, size int) (*Buffer, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return readFile(f, size) // a file system that cannot map files
	}
	return &Buffer{data, func() error { return syscall.Munmap(data) }}, nil
}
