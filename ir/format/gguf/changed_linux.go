package gguf

import (
	"fmt"
	"io/fs"
	"syscall"
)

// changed says which file this is on its system, and when it was last changed in any way.
func changed(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d %d %d.%d", s.Dev, s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
	}
	return ""
}
