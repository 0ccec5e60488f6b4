package model

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

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
	head     string // Options.Head
	context  int    // the most tokens of a session
	progress func(done, total int64)
	done     int64                       // bytes of plans
	packed   Packed                      // nil: nothing is kept
	products map[string]*runtime.Product // by format and activations
	plans    []plan
}

// plan is one tensor that a model has, and what becomes of it.
type plan struct {
	layer    int // -1: of the whole model
	role     role
	tensor   *gguf.Tensor
	first    int              // row of the tensor that is the first of the matrix, counted over all matrices of a stack
	typeName string           // of a matrix in memory
	m, k     int              // of a vector m is 1
	p        *runtime.Product // nil: panels, or a vector
	elem     ops.Elem         // of panels
	bytes    int64            // that it takes in memory
	rowsOnly bool             // nothing is multiplied by it: it needs no copy on a device
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
	if l.f.Tensor(tensors[headWeights].name) != nil {
		for i := range l.plans {
			l.plans[i].rowsOnly = l.plans[i].role == embedding
		}
	}
	return l.factors()
}

// factors chooses the tensor with the factors of rope, as the context of sessions needs them, and drops the others.
func (l *loader) factors() error {
	has := func(r role) bool { return slices.ContainsFunc(l.plans, func(x plan) bool { return x.role == r }) }
	chosen, other := shortFactors, longFactors
	if l.context > l.config.Original {
		chosen, other = other, chosen
	}
	if !has(chosen) && (has(other) || l.config.longrope) {
		return errorf(quoted(tensors[chosen].name), "is missing; a model with longrope needs it for sessions of %d tokens", l.context)
	}
	if has(ropeFactors) && has(chosen) {
		return errorf(quoted(tensors[chosen].name), "is there besides %s: only one of them can count", quoted(tensors[ropeFactors].name))
	}
	l.plans = slices.DeleteFunc(l.plans, func(x plan) bool { return x.role == other })
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
	needed := slices.Contains(common, r) || slices.Contains(l.config.feedRoles(), r) || slices.Contains(l.row.needs, r)
	if !needed && r != headWeights && !slices.Contains(l.row.may, r) {
		return nil
	}
	name, want, first := l.place(layer, r)
	t := l.f.Tensor(name)
	switch {
	case t == nil && needed:
		return errorf(quoted(name), "is missing; models of architecture %s need it", l.row.name)
	case t == nil:
		return nil
	case t.Err != nil:
		return t.Err
	}
	if !slices.Equal(t.Shape, want) {
		return errorf(quoted(name), "has the shape %v; the hyperparameters say %v", t.Shape, want)
	}
	known[name] = true
	if s := l.f.ScaleTensor(name); s != nil {
		known[s.Name] = true
	}
	return l.plan(plan{layer: layer, role: r, tensor: t, first: first})
}

// place is the tensor that has what a role needs, the shape that it must have, and where in it the matrix of the role begins.
func (l *loader) place(layer int, r role) (name string, shape []int, first int) {
	name, shape = layerName(layer, r), l.shape(r)
	for _, x := range l.row.fused {
		if !slices.Contains(x.roles, r) {
			continue
		}
		rows := 0
		for _, other := range x.roles {
			if other == r {
				first = rows
			}
			rows += l.shape(other)[1]
		}
		name, shape[1] = fmt.Sprintf("blk.%d.%s", layer, x.name), rows
	}
	return name, shape, first
}

