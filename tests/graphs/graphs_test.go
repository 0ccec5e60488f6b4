//go:build peer

package graphs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/measure/library"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/tests/oracle"
)

func TestMain(m *testing.M) {
	llama.Main()
	os.Exit(m.Run())
}

// cases are architectures and the keys that make a small model of one show all of its graph. llama.cpp gives contexts a multiple of 256
// positions.
var cases = []struct {
	name    string
	layers  int
	context int // of sessions
	experts int
	change  func(x *oracle.Tiny)
}{
	{"llama", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"llama with a factor of cosines", 2, 256, 0, func(x *oracle.Tiny) {
		x.Set("rope.scaling.factor", float32(4)).Set("rope.scaling.attn_factor", float32(1.5))
	}},
	{"llama with yarn", 2, 256, 0, func(x *oracle.Tiny) {
		x.Set("rope.scaling.type", "yarn").Set("rope.scaling.factor", float32(4)).Set("rope.scaling.original_context_length", uint32(64)).
			Set("rope.scaling.attn_factor", float32(1.25))
	}},
	{"llama beyond its context", 2, 512, 0, func(x *oracle.Tiny) {
		x.Context = 1024
		x.Set("rope.scaling.type", "longrope").Set("rope.scaling.original_context_length", uint32(256)).Set("rope.scaling.attn_factor", float32(1.19))
		x.AddFactors("rope_factors_short.weight", 32, 1, 0.05)
		x.AddFactors("rope_factors_long.weight", 32, 1.5, 0.1)
	}},
	{"qwen2", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"qwen3", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"mistral3", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"mistral3 with yarn and queries that grow", 2, 256, 0, func(x *oracle.Tiny) {
		x.Set("rope.scaling.type", "yarn").Set("rope.scaling.factor", float32(16)).Set("rope.scaling.original_context_length", uint32(40)).
			Set("rope.scaling.yarn_log_multiplier", float32(1)).Set("attention.temperature_scale", float32(0.3))
	}},
	{"smollm3", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"smollm3 of 9 layers", 9, 256, 0, func(x *oracle.Tiny) {}},
	{"gemma", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"gemma2", 2, 256, 0, func(x *oracle.Tiny) {}},
	{"gemma2 with a window and caps", 2, 256, 0, func(x *oracle.Tiny) {
		x.Set("attention.sliding_window", uint32(20)).Set("attn_logit_softcapping", float32(0.5)).Set("final_logit_softcapping", float32(3))
	}},
	{"gemma2 of 46 layers", 46, 256, 0, func(x *oracle.Tiny) {}},
	{"gemma3", 2, 256, 0, func(x *oracle.Tiny) { x.Set("attention.sliding_window", uint32(20)) }},
	{"gemma3 with scaling and caps", 7, 256, 0, func(x *oracle.Tiny) {
		x.Set("attention.sliding_window", uint32(20)).Set("attention.sliding_window_pattern", nil).Set("rope.freq_base", float32(1e6)).
			Set("rope.freq_base_swa", float32(5000)).Set("rope.scaling.type", "linear").Set("rope.scaling.factor", float32(8)).
			Set("final_logit_softcapping", float32(3))
	}},
	{"gemma3 without windows", 2, 256, 0, func(x *oracle.Tiny) { x.Set("attention.sliding_window", nil) }},
	{"gemma3 of 62 layers", 62, 256, 0, func(x *oracle.Tiny) {}},
	{"phi3", 2, 256, 0, func(x *oracle.Tiny) { x.Set("rope.dimension_count", uint32(48)) }},
	{"phi3 within its context", 2, 256, 0, longrope},
	{"phi3 beyond its context", 2, 512, 0, longrope},
	{"llama with experts", 2, 256, 4, func(x *oracle.Tiny) {}},
	{"qwen2moe", 2, 256, 4, func(x *oracle.Tiny) { x.AddHead() }},
	{"qwen3moe", 2, 256, 9, func(x *oracle.Tiny) {}},
}

// longrope gives a model factors for contexts up to 256 positions and for longer ones.
func longrope(x *oracle.Tiny) {
	x.Context = 1024
	x.Set("rope.dimension_count", uint32(48)).Set("rope.scaling.original_context_length", uint32(256)).Set("rope.scaling.attn_factor", float32(1.19))
	x.AddFactors("rope_factors_short.weight", 24, 1, 0.05)
	x.AddFactors("rope_factors_long.weight", 24, 1.5, 0.1)
}

// TestGraphs: the logits of each case are llama.cpp's. Its GELU goes through 16-bit floats.
func TestGraphs(t *testing.T) {
	dir := libraries(t)
	tokens := make([]int32, 100)
	for i := range tokens {
		tokens[i] = int32((i*i*7 + i*13) % 70)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			arch, _, changed := strings.Cut(c.name, " ")
			x := oracle.NewTinyLayers(arch, c.layers, oracle.Same("F32"))
			if c.experts > 0 {
				x = oracle.NewTinyExperts(arch, c.experts, oracle.Same("F32"))
			}
			path := file(t, x, c.change)
			limit := 1e-5
			if strings.HasPrefix(arch, "gemma") {
				limit = 2e-3
			}
			want := theirs(t, dir, path, c.context, tokens)
			have := ours(t, path, c.context, tokens)
			if off := oracle.RelativeRMS(have, want); !(off <= limit) {
				t.Errorf("logits are off by %.1e, more than %.0e", off, limit)
			}
			if plain := file(t, oracle.NewTinyLayers(arch, 2, oracle.Same("F32")), func(*oracle.Tiny) {}); changed {
				if off := oracle.RelativeRMS(ours(t, plain, 256, tokens), want); !(off > 20*limit) {
					t.Errorf("without the changes, logits differ by %.1e only", off)
				}
			}
		})
	}
}

// libraries is the folder of llama.cpp's libraries.
func libraries(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("TMACC_GGML")
	if dir == "" {
		t.Skip("TMACC_GGML names no folder of libraries; " + library.Remedy)
	}
	return dir
}

// file is the path of a model with a change.
func file(t *testing.T, x *oracle.Tiny, change func(x *oracle.Tiny)) string {
	t.Helper()
	change(x)
	x.Set("vocab_size", uint32(x.Vocabulary))
	x.Keys = append(x.Keys, oracle.Key{Name: "tokenizer.ggml.model", Value: "none"})
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, x.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// theirs are the logits after the last token by llama.cpp, ours by package model.
func theirs(t *testing.T, dir, path string, context int, tokens []int32) []float32 {
	t.Helper()
	p, err := llama.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Load(t.Context(), llama.Options{Path: path, Context: context, Float: true, Plain: true}); err != nil {
		t.Fatal(err)
	}
	logits, err := p.Logits(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

func ours(t *testing.T, path string, context int, tokens []int32) []float32 {
	t.Helper()
	m, err := model.Open(path, model.PureGo{}, model.Options{Context: context, Cache: model.CacheF32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, tokens)[0]
}
