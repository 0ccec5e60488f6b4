//go:build !linux && !darwin

package gguf

import (
	"io/fs"
	"time"
)

// lastChange is when a file was last written: this system does not say more.
func lastChange(info fs.FileInfo) time.Time { return info.ModTime() }

// number is empty: this system does not say which file this is.
func number(fs.FileInfo) string { return "" }
