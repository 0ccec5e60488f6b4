package format

import (
	"cmp"
	"fmt"
	"math"
)

// Source is an m by k weight matrix before packing, row-major.
//
// What weights share (Weight.Shared) stands in the order of rows, and within a row
// of ascending K. Numbers of every type are given as float32, sub-scales too.
type Source struct {
	Codes  []byte    // one code per weight: m*k
	Scales []float32 // Weight.ScaleCount(m, k); with Super the integers of the groups
	Zeros  []int8    // one per scale if the format has zero points, else none
	Mins   []float32 // one per scale if the format has minimums, else none; with Super integers

	Supers    []float32 // m*k/Super super-scales if the format has two levels, else none
	SuperMins []float32 // one per super-scale if it has minimums too, else none

	Books []byte // m*k/BookGroup indices if the format has several books, else none
}

// Check reports what makes s unfit to be an m by k matrix of format w: a size,
// a forbidden code, a scale or minimum that is not finite or that its type in the
// format does not hold exactly.
func (s Source) Check(w Weight, m, k int) error {
	if err := s.CheckSizes(w, m, k); err != nil {
		return err
	}
	if i := w.FirstForbidden(s.Codes); i >= 0 {
		return forbidden(w, i/k, i%k, s.Codes[i])
	}
	for _, x := range w.Shared() {
		if err := s.checkExact(w, x, x.Elem, k); err != nil {
			return err
		}
	}
	return nil
}

// CheckSizes is the part of Check that looks at no element: each slice of s has
// the length that an m by k matrix of w asks for.
func (s *Source) CheckSizes(w Weight, m, k int) error {
	if err := checkShape(w, m, k); err != nil {
		return err
	}
	if len(s.Codes) != m*k {
		return errorf("argument codes", "has %d elements; a %d by %d matrix has %d", len(s.Codes), m, k, m*k)
	}
	want := map[string]int{}
	for _, x := range w.Shared() {
		want[x.Name] = w.Count(x, m, k)
	}
	for _, name := range PartNames[ScalesPart:] {
		if have := s.numbers(name).count(); have != want[name] {
			return errorf("argument "+name, "has %d elements; a %d by %d matrix of %s has %d", have, m, k, w, want[name])
		}
	}
	return nil
}

// checkShape holds m, k and m*k to what an int and the group size allow.
func checkShape(w Weight, m, k int) error {
	if _, ok := mulAdd(max(m, 0), max(k, 0), 0); m < 1 || k < 1 || !ok {
		return errorf(fmt.Sprintf("matrix of %d rows and %d columns", m, k), "both must be at least 1 and the product must fit an int")
	}
	if k%w.Unit() != 0 {
		return errorf(fmt.Sprintf("matrix of %d rows and %d columns", m, k), "the columns are not whole groups of %d, as weight %s needs", w.Unit(), w)
	}
	return nil
}

// checkExact: every x is finite and as elem the same number.
func (s *Source) checkExact(w Weight, x Shared, elem DType, k int) error {
	of := s.numbers(x.Name)
	i := of.unfit(x.Limit, elem)
	if i < 0 {
		return nil
	}
	switch v := of.at(i); {
	case x.Limit > 0 && int(v) >= x.Limit:
		return errorf(x.place(w.Per, i, k), "%s %v; there are %d books", x.noun, v, x.Limit)
	case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
		return errorf(x.place(w.Per, i, k), "%s %v is not finite", x.noun, v)
	case elem.Bits() == 8:
		return errorf(x.place(w.Per, i, k), "%s %v is not one of the integers of %s", x.noun, v, elem)
	default:
		return errorf(x.place(w.Per, i, k), "%s %v is not representable in %s: round it first or use f32 scales", x.noun, v, elem)
	}
}

// place names number i of a matrix of k columns: "row 3, block 2".
func (s Shared) place(per Per, i, k int) string {
	switch {
	case s.perTensor(per):
		return "tensor"
	case s.Span == 0:
		return fmt.Sprintf("row %d", i)
	}
	n := s.perRow(per, k)
	return fmt.Sprintf("row %d, block %d", i/n, i%n)
}

func forbidden(w Weight, row, col int, code byte) error {
	return errorf(fmt.Sprintf("row %d, column %d", row, col), "code %d is forbidden; weight %s has codes 0 to %d", code, w, w.Codes()-1)
}

