package models

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/tests/oracle"
)

// TestPerplexity compares perplexities of a held-out text with llama.cpp's, for trained models: chunks of 512 tokens, of which the
// second half counts. It takes minutes, and runs with TMACC_LONG=1.
func TestPerplexity(t *testing.T) {
	if os.Getenv("TMACC_LONG") == "" {
		t.Skip("takes minutes; TMACC_LONG=1 runs it")
	}
	folder := os.Getenv("TMACC_DATA")
	if folder == "" {
		t.Skip("TMACC_DATA names no folder")
	}
	text, err := os.ReadFile(filepath.Join(folder, "trained", "heldout.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		want, within float64
	}{
		{"tale-4m-f16", 32.139, 0.002},
		{"tale-bitnet-4m-f16", 35.831, 0.002},
		{"tale-4m-q4_0", 32.471, 0.005},
		{"tale-bitnet-4m-tq2_0", 35.845, 0.005},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := perplexity(t, filepath.Join(folder, "trained", c.name+".gguf"), string(text))
			t.Logf("perplexity %.4f, llama.cpp %.3f: %+.3f %%", have, c.want, 100*(have/c.want-1))
			if !(math.Abs(have/c.want-1) <= c.within) {
				t.Errorf("perplexity %v, want %v within %v", have, c.want, c.within)
			}
		})
	}
}

// perplexity is that of a text by the model in a file, with a cache of f32.
func perplexity(t *testing.T, path, text string) float64 {
	t.Helper()
	const chunk = 512
	tokens := tokensOf(t, path, text)
	p, err := kernels.New(context.Background(), kernels.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(path, p, model.Options{Cache: model.CacheF32, Threads: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sum, n := 0.0, 0
	for ; len(tokens) >= chunk; tokens = tokens[chunk:] {
		s := oracle.NewSession(t, m)
		rows := oracle.Feed(t, s, model.WantAll, tokens[:chunk])
		for i := chunk / 2; i+1 < chunk; i++ {
			sum += oracle.NLL(rows[i], tokens[i+1])
			n++
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return math.Exp(sum / float64(n))
}

// tokensOf is a text as tokens of the model in a file, without those that begin one.
func tokensOf(t *testing.T, path, text string) []int32 {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tk, err := token.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tk.Encode(text, token.Options{BOS: token.BOSNever})
}
