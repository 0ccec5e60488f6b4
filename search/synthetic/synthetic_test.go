package synthetic

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

func open(t *testing.T, name string) (*Model, *gguf.File) {
	t.Helper()
	m, err := New(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.File()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m, f
}

// TestSizes: the matrices of layers and of the head have the bytes that the same tensors of the published models have, in MB.
func TestSizes(t *testing.T) {
	for name, want := range map[string][2]float64{
		"bitnet-2b": {537.3, 269.3}, "llama-1b-q4_0": {547.4, 215.5}, "llama-1b-q4_k_m": {584.1, 215.5},
		"qwen3-0.6b-q8_0": {467.9, 165.3}, "llama-8b-q4_0": {3925.9, 430.9},
		"bonsai-1.7b-q1_0": {198.2, 43.8}, "bonsai-1.7b-q2_0": {396.4, 87.5}, // 1.125 and 2.25 bits of 1,409,286,144 and 311,164,928 weights
	} {
		_, f := open(t, name)
		layers, head := 0.0, 0.0
		for i := range f.Tensors {
			x := &f.Tensors[i]
			switch {
			case x.Err != nil:
				t.Errorf("%s: %v", name, x.Err)
			case strings.HasPrefix(x.Name, "blk.") && len(x.Shape) == 2:
				layers += float64(x.Size) / 1e6
			case x.Name == "output.weight" || x.Name == "token_embd.weight" && f.Tensor("output.weight") == nil:
				head = float64(x.Size) / 1e6
			}
		}
		if math.Abs(layers-want[0]) > 0.051 || math.Abs(head-want[1]) > 0.051 {
			t.Errorf("%s: %.1f MB of layers, %.1f of the head; want %v", name, layers, head, want)
		}
	}
	if len(Names()) != 7 {
		t.Errorf("%d models, 7 are checked", len(Names()))
	}
}

// TestTypes: some layers of a Q4_K_M model have better types.
func TestTypes(t *testing.T) {
	_, f := open(t, "llama-1b-q4_k_m")
	better := ""
	for l := range 16 {
		switch x := f.Tensor("blk." + string("0123456789abcdef"[l]) + ".attn_v.weight"); {
		case l > 9:
		case x.TypeName() == "Q6_K":
			better += "6"
		default:
			better += "4"
		}
	}
	if better != "6644644644" {
		t.Errorf("attn_v of the layers 0 to 9 has the types %s", better)
	}
	if typ := f.Tensor("blk.15.ffn_down.weight").TypeName(); typ != "Q6_K" {
		t.Errorf("ffn_down of the last layer is %s", typ)
	}
}

// TestReadAt: the file has the same bytes in whatever pieces it is read, another seed other ones, and its end is known.
func TestReadAt(t *testing.T) {
	m, f := open(t, "qwen3-0.6b-q8_0")
	x := f.Tensor("blk.3.attn_k.weight")
	from, row := x.Offset-100, 1024/32*34
	whole := make([]byte, 5*row)
	if n, err := m.ReadAt(whole, from); n != len(whole) || err != nil {
		t.Fatal(n, err)
	}
	for _, step := range []int{1, 7, 99, row - 1, row, 2*row + 3} {
		var pieces []byte
		for at := 0; at < len(whole); at += step {
			p := make([]byte, min(step, len(whole)-at))
			if n, err := m.ReadAt(p, from+int64(at)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			pieces = append(pieces, p...)
		}
		if !bytes.Equal(pieces, whole) {
			t.Errorf("in pieces of %d the bytes are others", step)
		}
	}
	other, err := New("qwen3-0.6b-q8_0", 2)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]byte, len(whole))
	if other.ReadAt(rows, from); bytes.Equal(rows, whole) {
		t.Error("two seeds give the same weights")
	}
	if n, err := m.ReadAt(make([]byte, 10), m.Size()-4); n != 4 || err != io.EOF {
		t.Errorf("4 bytes before the end: %d, %v", n, err)
	}
	if n, err := m.ReadAt(make([]byte, 10), m.Size()+4); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d, %v", n, err)
	}
	if _, err := m.ReadAt(nil, -1); err == nil {
		t.Error("a negative offset is no error")
	}
}

