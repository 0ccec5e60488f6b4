package blocks

import (
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Quantizer makes blocks of a GGUF type of rows of floats: the bytes that ggml makes of them, by quantize_row_q8_0_ref and
// quantize_row_q6_K_ref of ggml-quants.c. It keeps its memory from one call to the next.
type Quantizer struct {
	b        Block
	quantize func(q *Quantizer, x []float32) (super float32) // one block: it sets codes and scales
	codes    []byte
	scales   []uint32 // of groups, as they are stored; none if super is the only scale
	at       places   // of codes
	scaleAt  places
	superAt  places
}

// quantized are the types of a Quantizer.
var quantized = []string{"Q8_0", "Q6_K"}

// Quantized lists the types of NewQuantizer.
func Quantized() []string { return slices.Clone(quantized) }

// NewQuantizer makes a Quantizer of a type that Quantized lists.
func NewQuantizer(typeName string) (*Quantizer, error) {
	if !slices.Contains(quantized, typeName) {
		return nil, errorf("type "+typeName, "is not one that floats can be quantized to; there are %s", strings.Join(quantized, " "))
	}
	b, err := Lookup(typeName)
	if err != nil {
		return nil, err
	}
	q := &Quantizer{b: b, codes: make([]byte, b.Values), at: b.Codes.places(b.Values)}
	if b.Super.bits == nil {
		q.quantize, q.superAt = quantizeQ8, b.Scale.bits.places(1)
		return q, nil
	}
	groups := b.Values / b.weight().Group
	q.quantize, q.superAt, q.scaleAt, q.scales = quantizeQ6, b.Super.bits.places(1), b.Scale.bits.places(groups), make([]uint32, groups)
	return q, nil
}

// Row writes the blocks of a row: as many as Block.Size says of one row of len(x) columns. It is an error if a value is not finite, or so large that the
// scale of its block is not finite as f16.
func (q *Quantizer) Row(to []byte, x []float32) error {
	size, err := q.b.Size(1, len(x))
	if err == nil && len(to) != size {
		err = errorf("argument to", "has %d bytes; a row of %d columns has %d", len(to), len(x), size)
	}
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(x, func(v float32) bool { return !finite(v) }); i >= 0 {
		return errorf("argument x", "element %d is %v", i, x[i])
	}
	clear(to)
	for i := 0; len(to) > 0; i++ {
		super := format.HalfFromFloat32(q.quantize(q, x[:q.b.Values]))
		if !finite(format.HalfToFloat32(super)) {
			return errorf("argument x", "block %d has values up to %v, too large for %s", i, largest(x[:q.b.Values]), q.b.Type)
		}
		q.superAt.set(to, 0, uint32(super))
		for j, s := range q.scales {
			q.scaleAt.set(to, j, s)
		}
		q.at.put(to[:q.b.Bytes], q.codes, q.b.Flip)
		to, x = to[q.b.Bytes:], x[q.b.Values:]
	}
	return nil
}

// put is the inverse of codes for a block of zeros, whose pieces each lie in one byte.
func (p *places) put(block, codes []byte, flip byte) {
	for _, x := range p.pieces {
		mask := byte(1<<x.width - 1)
		for j, at := range x.at {
			block[at>>3] |= (codes[j] ^ flip) >> x.shift & mask << (at & 7)
		}
	}
}

// largest is the value of the largest magnitude.
func largest(x []float32) (most float32) {
	top := uint32(0)
	for _, v := range x {
		if u := math.Float32bits(v) &^ (1 << 31); u > top { // magnitudes are ordered as their bits are
			most, top = v, u
		}
	}
	return most
}

// quantizeQ8 rounds a block to 127 steps of either sign, halves away from zero.
func quantizeQ8(q *Quantizer, x []float32) float32 {
	const steps = 127
	scale := float32(math.Abs(float64(largest(x)))) / steps
	inverse := 1 / scale
	if !finite(inverse) { // weights that are 0 as f16
		inverse = 0
	}
	for i, v := range x {
		level := float64(v * inverse)
		q.codes[i] = byte(128 + int(level+math.Copysign(0.5, level)))
	}
	return scale
}

// Of Q6_K: how far levels go below 0, and magnitudes that count as 0.
const (
	levels6 = 32
	nothing = 1e-15
)

// quantizeQ6 finds a scale for each group, and a super-scale that they are multiples of. The largest of them is -128 times that.
// Then it rounds the values to the scales as they are stored.
func quantizeQ6(q *Quantizer, x []float32) float32 {
	var scales [16]float32
	group := len(x) / len(scales)
	for i := range scales {
		if scales[i] = q.group(i*group, x[i*group:][:group]); !finite(scales[i]) {
			return scales[i]
		}
	}
	most := largest(scales[:])
	if math.Abs(float64(most)) < nothing {
		clear(q.codes)
		clear(q.scales)
		return 0
	}
	inverse := -128 / most
	super := 1 / inverse
	stored := format.HalfToFloat32(format.HalfFromFloat32(super))
	for i, s := range scales {
		n := min(nearest(float32(inverse*s)), 127)
		q.scales[i] = uint32(uint8(int8(n)))
		if scale := stored * n; scale != 0 {
			for j, v := range x[i*group:][:group] {
				q.codes[i*group+j] = code6(v / scale)
			}
		}
	}
	return super
}

// group finds the scale of a group whose codes begin at one, and makes the codes. It tries some scales near the one for which the largest magnitude is
// level -32. For each it takes the levels that are nearest, and then the scale that is best for these: errors count times the squares of values.
func (q *Quantizer) group(first int, x []float32) float32 {
	codes, most := q.codes[first:][:len(x)], largest(x)
	if math.Abs(float64(most)) < nothing {
		clear(codes)
		return 0
	}
	var scale, best, chosen float32
	for i, try := range tries {
		inverse := -(levels6 + float32(float32(0.1)*try)) / most
		dot, square := fit(x, inverse)
		if i > 0 && (square <= 0 || float32(dot*dot) <= float32(best*square)) {
			continue
		}
		scale, chosen = 0, inverse
		if square != 0 {
			scale = dot / square
		}
		best = scale * dot
	}
	for i, v := range x {
		codes[i] = code6(float32(chosen * v))
	}
	return scale
}

// tries are how many tenths the levels of group go beyond -32.
var tries = [...]float32{0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9}

// fit sums products of values with their levels, and squares of levels, times the squares of values. Each operation rounds.
func fit(x []float32, inverse float32) (dot, square float32) {
	for _, v := range x {
		level, w := level6(float32(inverse*v)), float32(v*v)
		dot += float32(float32(w*v) * level)
		square += float32(float32(w*level) * level)
	}
	return dot, square
}

// level6 is the level that is nearest.
func level6(v float32) float32 {
	v = nearest(v)
	if v < -levels6 {
		return -levels6
	}
	if v > levels6-1 {
		return levels6 - 1
	}
	return v
}

// code6 is the code of the level that is nearest.
func code6(v float32) byte { return byte(level6(v) + levels6) }

// nearest rounds a number of magnitude below 2^22 to an integer, halves to even.
func nearest(v float32) float32 {
	const shift = 3 << 22 // from here to 2^24, floats are the integers
	return float32(v+shift) - shift
}
