//go:build !unix || aix || solaris || illumos

package runtime

import "os"

// mapFile reads a file of size bytes.
func mapFile(f *os.File, size int) (*Buffer, error) { return readFile(f, size) }
