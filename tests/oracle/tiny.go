package oracle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// Tiny is a small model with random weights. Tests change it before they build its file.
type Tiny struct {
	Arch                             string
	Layers, Embedding, Feed          int
	Heads, KVHeads, Size, Vocabulary int
	Context                          int
	Experts, Used                    int   // 0: the feed-forward part is dense
	Keys                             []Key // besides the usual ones
	Tensors                          []Tensor
	types                            func(name string) string
	rng                              *rand.Rand
}

// Key is a metadata value: a uint32, an int32, a float32, a bool, a string, or an array of strings or truth values.
type Key struct {
	Name  string
	Value any
}

// Tensor is a tensor of a tiny model.
type Tensor struct {
	Name  string
	Type  string
	Shape []uint64
	Data  []byte
}

// typeIDs are the ids of the types that tiny models have.
var typeIDs = map[string]uint32{"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30, "TQ2_0": 35, "I2_S": 36}

// NewTiny is a model of an architecture, 2 layers and 256 elements, whose matrices are of the types that a function of their names
// says.
func NewTiny(arch string, types func(name string) string) *Tiny { return newTiny(arch, 2, 0, types) }

// NewTinyLayers is NewTiny of another number of layers.
func NewTinyLayers(arch string, layers int, types func(name string) string) *Tiny {
	return newTiny(arch, layers, 0, types)
}

// NewTinyExperts is NewTiny with experts in each layer. A position chooses two of them.
func NewTinyExperts(arch string, experts int, types func(name string) string) *Tiny {
	return newTiny(arch, 2, experts, types)
}

func newTiny(arch string, layers, experts int, types func(name string) string) *Tiny {
	x := &Tiny{Arch: arch, Layers: layers, Experts: experts, Used: 2, Embedding: 256, Feed: 256, Heads: 4, KVHeads: 2, Size: 64, Vocabulary: 70, Context: 300, types: types, rng: rand.New(rand.NewPCG(3, 4))}
	if strings.HasPrefix(arch, "gemma") { // whose heads are not equal parts of the hidden state
		x.Heads, x.KVHeads = 2, 1
	}
	x.matrix("token_embd.weight", x.Embedding, x.Vocabulary)
	x.vector("output_norm.weight", x.Embedding)
	if arch == "gemma3" { // one layer with a window, one without
		x.Set("attention.sliding_window", uint32(70)).Set("attention.sliding_window_pattern", uint32(2))
	}
	for i := range x.Layers {
		x.layer(fmt.Sprintf("blk.%d.", i))
	}
	return x
}

// Same is a function for NewTiny: all matrices have one type.
func Same(typeName string) func(string) string { return func(string) string { return typeName } }

func (x *Tiny) layer(at string) {
	queries, keys := x.Heads*x.Size, x.KVHeads*x.Size
	x.vector(at+"attn_norm.weight", x.Embedding)
	if x.Arch == "phi3" {
		x.matrix(at+"attn_qkv.weight", x.Embedding, queries+2*keys)
	} else {
		x.matrix(at+"attn_q.weight", x.Embedding, queries)
		x.matrix(at+"attn_k.weight", x.Embedding, keys)
		x.matrix(at+"attn_v.weight", x.Embedding, keys)
	}
	x.matrix(at+"attn_output.weight", queries, x.Embedding)
	x.vector(at+"ffn_norm.weight", x.Embedding)
	x.feed(at)
	switch x.Arch {
	case "qwen2", "qwen2moe":
		x.vector(at+"attn_q.bias", queries)
		x.vector(at+"attn_k.bias", keys)
		x.vector(at+"attn_v.bias", keys)
	case "qwen3", "qwen3moe":
		x.vector(at+"attn_q_norm.weight", x.Size)
		x.vector(at+"attn_k_norm.weight", x.Size)
	case "gemma2":
		x.vector(at+"post_attention_norm.weight", x.Embedding)
		x.vector(at+"post_ffw_norm.weight", x.Embedding)
	case "gemma3":
		x.vector(at+"attn_q_norm.weight", x.Size)
		x.vector(at+"attn_k_norm.weight", x.Size)
		x.vector(at+"post_attention_norm.weight", x.Embedding)
		x.vector(at+"post_ffw_norm.weight", x.Embedding)
	case "bitnet", "bitnet-b1.58":
		x.vector(at+"attn_sub_norm.weight", queries)
		x.vector(at+"ffn_sub_norm.weight", x.Feed)
	}
}

// AddHead adds a head of its own, where the embedding was the head.
func (x *Tiny) AddHead() { x.matrix("output.weight", x.Embedding, x.Vocabulary) }

// AddVector adds a tensor that usual models do not have.
func (x *Tiny) AddVector(name string, n int) { x.vector(name, n) }

// AddFactors adds a tensor of growing numbers: each is the one before, times 1 + growth.
func (x *Tiny) AddFactors(name string, n int, first, growth float64) {
	x.vector(name, n)
	data := x.Tensor(name).Data[:0]
	for i := range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(first*math.Pow(1+growth, float64(i)))))
	}
}

