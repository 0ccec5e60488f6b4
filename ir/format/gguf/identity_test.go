package gguf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// identity opens a file and returns its identity.
func identity(t *testing.T, path string) string {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := f.Identity()
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	return id
}

// A file keeps its identity until something of it changes: its time, its header, a byte of a tensor.
func TestIdentity(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/gguf/llama-q4_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	modified := time.Now().Add(-time.Hour).Truncate(time.Second)
	write := func(data []byte, at time.Time) string {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return identity(t, path)
	}
	seen := map[string]string{write(data, modified): "the first"}
	if id := identity(t, path); seen[id] == "" {
		t.Errorf("another identity without a change: %s", id)
	}
	changed := bytes.Clone(data)
	changed[len(data)/3] ^= 1
	header := bytes.Clone(data)
	header[bytes.Index(header, []byte("general.name"))+24] ^= 1
	for _, c := range []struct {
		what string
		data []byte
		at   time.Time
		only bool // where the system says when a file was changed in any way
	}{
		{"another time", data, modified.Add(time.Second), false},
		{"a header", header, modified, false},
		{"a byte of a tensor", changed, modified, true},
		{"the same bytes written again", data, modified, true},
	} {
		if c.only && runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
			continue
		}
		id := write(c.data, c.at)
		if before := seen[id]; before != "" {
			t.Errorf("%s: the identity of %s", c.what, before)
		}
		seen[id] = c.what
	}
}

// A file that changes after it was opened has no identity any more.
func TestUnchanged(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/gguf/llama-q4_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Unchanged(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil { // at once: Open has waited until a change has another time
		t.Fatal(err)
	}
	if err := f.Unchanged(); err == nil || !strings.Contains(err.Error(), "was changed while it was read") {
		t.Errorf("%v of a file that was written again", err)
	}
	if id, err := f.Identity(); err == nil {
		t.Errorf("it has the identity %s", id)
	}
}

// What was read from memory has no identity, and a file that was closed gives none.
func TestNoIdentity(t *testing.T) {
	path := "../../../testdata/gguf/llama-q4_0.gguf"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := f.Identity(); id != "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if id, err := f.Identity(); id != "" || err != nil {
		t.Errorf("closed: %q, %v", id, err)
	}
}
