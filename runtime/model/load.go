package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// loader makes the weights of a model of a file's tensors.
type loader struct {
	f        *gguf.File
	row      *architecture
	config   Config
	kernels  Kernels
	float    bool
	progress func(done, total int64)
	packed   Packed                      // nil: nothing is kept
	products map[string]*runtime.Product // by format and activations
	plans    []plan
}

// plan is one tensor that a model has, and what becomes of it.
type plan struct {
	layer  int // -1: of the whole model
	role   role
	tensor *gguf.Tensor
	m, k   int              // of a vector m is 1
	p      *runtime.Product // nil: panels, or a vector
	elem   ops.Elem         // of panels
	bytes  int64            // that it takes in memory
}

// layerName is the name of a tensor in a file.
func layerName(layer int, r role) string {
	if !r.perLayer() {
		return tensors[r].name
	}
	return fmt.Sprintf("blk.%d.%s", layer, tensors[r].name)
}

func quoted(name string) string { return fmt.Sprintf("tensor %q", shorten(name)) }

// find plans every tensor of the model. It refuses a file that lacks one, has one of another shape, or has one that the
// architecture does not know: a model without it would compute something else.
func (l *loader) find() error {
	if err := l.vocabulary(); err != nil {
		return err
	}
	known := map[string]bool{}
	for layer := -1; layer < l.config.Layers; layer++ {
		for r := range numRoles {
			if r.perLayer() != (layer >= 0) {
				continue
			}
			if err := l.findOne(layer, r, known); err != nil {
				return err
			}
		}
	}
	for i := range l.f.Tensors {
		if t := &l.f.Tensors[i]; t.Err != nil {
			return t.Err
		} else if !known[t.Name] {
			return errorf(quoted(t.Name), "is unknown in models of architecture %s, which would compute something else without it", l.row.name)
		}
	}
	return nil
}

// vocabulary takes the number of tokens from the embedding and compares it with the tokenizer's, if the file has one.
func (l *loader) vocabulary() error {
	name := tensors[embedding].name
	t := l.f.Tensor(name)
	if t == nil || t.Err != nil || len(t.Shape) != 2 {
		return nil // findOne says so
	}
	l.config.Vocabulary = t.Shape[1]
	if t.Shape[1] > math.MaxInt32 {
		return errorf(quoted(name), "has %d rows; token ids are at most %d", t.Shape[1], math.MaxInt32)
	}
	const key = "tokenizer.ggml.tokens"
	value, err := l.f.Value(key)
	if err != nil || value == nil {
		return err
	}
	tokens, ok := value.([]string)
	if !ok {
		return errorf(fmt.Sprintf("key %q", key), "is not an array of strings")
	}
	if len(tokens) != t.Shape[1] {
		return errorf(fmt.Sprintf("key %q", key), "has %d tokens, and %s has rows for %d", len(tokens), quoted(name), t.Shape[1])
	}
	return nil
}

// findOne plans a tensor, if the model has it, and adds its name to the known ones.
func (l *loader) findOne(layer int, r role, known map[string]bool) error {
	needed := slices.Contains(common, r) || slices.Contains(l.row.needs, r)
	if !needed && r != headWeights && !slices.Contains(l.row.may, r) {
		return nil
	}
	name := layerName(layer, r)
	t := l.f.Tensor(name)
	switch {
	case t == nil && needed:
		return errorf(quoted(name), "is missing; models of architecture %s need it", l.row.name)
	case t == nil:
		return nil
	case t.Err != nil:
		return t.Err
	}
	var want []int
	for _, s := range tensors[r].shape {
		want = append(want, l.config.extent(s))
	}
	if !slices.Equal(t.Shape, want) {
		return errorf(quoted(name), "has the shape %v; the hyperparameters say %v", t.Shape, want)
	}
	known[name] = true
	if s := l.f.ScaleTensor(name); s != nil {
		known[s.Name] = true
	}
	return l.plan(plan{layer: layer, role: r, tensor: t})
}

// plan says what becomes of a tensor.
func (l *loader) plan(x plan) error {
	typeName := x.tensor.TypeName()
	elem, float := ops.ElemOf(typeName)
	x.m, x.k, x.elem = 1, x.tensor.Shape[0], elem
	if !x.role.matrix() {
		if !float {
			return errorf(quoted(x.tensor.Name), "is %s; vectors are F32, F16 or BF16", typeName)
		}
		x.bytes = 4 * int64(x.k)
		l.plans = append(l.plans, x)
		return nil
	}
	x.m = x.tensor.Shape[1]
	if float && l.f.ScaleTensor(x.tensor.Name) != nil {
		return errorf(quoted(l.f.ScaleTensor(x.tensor.Name).Name), "is a scale for a matrix of floats: this version knows scales of quantized matrices only")
	}
	x.bytes = ops.MatrixBytes(x.elem, x.m, x.k)
	if !float {
		if err := l.planProduct(&x, typeName); err != nil {
			return err
		}
	}
	l.plans = append(l.plans, x)
	return nil
}

// planProduct gives a quantized matrix its product, and the bytes of the packed matrix unless it becomes floats.
func (l *loader) planProduct(x *plan, typeName string) error {
	p, err := l.product(typeName)
	if err != nil {
		return fmt.Errorf("model: %s: %w", quoted(x.tensor.Name), err)
	}
	size, err := p.PackedSize(x.m, x.k)
	if err != nil {
		return fmt.Errorf("model: %s: %w", quoted(x.tensor.Name), err)
	}
	x.p = p
	if !l.float {
		x.bytes = int64(size)
	}
	return nil
}

