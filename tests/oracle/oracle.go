// Package oracle compares what models compute with the values of package expected.
package oracle

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/expected"
)

// Model is a model with expected values.
type Model struct {
	Name string // for expected.Open
	// How far off it may be with quantized activations: relative RMS of logits, and how far below the largest logit the one of an
	// expected token may be.
	Logits, Token float64
}

// Models are the ones whose architectures are supported.
var Models = []Model{
	{"llama-f16", 1e-2, 0.4},
	{"llama-q4_0", 1e-1, 0.4},
	{"bitnet-tq2_0", 1e-1, 0.4},
	{"bitnet158-i2_s", 1e-1, 0.4},
	{"qwen3-q1_0", 1e-1, 0.5},
	{"qwen3-q2_0", 1e-1, 0.5},
	{"qwen2-q4_k", 1e-1, 0.5},
	{"llama3-rope-q4_0", 1e-1, 0.5},
	{"qwen3moe-q4_0", 1e-1, 0.5},
	{"mixtral-q4_0", 1e-1, 0.5},
	{"gemma3-q8_0", 1e-1, 0.5},
	{"phi3-q4_k", 1e-1, 0.5},
	{"tale-4m-f16", 3e-2, 0.2},
	{"tale-4m-q4_0", 3e-2, 0.2},
	{"tale-bitnet-4m-tq2_0", 3e-2, 0.2},
}

// rounded are the models that llama.cpp evaluates with rounded functions even in float: GELU by a table of 16-bit floats. How far off its
// values may be, relative RMS of logits.
var rounded = map[string]float64{"gemma3-q8_0": 1e-3}

// roundedBy is p for values that llama.cpp has computed of x.
func (x Model) roundedBy(p Precision) Precision {
	p.Logits = max(p.Logits, rounded[x.Name])
	return p
}

// Precision is how a model is evaluated, and how far off it may be.
type Precision struct {
	Float  bool // dequantized weights, float activations
	Cache  model.CacheType
	Logits float64 // relative RMS
	Token  float64 // distance of an expected token from the best
}

// FullFloat and HalfFloat are float evaluations with the two types of caches.
var (
	FullFloat = Precision{true, model.CacheF32, 1e-4, 1e-3}
	HalfFloat = Precision{true, model.CacheF16, 1e-2, 0.1}
)

// AsIs evaluates the file as it is.
func (x Model) AsIs() Precision { return Precision{false, model.CacheF16, x.Logits, x.Token} }

// Options are for opening a model that is evaluated so.
func (p Precision) Options() model.Options { return model.Options{Float: p.Float, Cache: p.Cache} }

// values are the ones of a prompt to compare an evaluation with.
type values struct {
	logits  [][]float32 // each of them is right
	tokens  []int32     // that have the largest logit, one after the other
	meanNLL float64     // 0: not known
}

func valuesOf(x *expected.Prompt, float bool) values {
	switch {
	case x.LogitsF32 == nil:
		return values{[][]float32{x.LogitsF64}, ids(x.GreedyF64), 0}
	case float && x.LogitsF64 != nil:
		return values{[][]float32{x.LogitsF64}, ids(x.GreedyF32), x.MeanNLLF32}
	case float:
		return values{[][]float32{x.LogitsF32}, ids(x.GreedyF32), x.MeanNLLF32}
	}
	return values{[][]float32{x.Logits, x.LogitsF32}, ids(x.Greedy), x.MeanNLL}
}

func ids(tokens []int) (out []int32) {
	for _, t := range tokens {
		out = append(out, int32(t))
	}
	return out
}

