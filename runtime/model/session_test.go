package model_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// TestRecurrent: a layer whose state is no list of positions fits beside attention. A session that goes back to where the
// layer cannot computes tokens again.
func TestRecurrent(t *testing.T) {
	const n = 100
	tokens := text(n, 1)
	m := tiny(t, oracle.NewTiny("llama", mixture), model.Options{})
	rows := m.MakeRecurrent(1)
	want := bits(inPieces(t, m, tokens, n))
	if have := bits(inPieces(t, m, tokens, 7)); !equal(have, want) {
		t.Error("in pieces: other bits")
	}
	if have := bits(amongEight(t, m, tokens)); !equal(have, want) {
		t.Error("among eight sequences: other bits")
	}
	s := oracle.NewSession(t, m)
	oracle.Feed(t, s, model.WantNone, tokens[:50])
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	oracle.Feed(t, s, model.WantNone, text(40, 9))
	again, err := s.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, x := range []*model.Session{s, again} {
		for _, back := range []struct{ to, computed int }{{50, 0}, {70, 20}, {20, 20}} {
			if x.Len() < 90 {
				oracle.Feed(t, x, model.WantNone, tokens[x.Len():90])
			}
			before := rows()
			if err := x.Truncate(context.Background(), back.to); err != nil {
				t.Fatal(err)
			}
			if have := rows() - before; x.Len() != back.to || have != back.computed {
				t.Errorf("back to %d: %d tokens, %d computed again, want %d", back.to, x.Len(), have, back.computed)
			}
			if have := bits(oracle.Feed(t, x, model.WantAll, tokens[back.to:])); !equal(have, want[back.to:]) {
				t.Errorf("back to %d: other bits", back.to)
			}
			x.Truncate(context.Background(), min(back.to, 50))
		}
	}
}

// TestNotFinite: an error names the part of the model that makes infinities. The session goes on from where it was.
func TestNotFinite(t *testing.T) {
	const bad = 69
	for where, spoil := range map[string]func(x *oracle.Tiny){
		"the embedding":                    func(x *oracle.Tiny) { infinite(x, "token_embd.weight", bad*x.Embedding) },
		"the attention of layer 1":         func(x *oracle.Tiny) { infinite(x, "blk.1.attn_output.weight", 5) },
		"the feed-forward part of layer 0": func(x *oracle.Tiny) { infinite(x, "blk.0.ffn_down.weight", 700) },
		"the feed-forward part of layer 1": func(x *oracle.Tiny) { infinite(x, "blk.1.ffn_up.weight", 70) },
		"the head":                         func(x *oracle.Tiny) { x.AddHead(); infinite(x, "output.weight", 9) },
	} {
		x := oracle.NewTiny("llama", oracle.Same("F32"))
		spoil(x)
		m := tiny(t, x, model.Options{})
		s := oracle.NewSession(t, m)
		var want [][]uint32
		if where == "the embedding" { // which is the head, too
			x.AddHead()
			m = tiny(t, x, model.Options{})
			s = oracle.NewSession(t, m)
			oracle.Feed(t, s, model.WantNone, text(70, 1)[:5])
			want = bits(inPieces(t, m, slices.Concat(text(70, 1)[:5], []int32{1, 2, 3}), 8)[5:])
		}
		items := []model.Item{{Session: s, Tokens: []int32{3, 4, bad, 5}}}
		before := s.Len()
		err := m.Forward(context.Background(), items)
		if err == nil || !strings.Contains(err.Error(), where+":") || !strings.Contains(err.Error(), "not finite") {
			t.Errorf("%v, want %s", err, where)
		}
		if s.Len() != before || items[0].Logits != nil {
			t.Errorf("%s: %d tokens after the error, %d before", where, s.Len(), before)
		}
		if want != nil {
			if have := bits(oracle.Feed(t, s, model.WantAll, []int32{1, 2, 3})); !equal(have, want) {
				t.Errorf("after the error: other bits")
			}
		}
	}
}

// infinite makes one element of an F32 tensor infinite.
func infinite(x *oracle.Tiny, name string, i int) {
	copy(x.Tensor(name).Data[4*i:], []byte{0, 0, 0x80, 0x7f})
}

