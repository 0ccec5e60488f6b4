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

// Product makes the product. It is an error if a does not fit w.
func (PureGo) Product(w format.Weight, a format.Act) (*runtime.Product, error) {
	return runtime.PureGo(w, a)
}
