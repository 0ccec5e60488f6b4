package operators

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
)

const formatPath = gomod.Path + "/ir/format"

// pure writes an operator in Go: the loops of its definition, in order.
type pure struct {
	op      operator.Operator
	tensors map[string]*tensor
	outer   string            // the axis of rows, which all stages have first: they share its loop
	rename  map[string]string // axes of rows of later stages
	lets    int               // how many values have names
}

func newPure(o operator.Operator) *pure {
	return &pure{op: o, tensors: tensorsOf(o), rename: map[string]string{}}
}

// pureFunction is the function of o in plain Go.
func pureFunction(o operator.Operator) *jen.Statement {
	p := newPure(o)
	var body []jen.Code
	for _, t := range p.parameters() {
		if t.memory == slice && len(t.extents) == 1 && t.extents[0].N == 0 {
			body = append(body, jen.Id(t.name).Op("=").Id(t.name).Index(jen.Empty(), extent(t.extents[0])))
		}
	}
	stages := slices.Clone(o.Graph.Stages)
	if rows := p.shareRows(stages); rows.Run != "" {
		var inner []jen.Code
		for _, s := range stages {
			inner = append(inner, p.stage(s)...)
		}
		body = append(body, loop(rows, inner))
	} else {
		for _, s := range stages {
			body = append(body, p.stage(s)...)
		}
	}
	return jen.Func().Id(pureName(o)).Params(p.signature()...).Block(body...)
}

// pureName is the name of the function of o in plain Go.
func pureName(o operator.Operator) string { return o.Name + "_go" }

// parameters are the tensors that callers of an operator pass: inputs, then outputs.
func (p *pure) parameters() (out []*tensor) {
	for _, t := range p.op.Graph.Inputs {
		out = append(out, p.tensors[t.Name])
	}
	for _, name := range p.op.Outputs {
		out = append(out, p.tensors[name])
	}
	return out
}

// signature is the parameters of the operator: tensors, the distances of rows, sizes. Neighbours of one type share it.
func (p *pure) signature() []jen.Code {
	var out []jen.Code
	for _, run := range grouped(p.parameters()) {
		var names []jen.Code
		for _, t := range run {
			names = append(names, jen.Id(t.name))
		}
		out = append(out, jen.List(names...).Add(run[0].goType()))
	}
	var ints []jen.Code
	for _, name := range append(p.strides(), p.sizes()...) {
		ints = append(ints, jen.Id(name))
	}
	return append(out, jen.List(ints...).Int())
}

// strides are the distances of rows that callers pass, in elements.
func (p *pure) strides() (out []string) {
	for _, t := range p.parameters() {
		if t.rows {
			out = append(out, t.rowStride())
		}
	}
	return out
}

// sizes are the run-time sizes of the operator.
func (p *pure) sizes() (out []string) {
	for _, s := range p.op.Graph.Stages {
		for _, d := range slices.Concat(s.Axes, s.Reduce) {
			if d.Run != "" && !slices.Contains(out, d.Run) {
				out = append(out, d.Run)
			}
		}
	}
	return out
}

// grouped cuts tensors where the Go type changes.
func grouped(ts []*tensor) (out [][]*tensor) {
	for i, t := range ts {
		if i > 0 && t.typeName() == ts[i-1].typeName() {
			out[len(out)-1] = append(out[len(out)-1], t)
		} else {
			out = append(out, []*tensor{t})
		}
	}
	return out
}

// typeName is the Go type of a parameter.
func (t *tensor) typeName() string {
	switch t.memory {
	case raw:
		return "[]byte"
	case scalar:
		return elemType(t.elem)
	}
	return "[]" + elemType(t.elem)
}

func (t *tensor) goType() *jen.Statement { return jen.Id(t.typeName()) }

// elemType is the Go type that holds an element.
func elemType(e format.DType) string {
	switch e {
	case format.F32:
		return "float32"
	case format.I32:
		return "int32"
	case format.F16, format.U16:
		return "uint16"
	}
	panic("BUG: operators: no Go type of " + e.String())
}

// shareRows finds the axis of rows: the first of each stage, over the same run-time size. Stages get one name for it, and
// scratch one row.
func (p *pure) shareRows(stages []ir.Stage) ir.Dim {
	first := stages[0].Axes[0]
	if len(stages) == 1 || first.Run == "" || first.Div != 1 {
		return ir.Dim{}
	}
	for _, s := range stages {
		if d := s.Axes[0]; d.Run != first.Run || d.Div != 1 {
			return ir.Dim{}
		}
	}
	p.outer = first.Name
	for i := range stages {
		p.rename[stages[i].Axes[0].Name] = first.Name
		stages[i].Axes = stages[i].Axes[1:]
	}
	for _, t := range p.tensors {
		if t.memory == local {
			t.extents = t.extents[1:]
		}
	}
	return first
}

