package kernels

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Needed lists the products that a model in a file multiplies by: one for each type of its matrices that tmacc knows, in the
// order of the file.
func Needed(f *gguf.File) (problems []ir.Problem) {
	seen := map[string]bool{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name := t.TypeName()
		if len(t.Shape) < 2 || t.Err != nil || seen[name] {
			continue
		}
		seen[name] = true
		w, a, err := blocks.Product(name)
		if err != nil {
			continue // floats, or the model says what it cannot read
		}
		problems = append(problems, ir.Problem{Weight: w, Act: a})
	}
	return problems
}
