package model_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// save is the bytes of a session.
func save(t testing.TB, s *model.Session) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// load is the session that save wrote.
func load(t testing.TB, m *model.Model, data []byte) *model.Session {
	t.Helper()
	r := bytes.NewReader(data)
	s, err := m.LoadSession(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() > 0 {
		t.Errorf("%d bytes of a session are not read", r.Len())
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestSaved: a session that was saved and loaded goes on as it would have done, whatever it had computed and forgotten before, and also in
// a model that was opened otherwise. Equal tokens give equal bytes.
func TestSaved(t *testing.T) {
	const more = 8
	tokens := text(140, 1)
	for _, of := range []struct {
		cache     model.CacheType
		recurrent bool
	}{{model.CacheF16, false}, {model.CacheF32, false}, {model.CacheQ8, false}, {model.CacheF16, true}} {
		open := func(opt model.Options) *model.Model {
			opt.Cache = of.cache
			m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), opt)
			if of.recurrent {
				m.MakeRecurrent(1)
			}
			return m
		}
		m, other := open(model.Options{}), open(model.Options{Threads: 1, Chunk: 50, Context: 250})
		want := bits(inPieces(t, m, tokens, len(tokens)))
		for _, n := range []int{0, 1, 63, 64, 65, 130} {
			s := oracle.NewSession(t, m)
			if n > 0 {
				oracle.Feed(t, s, model.WantNone, tokens[:n])
			}
			data := save(t, s)
			if !of.recurrent && n > 0 {
				longer := oracle.NewSession(t, m)
				oracle.Feed(t, longer, model.WantNone, tokens[:n+more])
				if err := longer.Truncate(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(save(t, longer), data) {
					t.Errorf("%d tokens: other bytes after others were forgotten", n)
				}
			}
			s = load(t, other, data)
			if !slices.Equal(s.Tokens(), tokens[:n]) {
				t.Fatalf("%d tokens: loaded %v", n, s.Tokens())
			}
			if !bytes.Equal(save(t, s), data) {
				t.Errorf("%d tokens: other bytes when saved again", n)
			}
			if have := bits(oracle.Feed(t, s, model.WantAll, tokens[n:n+more])); !equal(have, want[n:n+more]) {
				t.Errorf("%d tokens: other bits", n)
			}
			back := max(0, n-more)
			if err := s.Truncate(t.Context(), back); err != nil {
				t.Fatal(err)
			}
			if have := bits(oracle.Feed(t, s, model.WantAll, tokens[back:n+more])); !equal(have, want[back:n+more]) {
				t.Errorf("%d tokens, truncated: other bits", n)
			}
		}
	}
}

// TestSavedWindows: layers with windows go on from a file that has no pages before them.
func TestSavedWindows(t *testing.T) {
	x := oracle.NewTiny("gemma3", oracle.Same("F16")).Set("attention.sliding_window", uint32(50)).Set("attention.sliding_window_pattern", uint32(2))
	x.Context = 1000
	m, tokens := tiny(t, x, model.Options{}), text(730, 1)
	s := oracle.NewSession(t, m)
	oracle.Feed(t, s, model.WantNone, tokens[:700])
	data := save(t, s)
	want := bits(oracle.Feed(t, s, model.WantAll, tokens[700:]))
	again := load(t, m, data)
	if !bytes.Equal(save(t, again), data) {
		t.Error("other bytes when saved again")
	}
	if have := bits(oracle.Feed(t, again, model.WantAll, tokens[700:])); !equal(have, want) {
		t.Error("other bits")
	}
	if err := again.Truncate(t.Context(), 710); err != nil {
		t.Fatal(err)
	}
	if have := bits(oracle.Feed(t, again, model.WantAll, tokens[710:])); !equal(have, want[10:]) {
		t.Error("truncated: other bits")
	}
	const page = 64 * 2 * 2 * 64 * 2 // positions, keys and values, heads, elements, bytes
	if all := 2 * 11; len(data) > (all-1)*page {
		t.Errorf("%d bytes: no page was left out of %d", len(data), all)
	}
}

// TestSavedRefusals: a session does not fit a model with other weights, another precision, another cache or a shorter context, and damage is found.
func TestSavedRefusals(t *testing.T) {
	x := oracle.NewTiny("llama", oracle.Same("F16"))
	m := tiny(t, x, model.Options{})
	s := oracle.NewSession(t, m)
	oracle.Feed(t, s, model.WantNone, text(70, 1))
	data := save(t, s)
	refused := func(want string, m *model.Model, data []byte) {
		t.Helper()
		if s, err := m.LoadSession(bytes.NewReader(data)); s != nil || err == nil || !strings.HasPrefix(err.Error(), "model: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused("another type of cache", tiny(t, x, model.Options{Cache: model.CacheF32}), data)
	refused("has 70 tokens, and option Context is 69", tiny(t, x, model.Options{Context: 69}), data)
	refused("is of another model", tiny(t, x, model.Options{Float: true}), data)
	refused("is of another model", tiny(t, oracle.NewTiny("qwen3", oracle.Same("F16")), model.Options{}), data)
	for name, at := range map[string]int{"blk.1.ffn_norm.weight": 13, "blk.1.attn_k.weight": 100, "token_embd.weight": 2*256*69 + 7} {
		changed := oracle.NewTiny("llama", oracle.Same("F16"))
		changed.Tensor(name).Data[at] ^= 1
		refused("is of another model", tiny(t, changed, model.Options{}), data)
	}
	changed := oracle.NewTiny("llama", oracle.Same("F16"))
	changed.Tensor("token_embd.weight").Data[2*256*int(s.Tokens()[40])] ^= 1
	refused("other embeddings", tiny(t, changed, model.Options{}), data)
	for name, y := range sameButFor() {
		of := tiny(t, y[0], model.Options{})
		s := oracle.NewSession(t, of)
		oracle.Feed(t, s, model.WantNone, text(3, 1))
		data := save(t, s)
		load(t, of, data)
		if s, err := tiny(t, y[1], model.Options{}).LoadSession(bytes.NewReader(data)); s != nil || err == nil || !strings.Contains(err.Error(), "is of another model") {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("begins as no session does", m, append([]byte("GGUF\x03\x00\x00\x00"), data...))
	for at, want := range map[int]string{8: "computes otherwise", 48 + 3: "option Context is", 52 + 1: "token 0 is", 52 + 4*70 + 5: "other embeddings", 52 + 4*70 + 32 + 5: "checksum", len(data) - 1: "checksum"} {
		changed := bytes.Clone(data)
		changed[at] ^= 1
		refused(want, m, changed)
	}
	for _, n := range []int{0, 7, 51, 60, 500, len(data) - 1} {
		refused("ends too early", m, data[:n])
	}
	if s := load(t, m, data); s.Len() != 70 {
		t.Errorf("%d tokens", s.Len())
	}
	full := errors.New("the disk is full")
	for n := range 5 {
		if err := s.Save(&limited{left: n * len(data) / 5, err: full}); !errors.Is(err, full) {
			t.Errorf("%v, want %v", err, full)
		}
	}
	if _, err := m.LoadSession(io.MultiReader(bytes.NewReader(data[:300]), failing{full})); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
	m.Close()
	if err := s.Save(io.Discard); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Error(err)
	}
}

// sameButFor are pairs of models that have the same vectors and matrices, but for experts or for the type of a matrix with the same values.
func sameButFor() map[string][2]*oracle.Tiny {
	experts, exact := [2]*oracle.Tiny{}, [2]*oracle.Tiny{}
	for i := range experts {
		experts[i] = oracle.NewTinyExperts("qwen3moe", 4, oracle.Same("F16"))
		exact[i] = oracle.NewTiny("llama", func(name string) string {
			if i == 1 && name == "blk.0.ffn_up.weight" {
				return "F32"
			}
			return "F16"
		})
		clear(exact[i].Tensor("blk.0.ffn_up.weight").Data)
	}
	experts[1].Tensor("blk.1.ffn_down_exps.weight").Data[2*256*256*3] ^= 1 // the first row of the last expert
	return map[string][2]*oracle.Tiny{"experts": experts, "types": exact}
}

// limited is a writer with room for some bytes.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(data []byte) (int, error) {
	if l.left -= len(data); l.left < 0 {
		return 0, l.err
	}
	return len(data), nil
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzLoadSession: whatever a file has behind its checksum, it is a session that can go on, or an error.
func FuzzLoadSession(f *testing.F) {
	m := tiny(f, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Context: 100})
	s := oracle.NewSession(f, m)
	oracle.Feed(f, s, model.WantNone, text(3, 1))
	data := save(f, s)
	f.Add(data)
	f.Add(data[:52])
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(data) - 4; n > 0 {
			binary.LittleEndian.PutUint32(data[n:], crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli)))
		}
		s, err := m.LoadSession(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer s.Close()
		if s.Len() < m.Context() {
			m.Forward(t.Context(), []model.Item{{Session: s, Tokens: []int32{1}}}) // which may be an error: numbers that are not finite
		}
		if err := s.Save(io.Discard); err != nil {
			t.Error(err)
		}
	})
}
