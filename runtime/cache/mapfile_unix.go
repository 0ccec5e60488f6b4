//go:build unix && !aix && !solaris && !illumos

package cache

import (
	"os"
	"syscall"
)

// mapFile maps a file of size bytes, read-only.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	if data, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return readFile(f, size) // a file system that cannot map files
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}
