package kernels

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
)

// Needed lists the products that a model of a file multiplies by, one for each type of its matrices of blocks, in the order in which model.New
// asks for them. The error is that of model.Check.
func Needed(f *gguf.File, opt model.Options) (problems []ir.Problem, err error) {
	types, err := model.Types(f, opt)
	if err != nil {
		return nil, err
	}
	for _, name := range types {
		w, a, err := blocks.Product(name)
		if err != nil {
			return nil, err
		}
		problems = append(problems, ir.Problem{Weight: w, Act: a})
	}
	return problems, nil
}