// TestCallers: mistakes of callers are errors that name them, and change nothing.
func TestCallers(t *testing.T) {
	m, other := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Context: 100}), tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{})
	s := oracle.NewSession(t, m)
	oracle.Feed(t, s, model.WantNone, text(90, 1))
	closed := oracle.NewSession(t, m)
	closed.Close()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	live := context.Background()
	for want, c := range map[string]struct {
		ctx   context.Context
		items []model.Item
	}{
		"item 0: model: session: is nil":                                   {live, []model.Item{{Tokens: text(1, 1)}}},
		"item 0: model: session: is closed":                                {live, []model.Item{{Session: closed, Tokens: text(1, 1)}}},
		"item 0: model: session: is one of another model":                  {live, []model.Item{{Session: oracle.NewSession(t, other), Tokens: text(1, 1)}}},
		"item 1: model: session: is used by another call, or twice":        {live, []model.Item{{Session: s, Tokens: text(1, 1)}, {Session: s, Tokens: text(1, 1)}}},
		"item 0: model: argument Tokens: is empty":                         {live, []model.Item{{Session: s}}},
		"item 0: model: argument Tokens: has 11 tokens and the session 90": {live, []model.Item{{Session: s, Tokens: text(11, 1)}}},
		"item 0: model: argument Tokens: token 1 is 70; the vocabulary":    {live, []model.Item{{Session: s, Tokens: []int32{0, 70}}}},
		"item 0: model: argument Tokens: token 0 is -1; the vocabulary":    {live, []model.Item{{Session: s, Tokens: []int32{-1}}}},
		"context canceled": {done, []model.Item{{Session: s, Tokens: text(3, 1)}}},
	} {
		if err := m.Forward(c.ctx, c.items); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := s.Truncate(live, 91); err == nil || !strings.Contains(err.Error(), "argument n: is 91; the session has 90") {
		t.Error(err)
	}
	if s.Len() != 90 {
		t.Errorf("%d tokens are left", s.Len())
	}
	oracle.Feed(t, s, model.WantLast, text(10, 1))
	if err := m.Forward(live, nil); err != nil {
		t.Error(err)
	}
}

// TestWant: Logits has the rows that Want asks for.
func TestWant(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Chunk: 8})
	all := bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantAll, text(20, 1)))
	last := bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(20, 1)))
	if len(all) != 20 || !equal(last, all[19:]) {
		t.Errorf("%d rows, %d rows", len(all), len(last))
	}
	if none := oracle.Feed(t, oracle.NewSession(t, m), model.WantNone, text(20, 1)); len(none) != 0 {
		t.Errorf("%d rows", len(none))
	}
}

// TestClose: nothing runs on a closed model, and closing again is allowed.
func TestClose(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("Q8_0")), model.Options{})
	s := oracle.NewSession(t, m)
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := m.Forward(context.Background(), []model.Item{{Session: s, Tokens: text(1, 1)}}); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Error(err)
	}
	if _, err := m.NewSession(); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Error(err)
	}
}

// TestTimes: the parts of the time are measured.
func TestTimes(t *testing.T) {
	var times model.Times
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Times: &times})
	oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(20, 1))
	if min(times.Products, times.Attention, times.Head, times.Rest) <= 0 {
		t.Errorf("%+v", times)
	}
}

// TestProgress: Progress counts up to all weights.
func TestProgress(t *testing.T) {
	last, most := int64(0), int64(0)
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("Q8_0")), model.Options{Progress: func(done, total int64) {
		if done <= last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last, most = done, total
	}})
	if last != most || last != m.Memory().Weights || last < 1e5 {
		t.Errorf("%d of %d; the weights take %d", last, most, m.Memory().Weights)
	}
}

// TestCacheIsFull: sessions share the memory that the limit leaves, and an error says when it is used up.
func TestCacheIsFull(t *testing.T) {
	x := oracle.NewTiny("llama", oracle.Same("F16"))
	need := tiny(t, x, model.Options{}).Memory()
	m := tiny(t, x, model.Options{MemoryLimit: need.Total()})
	first, second := oracle.NewSession(t, m), oracle.NewSession(t, m)
	oracle.Feed(t, first, model.WantNone, text(200, 1))
	oracle.Feed(t, second, model.WantNone, text(60, 1))
	err := m.Forward(context.Background(), []model.Item{{Session: second, Tokens: text(60, 1)}})
	if err == nil || !strings.Contains(err.Error(), "cache: is full") || second.Len() != 60 {
		t.Errorf("%v, %d tokens", err, second.Len())
	}
	first.Close()
	oracle.Feed(t, second, model.WantNone, text(200, 1))
}

// ending is a context that ends when it has been asked a number of times.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted: a prompt that is interrupted between two layers leaves the session as it was, and can be given again.
func TestInterrupted(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("F32")), model.Options{})
	want := bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(20, 1)))[0]
	s := oracle.NewSession(t, m)
	err := m.Forward(&ending{t.Context(), 2}, []model.Item{{Session: s, Tokens: text(20, 1)}})
	if !errors.Is(err, context.Canceled) || s.Len() != 0 {
		t.Fatalf("%v, and the session has %d tokens", err, s.Len())
	}
	if have := bits(oracle.Feed(t, s, model.WantLast, text(20, 1)))[0]; !slices.Equal(have, want) {
		t.Error("other logits after an interruption")
	}
}
