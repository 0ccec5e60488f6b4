//go:build peer

package graphs

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/ggufparts"
	"github.com/tmacc/tmacc/tests/oracle"
)

// TestEmbed compares embeddings, with each pooling, with the ones of llama.cpp, of the models in the repository. Their weights are
// floats here.
func TestEmbed(t *testing.T) {
	dir := libraries(t)
	for _, name := range expected.Committed {
		path := floats(t, name)
		for _, p := range []model.Pooling{model.PoolNone, model.PoolMean, model.PoolCLS, model.PoolLast} {
			t.Run(name+"/"+p.String(), func(t *testing.T) {
				t.Parallel()
				compareEmbeddings(t, dir, path, promptsOf(t, name), p)
			})
		}
	}
}

// promptsOf are the prompts of a model.
func promptsOf(t *testing.T, name string) (texts [][]int32) {
	t.Helper()
	for _, p := range expected.Open(t, name).Prompts {
		var tokens []int32
		for _, token := range p.Tokens() {
			tokens = append(tokens, int32(token))
		}
		texts = append(texts, tokens)
	}
	return texts
}

// compareEmbeddings compares embeddings of texts.
func compareEmbeddings(t *testing.T, dir, path string, texts [][]int32, pooling model.Pooling) {
	t.Helper()
	p, err := llama.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Load(t.Context(), llama.Options{Path: path, Context: 512, Float: true, Plain: true, Embed: true, Pooling: int(pooling)}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(path, model.PureGo{}, model.Options{Cache: model.CacheF32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	have, err := m.Embed(t.Context(), texts, pooling)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, text := range texts {
		want, err := p.Embed(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		unit(want, m.Config().Embedding)
		worst = max(worst, oracle.RelativeRMS(have[i], want))
	}
	if t.Logf("off by at most %.1e", worst); !(worst < 1e-4) {
		t.Errorf("embeddings are off by %.1e", worst)
	}
}

// floats is the file of a model with all matrices as F32.
func floats(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(expected.Open(t, name).Path)
	if err != nil {
		t.Fatal(err)
	}
	p := ggufparts.Take(data)
	for i := range p.Tensors {
		x := &p.Tensors[i]
		if typeName := gguf.Type(x.Type).String(); len(x.Shape) > 1 && typeName != "F32" {
			x.Data, x.Type = dequantized(t, typeName, x), 0
		}
	}
	path := filepath.Join(t.TempDir(), name+"-f32.gguf")
	if err := os.WriteFile(path, p.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dequantized is a tensor as F32.
func dequantized(t *testing.T, typeName string, x *ggufparts.Tensor) (out []byte) {
	t.Helper()
	w, a, err := blocks.Product(typeName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := runtime.PureGo(w, a)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, x.Shape[0])
	m, err := p.NewMatrixOfBlocks(typeName, x.Data, rowsOf(x), len(row))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for r := range rowsOf(x) {
		if err := m.Row(row, r); err != nil {
			t.Fatal(err)
		}
		for _, v := range row {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

// rowsOf is the rows of all matrices of a tensor.
func rowsOf(x *ggufparts.Tensor) int {
	n := uint64(1)
	for _, extent := range x.Shape[1:] {
		n *= extent
	}
	return int(n)
}

// unit divides each row of n elements by its length.
func unit(x []float32, n int) {
	for ; len(x) > 0; x = x[n:] {
		square := 0.0
		for _, v := range x[:n] {
			square += float64(v) * float64(v)
		}
		for i := range n {
			x[i] = float32(float64(x[i]) / math.Sqrt(square))
		}
	}
}
