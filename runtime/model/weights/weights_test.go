package weights_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/weights"
	"github.com/tmacc/tmacc/tests/oracle"
)

// copied is a copy of a small model's file of the repository, or a tiny model whose matrices have a type: "Q4_0", or "Q4_0 3 experts".
func copied(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	var data []byte
	var err error
	if strings.HasSuffix(name, ".gguf") {
		data, err = os.ReadFile(filepath.Join("../../../testdata/gguf", name))
	} else {
		typeName, of, _ := strings.Cut(name, " ")
		experts, _ := strconv.Atoi(strings.TrimSuffix(of, " experts"))
		data = oracle.NewTinyExperts("llama", experts, oracle.Same(typeName)).Bytes()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// store opens a store.
func store(t *testing.T, folder string) *weights.Store {
	t.Helper()
	s, err := weights.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// logits opens the model at path with a store in a folder, nil: none, and computes some.
func logits(t *testing.T, path string, packed model.Packed) []float32 {
	t.Helper()
	return logitsOf(t, path, model.Options{Packed: packed})
}

func logitsOf(t *testing.T, path string, opt model.Options) []float32 {
	t.Helper()
	m, err := model.Open(path, model.PureGo{}, opt)
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
	return slices.Clone(items[0].Logits)
}

// files lists what lies in a folder.
func files(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// models are of low-bit weights, of heads whose rows are reordered, of floats, and of stacks of matrices.
var models = []string{"bitnet-tq2_0.gguf", "llama-q4_0.gguf", "F16", "BF16", "I2_S", "Q4_0 3 experts", "BF16 3 experts"}

// The first time matrices are saved, the second time they are mapped, with the logits of a model that is not kept.
func TestStore(t *testing.T) {
	for _, name := range models {
		folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, name)
		want := logits(t, path, nil)
		for i, saved := range []bool{true, false, false} {
			s := store(t, folder)
			if got := logits(t, path, s); !slices.Equal(got, want) || (s.Saved() > 0) != saved || s.Err() != nil {
				t.Errorf("%s, start %d: saved %d bytes, %v, or other logits", name, i+1, s.Saved(), s.Err())
			}
		}
	}
}

// Weights with another head are other ones.
func TestHeads(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, "F16")
	for i, saved := range []bool{true, false} {
		for _, head := range []string{"", "Q8_0", "Q6_K"} {
			want := logitsOf(t, path, model.Options{Head: head})
			s := store(t, folder)
			if got := logitsOf(t, path, model.Options{Head: head, Packed: s}); !slices.Equal(got, want) || (s.Saved() > 0) != saved || s.Err() != nil {
				t.Errorf("head %q, start %d: saved %d bytes, %v, or other logits", head, i+1, s.Saved(), s.Err())
			}
		}
	}
	if n := len(files(t, folder)); n != 3 {
		t.Errorf("%d models, want 3", n)
	}
}

// A file that is damaged in any part is packed again, which says so once, and is saved again.
func TestDamaged(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, models[0])
	want := logits(t, path, store(t, folder))
	file := files(t, folder)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func(b []byte) []byte{
		"cut":          func(b []byte) []byte { return b[:len(b)/2] },
		"empty":        func(b []byte) []byte { return nil },
		"longer":       func(b []byte) []byte { return append(b, 0) },
		"zeros":        func(b []byte) []byte { clear(b[len(b)/2:]); return b },
		"a head's bit": func(b []byte) []byte { b[12] ^= 1; return b },
		"a bit":        func(b []byte) []byte { b[len(b)*3/4] ^= 1; return b },
		"a last bit":   func(b []byte) []byte { b[bytes.LastIndexFunc(b, func(r rune) bool { return r != 0 })] ^= 128; return b },
	} {
		if err := os.WriteFile(file, damage(bytes.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := store(t, folder)
		got := logits(t, path, s)
		if damaged := new(*cache.Damaged); !errors.As(s.Err(), damaged) || (*damaged).Path != file || s.Saved() == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %v, saved %d bytes, or other logits", what, s.Err(), s.Saved())
		}
		s = store(t, folder)
		if logits(t, path, s); s.Err() != nil || s.Saved() != 0 {
			t.Errorf("%s: once more %v, saved %d bytes", what, s.Err(), s.Saved())
		}
	}
}

// A file that has changed in a byte that nobody looks at is another model, also with its old time; one that has not is the same.
func TestChanged(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, models[1])
	logits(t, path, store(t, folder))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x := f.Tensor("blk.0.ffn_up.weight")
	f.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[x.Offset+x.Size/3] ^= 1
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	want := logits(t, path, nil)
	s := store(t, folder)
	if got := logits(t, path, s); s.Saved() == 0 || !slices.Equal(got, want) {
		t.Errorf("saved %d bytes of the changed file, or stale logits", s.Saved())
	}
	if n := len(files(t, folder)); n != 2 {
		t.Errorf("%d models", n)
	}
}

// meddling is a store during whose Save something happens.
type meddling struct {
	*weights.Store
	before func(part int)
}

func (s meddling) Save(identity []byte, sizes []int64, fill func(i int) ([]byte, error)) ([][]byte, func() error) {
	return s.Store.Save(identity, sizes, func(i int) ([]byte, error) { s.before(i); return fill(i) })
}

// A file that changes while it is packed is no model, and nothing of it is kept.
func TestChangedMeanwhile(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, models[0])
	s := meddling{store(t, folder), func(part int) {
		if now := time.Now(); part == 3 {
			os.Chtimes(path, now, now.Add(time.Hour))
		}
	}}
	if m, err := model.Open(path, model.PureGo{}, model.Options{Packed: s}); err == nil || !strings.Contains(err.Error(), "was changed while it was read") {
		m.Close()
		t.Errorf("%v", err)
	}
	if all := files(t, folder); len(all) != 0 {
		t.Errorf("kept %v", all)
	}
}

