package nest

import (
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// TestBuffers compares places and run-time terms of every kind of buffer with what their comments say.
func TestBuffers(t *testing.T) {
	of := func(name string, elem format.DType, block int) Memory {
		return Memory{Tensor: &ir.Tensor{Name: name, Elem: elem, Block: block}, Param: name}
	}
	layout := &format.Layout{TileM: 4, RecordK: 8, HeaderBytes: 16, RecordBytes: 48, Parts: []format.Part{
		{Name: format.Codes, Base: 16, Map: [][]format.BitPos{{{Bit: 0}}, {{Bit: 4}}},
			Digits: []format.Digit{{Axis: "m", Div: 1, Mod: 4, Stride: 4}, {Axis: "k", Div: 2, Mod: 4, Stride: 1}},
			Fields: []format.Digit{{Axis: "k", Div: 1, Mod: 2, Stride: 1}}},
		{Name: "scales", Elem: format.F32, Base: 32, Digits: []format.Digit{{Axis: "m", Div: 1, Mod: 4, Stride: 4}}},
	}}
	packed := func(i int) Packed {
		return Packed{Memory: of(layout.Parts[i].Name, layout.Parts[i].Elem, 0), Layout: layout, Part: &layout.Parts[i], Side: "step.side"}
	}
	scales := packed(1)
	// A unit is 4 elements of K, and its only table has 16 entries of 2 bytes.
	tables := &ir.Tables{Decomposition: ir.Decomposition{Alphabet: []int{-1, 1}, Parts: []int{4}}, Elem: format.I16, Together: 1}
	four := *tables
	four.Together = 4 // whose order is the same as long as entries are whole
	made := of("table", format.I16, 0)
	for _, c := range []struct {
		b      Buffer
		index  []int
		pos    Pos
		terms  []Term
		period int
	}{
		{&Array{Memory: of("sums", format.I32, 32), Strides: []int{4, 8}}, []int{1, 64}, Pos{Byte: 4 + 2*8}, nil, 32},
		{&Array{Memory: of("offsets", format.I32, -1), Strides: []int{4, 8}}, []int{1, 64}, Pos{Byte: 4}, nil, 1},
		{&Rows{Memory: of("out", format.F32, 0), Stride: 4, Step: "step.out", Side: "step.siderows", Tile: 16}, []int{3, 37},
			Pos{Byte: 5 * 4, Steps: 3, Sides: 2}, []Term{{3, "step.out"}, {2, "step.siderows"}}, 1},
		{&Rows{Memory: of("out", format.F32, 0), Stride: 4, Step: "step.out", Side: "step.siderows", Tile: 16}, []int{0, 15}, Pos{Byte: 60}, nil, 1},
		{&Rows{Memory: of("out", format.F32, 0), Stride: 8, Step: "step.out"}, []int{3, 37}, Pos{Byte: 37 * 8, Steps: 3}, []Term{{3, "step.out"}}, 1},
		{&scales, []int{6, 9}, Pos{Byte: 48 + 2*4, Sides: 1}, []Term{{1, "step.side"}}, 1},
		{&Codes{packed(0)}, []int{2, 13}, Pos{Byte: 48 + 2*4 + 2, Field: 1}, nil, 1},
		{&Tables{Memory: made, Of: tables, Cols: 2, Chunk: 8}, []int{1, 12, 0, 0, 5}, Pos{Byte: 3*64 + 32 + 10}, nil, 1},
		{&MadeTables{Memory: made, Of: tables, Chunk: 8, Step: "step.table"}, []int{0, 3*16 + 5}, Pos{Byte: 32 + 10, Steps: 1}, []Term{{1, "step.table"}}, 32},
		{&MadeTables{Memory: made, Of: tables, Step: "step.table"}, []int{0, 3*16 + 5}, Pos{Byte: 3*32 + 10}, nil, 16},
		{&MadeTables{Memory: made, Of: &four, Step: "step.table"}, []int{0, 7*16 + 5}, Pos{Byte: 4*32 + 3*32 + 10}, nil, 64},
	} {
		p := c.b.Pos(c.index)
		if terms := c.b.Terms(p); p != c.pos || !slices.Equal(terms, c.terms) || c.b.Period() != c.period {
			t.Errorf("%s%v: %+v %v, period %d; want %+v %v, period %d", c.b.Name(), c.index, p, terms, c.b.Period(), c.pos, c.terms, c.period)
		}
	}
}
