package blocks

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/tmacc/tmacc/ir/format"
)

// usualScale is the least magnitude of a random scale; the largest is below twice
// that.
const usualScale = 1. / 128

// Random is a matrix of m rows of k weights in blocks of a GGUF type, to measure
// and to test with: random codes, forbidden ones excepted, random sub-scales, and
// scales of either sign and usual magnitude.
func Random(rng *rand.Rand, typeName string, m, k int) ([]byte, error) {
	b, err := Lookup(typeName)
	if err != nil {
		return nil, err
	}
	size, err := b.Size(m, k)
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	w := b.weight()
	for block := data[:size-b.Tail]; len(block) > 0; block = block[b.Bytes:] {
		b.allow(rng, w, block)
		if w.Per == format.PerGroup {
			b.scale(rng, w, block)
		}
	}
	if w.Per == format.PerTensor {
		binary.LittleEndian.PutUint32(data[size-b.Tail:], math.Float32bits(usualScale))
	}
	return data, nil
}

// allow replaces the forbidden codes of a block.
func (b Block) allow(rng *rand.Rand, w format.Weight, block []byte) {
	if b.Grid != nil || b.Trits != nil || w.Codes() == 1<<w.Bits {
		return // what a block can hold is allowed
	}
	n := b.Values * max(b.Rows, 1)
	at := b.Codes.places(n)
	for i := range n {
		if int(at.get(block, i)^uint32(b.Flip)) >= w.Codes() {
			at.set(block, i, uint32(rng.IntN(w.Codes()))^uint32(b.Flip))
		}
	}
}

// scale gives a block usual scales; a block with two levels of scales gets usual super-scales.
func (b Block) scale(rng *rand.Rand, w format.Weight, block []byte) {
	if b.Super.bits != nil {
		b.Super.usual(rng, block, 1)
		b.SuperMin.usual(rng, block, 1)
		return
	}
	b.Scale.usual(rng, block, b.Values/w.Group)
	b.Min.usual(rng, block, b.Values/w.Group)
}

// usual draws the first count numbers of a block until their magnitudes are usual.
func (n number) usual(rng *rand.Rand, block []byte, count int) {
	at, mask := n.bits.places(count), uint32(1)<<n.bits.width()-1
	for i := range count {
		for len(at.pieces) > 0 {
			v := rng.Uint32() & mask
			if x := math.Abs(float64(n.as(v))); x >= usualScale && x < 2*usualScale {
				at.set(block, i, v)
				break
			}
		}
	}
}
