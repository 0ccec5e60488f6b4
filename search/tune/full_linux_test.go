package tune

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// On a full disk, here one where files cannot grow, writing fails with an error that says so, and what was
// there stays: the lock as it was, the log with what it had said it has.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv("TMACC_FULL_TEST"); dir != "" {
		fillDisk(t, dir)
		return
	}
	dir := t.TempDir()
	e, _ := entry(t, "w2", "amd64/avx2")
	if err := ChangeLock(filepath.Join(dir, LockName), func(l *Lock) error { l.Put(e); return nil }); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	cmd.Env = append(os.Environ(), "TMACC_FULL_TEST="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := ReadLock(filepath.Join(dir, LockName))
	if err != nil || len(l.Entries) != 1 {
		t.Errorf("lock: %v, %v", l, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
	n := 0
	if err := (Log{filepath.Join(dir, "tuning.db")}).Each(true, func(Run, *Trial) error { n++; return nil }); err != nil || n < 10 {
		t.Errorf("log: %d trials, %v", n, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "small.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the beginning of a log was left: %v", err)
	}
}

// fillDisk writes locks and logs until files cannot grow any more.
func fillDisk(t *testing.T, dir string) {
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	e, _ := entry(t, "w4", "amd64/avx2")
	full := func(err error) bool { return err != nil && strings.Contains(err.Error(), syscall.EFBIG.Error()) }
	limit(1000)
	if err := ChangeLock(filepath.Join(dir, LockName), func(l *Lock) error { l.Put(e); return nil }); !full(err) {
		t.Errorf("lock: %v", err)
	}
	r := &Run{Start: time.Unix(1, 0)}
	if err := (Log{filepath.Join(dir, "small.db")}).Begin(r); !full(err) {
		t.Errorf("new log: %v", err)
	}
	limit(1 << 17)
	l := Log{filepath.Join(dir, "tuning.db")}
	if err := l.Begin(r); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		before := r.Trials
		if err := l.Add(r, Trial{Cost: 1, Genes: []Gene{{Trace: e.Kernels[0].Trace}}}); err != nil {
			if !full(err) || r.Trials != before || before < 10 {
				t.Errorf("after %d trials: %v, %d counted", before, err, r.Trials)
			}
			return
		}
	}
	t.Error("the disk is not full")
}
