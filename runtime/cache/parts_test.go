package cache

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// threeParts are of no byte, of less than a piece and of several pieces.
var threeParts = [][]byte{{}, []byte("some weights"), bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13}, pieceBytes/3)}

func sizesOf(parts [][]byte) (sizes []int64) {
	for _, p := range parts {
		sizes = append(sizes, int64(len(p)))
	}
	return sizes
}

// giving gives parts one after the other, in the same memory.
func giving(parts [][]byte) func(i int) ([]byte, error) {
	var memory []byte
	return func(i int) ([]byte, error) {
		clear(memory)
		memory = append(memory[:0], parts[i]...)
		return memory, nil
	}
}

func openParts(t *testing.T, most int64) *Parts {
	t.Helper()
	p, err := OpenParts(filepath.Join(t.TempDir(), "cache", "weights"), most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// same frees parts and says whether they are those that are wanted.
func same(t *testing.T, got, want [][]byte, free func() error) bool {
	t.Helper()
	if len(got) != len(want) {
		return false
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			return false
		}
	}
	if err := free(); err != nil {
		t.Error(err)
	}
	return true
}

// What was saved is there, for the same identity and sizes only.
func TestParts(t *testing.T) {
	p := openParts(t, MostParts)
	sizes := sizesOf(threeParts)
	if got, _, err := p.Load(identity, sizes); got != nil || err != nil {
		t.Errorf("before: %d parts, %v", len(got), err)
	}
	got, free, err := p.Save(identity, sizes, giving(threeParts))
	if err != nil || !same(t, got, threeParts, free) {
		t.Fatalf("saved %d parts, %v", len(got), err)
	}
	got, free, err = p.Load(identity, sizes)
	if err != nil || !same(t, got, threeParts, free) {
		t.Errorf("%d parts, %v", len(got), err)
	}
	if got, _, err := p.Load([]byte("another"), sizes); got != nil || err != nil {
		t.Errorf("another identity: %d parts, %v", len(got), err)
	}
	var damaged *Damaged
	if got, _, err := p.Load(identity, []int64{0, 12, sizes[2] - 1}); got != nil || !errors.As(err, &damaged) {
		t.Errorf("other sizes: %d parts, %v", len(got), err)
	}
	if left := files(t, p.folder); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A byte that has changed anywhere but in the zeros between parts is found.
func TestDamagedParts(t *testing.T) {
	p := openParts(t, MostParts)
	sizes := sizesOf(threeParts)
	_, free, err := p.Save(identity, sizes, giving(threeParts))
	if err != nil {
		t.Fatal(err)
	}
	free()
	path := filepath.Join(p.Path(), files(t, p.folder)[0])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := newPlan(identity, sizes)
	if err != nil {
		t.Fatal(err)
	}
	at := []int64{plan.size - 1 - (plan.size - plan.parts[2].at - plan.parts[2].size)} // the last byte
	for i := range plan.crcs + 4*len(plan.pieces) + 4 {
		at = append(at, int64(i))
	}
	for _, s := range plan.pieces {
		at = append(at, s.at, s.at+s.size/2, s.at+s.size-1)
	}
	for _, i := range at {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *Damaged
		if got, _, err := p.Load(identity, sizes); got != nil || !errors.As(err, &damaged) || damaged.Path != path {
			t.Fatalf("byte %d: %d parts, %v", i, len(got), err)
		}
	}
}

// A file that is cut while it is compared is damaged, and ends no process.
func TestCutParts(t *testing.T) {
	p := openParts(t, MostParts)
	sizes := sizesOf(threeParts)
	_, free, err := p.Save(identity, sizes, giving(threeParts))
	if err != nil {
		t.Fatal(err)
	}
	free()
	plan, err := newPlan(identity, sizes)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{plan.parts[2].at, 0} { // without the last part, and without a head
		data, unmap, err := p.mapped(fileName(identity), plan.size)
		if err != nil || !plan.verify(data) {
			t.Fatalf("before: %v", err)
		}
		path := filepath.Join(p.Path(), fileName(identity))
		whole := bytes.Clone(data)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if plan.verify(data) && !bytes.Equal(data, whole) { // memory that does not follow the file may be right
			t.Errorf("%d bytes are all", size)
		}
		if err := errors.Join(unmap(), os.WriteFile(path, whole, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// Files with names of others stay, whatever their age and however little room there is.
func TestFilesOfTheUser(t *testing.T) {
	one := [][]byte{make([]byte, pageBytes)}
	p := openParts(t, 3*pageBytes)
	old := time.Now().Add(-2 * unused)
	for _, name := range []string{"model.gguf", "0123456789abcdef", strings.Repeat("x", 40)} {
		path := filepath.Join(p.Path(), name)
		if err := errors.Join(os.WriteFile(path, make([]byte, 2*pageBytes), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	_, free, err := p.Save(identity, sizesOf(one), giving(one))
	if err != nil {
		t.Fatal(err)
	}
	free()
	if n, _, err := p.folder.Size(); n != 1 || err != nil {
		t.Errorf("%d files of ours, %v", n, err)
	}
	if err := p.folder.Clear(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(p.Path()); len(left) != 3 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// What fill says is the error, and nothing is left.
func TestSaveRefuses(t *testing.T) {
	p := openParts(t, 1<<20)
	bad := errors.New("bad tensor")
	for _, c := range []struct {
		sizes []int64
		fill  func(i int) ([]byte, error)
		want  string
	}{
		{[]int64{12}, func(int) ([]byte, error) { return nil, bad }, "bad tensor"},
		{[]int64{12}, func(int) ([]byte, error) { return nil, nil }, "part 0 has 0 bytes, not 12"},
		{[]int64{1 << 20}, nil, "more than all of " + p.Path() + " may take, 1048576"},
		{[]int64{-1}, nil, "a part of -1 bytes"},
		{[]int64{math.MaxInt64 / 5, math.MaxInt64 / 5}, nil, "a part of"},
	} {
		if got, _, err := p.Save(identity, c.sizes, c.fill); got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %d parts, %v; want %s", c.sizes, len(got), err, c.want)
		}
	}
	if left := files(t, p.folder); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// When all files together would take too much, those go that nobody has used for the longest time.
func TestRoom(t *testing.T) {
	one := [][]byte{make([]byte, 3*pageBytes)} // 4 pages with the head
	sizes := sizesOf(one)
	p := openParts(t, 3*4*pageBytes)
	save := func(id string) {
		t.Helper()
		_, free, err := p.Save([]byte(id), sizes, giving(one))
		if err != nil {
			t.Fatal(err)
		}
		free()
	}
	for i, id := range []string{"a", "b", "c"} {
		save(id)
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Join(p.Path(), fileName([]byte(id))), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, free, err := p.Load([]byte("a"), sizes); err != nil {
		t.Fatal(err)
	} else {
		free()
	}
	save("d")
	for id, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if _, err := os.Stat(filepath.Join(p.Path(), fileName([]byte(id)))); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %t", id, err, want)
		}
	}
	n, size, err := p.folder.Size()
	if n != 3 || size != 3*4*pageBytes || err != nil {
		t.Errorf("%d files of %d bytes, %v", n, size, err)
	}
	if err := p.folder.Clear(); err != nil || len(files(t, p.folder)) != 0 {
		t.Errorf("%v, left %v", err, files(t, p.folder))
	}
}

// A link, or a file that others can write, is none.
func TestOthersParts(t *testing.T) {
	if !checksModes {
		t.Skip("modes of files mean nothing here")
	}
	p := openParts(t, MostParts)
	sizes := sizesOf(threeParts)
	for what, change := range map[string]func(path, away string) error{
		"a link":         func(path, away string) error { return errors.Join(os.Rename(path, away), os.Symlink(away, path)) },
		"group-writable": func(path, _ string) error { return os.Chmod(path, 0o620) },
	} {
		_, free, err := p.Save(identity, sizes, giving(threeParts))
		if err != nil {
			t.Fatal(err)
		}
		free()
		if err := change(filepath.Join(p.Path(), fileName(identity)), filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		if got, _, err := p.Load(identity, sizes); got != nil || !errors.As(err, new(*Damaged)) {
			t.Errorf("%s: %d parts, %v", what, len(got), err)
		}
	}
}

// A process that is killed at any step of Save leaves nothing or all.
func TestKilledParts(t *testing.T) {
	const steps = 6 // begin, three parts, mapped, renamed
	sizes := sizesOf(threeParts)
	for at := 1; at <= steps+1; at++ {
		p := openParts(t, MostParts)
		code, out := process(p.Path(), fmt.Sprintf("parts %d", at))
		if want := map[bool]int{true: 7, false: 0}[at <= steps]; code != want {
			t.Fatalf("step %d: exit code %d, %s", at, code, out)
		}
		got, free, err := p.Load(identity, sizes)
		if err != nil || (got != nil) != (at >= steps) || got != nil && !same(t, got, threeParts, free) {
			t.Errorf("step %d: %d parts, %v", at, len(got), err)
		}
	}
}

// Processes that save the same at once all succeed, while others load either nothing or all.
func TestPartsAtOnce(t *testing.T) {
	p := openParts(t, MostParts)
	sizes := sizesOf(threeParts)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if code, out := process(p.Path(), "parts 0"); code != 0 {
				t.Errorf("exit code %d, %s", code, out)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		if got, free, err := p.Load(identity, sizes); err != nil || got != nil && !same(t, got, threeParts, free) {
			t.Fatalf("%d parts, %v", len(got), err)
		}
	}
	if left := files(t, p.folder); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}
