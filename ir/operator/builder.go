package operator

import (
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// builder collects the stages of a graph. The loops of a stage are named after it, as in "out.k".
type builder struct{ g ir.Graph }

func (b *builder) graph() *ir.Graph { return &b.g }

func (b *builder) input(name string, e format.DType, dims ...string) *ir.Tensor {
	t := &ir.Tensor{Name: name, Elem: e, Dims: dims}
	b.g.Inputs = append(b.g.Inputs, t)
	return t
}

// axis is an axis of n iterations, run one of a size known at run time.
func (b *builder) axis(stage, name string, n int) ir.Dim {
	return ir.Dim{Name: stage + "." + name, N: n}
}
func (b *builder) run(stage, name, size string) ir.Dim {
	return ir.Dim{Name: stage + "." + name, Run: size, Div: 1}
}

// stage adds out[axes] = body.
func (b *builder) stage(name string, e format.DType, axes []ir.Dim, body ir.Expr) *ir.Tensor {
	return b.add(ir.Stage{Out: tensor(name, e, axes), Axes: axes, Body: body})
}

// reduce adds out[axes] = sum over k of body.
func (b *builder) reduce(name string, e format.DType, axes []ir.Dim, k ir.Dim, body ir.Expr) *ir.Tensor {
	return b.add(ir.Stage{Out: tensor(name, e, axes), Axes: axes, Reduce: []ir.Dim{k}, Combine: ir.Add, Body: body})
}

func (b *builder) add(s ir.Stage) *ir.Tensor {
	b.g.Stages = append(b.g.Stages, s)
	return s.Out
}

func tensor(name string, e format.DType, axes []ir.Dim) *ir.Tensor {
	t := &ir.Tensor{Name: name, Elem: e}
	for _, d := range axes {
		t.Dims = append(t.Dims, d.Name[len(name)+1:])
	}
	return t
}

// sum adds the stages of a sum over one vector: Panel partial sums: number j adds of(b, j) for ascending b, and a
// tree. With rows there is one sum for each. The result is name1.
func (b *builder) sum(name string, rows func(stage string) ir.Dim, over func(name string) ir.Dim, of func(b, j ir.Expr) ir.Expr) *ir.Tensor {
	part := fmt.Sprintf("%s%d", name, Panel)
	j, k := b.axis(part, "j", Panel), over(part+".b")
	return b.tree(name, ir.Add, rows, b.reduce(part, format.F32, append(leading(rows, part), j), k, of(axis(k), axis(j))))
}

// size is ceil(name/div) iterations, fixed is n.
func size(name string, div int) func(string) ir.Dim {
	return func(loop string) ir.Dim { return ir.Dim{Name: loop, Run: name, Div: div} }
}
func fixed(n int) func(string) ir.Dim {
	return func(loop string) ir.Dim { return ir.Dim{Name: loop, N: n} }
}

// tree adds the stages that make one element of Panel: each has half the elements of the one before.
func (b *builder) tree(name string, op ir.Op, rows func(stage string) ir.Dim, of *ir.Tensor) *ir.Tensor {
	for n := Panel / 2; n > 0; n /= 2 {
		of = b.halve(fmt.Sprintf("%s%d", name, n), op, rows, of, n)
	}
	return of
}

// halve adds the stage of n elements, each of two of the 2n elements of a tensor.
func (b *builder) halve(name string, op ir.Op, rows func(stage string) ir.Dim, of *ir.Tensor, n int) *ir.Tensor {
	lead, j := leading(rows, name), b.axis(name, "j", n)
	at := func(j ir.Expr) ir.Expr { return read(of, append(axes(lead), j)...) }
	return b.stage(name, of.Elem, append(lead, j), ir.Binary{Op: op, X: at(axis(j)), Y: at(plus(axis(j), ir.I32(n)))})
}

func leading(rows func(stage string) ir.Dim, stage string) []ir.Dim {
	if rows == nil {
		return nil
	}
	return []ir.Dim{rows(stage)}
}

func axis(d ir.Dim) ir.Expr { return ir.Axis{Name: d.Name} }

func axes(ds []ir.Dim) (out []ir.Expr) {
	for _, d := range ds {
		out = append(out, axis(d))
	}
	return out
}

func read(t *ir.Tensor, index ...ir.Expr) ir.Expr { return ir.Read{T: t, Index: index} }
func plus(x, y ir.Expr) ir.Expr                   { return ir.Binary{Op: ir.Add, X: x, Y: y} }
func times(x ir.Expr, n int) ir.Expr              { return ir.Binary{Op: ir.Mul, X: x, Y: ir.I32(n)} }
