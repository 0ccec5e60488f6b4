package runtime

import (
	"encoding/binary"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// The pure Go version of every kernel: integer sums, then floats in the order of
// the canonical result. The conversions float32(...) forbid the compiler to fuse
// a product with an addition.

// canonical makes every NaN the canonical one.
func canonical(v float32) float32 {
	if v != v {
		return math.Float32frombits(nan)
	}
	return v
}

// tinyAmax is 2^-100: a group is quantized as if it held a value of at least
// this size, so that no scale overflows or is subnormal.
const tinyAmax = 0x0d800000

// quantize makes codes, sums per sumGroup and scales per actGroup (0: all) of x.
func quantize(codes []byte, sums []int32, scales []uint32, x []float32, actGroup, sumGroup int) {
	if actGroup == 0 {
		actGroup = len(x)
	}
	if sumGroup == 0 {
		sumGroup = len(x)
	}
	for g := range scales {
		lo, hi := g*actGroup, min((g+1)*actGroup, len(x))
		scales[g] = quantizeGroup(codes[lo:hi], x[lo:hi])
	}
	for g := range sums {
		sums[g] = 0
		for _, c := range codes[g*sumGroup : min((g+1)*sumGroup, len(x))] {
			sums[g] += int32(int8(c))
		}
	}
}

// quantizeGroup makes the codes of one group and returns the bits of its scale.
func quantizeGroup(codes []byte, x []float32) uint32 {
	amax := uint32(tinyAmax)
	for _, v := range x {
		amax = max(amax, math.Float32bits(v)&0x7fffffff)
	}
	if amax >= 0x7f800000 {
		clear(codes)
		return nan
	}
	largest := math.Float32frombits(amax)
	inv := 127 / largest
	// Adding 1.5*2^23 rounds to the nearest even integer, in the lowest bits.
	const round = 3 << 22
	for i, v := range x {
		codes[i] = byte(math.Float32bits(float32(v*inv) + round))
	}
	return math.Float32bits(largest * float32(1.0/127))
}

// generic is run in pure Go.
func (p *Product) generic(t *task) {
	d, k := p.decode(), t.a.k
	group := p.cut.sumGroup
	if group == 0 {
		group = k
	}
	block := p.spec.block()
	t.weights, t.out = grow(t.weights, k), grow(t.out, 1)
	t.scaling = grow(t.scaling, k/group)
	for row := t.lo; row < t.hi; row++ {
		d.row(t.weights, t.w, row)
		for g := range t.scaling {
			t.scaling[g] = p.scaling(t.w, row, g*group)
		}
		for j := range t.a.n {
			t.out[0] = p.product(t, j, group, block)
			t.store(j, 1, row, 1, 1, 0)
		}
	}
}

// product is that of the decoded row and activations j.
func (p *Product) product(t *task, j, group, block int) float32 {
	if p.cut.floats {
		return p.dotFloats(t, j, group)
	}
	return p.dot(t, j, group, block)
}

// dot is the product of the decoded row and activations j. It sums integers over `block` groups of
// `group` elements at a time.
func (p *Product) dot(t *task, j, group, block int) float32 {
	b, _, offset := t.a.at(j)
	act := t.act[offset:][:b.bytes]
	acc := float32(0)
	for first := 0; first < len(t.scaling); first += block {
		var sum, all int32
		for g, w := range t.scaling[first:][:block] {
			g += first
			inGroup := int32(binary.LittleEndian.Uint32(act[b.sums+4*g:]))
			x := dot(t.weights[g*group:][:group], act[g*group:][:group]) - int32(w.Zero)*inGroup
			if block > 1 {
				x, inGroup = w.Sub*x, w.SubMin*inGroup
			}
			sum, all = sum+x, all+inGroup
		}
		as := float32(1)
		if p.cut.actGroup > 0 {
			as = float32At(act, b.scales+4*(first*group/p.cut.actGroup))
		}
		w := t.scaling[first]
		if block > 1 {
			w.Scale, w.Min = w.Super, w.SuperMin
		}
		term := float32(float32(sum) * float32(w.Scale*as))
		if p.spec.Weight.Min {
			term = float32(term - float32(w.Min*float32(float32(all)*as)))
		}
		acc = float32(acc + term)
	}
	if p.cut.actGroup == 0 {
		acc *= float32At(act, b.scales)
	}
	return canonical(acc)
}

func float32At(b []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
}

func dot(w []int8, a []byte) int32 {
	sum := int32(0)
	a = a[:len(w)]
	for i, x := range w {
		sum += int32(x) * int32(int8(a[i]))
	}
	return sum
}

// scaling reads what applies to element (row, k).
func (p *Product) scaling(w matrix, row, k int) format.Scaling {
	var v [numParts]float32
	for i, part := range &p.parts {
		if i != format.CodesPart && part != nil {
			v[i] = part.Elem.Get(w.data[p.layout.Address(part, row, k, w.tileBytes):])
		}
	}
	x := format.Scaling{Scale: v[format.ScalesPart], Zero: int8(v[format.ZerosPart]), Min: v[format.MinsPart]}
	if p.spec.Weight.Super > 0 {
		return x.Times(v[format.SupersPart], v[format.SuperMinsPart])
	}
	return x
}

// decoder is a layout's codes as a table: the pieces of each, in the first record
// of a tile.
type decoder struct {
	l      *format.Layout
	pieces []piece // [TileM][RecordK][per], of a code or of the codeword it is in
	per    int     // the most pieces that one has; others are padded
	number []uint8 // [TileM][RecordK]: which code of its codeword; nil unless codes are joined
	levels [][256]int8
	join   int          // places of a codeword: each book has one entry of levels per place
	books  *format.Part // nil: one book
	span   int          // elements of K that have one book
}

// piece is consecutive bits of a code in one byte.
type piece struct {
	at       int32
	from, to uint8 // lowest bit in the byte, in the code
	mask     byte  // 0: nothing
}

func newDecoder(l *format.Layout, w format.Weight) *decoder {
	p, d := l.Part(format.Codes), &decoder{l: l}
	fields := make([][]piece, len(p.Map))
	for f, bits := range p.Map {
		fields[f] = piecesOf(bits, p.WordStride)
		d.per = max(d.per, len(fields[f]))
	}
	d.pieces = make([]piece, l.TileM*l.RecordK*d.per)
	for i := range l.TileM * l.RecordK {
		row, k := i/l.RecordK, i%l.RecordK
		of := d.pieces[i*d.per:][:d.per]
		word, number := p.Place(p.Field(row, k))
		copy(of, fields[word])
		if p.Codewords != nil {
			d.number = append(d.number, uint8(number))
		}
		at := int32(p.Offset(row, k))
		for j := range of {
			of[j].at += at
		}
	}
	for book := range w.NumBooks() {
		d.levels = append(d.levels, levelsOf(p, w, byte(book))...)
	}
	d.join, d.books, d.span = len(d.levels)/w.NumBooks(), l.Part(format.Books), l.RecordK
	if d.books != nil {
		d.span = w.BookGroup
	}
	return d
}

// levelsOf is, for each place in a codeword (one if codes are not joined), the
// level of each stored value.
func levelsOf(p *format.Part, w format.Weight, book byte) [][256]int8 {
	if p.Codewords == nil {
		levels := make([][256]int8, 1)
		for c := range w.Codes() {
			levels[0][c] = int8(w.Level(book, byte(c)))
		}
		return levels
	}
	levels := make([][256]int8, p.Codewords.Join)
	for i := range levels {
		for _, word := range p.Codewords.Table {
			code, _ := p.Codewords.Code(word, i)
			levels[i][word] = int8(w.Level(book, code))
		}
	}
	return levels
}

// piecesOf joins bits of a code that are neighbours in a byte too.
func piecesOf(bits []format.BitPos, stride int) []piece {
	var ps []piece
	for i, b := range bits {
		if n := len(ps); i > 0 && b.Word == bits[i-1].Word && b.Bit == bits[i-1].Bit+1 {
			ps[n-1].mask = ps[n-1].mask<<1 | 1
			continue
		}
		ps = append(ps, piece{int32(b.Word * stride), uint8(b.Bit), uint8(i), 1})
	}
	return ps
}

// row decodes the first len(to) weights of a row.
func (d *decoder) row(to []int8, w matrix, row int) {
	first := row % d.l.TileM * d.l.RecordK
	tile := w.data[row/d.l.TileM*w.tileBytes:]
	for k := 0; k < len(to); {
		in := k % d.l.RecordK
		n := min(len(to)-k, d.l.RecordK-in, d.span-k%d.span)
		d.some(to[k:k+n], first+in, tile[k/d.l.RecordK*d.l.RecordBytes:], d.book(tile, row, k))
		k += n
	}
}

// book is the levels of the book of element (row, k); the last one if damaged weights name none.
func (d *decoder) book(tile []byte, row, k int) [][256]int8 {
	if d.books == nil {
		return d.levels
	}
	book := int(tile[d.l.Address(d.books, row%d.l.TileM, k, 0)])
	return d.levels[min(book*d.join, len(d.levels)-d.join):][:d.join]
}

// some decodes weights of one book from the place first of a record on.
func (d *decoder) some(to []int8, first int, record []byte, levels [][256]int8) {
	pieces := d.pieces[first*d.per:][:len(to)*d.per]
	switch {
	case d.number != nil:
		for i, number := range d.number[first:][:len(to)] {
			to[i] = levels[number][gather(pieces[i*d.per:][:d.per], record)]
		}
	case d.per == 1:
		whole(to, pieces, record, &levels[0])
	default:
		for i := range to {
			to[i] = levels[0][gather(pieces[i*d.per:][:d.per], record)]
		}
	}
}

// whole decodes codes of one piece each.
func whole(to []int8, pieces []piece, record []byte, levels *[256]int8) {
	for i, p := range pieces[:len(to)] {
		to[i] = levels[record[p.at]>>(p.from&7)&p.mask]
	}
}

// gather is what a code or codeword is stored as.
func gather(pieces []piece, record []byte) byte {
	var code byte
	for _, p := range pieces {
		code |= record[p.at] >> (p.from & 7) & p.mask << (p.to & 7)
	}
	return code
}
