package models

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/perplexity"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/tests/drawn"
)

// few is how many chunks are measured without TMACC_LONG=1.
const few = 8

// trained are models of TMACC_DATA, with perplexities of its held-out text by llama.cpp v0.5.0, and divergences from an F16 model.
var trained = []struct {
	name, base string
	whole, few float64 // the perplexity of all chunks, and of the first few ones
	within     float64
	divergence float64 // of all chunks
}{
	{name: "tale-4m-f16", whole: 32.1391, few: 30.16884, within: 0.002},
	{name: "tale-bitnet-4m-f16", whole: 35.8307, few: 32.97057, within: 0.002},
	{name: "tale-4m-q4_0", base: "tale-4m-f16", whole: 32.471, few: 30.45658, within: 0.005, divergence: 0.01182},
	{name: "tale-bitnet-4m-tq2_0", base: "tale-bitnet-4m-f16", whole: 35.845, few: 32.95491, within: 0.005, divergence: 0.000604},
}

// TestPerplexity compares perplexities of a held-out text with llama.cpp's, and divergences from the models before they were quantized.
// TMACC_LONG=1 takes the whole text, which takes a minute.
func TestPerplexity(t *testing.T) {
	folder, long := trainedFolder(t), drawn.New(t).Long()
	opt := perplexity.Options{Chunks: few}
	if long {
		opt.Chunks = 0
	}
	compiled := t.TempDir()
	bases := map[string]*bytes.Buffer{"tale-4m-f16": {}, "tale-bitnet-4m-f16": {}}
	for _, c := range trained {
		t.Run(c.name, func(t *testing.T) {
			m, tokens := heldOut(t, filepath.Join(folder, c.name+".gguf"), compiled, model.CacheF32)
			r := judge(t, m, tokens, opt, bases[c.name], bases[c.base])
			want := c.few
			if long {
				want = c.whole
			}
			within(t, "perplexity", r.Perplexity.Value, want, c.within)
			if c.base != "" && long {
				within(t, "divergence", r.Base.Divergence.Value, c.divergence, 0.1)
			}
		})
	}
}

// TestCacheTypes: caches of smaller types change predictions little.
func TestCacheTypes(t *testing.T) {
	path, opt, base := filepath.Join(trainedFolder(t), "tale-4m-f16.gguf"), perplexity.Options{Chunks: few}, &bytes.Buffer{}
	m, tokens := heldOut(t, path, t.TempDir(), model.CacheF32)
	judge(t, m, tokens, opt, base, nil)
	for cache, most := range map[model.CacheType]float64{model.CacheF16: 1e-6, model.CacheQ8: 1e-4} {
		m, tokens := heldOut(t, path, t.TempDir(), cache)
		if r := judge(t, m, tokens, opt, nil, base); !(r.Base.Divergence.Value <= most) {
			t.Errorf("cache of type %d: divergence %v, at most %v", cache, r.Base.Divergence, most)
		}
	}
}

// trainedFolder is the folder of the trained models and of heldout.txt.
func trainedFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("TMACC_DATA")
	if folder == "" {
		t.Skip("TMACC_DATA names no folder")
	}
	return filepath.Join(folder, "trained")
}

// within compares a figure with an expected one.
func within(t *testing.T, what string, have, want, share float64) {
	t.Helper()
	t.Logf("%s %.6f, llama.cpp %.6f: %+.3f %%", what, have, want, 100*(have/want-1))
	if !(math.Abs(have/want-1) <= share) {
		t.Errorf("%s %v, want %v within %v of it", what, have, want, share)
	}
}

// judge measures a text by a model. If base is not nil, it is what save got of another model.
func judge(t *testing.T, m *model.Model, tokens []int32, opt perplexity.Options, save, base *bytes.Buffer) *perplexity.Result {
	t.Helper()
	if base == nil {
		opt.Save = save
		r, err := perplexity.Measure(context.Background(), m, tokens, token.None, opt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b, err := perplexity.ReadBase(bytes.NewReader(base.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := perplexity.Compare(context.Background(), m, b, token.None, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// heldOut opens a model, with kernels in a folder, and encodes the held-out text by its tokenizer.
func heldOut(t *testing.T, path, folder string, cache model.CacheType) (*model.Model, []int32) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(trainedFolder(t), "heldout.txt"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tk, err := token.New(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := kernels.New(context.Background(), kernels.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := model.New(f, p, model.Options{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, tk.Encode(string(text), token.Options{})
}
