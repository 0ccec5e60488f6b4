package jit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What killed processes left is removed after an hour; other files and folders stay.
func TestSweep(t *testing.T) {
	folder := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{briefly + "old": 2 * time.Hour, briefly + "new": time.Minute, "tmacc-worker-1": 2 * time.Hour, "mine": 2 * time.Hour} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(folder, now)
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "mine "+briefly+"new tmacc-worker-1" {
		t.Errorf("left is %s", got)
	}
}

// A folder that is not there is named, with the variable that names it.
func TestNoTemporary(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	if os.TempDir() != missing {
		t.Skip("TMPDIR means nothing on this system")
	}
	_, err := TempDir()
	if !errors.As(err, new(*NoTemporary)) || !strings.HasPrefix(err.Error(), "jit: no temporary files can be made in "+missing+", which TMPDIR names: no such file") {
		t.Error(err)
	}
}
