package gguf

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// lastChange is when a file was last changed in any way.
func lastChange(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}

// number says which file this is on its system.
func number(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(s.Dev, s.Ino)
	}
	return ""
}
