package hostile

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/ggufparts"
)

func models(t *testing.T) (all []*ggufparts.Parts) {
	folder, err := expected.Folder()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range expected.Committed {
		data, err := os.ReadFile(filepath.Join(folder, name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ggufparts.Take(data))
	}
	return all
}

// TestTakeAgain: a file that is taken apart and built again has the same values and tensors.
func TestTakeAgain(t *testing.T) {
	for i, p := range models(t) {
		f, err := gguf.Read(p.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Tensors) != len(p.Tensors) || len(f.Meta) != len(p.Meta) {
			t.Fatalf("model %d has %d tensors and %d values, had %d and %d", i, len(f.Tensors), len(f.Meta), len(p.Tensors), len(p.Meta))
		}
		for j := range f.Tensors {
			x := &f.Tensors[j]
			data, err := x.Bytes()
			if err != nil || x.Name != p.Tensors[j].Name || !bytes.Equal(data, p.Tensors[j].Data) {
				t.Errorf("model %d, tensor %s: %v", i, x.Name, err)
			}
		}
		again := ggufparts.Take(p.Bytes())
		if !bytes.Equal(again.Bytes(), p.Bytes()) {
			t.Errorf("model %d changes when it is built again", i)
		}
		tokens := p.Value("tokenizer.ggml.tokens")
		if words := tokens.Texts(); uint64(len(words)) != tokens.N {
			t.Errorf("model %d has %d tokens, %d texts", i, tokens.N, len(words))
		}
	}
}

// TestMutateModel: the same seed makes the same mutant, the model itself stays as it was, and most mutants are still read.
func TestMutateModel(t *testing.T) {
	const mutants = 200
	for i, p := range models(t) {
		before := p.Bytes()
		read, changed := 0, 0
		for seed := range uint64(mutants) {
			data := MutateModel(rand.New(rand.NewPCG(seed, 1)), p)
			if again := MutateModel(rand.New(rand.NewPCG(seed, 1)), p); !bytes.Equal(data, again) {
				t.Fatalf("model %d: seed %d makes two mutants", i, seed)
			}
			if !bytes.Equal(data, before) {
				changed++
			}
			if _, err := gguf.Read(data); err == nil {
				read++
			}
		}
		if !bytes.Equal(p.Bytes(), before) {
			t.Errorf("model %d was changed by its mutants", i)
		}
		if changed < mutants*9/10 || read < mutants*7/10 {
			t.Errorf("model %d: of %d mutants %d differ and %d are read", i, mutants, changed, read)
		}
	}
}
