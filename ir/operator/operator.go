// Package operator defines the float operators of language models as tensor expressions: norms, rotations, gates,
// attention over a cache, products of float matrices. docs/ir.md says in which order each sum is made, and why.
//
// A definition says nothing about how it is computed: package schedule makes loops of it, for every target.
package operator

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Sizes that the definitions have, and with them the memory that operators share.
const (
	Panel = 32 // lanes of a panel; partial sums of a sum over one vector
	Block = 64 // positions that have a maximum of their own in attention
)

// Operator is one float operator.
type Operator struct {
	Name  string
	About string // one sentence
	Graph *ir.Graph
	// Outputs are the tensors that callers want. Other stages compute scratch.
	Outputs []string
	// Rows are the tensors, indexed (row, element), whose rows lie a run-time number of bytes apart.
	Rows []string
	// Paged is the tensor that lies in pages of a cache, each anywhere in memory, "": none.
	Paged string
	// Stored are the inputs that lie in memory: weights, and what a cache has. Others have just been computed.
	Stored []string
	// Sizes are the run-time sizes of calls as models make them, nil: the usual ones. See Typical.
	Sizes []map[string]int
	// Stride is the distance, in elements, of neighbours along the last index: 1 for tensors that it does not name.
	Stride map[string]int
}

// usual are sizes of attention, and of vectors of a model.
var usual = []map[string]int{
	{"K": 96, "H": 48, "D": 96, "R": 3},
	{"K": 4096, "H": 64, "D": 128, "R": 8},
}

// Typical are the run-time sizes of calls as models make them. Kernels are for multiples of their greatest common divisor: other sizes
// run in plain Go.
func (o Operator) Typical() []map[string]int {
	if o.Sizes != nil {
		return o.Sizes
	}
	return usual
}

// All lists every operator, in the order of docs/ir.md.
func All() []Operator {
	out := []Operator{RMSNorm(), Add(), AddScaled(), Mul(), Scale(), Softcap(), SiLUGate(), GELUGate(), ReLU2Gate(), Rope(), Softmax(), Merge(), Finish()}
	for _, e := range Elems {
		out = append(out, Row(e), Column(e))
	}
	for _, e := range append(Elems, format.U16, format.I8) {
		for _, rows := range []int{1, 2, 4, 8} {
			out = append(out, Matmul(e, rows))
		}
	}
	return out
}

// mergedBlocks are how many blocks devices merge at once: the fewer calls, the longer the shader.
var mergedBlocks = []int{4, 16}

// OnDevices lists the operators that only devices compute, in one dispatch for many positions or blocks, or for experts: CPUs have loops over calls of others.
func OnDevices() (out []Operator) {
	for _, blocks := range mergedBlocks {
		out = append(out, MergeBlocks(blocks))
	}
	return append(append(out, RowI8(), ColumnI8(), Element(), Rescale()), Experts()...)
}

// Find is the operator of that name, or nil.
func Find(name string) *Operator {
	for _, o := range append(All(), OnDevices()...) {
		if o.Name == name {
			return &o
		}
	}
	return nil
}

// Attention is the operators that compute attention over a cache, in order. The product is of queries and keys, and once more
// of exponentials and values.
func Attention() []Operator {
	return []Operator{Matmul(format.F16, 1), Softmax(), Merge(), Finish()}
}

// Elems are the element types of a cache that are floats.
var Elems = []format.DType{format.F32, format.F16}

// elemName is the name of an element type in names of operators: a bf16 is read as the u16 of its bits.
func elemName(e format.DType) string {
	if e == format.U16 {
		return "bf16"
	}
	return e.String()
}

