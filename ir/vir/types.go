package vir

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

const (
	u8, i8   = format.U8, format.I8
	u16, i16 = format.U16, format.I16
	u32, i32 = format.U32, format.I32
	f16, f32 = format.F16, format.F32
)

var (
	elems    = []format.DType{u8, i8, u16, i16, u32, i32, f16, f32}
	ints     = []format.DType{u8, i8, u16, i16, u32, i32}
	signed   = []format.DType{i8, i16, i32}
	mulTypes = []format.DType{u16, i16, u32, i32, f32}
	addTypes = []format.DType{u8, i8, u16, i16, u32, i32, f32}
)

// rule is the type rule of an operation: ok holds for a result and arguments of
// legal types, sig says so to people: "i32xN <- i32xN, i8x4N".
type rule struct {
	sig string
	ok  func(dst Type, arg []Type) bool
}

func isInt(d format.DType) bool { return slices.Contains(ints, d) }

// anyType accepts n arguments of one type and a result of it, if there is one.
func anyType(n int) rule { return same(n, nil) }

// oneWord is the rule of a result that is a word.
var oneWord = rule{"i32x1 <-", func(dst Type, _ []Type) bool { return dst == Type{Elem: i32, Lanes: 1} }}

// same is the rule of n arguments and a result of one type with elements in set;
// a nil set is every type.
func same(n int, set []format.DType) rule {
	sig := "TxN <- " + strings.Repeat("TxN, ", n)
	sig = strings.TrimRight(sig, ", ") + "; T "
	return rule{sig + elemNames(set), func(dst Type, arg []Type) bool {
		for _, a := range arg {
			if a != dst {
				return false
			}
		}
		return set == nil || slices.Contains(set, dst.Elem)
	}}
}

func elemNames(set []format.DType) string {
	if set == nil {
		return "any"
	}
	var names []string
	for _, d := range set {
		names = append(names, d.String())
	}
	return strings.Join(names, " ")
}

var stored = rule{"<- TxN; T any", func(Type, []Type) bool { return true }}

var noTypes = rule{"<-", func(Type, []Type) bool { return true }}

var sameBits = rule{"TxN <- UxM; equal total size", func(dst Type, a []Type) bool { return dst.Bits() == a[0].Bits() }}

var halfLanes = rule{"TxN <- Tx2N; T any", func(dst Type, a []Type) bool {
	return dst.Elem == a[0].Elem && 2*dst.Lanes == a[0].Lanes
}}

var twiceLanes = rule{"Tx2N <- TxN, TxN; T any", func(dst Type, a []Type) bool {
	return a[0] == a[1] && dst.Elem == a[0].Elem && dst.Lanes == 2*a[0].Lanes
}}

var fromLane = rule{"TxN <- Tx1; T any", func(dst Type, a []Type) bool {
	return dst.Elem == a[0].Elem && a[0].Lanes == 1
}}

var tiled = rule{"TxN <- TxM; T any; M <= N", func(dst Type, a []Type) bool {
	return dst.Elem == a[0].Elem && a[0].Lanes <= dst.Lanes
}}

var toLanes = rule{"i32xN <- i32xM; N <= M", func(dst Type, a []Type) bool {
	return dst.Elem == i32 && a[0].Elem == i32 && dst.Lanes <= a[0].Lanes
}}

var spread = rule{"TxN <- TxM; T any", func(dst Type, a []Type) bool { return dst.Elem == a[0].Elem }}

var widened = rule{"i16xN <- i8xN or u8xN; i32xN <- i16xN, u16xN, i8xN or u8xN", func(dst Type, a []Type) bool {
	switch a[0].Elem {
	case i8, u8:
		return dst == Type{Elem: i16, Lanes: a[0].Lanes} || dst == Type{Elem: i32, Lanes: a[0].Lanes}
	case i16, u16:
		return dst == Type{Elem: i32, Lanes: a[0].Lanes}
	}
	return false
}}

var truncated = rule{"TxN <- i32xN; T u8 i8 u16 i16; or TxN <- i16xN; T u8 i8", func(dst Type, a []Type) bool {
	return (a[0].Elem == i32 || a[0].Elem == i16) && isInt(dst.Elem) &&
		dst.Elem.Bits() < a[0].Elem.Bits() && dst.Lanes == a[0].Lanes
}}

var dot4 = rule{"i32xN <- i32xN, TxM, i8xM; T u8 i8; M = 4N", func(dst Type, a []Type) bool {
	m := 4 * dst.Lanes
	return dst.Elem == i32 && a[0] == dst &&
		(a[1] == Type{Elem: u8, Lanes: m} || a[1] == Type{Elem: i8, Lanes: m}) && a[2] == Type{Elem: i8, Lanes: m}
}}

