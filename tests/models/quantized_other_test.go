//go:build !(peer && linux && amd64)

package models

// quantizes would write a file by libllama, which runs on one system only.
func quantizes() (asked bool) { return false }