// RMSNorm is x / sqrt(mean of x^2 + eps) * w, x and w of K elements. share is 1/K, eps and share have one element.
func RMSNorm() Operator {
	g := &builder{}
	x, w := g.input("x", format.F32, "k"), g.input("w", format.F32, "k")
	share, eps := g.input("share", format.F32, "i"), g.input("eps", format.F32, "i")
	square := func(at ir.Expr) ir.Expr { return mul(read(x, at), read(x, at)) }
	total := g.sum("square", nil, size("K", Panel), func(b, j ir.Expr) ir.Expr { return square(plus(times(b, Panel), j)) })
	one := g.axis("inv", "i", 1)
	mean := mul(read(total, ir.I32(0)), read(share, ir.I32(0)))
	inv := g.stage("inv", format.F32, []ir.Dim{one}, rsqrt(add(mean, read(eps, ir.I32(0)))))
	k := g.run("out", "k", "K")
	g.stage("out", format.F32, []ir.Dim{k}, canon(mul(mul(read(x, axis(k)), read(inv, ir.I32(0))), read(w, axis(k)))))
	return Operator{Name: "rmsnorm", About: "RMS norm of one vector, times weights", Graph: g.graph(), Outputs: []string{"out"}}
}

// Add is x + y.
func Add() Operator {
	return pointwise("add", "sum of two vectors: residuals and biases", []string{"x", "y"}, func(in []ir.Expr) ir.Expr { return add(in[0], in[1]) })
}

// Mul is x * y.
func Mul() Operator {
	return pointwise("mul", "product of two vectors: scores or exponentials, and scales of a cache", []string{"x", "y"}, func(in []ir.Expr) ir.Expr { return mul(in[0], in[1]) })
}

// AddScaled is x + scale * y. scale has one element.
func AddScaled() Operator {
	g := &builder{}
	k := g.run("out", "k", "K")
	x, y, scale := g.input("x", format.F32, "k"), g.input("y", format.F32, "k"), g.input("scale", format.F32, "i")
	g.stage("out", format.F32, []ir.Dim{k}, canon(add(read(x, axis(k)), mul(read(y, axis(k)), read(scale, ir.I32(0))))))
	return Operator{Name: "addscaled", About: "sum of a vector and another times a number: experts", Graph: g.graph(), Outputs: []string{"out"}}
}

// Scale is x * by. by has one element.
func Scale() Operator {
	g := &builder{}
	k := g.run("out", "k", "K")
	x, by := g.input("x", format.F32, "k"), g.input("by", format.F32, "i")
	g.stage("out", format.F32, []ir.Dim{k}, canon(mul(read(x, axis(k)), read(by, ir.I32(0)))))
	return Operator{Name: "scale", About: "a vector times a number: embeddings", Graph: g.graph(), Outputs: []string{"out"}}
}

// Softcap is cap * tanh(x / cap * scale), as cap * (1 - 2 / (exp(x * twice) + 1)). cap and twice, which is 2 * scale / cap, have one element.
func Softcap() Operator {
	g := &builder{}
	k := g.run("out", "k", "K")
	x, cap, twice := g.input("x", format.F32, "k"), g.input("cap", format.F32, "i"), g.input("twice", format.F32, "i")
	e := Exp(mul(read(x, axis(k)), read(twice, ir.I32(0))))
	g.stage("out", format.F32, []ir.Dim{k}, canon(mul(read(cap, ir.I32(0)), sub(num(1), div(num(2), add(e, num(1)))))))
	return Operator{Name: "softcap", About: "tanh of a vector between caps: scores and logits", Graph: g.graph(), Outputs: []string{"out"}}
}

// SiLUGate is gate / (1 + exp(-gate)) * up.
func SiLUGate() Operator {
	return pointwise("silu", "SiLU of the gate, times up", gated, func(in []ir.Expr) ir.Expr { return mul(sigmoidTimes(in[0], in[0]), in[1]) })
}

// GELUGate is the tanh form of GELU of the gate, times up.
func GELUGate() Operator {
	return pointwise("gelu", "GELU (tanh form) of the gate, times up", gated, func(in []ir.Expr) ir.Expr {
		g := in[0]
		cube := mul(mul(g, g), g)
		y := mul(num(1.5957691216057308), add(g, mul(num(0.044715), cube))) // 2 sqrt(2/pi)
		return mul(sigmoidTimes(g, y), in[1])
	})
}