// vector adds a tensor of numbers near 1.
func (x *Tiny) vector(name string, n int) {
	x.Tensors = append(x.Tensors, Tensor{name, "F32", []uint64{uint64(n)}, x.floats("F32", n, 1, 0.1)})
}

// matrix adds a tensor of m rows of k weights.
func (x *Tiny) matrix(name string, k, m int) {
	t := Tensor{Name: name, Type: x.types(name), Shape: []uint64{uint64(k), uint64(m)}}
	if t.Data = x.floats(t.Type, k*m, 0, 1/math.Sqrt(float64(k))); t.Data == nil {
		var err error
		if t.Data, err = blocks.Random(x.rng, t.Type, m, k); err != nil {
			panic(err)
		}
	}
	x.Tensors = append(x.Tensors, t)
}

// feed adds the feed-forward part of a layer.
func (x *Tiny) feed(at string) {
	switch {
	case x.Experts > 0:
		x.matrix(at+"ffn_gate_inp.weight", x.Embedding, x.Experts)
		x.stack(at+"ffn_gate_exps.weight", x.Embedding, x.Feed)
		x.stack(at+"ffn_up_exps.weight", x.Embedding, x.Feed)
		x.stack(at+"ffn_down_exps.weight", x.Feed, x.Embedding)
		x.shared(at)
		return
	case x.Arch == "phi3":
		x.matrix(at+"ffn_up.weight", x.Embedding, 2*x.Feed)
	default:
		x.matrix(at+"ffn_gate.weight", x.Embedding, x.Feed)
		x.matrix(at+"ffn_up.weight", x.Embedding, x.Feed)
	}
	x.matrix(at+"ffn_down.weight", x.Feed, x.Embedding)
}

// shared adds the expert that all positions have, if the architecture has one.
func (x *Tiny) shared(at string) {
	if x.Arch == "qwen2moe" {
		x.Tensors = append(x.Tensors, Tensor{at + "ffn_gate_inp_shexp.weight", "F32", []uint64{uint64(x.Embedding)}, x.floats("F32", x.Embedding, 0, 1/math.Sqrt(float64(x.Embedding)))})
		x.matrix(at+"ffn_gate_shexp.weight", x.Embedding, x.Feed)
		x.matrix(at+"ffn_up_shexp.weight", x.Embedding, x.Feed)
		x.matrix(at+"ffn_down_shexp.weight", x.Feed, x.Embedding)
	}
}

// stack adds a tensor of a matrix for each expert.
func (x *Tiny) stack(name string, k, m int) {
	x.matrix(name, k, m*x.Experts)
	x.Tensors[len(x.Tensors)-1].Shape = []uint64{uint64(k), uint64(m), uint64(x.Experts)}
}

