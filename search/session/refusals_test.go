package session_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/tests/chosen"
)

// TestRefusals: purposes that no product has, no traces, no search and no decision are errors that say so.
func TestRefusals(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	for want, purpose := range map[string]session.Purpose{
		`the mode "l9": want dram, l3 or l2`:                    {Mode: "l9", M: 512, N: 1, K: 2048},
		"0 rows, 2048 columns and 1 activations":                {Mode: "l2", M: 0, N: 1, K: 2048},
		"512 rows, 0 columns and 1 activations":                 {Mode: "l2", M: 512, N: 1, K: 0},
		"512 rows, 2048 columns and -1 activations":             {Mode: "l2", M: 512, N: -1, K: 2048},
		"the product takes K up to 131072":                      {Mode: "l2", M: 1, N: 1, K: 1 << 20},
		"too large to be measured: at most 1073741824 elements": {Mode: "dram", M: 1 << 40, N: 1, K: 2048},
	} {
		s, err := session.Open(t.Context(), session.Options{Problem: p, Log: session.NoLog, Purposes: []session.Purpose{purpose}})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", purpose, err, want)
		}
	}
	s, err := session.Open(t.Context(), session.Options{Problem: p, Log: session.NoLog, Purposes: []session.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Try(context.Background()); err == nil || !strings.Contains(err.Error(), "give at least one trace") {
		t.Errorf("no traces: %v", err)
	}
	if _, err := s.Product(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "has found no schedule") {
		t.Errorf("no search: %v", err)
	}
	if _, err := s.Save(nil); err == nil || !strings.Contains(err.Error(), "nothing was decided") {
		t.Errorf("no decision: %v", err)
	}
}

// TestFromRefused: schedules to begin with that a search would leave out are errors, and the ones that it takes are none.
func TestFromRefused(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	target := targets.ByName("amd64/avx2")
	all, err := chosen.Layouts(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	first, matrix := map[int]schedule.Trace{}, ""
	var other schedule.Trace
	for _, uses := range all {
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			switch {
			case err != nil:
				t.Fatal(err)
			case matrix == "" || k.Buffers() == matrix:
				first[u.Cols], matrix = u.Trace, k.Buffers()
			case other == nil && u.Cols == 1:
				other = u.Trace
			}
		}
	}
	if first[1] == nil || first[4] == nil || other == nil {
		t.Fatalf("%d layouts, columns of the first: %v", len(all), first)
	}
	wide, err := chosen.Product(t.Context(), p, targets.ByName("amd64/avx512vbmi"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from []schedule.Trace
		want string // "": none
	}{
		{[]schedule.Trace{first[1], first[4]}, ""},
		{[]schedule.Trace{first[1]}, ""},
		{[]schedule.Trace{first[1][:3]}, "schedule 1 to begin with: "},
		{[]schedule.Trace{first[4], first[1]}, "kernels of 4 columns for 1 activations"},
		{[]schedule.Trace{other, first[4]}, "are not for one packed matrix"},
		{[]schedule.Trace{wide[0].Trace}, "schedule 1 to begin with: "},
	} {
		s, err := session.Open(t.Context(), session.Options{Problem: p, Target: target, Log: session.NoLog, From: c.from,
			Purposes: []session.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}, {Mode: "l2", M: 64, N: 4, K: 256}}})
		if err == nil {
			s.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d schedules: %v, want %q", len(c.from), err, c.want)
		}
	}
}

// TestTuneNothing: a search that measured no schedule decides and saves nothing.
func TestTuneNothing(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(t.TempDir(), "tmacc.lock")
	s, err := session.Open(t.Context(), session.Options{Problem: p, Log: session.NoLog, Lock: lock, Scratch: true, Limit: 1,
		Purposes: []session.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, err := s.Tune(t.Context()); !errors.Is(err, session.ErrNothing) || d != nil {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock was written: %v", err)
	}
}