// stage is the loops of one stage.
func (p *pure) stage(s ir.Stage) []jen.Code {
	out := p.tensors[s.Out.Name]
	body := ir.Map(s.Body, func(e ir.Expr) ir.Expr { return p.simple(s, e) })
	l := &loops{pure: p, out: out, dims: dimsOf(s), body: body, index: p.storeIndex(s)}
	l.dims[p.outer] = ir.Dim{Name: p.outer, Run: "rows", Div: 1}
	var code []jen.Code
	if out.memory == local && (len(realAxes(s.Axes)) > 0 || len(s.Reduce) > 0) {
		code = append(code, jen.Var().Id(out.name).Add(out.arrayType()))
	}
	axes := realAxes(slices.Concat(s.Reduce, s.Axes))
	l.add = len(s.Reduce) > 0
	if l.add && (s.Combine != ir.Add || s.Init != nil || out.memory != local) {
		panic("BUG: operators: not a sum in variables: " + s.String())
	}
	return append(code, l.nest(axes)...)
}

// simple is e without axes of one iteration, with the one axis of rows.
func (p *pure) simple(s ir.Stage, e ir.Expr) ir.Expr {
	switch x := e.(type) {
	case ir.Axis:
		if d, ok := dimsOf(s)[x.Name]; ok && d.N == 1 {
			return ir.I32(0)
		}
		return ir.Axis{Name: cmp.Or(p.rename[x.Name], x.Name)}
	case ir.Read:
		if t := p.tensors[x.T.Name]; t.memory == local && p.outer != "" {
			return ir.Read{T: x.T, Index: x.Index[1:]}
		}
	case ir.Unary:
		if c, ok := x.X.(ir.Const); ok && x.Op == ir.Bits && c.T == format.F32 {
			return ir.I32(int(int32(c.V)))
		}
	}
	return e
}

// storeIndex is where stage s stores an element.
func (p *pure) storeIndex(s ir.Stage) (out []ir.Expr) {
	if p.outer != "" && p.tensors[s.Out.Name].memory != local {
		out = append(out, ir.Axis{Name: p.outer})
	}
	for _, d := range s.Axes {
		out = append(out, p.simple(s, ir.Axis{Name: d.Name}))
	}
	return out
}

// realAxes are the axes of more than one iteration.
func realAxes(ds []ir.Dim) []ir.Dim {
	return slices.DeleteFunc(slices.Clone(ds), func(d ir.Dim) bool { return d.N == 1 })
}

// arrayType is the type of scratch: an array of arrays, or a number.
func (t *tensor) arrayType() *jen.Statement {
	out := jen.Empty()
	for _, d := range t.extents {
		if d.N == 0 {
			panic("BUG: operators: scratch of a run-time size: " + t.name)
		}
		if d.N > 1 {
			out.Index(jen.Lit(d.N))
		}
	}
	return out.Id(elemType(t.elem))
}

// loop is for axis := range extent.
func loop(d ir.Dim, body []jen.Code) *jen.Statement {
	return jen.For(jen.Id(variable(d.Name)).Op(":=").Range().Add(extent(d))).Block(body...)
}

// extent is the number of iterations of d.
func extent(d ir.Dim) jen.Code {
	switch {
	case d.N > 0:
		return jen.Lit(d.N)
	case d.Div > 1:
		return jen.Parens(jen.Id(d.Run).Op("+").Lit(d.Div - 1)).Op("/").Lit(d.Div)
	}
	return jen.Id(d.Run)
}

// variable is the name of an axis in Go: "k" of "out.k".
func variable(axis string) string { return axis[strings.LastIndex(axis, ".")+1:] }

// loops is one stage in the making.
type loops struct {
	*pure
	out   *tensor
	dims  map[string]ir.Dim
	index []ir.Expr // where it stores
	body  ir.Expr
	add   bool // it adds to an element, instead of setting it

	values map[string]ir.Expr // by name: parts of the body
	order  []string           // their names
	before []jen.Code         // statements before the innermost loop
	names  map[string]string  // of variables that they set, by the text of their values
}

// nest is the loops over axes. Parts of the body that do not change in the innermost loop stand before it.
func (l *loops) nest(axes []ir.Dim) []jen.Code {
	l.values, l.names = map[string]ir.Expr{}, map[string]string{}
	body := l.split()
	inner := ""
	if len(axes) > 0 {
		inner = axes[len(axes)-1].Name
	}
	var code []jen.Code
	for _, name := range l.order {
		if value := l.values[name]; inner != "" && !l.varies(value, inner) {
			l.before = append(l.before, jen.Id(name).Op(":=").Add(l.expr(value, "", 0)))
		} else {
			code = append(code, jen.Id(name).Op(":=").Add(l.expr(value, inner, 0)))
		}
	}
	code = append(code, l.store(l.expr(body, inner, 0), inner))
	if inner == "" {
		return code
	}
	code = append(l.before, loop(axes[len(axes)-1], code))
	for i := len(axes) - 2; i >= 0; i-- {
		code = []jen.Code{loop(axes[i], code)}
	}
	return code
}

