package synthetic

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// little is a model of a few megabytes.
func little(t *testing.T) *Model {
	t.Helper()
	s := qwen3("little", shape{embedding: 128, ff: 256, embed: "Q8_0", matrices: "Q8_0"})
	s.layers, s.words = 2, vocabulary{"qwen2", 600, qwen.special, 0, 2, false}
	m := &Model{tensors: s.tensors()}
	if err := m.draw(1); err != nil {
		t.Fatal(err)
	}
	m.place(&s)
	return m
}

// TestWriteFile: the file has the bytes that the model has where it is read.
func TestWriteFile(t *testing.T) {
	m, last := little(t), int64(0)
	path, err := m.WriteFile(t.Context(), filepath.Join(t.TempDir(), "new"), func(done, total int64) {
		if last = done; total != m.Size() {
			t.Errorf("%d bytes in all", total)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || int64(len(got)) != m.Size() || last != m.Size() {
		t.Fatalf("%d bytes, progress %d, want %d: %v", len(got), last, m.Size(), err)
	}
	want := make([]byte, m.Size())
	if _, err := m.ReadAt(want, 0); err != nil || string(got) != string(want) {
		t.Errorf("the file has other bytes than the model, or %v", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
}

// TestWriteFileFails: a model that cannot be written leaves no file.
func TestWriteFileFails(t *testing.T) {
	m, folder := little(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.WriteFile(ctx, folder, func(int64, int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%d files are left: %v", len(files), err)
	}
	if _, known := freeBytes(folder); known {
		m.size = 1 << 60
		if _, err := m.WriteFile(t.Context(), folder, nil); err == nil || !strings.Contains(err.Error(), "MiB free") || !strings.Contains(err.Error(), "TMACC_CACHE") {
			t.Errorf("error %v", err)
		}
	}
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.WriteFile(t.Context(), file, nil); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("error %v", err)
	}
}
