package runtime

import (
	"cmp"
	"fmt"

	"github.com/tmacc/tmacc/ir/format"
)

// Matrix is a packed matrix and the product that multiplies it. Its methods may be
// called concurrently, but for Close.
type Matrix struct {
	p      *Product
	buffer *Buffer
	m, k   int
}

// NewMatrix packs a matrix of m rows and k columns into memory of its own.
func (p *Product) NewMatrix(src format.Source, m, k int) (*Matrix, error) {
	return p.newMatrix(m, k, p.checkSource(src, m, k), func(dst []byte) error { return p.Pack(dst, src, m, k) })
}

// NewMatrixOfBlocks is NewMatrix of a matrix in the blocks of a GGUF type, as
// PackBlocks takes it.
func (p *Product) NewMatrixOfBlocks(typeName string, data []byte, m, k int) (*Matrix, error) {
	_, _, unfit := p.blockReader(typeName, data, m, k)
	return p.newMatrix(m, k, unfit, func(dst []byte) error { return p.PackBlocks(dst, typeName, data, m, k) })
}

// newMatrix packs what is not unfit for m rows and k columns: only of that so much memory is asked for.
func (p *Product) newMatrix(m, k int, unfit error, pack func([]byte) error) (*Matrix, error) {
	size, err := p.PackedSize(m, k)
	if err = cmp.Or(err, unfit); err != nil {
		return nil, err
	}
	b, err := NewBuffer(size)
	if err != nil {
		return nil, err
	}
	if err := pack(b.Bytes()); err != nil {
		b.Close()
		return nil, err
	}
	return &Matrix{p, b, m, k}, nil
}

// LoadMatrix is the matrix in a file that Save wrote, as Load maps it.
func (p *Product) LoadMatrix(path string) (*Matrix, error) {
	b, err := p.Load(path)
	if err != nil {
		return nil, err
	}
	m, k, err := p.Shape(b.Bytes())
	return &Matrix{p, b, m, k}, err
}

// Product is the product that multiplies x.
func (x *Matrix) Product() *Product { return x.p }

// Packed is the packed matrix, for Gemm of its product.
func (x *Matrix) Packed() []byte { return x.buffer.Bytes() }

// Shape is the number of rows and of columns.
func (x *Matrix) Shape() (m, k int) { return x.m, x.k }

// Save writes x to a file, for LoadMatrix.
func (x *Matrix) Save(path string) error { return x.p.Save(path, x.Packed()) }

// Close frees the memory of x. No call may be using it.
func (x *Matrix) Close() error { return x.buffer.Close() }

// Gemm multiplies x by the n rows of an activation buffer: dst[j*m+r] is row r times
// activations j. It is Gemm of the product for all rows.
func (x *Matrix) Gemm(dst []float32, act []byte, opt Options) error {
	return x.p.Gemm(dst, x.Packed(), act, 0, x.m, opt)
}

// Call is Gemm as a call of GemmAll.
func (x *Matrix) Call(dst []float32, act []byte) Call {
	return Call{Product: x.p, Dst: dst, Packed: x.Packed(), Act: act}
}

// Multiply multiplies x by n rows of activations, in[n][k]: PrepareAct and Gemm with
// a buffer that is kept for the next call. Where several matrices share activations,
// prepare them once and call Gemm.
func (x *Matrix) Multiply(dst, in []float32, n int, opt Options) error {
	size, err := x.p.ActSize(n, x.k)
	if err != nil {
		return err
	}
	if err := cmp.Or(x.p.checkInput(in, n, x.k), x.p.checkOutput(dst, n, x.m)); err != nil { // before memory for n is asked for
		return err
	}
	act, _ := x.p.acts.Get().(*[]byte)
	if act == nil {
		act = new([]byte)
	}
	defer x.p.acts.Put(act)
	*act = grow(*act, size)
	if err := x.p.PrepareActThreads(*act, in, n, x.k, opt.Threads); err != nil {
		return err
	}
	return x.Gemm(dst, *act, opt)
}

// Tensor is a matrix of a model: its name and type in a GGUF file, "" if it has none, and the
// product that multiplies it. A tensor of Count matrices has them one after the other.
type Tensor struct {
	Name, Type  string
	Product     *Product
	M, K, Count int
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

// New packs the bytes of the tensor of that name, or, of a tensor of several
// matrices, those of one of them.
func (ts Tensors) New(name string, data []byte) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) { return t.Product.NewMatrixOfBlocks(t.Type, data, t.M, t.K) })
}

// Pack is New of codes and scales, in the format of the tensor's product.
func (ts Tensors) Pack(name string, src format.Source) (*Matrix, error) {
	return ts.pack(name, func(t Tensor) (*Matrix, error) { return t.Product.NewMatrix(src, t.M, t.K) })
}

func (ts Tensors) pack(name string, pack func(Tensor) (*Matrix, error)) (*Matrix, error) {
	t, ok := ts.Find(name)
	if !ok {
		return nil, &Error{"New", "tensor " + name, "is not one that this package was compiled for: compile it for your file"}
	}
	x, err := pack(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return x, nil
}
