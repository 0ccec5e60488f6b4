package synthetic

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// shape is the shape of a published model, and the types of its tensors. A new model is a new row of shapes.
type shape struct {
	name, arch      string
	layers          int
	embedding, ff   int // lengths
	heads, kv, head int // heads of queries, heads of keys and values, elements of a head
	context         int
	ropeBase, eps   float64
	ropeFactors     *ropeFactors // nil: none
	embed, output   string       // the types of the embedding and of the output matrix, "" if that is the embedding
	matrices        string       // the type of all other matrices
	better          *better      // nil: none
	norms           []norm       // beyond attn_norm and ffn_norm
	words           vocabulary
}

// better is the type of some matrices in the layers that llama.cpp's quantization to Q4_K_M gives more bits.
type better struct {
	typ   string
	names []string
}

// in reports whether layer l of n has the better type.
func (b *better) in(l, n int) bool { return l < n/8 || l >= 7*n/8 || (l-n/8)%3 == 2 }

// norm is a norm that each layer has, and the length of its weights.
type norm struct {
	name   string
	length func(s *shape) int
}

// ropeFactors are the constants of Llama 3.1's rule: frequencies of long wavelengths are divided by factor.
type ropeFactors struct{ factor, low, high, context float64 }

func lengthOfEmbedding(s *shape) int { return s.embedding }
func lengthOfHead(s *shape) int      { return s.head }
func lengthOfHeads(s *shape) int     { return s.heads * s.head }
func lengthOfFF(s *shape) int        { return s.ff }

func qwen3(name string, s shape) shape {
	s.name, s.arch, s.layers, s.kv, s.head, s.heads = name, "qwen3", 28, 8, 128, 16
	s.context, s.ropeBase, s.eps = 40960, 1e6, 1e-6
	s.norms, s.words = []norm{{"attn_q_norm", lengthOfHead}, {"attn_k_norm", lengthOfHead}}, qwen
	return s
}

func llama1B(name string, s shape) shape {
	s.name, s.arch, s.layers, s.embedding, s.ff = name, "llama", 16, 2048, 8192
	s.heads, s.kv, s.head, s.context, s.ropeBase, s.eps = 32, 8, 64, 131072, 5e5, 1e-5
	s.ropeFactors, s.words, s.embed = &ropeFactors{32, 1, 4, 8192}, llama3, "Q6_K"
	return s
}

// shapes lists the models. The sources are the config.json of microsoft/bitnet-b1.58-2B-4T, meta-llama/Llama-3.2-1B,
// meta-llama/Meta-Llama-3-8B, Qwen/Qwen3-0.6B and Qwen/Qwen3-1.7B, and the types that llama.cpp's quantization gives them.
var shapes = []shape{
	{
		name: "bitnet-2b", arch: "bitnet", layers: 30, embedding: 2560, ff: 6912, heads: 20, kv: 5, head: 128,
		context: 4096, ropeBase: 5e5, eps: 1e-5, embed: "Q6_K", matrices: "TQ2_0", words: llama3,
		norms: []norm{{"attn_sub_norm", lengthOfHeads}, {"ffn_sub_norm", lengthOfFF}},
	},
	llama1B("llama-1b-q4_0", shape{matrices: "Q4_0"}),
	llama1B("llama-1b-q4_k_m", shape{matrices: "Q4_K", better: &better{"Q6_K", []string{"attn_v", "ffn_down"}}}),
	{
		name: "llama-8b-q4_0", arch: "llama", layers: 32, embedding: 4096, ff: 14336, heads: 32, kv: 8, head: 128,
		context: 8192, ropeBase: 5e5, eps: 1e-5, embed: "Q4_0", output: "Q6_K", matrices: "Q4_0", words: llama3,
	},
	qwen3("qwen3-0.6b-q8_0", shape{embedding: 1024, ff: 3072, embed: "Q8_0", matrices: "Q8_0"}),
	qwen3("bonsai-1.7b-q1_0", shape{embedding: 2048, ff: 6144, embed: "Q1_0", matrices: "Q1_0"}),
	qwen3("bonsai-1.7b-q2_0", shape{embedding: 2048, ff: 6144, embed: "Q2_0", matrices: "Q2_0"}),
}

// Names lists the models.
func Names() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

func lookup(name string) (*shape, error) {
	for i := range shapes {
		if shapes[i].name == name {
			return &shapes[i], nil
		}
	}
	return nil, fmt.Errorf("unknown synthetic model %q: have %s", name, strings.Join(Names(), ", "))
}

// tensors lists the tensors of a model, the output's first, then layer by layer.
func (s *shape) tensors() []tensor {
	all := []tensor{
		matrix("token_embd.weight", s.embed, s.embedding, s.words.size),
		vector("output_norm.weight", ones(s.embedding)),
	}
	if s.output != "" {
		all = append(all, matrix("output.weight", s.output, s.embedding, s.words.size))
	}
	if s.ropeFactors != nil {
		all = append(all, vector("rope_freqs.weight", s.ropeFactors.values(s.ropeBase, s.head)))
	}
	for l := range s.layers {
		all = append(all, s.layer(l)...)
	}
	return all
}

// layer lists the tensors of layer l.
func (s *shape) layer(l int) (all []tensor) {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", l, part) }
	for _, n := range slices.Concat([]norm{{"attn_norm", lengthOfEmbedding}, {"ffn_norm", lengthOfEmbedding}}, s.norms) {
		all = append(all, vector(name(n.name), ones(n.length(s))))
	}
	for _, m := range []struct {
		name          string
		columns, rows int
	}{
		{"attn_q", s.embedding, s.heads * s.head},
		{"attn_k", s.embedding, s.kv * s.head},
		{"attn_v", s.embedding, s.kv * s.head},
		{"attn_output", s.heads * s.head, s.embedding},
		{"ffn_gate", s.embedding, s.ff},
		{"ffn_up", s.embedding, s.ff},
		{"ffn_down", s.ff, s.embedding},
	} {
		all = append(all, matrix(name(m.name), s.typeOf(m.name, l), m.columns, m.rows))
	}
	return all
}

func matrix(name, typ string, columns, rows int) tensor {
	return tensor{name: name, typ: typ, shape: []int{columns, rows}}
}

func vector(name string, values []float32) tensor {
	return tensor{name: name, typ: "F32", shape: []int{len(values)}, values: values}
}

func ones(n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = 1
	}
	return all
}

// values returns the numbers that frequencies are divided by, one for each pair of elements of a head.
func (f *ropeFactors) values(base float64, head int) []float32 {
	all := ones(head / 2)
	for i := range all {
		turns := f.context * math.Pow(base, -2*float64(i)/float64(head)) / (2 * math.Pi) // within the original context
		if turns < f.high {
			smooth := max(0, (turns-f.low)/(f.high-f.low))
			all[i] = float32(1 / ((1-smooth)/f.factor + smooth))
		}
	}
	return all
}

// typeOf is the type of a matrix of layer l.
func (s *shape) typeOf(name string, l int) string {
	if s.better != nil && slices.Contains(s.better.names, name) && s.better.in(l, s.layers) {
		return s.better.typ
	}
	return s.matrices
}
