package model_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/oracle"
)

// tiny opens a tiny model.
func tiny(t testing.TB, x *oracle.Tiny, opt model.Options) *model.Model {
	t.Helper()
	f, err := x.File()
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(f, model.PureGo{}, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// mixture gives the matrices of a model several types.
func mixture(name string) string {
	types := []string{"Q8_0", "Q4_0", "F16", "Q6_K", "F32", "BF16"}
	return types[len(name)%len(types)]
}

// text is n tokens of a tiny model.
func text(n, seed int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32((i*i*7 + i*13 + seed) % 70)
	}
	return tokens
}

// bits are the bits of rows of logits.
func bits(rows [][]float32) (out [][]uint32) {
	for _, row := range rows {
		var b []uint32
		for _, x := range row {
			b = append(b, math.Float32bits(x))
		}
		out = append(out, b)
	}
	return out
}

// threads sets GOMAXPROCS until the test ends.
func threads(t testing.TB, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// inPieces are all logits of tokens that are fed in pieces of n.
func inPieces(t *testing.T, m *model.Model, tokens []int32, n int) (rows [][]float32) {
	s := oracle.NewSession(t, m)
	for piece := range slices.Chunk(tokens, n) {
		rows = append(rows, oracle.Feed(t, s, model.WantAll, piece)...)
	}
	return rows
}

// tinyModels are an architecture each, with a type of caches.
var tinyModels = []struct {
	arch    string
	experts int
	cache   model.CacheType
}{
	{"llama", 0, model.CacheF16},
	{"qwen2", 0, model.CacheF32},
	{"qwen3", 0, model.CacheQ8},
	{"mistral3", 0, model.CacheF16},
	{"smollm3", 0, model.CacheF32},
	{"gemma", 0, model.CacheF16},
	{"gemma2", 0, model.CacheF32},
	{"gemma3", 0, model.CacheQ8},
	{"phi3", 0, model.CacheF16},
	{"bitnet", 0, model.CacheF32},
	{"bitnet-b1.58", 0, model.CacheF16},
	{"llama", 4, model.CacheF16},
	{"qwen3moe", 9, model.CacheF32},
	{"qwen2moe", 4, model.CacheF16},
}

// TestSameBits: logits do not depend on threads, on how a prompt is divided, on the batch, nor on the size of a step. Of the
// architectures some are drawn, or all with TMACC_LONG=1.
func TestSameBits(t *testing.T) {
	threads(t, 3)
	const n = 150 // more than two pages
	for _, of := range drawn.Some(drawn.New(t), 4, tinyModels) {
		t.Run(fmt.Sprintf("%s/%d", of.arch, of.experts), func(t *testing.T) {
			x, cache := oracle.NewTinyExperts(of.arch, of.experts, mixture), of.cache
			want := bits(inPieces(t, tiny(t, x, model.Options{Threads: 1, Cache: cache}), text(n, 1), n))
			for threads, piece := range map[int]int{1: 7, 2: 1, 3: n} {
				m := tiny(t, x, model.Options{Threads: threads, Cache: cache, Chunk: 40 + threads})
				if have := bits(inPieces(t, m, text(n, 1), piece)); !equal(have, want) {
					t.Errorf("%d threads, pieces of %d: other bits", threads, piece)
				}
				if threads > 1 {
					if have := bits(amongEight(t, m, text(n, 1))); !equal(have, want) {
						t.Errorf("%d threads, among eight sequences: other bits", threads)
					}
				}
			}
		})
	}
}

func equal(a, b [][]uint32) bool { return slices.EqualFunc(a, b, slices.Equal[[]uint32]) }

// amongEight are all logits of a sequence among seven others of other lengths, in pieces of 50 tokens.
func amongEight(t *testing.T, m *model.Model, tokens []int32) (rows [][]float32) {
	items, texts := make([]model.Item, 8), make([][]int32, 8)
	for i := range items {
		items[i] = model.Item{Session: oracle.NewSession(t, m), Want: model.WantAll}
		texts[i] = text(3+20*i, i)
	}
	texts[4] = tokens
	for first := 0; first < len(tokens); first += 50 {
		now, at := []model.Item{}, 0
		for i := range items {
			if i == 4 {
				at = len(now)
			}
			if first < len(texts[i]) {
				items[i].Tokens = texts[i][first:min(first+50, len(texts[i]))]
				now = append(now, items[i])
			}
		}
		rows = append(rows, oracle.FeedAll(t, now)[at]...)
	}
	return rows
}

// TestWanted: rows whose logits are wanted are the same whatever else is wanted.
func TestWanted(t *testing.T) {
	threads(t, 2)
	for _, arch := range []string{"llama", "gemma3"} {
		m := tiny(t, oracle.NewTiny(arch, oracle.Same("F32")), model.Options{Threads: 2, Chunk: 70})
		texts := [][]int32{text(150, 1), text(3, 2), text(90, 3), text(100, 4)}
		var want [][][]uint32
		for _, tokens := range texts {
			want = append(want, bits(inPieces(t, m, tokens, len(tokens))))
		}
		for shift := range 3 {
			var items []model.Item
			for i, tokens := range texts {
				items = append(items, model.Item{Session: oracle.NewSession(t, m), Tokens: tokens, Want: model.Want((i + shift) % 3)})
			}
			for i, rows := range oracle.FeedAll(t, items) {
				from := map[model.Want]int{model.WantAll: 0, model.WantLast: len(texts[i]) - 1, model.WantNone: len(texts[i])}[items[i].Want]
				if !equal(bits(rows), want[i][from:]) {
					t.Errorf("%s: sequence %d, wanted %d: other bits", arch, i, items[i].Want)
				}
			}
			for i := range items { // and the cache does not depend on it
				if have := oracle.Feed(t, items[i].Session, model.WantLast, []int32{7}); !equal(bits(have), bits(inPieces(t, m, append(texts[i][:len(texts[i]):len(texts[i])], 7), 200)[len(texts[i]):])) {
					t.Errorf("%s: sequence %d, wanted %d: other bits after it", arch, i, items[i].Want)
				}
			}
		}
	}
}

// TestSessions: what a session computes does not depend on tokens that it has forgotten, nor on the sequence that it was
// copied from. The race detector, which takes ten times as long, sees one length in four, or all with TMACC_LONG=1.
func TestSessions(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", mixture), model.Options{})
	tokens := text(200, 5)
	lengths := []int{0, 1, 30, 63, 64, 65, 100, 128, 199}
	if raceEnabled {
		lengths = drawn.Some(drawn.New(t), 4, lengths)
	}
	for _, n := range lengths {
		rest := text(20, n)
		want := bits(inPieces(t, m, slices.Concat(tokens[:n], rest), 300)[n:])
		s := oracle.NewSession(t, m)
		oracle.Feed(t, s, model.WantNone, tokens)
		again, err := s.Copy()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*model.Session{s, again} {
			if err := x.Truncate(context.Background(), n); err != nil {
				t.Fatal(err)
			}
			if x.Len() != n || !slices.Equal(x.Tokens(), tokens[:n]) {
				t.Fatalf("%d tokens are left of %d", x.Len(), n)
			}
			for range 2 { // the second time, after the first continuation is taken back
				if have := bits(oracle.Feed(t, x, model.WantAll, rest)); !equal(have, want) {
					t.Errorf("truncated to %d: other bits", n)
				}
				if err := x.Truncate(context.Background(), n); err != nil {
					t.Fatal(err)
				}
			}
		}
		again.Close()
		if have := bits(oracle.Feed(t, s, model.WantAll, rest)); !equal(have, want) {
			t.Errorf("truncated to %d, its copy closed: other bits", n)
		}
	}
}

// TestCopyOnWrite: two sequences with a common prefix do not see each other's tokens.
func TestCopyOnWrite(t *testing.T) {
	m := tiny(t, oracle.NewTiny("qwen3", mixture), model.Options{})
	for _, n := range []int{10, 64, 90} {
		prefix, suffixes := text(n, 1), [][]int32{text(70, 2), text(80, 3)}
		first := oracle.NewSession(t, m)
		oracle.Feed(t, first, model.WantNone, prefix)
		second, err := first.Copy()
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		have := oracle.FeedAll(t, []model.Item{{Session: first, Tokens: suffixes[0], Want: model.WantAll}, {Session: second, Tokens: suffixes[1], Want: model.WantAll}})
		for i, suffix := range suffixes {
			if want := inPieces(t, m, slices.Concat(prefix, suffix), 300)[n:]; !equal(bits(have[i]), bits(want)) {
				t.Errorf("a prefix of %d: sequence %d has other bits", n, i)
			}
		}
	}
}

// TestAllocations: a token allocates nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	threads(t, 2)
	for _, x := range []*oracle.Tiny{oracle.NewTiny("bitnet", mixture), oracle.NewTinyExperts("qwen2moe", 9, oracle.Same("Q4_0"))} {
		allocations(t, tiny(t, x, model.Options{Threads: 2}))
	}
}

func allocations(t *testing.T, m *model.Model) {
	t.Helper()
	items := []model.Item{{Session: oracle.NewSession(t, m), Tokens: text(130, 1)}, {Session: oracle.NewSession(t, m), Tokens: text(1, 1)}}
	ctx := context.Background()
	forward := func() {
		if err := m.Forward(ctx, items); err != nil {
			t.Fatal(err)
		}
	}
	forward()
	items[0].Tokens, items[1].Tokens = text(1, 2), text(1, 3)
	forward()
	if n := testing.AllocsPerRun(40, forward); n > 0 {
		t.Errorf("%v allocations for a token", n)
	}
}