// floats are random numbers of a type of floats, nil of other types.
func (x *Tiny) floats(typeName string, n int, mean, deviation float64) (data []byte) {
	for range n {
		v := float32(mean + deviation*x.rng.NormFloat64())
		switch typeName {
		case "F32":
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		case "F16":
			data = binary.LittleEndian.AppendUint16(data, format.HalfFromFloat32(v))
		case "BF16":
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
		default:
			return nil
		}
	}
	return data
}

// Set adds a key, or replaces the value of one. Its name begins without that of the architecture.
func (x *Tiny) Set(name string, value any) *Tiny {
	x.Keys = append(x.Keys, Key{x.Arch + "." + name, value})
	return x
}

// Tensor is the tensor of that name.
func (x *Tiny) Tensor(name string) *Tensor {
	for i := range x.Tensors {
		if x.Tensors[i].Name == name {
			return &x.Tensors[i]
		}
	}
	panic("no tensor " + name)
}

// Bytes is the file.
func (x *Tiny) Bytes() []byte {
	keys := []Key{
		{"general.architecture", x.Arch},
		{x.Arch + ".block_count", uint32(x.Layers)},
		{x.Arch + ".context_length", uint32(x.Context)},
		{x.Arch + ".embedding_length", uint32(x.Embedding)},
		{x.Arch + ".feed_forward_length", uint32(x.Feed)},
		{x.Arch + ".attention.head_count", uint32(x.Heads)},
		{x.Arch + ".attention.head_count_kv", uint32(x.KVHeads)},
		{x.Arch + ".attention.key_length", uint32(x.Size)},
		{x.Arch + ".attention.value_length", uint32(x.Size)},
		{x.Arch + ".attention.layer_norm_rms_epsilon", float32(1e-5)},
	}
	if x.Experts > 0 {
		keys = append(keys, Key{x.Arch + ".expert_count", uint32(x.Experts)}, Key{x.Arch + ".expert_used_count", uint32(x.Used)},
			Key{x.Arch + ".expert_feed_forward_length", uint32(x.Feed)})
	}
	for _, k := range x.Keys {
		keys = replace(keys, k)
	}
	f := ggufgen.Header(uint64(len(x.Tensors)), uint64(len(keys)))
	for _, k := range keys {
		k.add(f)
	}
	at := uint64(0)
	for _, t := range x.Tensors {
		f.Tensor(t.Name, typeIDs[t.Type], at, t.Shape...)
		at += uint64(len(t.Data)+31) / 32 * 32
	}
	for _, t := range x.Tensors {
		f.Pad(0).Add(t.Data)
	}
	return f.Pad(0).Bytes()
}

// replace sets the value of a key in a list, which gets the key if it has none of that name. A nil value removes it.
func replace(keys []Key, k Key) (out []Key) {
	for _, old := range keys {
		if old.Name != k.Name {
			out = append(out, old)
		}
	}
	if k.Value != nil {
		out = append(out, k)
	}
	return out
}

func (k Key) add(f *ggufgen.File) {
	f.Add(k.Name)
	switch v := k.Value.(type) {
	case uint32:
		f.Add(uint32(4), v)
	case float32:
		f.Add(uint32(6), v)
	case bool:
		f.Add(uint32(7), v)
	case string:
		f.Add(uint32(8), v)
	case int32:
		f.Add(uint32(5), uint32(v))
	case []bool:
		f.Add(uint32(9), uint32(7), uint64(len(v)))
		for _, b := range v {
			f.Add(b)
		}
	case []string:
		f.Add(uint32(9), uint32(8), uint64(len(v)))
		for _, s := range v {
			f.Add(s)
		}
	default:
		panic(fmt.Sprintf("no kind for %T", v))
	}
}

// File is the file, open.
func (x *Tiny) File() (*gguf.File, error) { return gguf.Read(x.Bytes()) }
