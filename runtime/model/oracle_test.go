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

func TestFirst(t *testing.T) {
	dir := data(t)
	want := readJSON[expected](t, filepath.Join(dir, "llama-f16.expected.json"))
	m := open(t, filepath.Join(dir, "llama-f16.gguf"), Options{Cache: CacheF32})
	for i := range want.Prompts {
		p := &want.Prompts[i]
		logits := feed(t, session(t, m), WantLast, p.tokens()...)
		t.Log(p.Name, relativeRMS(logits, p.LogitsF32))
	}
}