// split cuts the body into values of a few operations each, and returns the rest. A part that is used more than once is a
// value.
func (l *loops) split() ir.Expr {
	shared, body := ir.Share(l.body, 1)
	rename := map[string]ir.Expr{}
	short := func(e ir.Expr) ir.Expr {
		return ir.Map(e, func(e ir.Expr) ir.Expr {
			switch x := e.(type) {
			case ir.Read:
				if v := rename[x.T.Name]; v != nil {
					return v
				}
			case ir.Binary:
				if ir.Operations(e) > longest {
					return ir.Binary{Op: x.Op, X: l.cut(x.X), Y: l.cut(x.Y)}
				}
			}
			return e
		})
	}
	for _, v := range shared {
		rename[v.Name] = l.value(short(v.Value))
	}
	return short(body)
}

// longest is the number of operations of one line.
const longest = 5

// cut is e, as a value of its own if that is not short.
func (l *loops) cut(e ir.Expr) ir.Expr {
	if ir.Operations(e) < longest-1 {
		return e
	}
	return l.value(e)
}

// value is e as a value with a name.
func (l *loops) value(e ir.Expr) ir.Expr {
	name := fmt.Sprintf("v%d", l.lets)
	l.lets++
	l.values[name] = e
	l.order = append(l.order, name)
	return ir.Read{T: &ir.Tensor{Name: name, Elem: e.Type()}}
}

// varies says that e depends on an axis.
func (l *loops) varies(e ir.Expr, axis string) bool {
	found := false
	ir.Walk(e, func(x ir.Expr) {
		switch x := x.(type) {
		case ir.Axis:
			found = found || x.Name == axis
		case ir.Read:
			if v := l.values[x.T.Name]; v != nil {
				found = found || l.varies(v, axis)
			}
		}
	})
	return found
}

// store is the statement that stores or adds value.
func (l *loops) store(value jen.Code, inner string) jen.Code {
	t := l.out
	switch {
	case t.memory == local && len(realAxes(t.extents)) == 0 && !l.add:
		return jen.Id(t.name).Op(":=").Add(value)
	case t.memory == raw:
		at := l.place(t, l.index, inner, t.elem.Bytes())
		if t.elem == format.F32 {
			value = jen.Qual("math", "Float32bits").Call(value)
		}
		return jen.Qual("encoding/binary", "LittleEndian").Dot(fmt.Sprintf("PutUint%d", 8*t.elem.Bytes())).Call(at, value)
	case l.add:
		return l.place(t, l.index, inner, 0).Op("+=").Add(value)
	}
	return l.place(t, l.index, inner, 0).Op("=").Add(value)
}

// place is an element of t, or of a tensor of bytes the slice that begins with it.
func (l *loops) place(t *tensor, index []ir.Expr, inner string, size int) *jen.Statement {
	if t.memory == scalar {
		return jen.Id(t.name)
	}
	if t.memory == local {
		return l.element(t, index, inner)
	}
	name, terms := t.name, t.terms(index)
	if row, ok := l.row(t, index, inner); ok {
		name, terms = row, []term{{coef: 1, axis: inner}}
	}
	if size > 0 {
		for i := range terms {
			terms[i].coef *= size
		}
		return jen.Id(name).Index(l.sum(terms), jen.Empty())
	}
	return jen.Id(name).Index(l.sum(terms))
}

// element is an element of scratch. Of arrays of arrays, the one that the innermost loop goes through is found before it.
func (l *loops) element(t *tensor, index []ir.Expr, inner string) *jen.Statement {
	var at []jen.Code
	for i, e := range index {
		if t.extents[i].N != 1 {
			at = append(at, l.sum(affineTerms(affineOf(e), 1, "")))
		}
	}
	out := jen.Id(t.name)
	if last := len(index) - 1; len(at) == 2 && inner != "" && !slices.ContainsFunc(index[:last], func(e ir.Expr) bool { return l.varies(e, inner) }) {
		key := fmt.Sprint("row of ", t.name, index[:last])
		if l.names[key] == "" {
			l.names[key] = l.unused(t.name + "Row")
			l.before = append(l.before, jen.Id(l.names[key]).Op(":=").Op("&").Id(t.name).Index(at[0]))
		}
		out, at = jen.Id(l.names[key]), at[1:]
	}
	for _, i := range at {
		out.Index(i)
	}
	return out
}

