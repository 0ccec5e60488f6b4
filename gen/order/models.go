package order

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

// model describes a published model: the shapes of its matrices, and the format that each is usually stored in.
// A new model is a new row of models.
type model struct {
	name    string
	layers  int
	tensors []role
}

// role describes a matrix that each layer has or, with once, the model.
type role struct {
	name   string // as GGUF calls it, without "blk.N." and ".weight"
	m, k   int    // rows, columns
	format string
	once   bool
}

// models lists the built-in models. Sources: config.json of microsoft/bitnet-b1.58-2B-4T
// (its head is the embedding, which is not ternary), meta-llama/Llama-2-7b-hf, in 4 bits as GGUF stores
// it and in 2 bits with groups as EfficientQAT has them, and meta-llama/Meta-Llama-3-8B.
var models = []model{
	{"bitnet-b1.58-2b-4t", 30, []role{
		{"attn_q", 2560, 2560, "ternary-tensor", false},
		{"attn_k", 640, 2560, "ternary-tensor", false},
		{"attn_v", 640, 2560, "ternary-tensor", false},
		{"attn_output", 2560, 2560, "ternary-tensor", false},
		{"ffn_gate", 6912, 2560, "ternary-tensor", false},
		{"ffn_up", 6912, 2560, "ternary-tensor", false},
		{"ffn_down", 2560, 6912, "ternary-tensor", false},
		{"output", 128256, 2560, "w8", true},
	}},
	{"llama-2-7b", 32, []role{
		{"attn_q", 4096, 4096, "q4_0", false},
		{"attn_k", 4096, 4096, "q4_0", false},
		{"attn_v", 4096, 4096, "q4_0", false},
		{"attn_output", 4096, 4096, "q4_0", false},
		{"ffn_gate", 11008, 4096, "q4_0", false},
		{"ffn_up", 11008, 4096, "q4_0", false},
		{"ffn_down", 4096, 11008, "q4_0", false},
		{"output", 32000, 4096, "q8_0", true},
	}},
	{"llama-2-7b-2bit", 32, []role{
		{"attn_q", 4096, 4096, "w2-g128", false},
		{"attn_k", 4096, 4096, "w2-g128", false},
		{"attn_v", 4096, 4096, "w2-g128", false},
		{"attn_output", 4096, 4096, "w2-g128", false},
		{"ffn_gate", 11008, 4096, "w2-g128", false},
		{"ffn_up", 11008, 4096, "w2-g128", false},
		{"ffn_down", 4096, 11008, "w2-g128", false},
		{"output", 32000, 4096, "q8_0", true},
	}},
	{"llama-3-8b", 32, []role{
		{"attn_q", 4096, 4096, "q4_0", false},
		{"attn_k", 1024, 4096, "q4_0", false},
		{"attn_v", 1024, 4096, "q4_0", false},
		{"attn_output", 4096, 4096, "q4_0", false},
		{"ffn_gate", 14336, 4096, "q4_0", false},
		{"ffn_up", 14336, 4096, "q4_0", false},
		{"ffn_down", 4096, 14336, "q4_0", false},
		{"output", 128256, 4096, "q8_0", true},
	}},
}

// modelByName finds a built-in model.
func modelByName(name string) (model, error) {
	for _, m := range models {
		if m.name == name {
			return m, nil
		}
	}
	return model{}, fmt.Errorf("unknown model %q: have %s", name, strings.Join(Models(), ", "))
}

// Models lists the names of the built-in models.
func Models() []string {
	var names []string
	for _, m := range models {
		names = append(names, m.name)
	}
	return names
}

// AddModel adds the matrices of a built-in model. An unknown name is an error, and so are Options that one of its
// formats cannot have.
func (o *Order) AddModel(name string) error {
	m, err := modelByName(name)
	if err != nil {
		return err
	}
	for _, r := range m.tensors {
		w, err := format.Lookup(r.format)
		if err != nil {
			panic("BUG: model " + name + ": " + err.Error())
		}
		p, err := o.options.Act.Problem(w)
		if err == nil {
			err = o.want(p, r.name, r.m, r.k, len(m.named(r)))
		}
		if err != nil {
			return err
		}
		for _, name := range m.named(r) {
			x := gen.Tensor{Name: name, Type: blockType(w), M: r.m, K: r.k, Count: 1}
			o.tensors = append(o.tensors, tensor{format: p.Name(), Tensor: x})
		}
	}
	return nil
}

// named lists the tensors of m with role r: one for each layer, or one.
func (m model) named(r role) (names []string) {
	if r.once {
		return []string{r.name + ".weight"}
	}
	for layer := range m.layers {
		names = append(names, fmt.Sprintf("blk.%d.%s.weight", layer, r.name))
	}
	return names
}

// blockType is the GGUF type that holds a format, or "" if none does.
func blockType(w format.Weight) string {
	for _, t := range blocks.Types() {
		if b, err := blocks.Lookup(t); err == nil && b.Weight == w.Name {
			return t
		}
	}
	return ""
}
