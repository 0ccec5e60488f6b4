package operators

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
)

// tensor is a tensor of an operator as Go code sees it.
type tensor struct {
	name    string
	elem    format.DType
	extents []ir.Dim // of each index
	stride  int      // elements from one value of the last index to the next
	rows    bool     // it has rows a run-time number of elements apart, in the variable rowStride()
	memory  memory
}

// memory is where the elements of a tensor are.
type memory uint8

const (
	local  memory = iota // variables of the function: scratch
	slice                // a slice of its element type
	raw                  // a slice of bytes: panels and pages of a cache
	scalar               // one value
)

func (t *tensor) rowStride() string { return t.name + "Stride" }

// cached are the tensors that lie in panels or in pages of a cache: bytes for the program, whatever their elements are.
func cached(o operator.Operator, name string) bool {
	kind, _, _ := strings.Cut(o.Name, "_")
	switch kind {
	case "matmul":
		return name == "b"
	case "row", "column":
		return name == "out"
	}
	return false
}

// tensorsOf are the tensors of o by name.
func tensorsOf(o operator.Operator) map[string]*tensor {
	out := map[string]*tensor{}
	for _, t := range o.Graph.Inputs {
		v := &tensor{name: t.Name, elem: t.Elem, extents: inputExtents(o.Graph, t), memory: slice}
		if len(v.extents) == 1 && v.extents[0].N == 1 {
			v.memory = scalar
		}
		out[t.Name] = v
	}
	for _, s := range o.Graph.Stages {
		v := &tensor{name: s.Out.Name, elem: s.Out.Elem, extents: s.Axes}
		if slices.Contains(o.Outputs, s.Out.Name) {
			v.memory = slice
		}
		out[s.Out.Name] = v
	}
	for _, t := range out {
		t.stride = max(1, o.Stride[t.name])
		t.rows = slices.Contains(o.Rows, t.name)
		if cached(o, t.name) {
			t.memory = raw
		}
	}
	return out
}

// inputExtents are the extents of an input: of the axis that reads an index directly, or else the constants that do.
func inputExtents(g *ir.Graph, t *ir.Tensor) []ir.Dim {
	out := make([]ir.Dim, len(t.Dims))
	for _, s := range g.Stages {
		dims := dimsOf(s)
		ir.Walk(s.Body, func(e ir.Expr) {
			r, ok := e.(ir.Read)
			if !ok || r.T != t {
				return
			}
			for i, x := range r.Index {
				switch x := x.(type) {
				case ir.Axis:
					out[i] = dims[x.Name]
				case ir.Const:
					if out[i].Run == "" {
						out[i].N = max(out[i].N, int(x.V)+1)
					}
				}
			}
		})
	}
	for i, d := range out {
		if d.N == 0 && d.Run == "" {
			panic(fmt.Sprintf("BUG: operators: no stage says how many elements index %d of %s has", i, t.Name))
		}
	}
	return out
}

// dimsOf are the axes of s by name.
func dimsOf(s ir.Stage) map[string]ir.Dim {
	out := map[string]ir.Dim{}
	for _, d := range slices.Concat(s.Axes, s.Reduce) {
		out[d.Name] = d
	}
	return out
}

// affine is an index: a constant, and multiples of axes.
type affine struct {
	at   int
	coef map[string]int
}

// affineOf is e, which adds axes and constants, and multiplies them by constants.
func affineOf(e ir.Expr) affine {
	switch e := e.(type) {
	case ir.Const:
		return affine{at: int(e.V), coef: map[string]int{}}
	case ir.Axis:
		return affine{coef: map[string]int{e.Name: 1}}
	case ir.Binary:
		x, y := affineOf(e.X), affineOf(e.Y)
		if e.Op == ir.Add {
			return x.plus(y, 1)
		}
		if e.Op == ir.Mul && len(y.coef) == 0 {
			return affine{coef: map[string]int{}}.plus(x, y.at)
		}
	}
	panic("BUG: operators: no index: " + e.String())
}

// plus is a + n*b.
func (a affine) plus(b affine, n int) affine {
	out := affine{a.at + n*b.at, map[string]int{}}
	for _, x := range []struct {
		affine
		n int
	}{{a, 1}, {b, n}} {
		for axis, c := range x.coef {
			if out.coef[axis] += c * x.n; out.coef[axis] == 0 {
				delete(out.coef, axis)
			}
		}
	}
	return out
}

// within says that index e of a stage stays below the extent. It may not if it counts blocks of a run-time size.
func (a affine) within(extent ir.Dim, dims map[string]ir.Dim) bool {
	most, run := a.at, ir.Dim{}
	for axis, c := range a.coef {
		if d := dims[axis]; d.N > 0 {
			most += c * (d.N - 1)
		} else {
			run = d
		}
	}
	if run.Run == "" {
		return extent.N > 0 && most < extent.N
	}
	return run.Run == extent.Run && run.Div == extent.Div && most == 0
}
