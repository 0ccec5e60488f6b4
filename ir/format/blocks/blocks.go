// Package blocks reads the block types of GGUF tensors into codes and scales. A
// block type is one row of a table (types.go): which weight format it holds and
// where each bit lies.
package blocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Error is a caller's fault: the thing that is wrong and the problem.
type Error struct {
	Thing   string // "type Q8_K", "row 3, block 7", "argument data"
	Problem string
}

func (e *Error) Error() string { return "blocks: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// Block is a block type.
type Block struct {
	Type   string // as in GGUF; of one with several layouts, after a colon, which
	Weight string // the format it holds, for format.Lookup
	Values int    // of a row, per block
	Bytes  int    // per block
	Rows   int    // that a block has Values of each of, one row after the other; 0: 1
	Tail   int    // bytes after the last block; if the format has one scale per tensor they begin with it, in f32

	// How the codes of a block are stored: each at its own place, or three
	// levels' by fives in a byte, or as entries of a grid.
	Codes field // of element i; the code is these bits XOR Flip
	Flip  byte
	Trits []trits
	Grid  *grid

	// What weights share: of group i of the block, and of its super-block. If the
	// format has one level of scales where the block has two, the scale is
	// Super * Scale * Unit, exact in f32.
	Scale, Min, Super, SuperMin number
	Unit                        float32
}

// Types lists the block types that Read reads.
func Types() []string {
	names := make([]string, len(table))
	for i, b := range table {
		names[i] = b.Type
	}
	return names
}

// Lookup is the block type of a GGUF type name, such as "Q4_0".
func Lookup(typeName string) (Block, error) {
	for _, b := range table {
		if b.Type == typeName {
			return b, nil
		}
	}
	return Block{}, errorf("type "+typeName, "is not one that can be read as codes and scales; there are %s", strings.Join(Types(), " "))
}

// UsualAct says how int8 activations of products with w are quantized unless somebody wants it otherwise. Weights that no
// block type reads have one scale for each row of activations. Those that one reads have the groups of ggml's Q8_K, 256
// elements of K, or of its Q8_0, 32 elements, or less if groups of weights are smaller. Where scales and minimums of
// groups under 32 would take longer than the dot products, the groups have 256 elements, too.
// Figures: docs/lab/choices.md, UsualAct.
func UsualAct(w format.Weight) format.Act {
	switch {
	case w.Per != format.PerGroup || !slices.ContainsFunc(table, func(b Block) bool { return b.Weight == w.Name }):
		return format.Act{}
	case w.Group%256 == 0, w.Group < 32 && w.Min && w.Super%256 == 0:
		return format.Act{Group: 256}
	}
	return format.Act{Group: min(32, w.Group)}
}

// Product is the format of weights in a GGUF type, and how activations of products with them are usually quantized. It is an error if
// the type is none of blocks.
func Product(typeName string) (format.Weight, format.Act, error) {
	b, err := Lookup(typeName)
	if err != nil {
		return format.Weight{}, format.Act{}, err
	}
	w, err := format.Lookup(b.Weight)
	return w, UsualAct(w), err
}

// Layouts are the block types of a GGUF type name: as a rule one. I2_S
// has several, and a file does not say which it uses.
func Layouts(typeName string) []Block {
	var all []Block
	for _, b := range table {
		if name, _, _ := strings.Cut(b.Type, ":"); name == typeName {
			all = append(all, b)
		}
	}
	return all
}

// Size is the number of bytes of an m by k matrix. A row must be whole blocks.
func (b Block) Size(m, k int) (int, error) {
	thing := fmt.Sprintf("%s matrix of %d rows and %d columns", b.Type, m, k)
	rows := max(b.Rows, 1)
	switch {
	case m < 1 || k < 1 || m > (math.MaxInt-b.Tail)/b.Bytes/k:
		return 0, errorf(thing, "both must be at least 1 and the product must fit an int")
	case k%b.Values != 0:
		return 0, errorf(thing, "the columns are not whole blocks of %d%s", b.Values, b.others())
	case m%rows != 0:
		return 0, errorf(thing, "the rows are not whole blocks of %d%s", rows, b.others())
	}
	return m/rows*(k/b.Values)*b.Bytes + b.Tail, nil
}

// CheckSize holds the length of data to what a matrix of m rows and k columns has.
func (b Block) CheckSize(data []byte, m, k int) error {
	size, err := b.Size(m, k)
	if err == nil && len(data) != size {
		return errorf("argument data", "has %d bytes; a %s matrix of %d rows and %d columns has %d", len(data), b.Type, m, k, size)
	}
	return err
}

// others names the other layouts of b's type, for an error that the matrix does
// not fit this one.
func (b Block) others() string {
	name, _, _ := strings.Cut(b.Type, ":")
	var others []string
	for _, o := range Layouts(name) {
		if o.Type != b.Type {
			others = append(others, o.Type)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "; if it was written in another layout, read it as " + strings.Join(others, " or ")
}

// Read is the matrix of m rows of k weights that data holds in blocks of a GGUF
// type: its format, and its codes and scales, ready for format.Pack. What the
// weights dequantize to has the bits that ggml makes of them. A forbidden code
// and a scale that is not finite are errors that name row and block.
func Read(typeName string, data []byte, m, k int) (format.Weight, format.Source, error) {
	return ReadRows(typeName, data, m, k, 0, m)
}

// ReadRows is Read of the rows from lo up to hi, a matrix of their own. Both are
// multiples of the type's Rows.
func ReadRows(typeName string, data []byte, m, k, lo, hi int) (format.Weight, format.Source, error) {
	b, err := Lookup(typeName)
	if err == nil {
		err = b.CheckSize(data, m, k)
	}
	if err != nil {
		return format.Weight{}, format.Source{}, err
	}
	r, err := NewReader(typeName, bytes.NewReader(data), m, k)
	if err != nil {
		return format.Weight{}, format.Source{}, err
	}
	src, err := r.Rows(lo, hi)
	if err != nil {
		return format.Weight{}, format.Source{}, err
	}
	return r.w, src, nil
}

// Reader reads a matrix in the blocks of a GGUF type, some rows at a time. It keeps its memory from one call to the next.
type Reader struct {
	reader
	from   io.ReaderAt
	m      int
	decode func(codes, block []byte) // of blocks of one row
	lines  places                    // of blocks of several rows
}

// NewReader makes a Reader of the matrix of m rows of k weights that begins at offset 0 of from.
func NewReader(typeName string, from io.ReaderAt, m, k int) (*Reader, error) {
	b, err := Lookup(typeName)
	if err == nil {
		_, err = b.Size(m, k)
	}
	if err != nil {
		return nil, err
	}
	r := &Reader{reader: reader{Block: b, w: b.weight(), k: k, tail: make([]byte, b.Tail)}, from: from, m: m}
	if b.Rows > 1 {
		r.lines = r.rowPlaces(b.Rows, k/b.Values)
	} else {
		r.decode = r.decoder()
	}
	return r, nil
}

// Weight is the format of the weights.
func (r *Reader) Weight() format.Weight { return r.w }

// Rows is the rows from lo up to hi as ReadRows gives them. They hold until the next call.
func (r *Reader) Rows(lo, hi int) (format.Source, error) {
	rows := max(r.Block.Rows, 1)
	if lo < 0 || lo >= hi || hi > r.m || lo%rows != 0 || hi%rows != 0 {
		return format.Source{}, errorf("argument lo", "rows %d to %d of %d; both must be multiples of %d", lo, hi, r.m, rows)
	}
	line := r.k / r.Values * r.Bytes // in bytes, of the rows that share a block
	r.lo, r.data, r.src.Codes = lo, grow(r.data, (hi-lo)/rows*line), grow(r.src.Codes, (hi-lo)*r.k)
	if err := r.read(r.data, int64(lo/rows)*int64(line)); err != nil {
		return format.Source{}, err
	}
	if err := r.read(r.tail, int64(r.m/rows)*int64(line)); err != nil {
		return format.Source{}, err
	}
	if err := r.codes(rows); err != nil {
		return format.Source{}, err
	}
	if err := r.shared(); err != nil {
		return format.Source{}, err
	}
	return r.src, nil
}

// read fills to with the bytes at an offset.
func (r *Reader) read(to []byte, at int64) error {
	if len(to) == 0 {
		return nil
	}
	if n, err := r.from.ReadAt(to, at); n < len(to) {
		return errorf("data", "reading %d bytes at %d: %v", len(to), at, err)
	}
	return nil
}

// grow makes a slice of n elements of s, with old contents or none.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// weight is the format that b holds.
func (b Block) weight() format.Weight {
	w, err := format.Lookup(b.Weight)
	if err != nil {
		panic("BUG: blocks: " + b.Type + ": " + err.Error())
	}
	return w
}

// reader reads rows of one matrix.
type reader struct {
	Block
	w    format.Weight
	k    int
	lo   int    // the first row
	data []byte // the blocks
	tail []byte
	src  format.Source

	supers []float32 // that fold multiplies with
}

// name names block i.
func (r *reader) name(i int) string {
	perRow := r.k / r.Values
	return fmt.Sprintf("row %d, block %d", r.lo+i/perRow*max(r.Rows, 1), i%perRow)
}

// codes reads the codes of all blocks, each of some rows.
func (r *Reader) codes(rows int) error {
	perRow := r.k / r.Values
	if rows == 1 {
		for i := range len(r.data) / r.Bytes {
			r.decode(r.src.Codes[i*r.Values:][:r.Values], r.data[i*r.Bytes:][:r.Bytes])
		}
	} else { // all blocks of some rows at a time, so that neighbours of a row are
		for i := range len(r.data) / r.Bytes / perRow {
			r.lines.codes(r.src.Codes[i*rows*r.k:][:rows*r.k], r.data[i*perRow*r.Bytes:][:perRow*r.Bytes], r.Flip)
		}
	}
	if i := r.w.FirstForbidden(r.src.Codes); i >= 0 {
		row, col := i/r.k, i%r.k
		block, element := row/rows*perRow+col/r.Values, row%rows*r.Values+col%r.Values
		return errorf(r.name(block), "element %d has code %d, which %s forbids; codes are 0 to %d", element, r.src.Codes[i], r.Type, r.w.Codes()-1)
	}
	return nil
}

// decoder makes the function that reads the codes of one block of one row.
func (r *reader) decoder() func(codes, block []byte) {
	switch {
	case r.Grid != nil:
		return r.Grid.decoder(r.Values)
	case r.Trits != nil:
		return func(codes, block []byte) {
			for _, t := range r.Trits {
				codes = t.decode(codes, block)
			}
		}
	}
	at := r.Codes.places(r.Values)
	at.forCodes()
	return func(codes, block []byte) { at.codes(codes, block, r.Flip) }
}

// rowPlaces lists where the codes of `rows` whole rows lie in their blocks.
func (r *reader) rowPlaces(rows, perRow int) places {
	one, all := r.Codes.places(r.Values*rows), places{}
	for _, x := range one.pieces {
		at := make([]int32, 0, rows*r.k)
		for row := range rows {
			for i := range perRow {
				for _, bit := range x.at[row*r.Values:][:r.Values] {
					at = append(at, bit+int32(8*i*r.Bytes))
				}
			}
		}
		all.pieces = append(all.pieces, placed{at: at, width: x.width, shift: x.shift, lines: linesOf(at)})
	}
	return all
}

// shared reads what weights share.
func (r *reader) shared() error {
	w, src := r.w, &r.src
	if w.Per == format.PerTensor {
		src.Scales = []float32{math.Float32frombits(binary.LittleEndian.Uint32(r.tail))}
		if !finite(src.Scales[0]) {
			return errorf("tensor", "scale %v is not finite", src.Scales[0])
		}
		return nil
	}
	for _, x := range []struct {
		has  bool
		of   number
		span int // weights of a row that share one
		noun string
		to   *[]float32
	}{
		{true, r.Scale, w.Group, "scale", &src.Scales},
		{w.Min, r.Min, w.Group, "minimum", &src.Mins},
		{w.Super > 0, r.Super, w.Super, "super-scale", &src.Supers},
		{w.Super > 0 && w.Min, r.SuperMin, w.Super, "super-minimum", &src.SuperMins},
	} {
		if !x.has {
			continue
		}
		var err error
		if *x.to, err = r.numbers(*x.to, x.of, r.Values/x.span, x.noun); err != nil {
			return err
		}
	}
	return r.fold()
}

// fold multiplies two levels of scales where the format has one.
func (r *reader) fold() error {
	if r.w.Super > 0 || r.Super.bits == nil {
		return nil
	}
	var err error
	if r.supers, err = r.numbers(r.supers, r.Super, 1, "scale"); err != nil {
		return err
	}
	groups := r.Values / r.w.Group
	for i := range r.src.Scales {
		r.src.Scales[i] *= r.supers[i/groups] * r.Unit
	}
	return nil
}

// numbers reads count numbers of each block, into the memory of all if that is enough.
func (r *reader) numbers(all []float32, n number, count int, noun string) ([]float32, error) {
	at, blocks := n.bits.places(count), len(r.data)/r.Bytes
	all = grow(all, blocks*count)
	if at.inBytes() {
		r.small(all, n, &at, count)
	} else {
		for i := range all {
			all[i] = n.as(at.get(r.data[i/count*r.Bytes:][:r.Bytes], i%count))
		}
	}
	for i, v := range all {
		if !finite(v) {
			return nil, errorf(r.name(i/count), "%s %v is not finite", noun, v)
		}
	}
	return all, nil
}

// small reads numbers of at most 8 bits.
func (r *reader) small(all []float32, n number, at *places, count int) {
	var values [256]float32
	for v := range values[:1<<n.bits.width()] {
		values[v] = n.as(uint32(v))
	}
	bytes := make([]byte, count)
	for i := 0; len(all) > 0; i++ {
		at.codes(bytes, r.data[i*r.Bytes:][:r.Bytes], 0)
		for j, v := range bytes {
			all[j] = values[v]
		}
		all = all[count:]
	}
}

func finite(f float32) bool { return f-f == 0 }
