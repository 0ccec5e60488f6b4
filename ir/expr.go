// Package ir is the tensor-expression IR: it says which values are computed, and nothing about
// how. A Graph is a list of stages over named axes; Eval is its meaning.
//
// Integers are evaluated in 64 bits and wrapped to their type at every node;
// f32 values are carried as their IEEE bits and every operation rounds once.
package ir

import (
	"fmt"
	"math"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// The compiler counts in int: bounds of sums and numbers of bits would overflow 32 bits. It compiles for 64-bit machines
// only; what generated packages import, runtime and ir/format, for all.
const _ = uint(math.MaxInt - math.MaxInt64)

// Expr is a scalar expression: Const, Axis, Read, Unary, Binary, Cast, Lookup, Join or Choose.
type Expr interface {
	Type() format.DType
	String() string
	isExpr()
}

// Tensor is a named array. Its index has len(Dims) components; Block > 0 says that
// Block consecutive values of the last one share an element (a scale of a group),
// Block < 0 that all of them do.
type Tensor struct {
	Name  string
	Elem  format.DType
	Dims  []string // names, for printing
	Block int
	// Most bounds i8 and i32: if not 0, no element has a larger magnitude.
	Most int
}

// Const is a constant; for f32, V holds the IEEE bits.
type Const struct {
	T format.DType
	V int64
}

// Axis is the value of a loop axis, an i32.
type Axis struct{ Name string }

// Read is one element of a tensor.
type Read struct {
	T     *Tensor
	Index []Expr
}

// Op is an arithmetic operation.
type Op uint8

// Operations. Int operations wrap; f32 operations round to nearest even.
const (
	Add      Op = iota // int, f32
	Sub                // int, f32
	Mul                // int, f32
	Div                // f32
	And                // int
	Or                 // int
	Shl                // int, by the second operand
	ShrS               // int, arithmetic
	MaxS               // int, signed
	CmpGtS             // int, signed: -1 or 0
	Avg                // int: (x + y + 1) >> 1
	NegIf              // int: the negative of the first operand if the second is not 0
	AddSat             // u8: 255 if the sum is larger
	SubSat             // u8: 0 if the difference is negative
	Bits               // unary: the bits of an f32 as i32, or of an i32 as f32
	CvtF32             // unary: i32 to f32, nearest even
	CvtI32             // unary: f32 to i32, nearest even
	CvtHalf            // unary: f16 to f32
	CanonNaN           // unary, f32: every NaN becomes 0x7FC00000
	Max                // f32: x if x > y, else y
	Min                // f32: x if x < y, else y
	CvtF16             // unary: f32 to f16, nearest even
)

var opNames = [...]string{"+", "-", "*", "/", "&", "|", "<<", ">>", "max", ">", "avg", "negif", "+|", "-|", "bits", "f32", "i32rne", "f16to32", "canonnan", "fmax", "fmin", "f16rne"}

func (o Op) String() string { return opNames[o] }

// Unary is Op applied to X.
type Unary struct {
	Op Op
	X  Expr
}

// Binary is X Op Y; both have one type, which is the result's.
type Binary struct {
	Op   Op
	X, Y Expr
}

// Cast converts an integer to T: the value if it fits, else its low bits.
type Cast struct {
	T format.DType
	X Expr
}

// Lookup is Table[X] as a T, of an f32 the nearest value. X must be within the table.
type Lookup struct {
	Table []int
	T     format.DType
	X     Expr
}

// Join is a number made of digits of N elements of a tensor of codes that follow
// each other along its last index, the first one lowest: sum over i of digit i times
// Radix^i. A digit is the whole code, or, if Plane is not nil, that bit of it. With Of
// it is only part of the number.
type Join struct {
	T     *Tensor
	Index []Expr
	N     int
	Radix int
	Plane Expr
	Of    JoinOf
}

// JoinOf says what of a number a Join is. The mirror image of a number has Radix-1-d
// for every digit d.
type JoinOf uint8

// The results of Join.
const (
	Whole JoinOf = iota // the number
	Lower               // the lower one of the number and its mirror image
	Upper               // 1 if the number is above its mirror image, else 0
)

var joinNames = [...]string{"join", "lower", "upper"}

// Entries is how many values a Join can have.
func (e Join) Entries() int {
	n := 1
	for range e.N {
		n *= e.Radix
	}
	return n
}

// Choose is Of[By]; all of Of have one type.
type Choose struct {
	By Expr
	Of []Expr
}

func (Const) isExpr()  {}
func (Axis) isExpr()   {}
func (Read) isExpr()   {}
func (Unary) isExpr()  {}
func (Binary) isExpr() {}
func (Cast) isExpr()   {}
func (Lookup) isExpr() {}
func (Join) isExpr()   {}
func (Choose) isExpr() {}

func (e Const) Type() format.DType  { return e.T }
func (e Axis) Type() format.DType   { return format.I32 }
func (e Read) Type() format.DType   { return e.T.Elem }
func (e Binary) Type() format.DType { return e.X.Type() }
func (e Cast) Type() format.DType   { return e.T }
func (e Lookup) Type() format.DType { return e.T }

// Type is the smallest that holds every value.
func (e Join) Type() format.DType {
	if e.Entries() > 256 {
		return format.U16
	}
	return format.U8
}

// Type is that of the branches.
func (e Choose) Type() format.DType { return e.Of[0].Type() }

func (e Unary) Type() format.DType {
	switch e.Op {
	case CvtF32, CvtHalf, CanonNaN:
		return format.F32
	case CvtI32:
		return format.I32
	case CvtF16:
		return format.F16
	case Bits:
		if e.X.Type() == format.F32 {
			return format.I32
		}
		return format.F32
	}
	panic("BUG: ir: " + e.Op.String() + " is not unary")
}

func (e Const) String() string {
	if e.T == format.F32 {
		return fmt.Sprintf("f32:0x%08x", uint32(e.V))
	}
	return fmt.Sprint(e.V)
}
func (e Axis) String() string { return e.Name }
func (e Read) String() string {
	s := make([]string, len(e.Index))
	for i, x := range e.Index {
		s[i] = x.String()
	}
	return e.T.Name + "[" + strings.Join(s, ", ") + "]"
}
func (e Unary) String() string { return e.Op.String() + "(" + e.X.String() + ")" }
func (e Binary) String() string {
	switch e.Op {
	case Max, Min:
		return e.Op.String() + "(" + e.X.String() + ", " + e.Y.String() + ")"
	case MaxS:
		return "max(" + e.X.String() + ", " + e.Y.String() + ")"
	}
	return "(" + e.X.String() + " " + e.Op.String() + " " + e.Y.String() + ")"
}
func (e Cast) String() string { return e.T.String() + "(" + e.X.String() + ")" }
func (e Lookup) String() string {
	return fmt.Sprintf("%s%v[%s]", e.T, e.Table, e.X)
}

func (e Join) String() string {
	what := Read{e.T, e.Index}.String()
	if e.Plane != nil {
		what += " bit " + e.Plane.String()
	}
	return fmt.Sprintf("%s%d^%d(%s)", joinNames[e.Of], e.Radix, e.N, what)
}
func (e Choose) String() string {
	s := make([]string, len(e.Of))
	for i, x := range e.Of {
		s[i] = x.String()
	}
	return "choose " + e.By.String() + " (" + strings.Join(s, ", ") + ")"
}

// I32 is an i32 constant.
func I32(v int) Expr { return Const{format.I32, int64(v)} }

// Walk calls f for e and every expression under it.
func Walk(e Expr, f func(Expr)) {
	f(e)
	switch e := e.(type) {
	case Read:
		for _, x := range e.Index {
			Walk(x, f)
		}
	case Unary:
		Walk(e.X, f)
	case Binary:
		Walk(e.X, f)
		Walk(e.Y, f)
	case Cast:
		Walk(e.X, f)
	case Lookup:
		Walk(e.X, f)
	case Join:
		for _, x := range e.Index {
			Walk(x, f)
		}
		if e.Plane != nil {
			Walk(e.Plane, f)
		}
	case Choose:
		Walk(e.By, f)
		for _, x := range e.Of {
			Walk(x, f)
		}
	}
}

// Map rebuilds e bottom up, replacing every node x by f(x).
func Map(e Expr, f func(Expr) Expr) Expr {
	switch x := e.(type) {
	case Read:
		e = Read{x.T, mapAll(x.Index, f)}
	case Unary:
		e = Unary{x.Op, Map(x.X, f)}
	case Binary:
		e = Binary{x.Op, Map(x.X, f), Map(x.Y, f)}
	case Cast:
		e = Cast{x.T, Map(x.X, f)}
	case Lookup:
		e = Lookup{x.Table, x.T, Map(x.X, f)}
	case Join:
		j := Join{x.T, mapAll(x.Index, f), x.N, x.Radix, nil, x.Of}
		if x.Plane != nil {
			j.Plane = Map(x.Plane, f)
		}
		e = j
	case Choose:
		e = Choose{Map(x.By, f), mapAll(x.Of, f)}
	}
	return f(e)
}

// mapAll is Map of every expression; it stays nil for a value read by its name.
func mapAll(es []Expr, f func(Expr) Expr) []Expr {
	if len(es) == 0 {
		return nil
	}
	out := make([]Expr, len(es))
	for i, e := range es {
		out[i] = Map(e, f)
	}
	return out
}