// product is the product for a GGUF type.
func (l *loader) product(typeName string) (*runtime.Product, error) {
	if p := l.products[typeName]; p != nil {
		return p, nil
	}
	b, err := blocks.Lookup(typeName)
	if err != nil {
		return nil, err
	}
	w, err := format.Lookup(b.Weight)
	if err != nil {
		return nil, err
	}
	kernels := l.kernels
	if l.float {
		kernels = PureGo{} // which only reads rows
	}
	p, err := kernels.Product(w, blocks.UsualAct(w))
	if err == nil {
		l.products[typeName] = p
	}
	return p, err
}

// vector reads a plan's vector as f32.
func (l *loader) vector(x *plan) ([]float32, error) {
	data, err := x.tensor.Bytes()
	if err != nil {
		return nil, err
	}
	v := make([]float32, x.k)
	ops.LoadRow(v, data, x.elem)
	if x.role.rotated() && l.row.adjacent {
		v = inHalves(v, &l.config, 1)
	}
	if !ops.Finite(v) {
		return nil, errorf(quoted(x.tensor.Name), "holds a value that is not finite")
	}
	return v, nil
}

// matrix reads a plan's matrix.
func (l *loader) matrix(x *plan) (*matrix, error) {
	if kept := l.kept(x); kept != nil {
		return &matrix{m: x.m, k: x.k, packed: kept}, nil
	}
	data, err := x.tensor.Bytes()
	if err != nil {
		return nil, err
	}
	if x.role.rotated() && l.row.adjacent {
		if data, err = l.reorder(x, data); err != nil {
			return nil, err
		}
	}
	out := &matrix{m: x.m, k: x.k}
	if x.p == nil {
		out.floats, err = ops.NewMatrix(x.elem, data, x.m, x.k)
		return out, err
	}
	if out.packed, err = l.pack(x, data); err != nil {
		return nil, fmt.Errorf("model: %s: %w", quoted(x.tensor.Name), err)
	}
	if l.float {
		return out, out.dequantize()
	}
	if l.packed != nil {
		l.packed.Save(out.packed, x.tensor.Name)
	}
	return out, nil
}

// kept is the packed matrix of a plan that was kept, nil if there is none.
func (l *loader) kept(x *plan) *runtime.Matrix {
	if l.packed == nil || l.float || x.p == nil {
		return nil
	}
	kept := l.packed.Load(x.p, x.tensor.Name)
	if kept == nil {
		return nil
	}
	if m, k := kept.Shape(); m != x.m || k != x.k {
		kept.Close()
		return nil
	}
	return kept
}

// pack packs a quantized matrix, with the scale that the file has for it.
func (l *loader) pack(x *plan, data []byte) (*runtime.Matrix, error) {
	scales, err := l.f.Scales(x.tensor.Name)
	if err != nil {
		return nil, err
	}
	packed, err := x.p.NewMatrixOfBlocks(x.tensor.TypeName(), data, x.m, x.k)
	if err != nil || scales == nil {
		return packed, err
	}
	if err := packed.SetScale(scales[0]); err != nil {
		packed.Close()
		return nil, err
	}
	return packed, nil
}

// dequantize makes floats of a packed matrix.
func (x *matrix) dequantize() error {
	data, values := make([]byte, 4*x.m*x.k), make([]float32, x.k)
	for r := range x.m {
		if err := x.packed.Row(values, r); err != nil {
			return err
		}
		ops.StoreRow(data[4*r*x.k:], ops.F32, values)
	}
	err := x.packed.Close()
	if x.packed = nil; err != nil {
		return err
	}
	x.floats, err = ops.NewMatrix(ops.F32, data, x.m, x.k)
	return err
}

// reorder puts the rows of a matrix of heads into the order of inHalves.
func (l *loader) reorder(x *plan, data []byte) ([]byte, error) {
	tail := 0
	if x.p != nil {
		b, err := blocks.Lookup(x.tensor.TypeName())
		if err != nil {
			return nil, err
		}
		if tail = b.Tail; b.Rows > 1 {
			return nil, errorf(quoted(x.tensor.Name), "stores %d rows in a block, which cannot be reordered for rope", b.Rows)
		}
	}
	body := data[:len(data)-tail]
	if len(body)%x.m != 0 {
		return nil, errorf(quoted(x.tensor.Name), "has %d bytes, which are not %d rows", len(body), x.m)
	}
	return append(inHalves(body, &l.config, len(body)/x.m), data[len(body):]...), nil
}

// inHalves reorders the rows of heads, `line` elements each, so that rope rotates halves where the file has neighbours:
//
//	0 1 2 3 4 5 ... -> 0 2 4 ... 1 3 5 ...
//
// The rows of a head that rope leaves alone keep their places. It returns a new slice.
func inHalves[T any](rows []T, c *Config, line int) []T {
	out := make([]T, 0, len(rows))
	for head := rows; len(head) > 0; head = head[c.HeadSize*line:] {
		for odd := range 2 {
			for r := odd; r < c.Rope.Dims; r += 2 {
				out = append(out, head[r*line:][:line]...)
			}
		}
		out = append(out, head[c.Rope.Dims*line:c.HeadSize*line]...)
	}
	return out
}
