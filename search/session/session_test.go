package session

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// small is a session of a small product, which takes few seconds.
func small(t *testing.T, o Options) *Session {
	t.Helper()
	if !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
	here := measure.Targets()
	if len(here) == 0 {
		t.Skip(measure.ErrNoTarget)
	}
	o.Problem, _ = w2OnAVX2(t)
	o.Target = here[0]
	o.Purposes = []tune.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}
	o.Only, o.Log, o.Lock, o.Seed = true, NoLog, filepath.Join(t.TempDir(), tune.LockName), 1
	o.Probing = timing.Options{Rounds: 1}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A session tries its own default schedules, searches, and puts what it decides for into the lock.
func TestSession(t *testing.T) {
	kinds := map[string]int{}
	s := small(t, Options{Trials: 8, Events: func(e Event) {
		switch e.(type) {
		case Step:
			kinds["step"]++
		case Progress:
			kinds["progress"]++
		case Better:
			kinds["better"]++
		}
	}})
	x, err := s.Try(t.Context(), s.Default()[0].Trace)
	if err != nil || x.Cost <= 0 || len(x.Figures) != 1 || x.Figures[0].Ns <= 0 || x.Figures[0].DefaultNs <= 0 {
		t.Errorf("%+v, %v", x, err)
	}
	f, err := s.Search(t.Context())
	if err != nil || f.Trials != 8 || f.Ended != "trials" || len(f.Best) == 0 || f.Logged {
		t.Fatalf("%+v, %v", f, err)
	}
	p, err := s.Product(t.Context(), f)
	if err != nil || len(p.Variants) != 1 || len(p.Variants[0].Kernels) == 0 || p.Variants[0].Prepare == nil {
		t.Errorf("%+v, %v", p, err)
	}
	if err := s.Confirm(f); err != nil {
		t.Fatal(err)
	}
	d, err := s.Decide(f)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := s.Save(d)
	l, unread := tune.ReadLock(s.Lock)
	if err != nil || unread != nil || (saved.Lock != "") != (d.Outcome == Locked) || len(l.Entries) != 0 != (d.Outcome == Locked) {
		t.Errorf("%v, %v, %v, %v: %+v", d, saved, err, unread, l)
	}
	if kinds["step"] < 3 || kinds["progress"] == 0 || kinds["better"] == 0 {
		t.Errorf("events %v", kinds)
	}
	kinds["better"], s.Trials = 0, 2
	if f, err := s.Search(t.Context()); err != nil || len(f.Best) == 0 || kinds["better"] == 0 {
		t.Errorf("another search: %+v, %v, events %v", f, err, kinds)
	}
}

// A search whose context ends returns what it has, and a session that cannot begin returns the error of the context.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := small(t, Options{Limit: time.Minute, Events: func(e Event) {
		if p, ok := e.(Progress); ok && p.Measured > 0 {
			stop()
		}
	}})
	f, err := s.Search(ctx)
	if err != nil || !f.Interrupted || f.Ended != "interrupted" || len(f.Best) == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Open(ctx, s.Options); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A log that cannot be continued ends a search that is to resume, before anything is measured.
func TestNotResumed(t *testing.T) {
	s := small(t, Options{Resume: true})
	s.Log = t.TempDir()
	var failed *ResumeError
	if f, err := s.Search(t.Context()); f != nil || !errors.As(err, &failed) {
		t.Errorf("%v, %v", f, err)
	}
}
