package format

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Source is an m by k weight matrix before packing, row-major.
type Source struct {
	Codes  []byte    // one code per weight: m*k
	Scales []float32 // Weight.ScaleCount(m, k), groups of a row ascending
	Zeros  []int8    // as many as Scales if the format has zero points, else none
}

// Check reports what makes s unfit to be an m by k matrix of format w: a size,
// a forbidden code, a scale that is not finite or that the format's scale type
// does not hold exactly.
func (s Source) Check(w Weight, m, k int) error {
	if err := checkShape(w, m, k); err != nil {
		return err
	}
	scales, zeros := w.ScaleCount(m, k), 0
	if w.Zero {
		zeros = scales
	}
	switch {
	case len(s.Codes) != m*k:
		return errorf("argument codes", "has %d elements; a %d by %d matrix has %d", len(s.Codes), m, k, m*k)
	case len(s.Scales) != scales:
		return errorf("argument scales", "has %d elements; a %d by %d matrix of %s has %d", len(s.Scales), m, k, w, scales)
	case len(s.Zeros) != zeros:
		return errorf("argument zeros", "has %d elements; a %d by %d matrix of %s has %d", len(s.Zeros), m, k, w, zeros)
	}
	if len(w.Levels) < 256 {
		for i, c := range s.Codes {
			if int(c) >= len(w.Levels) {
				return forbidden(w, i/k, i%k, c)
			}
		}
	}
	return s.checkScales(w, k, w.Scale)
}

// checkShape holds m, k and m*k to what an int and the group size allow.
func checkShape(w Weight, m, k int) error {
	if _, ok := mulAdd(max(m, 0), max(k, 0), 0); m < 1 || k < 1 || !ok {
		return errorf(fmt.Sprintf("matrix of %d rows and %d columns", m, k), "both must be at least 1 and the product must fit an int")
	}
	if w.Per == PerGroup && k%w.Group != 0 {
		return errorf(fmt.Sprintf("matrix of %d rows and %d columns", m, k), "the columns are not whole groups of %d, as weight %s needs", w.Group, w)
	}
	return nil
}

func (s Source) checkScales(w Weight, k int, as DType) error {
	for i, v := range s.Scales {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return errorf(w.scaleName(i, k), "scale %v is not finite", v)
		}
		if as != F16 {
			continue
		}
		if _, ok := halfExact(v); !ok {
			return errorf(w.scaleName(i, k), "scale %v is not representable in f16: round it first or use f32 scales", v)
		}
	}
	return nil
}

// scaleName names scale i of a matrix of k columns: "row 3, block 2".
func (w Weight) scaleName(i, k int) string {
	switch w.Per {
	case PerTensor:
		return "tensor"
	case PerRow:
		return fmt.Sprintf("row %d", i)
	}
	groups := k / w.Group
	return fmt.Sprintf("row %d, block %d", i/groups, i%groups)
}

func forbidden(w Weight, row, col int, code byte) error {
	return errorf(fmt.Sprintf("row %d, column %d", row, col), "code %d is forbidden; weight %s has codes 0 to %d", code, w, len(w.Levels)-1)
}

// Pack lays an m by k matrix out as l says, PackedBytes(m, k) bytes. Rows and
// columns beyond the matrix hold code 0 and scale 0. It refuses a layout that
// does not fit the format and what Source.Check refuses.
func Pack(w Weight, l *Layout, m, k int, src Source) ([]byte, error) {
	p, size, err := newPacker(w, l, m, k)
	if err != nil {
		return nil, err
	}
	if err := src.Check(w, m, k); err != nil {
		return nil, err
	}
	if err := src.checkScales(w, k, l.Part(Scales).Elem); err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	p.records(func(tile, record, at int) {
		rows := min(l.TileM, m-tile*l.TileM)
		cols := min(l.RecordK, k-record*l.RecordK)
		for r := range rows {
			from := (tile*l.TileM+r)*k + record*l.RecordK
			p.put(packed[at:], p.cells[r*l.RecordK:], src.Codes[from:from+cols])
		}
	})
	p.elements(p.scales, func(at, i int) { putScale(packed[at:], p.scales.elem, src.Scales[i]) })
	p.elements(p.zeros, func(at, i int) { packed[at] = byte(src.Zeros[i]) })
	return packed, nil
}

// Unpack is the inverse of Pack. It refuses a buffer of the wrong size and
// codes and scales that Pack refuses; it does not look at padding.
func Unpack(w Weight, l *Layout, m, k int, packed []byte) (Source, error) {
	p, size, err := newPacker(w, l, m, k)
	if err != nil {
		return Source{}, err
	}
	if len(packed) != size {
		return Source{}, errorf("argument packed", "has %d bytes; a %d by %d matrix in this layout has %d", len(packed), m, k, size)
	}
	src := Source{Codes: make([]byte, m*k), Scales: make([]float32, w.ScaleCount(m, k))}
	if w.Zero {
		src.Zeros = make([]int8, len(src.Scales))
	}
	p.records(func(tile, record, at int) {
		rows := min(l.TileM, m-tile*l.TileM)
		cols := min(l.RecordK, k-record*l.RecordK)
		for r := range rows {
			from := (tile*l.TileM+r)*k + record*l.RecordK
			p.get(src.Codes[from:from+cols], p.cells[r*l.RecordK:], packed[at:])
		}
	})
	p.elements(p.scales, func(at, i int) { src.Scales[i] = getScale(packed[at:], p.scales.elem) })
	p.elements(p.zeros, func(at, i int) { src.Zeros[i] = int8(packed[at]) })
	if err := src.Check(w, m, k); err != nil {
		return Source{}, err
	}
	return src, nil
}

