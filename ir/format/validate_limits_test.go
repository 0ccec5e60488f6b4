package format

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// bits1 is a layout of 1-bit codes in tiles of some rows and records of some columns, 8 columns to a byte if
// there are 8.
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

// TestOverlaps: of two elements, or bits, at one place the second is refused, wherever it lies.
func TestOverlaps(t *testing.T) {
	with := func(edit func(l *Layout, p *Part)) *Layout {
		l := bits1(4, 8)
		edit(l, &l.Parts[0])
		return l
	}
	// scales of two groups of 4 columns, behind the codes
	scales := func(elem DType, row, group int) *Layout {
		return with(func(l *Layout, _ *Part) {
			digits := []Digit{{Axis: "m", Div: 1, Mod: 4, Stride: row}, {Axis: "k", Div: 4, Mod: 2, Stride: group}}
			l.Parts = append(l.Parts, Part{Name: Scales, Elem: elem, Base: l.RecordBytes, Digits: digits})
			l.RecordBytes += 32
		})
	}
	// codes of 2 bits, one bit shared with another code
	shared := func(code int, b BitPos) *Layout {
		return with(func(l *Layout, p *Part) {
			p.Map, p.Digits[0].Stride, l.RecordBytes = PlaneMap(2, 8), 2, 8
			p.Map[code][1] = b
		})
	}
	for _, c := range []struct {
		l    *Layout
		want string
	}{
		{scales(F16, 4, 2), ""},
		{scales(F16, 2, 8), ""},
		{scales(F16, 0, 2), ""}, // all rows have one
		{scales(F16, 2, 2), ""}, // and so may rows and groups, as far as Validate goes
		{scales(F16, 8, 1), `layout part "scales": row 0, k 4 shares byte 5 with part "scales"`},
		{scales(F16, 1, 8), `layout part "scales": row 1, k 0 shares byte 5 with part "scales"`},
		{scales(F16, 2, -2), `layout part "scales": row 0, k 4 shares byte 2 with part "codes"`},
		{scales(U8, 1, -1), `layout part "scales": row 0, k 4 shares byte 3 with part "codes"`},
		{scales(F16, 8, 64), `layout part "scales": row 0, k 4 lies at byte 68, outside bytes 0 to 36`},

		{shared(0, BitPos{1, 0}), ""},
		{shared(1, BitPos{0, 0}), `row 0, k 1 shares bit 0 of byte 0 with part "codes"`},
		{shared(4, BitPos{0, 3}), `row 0, k 4 shares bit 3 of byte 0 with part "codes"`},
		{shared(0, BitPos{0, 7}), `row 0, k 7 shares bit 7 of byte 0 with part "codes"`},

		{with(func(l *Layout, p *Part) { l.TileM, l.RecordK = math.MaxInt/2+1, 4 }), fmt.Sprint("tile_m ", math.MaxInt/2+1, " by record_k 4; both must be at least 1, their product at most")},
		{with(func(l *Layout, p *Part) { l.TileM, l.RecordK = 4, math.MaxInt/2+1 }), fmt.Sprint("tile_m 4 by record_k ", math.MaxInt/2+1)},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: DType(len(dtypes))} }), "unknown elem "},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: DType(len(dtypes) - 1)} }), ""},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: U8, Fields: p.Fields} }), "has whole elements (elem u8) and also fields"},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: U8, Map: p.Map} }), "has whole elements (elem u8) and also fields"},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: U8, WordStride: 1} }), "has whole elements (elem u8) and also fields"},
		{with(func(l *Layout, p *Part) { *p = Part{Name: "x", Elem: U8, WordStride: -1} }), "has whole elements (elem u8) and also fields"},
		// Codes in the header, which has no columns, would belong to all columns.
		{with(func(l *Layout, p *Part) {
			l.HeaderBytes, p.Header, p.Digits, p.Fields = 4, true, p.Digits[:1], nil
		}), `row 0, k 1 shares bit 0 of byte 0 with part "codes"`},
	} {
		if err := c.l.Validate(); c.want != "" {
			wantError(t, c.want, c.want)(nil, err)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestSharedCodewords: two elements that are the same code of a codeword are refused, whichever code it is.
func TestSharedCodewords(t *testing.T) {
	for code := range 4 {
		l := joined(t, 3, 5, 4, 1)
		p := l.Part(Codes)
		// A record of one column more than the codewords have codes: the last one is code again.
		l.TileM, l.RecordK, p.Digits = 1, 6, nil
		p.Fields = []Digit{{Axis: "k", In: 6, Div: 1, Mod: 5, Stride: 1}, {Axis: "k", In: 6, Div: 5, Mod: 2, Stride: code}} // 0 1 2 3 4 code
		l.Parts[0].Digits = nil
		want := fmt.Sprintf("row 0, k 5 shares code %d of the codeword at byte 64 with another element", code)
		wantError(t, want, want)(nil, l.Validate())
	}
}

// TestFitsNumbers: scales of two groups, or rows, at one place do not fit, wherever it is.
func TestFitsNumbers(t *testing.T) {
	w := lookup(t, "w4-g16")
	two := func(row, group int) *Layout {
		l := PlainLayout(w)
		l.RecordK = 32
		codes := l.Part(Codes)
		codes.Digits[1].Mod, l.RecordBytes = 4, 256+96
		p := l.Part(Scales)
		p.Base, p.Digits = 256, []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: row}, {Axis: "k", Div: 16, Mod: 2, Stride: group}}
		return l
	}
	for _, c := range []struct {
		l    *Layout
		want string
	}{
		{two(2, 32), ""},
		{two(4, 2), ""},
		{two(2, 0), `layout part "scales": row 0, k 16 lies at byte 256, and so does another scale of weight w4-g16`},
		{two(0, 2), `layout part "scales": row 1, k 0 lies at byte 256, and so does another scale of weight w4-g16`},
		{two(2, 2), `layout part "scales": row 1, k 0 lies at byte 258, and so does another scale of weight w4-g16`},
		{func() *Layout {
			l := two(2, 32)
			l.Parts[0] = Part{Name: Codes, Elem: U8}
			return l
		}(), `has no part "codes" with a bit map in its records`},
		{func() *Layout {
			l := two(2, 32)
			l.Parts[0].Name = "x"
			return l
		}(), `has no part "codes" with a bit map in its records`},
	} {
		if err := c.l.Fits(w); c.want != "" {
			wantError(t, c.want, c.want)(nil, err)
		} else if err != nil {
			t.Error(err)
		}
	}
}
