package order

import (
	"slices"

	"github.com/tmacc/tmacc/gen"
)

// tensor is a tensor of a model, and the format whose product multiplies it.
type tensor struct {
	format string
	file   string // that has the tensor; "" for a built-in model
	gen.Tensor
}

// Tensors lists the tensors that these products of o multiply, with the index of the product of each. If a
// built-in model and a file have a tensor of one name, the file's is listed.
func (o *Order) Tensors(products []*Product) []gen.Tensor {
	var all []gen.Tensor
	for _, t := range o.tensors {
		if _, inFile := o.inFiles[t.Name]; t.file == "" && inFile {
			continue
		}
		t.Product = slices.IndexFunc(products, func(w *Product) bool { return w.name == "" && w.Problem.Name() == t.format })
		if t.Product >= 0 {
			all = append(all, t.Tensor)
		}
	}
	return all
}
