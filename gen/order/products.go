package order

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// Product is a product to compile, and the matrices that need it.
type Product struct {
	Problem ir.Problem
	Traces  map[string]Trace // by the name of the target; others have default schedules
	Shapes  []Shape          // of the matrices; none: of any size

	name     string         // that -kernel gave it, or ""
	asks     string         // who asks for the largest K of Problem
	targeted bool           // each trace was given with its target
	sizes    map[[2]int]int // rows and columns to index into Shapes
}

// Trace is the schedule in a file that the user named.
type Trace struct {
	Path string
	schedule.Trace
}

// Shape is matrices of one size.
type Shape struct {
	M       int      `json:"m"` // rows
	K       int      `json:"k"` // columns
	Tensors []string `json:"tensors"`
	Count   int      `json:"count"` // of matrices; a tensor may hold several, and a model has most tensors in each layer
}

// want adds count matrices of m rows and k columns, 0 for none in particular.
func (o *Order) want(p ir.Problem, tensor string, m, k, count int) error {
	if k > format.MostK {
		return fmt.Errorf("has K %d; products take K up to %d", k, format.MostK)
	}
	asks := "-max-k asks"
	if err := setMaxK(&p, o.options.MaxK); err != nil {
		return err
	}
	if k > p.LimitK() {
		asks = "tensor " + tensor + " asks"
		if err := setMaxK(&p, k); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(o.Products, func(x *Product) bool { return x.name == "" && x.Name() == productName(p.Name()) })
	if i >= 0 {
		if err := sameFormat(o.Products[i].Problem, p); err != nil {
			return err
		}
	} else {
		i = len(o.Products)
		o.Products = append(o.Products, &Product{Problem: p, Traces: map[string]Trace{}, sizes: map[[2]int]int{}})
	}
	x := o.Products[i]
	if p.MaxK >= x.Problem.MaxK {
		x.Problem.MaxK, x.asks = p.MaxK, asks
	}
	if m == 0 {
		return nil
	}
	if j, ok := x.sizes[[2]int{m, k}]; ok {
		s := &x.Shapes[j]
		s.Tensors, s.Count = append(s.Tensors, tensor), s.Count+count
		return nil
	}
	x.sizes[[2]int{m, k}] = len(x.Shapes)
	x.Shapes = append(x.Shapes, Shape{m, k, []string{tensor}, count})
	return nil
}

// sameFormat says why p and q, whose products have one name in Go, are not one product.
func sameFormat(p, q ir.Problem) error {
	q.MaxK = p.MaxK
	switch {
	case p.Name() != q.Name():
		return fmt.Errorf("formats %s and %s: both make product %s; name one with -kernel", p.Name(), q.Name(), productName(q.Name()))
	case !reflect.DeepEqual(p, q):
		return fmt.Errorf("format %s: there are two different ones of this name; rename one", q.Name())
	}
	return nil
}

// setMaxK sets the largest K of p, unless to 0.
func setMaxK(p *ir.Problem, k int) error {
	if k == 0 {
		return nil
	}
	p.MaxK = k
	return p.Validate()
}

// Blamed is err, of compiling w, with who asks for so large a K, if that is why sums could overflow.
func (w *Product) Blamed(err error) error {
	if k := w.Problem.LimitK(); k > ir.DefaultMaxK && errors.As(err, new(*schedule.Overflow)) {
		return fmt.Errorf("%w (%s for K up to %d)", err, w.asks, k)
	}
	return err
}

// Trace is the schedule that was given for t, nil if none was.
func (w *Product) Trace(t lower.Target) schedule.Trace { return w.Traces[t.Machine().Name].Trace }

// Label begins the names of a product's kernels.
func (w *Product) Label() string { return cmp.Or(w.name, w.Problem.Name()) }

// Name is the name of a product in Go.
func (w *Product) Name() string { return cmp.Or(w.name, productName(w.Problem.Name())) }

// AddModel adds the matrices of a built-in model.
func (o *Order) AddModel(name string) error {
	m, err := modelByName(name)
	if err != nil {
		return err
	}
	for _, r := range m.tensors {
		w, err := format.Lookup(r.format)
		if err != nil {
			panic("BUG: model " + name + ": " + err.Error())
		}
		count := m.layers
		if r.once {
			count = 1
		}
		p, err := o.options.Act.Problem(w)
		if err == nil {
			err = o.want(p, r.name, r.m, r.k, count)
		}
		if err != nil {
			return err
		}
		for layer := range count {
			name := r.name + ".weight"
			if !r.once {
				name = fmt.Sprintf("blk.%d.%s", layer, name)
			}
			o.tensors = append(o.tensors, tensor{p.Name(), true, "", gen.Tensor{Name: name, Type: blockType(w), M: r.m, K: r.k, Count: 1}})
		}
	}
	return nil
}

// blockType is the GGUF type that holds a format, or "" if none does.
func blockType(w format.Weight) string {
	for _, t := range blocks.Types() {
		if b, err := blocks.Lookup(t); err == nil && b.Weight == w.Name {
			return t
		}
	}
	return ""
}

// AddFile adds the matrices of a GGUF file, or of all files of the split model that it is a part of. Those
// of types that cannot be read are left out. A file that was added before is not added again.
func (o *Order) AddFile(path string) error {
	if o.files[realPath(path)] {
		return nil
	}
	f, err := gguf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, message.Inner(err, path))
	}
	defer f.Close()
	for _, part := range f.Paths {
		o.files[realPath(part)] = true
	}
	if len(f.Tensors) == 0 {
		return fmt.Errorf("%s: has no tensors", path)
	}
	for i := range f.Tensors {
		if err := o.wantTensor(path, f, &f.Tensors[i]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// realPath is the absolute path of a file, with all links followed.
func realPath(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// wantTensor adds a tensor to the matrices to compile, to those left out or to the tensors that are no matrices. The
// scales of a matrix belong to it and are listed nowhere.
func (o *Order) wantTensor(path string, f *gguf.File, t *gguf.Tensor) error {
	base, scale := strings.CutSuffix(t.Name, ".scale")
	var fault *gguf.Error
	switch {
	case errors.As(t.Err, &fault):
		o.Left = append(o.Left, Left{t.Name, t.TypeName(), fault.Problem})
		return nil
	case scale && f.Tensor(base+".weight") != nil:
		return nil
	case len(t.Shape) < 2:
		o.Others = append(o.Others, t.Name)
		return nil
	}
	x, p, err := o.matrix(f, t)
	x.file = path
	if err == nil {
		if known, err := o.known(x); known || err != nil {
			return err
		}
		err = o.want(p, x.Name, x.M, x.K, x.Count)
	}
	if err != nil {
		o.Left = append(o.Left, Left{t.Name, t.TypeName(), message.Line(err)})
		return nil
	}
	o.inFiles[x.Name] = len(o.tensors)
	o.tensors = append(o.tensors, x)
	return nil
}

// known reports whether another file had a tensor of that name, type and shape, whose product is compiled already. A tensor
// of the same name that differs is an error.
func (o *Order) known(x tensor) (bool, error) {
	i, twice := o.inFiles[x.Name]
	if !twice {
		return false, nil
	}
	y := o.tensors[i]
	switch {
	case x.Tensor == y.Tensor && x.format == y.format:
		return true, nil
	case x.Scaled != y.Scaled:
		return false, fmt.Errorf("tensor %s has scales in one of %s and %s only: make a package for each file", x.Name, y.file, x.file)
	}
	return false, fmt.Errorf("tensor %s is %s, but %s in %s: make a package for each file", x.Name, x.size(), y.size(), y.file)
}

// size is the number of x's matrices, their size and type.
func (x tensor) size() string { return fmt.Sprintf("%d of %d x %d in %s", x.Count, x.M, x.K, x.Type) }

// errNoBlocks is why a tensor of a type such as F16 is left out.
var errNoBlocks = errors.New("not a type of low-bit weights that tmacc reads; tmacc formats lists those")

// matrix is t and the product that multiplies it.
func (o *Order) matrix(f *gguf.File, t *gguf.Tensor) (tensor, ir.Problem, error) {
	err := errNoBlocks
	for _, b := range blocks.Layouts(t.TypeName()) { // whichever it is, the product is the same
		if _, err = b.Size(t.Shape[1], t.Shape[0]); err != nil {
			continue
		}
		scales, err := f.Scales(t.Name)
		if err != nil {
			return tensor{}, ir.Problem{}, err
		}
		p, err := o.problemOf(b)
		x := tensor{p.Name(), false, "", gen.Tensor{Name: t.Name, Type: t.TypeName(), M: t.Shape[1], K: t.Shape[0], Count: t.Matrices(), Scaled: scales != nil}}
		return x, p, err
	}
	return tensor{}, ir.Problem{}, err
}

// problemOf is the product for matrices in blocks of b. It is made once for each format, because a file has many tensors of few types.
func (o *Order) problemOf(b blocks.Block) (ir.Problem, error) {
	if p, ok := o.problems[b.Weight]; ok {
		return p, nil
	}
	w, err := format.Lookup(b.Weight)
	if err != nil {
		panic("BUG: blocks: " + err.Error())
	}
	p, err := o.options.Act.Problem(w)
	if err == nil {
		o.problems[b.Weight] = p
	}
	return p, err
}

// tensor is a tensor of a file or model, and the format whose product multiplies it.
type tensor struct {
	format  string
	builtIn bool
	file    string // that has it, if it is not builtIn
	gen.Tensor
}

// Tensors lists the tensors that these products of o multiply, with the index of the product of each. If a
// built-in model and a file have a tensor of one name, the file's is listed.
func (o *Order) Tensors(products []*Product) []gen.Tensor {
	var all []gen.Tensor
	inFile := map[string]bool{}
	for _, t := range o.tensors {
		inFile[t.Name] = inFile[t.Name] || !t.builtIn
	}
	for _, t := range o.tensors {
		if t.builtIn && inFile[t.Name] {
			continue
		}
		t.Product = slices.IndexFunc(products, func(w *Product) bool { return w.name == "" && w.Problem.Name() == t.format })
		if t.Product >= 0 {
			all = append(all, t.Tensor)
		}
	}
	return all
}

// productName makes the name of a product in Go of that of its format:
// "w4-g32" is W4G32.
func productName(format string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(format, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if name := b.String(); name != "" && 'A' <= name[0] && name[0] <= 'Z' {
		return name
	}
	return "F" + b.String()
}
