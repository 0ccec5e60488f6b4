package tune

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/search"
)

func entry(t testing.TB, name, target string) (Entry, ir.Problem) {
	t.Helper()
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	c := search.Choice{Lanes: 8, Rows: 2, Block: 2, RowFields: 1, Cells: 1, Flush: 1, Map: "dense", RecordRows: true,
		Value: "affine", Hoist: "flush", Dot: 4, Cols: 1, Scale: "end"}
	return Entry{Product: name, Target: target, Hash: "12", Kernels: []Kernel{{1, c.Trace(p)}, {2, c.Trace(p)}}}, p
}

// What is written reads back, stands in one order, and one entry replaces another of
// the same product and target.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockName)
	l, err := ReadLock(path)
	if err != nil || len(l.Entries) != 0 {
		t.Fatalf("no file: %v, %v", l, err)
	}
	b, p := entry(t, "w4", "amd64/avx2")
	a, _ := entry(t, "w2", "amd64/avx2")
	l.Put(b)
	l.Put(a)
	a.Hash = "34"
	l.Put(a)
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := ReadLock(path)
	if err != nil || !reflect.DeepEqual(read, l) {
		t.Fatalf("read back %+v, %v; want %+v", read, err, l)
	}
	if len(read.Entries) != 2 || read.Entries[0].Hash != "34" {
		t.Errorf("entries %+v", read.Entries)
	}
	if e := read.Find(p, amd64.ByName("avx2")); e == nil || len(e.Uses()) != 2 || e.Uses()[1].Cols != 2 {
		t.Errorf("found %+v", e)
	}
	if e := read.Find(p, amd64.ByName("avx512")); e != nil {
		t.Errorf("found %+v for another target", e)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

func TestLockRefuses(t *testing.T) {
	e, _ := entry(t, "w2", "amd64/avx2")
	none := e
	none.Kernels = nil
	for _, c := range []struct {
		name, want string
		l          Lock
	}{
		{"version", "version 2", Lock{Version: 2}},
		{"twice", "there twice", Lock{1, []Entry{e, e}}},
		{"no kernel", "lacks a kernel", Lock{1, []Entry{none}}},
	} {
		data, err := json.Marshal(c.l)
		if err != nil {
			t.Fatal(err)
		}
		var refused *LockError
		if _, err := ParseLock("x.lock", data); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.lock") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	path := filepath.Join(t.TempDir(), LockName)
	if err := os.WriteFile(path, []byte(`{"version":1,"entries":[],"more":1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLock(path); err == nil || !strings.Contains(err.Error(), "more") {
		t.Errorf("unknown field: %v", err)
	}
	if _, err := ParseLock("x", []byte("{\"version\":1,\"entries\":[]}\n<<<<<<< HEAD\n")); err == nil || !strings.Contains(err.Error(), "behind its end") {
		t.Errorf("a conflict behind the end: %v", err)
	}
}

func FuzzLock(f *testing.F) {
	e, _ := entry(f, "w2", "amd64/avx2")
	text, err := (&Lock{1, []Entry{e}}).Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock("x", data)
		if err != nil {
			return
		}
		text, err := l.Text()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseLock("x", text); err != nil || len(again.Entries) != len(l.Entries) {
			t.Fatalf("what is printed does not read back: %v\n%s", err, text)
		}
	})
}
