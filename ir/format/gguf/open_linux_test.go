package gguf

import (
	"path/filepath"
	"syscall"
	"testing"
)

// Opening a pipe would wait until somebody writes to it.
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	wantError(t, err, "is not a regular file")
}
