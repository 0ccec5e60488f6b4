package vir

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Use says what a tile is in a product of matrices.
type Use uint8

// The uses of tiles. A product adds A times B to C.
const (
	NoTile Use = iota // a vector, no tile
	UseA
	UseB
	UseC
)

// useNames are the last letters of types in text.
const useNames = " abc"

// TileOf is the type of a tile of rows by columns of e.
func TileOf(e format.DType, rows, columns int, use Use) Type {
	return Type{Elem: e, Lanes: rows * columns, Rows: rows, Use: use}
}

// Tile says that t is a tile.
func (t Type) Tile() bool { return t.Use != NoTile }

// Columns of a tile.
func (t Type) Columns() int { return t.Lanes / max(t.Rows, 1) }

// With is t with elements of another type.
func (t Type) With(e format.DType) Type {
	t.Elem = e
	return t
}

// place is the lane of an element of a tile. B has its columns one after the other, other tiles their rows.
func (t Type) place(row, column int) int {
	if t.Use == UseB {
		return column*t.Rows + row
	}
	return row*t.Columns() + column
}

// parseTile reads what follows the element type: "16x32a".
func parseTile(e format.DType, w string) (Type, error) {
	use := max(strings.IndexByte(useNames, w[len(w)-1]), 0)
	rows, columns, _ := strings.Cut(w[:len(w)-1], "x")
	r, err := number(rows, "")
	if err != nil {
		return Type{}, err
	}
	c, err := number(columns, "")
	if err != nil || r < 1 || r > MaxLanes || c > MaxLanes {
		return Type{}, fmt.Errorf("%.80q: want a tile such as i8x16x32a", w)
	}
	return TileOf(e, r, c, Use(use)), nil
}

// checkTile refuses uses, rows and columns that no tile has.
func checkTile(t Type) error {
	switch {
	case t.Use > UseC:
		return fmt.Errorf("%v: no use %d of a tile", t, t.Use)
	case t.Rows < 1 || t.Rows > t.Lanes || t.Rows&(t.Rows-1) != 0:
		return fmt.Errorf("%v: rows and columns of a tile are powers of two", t)
	}
	return nil
}

// TileRuns says how the bytes of a tile lie at the address of an instruction that loads or stores it: n stretches of some
// bytes, as far apart as its address says. n is 0 of other instructions.
func (f *Func) TileRuns(in *Instr) (n, bytes int) {
	if !in.Op.valid() || !ops[in.Op].apart {
		return 0, 0
	}
	t := f.typeOf(in.Dst)
	if in.Op.Stores() {
		t = f.ArgType(in, 0)
	}
	if in.Op == OpLoadRows || in.Op == OpStoreRows {
		return t.Rows, t.Columns() * t.Elem.Bytes()
	}
	return t.Columns(), t.Rows * t.Elem.Bytes()
}

// tileBytes is how many bytes from the first to the last in accesses, as far as constants say.
func (f *Func) tileBytes(in *Instr) int {
	n, bytes := f.TileRuns(in)
	return (n-1)*in.Mem.Apart.Bytes + bytes
}

// checkApart refuses a distance of rows or columns that no access has.
func (v *verifier) checkApart(in *Instr) error {
	a := in.Mem.Apart
	if !ops[in.Op].apart {
		if a != (Apart{}) {
			return fmt.Errorf("rows %d bytes apart, but no tile", a.Bytes)
		}
		return nil
	}
	n, bytes := v.f.TileRuns(in)
	elem := v.f.typeOf(in.Dst).Elem
	if in.Op.Stores() {
		elem = v.f.ArgType(in, 0).Elem
	}
	switch {
	case a.Bytes < 0 || a.Bytes > maxDisp/n || a.Bytes%elem.Bytes() != 0:
		return fmt.Errorf("rows or columns %d bytes apart: want whole elements, up to %d bytes", a.Bytes, maxDisp/n)
	case in.Op.Stores() && a.Times == 0 && a.Bytes < bytes:
		return fmt.Errorf("stores rows or columns of %d bytes %d apart: they overlap", bytes, a.Bytes)
	}
	return v.multiple(a.Multiple)
}