// ReLU2Gate is max(gate, 0)^2 * up.
func ReLU2Gate() Operator {
	return pointwise("relu2", "square of the ReLU of the gate, times up", gated, func(in []ir.Expr) ir.Expr {
		r := ir.Binary{Op: ir.Max, X: num(0), Y: in[0]}
		return mul(mul(r, r), in[1])
	})
}

var gated = []string{"gate", "up"}

// Rope rotates pairs (x, y) of H elements each, by angles whose cosines and sines are given.
func Rope() Operator {
	g := &builder{}
	x, y := g.input("x", format.F32, "i"), g.input("y", format.F32, "i")
	cos, sin := g.input("cos", format.F32, "i"), g.input("sin", format.F32, "i")
	part := func(name string, op ir.Op, a, b *ir.Tensor) {
		d := g.run(name, "i", "H")
		i := axis(d)
		g.stage(name, format.F32, []ir.Dim{d}, canon(ir.Binary{Op: op, X: mul(read(a, i), read(cos, i)), Y: mul(read(b, i), read(sin, i))}))
	}
	part("low", ir.Sub, x, y)
	part("high", ir.Add, y, x)
	return Operator{Name: "rope", About: "rotation of the two halves of a head", Graph: g.graph(), Outputs: []string{"low", "high"}}
}

// Softmax is the exponentials of R rows of Block scores, with their maximum and sum. Of row r, the positions from first[r] to
// before end[r] count, at least one. scale has one element.
func Softmax() Operator {
	g := &builder{}
	s, scale := g.input("s", format.F32, "r", "p"), g.input("scale", format.F32, "i")
	first, end := g.input("first", format.I32, "r"), g.input("end", format.I32, "r")
	r, p := g.run("masked", "r", "R"), g.axis("masked", "p", Block)
	before := ir.Binary{Op: ir.CmpGtS, X: read(end, axis(r)), Y: axis(p)}
	valid := ir.Binary{Op: ir.And, X: before, Y: ir.Binary{Op: ir.CmpGtS, X: plus(axis(p), ir.I32(1)), Y: read(first, axis(r))}}
	scaled := mul(read(s, axis(r), axis(p)), read(scale, ir.I32(0)))
	masked := g.stage("masked", format.F32, []ir.Dim{r, p}, choose(valid, scaled, num(float32(math.Inf(-1)))))

	rows := func(name string) ir.Dim { return g.run(name, "r", "R") }
	top := g.tree("top", ir.Max, rows, g.halve("top32", ir.Max, rows, masked, Panel))
	r, p = g.run("e", "r", "R"), g.axis("e", "p", Block)
	e := g.stage("e", format.F32, []ir.Dim{r, p}, Exp(sub(read(masked, axis(r), axis(p)), read(top, axis(r), ir.I32(0)))))
	g.sum("total", rows, fixed(Block/Panel), func(b, j ir.Expr) ir.Expr { return read(e, axis(rows("total32")), plus(times(b, Panel), j)) })
	return Operator{Name: "softmax", About: "exponentials, maximum and sum of a block of scores", Graph: g.graph(), Outputs: []string{"e", "top1", "total1"}}
}

// Merge adds block 2 of attention to what the blocks before it have: maxima m, sums l and outputs o of R rows, and D
// elements each.
func Merge() Operator {
	g := &builder{}
	o, m, l := g.input("o", format.F32, "r", "d"), g.input("m", format.F32, "r"), g.input("l", format.F32, "r")
	o2, m2, l2 := g.input("o2", format.F32, "r", "d"), g.input("m2", format.F32, "r"), g.input("l2", format.F32, "r")
	row := func(name string, of func(r ir.Expr) ir.Expr) *ir.Tensor {
		d := g.run(name, "r", "R")
		return g.stage(name, format.F32, []ir.Dim{d}, of(axis(d)))
	}
	top := row("top", func(r ir.Expr) ir.Expr { return ir.Binary{Op: ir.Max, X: read(m, r), Y: read(m2, r)} })
	a := row("a", func(r ir.Expr) ir.Expr { return Exp(sub(read(m, r), read(top, r))) })
	b := row("b", func(r ir.Expr) ir.Expr { return Exp(sub(read(m2, r), read(top, r))) })
	row("total", func(r ir.Expr) ir.Expr { return add(mul(read(l, r), read(a, r)), mul(read(l2, r), read(b, r))) })
	r, d := g.run("out", "r", "R"), g.run("out", "d", "D")
	g.stage("out", format.F32, []ir.Dim{r, d}, add(mul(read(o, axis(r), axis(d)), read(a, axis(r))), mul(read(o2, axis(r), axis(d)), read(b, axis(r)))))
	return Operator{Name: "merge", About: "two blocks of attention as one", Graph: g.graph(),
		Outputs: []string{"top", "total", "out"}, Rows: []string{"o", "o2", "out"}}
}

