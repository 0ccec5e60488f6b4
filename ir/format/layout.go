package format

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Digit is one mixed-radix digit of a logical index. Its value is
// (index / Div) % Mod, or index / Div if Mod is 0, and it moves an address by
// Stride bytes per unit (or, among a Part's Fields, the field number by Stride).
// With In, the index counts from 0 again after every In, which Div need not divide.
type Digit struct {
	Axis   string `json:"axis"` // "m", "k" or "n"
	In     int    `json:"in,omitempty"`
	Div    int    `json:"div"`
	Mod    int    `json:"mod"`
	Stride int    `json:"stride"`
}

// BitPos is where one bit of a code lies: word Word of its cell, bit Bit
// (0 is the least significant of the byte).
type BitPos struct {
	Word int `json:"word"`
	Bit  int `json:"bit"`
}

// Part is one tensor of a packed record: codes, or what weights share (Weight.Shared).
//
// The byte address of element (m, k) is
//
//	tile*TileBytes + record*RecordBytes + Base + sum over Digits of digit*Stride
//
// where tile = m / Layout.TileM and record = k / Layout.RecordK (parts with
// Header set lie at the start of the tile and have no record term). Base counts
// from the start of the tile: for a part in the records it includes HeaderBytes.
// As m and k count over the whole matrix, every digit has a Mod, and Div*Mod, or In,
// divides TileM or RecordK (see Layout.Validate).
// A part with Elem set stores whole elements there. A part of codes (Elem
// Invalid) stores bits: the element's field number is f = sum over Fields of
// digit*Stride, and bit i of its code is bit Map[f][i].Bit of the byte at
// address + Map[f][i].Word*WordStride. With Codewords, these are the bits of
// codeword f/Join, Map[f/Join], in which the code is number f%Join.
type Part struct {
	Name       string     `json:"name"`
	Elem       DType      `json:"elem,omitempty"`
	Header     bool       `json:"header,omitempty"`
	Base       int        `json:"base"`
	Digits     []Digit    `json:"digits"`
	Fields     []Digit    `json:"fields,omitempty"`
	Map        [][]BitPos `json:"map,omitempty"`
	WordStride int        `json:"word_stride,omitempty"`
	Codewords  *Codewords `json:"codewords,omitempty"`
}

// Layout places every element of a packed matrix in one linear stream:
// tiles of TileM rows (for activations: TileM columns of N), each a header and
// then one record per RecordK elements of K. M and K are padded up; padding
// holds code 0 (of codewords, the one of codes that are 0) and scale 0.
type Layout struct {
	TileM       int    `json:"tile_m"`
	RecordK     int    `json:"record_k"`
	HeaderBytes int    `json:"header_bytes"`
	RecordBytes int    `json:"record_bytes"`
	Parts       []Part `json:"parts"`
}

// Bounds on a Layout, so that a hostile one costs little to refuse.
const (
	maxRecordElems = 1 << 20 // TileM * RecordK
	maxTileBytes   = 1 << 22 // HeaderBytes and RecordBytes, each
	maxParts       = 16
	maxDigits      = 32
	maxFields      = 1 << 12
)

// At is the value of d for a logical index.
func (d Digit) At(index int) int {
	if d.In != 0 {
		index %= d.In
	}
	v := index / d.Div
	if d.Mod != 0 {
		v %= d.Mod
	}
	return v
}

// String is how At finds the value: k/4%5, with In k%256/4%5.
func (d Digit) String() string {
	in := ""
	if d.In != 0 {
		in = fmt.Sprintf("%%%d", d.In)
	}
	return fmt.Sprintf("%s%s/%d%%%d", d.Axis, in, d.Div, d.Mod)
}

func sumDigits(digits []Digit, row, k int) int {
	sum := 0
	for _, d := range digits {
		index := row
		if d.Axis == "k" {
			index = k
		}
		sum += d.At(index) * d.Stride
	}
	return sum
}

// Offset is where element (row, k) lies within its tile's first record (or,
// for a Header part, within its tile): Base + the sum over Digits.
func (p *Part) Offset(row, k int) int { return p.Base + sumDigits(p.Digits, row, k) }

