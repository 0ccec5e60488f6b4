package nest

import (
	"encoding/binary"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Buffer says where the elements of a tensor lie in memory that a kernel is given. It is an *Array, a *Rows, a
// *Packed, a *Codes, a *Tables or a *MadeTables.
type Buffer interface {
	fmt.Stringer
	// Base is what every kind of buffer has.
	Base() *Memory
	// Name is the name of the tensor.
	Name() string
	// Pos is the place of the element at index.
	Pos(index []int) Pos
	// Terms are the terms of an address at p that are known at run time only; none has 0 times.
	Terms(p Pos) []Term
	// Period is a number of elements along the last index. The places of every such run of elements follow the
	// same pattern, and all runs are equally far apart.
	Period() int
	// load reads the element of type t at p of mem, as its type's value or an f32's bits.
	load(mem []byte, p Pos, t format.DType) (int64, error)
}

// Memory is what every kind of buffer has.
type Memory struct {
	Tensor *ir.Tensor
	Param  string // name of the pointer parameter
	Streams
}

// Streams says how many bytes ahead of their use the kernel asks for the lines of a buffer. 0 asks for none.
type Streams struct {
	Ahead int  `json:"ahead"` // distance of prefetches into the nearest cache
	Far   int  `json:"far"`   // distance of prefetches into the second-level cache
	Every bool `json:"every"` // Far asks for every line, not only for two of four
	Rest  bool `json:"rest"`  // the first of tiles side by side is left to the hardware's prefetcher
	Act   int  `json:"act"`   // distance of prefetches of activations, which weights may have displaced from the nearest cache
}

// Pos is the place of one element: a byte offset from the buffer's pointer, the number of steps between rows and of
// steps between tiles side by side to add, and for codes the number of the field in its cell.
type Pos struct{ Byte, Steps, Sides, Field int }

// Term adds Times the integer parameter Param, in bytes, to an address.
type Term struct {
	Times int
	Param string
}

// Base implements Buffer.
func (m *Memory) Base() *Memory { return m }

// Name implements Buffer.
func (m *Memory) Name() string { return m.Tensor.Name }

// Terms implements Buffer: addresses are known when the kernel is compiled.
func (m *Memory) Terms(Pos) []Term { return nil }

// Period implements Buffer.
func (m *Memory) Period() int { return max(m.Tensor.Block, 1) }

func (m *Memory) load(mem []byte, p Pos, t format.DType) (int64, error) {
	raw, n := int64(0), t.Bytes()
	if p.Byte < 0 || p.Byte+n > len(mem) {
		return 0, outside(p.Byte, mem)
	}
	for i := range n {
		raw |= int64(mem[p.Byte+i]) << (8 * i)
	}
	return ir.Wrap(t, raw), nil
}

func outside(at int, mem []byte) error { return fmt.Errorf("byte %d of %d", at, len(mem)) }

// store writes v, an element of the tensor.
func (m *Memory) store(mem []byte, p Pos, v int64) error {
	if p.Byte < 0 || p.Byte+m.Tensor.Elem.Bytes() > len(mem) {
		return outside(p.Byte, mem)
	}
	switch m.Tensor.Elem {
	case format.U8, format.I8:
		mem[p.Byte] = byte(v)
	case format.U16, format.I16, format.F16:
		binary.LittleEndian.PutUint16(mem[p.Byte:], uint16(v))
	default:
		binary.LittleEndian.PutUint32(mem[p.Byte:], uint32(v))
	}
	return nil
}

// Array is a dense array: the byte of an element is the sum of its indices times their strides.
type Array struct {
	Memory
	Strides []int // bytes per unit of each index
	// Whole says that the array holds all bytes that whole iterations of run-time loops over K may touch, so that
	// vectors may read more bytes than their lanes need.
	Whole bool
	// A load inside the serial loop NextIn also asks for the same place of the parameter Next. "": it does not.
	Next, NextIn string
}

// Pos implements Buffer.
func (a *Array) Pos(index []int) (p Pos) {
	var room [4]int
	for i, x := range ir.BlockIndex(a.Tensor, append(room[:0], index...)) {
		p.Byte += x * a.Strides[i]
	}
	return p
}

func (a *Array) String() string { return fmt.Sprintf("an array with strides %v", a.Strides) }

// Rows is a matrix, indexed (row, element), whose rows are Step bytes apart. Elements of one tile lie side by side;
// the tiles of a call are Side bytes apart. If Tile is 0, a row is one tile.
type Rows struct {
	Memory
	Stride int    // bytes from one element of a tile to the next
	Step   string // integer parameter
	Side   string // integer parameter
	Tile   int    // elements of a row of a tile
}

// Pos implements Buffer.
func (r *Rows) Pos(index []int) Pos {
	row, x := index[0], index[1]
	if r.Tile == 0 {
		return Pos{Byte: x * r.Stride, Steps: row}
	}
	return Pos{Byte: x % r.Tile * r.Stride, Steps: row, Sides: x / r.Tile}
}

// Terms implements Buffer.
func (r *Rows) Terms(p Pos) []Term { return append(times(p.Steps, r.Step), times(p.Sides, r.Side)...) }

// times is a term, none if it is 0 times the parameter.
func times(n int, param string) []Term {
	if n == 0 {
		return nil
	}
	return []Term{{n, param}}
}

func (r *Rows) String() string {
	if r.Tile == 0 {
		return fmt.Sprintf("rows %s bytes apart, of elements %d bytes apart", r.Step, r.Stride)
	}
	return fmt.Sprintf("rows %s bytes apart, of tiles of %d elements %s bytes apart", r.Step, r.Tile, r.Side)
}

// Packed is a part of a packed matrix, or of packed activations, that stores whole elements. It is indexed (row, k).
// Tiles of a call are Side bytes apart.
type Packed struct {
	Memory
	Layout *format.Layout
	Part   *format.Part
	Side   string // integer parameter; "": a call has one tile
}

// Pos implements Buffer.
func (b *Packed) Pos(index []int) Pos {
	row, k := index[0], index[1]
	return Pos{Byte: b.Layout.Address(b.Part, row, k, 0) - b.Part.Base, Sides: row / b.Layout.TileM}
}

// Terms implements Buffer.
func (b *Packed) Terms(p Pos) []Term { return times(p.Sides, b.Side) }

func (b *Packed) String() string {
	return fmt.Sprintf("packed in records of %d bytes for %d rows by %d elements of K", b.Layout.RecordBytes, b.Layout.TileM, b.Layout.RecordK)
}

// Codes is a part of a packed matrix that stores the bits of codes, or of codewords.
type Codes struct{ Packed }

// Pos implements Buffer. It finds the cell, and the number of the field in it.
func (b *Codes) Pos(index []int) Pos {
	p := b.Packed.Pos(index)
	p.Field = b.Part.Field(index[0], index[1])
	return p
}

func (b *Codes) load(mem []byte, p Pos, _ format.DType) (int64, error) {
	code := byte(0)
	word, number := b.Part.Place(p.Field)
	for i, at := range b.Part.Map[word] {
		j := p.Byte + at.Word*b.Part.WordStride
		if j < 0 || j >= len(mem) {
			return 0, outside(j, mem)
		}
		code |= mem[j] >> at.Bit & 1 << i
	}
	c := b.Part.Codewords
	if c == nil {
		return int64(code), nil
	}
	joined, ok := c.Code(code, number)
	if !ok {
		return 0, fmt.Errorf("no codes have codeword %d", code)
	}
	return int64(joined), nil
}

func (b *Codes) String() string {
	return fmt.Sprintf("%d codes in a cell, %v", b.Part.NumFields(), &b.Packed)
}

// Tables are tables of activations as products read them, indexed (column, k, part, half, entry): the tables of Chunk
// elements of K of one column, then the tables of the next column, up to Cols columns.
type Tables struct {
	Memory
	Of          *ir.Tables
	Cols, Chunk int
}

// Pos implements Buffer.
func (t *Tables) Pos(index []int) Pos {
	column, k, part, half, entry := index[0], index[1], index[2], index[3], index[4]
	chunk := t.Chunk / t.Of.Digits() * t.Of.UnitBytes()
	return Pos{Byte: (k/t.Chunk*t.Cols+column)*chunk + t.Of.Place(k%t.Chunk/t.Of.Digits(), part, half, entry)}
}

func (t *Tables) String() string {
	return fmt.Sprintf("tables of %d columns, %d elements of K at a time", t.Cols, t.Chunk)
}

// MadeTables are tables of one row of activations as a preparation makes them, indexed (0, unit*elements + element).
// The tables of Chunk elements of K are Step bytes behind those before; a Chunk of 0 is all of K.
type MadeTables struct {
	Memory
	Of    *ir.Tables
	Chunk int
	Step  string // integer parameter
}

// Pos implements Buffer.
func (t *MadeTables) Pos(index []int) Pos {
	n := t.Of.OutSize()
	unit, chunk := index[1]/n, 0
	if t.Chunk > 0 {
		unit, chunk = unit%t.units(), unit/t.units()
	}
	return Pos{Byte: t.Of.OutPlace(unit, index[1]%n), Steps: chunk}
}

// units is the number of units of tables in a chunk.
func (t *MadeTables) units() int { return t.Chunk / t.Of.Digits() }

// Terms implements Buffer.
func (t *MadeTables) Terms(p Pos) []Term { return times(p.Steps, t.Step) }

// Period implements Buffer: tables of a chunk, or else of a block, lie in an order of their own.
func (t *MadeTables) Period() int {
	units := t.Of.Together
	if t.Chunk > 0 {
		units = t.units()
	}
	return units * t.Of.OutSize()
}

func (t *MadeTables) String() string {
	return fmt.Sprintf("tables of one row, %s bytes apart for every %d elements of K", t.Step, t.Chunk)
}
