package kernels

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Needed lists the products that a model in a file multiplies by: one for each type of its matrices that tmacc knows, in the
// order of the file, and then for other types that matrices are quantized to.
func Needed(f *gguf.File, types ...string) (problems []ir.Problem) {
	var names []string
	for i := range f.Tensors {
		if t := &f.Tensors[i]; len(t.Shape) >= 2 && t.Err == nil {
			names = append(names, t.TypeName())
		}
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat(names, types) {
		if seen[name] {
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
