package cache

import (
	"errors"
	"os"
	"syscall"
)

// reserve makes a file size bytes long, and asks for the room on the disk.
func reserve(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return f.Truncate(size) // a file system without it
	}
	if err != nil {
		return &os.PathError{Op: "reserving room for", Path: f.Name(), Err: err}
	}
	return nil
}