// checkTiles: tiles are what operations on tiles have, and lanes hold all of them at one depth.
func (v *verifier) checkTiles(in *Instr, dst Type, args []Type) error {
	tile := dst.Tile()
	for _, t := range args {
		tile = tile || t.Tile()
	}
	if !tile {
		return nil
	}
	if !ops[in.Op].tiles {
		return fmt.Errorf("%v is for vectors, not for tiles", in.Op)
	}
	if in.Op == OpSplat { // equal elements, wherever they are
		return nil
	}
	depth := 1
	for _, l := range v.loops {
		if l.loop.Lane {
			depth++
		}
	}
	switch {
	case depth > 1 && (in.Op == OpColumn || in.Op == OpBitcast && dst.Use != args[0].Use):
		return fmt.Errorf("lanes hold a tile together: none has all of its elements")
	case v.tiles > 0 && v.tiles != depth:
		return fmt.Errorf("tiles are in %d loops of lanes here and in %d above", depth-1, v.tiles-1)
	}
	v.tiles = depth
	return nil
}

var tileLoad = rule{"TxMxNu <-; T any", func(dst Type, _ []Type) bool { return dst.Tile() }}

var tileStore = rule{"<- TxMxNu; T any", func(_ Type, a []Type) bool { return a[0].Tile() }}

var tileProduct = rule{"i32xMxNc <- i32xMxNc, TxMxKa, i8xKxNb; T u8 i8; or f32xMxNc <- f32xMxNc, f16xMxKa, f16xKxNb", func(dst Type, arg []Type) bool {
	a, b := arg[1], arg[2]
	if dst.Use != UseC || arg[0] != dst || a.Use != UseA || b.Use != UseB || a.Rows != dst.Rows || b.Columns() != dst.Columns() || a.Columns() != b.Rows {
		return false
	}
	return dst.Elem == i32 && (a.Elem == u8 || a.Elem == i8) && b.Elem == i8 || dst.Elem == f32 && a.Elem == f16 && b.Elem == f16
}}

// elements are the lanes of a tile in the order of its stretches in memory.
func elements(t Type, rows bool, do func(run, i, lane int)) {
	n, each := t.Rows, t.Columns()
	if !rows {
		n, each = each, n
	}
	for r := range n {
		for i := range each {
			if rows {
				do(r, i, t.place(r, i))
			} else {
				do(r, i, t.place(i, r))
			}
		}
	}
}

func evalLoadTile(rows bool) func(*call) error {
	return func(c *call) error {
		bytes, e := c.apart, c.dst.Elem
		elements(c.dst, rows, func(r, i, lane int) {
			unpack(e, c.out[lane:lane+1], c.mem[r*bytes+i*e.Bytes():])
		})
		return nil
	}
}

func evalStoreTile(rows bool) func(*call) error {
	return func(c *call) error {
		bytes, e := c.apart, c.typ[0].Elem
		elements(c.typ[0], rows, func(r, i, lane int) {
			pack(e, c.mem[r*bytes+i*e.Bytes():], c.arg[0][lane:lane+1])
		})
		return nil
	}
}

// evalMatMul adds the products. Sums of floats are exact, so that their order does not matter: others are errors.
func evalMatMul(c *call) error {
	a, b := c.typ[1], c.typ[2]
	for i := range c.dst.Rows {
		for j := range c.dst.Columns() {
			at := c.dst.place(i, j)
			x, err := matSum(c, c.arg[0][at], func(k int) (int64, int64) { return c.arg[1][a.place(i, k)], c.arg[2][b.place(k, j)] }, b.Rows)
			if err != nil {
				return fmt.Errorf("row %d, column %d: %w", i, j, err)
			}
			c.out[at] = x
		}
	}
	return nil
}

func matSum(c *call, sum int64, factors func(k int) (int64, int64), n int) (int64, error) {
	if c.dst.Elem == i32 {
		for k := range n {
			x, y := factors(k)
			sum += x * y
		}
		return int64(int32(sum)), nil
	}
	exact := float64(floatOf(sum))
	for k := range n {
		x, y := factors(k)
		exact += float64(format.HalfToFloat32(uint16(x))) * float64(format.HalfToFloat32(uint16(y)))
		if f := float32(exact); float64(f) != exact {
			return 0, fmt.Errorf("the sum %v is no f32", exact)
		}
	}
	return bitsOf(float32(exact)), nil
}

var tileColumn = rule{"TxN <- TxNxMc; T any", func(dst Type, a []Type) bool {
	return a[0].Use == UseC && dst == Type{Elem: a[0].Elem, Lanes: a[0].Rows}
}}

func evalColumn(c *call) error {
	for i := range c.out {
		c.out[i] = c.arg[0][c.typ[0].place(i, int(c.in.Imm))]
	}
	return nil
}

// boundMatMul is c plus a product for each column of a.
func boundMatMul(c *boundCall) Range { return boundDot(int64(c.typ[1].Columns()))(c) }