// shape is the extents of what a role needs.
func (l *loader) shape(r role) (shape []int) {
	for _, s := range tensors[r].shape {
		shape = append(shape, l.config.extent(s))
	}
	return shape
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
	if x.role != sharedRouter { // which has one row
		x.m = l.shape(x.role)[1]
	}
	if float && l.f.ScaleTensor(x.tensor.Name) != nil {
		return errorf(quoted(l.f.ScaleTensor(x.tensor.Name).Name), "is a scale for a matrix of floats: this version knows scales of quantized matrices only")
	}
	var err error
	if x.typeName, err = l.typeOf(&x); err != nil {
		return err
	}
	x.bytes = ops.MatrixBytes(x.elem, x.m, x.k)
	if _, float := ops.ElemOf(x.typeName); !float {
		if err := l.planProduct(&x); err != nil {
			return err
		}
	}
	l.plans = append(l.plans, x)
	for n := x.tensor.Matrices(); n > 1; n-- {
		x.first += x.m
		l.plans = append(l.plans, x)
	}
	return nil
}

// planProduct gives a quantized matrix its product, and the bytes of the packed matrix unless it becomes floats.
func (l *loader) planProduct(x *plan) error {
	p, err := l.product(x.typeName)
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
	w, a, err := blocks.Product(typeName)
	if err != nil {
		return nil, err
	}
	kernels := l.kernels
	if l.float {
		kernels = PureGo{} // which only reads rows
	}
	p, err := kernels.Product(w, a)
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
		v = inHalves(v, &l.config)
	}
	if !ops.Finite(v) {
		return nil, errorf(quoted(x.tensor.Name), "holds a value that is not finite")
	}
	return v, nil
}

// source is where the bytes of a plan's matrix are read, in the order of its rows.
func (l *loader) source(x *plan) (io.ReaderAt, error) {
	rows := x.rows()
	if want, err := x.stored(rows); err != nil || want != x.tensor.Size {
		return nil, cmp.Or(err, errorf(quoted(x.tensor.Name), "has %d bytes; %d rows of %d columns have %d", x.tensor.Size, rows, x.k, want))
	}
	if x.typeName != x.tensor.TypeName() {
		return newQuantizing(x)
	}
	part, reordered := x.m < rows, x.role.rotated() && l.row.adjacent
	if !part && !reordered {
		return x.tensor, nil
	}
	tail := 0
	if x.p != nil {
		b, err := blocks.Lookup(x.tensor.TypeName())
		if err != nil {
			return nil, err
		}
		if tail = b.Tail; b.Rows > 1 || part && tail > 0 {
			return nil, errorf(quoted(x.tensor.Name), "is %s, whose rows do not lie apart: they cannot be divided among matrices, nor reordered for rope", x.tensor.TypeName())
		}
	}
	body := x.tensor.Size - int64(tail)
	if body%int64(rows) != 0 {
		return nil, errorf(quoted(x.tensor.Name), "has %d bytes, which are not %d rows", body, rows)
	}
	line := body / int64(rows)
	from := io.NewSectionReader(x.tensor, int64(x.first)*line, int64(x.m)*line+int64(tail))
	if !reordered {
		return from, nil
	}
	return &halves{from, &l.config, line, int64(x.m) * line}, nil
}

// rows is how many rows a plan's tensor has, of all matrices.
func (x *plan) rows() int { return x.tensor.Elements() / x.k }

// number is which matrix of a stack a plan has.
func (x *plan) number() int {
	if x.role.stack() {
		return x.first / x.m
	}
	return 0
}

// stored is how many bytes rows of a plan's tensor have in the file.
func (x *plan) stored(rows int) (int64, error) {
	if elem, float := ops.ElemOf(x.tensor.TypeName()); float {
		return int64(rows) * int64(x.k) * int64(elem.Bytes()), nil
	}
	b, err := blocks.Lookup(x.tensor.TypeName())
	if err != nil {
		return 0, err
	}
	n, err := b.Size(rows, x.k)
	return int64(n), err
}

