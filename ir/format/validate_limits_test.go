package format

import (
	"strings"
	"testing"
)

// bits1 is a layout of 1-bit codes in tiles of some rows and records of some columns, 8 columns to a byte if
// there are as many.
func bits1(rows, columns int) *Layout {
	cell := min(columns, 8)
	p := Part{
		Name: Codes, WordStride: 1, Map: PlaneMap(1, 8)[:cell],
		Digits: []Digit{{Axis: "m", Div: 1, Mod: rows, Stride: columns / cell}, {Axis: "k", Div: cell, Mod: columns / cell, Stride: 1}},
		Fields: []Digit{{Axis: "k", Div: 1, Mod: cell, Stride: 1}},
	}
	return &Layout{TileM: rows, RecordK: columns, RecordBytes: rows * columns / cell, Parts: []Part{p}}
}

// TestValidateLimits has the last legal value of what Validate limits, and the first illegal one with its
// refusal.
func TestValidateLimits(t *testing.T) {
	const tile, elems = 1 << 22, 1 << 20
	with := func(edit func(l *Layout, p *Part)) *Layout {
		l := bits1(4, 8)
		edit(l, &l.Parts[0])
		return l
	}
	parts := func(n int) *Layout {
		return with(func(l *Layout, _ *Part) {
			for i := range n - 1 {
				l.Parts = append(l.Parts, Part{Name: strings.Repeat("a", i+1), Elem: U8, Base: l.RecordBytes})
				l.RecordBytes++
			}
		})
	}
	digits := func(n int) *Layout {
		return with(func(_ *Layout, p *Part) {
			for len(p.Digits) < n {
				p.Digits = append(p.Digits, Digit{Axis: "n", Div: 1, Mod: 1, Stride: 2 * tile})
			}
		})
	}
	fields := func(n int) *Layout {
		return with(func(_ *Layout, p *Part) {
			for len(p.Fields) < n {
				p.Fields = append(p.Fields, Digit{Axis: "k", Div: 8, Mod: 1, Stride: 1})
			}
		})
	}
	mapped := func(n int) *Layout {
		return with(func(_ *Layout, p *Part) {
			for len(p.Map) < n {
				p.Map = append(p.Map, p.Map[0])
			}
		})
	}
	name := func(n int) *Layout {
		return with(func(_ *Layout, p *Part) { p.Name = strings.Repeat("x", n) })
	}
	header := func(n int) *Layout {
		return with(func(l *Layout, p *Part) { l.HeaderBytes, p.Base = n, n })
	}
	record := func(n int) *Layout { return with(func(l *Layout, _ *Part) { l.RecordBytes = n }) }
	base := func(n int) *Layout { return with(func(_ *Layout, p *Part) { p.Base = n }) }
	stride := func(n int) *Layout { return with(func(_ *Layout, p *Part) { p.WordStride = n }) }
	digit := func(d Digit) *Layout { return with(func(_ *Layout, p *Part) { p.Digits[0] = d }) }
	last := func(b BitPos) *Layout { // of a field that no element has
		return with(func(_ *Layout, p *Part) { p.Map = append(p.Map, []BitPos{b}) })
	}
	long := func(n int) *Layout {
		return with(func(l *Layout, p *Part) {
			p.Map = [][]BitPos{run(0, 0, n)}
			p.Fields, l.RecordBytes = nil, 32
			p.Digits = []Digit{{Axis: "m", Div: 1, Mod: 4, Stride: 8}, {Axis: "k", Div: 1, Mod: 8, Stride: 1}}
		})
	}
	for _, c := range []struct {
		good, bad *Layout
		want      string
	}{
		{bits1(1024, 1024), bits1(1024, 2048), "tile_m 1024 by record_k 2048; both must be at least 1, their product at most 1048576"},
		{bits1(1, elems), bits1(1, 2*elems), "tile_m 1 by record_k 2097152"},
		{bits1(elems, 1), bits1(2*elems, 1), "tile_m 2097152 by record_k 1"},
		{bits1(1, 8), with(func(l *Layout, _ *Part) { l.TileM = 0 }), "tile_m 0 by record_k 8"},
		{bits1(8, 1), with(func(l *Layout, _ *Part) { l.RecordK = 0 }), "tile_m 4 by record_k 0"},
		// Each alone is within bounds, and the product overflows.
		{nil, with(func(l *Layout, _ *Part) { l.TileM, l.RecordK = elems, elems }), "tile_m 1048576 by record_k 1048576"},
		{header(0), header(-1), "header_bytes is -1; it must be 0 to 4194304"},
		{header(tile), header(tile + 1), "header_bytes is 4194305; it must be 0 to 4194304"},
		{nil, record(0), "record_bytes is 0; it must be 1 to 4194304"},
		{nil, record(1), "lies at byte 1, outside bytes 0 to 1 of the record"},
		{record(tile), record(tile + 1), "record_bytes is 4194305; it must be 1 to 4194304"},
		{parts(1), with(func(l *Layout, _ *Part) { l.Parts = nil }), "has 0 parts; it must have 1 to 16"},
		{parts(16), parts(17), "has 17 parts; it must have 1 to 16"},

		{name(1), name(0), "its name must be letters, digits, '_', '-' and '.', 1 to 64 of them"},
		{name(64), name(65), "its name must be letters, digits, '_', '-' and '.', 1 to 64 of them"},
		{base(0), base(-1), "base is -1; it must be 0 to 8388608"},
		{nil, base(2 * tile), "lies at byte 8388608, outside"},
		{nil, base(2*tile + 1), "base is 8388609; it must be 0 to 8388608"},
		{nil, base(1), "row 3, k 0 lies at byte 4, outside bytes 0 to 4"},
		{stride(tile), stride(tile + 1), "word_stride is 4194305; it is too large"},
		{stride(-tile), stride(-tile - 1), "word_stride is -4194305; it is too large"},
		{digits(32), digits(33), "has more than 32 digits"},
		{fields(32), fields(33), "has more than 32 digits"},
		{mapped(4096), mapped(4097), "has 4097 fields; at most 4096 are allowed"},
		{nil, with(func(_ *Layout, p *Part) { p.Map[7] = nil }), "field 7 has 0 bits; every field must have the same number, 1 to 8"},
		{nil, with(func(_ *Layout, p *Part) { p.Map[0] = nil }), "field 0 has 0 bits; every field must have the same number, 1 to 8"},
		{long(8), nil, ""},
		{nil, with(func(_ *Layout, p *Part) { p.Map[0] = make([]BitPos, 9) }), "field 0 has 9 bits; every field must have the same number, 1 to 8"},
		{last(BitPos{tile, 7}), last(BitPos{tile + 1, 7}), "field 8: bit 7 of word 4194305; a word has bits 0 to 7, and words count from 0"},
		{last(BitPos{0, 0}), last(BitPos{-1, 0}), "field 8: bit 0 of word -1"},
		{nil, last(BitPos{0, 8}), "field 8: bit 8 of word 0"},
		{nil, last(BitPos{0, -1}), "field 8: bit -1 of word 0"},

		{digit(Digit{Axis: "m", Div: 1, Mod: 4, Stride: 1}), digit(Digit{Axis: "m", Div: 1, Mod: 8, Stride: 1}), "digit m/1%8; div and mod must be at least 1 and their product, or in, must divide the 4"},
		{nil, digit(Digit{Axis: "m", Div: 0, Mod: 4, Stride: 1}), "digit m/0%4; div and mod"},
		{nil, digit(Digit{Axis: "m", Div: 1, Mod: 0, Stride: 1}), "digit m/1%0; div and mod"},
		{nil, digit(Digit{Axis: "m", Div: -1, Mod: -4, Stride: 1}), "digit m/-1%-4; div and mod"},
		{nil, digit(Digit{Axis: "m", In: 4, Div: 5, Mod: 1, Stride: 1}), "digit m%4/5%1; div and mod"},
		{nil, digit(Digit{Axis: "m", In: 4, Div: 1, Mod: 5, Stride: 1}), "digit m%4/1%5; div and mod"},
		{nil, digit(Digit{Axis: "m", In: -4, Div: 1, Mod: 4, Stride: 1}), "digit m%-4/1%4; div and mod"},
		{nil, digit(Digit{Axis: "m", In: 3, Div: 1, Mod: 3, Stride: 1}), "digit m%3/1%3; div and mod"},
		{digit(Digit{Axis: "m", In: 4, Div: 1, Mod: 4, Stride: 1}), nil, ""},
		{nil, digit(Digit{Axis: "m", Div: 1, Mod: 1, Stride: 2 * tile}), "shares bit 0 of byte 0 with part"},
		{nil, digit(Digit{Axis: "m", Div: 1, Mod: 1, Stride: -2 * tile}), "shares bit 0 of byte 0 with part"},
		{nil, digit(Digit{Axis: "m", Div: 1, Mod: 1, Stride: 2*tile + 1}), "digit m/1%1 has stride 8388609; it is too large"},
		{nil, digit(Digit{Axis: "m", Div: 1, Mod: 1, Stride: -2*tile - 1}), "digit m/1%1 has stride -8388609; it is too large"},
		{nil, with(func(_ *Layout, p *Part) { p.Fields[0].Stride = -1 }), "row 0, k 1 has field -1; the map has 8"},
		{nil, with(func(_ *Layout, p *Part) { p.Map = p.Map[:7] }), "row 0, k 7 has field 7; the map has 7"},
	} {
		if c.good != nil {
			if err := c.good.Validate(); err != nil {
				t.Errorf("without %q: %v", c.want, err)
			}
		}
		if c.bad != nil {
			wantError(t, c.want, c.want)(nil, c.bad.Validate())
		}
	}
}
