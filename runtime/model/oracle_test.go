package model

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// data is the folder of the models with expected values, which TMACC_DATA names.
func data(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("TMACC_DATA")
	if dir == "" {
		t.Skip("TMACC_DATA does not name the folder of models with expected values")
	}
	return dir
}

// expected is an .expected.json file.
type expected struct {
	Prompts []prompt `json:"prompts"`
}

type prompt struct {
	Name       string          `json:"name"`
	With       []int32         `json:"tokens_with_bos"`
	Without    []int32         `json:"tokens_without_bos"`
	Input      json.RawMessage `json:"input_tokens"`
	Logits     []float32       `json:"logits"`
	LogitsF32  []float32       `json:"logits_f32"`
	LogitsF64  []float32       `json:"logits_f64"`
	Greedy     []int32         `json:"greedy"`
	GreedyF32  []int32         `json:"greedy_f32"`
	GreedyF64  []int32         `json:"greedy_f64"`
	MeanNLL    float64         `json:"mean_nll"`
	MeanNLLF32 float64         `json:"mean_nll_f32"`
}

func (p *prompt) tokens() []int32 {
	if string(p.Input) == `"tokens_without_bos"` {
		return p.Without
	}
	return p.With
}

// float is the expected logits of dequantized weights.
func (p *prompt) float() []float32 {
	if p.LogitsF64 != nil {
		return p.LogitsF64
	}
	return p.LogitsF32
}

func readJSON[T any](t *testing.T, path string) *T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(path, err)
	}
	return out
}

func open(t *testing.T, path string, opt Options) *Model {
	t.Helper()
	m, err := Open(path, PureGo{}, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func session(t *testing.T, m *Model) *Session {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// feed appends tokens to a session and returns a copy of the logits.
func feed(t *testing.T, s *Session, want Want, tokens ...int32) []float32 {
	t.Helper()
	items := []Item{{Session: s, Tokens: tokens, Want: want}}
	if err := s.model.Forward(context.Background(), items); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), items[0].Logits...)
}

// relativeRMS is the distance of two vectors over the length of the second.
func relativeRMS(have, want []float32) float64 {
	if len(have) != len(want) {
		return math.Inf(1)
	}
	d, n := 0.0, 0.0
	for i, w := range want {
		d += (float64(have[i]) - float64(w)) * (float64(have[i]) - float64(w))
		n += float64(w) * float64(w)
	}
	return math.Sqrt(d / n)
}

// oracles are the models with expected values, relative to the folder of data.
var oracles = []struct {
	name   string
	greedy float64 // how far below the best logit an expected token may be, of the file as it is
	logits float64 // relative RMS of logits, of the file as it is
}{
	{"llama-f16", 0.4, 1e-2},
	{"llama-q4_0", 0.4, 1e-1},
	{"bitnet-tq2_0", 0.4, 1e-1},
	{"bitnet158-i2_s", 0.4, 1e-1},
	{"2026/qwen3-q1_0", 0.5, 1e-1},
	{"2026/qwen3-q2_0", 0.5, 1e-1},
	{"2026/qwen2-q4_k", 0.5, 1e-1},
	{"2026/llama3-rope-q4_0", 0.5, 1e-1},
	{"trained/tale-4m-f16", 0.2, 3e-2},
	{"trained/tale-4m-q4_0", 0.2, 3e-2},
	{"trained/tale-bitnet-4m-tq2_0", 0.2, 3e-2},
}

// TestFloat evaluates the dequantized weights with float activations: it finds a wrong graph.
func TestFloat(t *testing.T) {
	dir := data(t)
	for _, x := range oracles {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			want := readJSON[expected](t, filepath.Join(dir, x.name+".expected.json"))
			for _, c := range []struct {
				cache CacheType
				limit float64
			}{{CacheF32, 1e-4}, {CacheF16, 1e-2}} {
				m := open(t, filepath.Join(dir, x.name+".gguf"), Options{Float: true, Cache: c.cache})
				for i := range want.Prompts {
					p := &want.Prompts[i]
					s := session(t, m)
					logits := feed(t, s, WantLast, p.tokens()...)
					e := relativeRMS(logits, p.float())
					t.Logf("%s: %.2e", p.Name, e)
					if !(e <= c.limit) {
						t.Errorf("%s: logits are off by %.2e, more than %.0e", p.Name, e, c.limit)
					}
				}
			}
		})
	}
}

// TestAsTheFileIs evaluates quantized weights with quantized activations.
func TestAsTheFileIs(t *testing.T) {
	dir := data(t)
	for _, x := range oracles {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			want := readJSON[expected](t, filepath.Join(dir, x.name+".expected.json"))
			m := open(t, filepath.Join(dir, x.name+".gguf"), Options{})
			for i := range want.Prompts {
				p := &want.Prompts[i]
				s := session(t, m)
				logits := feed(t, s, WantLast, p.tokens()...)
				for _, w := range [][]float32{p.Logits, p.float()} {
					if w == nil {
						continue
					}
					e := relativeRMS(logits, w)
					t.Logf("%s: %.2e", p.Name, e)
					if !(e <= x.logits) {
						t.Errorf("%s: logits are off by %.2e, more than %.0e", p.Name, e, x.logits)
					}
				}
			}
		})
	}
}
