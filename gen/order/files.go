package order

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/ops"
)

// AddFile adds the matrices of a GGUF file. A part of a split model stands for all its parts. Tensors of types
// that cannot be compiled go to Left. A file that was added before is not added again. Errors name the file: it
// cannot be read, has no tensors, or has a tensor that an earlier file has with another shape or type.
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
	if len(o.inFiles) == 0 {
		o.inFiles = make(map[string]int, len(f.Tensors)) // growing it would take longer than filling it
	}
	o.tensors = slices.Grow(o.tensors, len(f.Tensors))
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

// wantTensor adds a tensor to its product, to Left, to Floats, or to Others if it is no matrix. The scales of a matrix
// belong to the matrix and are listed nowhere.
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
	if _, floats := ops.ElemOf(t.TypeName()); floats {
		o.Floats = append(o.Floats, t.Name)
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

// known reports whether an earlier file has the same tensor, so that it is counted already. A different tensor of
// the same name is an error.
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

// size describes the matrices of x: their number, rows, columns and type.
func (x tensor) size() string { return fmt.Sprintf("%d of %d x %d in %s", x.Count, x.M, x.K, x.Type) }

// errNoBlocks is why a tensor of a type such as I32 is left out.
var errNoBlocks = errors.New("not a type of low-bit weights that tmacc reads; tmacc formats lists those")

// matrix is the tensor t, and the product that multiplies it.
func (o *Order) matrix(f *gguf.File, t *gguf.Tensor) (tensor, ir.Problem, error) {
	err := errNoBlocks
	for _, b := range blocks.Layouts(t.TypeName()) { // the product is the same for every layout
		if _, err = b.Size(t.Shape[1], t.Shape[0]); err != nil {
			continue
		}
		scales, err := f.Scales(t.Name)
		if err != nil {
			return tensor{}, ir.Problem{}, err
		}
		p, err := o.problemOf(b)
		x := gen.Tensor{Name: t.Name, Type: t.TypeName(), M: t.Shape[1], K: t.Shape[0], Count: t.Matrices(), Scaled: scales != nil}
		return tensor{format: p.Name(), Tensor: x}, p, err
	}
	return tensor{}, ir.Problem{}, err
}

// problemOf is the product for matrices in blocks of b. It is made once for each format: a file has many tensors of
// few types.
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