// A file that changes while the rest of a kept model is read, or while one that is not kept is, is no model either.
func TestChangedLater(t *testing.T) {
	for what, packed := range map[string]model.Packed{"kept": store(t, filepath.Join(t.TempDir(), "weights")), "not kept": nil} {
		path := copied(t, models[0])
		logits(t, path, packed)
		change := func(int64, int64) { os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)) }
		m, err := model.Open(path, model.PureGo{}, model.Options{Packed: packed, Progress: change})
		if err == nil || !strings.Contains(err.Error(), "was changed while it was read") {
			m.Close()
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A tensor that cannot be packed is the error of the model, and leaves nothing.
func TestBadTensor(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, models[0])
	s := meddling{store(t, folder), func(part int) {
		if part == 3 {
			os.Truncate(path, 1<<12)
		}
	}}
	if m, err := model.Open(path, model.PureGo{}, model.Options{Packed: s}); err == nil || !strings.Contains(err.Error(), "tensor") {
		m.Close()
		t.Errorf("%v", err)
	}
	if all := files(t, folder); len(all) != 0 {
		t.Errorf("left %v", all)
	}
}

// Where nothing can be kept, such as without room, the model runs all the same.
func TestNoRoom(t *testing.T) {
	folder, path := filepath.Join(t.TempDir(), "weights"), copied(t, models[0])
	want := logits(t, path, nil)
	s := store(t, folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if got := logits(t, path, s); !slices.Equal(got, want) || s.Err() == nil || s.Saved() != 0 {
		t.Errorf("%v, saved %d bytes, or other logits", s.Err(), s.Saved())
	}
}

// A folder that others can write is refused.
func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	var unsafe *cache.Unsafe
	if _, err := weights.Open(folder); !errors.As(err, &unsafe) {
		t.Errorf("%v, want a cache.Unsafe", err)
	}
}

// A model in memory is not kept.
func TestInMemory(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/gguf/" + models[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "weights")
	m, err := model.New(f, model.PureGo{}, model.Options{Packed: store(t, folder)})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if all := files(t, folder); len(all) != 0 {
		t.Errorf("kept %v", all)
	}
}