// Field is the field number of element (row, k).
func (p *Part) Field(row, k int) int { return sumDigits(p.Fields, row, k) }

// Part is the part of that name, or nil.
func (l *Layout) Part(name string) *Part {
	for i := range l.Parts {
		if l.Parts[i].Name == name {
			return &l.Parts[i]
		}
	}
	return nil
}

// RecordsK is the number of records that hold k elements of K.
func (l *Layout) RecordsK(k int) int { return k/l.RecordK + min(k%l.RecordK, 1) }

// TilesM is the number of tiles that hold m rows.
func (l *Layout) TilesM(m int) int { return m/l.TileM + min(m%l.TileM, 1) }

// TileBytes is the size of one tile of k columns. It may overflow for sizes
// that PackedBytes refuses.
func (l *Layout) TileBytes(k int) int { return l.HeaderBytes + l.RecordsK(k)*l.RecordBytes }

// PackedBytes is the size of a packed m by k matrix, padding included. Sizes
// below 1 and sizes whose bytes an int does not hold are errors.
func (l *Layout) PackedBytes(m, k int) (int, error) {
	if m < 1 || k < 1 {
		return 0, errorf("layout", "a matrix of %d rows and %d columns; both must be at least 1", m, k)
	}
	tile, ok1 := mulAdd(l.RecordsK(k), l.RecordBytes, l.HeaderBytes)
	total, ok2 := mulAdd(l.TilesM(m), tile, 0)
	if !ok1 || !ok2 {
		return 0, errorf("layout", "a matrix of %d rows and %d columns is too large to address", m, k)
	}
	return total, nil
}

// mulAdd is a*b+c for numbers that are not negative, and whether an int holds it.
func mulAdd(a, b, c int) (int, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c), 0)
	return int(lo), hi == 0 && carry == 0 && lo <= math.MaxInt
}

// MostTiles bounds the tiles of a layout that a call of a kernel has side by side.
const MostTiles = 16

// Address is the byte address of element (row, k) of a part of l in a packed
// matrix whose tiles have tileBytes bytes (TileBytes of its K), as the comment
// of Part defines it.
func (l *Layout) Address(p *Part, row, k, tileBytes int) int {
	at := row/l.TileM*tileBytes + p.Offset(row, k)
	if !p.Header {
		at += k / l.RecordK * l.RecordBytes
	}
	return at
}

// BitAddress is the byte address and the bit number (0 is the least
// significant) of one bit of the code of element (row, k), or of the codeword
// that it is in.
func (l *Layout) BitAddress(p *Part, row, k, bit, tileBytes int) (at, shift int) {
	word, _ := p.Place(p.Field(row, k))
	pos := p.Map[word][bit]
	return l.Address(p, row, k, tileBytes) + pos.Word*p.WordStride, pos.Bit
}

