package oracle

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
)

// find is the entry of x in a list of models.
func find[T any](t *testing.T, x Model, list []T, name func(*T) string) *T {
	t.Helper()
	for i := range list {
		if strings.TrimSuffix(name(&list[i]), ".gguf") == x.Name {
			return &list[i]
		}
	}
	t.Fatalf("no values of %s", x.Name)
	return nil
}

// Cached are the models of batch.json, prefix.json and long.json.
var Cached = []Model{{"qwen3-q1_0", 1e-1, 0.5}, {"llama3-rope-q4_0", 1e-1, 0.5}, {"gemma3-q8_0", 1e-1, 0.5}}

type batch struct {
	Model     string
	Sequences []struct {
		Tokens     []int32
		GreedyF32  []int32 `json:"greedy_f32"`
		Greedy     []int32
		Logits     []float32
		LogitsF32  []float32 `json:"logits_f32"`
		LastLogits []float32 `json:"last_logits_f32"`
	}
}

// Batch evaluates three sequences in one batch.
func (x Model) Batch(t *testing.T, m *model.Model, p Precision) {
	t.Helper()
	file := read[struct{ Models []batch }](t, "batch.json")
	want, p := find(t, x, file.Models, func(b *batch) string { return b.Model }), x.roundedBy(p)
	items := make([]model.Item, len(want.Sequences))
	tokens := make([][]int32, len(items))
	for i, s := range want.Sequences {
		items[i] = model.Item{Session: NewSession(t, m), Tokens: s.Tokens}
		if tokens[i] = s.Greedy; p.Float {
			tokens[i] = s.GreedyF32
		}
	}
	logits := FeedAll(t, items)
	for i, s := range want.Sequences {
		p.logits(t, "batch", logits[i][0], s.LogitsF32)
		if !p.Float {
			p.logits(t, "batch", logits[i][0], s.Logits)
		}
	}
	for step := range tokens[0] {
		for i := range items {
			p.follow(t, "batch", nil, logits[i][0], tokens[i][step:step+1])
			items[i].Tokens = tokens[i][step : step+1]
		}
		if step+1 < len(tokens[0]) {
			logits = FeedAll(t, items)
		}
	}
	for i, s := range want.Sequences {
		if p.Float {
			p.logits(t, "end of the batch", logits[i][0], s.LastLogits)
		}
	}
}

type prefix struct {
	Model      string
	RemoveTail struct {
		Tokens       []int32
		Removed      int
		Continuation []int32
		ends
	} `json:"remove_tail"`
	SharedPrefix struct {
		Prefix   []int32
		Suffixes []struct {
			Tokens []int32
			ends
		}
	} `json:"shared_prefix"`
}

type ends struct {
	Logits    []float32
	LogitsF32 []float32 `json:"logits_f32"`
}

func (p Precision) ends(t *testing.T, what string, have []float32, want ends) {
	t.Helper()
	p.logits(t, what, have, want.LogitsF32)
	if !p.Float {
		p.logits(t, what, have, want.Logits)
	}
}

// Prefix removes the end of a sequence, and continues one prefix in two ways.
func (x Model) Prefix(t *testing.T, m *model.Model, p Precision) {
	t.Helper()
	file := read[struct{ Models []prefix }](t, "prefix.json")
	want, p := find(t, x, file.Models, func(b *prefix) string { return b.Model }), x.roundedBy(p)
	s, r := NewSession(t, m), &want.RemoveTail
	Feed(t, s, model.WantNone, r.Tokens)
	if err := s.Truncate(context.Background(), len(r.Tokens)-r.Removed); err != nil {
		t.Fatal(err)
	}
	p.ends(t, "removed tail", Feed(t, s, model.WantLast, r.Continuation)[0], r.ends)

	first := NewSession(t, m)
	Feed(t, first, model.WantNone, want.SharedPrefix.Prefix)
	second, err := first.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for i, s := range []*model.Session{first, second} {
		end := want.SharedPrefix.Suffixes[i]
		p.ends(t, "shared prefix", Feed(t, s, model.WantLast, end.Tokens)[0], end.ends)
	}
}

type long struct {
	Model          string
	Prompt, Tokens []int32
	F32, Quantized digest
}

type digest struct {
	RMS  []float64
	Proj [][4]float64
}

// Long feeds 256 tokens and compares projections of all logits.
func (x Model) Long(t *testing.T, m *model.Model, p Precision) {
	t.Helper()
	file := read[struct{ Models []long }](t, "long.json")
	want, p := find(t, x, file.Models, func(b *long) string { return b.Model }), x.roundedBy(p)
	digests := []digest{want.F32}
	if !p.Float {
		digests = append(digests, want.Quantized)
	}
	s, next := NewSession(t, m), want.Prompt
	for i, token := range want.Tokens {
		logits := Feed(t, s, model.WantLast, next)[0]
		for _, d := range digests {
			for k, have := range projections(logits) {
				// The difference is like one of a normal distribution whose standard deviation is the error of the logits.
				if off := math.Abs(have-d.Proj[i][k]) / d.RMS[i]; !(off <= 4*p.Logits) {
					t.Errorf("step %d: projection %d is %v, want %v: off by %.1e of the RMS", i, k, have, d.Proj[i][k], off)
				}
			}
		}
		next = []int32{token}
	}
}

// projections are sums of the logits with signs that look random.
func projections(logits []float32) (p [4]float64) {
	for i, x := range logits {
		hash := uint32(uint64(i) * 2654435761)
		for k := range p {
			if hash>>(16+k)&1 == 1 {
				p[k] -= float64(x)
			} else {
				p[k] += float64(x)
			}
		}
	}
	for k := range p {
		p[k] /= math.Sqrt(float64(len(logits)))
	}
	return p
}
