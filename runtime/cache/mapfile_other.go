//go:build !unix || aix || solaris || illumos

package cache

import "os"

// mapFile reads a file of size bytes.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	return readFile(f, size)
}
