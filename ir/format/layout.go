package format

// Digit is one mixed-radix digit of a logical index. Its value is
// (index / Div) % Mod, or index / Div if Mod is 0, and it moves an address by
// Stride bytes per unit (or, among a Part's Fields, the field number by Stride).
type Digit struct {
	Axis   string `json:"axis"` // "m", "k" or "n"
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

// Part is one tensor of a packed record: codes, scales, zeros.
//
// The byte address of element (m, k) is
//
//	tile*TileBytes + record*RecordBytes + Base + sum over Digits of digit*Stride
//
// where tile = m / Layout.TileM and record = k / Layout.RecordK (parts with
// Header set lie at the start of the tile and have no record term).
// A part with Elem set stores whole elements there. A part of codes (Elem
// Invalid) stores bits: the element's field number is f = sum over Fields of
// digit*Stride, and bit i of its code is bit Map[f][i].Bit of the byte at
// address + Map[f][i].Word*WordStride.
type Part struct {
	Name       string     `json:"name"`
	Elem       DType      `json:"elem,omitempty"`
	Header     bool       `json:"header,omitempty"`
	Base       int        `json:"base"`
	Digits     []Digit    `json:"digits"`
	Fields     []Digit    `json:"fields,omitempty"`
	Map        [][]BitPos `json:"map,omitempty"`
	WordStride int        `json:"word_stride,omitempty"`
}

// Layout places every element of a packed matrix in one linear stream:
// tiles of TileM rows (for activations: TileM columns of N), each a header and
// then one record per RecordK elements of K. M and K are padded up; padding
// holds code 0 and scale 0.
type Layout struct {
	TileM       int    `json:"tile_m"`
	RecordK     int    `json:"record_k"`
	HeaderBytes int    `json:"header_bytes"`
	RecordBytes int    `json:"record_bytes"`
	Parts       []Part `json:"parts"`
}
