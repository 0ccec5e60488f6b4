package operators

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Binding strengths of operators in Go, for parentheses.
const (
	additive       = 4
	multiplicative = 5
	unary          = 6
)

// expr is the Go of e in the loop inner, in parentheses if its operator binds less than `binding`.
func (l *loops) expr(e ir.Expr, inner string, binding int) jen.Code {
	if name := l.hoisted(e, inner); name != "" {
		return jen.Id(name)
	}
	switch e := e.(type) {
	case ir.Const:
		return constant(e)
	case ir.Axis:
		return jen.Int32().Call(jen.Id(variable(e.Name)))
	case ir.Read:
		return l.read(e, inner)
	case ir.Cast:
		return jen.Id(elemType(e.T)).Call(l.expr(e.X, inner, 0))
	case ir.Unary:
		return l.unary(e, inner)
	case ir.Binary:
		return l.binary(e, inner, binding)
	}
	panic("BUG: operators: no Go of " + e.String())
}

// hoisted is the name of a value that is computed before the loop inner, "" if e is not to be.
func (l *loops) hoisted(e ir.Expr, inner string) string {
	if inner == "" || l.varies(e, inner) {
		return ""
	}
	base := "fixed"
	switch e := e.(type) {
	case ir.Const, ir.Axis:
		return ""
	case ir.Read:
		if t := l.tensors[e.T.Name]; t == nil || t.memory == scalar || t.memory == local {
			return ""
		}
		base = e.T.Name + "Value"
	}
	key := e.String()
	if l.names[key] == "" {
		value := l.expr(e, "", 0)
		l.names[key] = l.unused(base)
		l.before = append(l.before, jen.Id(l.names[key]).Op(":=").Add(value))
	}
	return l.names[key]
}

// read is the Go of an element.
func (l *loops) read(e ir.Read, inner string) jen.Code {
	t := l.tensors[e.T.Name]
	if t == nil {
		return jen.Id(e.T.Name) // a shared value
	}
	if t.memory != raw {
		return l.place(t, e.Index, inner, 0)
	}
	if t.elem == format.I8 {
		return jen.Int8().Call(l.place(t, e.Index, inner, 0))
	}
	bits := jen.Qual("encoding/binary", "LittleEndian").Dot(fmt.Sprintf("Uint%d", 8*t.elem.Bytes())).Call(l.place(t, e.Index, inner, t.elem.Bytes()))
	if t.elem == format.F32 {
		return jen.Qual("math", "Float32frombits").Call(bits)
	}
	return bits
}

// unary is the Go of an operation on one operand.
func (l *loops) unary(e ir.Unary, inner string) jen.Code {
	x := l.expr(e.X, inner, 0)
	switch e.Op {
	case ir.Bits:
		if e.Type() == format.F32 {
			return jen.Qual("math", "Float32frombits").Call(jen.Uint32().Call(x))
		}
		return jen.Int32().Call(jen.Qual("math", "Float32bits").Call(x))
	case ir.CvtF32:
		return jen.Float32().Call(x)
	case ir.CvtHalf:
		return jen.Qual(formatPath, "HalfToFloat32").Call(x)
	case ir.CvtF16:
		return jen.Qual(formatPath, "HalfFromFloat32").Call(x)
	case ir.CanonNaN:
		return jen.Id("canonNaN").Call(x)
	}
	panic("BUG: operators: no Go of " + e.String())
}

// goOps are operators of Go with their binding strengths.
var goOps = map[ir.Op]struct {
	text    string
	binding int
}{
	ir.Add: {"+", additive}, ir.Sub: {"-", additive}, ir.Or: {"|", additive},
	ir.Mul: {"*", multiplicative}, ir.Div: {"/", multiplicative}, ir.And: {"&", multiplicative}, ir.Shl: {"<<", multiplicative}, ir.ShrS: {">>", multiplicative},
}

// binary is the Go of an operation on two operands. A product of floats is converted to the type that it has already: no
// compiler may then round it together with a sum.
func (l *loops) binary(e ir.Binary, inner string, binding int) jen.Code {
	switch e.Op {
	case ir.Max, ir.Min, ir.CmpGtS:
		name := map[ir.Op]string{ir.Max: "fmax", ir.Min: "fmin", ir.CmpGtS: "greater"}[e.Op]
		return jen.Id(name).Call(l.expr(e.X, inner, 0), l.expr(e.Y, inner, 0))
	}
	op, ok := goOps[e.Op]
	if !ok {
		panic("BUG: operators: no Go of " + e.String())
	}
	if _, x := e.X.(ir.Const); x {
		if _, y := e.Y.(ir.Const); y {
			panic("BUG: operators: Go would not round " + e.String())
		}
	}
	rounded := e.Op == ir.Mul && e.Type() == format.F32
	code := jen.Add(l.expr(e.X, inner, op.binding)).Op(op.text).Add(l.expr(e.Y, inner, op.binding+1))
	switch {
	case rounded:
		return jen.Float32().Call(code)
	case op.binding < binding:
		return jen.Parens(code)
	}
	return code
}

// constant is a number; what Go has no literal for is written by its bits.
func constant(e ir.Const) jen.Code {
	if e.T != format.F32 {
		return jen.Lit(int(e.V))
	}
	v := math.Float32frombits(uint32(e.V))
	if v != v || math.IsInf(float64(v), 0) || v == 0 && e.V != 0 {
		return jen.Qual("math", "Float32frombits").Call(jen.Id(fmt.Sprintf("0x%08x", uint32(e.V))))
	}
	return jen.Id(strconv.FormatFloat(float64(v), 'g', -1, 32))
}
