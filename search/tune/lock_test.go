package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/search/space"
)

func entry(t testing.TB, name, target string) (Entry, ir.Problem) {
	t.Helper()
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	sp, err := space.For(p, amd64.ByName("avx2"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := sp.Columns(1).First()
	if err != nil {
		t.Fatal(err)
	}
	return Entry{Product: name, Target: target, Problem: ProblemHash(p), Figures: []Figures{{Mode: "l2", M: 512, N: 1, K: 2048, Ns: 3, DefaultNs: 4, Ceilings: Ceilings{ClockGHz: 3}}, {Mode: "l2", M: 512, N: 4, K: 2048, Ns: 0, DefaultNs: 9}},
		Kernels: []Kernel{{1, "12", c.Trace()}, {2, "34", c.Trace()}}}, p
}

// A written lock reads back, stands in one order, and one entry replaces another of
// the same product and target.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockName)
	l, err := ReadLock(path)
	if err != nil || len(l.Entries) != 0 {
		t.Fatalf("no file: %v, %v", l, err)
	}
	b, p := entry(t, "w4", "amd64/avx2")
	a, _ := entry(t, "w2", "amd64/avx2")
	for _, e := range []Entry{b, a, a} {
		e.Compiler = fmt.Sprint("v", len(l.Entries))
		l.Put(e)
		if err := ChangeLock(path, func(l *Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	read, err := ReadLock(path)
	if err != nil || !reflect.DeepEqual(read, l) {
		t.Fatalf("read back %+v, %v; want %+v", read, err, l)
	}
	if len(read.Entries) != 2 || read.Entries[0].Compiler != "v2" {
		t.Errorf("entries %+v", read.Entries)
	}
	e := read.Find(p, amd64.ByName("avx2"))
	if e == nil || len(e.Uses()) != 2 || e.Uses()[1].Cols != 2 || !e.For(p) {
		t.Fatalf("found %+v", e)
	}
	other := p
	other.Weight.Levels = append([]int{-100}, p.Weight.Levels[1:]...)
	if e.For(other) {
		t.Error("other levels are the same problem")
	}
	p.MaxK = 1 << 20
	if !e.For(p) {
		t.Error("a larger K is another problem")
	}
	if e := read.Find(p, amd64.ByName("avx512")); e != nil {
		t.Errorf("found %+v for another target", e)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

// Processes that change a lock at once lose nothing, also if one was killed in the middle; a change that
// fails leaves the lock as it was.
func TestLockShared(t *testing.T) {
	const each = 20
	if path := os.Getenv("TMACC_LOCK_TEST"); path != "" {
		for i := range each {
			err := ChangeLock(path, func(l *Lock) error {
				e, _ := entry(t, fmt.Sprint("w", 2+i%2), "amd64/avx2")
				e.Target = fmt.Sprint(os.Getpid(), "-", i)
				l.Put(e)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	path := filepath.Join(t.TempDir(), LockName)
	if err := os.WriteFile(path+".new", []byte("{"), 0o666); err != nil { // of a process that was killed
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path+".new", long, long); err != nil {
		t.Fatal(err)
	}
	var processes []*exec.Cmd
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockShared$")
		cmd.Env = append(os.Environ(), "TMACC_LOCK_TEST="+path)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, cmd)
	}
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	l, err := ReadLock(path)
	if err != nil || len(l.Entries) != 3*each {
		t.Fatalf("%d entries, %v; want %d", len(l.Entries), err, 3*each)
	}
	no := errors.New("no")
	if err := ChangeLock(path, func(l *Lock) error { l.Entries = nil; return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if again, err := ReadLock(path); err != nil || len(again.Entries) != 3*each {
		t.Errorf("%d entries after a change that failed, %v", len(again.Entries), err)
	}
}

// A process that slept while it changed the lock, so that another took it for dead, does not tear it.
func TestLockSlept(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockName)
	mine, _ := entry(t, "w2", "amd64/avx2")
	other, _ := entry(t, "w4", "amd64/avx2")
	put := func(e Entry) func(*Lock) error { return func(l *Lock) error { l.Put(e); return nil } }
	err := ChangeLock(path, func(l *Lock) error {
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path+".new", long, long); err != nil {
			return err
		}
		if err := ChangeLock(path, put(other)); err != nil {
			return err
		}
		return put(mine)(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ReadLock(path)
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Product != mine.Product {
		t.Errorf("%+v, %v", l, err)
	}
	if err := ChangeLock(path, put(other)); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("left: %v, %v", files, err)
	}
}

func TestLockRefuses(t *testing.T) {
	e, _ := entry(t, "w2", "amd64/avx2")
	none, twice, nameless, negative, unmeasured := e, e, e, e, e
	negative.ActGroup = -3
	unmeasured.Figures = []Figures{{Mode: "l2", M: 512, N: 1, K: 2048, Ns: -5, DefaultNs: 7}}
	none.Kernels = nil
	twice.Kernels = []Kernel{e.Kernels[1], e.Kernels[0]}
	nameless.Problem = ""
	for _, c := range []struct {
		name, want string
		l          Lock
	}{
		{"version", "version 2", Lock{Version: 2}},
		{"twice", "there twice", Lock{1, []Entry{e, e}}},
		{"no kernel", "lacks a kernel", Lock{1, []Entry{none}}},
		{"no problem", "lacks a kernel or the hash", Lock{1, []Entry{nameless}}},
		{"activations", "act_group of -3", Lock{1, []Entry{negative}}},
		{"figures", "figures 0 that nothing measures: ns is -5", Lock{1, []Entry{unmeasured}}},
		{"widths", "1 columns behind one of 2", Lock{1, []Entry{twice}}},
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
	if _, err := ParseLock("x", []byte("{\"version\":1,\"entries\":[]}\n<<<<<<< HEAD\n")); err == nil || !strings.Contains(err.Error(), "has the marks of a merge conflict") {
		t.Errorf("a conflict behind the end: %v", err)
	}
}

// A lock that was edited by hand, or merged, says what it says: no field of it is left out, or taken for another one.
func TestLockFields(t *testing.T) {
	e, _ := entry(t, "w2", "amd64/avx2")
	data, err := (&Lock{1, []Entry{e}}).Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, with, want string }{
		{`"version": 1`, `"version": 1, "more": 1`, `unknown field "more"`},
		{`"version"`, `"Version"`, `unknown field "Version"`},
		{`"version": 1`, `"version": 1, "version": 1`, `field "version" is there twice`},
		{`"entries": [`, `"entries": [], "entries": [`, `field "entries" is there twice`},
		{`"target":`, `"target":"amd64/avx512","target":`, `field "target" is there twice`},
		{`"act_group"`, `"Act_group"`, `unknown field "Act_group"`},
		{`"mode"`, `"modes"`, `unknown field "modes"`},
		{`"ns":0`, `"ns":0,"NS":1`, `unknown field "NS"`},
		{`"ns":0`, `"ns":1e400`, `entries[0].figures[1].ns is JSON number 1e400; want a number that 64 bits hold`},
		{`"ns":0`, `"ns":"0"`, `entries[0].figures[1].ns is JSON string; want a number`},
		{`"ns":0`, `"ns":-5`, `has figures 1 that nothing measures: ns is -5`},
		{`"version": 1`, `"version": 2, "more": 1`, `was written by a newer tmacc: it has version 2 of the format`},
		{`"clock_ghz":3`, `"clock_ghz":3,"clock_ghz":4`, `field "clock_ghz" is there twice`},
		{`"read_gb_s"`, `"Read_GB_s"`, `unknown field "Read_GB_s"`},
		{`"ns":0`, `"ns":0,"Ceilings":{}`, `unknown field "Ceilings"`},
		{`"cpu"`, `"CPU"`, `unknown field "CPU"`},
		{`"l2":0`, `"l2":0,"l2":1`, `field "l2" is there twice`},
		{`"cols":1`, `"cols":1,"cols":4`, `field "cols" is there twice`},
		{`"trace"`, `"Trace"`, `unknown field "Trace"`},
		{`"cols":1`, `"cols":"1"`, `entry 0 (w2 on amd64/avx2), kernel 0: `},
		{`"by":`, `"By":`, `entry 0 (w2 on amd64/avx2), kernel 0: trace: step 2: split: unknown field "By"`},
		{`"by":`, `"by":8,"by":`, `trace: step 2: split: field "by" is there twice`},
	} {
		if !strings.Contains(string(data), c.what) {
			t.Fatalf("no %s in\n%s", c.what, data)
		}
		var refused *LockError
		_, err := ParseLock("x.lock", []byte(strings.Replace(string(data), c.what, c.with, 1)))
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "x.lock: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.with, err, c.want)
		}
	}
	for _, deep := range []string{strings.Repeat("[", 1<<20), `{"entries":` + strings.Repeat("[", 1<<20)} {
		if _, err := ParseLock("x", []byte(deep)); err == nil {
			t.Error("deeply nested brackets are a lock")
		}
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
			t.Fatalf("the printed lock does not read back: %v\n%s", err, text)
		}
	})
}
