package model_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// windowed is a model whose first layer has a window, and a text so long that pages of its cache are given back.
func windowed(t *testing.T, opt model.Options) (m *model.Model, tokens []int32) {
	x := oracle.NewTiny("gemma3", oracle.Same("F32"))
	x.Context = 1000
	x.Set("attention.sliding_window", uint32(20))
	return tiny(t, x, opt), text(900, 5)
}

// TestWindowsSameBits: how a text is divided changes no bit, though pages that no window reaches are given back.
func TestWindowsSameBits(t *testing.T) {
	threads(t, 3)
	m, tokens := windowed(t, model.Options{Threads: 1, Chunk: 1000})
	want := bits(inPieces(t, m, tokens, len(tokens)))
	for threads, piece := range map[int]int{1: 7, 2: 1, 3: 300} {
		m, _ := windowed(t, model.Options{Threads: threads, Chunk: 64})
		if have := bits(inPieces(t, m, tokens, piece)); !equal(have, want) {
			t.Errorf("%d threads, pieces of %d: other bits", threads, piece)
		}
	}
}

// TestWindowsMemory: the cache of a layer with a window has pages for the window, for what lies 512 positions before it and for one step, and
// one that is needed in part. They suffice.
func TestWindowsMemory(t *testing.T) {
	opt := model.Options{Chunk: 50}
	m, tokens := windowed(t, opt)
	page := int64(64 * 2 * 64 * 2)                                    // keys and values of one head
	if have, want := m.Memory().Cache, page*(16+10+1); have != want { // 1000 positions; 20 + 512 + 50
		t.Errorf("a cache of %d bytes, want %d", have, want)
	}
	opt.MemoryLimit = m.Memory().Total()
	for _, piece := range []int{1, 64, 900} {
		m, _ := windowed(t, opt)
		s := oracle.NewSession(t, m)
		for part := range slices.Chunk(slices.Concat(tokens, tokens[:100]), piece) {
			oracle.Feed(t, s, model.WantNone, part)
		}
	}
}

// TestWindowsBack: a sequence that goes back further than its cache reaches computes tokens again, unless there was a snapshot. What it
// computes then does not depend on that, nor on sequences that share its pages.
func TestWindowsBack(t *testing.T) {
	m, tokens := windowed(t, model.Options{})
	rest := text(90, 3)
	want := map[int][][]uint32{}
	for _, n := range []int{0, 1, 64, 200, 256, 300, 400, 640, 899} {
		want[n] = bits(inPieces(t, m, slices.Concat(tokens[:n], rest), 2000)[n:])
	}
	for n, want := range want {
		s := oracle.NewSession(t, m)
		oracle.Feed(t, s, model.WantNone, tokens[:200])
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		oracle.Feed(t, s, model.WantNone, tokens[200:600])
		early, err := s.Copy()
		if err != nil {
			t.Fatal(err)
		}
		oracle.Feed(t, s, model.WantNone, tokens[600:])
		late, err := s.Copy()
		if err != nil {
			t.Fatal(err)
		}
		oracle.Feed(t, early, model.WantNone, tokens[600:])
		for i, x := range []*model.Session{s, early, late} {
			for range 2 {
				if err := x.Truncate(context.Background(), n); err != nil {
					t.Fatal(err)
				}
				if have := bits(oracle.Feed(t, x, model.WantAll, rest)); !equal(have, want) {
					t.Errorf("back to %d, session %d: other bits", n, i)
				}
			}
			x.Close()
		}
	}
}

// TestWindowsReach: a cache keeps 512 positions before a window, and what it had when a snapshot was taken. Anything else is computed again,
// which a context that is done does not allow.
func TestWindowsReach(t *testing.T) {
	m, tokens := windowed(t, model.Options{})
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for n, reached := range map[int]bool{899: true, 400: true, 300: false, 200: true, 199: false, 0: true} {
		s := oracle.NewSession(t, m)
		oracle.Feed(t, s, model.WantNone, tokens[:200])
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		oracle.Feed(t, s, model.WantNone, tokens[200:])
		oracle.Feed(t, s, model.WantNone, tokens[:1])
		if err := s.Truncate(done, n); (err == nil) != reached {
			t.Errorf("back to %d: error %v", n, err)
		}
	}
}