// Pack lays an m by k matrix out as l says, PackedBytes(m, k) bytes. Rows and
// columns beyond the matrix hold code 0 and scale 0. It refuses a layout that
// does not fit the format, what Source.Check refuses, and numbers that are not
// exact in the types that l stores.
func Pack(w Weight, l *Layout, m, k int, src Source) ([]byte, error) {
	p, err := NewPacker(w, l)
	if err != nil {
		return nil, err
	}
	if err := checkShape(w, m, k); err != nil {
		return nil, err
	}
	size, err := l.PackedBytes(m, k)
	if err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	return packed, p.Pack(packed, src, m, k)
}

// Unpack is the inverse of Pack, see Packer.Unpack.
func Unpack(w Weight, l *Layout, m, k int, packed []byte) (Source, error) {
	p, err := NewPacker(w, l)
	if err != nil {
		return Source{}, err
	}
	return p.Unpack(packed, m, k)
}

// Unpack is the inverse of Pack. It refuses a buffer of the wrong size,
// codewords that no codes have, and codes and scales that Pack refuses; it does
// not look at padding.
func (all *Packer) Unpack(packed []byte, m, k int) (Source, error) {
	p, size, err := all.of(m, k)
	if err != nil {
		return Source{}, err
	}
	w, l := p.w, p.l
	if len(packed) != size {
		return Source{}, errorf("argument packed", "has %d bytes; a %d by %d matrix in this layout has %d", len(packed), m, k, size)
	}
	src := Source{Codes: make([]byte, m*k)}
	p.records(func(tile, record, at int) {
		if p.joins != nil {
			err = cmp.Or(err, p.getWords(src.Codes, packed[at:], tile, record))
			return
		}
		rows := min(l.TileM, m-tile*l.TileM)
		cols := min(l.RecordK, k-record*l.RecordK)
		for r := range rows {
			from := (tile*l.TileM+r)*k + record*l.RecordK
			p.get(src.Codes[from:from+cols], p.cells[r*l.RecordK:], packed[at:])
		}
	})
	if err != nil {
		return Source{}, err
	}
	for _, x := range p.shared {
		to := src.numbers(x.of.Name)
		to.resize(w.Count(x.of, m, k))
		p.elements(x, func(tile, first, rows int, all []element) {
			for _, e := range all {
				if e.row < rows {
					to.set(first+e.i, x.elem.Get(packed[tile+e.at:]))
				}
			}
		})
	}
	if err := src.Check(w, m, k); err != nil {
		return Source{}, err
	}
	return src, nil
}

// packer is a Packer made ready for one matrix.
type packer struct {
	*Packer
	m, k      int
	tileBytes int
}

// cell is the place of one code: its address in the tile's first record, and its field.
type cell struct{ at, field int32 }

// bitRun is a piece of a code in consecutive bits of one byte.
type bitRun struct {
	word     int32 // byte offset from the cell's address
	from, to uint8 // lowest bit in the code, in the byte
	mask     byte  // the piece's bits, moved down to bit 0
}

// places are the slots of one part that weights share.
type places struct {
	of     Shared
	slots  []slot
	elem   DType
	header bool
}

// of makes a packer for an m by k matrix, of size bytes.
func (p *Packer) of(m, k int) (of *packer, size int, err error) {
	if err := checkShape(p.w, m, k); err != nil {
		return nil, 0, err
	}
	if size, err = p.l.PackedBytes(m, k); err != nil {
		return nil, 0, err
	}
	return &packer{Packer: p, m: m, k: k, tileBytes: p.l.TileBytes(k)}, size, nil
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

// element is the place of a number in the first tile, its row and its index.
type element struct{ at, row, i int }

// elements calls f for every tile: where it begins, the index of its first number, how
// many rows of it are inside the matrix, and all numbers inside its columns.
func (p *packer) elements(x places, f func(tile, first, rows int, all []element)) {
	n, records := x.of.perRow(p.w.Per, p.k), p.l.RecordsK(p.k)
	if x.header {
		records = 1
	}
	all := make([]element, 0, records*len(x.slots))
	for record := range records {
		for _, s := range x.slots {
			e, col := element{record*p.l.RecordBytes + s.offset, s.row, s.row * n}, record*p.l.RecordK+s.k
			if x.of.Span > 0 {
				e.i += col / x.of.Span // Weight.Index
			}
			if col < p.k {
				all = append(all, e)
			}
		}
	}
	for tile := range p.l.TilesM(p.m) {
		row := tile * p.l.TileM
		f(tile*p.tileBytes, row*n, p.m-row, all)
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