// Hash identifies a layout: 16 hexadecimal digits, the first 64 bits of the
// SHA-256 of its JSON form. Equal layouts have equal hashes on every machine.
func (l *Layout) Hash() string {
	c := *l
	c.Parts = slices.Clone(l.Parts)
	for i := range c.Parts {
		c.Parts[i].Digits = slices.Concat([]Digit{}, c.Parts[i].Digits) // nil and empty are the same layout
	}
	c.Parts = slices.Concat([]Part{}, c.Parts)
	text, err := json.Marshal(&c)
	if err != nil {
		panic("BUG: format: layout does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// UnmarshalJSON reads a layout. It refuses fields that are unknown or there twice, and
// what Validate refuses.
func (l *Layout) UnmarshalJSON(data []byte) error {
	type fields Layout // without methods
	var f fields
	if err := UnmarshalStrict(data, &f); err != nil {
		return errorf("layout", "%v", err)
	}
	read := Layout(f)
	if err := read.Validate(); err != nil {
		return err
	}
	*l = read
	return nil
}

// DenseMap is the bit map that packs fields codes of bits bits each into
// words of 8 bits without a gap; fields*bits must be a multiple of 8. Each word
// holds the 8/bits whole fields that fit, from bit 0 upward. The bits left over,
// word by word and from bit 7 downward, are strung together, most significant
// first, into the remaining fields.
//
//	bits 3, fields 8:   word 0   6.2 6.1  1.2 1.1 1.0  0.2 0.1 0.0     field.bit, bit 7 first
//	                    word 1   6.0 7.2  3.2 3.1 3.0  2.2 2.1 2.0
//	                    word 2   7.1 7.0  5.2 5.1 5.0  4.2 4.1 4.0
func DenseMap(bits, fields int) (m [][]BitPos, words int, err error) {
	thing := fmt.Sprintf("dense map of %d fields of %d bits", fields, bits)
	switch {
	case bits < 1 || bits > 8:
		return nil, 0, errorf(thing, "bits must be 1 to 8")
	case fields < 1 || fields > maxFields:
		return nil, 0, errorf(thing, "fields must be 1 to %d", maxFields)
	case fields*bits%8 != 0:
		return nil, 0, errorf(thing, "does not fill words of 8 bits; use a multiple of %d fields", 8/(bits&-bits))
	}
	words = fields * bits / 8
	whole := 8 / bits
	var rest []BitPos
	for w := range words {
		for i := range whole {
			m = append(m, run(w, i*bits, bits))
		}
		for b := 7; b >= whole*bits; b-- {
			rest = append(rest, BitPos{w, b})
		}
	}
	for ; len(rest) > 0; rest = rest[bits:] {
		code := slices.Clone(rest[:bits])
		slices.Reverse(code) // the first is the most significant
		m = append(m, code)
	}
	return m, words, nil
}

// run is a code in consecutive bits of one word.
func run(word, bit, bits int) []BitPos {
	code := make([]BitPos, bits)
	for i := range code {
		code[i] = BitPos{word, bit + i}
	}
	return code
}

// PlaneMap is the bit map of bit planes: bit i of the codes of all fields, a multiple
// of 8, lies together. Word i*fields/8 + f/8, bit f%8, is bit i of field f.
func PlaneMap(bits, fields int) [][]BitPos {
	m := make([][]BitPos, fields)
	for f := range m {
		for i := range bits {
			m[f] = append(m[f], BitPos{Word: i*fields/8 + f/8, Bit: f % 8})
		}
	}
	return m
}

// PlainLayout is a packed layout for products without kernels: tiles of 16 rows,
// records of 64 elements of K, one group or one super-block, 8 elements of a row to a cell.
func PlainLayout(w Weight) *Layout {
	const rows, cell = 16, 8
	bits, words, err := DenseMap(w.Bits, cell)
	if err != nil {
		panic("BUG: format: " + err.Error())
	}
	l := &Layout{TileM: rows, RecordK: 64}
	if w.Unit() > 1 {
		l.RecordK = w.Unit()
	}
	row := func(stride int) Digit { return Digit{Axis: "m", Div: 1, Mod: rows, Stride: stride} }
	codes := Part{
		Name: Codes, Map: bits, WordStride: 1,
		Digits: []Digit{row(words), {Axis: "k", Div: cell, Mod: l.RecordK / cell, Stride: rows * words}},
		Fields: []Digit{{Axis: "k", Div: 1, Mod: cell, Stride: 1}},
	}
	l.RecordBytes = rows * words * l.RecordK / cell
	for _, x := range w.Shared() {
		p := Part{Name: x.Name, Elem: x.Elem, Base: l.HeaderBytes + l.RecordBytes, Digits: []Digit{row(x.Elem.Bytes())}}
		size := rows * x.Elem.Bytes()
		if x.Span == 0 {
			p.Header, p.Base = true, 0
			l.HeaderBytes, codes.Base = size, size
		} else {
			if n := l.RecordK / x.Span; n > 1 {
				p.Digits = append(p.Digits, Digit{Axis: "k", Div: x.Span, Mod: n, Stride: size})
			}
			l.RecordBytes += size * (l.RecordK / x.Span)
		}
		l.Parts = append(l.Parts, p)
	}
	l.Parts = append([]Part{codes}, l.Parts...)
	return l
}