// row is the name of the row of t in which the innermost loop moves by one element, and which is set before it.
func (l *loops) row(t *tensor, index []ir.Expr, inner string) (string, bool) {
	last := len(index) - 1
	along := affineOf(index[last])
	for _, e := range index[:last] {
		if l.varies(e, inner) {
			return "", false
		}
	}
	if inner == "" || along.coef[inner] != 1 || t.stride != 1 {
		return "", false
	}
	dim := l.dims[inner]
	base := append(slices.Clone(index[:last]), ir.Binary{Op: ir.Add, X: index[last], Y: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: inner}, Y: ir.I32(-1)}})
	terms := t.terms(base)
	whole := along.within(t.extents[last], l.dims)
	if whole && len(terms) == 0 && t.memory == slice && len(index) == 1 {
		return t.name, true // cut to its length when the function begins
	}
	key := fmt.Sprint("row of ", t.name, base)
	if l.names[key] == "" {
		l.names[key] = l.unused(t.name + "Row")
		l.before = append(l.before, l.setRow(t, l.names[key], terms, dim, whole)...)
	}
	return l.names[key], true
}

// setRow declares a row: elements from terms on, for the loop dim. If they may end before, the row is a copy, with zeros
// behind the end.
func (l *loops) setRow(t *tensor, name string, terms []term, dim ir.Dim, whole bool) []jen.Code {
	size := 1
	if t.memory == raw {
		size = t.elem.Bytes()
		for i := range terms {
			terms[i].coef *= size
		}
	}
	from := jen.Id(t.name)
	if len(terms) > 0 {
		from.Index(l.sum(terms), jen.Empty())
	}
	elem := strings.TrimPrefix(t.typeName(), "[]")
	switch {
	case !whole && dim.N > 0 && t.memory == slice:
		return []jen.Code{
			jen.Var().Id(name).Index(jen.Lit(dim.N)).Id(elem),
			jen.Copy(jen.Id(name).Index(jen.Op(":")), from),
		}
	case !whole:
		panic("BUG: operators: read beyond the end of " + t.name)
	case dim.N > 0:
		return []jen.Code{jen.Id(name).Op(":=").Parens(jen.Op("*").Index(jen.Lit(dim.N * size)).Id(elem)).Parens(from)}
	case size > 1:
		return []jen.Code{jen.Id(name).Op(":=").Add(from).Index(jen.Empty(), jen.Lit(size).Op("*").Add(extent(dim)))}
	}
	return []jen.Code{jen.Id(name).Op(":=").Add(from).Index(jen.Empty(), extent(dim))}
}

// unused is a name that nothing before the loop has.
func (l *loops) unused(name string) string {
	taken := slices.Collect(maps.Values(l.names))
	for i := 2; slices.Contains(taken, name); i++ {
		name = fmt.Sprint(strings.TrimRight(name, "23456789"), i)
	}
	return name
}

// term is a part of the number of an element: coef * axis * stride, without an axis or a stride if it has none.
type term struct {
	coef         int
	axis, stride string
}

// terms are the number of an element of t.
func (t *tensor) terms(index []ir.Expr) []term {
	stride, by := t.stride, ""
	var out []term
	for i := len(index) - 1; i >= 0; i-- {
		out = append(affineTerms(affineOf(index[i]), stride, by), out...)
		switch d := t.extents[i]; {
		case t.rows:
			stride, by = 1, t.rowStride()
		case d.N == 0 && i > 0:
			panic("BUG: operators: rows of a run-time length: " + t.name)
		default:
			stride *= d.N
		}
	}
	return out
}

// affineTerms are the terms of an index whose elements are stride * by apart.
func affineTerms(a affine, stride int, by string) (out []term) {
	for _, axis := range slices.Sorted(maps.Keys(a.coef)) {
		out = append(out, term{a.coef[axis] * stride, axis, by})
	}
	if a.at != 0 {
		out = append(out, term{a.at * stride, "", by})
	}
	return out
}

// sum is the Go of terms.
func (l *loops) sum(terms []term) *jen.Statement {
	out := jen.Empty()
	for i, t := range terms {
		if i > 0 {
			out.Op("+")
		}
		var factors []jen.Code
		if t.coef != 1 || t.axis+t.stride == "" {
			factors = append(factors, jen.Lit(t.coef))
		}
		for _, name := range []string{variable(t.axis), t.stride} {
			if name != "" {
				factors = append(factors, jen.Id(name))
			}
		}
		for j, f := range factors {
			if j > 0 {
				out.Op("*")
			}
			out.Add(f)
		}
	}
	if len(terms) == 0 {
		return jen.Lit(0)
	}
	return out
}
