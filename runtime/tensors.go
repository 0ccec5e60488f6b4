package runtime

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Tensor is a matrix of a model: its name and type in a GGUF file, "" if it has none, and the
// product that multiplies it. A tensor of Count matrices has them one after the other. Scaled says
// that the file has a scale for each matrix besides, without which its weights mean nothing.
type Tensor struct {
	Name, Type  string
	Product     *Product
	M, K, Count int
	Scaled      bool
}

// Tensors are the matrices of a model.
type Tensors []Tensor

// Find is the tensor of that name.
func (ts Tensors) Find(name string) (Tensor, bool) {
	for _, t := range ts {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// Open reads matrix number index of the tensor of that name, 0 of a tensor of one matrix, from a GGUF file and packs it.
// The matrix has the scale that the file has for it, if it has one. The file may be closed afterwards.
func (ts Tensors) Open(f *gguf.File, name string, index int) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) {
		data, scale, err := t.read(f, index)
		if err != nil {
			return nil, err
		}
		return t.newMatrix(data, scale)
	})
}

// New packs the bytes of the tensor of that name, or, if the tensor holds several matrices, the bytes of one matrix:
// gguf.Tensor.Matrix reads them. It refuses a tensor that has a scale, for Open or NewScaled.
func (ts Tensors) New(name string, data []byte) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) {
		if t.Scaled {
			return nil, errScaled("NewScaled")
		}
		return t.newMatrix(data, 1)
	})
}

// NewScaled is New of a matrix that has a scale: what gguf.File.Scales gives for it. A tensor without scales takes 1 only.
func (ts Tensors) NewScaled(name string, data []byte, scale float32) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) {
		if err := t.checkScale(scale); err != nil {
			return nil, err
		}
		return t.newMatrix(data, scale)
	})
}

// Pack is New of codes and scales, in the format of the tensor's product.
func (ts Tensors) Pack(name string, src format.Source) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) {
		if t.Scaled {
			return nil, errScaled("PackScaled")
		}
		return t.Product.NewMatrix(src, t.M, t.K)
	})
}

// PackScaled is NewScaled of codes and scales, in the format of the tensor's product.
func (ts Tensors) PackScaled(name string, src format.Source, scale float32) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) {
		if err := t.checkScale(scale); err != nil {
			return nil, err
		}
		return scaled(scale)(t.Product.NewMatrix(src, t.M, t.K))
	})
}

// pack is what make makes of the tensor of that name. An error names it.
func (ts Tensors) pack(name string, make func(Tensor) (*Matrix, error)) (*Matrix, error) {
	t, ok := ts.Find(name)
	if !ok {
		return nil, &Error{"Tensors", "tensor " + name, "is not one that this package was compiled for: compile it for your file"}
	}
	x, err := make(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return x, nil
}

// read is the bytes and the scale, 1 for none, of matrix number index of t in a file that has t as the package was compiled for.
func (t Tensor) read(f *gguf.File, index int) (data []byte, scale float32, err error) {
	if f == nil {
		return nil, 0, &Error{"Open", "argument f", "is nil: open the file with gguf.Open"}
	}
	x := f.Tensor(t.Name)
	if err := t.fits(f, x); err != nil {
		return nil, 0, err
	}
	if index < 0 || index >= t.Count {
		return nil, 0, &Error{"Open", "argument index", fmt.Sprintf("is %d; the tensor has %d matrices, 0 to %d", index, t.Count, t.Count-1)}
	}
	scales, err := f.Scales(t.Name)
	if err != nil {
		return nil, 0, err
	}
	scale = 1
	if scales != nil {
		scale = scales[index]
	}
	data, err = x.Matrix(index)
	return data, scale, err
}

// fits refuses x, the tensor of that name in a file, unless it is what the package was compiled for.
func (t Tensor) fits(f *gguf.File, x *gguf.Tensor) error {
	const remedy = ": compile the package for your file"
	name, _, _ := strings.Cut(t.Type, ":")
	switch {
	case x == nil:
		return &Error{"Open", "file", "has no such tensor" + remedy}
	case x.Err != nil:
		return x.Err
	case t.Type == "":
		return &Error{"Open", "type", "is none: the package was compiled for codes and scales, which Pack takes"}
	case x.TypeName() != name || len(x.Shape) < 2 || x.Shape[0] != t.K || x.Shape[1] != t.M || x.Matrices() != t.Count:
		return &Error{"Open", "file", fmt.Sprintf("has %s of shape %v, the package %s of shape %v%s", x.TypeName(), x.Shape, name, t.shape(), remedy)}
	case t.Scaled && f.ScaleTensor(t.Name) == nil:
		return &Error{"Open", "file", "has no scale for it, as the file had that the package was compiled for" + remedy}
	}
	return nil
}

// shape is that of t in a file.
func (t Tensor) shape() []int {
	if t.Count == 1 {
		return []int{t.K, t.M}
	}
	return []int{t.K, t.M, t.Count}
}

// newMatrix packs the bytes of one matrix.
func (t Tensor) newMatrix(data []byte, scale float32) (*Matrix, error) {
	if n := len(data) / max(t.Count, 1); t.Count > 1 && n*t.Count == len(data) {
		if b, err := blocks.Lookup(t.Type); err == nil && b.CheckSize(data[:n], t.M, t.K) == nil {
			return nil, &Error{"New", "argument data", fmt.Sprintf("holds all %d matrices of the tensor: pass number i of them, data[i*%d:][:%[2]d], or call Open with i", t.Count, n)}
		}
	}
	return scaled(scale)(t.Product.NewMatrixOfBlocks(t.Type, data, t.M, t.K))
}

// scaled gives a matrix that was made without an error a scale.
func scaled(scale float32) func(*Matrix, error) (*Matrix, error) {
	return func(x *Matrix, err error) (*Matrix, error) {
		if err != nil || scale == 1 {
			return x, err
		}
		if err := x.SetScale(scale); err != nil {
			x.Close()
			return nil, err
		}
		return x, nil
	}
}

func errScaled(method string) error {
	return &Error{"New", "scale", "is missing: the file has one for this matrix, without which its weights mean nothing. Call Open, or " + method + " with it"}
}

// checkScale refuses a scale of a tensor that has none.
func (t Tensor) checkScale(scale float32) error {
	if t.Scaled || scale == 1 {
		return nil
	}
	return &Error{"New", "argument scale", fmt.Sprintf("is %v; the file that this package was compiled for has no scale for this matrix: pass 1, or compile the package for your file", scale)}
}
