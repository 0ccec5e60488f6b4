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
	"github.com/tmacc/tmacc/search/session"
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
