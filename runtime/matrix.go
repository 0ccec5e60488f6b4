package runtime

import (
	"cmp"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// Matrix is a packed matrix and the product that multiplies it. Its methods may be
// called concurrently, except Close and SetScale. A nil or zero Matrix, and one that is
// closed, has no memory: its methods that return an error return one that says so.
type Matrix struct {
	p      *Product
	buffer *Buffer
	m, k   int
	loaded abi.Loaded // a copy in the memory of the device that p runs on, nil if it runs on this CPU
}

// NewMatrix packs a matrix of m rows and k columns into memory of its own.
func (p *Product) NewMatrix(src format.Source, m, k int) (*Matrix, error) {
	return p.newMatrix(m, k, p.checkSource(src, m, k), func(dst []byte) error { return p.Pack(dst, src, m, k) })
}

// NewMatrixOfBlocks is NewMatrix of a matrix in the blocks of a GGUF type, as
// PackBlocks takes it.
func (p *Product) NewMatrixOfBlocks(typeName string, data []byte, m, k int) (*Matrix, error) {
	b, unfit := p.blocksFor(typeName, m, k)
	if unfit == nil {
		unfit = p.spec.wrap(b.CheckSize(data, m, k))
	}
	return p.newMatrix(m, k, unfit, func(dst []byte) error { return p.PackBlocks(dst, typeName, data, m, k) })
}

// newMatrix packs a source that fits m rows and k columns. It asks for memory only if unfit is nil.
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
	return p.matrixIn(b, m, k)
}

// matrixIn is the matrix in b, which it closes after an error.
func (p *Product) matrixIn(b *Buffer, m, k int) (*Matrix, error) {
	loaded, err := p.load(b.Bytes())
	if err != nil {
		return nil, cmp.Or(b.Close(), err)
	}
	return &Matrix{p, b, m, k, loaded}, nil
}

// LoadMatrix is the matrix in a file that Save wrote, as Load maps it.
func (p *Product) LoadMatrix(path string) (*Matrix, error) {
	b, err := p.Load(path)
	if err != nil {
		return nil, err
	}
	m, k, err := p.Shape(b.Bytes())
	if err != nil {
		return nil, cmp.Or(b.Close(), err)
	}
	return p.matrixIn(b, m, k)
}

// MatrixOf is the matrix in memory of the caller's, who keeps it until the matrix is closed. It reads the header only, as Load does.
func (p *Product) MatrixOf(packed []byte) (*Matrix, error) {
	m, k, err := p.Shape(packed)
	if err != nil {
		return nil, err
	}
	return p.matrixIn(&Buffer{data: packed}, m, k)
}

// MatrixOnHost is MatrixOf without a copy in the memory of a device, for matrices whose rows are read. A product by it copies the matrix for the call.
func (p *Product) MatrixOnHost(packed []byte) (*Matrix, error) {
	m, k, err := p.Shape(packed)
	if err != nil {
		return nil, err
	}
	return &Matrix{p: p, buffer: &Buffer{data: packed}, m: m, k: k}, nil
}

// LoadStack copies matrices of one product and one shape, which MatrixOnHost made, to the memory of the device that their product runs on, if it runs on one. They lie there
// apart bytes from each other, if one step can multiply by any of them; otherwise apart is 0, and why says what is missing for that.
func LoadStack(all []*Matrix) (apart int, why, err error) {
	p := all[0].p
	if p.runner == nil {
		return 0, p.spec.errorf("product", "runs on this CPU"), nil
	}
	on, ok := p.runner.(abi.Computer)
	if !ok {
		why = p.spec.errorf("product", "does not run on a device that computes all of a step")
	}
	var tiles [][]byte
	tileBytes := 0
	for _, x := range all {
		w, err := p.open(x.Packed())
		if err != nil {
			return 0, nil, err
		}
		tiles, tileBytes = append(tiles, w.data), w.tileBytes
	}
	if ok {
		var loaded []abi.Loaded
		if loaded, apart, why = on.Stack(tiles, tileBytes); why == nil {
			for i, x := range all {
				x.loaded = loaded[i]
			}
			return apart, nil, nil
		}
	}
	for i, x := range all {
		if x.loaded, err = p.runner.Load(tiles[i], tileBytes); err != nil {
			x.loaded = nil
			return 0, nil, p.spec.wrap(err)
		}
	}
	return 0, why, nil
}