// MergeBlocks is what Merge makes of one row and of one block after the other. Blocks have a row each of o2, m2 and l2; m, l, top and total have one element.
func MergeBlocks(blocks int) Operator {
	g := &builder{}
	o, m, l := g.input("o", format.F32, "d"), g.input("m", format.F32, "i"), g.input("l", format.F32, "i")
	o2, m2, l2 := g.input("o2", format.F32, "b", "d"), g.input("m2", format.F32, "b", "i"), g.input("l2", format.F32, "b", "i")
	larger := func(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Max, X: x, Y: y} }
	one := ir.I32(0)
	// before has the largest maximum of the blocks before each
	b := g.axis("before", "b", blocks)
	most := read(m, one)
	for i := range blocks - 1 {
		most = larger(most, choose(ir.Binary{Op: ir.CmpGtS, X: axis(b), Y: ir.I32(i)}, read(m2, ir.I32(i), one), num(float32(math.Inf(-1)))))
	}
	before := g.stage("before", format.F32, []ir.Dim{b}, most)
	factor := func(name string, of func(b ir.Expr) ir.Expr) *ir.Tensor {
		b := axis(g.axis(name, "b", blocks))
		return g.stage(name, format.F32, []ir.Dim{g.axis(name, "b", blocks)}, Exp(sub(of(b), larger(read(before, b), read(m2, b, one)))))
	}
	keep := factor("keep", func(b ir.Expr) ir.Expr { return read(before, b) })
	part := factor("part", func(b ir.Expr) ir.Expr { return read(m2, b, one) })
	merged := func(first ir.Expr, next func(b ir.Expr) ir.Expr) ir.Expr {
		for i := range blocks {
			b := ir.I32(i)
			first = add(mul(first, read(keep, b)), mul(next(b), read(part, b)))
		}
		return first
	}
	last := ir.I32(blocks - 1)
	g.stage("top", format.F32, []ir.Dim{g.axis("top", "i", 1)}, larger(read(before, last), read(m2, last, one)))
	g.stage("total", format.F32, []ir.Dim{g.axis("total", "i", 1)}, merged(read(l, one), func(b ir.Expr) ir.Expr { return read(l2, b, one) }))
	d := g.run("out", "d", "D")
	g.stage("out", format.F32, []ir.Dim{d}, merged(read(o, axis(d)), func(b ir.Expr) ir.Expr { return read(o2, b, axis(d)) }))
	return Operator{Name: fmt.Sprintf("merge_%d", blocks), About: fmt.Sprintf("%d more blocks of attention, in order", blocks), Graph: g.graph(),
		Outputs: []string{"top", "total", "out"}, Rows: []string{"o2", "m2", "l2"}, Sizes: []map[string]int{{"D": 96}, {"D": 128}}}
}

// Finish is o / l, of R rows of D elements.
func Finish() Operator {
	g := &builder{}
	o, l := g.input("o", format.F32, "r", "d"), g.input("l", format.F32, "r")
	r, d := g.run("out", "r", "R"), g.run("out", "d", "D")
	g.stage("out", format.F32, []ir.Dim{r, d}, canon(div(read(o, axis(r), axis(d)), read(l, axis(r)))))
	return Operator{Name: "finish", About: "outputs of attention over their sums", Graph: g.graph(), Outputs: []string{"out"}, Rows: []string{"o", "out"}}
}

