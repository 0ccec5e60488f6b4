package model_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// embed is the embeddings of texts.
func embed(t testing.TB, m *model.Model, texts [][]int32, p model.Pooling) [][]float32 {
	t.Helper()
	out, err := m.Embed(context.Background(), texts, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHidden: hidden states come beside logits in a batch, and neither changes the other.
func TestHidden(t *testing.T) {
	m := tiny(t, oracle.NewTiny("qwen3", oracle.Same("F32")), model.Options{Chunk: 40})
	want := bits(inPieces(t, m, text(100, 1), 100))
	for _, kind := range []model.Want{model.WantAll, model.WantLast, model.WantNone} {
		items := []model.Item{
			{Session: oracle.NewSession(t, m), Tokens: text(70, 2), Want: kind, WantHidden: true},
			{Session: oracle.NewSession(t, m), Tokens: text(100, 1), Want: model.WantAll},
			{Session: oracle.NewSession(t, m), Tokens: text(50, 3), Want: model.WantAll, WantHidden: true},
		}
		all := oracle.FeedAll(t, items)
		if !equal(bits(all[1]), want) {
			t.Error("logits beside hidden states have other bits")
		}
		if n := map[model.Want]int{model.WantAll: 70, model.WantLast: 1}[kind]; len(items[0].Hidden) != 256*n || items[0].Logits != nil || items[1].Hidden != nil {
			t.Errorf("%d elements of hidden states, want %d rows of 256", len(items[0].Hidden), n)
		}
		alone := []model.Item{{Session: oracle.NewSession(t, m), Tokens: text(50, 3), Want: model.WantAll, WantHidden: true}}
		oracle.FeedAll(t, alone)
		if !equal(bits([][]float32{items[2].Hidden}), bits([][]float32{alone[0].Hidden})) {
			t.Error("hidden states alone have other bits")
		}
	}
}

// TestEmbed: an embedding is the mean, the first or the last one of the hidden states, of length 1, whatever else is computed.
func TestEmbed(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Chunk: 64, Context: 80})
	texts := [][]int32{text(5, 1), text(1, 2), text(80, 3), text(64, 4), text(30, 5), text(7, 6)}
	all := map[model.Pooling][][]float32{}
	for _, p := range []model.Pooling{model.PoolNone, model.PoolMean, model.PoolCLS, model.PoolLast} {
		all[p] = embed(t, m, texts, p)
	}
	none := all[model.PoolNone]
	for i, x := range texts {
		if len(none[i]) != 256*len(x) {
			t.Fatalf("text %d of %d tokens has %d elements", i, len(x), len(none[i]))
		}
		items := []model.Item{{Session: oracle.NewSession(t, m), Tokens: x, Want: model.WantAll, WantHidden: true}}
		oracle.FeedAll(t, items)
		rows := slices.Collect(slices.Chunk(items[0].Hidden, 256))
		for r, row := range rows {
			near(t, fmt.Sprintf("text %d, token %d", i, r), none[i][256*r:][:256], row)
		}
		mean := make([]float32, 256)
		for _, row := range rows {
			for j := range row {
				mean[j] += row[j] / float32(len(rows))
			}
		}
		for p, want := range map[model.Pooling][]float32{model.PoolMean: mean, model.PoolCLS: rows[0], model.PoolLast: rows[len(rows)-1]} {
			have := all[p][i]
			near(t, fmt.Sprintf("text %d, %s", i, p), have, want)
			if alone := embed(t, m, texts[i:i+1], p)[0]; !equal(bits([][]float32{have}), bits([][]float32{alone})) {
				t.Errorf("text %d, %s: alone it has other bits", i, p)
			}
		}
	}
}

// near compares an embedding with another one over its length.
func near(t *testing.T, what string, have, want []float32) {
	t.Helper()
	square := 0.0
	for _, x := range want {
		square += float64(x) * float64(x)
	}
	unit := make([]float32, len(want))
	for i, x := range want {
		unit[i] = float32(float64(x) / math.Sqrt(square))
	}
	if e := oracle.RelativeRMS(have, unit); !(e < 1e-6) {
		t.Errorf("%s: off by %.1e", what, e)
	}
}

// TestEmbedRefuses: each fault of a call, and of a file, is an error that names it.
func TestEmbedRefuses(t *testing.T) {
	m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Context: 20})
	for want, call := range map[string]struct {
		texts [][]int32
		p     model.Pooling
	}{
		"text 1: has 0 tokens; it must have 1 to the 20 of option Context": {[][]int32{{1}, {}}, model.PoolMean},
		"text 0: has 21 tokens":                              {[][]int32{text(21, 1)}, model.PoolMean},
		"argument p: is 4; kinds of pooling are 0 to 3":      {[][]int32{{1}}, 4},
		"text 1: model: argument Tokens: token 0 is 70; the": {[][]int32{{1}, {70}}, model.PoolLast},
	} {
		if _, err := m.Embed(context.Background(), call.texts, call.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if out := embed(t, m, nil, model.PoolMean); len(out) != 0 {
		t.Errorf("no text has %d embeddings", len(out))
	}
	for value, want := range map[uint32]string{4: "is 4; this version knows 0 to 3: none, mean, cls, last", 259: "is 259; it must be 1 to 255"} {
		err := refusal(oracle.NewTiny("llama", oracle.Same("F16")).Set("pooling_type", value), model.Options{})
		if err == nil || !strings.Contains(err.Error(), `key "llama.pooling_type": `+want) {
			t.Error(err)
		}
	}
}

// TestPooling: a file says which pooling its model was made for, and names of poolings are read as they are written.
func TestPooling(t *testing.T) {
	for _, p := range []model.Pooling{model.PoolNone, model.PoolMean, model.PoolCLS, model.PoolLast} {
		m := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")).Set("pooling_type", uint32(p)), model.Options{})
		if m.Config().Pooling != p {
			t.Errorf("pooling %d is read as %s", p, m.Config().Pooling)
		}
		if q, err := model.ParsePooling(p.String()); q != p || err != nil {
			t.Errorf("%s is read as %s: %v", p, q, err)
		}
	}
	if _, err := model.ParsePooling("rank"); err == nil || !strings.Contains(err.Error(), "none, mean, cls, last") {
		t.Error(err)
	}
	if p := tiny(t, oracle.NewTiny("llama", oracle.Same("F16")), model.Options{}).Config().Pooling; p != model.PoolNone {
		t.Error(p)
	}
}