// fill makes a plan's matrix in memory of the bytes that it takes: packed, or panels.
func (l *loader) fill(x *plan, to []byte) error {
	from, err := l.source(x)
	if err != nil {
		return err
	}
	if x.p == nil {
		if err = ops.FillPanels(to, x.elem, from, x.m, x.k); err != nil {
			return errorf(quoted(x.tensor.Name), "%v", err)
		}
		return nil
	}
	scales, err := l.f.Scales(x.tensor.Name)
	if err != nil {
		return err
	}
	if err = x.p.PackBlocksFrom(to, x.typeName, from, x.m, x.k); err == nil && scales != nil {
		err = x.p.SetScale(to, scales[x.number()])
	}
	if err != nil {
		return fmt.Errorf("model: %s: %w", quoted(x.tensor.Name), err)
	}
	return nil
}

// wrap is the matrix in memory that fill has filled.
func (x *plan) wrap(data []byte) (*matrix, error) {
	out := &matrix{m: x.m, k: x.k, typeName: x.typeName}
	if x.p == nil {
		var err error
		out.floats, err = ops.MatrixOf(x.elem, data, x.m, x.k)
		return out, err
	}
	of := x.p.MatrixOf
	if x.rowsOnly || x.role.stack() { // stacks are copied to a device when they are complete
		of = x.p.MatrixOnHost
	}
	var err error
	if out.packed, err = of(data); err == nil {
		if m, k := out.packed.Shape(); m != x.m || k != x.k {
			err = errorf(quoted(x.tensor.Name), "is packed as %d rows and %d columns, not %d and %d", m, k, x.m, x.k)
		}
	}
	return out, err
}

// matrix makes a plan's matrix in memory of its own.
func (l *loader) matrix(x *plan) (*matrix, error) {
	size := x.bytes
	if l.float && x.p != nil {
		n, err := x.p.PackedSize(x.m, x.k)
		if err != nil {
			return nil, err
		}
		size = int64(n)
	}
	memory, err := runtime.NewBuffer(int(size))
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", quoted(x.tensor.Name), err)
	}
	if err := l.fill(x, memory.Bytes()); err != nil {
		memory.Close()
		return nil, err
	}
	out, err := x.wrap(memory.Bytes())
	if err != nil {
		memory.Close()
		return nil, err
	}
	if out.memory = memory; l.float && x.p != nil {
		return out, out.dequantize()
	}
	return out, nil
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
	err := x.close()
	if x.packed, x.memory = nil, nil; err != nil {
		return err
	}
	x.floats, err = ops.NewMatrix(ops.F32, data, x.m, x.k)
	return err
}

// halves reads a matrix of heads with its rows in the order of inHalves.
type halves struct {
	from io.ReaderAt
	c    *Config
	line int64 // bytes of a row
	size int64 // bytes of all rows, without what a type has behind them
}

// ReadAt implements io.ReaderAt.
func (h *halves) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < h.size && err == nil {
		row, at := off/h.line, off%h.line
		part := p[n:min(len(p), n+int(h.line-at))]
		got := 0
		got, err = h.from.ReadAt(part, h.c.source(row)*h.line+at)
		if got == len(part) {
			err = nil // at the end
		}
		n, off = n+got, off+int64(got)
	}
	if n < len(p) && err == nil {
		got := 0
		got, err = h.from.ReadAt(p[n:], off)
		n += got
	}
	return n, err
}

// source is the row of a file that becomes a row of heads in the order of inHalves.
func (c *Config) source(row int64) int64 {
	in := row % int64(c.HeadSize)
	half := int64(c.rotated()+1) / 2
	switch {
	case in < half:
		return row - in + 2*in
	case in < int64(c.rotated()):
		return row - in + 2*(in-half) + 1
	}
	return row
}

// inHalves reorders the elements of heads so that rope rotates halves where the file has neighbours:
//
//	0 1 2 3 4 5 ... -> 0 2 4 ... 1 3 5 ...
//
// Those that rope leaves alone keep their places. It returns a new slice.
func inHalves[T any](v []T, c *Config) []T {
	out := make([]T, len(v))
	for i := range out {
		out[i] = v[c.source(int64(i))]
	}
	return out
}
