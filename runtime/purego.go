package runtime

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// PureGo is the product of weights in a format and activations, without kernels: pure Go computes it on every CPU. It
// takes K up to format.UsualMaxK. It is an error if there is no such product. Results are those of kernels, bit for
// bit; packed matrices are not.
func PureGo(w format.Weight, a format.Act) (*Product, error) {
	s := Spec{Name: w.Name, Weight: w, Act: a, LimitK: format.UsualMaxK}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	s.Layouts = []*format.Layout{format.PlainLayout(w)}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return newProduct(s, -1, "it was made without kernels", cpu.Mask{}), nil
}
