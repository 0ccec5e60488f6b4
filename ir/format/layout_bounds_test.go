package format

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
)

// TestPlainLayout compares plain layouts with those made by hand.
func TestPlainLayout(t *testing.T) {
	row := func(stride int) Digit { return Digit{Axis: "m", Div: 1, Mod: 16, Stride: stride} }
	k := func(div, mod, stride int) Digit { return Digit{Axis: "k", Div: div, Mod: mod, Stride: stride} }
	dense := func(bits int) [][]BitPos {
		m, _, err := DenseMap(bits, 8)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// codes are cells of 8 codes of a few bits, a cell in that number of bytes: 16 rows side by side, then the next cell.
	codes := func(base, bits, cells int) Part {
		return Part{Name: Codes, Base: base, Map: dense(bits), WordStride: 1, Digits: []Digit{row(bits), k(8, cells, 16*bits)}, Fields: []Digit{k(1, 8, 1)}}
	}
	for name, want := range map[string]*Layout{
		// 16 scales of 4 bytes; 8 cells of 16 rows of 4 bytes.
		"w4": {TileM: 16, RecordK: 64, HeaderBytes: 64, RecordBytes: 512, Parts: []Part{
			codes(64, 4, 8), {Name: Scales, Elem: F32, Header: true, Digits: []Digit{row(4)}},
		}},
		"w3-row-f16": {TileM: 16, RecordK: 64, HeaderBytes: 32, RecordBytes: 384, Parts: []Part{
			codes(32, 3, 8), {Name: Scales, Elem: F16, Header: true, Digits: []Digit{row(2)}},
		}},
		// A group of 32 has 4 cells of 16 rows of 4 bytes, 16 scales of 2 bytes and 16 zero points of 1.
		"w4-g32-z": {TileM: 16, RecordK: 32, RecordBytes: 256 + 32 + 16, Parts: []Part{
			codes(0, 4, 4), {Name: Scales, Elem: F16, Base: 256, Digits: []Digit{row(2)}}, {Name: Zeros, Elem: I8, Base: 288, Digits: []Digit{row(1)}},
		}},
		// A super-block of 64 has 4 groups of 16: of each, 16 integers of 1 byte; and 16 super-scales of 2 bytes.
		"w2-g16-s64": {TileM: 16, RecordK: 64, RecordBytes: 256 + 64 + 32, Parts: []Part{
			codes(0, 2, 8), {Name: Scales, Elem: U8, Base: 256, Digits: []Digit{row(1), k(16, 4, 16)}}, {Name: Supers, Elem: F16, Base: 320, Digits: []Digit{row(2)}},
		}},
	} {
		w := lookup(t, name)
		have := PlainLayout(w)
		if err := have.Fits(w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s:\nhave %+v\nwant %+v", name, have, want)
		}
	}
}

// TestPlainLayouts: the plain layouts of all formats hold them, leave no byte free and pack as any other.
func TestPlainLayouts(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for _, name := range append(Names(), "w2-tensor", "w3-g16-s64-m", "w4-g32-s64-i8-z", "w4-g32-bf16-m", "cb4x16-g64-b16", "ternary-g32") {
		w := lookup(t, name)
		l := PlainLayout(w)
		if err := l.Fits(w); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		header, record := 0, 16*l.RecordK*w.Bits/8
		for _, x := range w.Shared() {
			if x.Span == 0 {
				header += 16 * x.Elem.Bytes()
			} else {
				record += 16 * l.RecordK / x.Span * x.Elem.Bytes()
			}
		}
		if l.HeaderBytes != header || l.RecordBytes != record {
			t.Errorf("%s: a header of %d bytes and records of %d, want %d and %d", name, l.HeaderBytes, l.RecordBytes, header, record)
		}
		m, k := 33, 2*l.RecordK
		src := randomSource(w, m, k, rng)
		for i := range src.Books {
			src.Books[i] = byte(rng.Intn(w.Books))
		}
		packed, err := Pack(w, l, m, k, src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkPacked(t, packCase{w, l}, m, k, src, packed)
	}
}

// TestMapLimits has the longest maps, and the ones that are too long.
func TestMapLimits(t *testing.T) {
	for _, c := range []struct {
		bits, fields int
		want         string
	}{
		{1, 8, ""},
		{8, 1, ""},
		{8, 4096, ""},
		{1, 4096, ""},
		{8, 4097, "fields must be 1 to 4096"},
		{8, 0, "fields must be 1 to 4096"},
		{0, 8, "bits must be 1 to 8"},
		{9, 8, "bits must be 1 to 8"},
		{1, 4, "use a multiple of 8 fields"},
		{2, 2, "use a multiple of 4 fields"},
		{6, 2, "use a multiple of 4 fields"},
		{4, 3, "use a multiple of 2 fields"},
	} {
		m, words, err := DenseMap(c.bits, c.fields)
		if c.want != "" {
			wantError(t, fmt.Sprint(c), c.want)(nil, err)
			continue
		}
		if err != nil || len(m) != c.fields || words != c.bits*c.fields/8 {
			t.Errorf("%d bits, %d fields: %d in %d words, %v", c.bits, c.fields, len(m), words, err)
		}
	}
}

// TestPlaneMap: bit 0 of 16 codes fills words 0 and 1, bit 1 words 2 and 3.
func TestPlaneMap(t *testing.T) {
	m := PlaneMap(2, 16)
	for f, want := range map[int][]BitPos{0: {{0, 0}, {2, 0}}, 7: {{0, 7}, {2, 7}}, 8: {{1, 0}, {3, 0}}, 15: {{1, 7}, {3, 7}}} {
		if !reflect.DeepEqual(m[f], want) {
			t.Errorf("field %d is at %v, want %v", f, m[f], want)
		}
	}
}