// Row is a vector of K elements as elements of type e.
func Row(e format.DType) Operator {
	o := pointwise("row_"+elemName(e), "a vector as neighbouring elements of a cache", []string{"x"}, func(in []ir.Expr) ir.Expr { return stored(in[0], e) })
	o.Paged = "out"
	return o
}

// Column is a vector of K elements as elements of type e, one in each row of a panel.
func Column(e format.DType) Operator {
	o := pointwise("column_"+elemName(e), "a vector as one lane of a panel", []string{"x"}, func(in []ir.Expr) ir.Expr { return stored(in[0], e) })
	o.Stride, o.Paged = map[string]int{"out": Panel}, "out"
	return o
}

// RowI8 is a vector as i8 and their scale: C panels of 32 elements of a cache.
func RowI8() Operator {
	g := &builder{}
	x := g.input("x", format.F32, "c", "j")
	scale := g.scaleOf(g.run("top32", "c", "C"), func(c, j ir.Expr) ir.Expr { return read(x, c, j) })
	c, j := g.run("out", "c", "C"), g.axis("out", "j", Panel)
	g.stage("out", format.I8, []ir.Dim{c, j}, code(read(x, axis(c), axis(j)), read(scale, ir.I32(0))))
	return Operator{Name: "row_i8", About: "a vector as i8 and their scale: panels of a cache", Graph: g.graph(), Outputs: []string{"out", "scale"}, Rows: []string{"out"}, Paged: "out",
		Sizes: []map[string]int{{"C": 3}, {"C": 4}}}
}

// ColumnI8 is a vector of K elements as i8, one in each row of a panel, and their scale.
func ColumnI8() Operator {
	g := &builder{}
	x := g.input("x", format.F32, "k")
	scale := g.scaleOf(size("K", Panel)("top32.b"), func(b, j ir.Expr) ir.Expr { return read(x, plus(times(b, Panel), j)) })
	k := g.run("out", "k", "K")
	g.stage("out", format.I8, []ir.Dim{k}, code(read(x, axis(k)), read(scale, ir.I32(0))))
	return Operator{Name: "column_i8", About: "a vector as i8 and their scale: one lane of a panel", Graph: g.graph(), Outputs: []string{"out", "scale"},
		Stride: map[string]int{"out": Panel}, Paged: "out"}
}

const (
	mostCode     = 127
	magnitude    = 0x7fffffff // bits of a float but the sign
	infinityBits = 0x7f800000
	leastNormal  = 0x00800000 // the bits of 2^-126
	canonicalNaN = 0x7fc00000
)

// scaleOf adds the stages of the scale of a vector: its largest magnitude over 127. It is 0 below 2^-126, and a NaN if there is an infinity or a NaN.
func (b *builder) scaleOf(over ir.Dim, of func(b, j ir.Expr) ir.Expr) *ir.Tensor {
	part := b.axis("top32", "j", Panel)
	each := ir.Binary{Op: ir.And, X: bits(of(axis(over), axis(part))), Y: ir.I32(magnitude)}
	top := b.tree("top", ir.MaxS, nil, b.add(ir.Stage{Out: tensor("top32", format.I32, []ir.Dim{part}), Axes: []ir.Dim{part}, Reduce: []ir.Dim{over}, Combine: ir.MaxS, Body: each}))
	most := read(top, ir.I32(0))
	quotient := div(bits(most), num(mostCode))
	normal := ir.Binary{Op: ir.CmpGtS, X: bits(quotient), Y: ir.I32(leastNormal - 1)}
	finite := ir.Binary{Op: ir.CmpGtS, X: ir.I32(infinityBits), Y: most}
	return b.stage("scale", format.F32, []ir.Dim{b.axis("scale", "i", 1)}, choose(finite, choose(normal, quotient, num(0)), bits(ir.I32(canonicalNaN))))
}