// TestWeights: matrices have the standard deviation 1/sqrt(K), no two rows are the same, and norms are 1.
func TestWeights(t *testing.T) {
	const k, rows = 1024, 64
	_, f := open(t, "qwen3-0.6b-q8_0")
	data, err := f.Tensor("blk.3.attn_k.weight").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	w, src, err := blocks.ReadRows("Q8_0", data, len(data)/(k/32*34), k, 0, rows)
	if err != nil {
		t.Fatal(err)
	}
	squares := 0.0
	for r := range rows {
		for i := range k {
			v := float64(src.Value(w, r, i, k))
			squares += v * v
		}
	}
	if deviation := math.Sqrt(squares / rows / k); math.Abs(deviation*32-1) > 0.05 {
		t.Errorf("the standard deviation is %.4f, want %.4f", deviation, 1./32)
	}
	seen := map[string]bool{}
	for row := range slices.Chunk(data, k/32*34) {
		if seen[string(row)] {
			t.Fatal("two rows are the same")
		}
		seen[string(row)] = true
	}
	norm, err := f.Tensor("blk.3.attn_q_norm.weight").Bytes()
	if err != nil || !bytes.Equal(norm, bytes.Repeat([]byte{0, 0, 128, 63}, 128)) {
		t.Errorf("attn_q_norm is %x, %v", norm, err)
	}
}

// TestVocabulary: tokens are unique, every merge makes one from two, and the special ones are the last.
func TestVocabulary(t *testing.T) {
	for _, v := range []vocabulary{llama3, qwen} {
		tokens, merges := v.words()
		ids := map[string]int{}
		for i, x := range tokens {
			ids[x] = i
		}
		if len(tokens) != v.size || len(ids) != v.size {
			t.Fatalf("%s: %d tokens, %d different ones; want %d", v.pre, len(tokens), len(ids), v.size)
		}
		for _, m := range merges {
			left, right, _ := strings.Cut(m, " ")
			if of, ok := ids[left+right]; !ok || of <= ids[left] || ids[right] == 0 {
				t.Fatalf("%s: merge %q makes token %d", v.pre, m, of)
			}
		}
		if len(merges) != v.size-256-len(v.special) {
			t.Errorf("%s: %d merges", v.pre, len(merges))
		}
	}
	_, f := open(t, "bitnet-2b")
	if id, err := f.Int("tokenizer.ggml.eos_token_id"); err != nil || id != 128254 {
		t.Errorf("eos is %d, %v", id, err)
	}
	if kinds, _ := f.Get("tokenizer.ggml.token_type").([]int32); len(kinds) != 128256 || kinds[128252] != 1 || kinds[128253] != 3 {
		t.Errorf("%d kinds of tokens", len(kinds))
	}
}

// TestRopeFactors: short wavelengths are kept, long ones are divided by the factor, and between them factors grow.
func TestRopeFactors(t *testing.T) {
	f := (&ropeFactors{32, 1, 4, 8192}).values(5e5, 64)
	if len(f) != 32 || f[0] != 1 || f[31] != 32 {
		t.Errorf("%d factors, %v to %v", len(f), f[0], f[31])
	}
	between := 0
	for i := 1; i < len(f); i++ {
		if f[i] < f[i-1] {
			t.Errorf("factor %d falls", i)
		}
		if f[i] > 1 && f[i] < 32 {
			between++
		}
	}
	if between != 3 {
		t.Errorf("%d factors lie between", between)
	}
}

func TestUnknownModel(t *testing.T) {
	if _, err := New("gpt-7", 1); err == nil || !strings.Contains(err.Error(), `"gpt-7": have bitnet-2b, llama-1b-q4_0`) {
		t.Error(err)
	}
}

func BenchmarkReadAt(b *testing.B) {
	m, err := New("bitnet-2b", 1)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for i := 0; b.Loop(); i++ {
		m.ReadAt(p, m.size/2+int64(i%200)<<20)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New("bitnet-2b", 1); err != nil {
			b.Fatal(err)
		}
	}
}