func putScale(to []byte, elem DType, v float32) {
	if elem == F16 {
		binary.LittleEndian.PutUint16(to, HalfFromFloat32(v))
		return
	}
	binary.LittleEndian.PutUint32(to, math.Float32bits(v))
}

func getScale(from []byte, elem DType) float32 {
	if elem == F16 {
		return HalfToFloat32(binary.LittleEndian.Uint16(from))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(from))
}

// packer is a Layout made ready for one matrix: where each code of a tile's
// record lies, as tables.
type packer struct {
	w         Weight
	l         *Layout
	m, k      int
	tileBytes int
	cells     []cell     // TileM by RecordK
	fields    [][]bitRun // by field: the pieces of its code
	scales    places
	zeros     places
}

// cell is the place of one code: its address in the tile's first record, and its field.
type cell struct{ at, field int32 }

// bitRun is a piece of a code in consecutive bits of one byte.
type bitRun struct {
	word     int32 // byte offset from the cell's address
	from, to uint8 // lowest bit in the code, in the byte
	mask     byte  // the piece's bits, moved down to bit 0
}

// places are the slots of one part of scales or zero points.
type places struct {
	slots  []slot
	elem   DType
	header bool
}

func newPacker(w Weight, l *Layout, m, k int) (p *packer, size int, err error) {
	if err := l.Fits(w); err != nil {
		return nil, 0, err
	}
	if err := checkShape(w, m, k); err != nil {
		return nil, 0, err
	}
	if size, err = l.PackedBytes(m, k); err != nil {
		return nil, 0, err
	}
	codes := l.Part(Codes)
	p = &packer{w: w, l: l, m: m, k: k, tileBytes: l.TileBytes(k), cells: make([]cell, l.TileM*l.RecordK)}
	for i := range p.cells {
		row, col := i/l.RecordK, i%l.RecordK
		p.cells[i] = cell{int32(codes.Offset(row, col)), int32(codes.Field(row, col))}
	}
	for _, code := range codes.Map {
		p.fields = append(p.fields, bitRuns(code, codes.WordStride))
	}
	p.scales = l.places(w, Scales)
	p.zeros = l.places(w, Zeros)
	return p, size, nil
}

func (l *Layout) places(w Weight, name string) places {
	p := l.Part(name)
	if p == nil {
		return places{}
	}
	return places{l.scaleSlots(w, p), p.Elem, p.Header}
}

// bitRuns joins neighbouring bits of a code that stay neighbours in their byte.
func bitRuns(code []BitPos, stride int) []bitRun {
	var runs []bitRun
	for i, b := range code {
		if n := len(runs); i > 0 && b.Word == code[i-1].Word && b.Bit == code[i-1].Bit+1 {
			runs[n-1].mask = runs[n-1].mask<<1 | 1
			continue
		}
		runs = append(runs, bitRun{word: int32(b.Word * stride), from: uint8(i), to: uint8(b.Bit), mask: 1})
	}
	return runs
}

// records calls f for every record that holds part of the matrix. at is what
// the record adds to the address of an element of the first record of tile 0.
func (p *packer) records(f func(tile, record, at int)) {
	for tile := range p.l.TilesM(p.m) {
		for record := range p.l.RecordsK(p.k) {
			f(tile, record, tile*p.tileBytes+record*p.l.RecordBytes)
		}
	}
}

// elements calls f for every slot inside the matrix, with its address and the
// index of its scale.
func (p *packer) elements(places places, f func(at, i int)) {
	if len(places.slots) == 0 {
		return
	}
	p.records(func(tile, record, at int) {
		if places.header {
			at = tile * p.tileBytes
			if record > 0 {
				return
			}
		}
		for _, s := range places.slots {
			row, col := tile*p.l.TileM+s.row, record*p.l.RecordK+s.k
			if row < p.m && col < p.k {
				f(at+s.offset, p.w.ScaleIndex(row, col, p.k))
			}
		}
	})
}

// put stores codes of consecutive columns of one row into zeroed bits.
func (p *packer) put(to []byte, cells []cell, codes []byte) {
	cells = cells[:len(codes)]
	for i, c := range codes {
		for _, r := range p.fields[cells[i].field] {
			to[cells[i].at+r.word] |= (c >> r.from & r.mask) << r.to
		}
	}
}

func (p *packer) get(codes []byte, cells []cell, from []byte) {
	cells = cells[:len(codes)]
	for i := range codes {
		var c byte
		for _, r := range p.fields[cells[i].field] {
			c |= from[cells[i].at+r.word] >> r.to & r.mask << r.from
		}
		codes[i] = c
	}
}
