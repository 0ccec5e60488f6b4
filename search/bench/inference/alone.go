package inference

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
)

// Alone has the packed matrices of a model and nothing else of it: the products with all of them, one after the other, are
// the least time that a token takes. Together the matrices are larger than caches, so that weights come from memory.
type Alone struct {
	matrices []alone // in the order of layers, the head last
	threads  int
	dst      []float32
	acts     map[string][]byte // prepared activations, by kind and number
}

// alone is a matrix, and whether only the last token needs it.
type alone struct {
	*runtime.Matrix
	head bool
}

// Kernels gives the product of weights in a format and activations.
type Kernels func(format.Weight, format.Act) (*runtime.Product, error)

// NewAlone packs all matrices of a file that are in blocks, by the products that kernels gives. It leaves out an embedding that is
// not the output matrix too. It calls packed after each tensor. Close frees the matrices.
func NewAlone(f *gguf.File, kernels Kernels, threads int, packed func(done, total int64)) (*Alone, error) {
	a := &Alone{threads: threads, acts: map[string][]byte{}}
	head := headOf(f)
	var list []*gguf.Tensor
	total, done := int64(0), int64(0)
	for i := range f.Tensors {
		if x := &f.Tensors[i]; isMatrix(x, head) {
			list, total = append(list, x), total+x.Size
		}
	}
	for _, x := range list {
		m, err := pack(x, kernels)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tensor %s: %w", x.Name, err), a.Close())
		}
		a.matrices = append(a.matrices, alone{m, x == head})
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

// isMatrix says that a tensor is a matrix that tokens are multiplied by.
func isMatrix(x, head *gguf.Tensor) bool {
	return len(x.Shape) == 2 && (x == head || x.Name != "token_embd.weight")
}

func pack(x *gguf.Tensor, kernels Kernels) (*runtime.Matrix, error) {
	b, err := blocks.Lookup(x.TypeName())
	if err != nil {
		return nil, err
	}
	w, err := format.Lookup(b.Weight)
	if err != nil {
		return nil, err
	}
	p, err := kernels(w, blocks.UsualAct(w))
	if err != nil {
		return nil, err
	}
	data, err := x.Bytes()
	if err != nil {
		return nil, err
	}
	return p.NewMatrixOfBlocks(b.Type, data, x.Shape[1], x.Shape[0])
}

// Close frees the matrices.
func (a *Alone) Close() error {
	var all error
	for _, m := range a.matrices {
		all = errors.Join(all, m.Close())
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
		act, err := a.act(m.Matrix, n)
		if err != nil {
			return err
		}
		rows, _ := m.Shape()
		if len(a.dst) < n*rows {
			a.dst = make([]float32, n*rows)
		}
		if err := m.Gemm(a.dst[:n*rows], act, runtime.Options{Threads: a.threads}); err != nil {
			return err
		}
	}
	return nil
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
