package weights

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model"
)

// copied is a copy of a small model's file.
func copied(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/gguf/bitnet-tq2_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// store is that of the model at path.
func store(t *testing.T, folder, path string) (*Store, *gguf.File) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s, err := Open(folder, f)
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// logits opens the model with its store, and computes some.
func logits(t *testing.T, folder, path string) ([]float32, *Store) {
	t.Helper()
	s, f := store(t, folder, path)
	m, err := model.New(f, model.PureGo{}, model.Options{Packed: s})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	items := []model.Item{{Session: session, Tokens: []int32{3, 1, 4}}}
	if err := m.Forward(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(items[0].Logits), s
}

// The first time matrices are saved, the second time they are mapped, with the same logits.
func TestStore(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t)
	first, s := logits(t, folder, path)
	if s.Saved() == 0 || s.Err() != nil {
		t.Fatalf("saved %d bytes, %v", s.Saved(), s.Err())
	}
	again, s := logits(t, folder, path)
	if s.Saved() != 0 || !slices.Equal(first, again) {
		t.Errorf("saved %d bytes again, or other logits", s.Saved())
	}
}

// A matrix whose file is damaged or cut is packed again, and saved again.
func TestDamaged(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t)
	first, s := logits(t, folder, path)
	files, err := filepath.Glob(filepath.Join(s.Folder(), "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if err := errors.Join(os.WriteFile(files[0], []byte("nothing"), 0o600), os.Truncate(files[1], 100), os.Remove(files[2])); err != nil {
		t.Fatal(err)
	}
	again, s := logits(t, folder, path)
	if s.Saved() == 0 || !slices.Equal(first, again) {
		t.Errorf("saved %d bytes, or other logits", s.Saved())
	}
	if _, s = logits(t, folder, path); s.Saved() != 0 {
		t.Errorf("saved %d bytes once more", s.Saved())
	}
}

// A file that has changed, in its time or in a tensor, is another model.
func TestChanged(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t)
	first, f := store(t, folder, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	end := f.Tensors[5].Offset + f.Tensors[5].Size - 1
	var last [1]byte
	if _, err := file.ReadAt(last[:], end); err != nil {
		t.Fatal(err)
	}
	last[0] ^= 1
	if _, err := file.WriteAt(last[:], end); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	second, _ := store(t, folder, path)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	third, _ := store(t, folder, path)
	if a, b, c := first.Folder(), second.Folder(), third.Folder(); a == b || b == c || a == c {
		t.Errorf("folders %s, %s, %s", a, b, c)
	}
}

// Without room nothing is kept, and the model runs all the same.
func TestNoRoom(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t)
	s, _ := store(t, folder, path)
	if err := os.RemoveAll(s.Folder()); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := model.New(f, model.PureGo{}, model.Options{Packed: s})
	if err != nil || s.Err() == nil || s.Saved() != 0 {
		t.Errorf("%v, saved %d bytes, %v", err, s.Saved(), s.Err())
	}
	m.Close()
}

// Models out of use go, those in use stay.
func TestUnused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "weights")
	a, _ := store(t, folder, copied(t))
	b, _ := store(t, folder, copied(t))
	old := time.Now().Add(-unused - time.Hour)
	if err := os.Chtimes(a.Folder(), old, old); err != nil {
		t.Fatal(err)
	}
	store(t, folder, copied(t))
	if _, err := os.Stat(a.Folder()); !os.IsNotExist(err) {
		t.Errorf("a model out of use: %v", err)
	}
	if _, err := os.Stat(b.Folder()); err != nil {
		t.Error(err)
	}
}

// A folder that others can write is refused, and so is a model that lies in no file.
func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(copied(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var unsafe *cache.Unsafe
	if _, err := Open(folder, f); !errors.As(err, &unsafe) {
		t.Errorf("%v, want a cache.Unsafe", err)
	}
	data, err := os.ReadFile("../../../testdata/gguf/bitnet-tq2_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	read, err := gguf.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.TempDir(), read); err == nil {
		t.Error("a model in memory has a store")
	}
}