// usable is an error unless x has its memory.
func (x *Matrix) usable() error {
	switch {
	case x == nil || x.p == nil:
		return errNoMatrix
	case x.buffer.Bytes() == nil:
		return x.p.spec.errorf("matrix", "is closed: call Close after the last use")
	}
	return nil
}

var errNoMatrix = &Error{"runtime", "matrix", "is nil or a zero value: make it by a constructor of the package that tmacc compile wrote, or by NewMatrix or LoadMatrix of a product"}

// Product is the product that multiplies x.
func (x *Matrix) Product() *Product {
	if x == nil {
		return nil
	}
	return x.p
}

// Packed is the packed matrix, for Gemm of its product; nil once x is closed. It must not be used after Close.
func (x *Matrix) Packed() []byte {
	if x == nil {
		return nil
	}
	return x.buffer.Bytes()
}

// Loaded is the copy of x in the memory of the device that its product runs on, nil if it runs on this CPU.
func (x *Matrix) Loaded() abi.Loaded {
	if x == nil {
		return nil
	}
	return x.loaded
}

// Shape is the number of rows and of columns.
func (x *Matrix) Shape() (m, k int) {
	if x == nil {
		return 0, 0
	}
	return x.m, x.k
}

// SetScale makes scale a factor of all products of x and of its rows: see Product.SetScale. No call may be using x, and
// one that LoadMatrix mapped keeps the scale that it was saved with.
func (x *Matrix) SetScale(scale float32) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.p.SetScale(x.Packed(), scale)
}

// Scale is what SetScale set, 1 before, 0 of a matrix that is closed.
func (x *Matrix) Scale() float32 {
	if x.usable() != nil {
		return 0
	}
	scale, _ := x.p.Scale(x.Packed())
	return scale
}

// Row writes the weights of row r to dst, one for each column: the float32 that the format defines, times the
// scale of x.
func (x *Matrix) Row(dst []float32, r int) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.p.Row(dst, x.Packed(), r)
}

// Save writes x to a file, for LoadMatrix.
func (x *Matrix) Save(path string) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.p.Save(path, x.Packed())
}

// Close frees the memory of x. No call may be using it. Closing again does nothing.
func (x *Matrix) Close() error {
	if x == nil {
		return nil
	}
	if x.loaded != nil {
		x.loaded.Free()
		x.loaded = nil
	}
	return x.buffer.Close()
}

// Gemm multiplies x by the n rows of an activation buffer: dst[j*m+r] is row r times
// activations j. It is Gemm of the product for all rows.
func (x *Matrix) Gemm(dst []float32, act []byte, opt Options) error {
	if err := x.usable(); err != nil {
		return err
	}
	if x.loaded != nil {
		return x.p.gemmOn(x.loaded, dst, x.Packed(), act, 0, x.m, &opt)
	}
	return x.p.Gemm(dst, x.Packed(), act, 0, x.m, opt)
}

// Call is Gemm as a call of GemmAll, which refuses x if it is closed by then.
func (x *Matrix) Call(dst []float32, act []byte) Call {
	return Call{Product: x.Product(), Dst: dst, Packed: x.Packed(), Act: act, matrix: x}
}

// Multiply multiplies x by n rows of activations, in[n][k]: PrepareAct and Gemm with
// a buffer that is kept for the next call. A device may take one row as floats, in one dispatch, with the same bits. Where several matrices share activations,
// prepare them once and call Gemm.
func (x *Matrix) Multiply(dst, in []float32, n int, opt Options) error {
	if err := x.usable(); err != nil {
		return err
	}
	size, err := x.p.ActSize(n, x.k)
	if err != nil {
		return err
	}
	if err := cmp.Or(x.p.checkInput(in, n, x.k), x.p.checkOutput(dst, n, x.m)); err != nil { // before memory for n is asked for
		return err
	}
	if x.p.fuses(x.m, n, x.k) {
		return x.p.multiplyFused(x.loaded, dst, x.Packed(), in, &opt)
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