// code is the i8 nearest to x / scale, of two the even one, or 0 if the scale is 0 or a NaN.
func code(x, scale ir.Expr) ir.Expr {
	used := ir.Binary{Op: ir.And, X: ir.Binary{Op: ir.CmpGtS, X: bits(scale), Y: ir.I32(0)}, Y: ir.Binary{Op: ir.CmpGtS, X: ir.I32(infinityBits), Y: bits(scale)}}
	return ir.Cast{T: format.I8, X: ir.Binary{Op: ir.And, X: bits(add(div(x, scale), num(rounder))), Y: used}}
}

// Element is a number in its place in a cache.
func Element() Operator {
	g := &builder{}
	x := g.input("x", format.F32, "i")
	g.stage("out", format.F32, []ir.Dim{g.axis("out", "i", 1)}, read(x, ir.I32(0)))
	return Operator{Name: "element", About: "a number in its place in a cache", Graph: g.graph(), Outputs: []string{"out"}, Paged: "out"}
}

// Rescale is R rows of Block scores or exponentials, each times the scale of its position.
func Rescale() Operator {
	g := &builder{}
	x, by := g.input("x", format.F32, "r", "p"), g.input("by", format.F32, "p")
	r, p := g.run("out", "r", "R"), g.axis("out", "p", Block)
	g.stage("out", format.F32, []ir.Dim{r, p}, canon(mul(read(x, axis(r), axis(p)), read(by, axis(p)))))
	return Operator{Name: "rescale", About: "scores or exponentials times the scales of positions", Graph: g.graph(), Outputs: []string{"out"}}
}

// stored is x as an element of type e.
func stored(x ir.Expr, e format.DType) ir.Expr {
	if e == format.F16 {
		return ir.Unary{Op: ir.CvtF16, X: canon(x)}
	}
	return x
}

// Matmul is the product of `rows` rows of K elements, and of a panel of K rows of elements of type e: for each lane
// one sum, in ascending order of K.
func Matmul(e format.DType, rows int) Operator {
	g := &builder{}
	a, b := g.input("a", format.F32, "r", "k"), g.input("b", e, "k", "j")
	r, j := g.axis("acc", "r", rows), g.axis("acc", "j", Panel)
	k := g.run("acc", "k", "K")
	acc := g.reduce("acc", format.F32, []ir.Dim{r, j}, k, mul(read(a, axis(r), axis(k)), loaded(read(b, axis(k), axis(j)), e)))
	r, j = g.axis("out", "r", rows), g.axis("out", "j", Panel)
	g.stage("out", format.F32, []ir.Dim{r, j}, canon(read(acc, axis(r), axis(j))))
	return Operator{Name: fmt.Sprintf("matmul_%s_%d", elemName(e), rows), About: fmt.Sprintf("%d rows times a panel of %s", rows, elemName(e)),
		Graph: g.graph(), Outputs: []string{"out"}, Rows: []string{"a", "out"}, Stored: []string{"b"}, Sizes: []map[string]int{{"K": 100}, {"K": 4096}}}
}

// loaded is the f32 of an element of type e.
func loaded(x ir.Expr, e format.DType) ir.Expr {
	switch e {
	case format.F16:
		return ir.Unary{Op: ir.CvtHalf, X: x}
	case format.I8:
		return ir.Unary{Op: ir.CvtF32, X: ir.Cast{T: format.I32, X: x}}
	case format.U16:
		return ir.Unary{Op: ir.Bits, X: ir.Binary{Op: ir.Shl, X: ir.Cast{T: format.I32, X: x}, Y: ir.I32(16)}}
	}
	return x
}

// pointwise is an operator of K elements, each made of one element of every input.
func pointwise(name, about string, inputs []string, of func([]ir.Expr) ir.Expr) Operator {
	g := &builder{}
	k := g.run("out", "k", "K")
	var in []ir.Expr
	for _, i := range inputs {
		in = append(in, read(g.input(i, format.F32, "k"), axis(k)))
	}
	body := of(in)
	if body.Type() == format.F32 {
		body = canon(body)
	}
	g.stage("out", body.Type(), []ir.Dim{k}, body)
	return Operator{Name: name, About: about, Graph: g.graph(), Outputs: []string{"out"}}
}