var dot4unit = rule{"i32xN <- i32xN, TxL, i8xM; T u8 i8; L = 4N; M >= 4", func(dst Type, a []Type) bool {
	l := 4 * dst.Lanes
	return dst.Elem == i32 && a[0] == dst && (a[1] == Type{Elem: u8, Lanes: l} || a[1] == Type{Elem: i8, Lanes: l}) && a[2].Elem == i8 && a[2].Lanes >= 4
}}

var mmla = rule{"i32xN <- i32xN, TxM, i8x16; T u8 i8; M = 4N; N > 2", func(dst Type, a []Type) bool {
	m := 4 * dst.Lanes
	return dst.Elem == i32 && dst.Lanes > 2 && a[0] == dst &&
		(a[1] == Type{Elem: u8, Lanes: m} || a[1] == Type{Elem: i8, Lanes: m}) && a[2] == Type{Elem: i8, Lanes: 16}
}}

var dot2 = rule{"i32xN <- i32xN, i16xM, i16xM; M = 2N", func(dst Type, a []Type) bool {
	m := Type{Elem: i16, Lanes: 2 * dst.Lanes}
	return dst.Elem == i32 && a[0] == dst && a[1] == m && a[2] == m
}}

var dot2wrap = rule{"i32xN <- i16xM, i16xM; M = 2N", func(dst Type, a []Type) bool {
	m := Type{Elem: i16, Lanes: 2 * dst.Lanes}
	return dst.Elem == i32 && a[0] == m && a[1] == m
}}

var dot2sat = rule{"i16xN <- u8xM, i8xM; M = 2N", func(dst Type, a []Type) bool {
	m := 2 * dst.Lanes
	return dst.Elem == i16 && a[0] == Type{Elem: u8, Lanes: m} && a[1] == Type{Elem: i8, Lanes: m}
}}

// productsOf says whether a and b are bytes for n products or 2n.
func productsOf(n int, a, b Type) bool {
	return (a.Elem == u8 || a.Elem == i8) && b == Type{Elem: i8, Lanes: a.Lanes} && (a.Lanes == n || a.Lanes == 2*n)
}

var mulwide = rule{"i16xN <- TxM, i8xM; T u8 i8; M = N or M = 2N", func(dst Type, a []Type) bool {
	return dst.Elem == i16 && productsOf(dst.Lanes, a[0], a[1])
}}

var dot1 = rule{"i16xN <- i16xN, TxM, i8xM; T u8 i8; M = N or M = 2N", func(dst Type, a []Type) bool {
	return dst.Elem == i16 && a[0] == dst && productsOf(dst.Lanes, a[1], a[2])
}}

var pairs = rule{"TxN <- TxN, TxN; T i16 i32; N > 1", func(dst Type, a []Type) bool {
	return (dst.Elem == i16 || dst.Elem == i32) && dst.Lanes > 1 && a[0] == dst && a[1] == dst
}}

var sum2 = rule{"i32xN <- i32xN, i16xM; M = 2N", func(dst Type, a []Type) bool {
	return dst.Elem == i32 && a[0] == dst && a[1] == Type{Elem: i16, Lanes: 2 * dst.Lanes}
}}

// converted is the rule of one element type made from another.
func converted(dst, arg format.DType) rule {
	return rule{dst.String() + "xN <- " + arg.String() + "xN", func(d Type, a []Type) bool {
		return d.Elem == dst && a[0] == d.With(arg)
	}}
}

var compared = rule{"i32xN <- f32xN, f32xN", func(d Type, a []Type) bool {
	return d.Elem == i32 && a[0] == Type{Elem: f32, Lanes: d.Lanes} && a[1] == a[0]
}}

// lookup is the rule of tables of n entries.
func lookup(n int) rule {
	sig := strings.ReplaceAll("TxN <- UxN, TxM; T any, U unsigned of its size; M = max(N, #)", "#", strconv.Itoa(n))
	return rule{sig, func(dst Type, a []Type) bool {
		return a[0] == Type{Elem: dst.Elem.Unsigned(), Lanes: dst.Lanes} && a[1] == Type{Elem: dst.Elem, Lanes: max(n, dst.Lanes)}
	}}
}

// pairLookup is the rule of one table of 8 to 128 entries in two registers.
var pairLookup = rule{"TxN <- UxN, TxM, TxM; T any, U unsigned of its size; N <= M; 4 <= M <= 64", func(dst Type, a []Type) bool {
	return a[0] == Type{Elem: dst.Elem.Unsigned(), Lanes: dst.Lanes} && a[1] == a[2] && a[1].Elem == dst.Elem &&
		dst.Lanes <= a[1].Lanes && 4 <= a[1].Lanes && a[1].Lanes <= 64
}}
