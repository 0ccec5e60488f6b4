//go:build !linux

package cache

import "os"

// reserve makes a file size bytes long.
func reserve(f *os.File, size int64) error { return f.Truncate(size) }
