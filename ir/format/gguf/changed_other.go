//go:build !linux && !darwin

package gguf

import "io/fs"

// changed is empty: this system does not say.
func changed(fs.FileInfo) string { return "" }
