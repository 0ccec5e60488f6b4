package inference

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Alone has the packed matrices of a model and nothing else of it: the products with all of them, one after the other, are
// the least time that a token takes. Together the matrices are larger than caches, so that weights come from memory.
type Alone struct {
	matrices []alone // in the order of layers, the head last
	threads  int
	dst, in  []float32
	acts     map[string][]byte // prepared activations, by kind and number
}

// alone is a matrix, and whether only the last token needs it.
type alone struct {
	packed *runtime.Matrix // nil: floats
	floats *ops.Matrix
	head   bool
}

// Kernels gives the product of weights in a format and activations.
type Kernels func(format.Weight, format.Act) (*runtime.Product, error)

// NewAlone reads all matrices of a file: those in blocks by the products that kernels gives, floats as package ops has them. It leaves out an embedding that is
// not the output matrix too. Of a stack of experts it reads as many matrices as a token chooses. It calls packed after each tensor. Close frees the matrices.
func NewAlone(f *gguf.File, kernels Kernels, threads int, packed func(done, total int64)) (*Alone, error) {
	a := &Alone{threads: threads, acts: map[string][]byte{}}
	head := headOf(f)
	var list []*gguf.Tensor
	total, done := int64(0), int64(0)
	for i := range f.Tensors {
		if x := &f.Tensors[i]; perToken(f, x, head) > 0 {
			list, total = append(list, x), total+x.Size
		}
	}
	for _, x := range list {
		for number := range perToken(f, x, head) {
			m := alone{head: x == head}
			if err := m.read(x, number, kernels); err != nil {
				return nil, errors.Join(fmt.Errorf("tensor %s: %w", x.Name, err), a.Close())
			}
			a.matrices = append(a.matrices, m)
		}
		done += x.Size
		packed(done, total)
	}
	return a, nil
}

// headOf is the tensor of the output matrix, which may be the embedding, or nil.
func headOf(f *gguf.File) *gguf.Tensor {
	if x := f.Tensor("output.weight"); x != nil {
		return x
	}
	return f.Tensor("token_embd.weight")
}

// perToken is how many matrices of a tensor a token is multiplied by: of a stack of experts the chosen ones.
func perToken(f *gguf.File, x, head *gguf.Tensor) int {
	switch {
	case len(x.Shape) == 2 && (x == head || x.Name != "token_embd.weight"):
		return 1
	case len(x.Shape) == 3:
		arch, _ := f.Text("general.architecture")
		chosen, _ := f.Int(arch + ".expert_used_count")
		return min(max(chosen, 1), x.Matrices())
	}
	return 0
}

// read sets m to a matrix of a tensor.
func (m *alone) read(x *gguf.Tensor, number int, kernels Kernels) error {
	data, err := x.Matrix(number)
	if err != nil {
		return err
	}
	if e, ok := ops.ElemOf(x.TypeName()); ok {
		m.floats, err = ops.NewMatrix(e, data, x.Shape[1], x.Shape[0])
		return err
	}
	w, act, err := blocks.Product(x.TypeName())
	if err != nil {
		return err
	}
	p, err := kernels(w, act)
	if err != nil {
		return err
	}
	m.packed, err = p.NewMatrixOfBlocks(x.TypeName(), data, x.Shape[1], x.Shape[0])
	return err
}

// shape is the number of rows and of columns.
func (m *alone) shape() (rows, k int) {
	if m.packed != nil {
		return m.packed.Shape()
	}
	return m.floats.Shape()
}

// Close frees the matrices.
func (a *Alone) Close() error {
	if a == nil {
		return nil
	}
	var all error
	for _, m := range a.matrices {
		all = errors.Join(all, m.packed.Close())
	}
	return all
}

// Products multiplies each matrix by n activations, which were prepared when they were first asked for; the head by one.
func (a *Alone) Products(n int) error {
	for _, m := range a.matrices {
		n := n
		if m.head {
			n = 1
		}
		if err := a.product(&m, n); err != nil {
			return err
		}
	}
	return nil
}

// product multiplies a matrix by n activations.
func (a *Alone) product(m *alone, n int) error {
	rows, k := m.shape()
	if len(a.dst) < n*rows {
		a.dst = make([]float32, n*rows)
	}
	if m.packed == nil {
		if len(a.in) < n*k {
			a.in = make([]float32, n*k)
		}
		return m.floats.Multiply(a.dst[:n*rows], a.in[:n*k], n, a.threads)
	}
	act, err := a.act(m.packed, n)
	if err != nil {
		return err
	}
	return m.packed.Gemm(a.dst[:n*rows], act, runtime.Options{Threads: a.threads})
}

// act is n prepared activations for a matrix.
func (a *Alone) act(m *runtime.Matrix, n int) ([]byte, error) {
	p := m.Product()
	_, k := m.Shape()
	key := fmt.Sprint(p.Name(), k, n)
	if act := a.acts[key]; act != nil {
		return act, nil
	}
	size, err := p.ActSize(n, k)
	if err != nil {
		return nil, err
	}
	act, x := make([]byte, size), make([]float32, n*k)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	a.acts[key] = act
	return act, p.PrepareAct(act, x, n, k)
}
