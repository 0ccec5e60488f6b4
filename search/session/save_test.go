package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// What cannot be locked, because its folder cannot be made, is in the error; so is the reason in a session without a lock.
func TestNotSaved(t *testing.T) {
	s := newSettler(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for lock, want := range map[string]error{filepath.Join(file, tune.LockName): nil, "": errNoLock} {
		s.Lock = lock
		d := &Decision{Outcome: Locked, judged: &judged{s.found, besides(s.Purposes, 0.5), 1}}
		saved, err := s.Save(d)
		var failed *SaveError
		if !errors.As(err, &failed) || saved.Lock != "" || want != nil && !errors.Is(err, want) {
			t.Fatalf("%q: %v, %v", lock, saved, err)
		}
		if len(failed.Traces) != len(s.found.Kernels) || failed.Traces[0].String() != s.found.Kernels[0].Schedule.Trace.String() {
			t.Errorf("%q: %v", lock, failed.Traces)
		}
		d.Outcome = Removed
		if _, err := s.Save(d); !errors.As(err, &failed) || len(failed.Traces) != 0 {
			t.Errorf("%q: %v", lock, err)
		}
	}
}

// To keep the default schedules removes the entry of the product, also one that this compiler cannot make any more.
func TestKeepDefault(t *testing.T) {
	s := small(t, Options{})
	keep := func() Outcome {
		t.Helper()
		d, err := s.Keep(t.Context(), false, s.Default()[0].Trace)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(d); err != nil {
			t.Fatal(err)
		}
		return d.Outcome
	}
	if o := keep(); o != None {
		t.Errorf("without a lock: %s", o)
	}
	old := tune.Entry{Product: s.Problem.Name(), Target: s.Target.Machine().Name, Problem: "of another format",
		Kernels: []tune.Kernel{{Cols: 1, Hash: "00", Trace: schedule.Trace{schedule.Tensorize{Loop: "k", To: "dot2"}}}}}
	if err := tune.ChangeLock(s.Lock, func(l *tune.Lock) error { l.Put(old); return nil }); err != nil {
		t.Fatal(err)
	}
	o := keep()
	if l, err := tune.ReadLock(s.Lock); err != nil || o != Removed || len(l.Entries) != 0 {
		t.Errorf("%s, %v: %+v", o, err, l)
	}
}
