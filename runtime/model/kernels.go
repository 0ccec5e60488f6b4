package model

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// Kernels provides products of weights in a format by activations prepared as a says.
type Kernels interface {
	Product(w format.Weight, a format.Act) (*runtime.Product, error)
}

// PureGo provides products in pure Go. They run on every CPU, and are the slowest.
type PureGo struct{}

// limitK is the largest K of such products: their integer sums fit 32 bits.
const limitK = 1 << 17

// Product makes the product. It is an error if a does not fit w.
func (PureGo) Product(w format.Weight, a format.Act) (*runtime.Product, error) {
	s := runtime.Spec{Name: w.Name, Weight: w, Act: a, LimitK: limitK, Layouts: []*format.Layout{format.PlainLayout(w)}}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return runtime.New(s), nil
}