// read reads a file of values that are not of one model only.
func read[T any](t testing.TB, name string) *T {
	t.Helper()
	text, err := os.ReadFile(expected.File(t, name))
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// Compare evaluates all prompts of x by m, which was opened for the precision.
func (x Model) Compare(t *testing.T, m *model.Model, p Precision) {
	t.Helper()
	prompts := expected.Open(t, x.Name).Prompts
	if len(prompts) < 4 {
		t.Fatalf("%s has %d prompts", x.Name, len(prompts))
	}
	for i := range prompts {
		in, tokens := &prompts[i], ids(prompts[i].Tokens())
		want := valuesOf(in, p.Float)
		s := NewSession(t, m)
		rows := Feed(t, s, model.WantAll, tokens)
		logits := rows[len(rows)-1]
		for _, w := range want.logits {
			p.logits(t, in.Name, logits, w)
		}
		if nll := MeanNLL(rows, tokens); want.meanNLL > 0 && !(math.Abs(nll-want.meanNLL) <= 0.01*want.meanNLL) {
			t.Errorf("%s: the mean of -log p is %.5f, want %.5f", in.Name, nll, want.meanNLL)
		}
		if len(want.tokens) < 16 {
			t.Errorf("%s: %d expected tokens", in.Name, len(want.tokens))
		}
		p.follow(t, in.Name, s, logits, want.tokens)
	}
}

// logits compares logits with expected ones.
func (p Precision) logits(t *testing.T, what string, have, want []float32) {
	t.Helper()
	if e := RelativeRMS(have, want); !(e <= p.Logits) {
		t.Errorf("%s: logits are off by %.2e, more than %.0e", what, e, p.Logits)
	}
}

// follow feeds the expected tokens, and compares each with the best one. It returns the logits that chose the last token.
func (p Precision) follow(t *testing.T, what string, s *model.Session, logits []float32, tokens []int32) []float32 {
	t.Helper()
	for i, token := range tokens {
		if short := slices.Max(logits) - logits[token]; !(float64(short) <= p.Token) {
			t.Errorf("%s: the logit of expected token %d is %.3f below the largest, more than %v", what, i, short, p.Token)
		}
		if i+1 < len(tokens) {
			logits = Feed(t, s, model.WantLast, []int32{token})[0]
		}
	}
	return logits
}

// NewSession is a session that is closed when the test ends.
func NewSession(t testing.TB, m *model.Model) *model.Session {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Feed appends tokens to a session and returns a copy of the wanted logits, a row for each token.
func Feed(t testing.TB, s *model.Session, want model.Want, tokens []int32) [][]float32 {
	t.Helper()
	return FeedAll(t, []model.Item{{Session: s, Tokens: tokens, Want: want}})[0]
}

// FeedAll is Feed of several sessions in one batch.
func FeedAll(t testing.TB, items []model.Item) [][][]float32 {
	t.Helper()
	m := items[0].Session.Model()
	if err := m.Forward(context.Background(), items); err != nil {
		t.Fatal(err)
	}
	out := make([][][]float32, len(items))
	for i := range items {
		for row := range slices.Chunk(items[i].Logits, m.Config().Vocabulary) {
			out[i] = append(out[i], slices.Clone(row))
		}
	}
	return out
}

// RelativeRMS is the length of the difference of two vectors over the length of the second.
func RelativeRMS(have, want []float32) float64 {
	if len(have) != len(want) || len(want) == 0 {
		return math.Inf(1)
	}
	d, n := 0.0, 0.0
	for i, w := range want {
		d += (float64(have[i]) - float64(w)) * (float64(have[i]) - float64(w))
		n += float64(w) * float64(w)
	}
	return math.Sqrt(d / n)
}

// MeanNLL is the mean of -log of the likelihoods of tokens 1, 2 and so on, by the logits of the tokens before them.
func MeanNLL(rows [][]float32, tokens []int32) float64 {
	sum := 0.0
	for i, token := range tokens[1:] {
		sum += NLL(rows[i], token)
	}
	return sum / float64(len(tokens)-1)
}

// NLL is -log of the likelihood of a token.
func NLL(logits []float32, token int32) float64 {
	top, sum := slices.Max(logits), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x - top))
	}
	return math.Log(sum) - float64(logits[token]-top)
}
