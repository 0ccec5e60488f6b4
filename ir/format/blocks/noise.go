package blocks

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// Noise makes rows of random weights in blocks of one GGUF type, fast enough for whole models: each block is a copy of one of
// a few hundred random blocks. Weights have one standard deviation and, if the type has a sign, the mean 0.
type Noise struct {
	b     Block
	pools [noiseSteps][]byte // blocks, of different scales
}

// noiseNumber is the numbers of a block that hold a row's scale, or its minimum: of a block with two levels, the upper one.
type noiseNumber struct {
	number
	at    places
	count int
}

const (
	noiseBlocks = 512 // of a pool
	noiseSteps  = 16  // different scales of rows
)

// NewNoise draws the blocks of weights with a standard deviation. Rows differ: theirs is 0.75 to 1.25 times as large.
// It refuses a type that keeps one scale for a whole tensor, or several rows in a block.
func NewNoise(rng *rand.Rand, typeName string, deviation float64) (*Noise, error) {
	b, err := Lookup(typeName)
	if err != nil {
		return nil, err
	}
	w := b.weight()
	if w.Per != format.PerGroup || b.Rows > 1 || b.Tail > 0 {
		return nil, errorf("type "+typeName, "has no scale in each block; random rows need one")
	}
	pool := make([]byte, noiseBlocks*b.Bytes)
	for i := range pool {
		pool[i] = byte(rng.Uint32())
	}
	for block := pool; len(block) > 0; block = block[b.Bytes:] {
		b.allow(rng, w, block)
		b.balance(rng, w, block)
	}
	n := &Noise{b: b}
	n.scaled(w, pool, deviation)
	return n, nil
}

// balance replaces codes whose level is larger than every level of the other sign: their weights would have a mean. Types
// with minimums have none.
func (b Block) balance(rng *rand.Rand, w format.Weight, block []byte) {
	if b.Codes == nil || w.NumBooks() > 1 || b.Min.bits != nil {
		return
	}
	most := min(slices.Max(w.Levels), -slices.Min(w.Levels))
	if most <= 0 {
		return // levels of one sign
	}
	at := b.Codes.places(b.Values)
	for i := range b.Values {
		code := at.get(block, i) ^ uint32(b.Flip)
		for level := w.Levels[code]; level > most || -level > most; level = w.Levels[code] {
			code = uint32(rng.IntN(w.Codes()))
		}
		at.set(block, i, code^uint32(b.Flip))
	}
}

// noiseNumber is the numbers of a block that n describes, none if it is empty.
func (b Block) noiseNumber(w format.Weight, n number) noiseNumber {
	if n.bits == nil {
		return noiseNumber{}
	}
	count := b.Values / w.Group
	if b.Super.bits != nil {
		count = 1
	}
	return noiseNumber{number: n, at: n.bits.places(count), count: count}
}

// scaled makes the pools of all steps: minimums that make the mean 0, and scales that make the deviation.
func (n *Noise) scaled(w format.Weight, pool []byte, deviation float64) {
	scale, least := n.b.noiseNumber(w, n.b.Scale), n.b.noiseNumber(w, n.b.Min)
	if n.b.Super.bits != nil {
		scale, least = n.b.noiseNumber(w, n.b.Super), n.b.noiseNumber(w, n.b.SuperMin)
	}
	with := func(d, m float64) []byte {
		data, dBits, mBits := slices.Clone(pool), scale.nearest(d), least.nearest(m)
		for block := data; len(block) > 0; block = block[n.b.Bytes:] {
			scale.set(block, dBits)
			least.set(block, mBits)
		}
		return data
	}
	ratio := 0.0
	if of, _ := n.moments(with(0, 1)); of != 0 {
		mean, _ := n.moments(with(1, 0))
		ratio = -mean / of
	}
	_, unit := n.moments(with(1, ratio))
	for i := range n.pools {
		d := deviation / unit * (0.75 + 0.5*float64(i)/(noiseSteps-1))
		n.pools[i] = with(d, d*ratio)
	}
}

// moments returns the mean and the standard deviation of the weights of a pool.
func (n *Noise) moments(pool []byte) (mean, deviation float64) {
	k := noiseBlocks * n.b.Values
	w, src, err := Read(n.b.Type, pool, 1, k)
	if err != nil {
		panic("BUG: blocks: noise: " + err.Error())
	}
	squares := 0.0
	for i := range k {
		v := float64(src.Value(w, 0, i, k))
		mean += v / float64(k)
		squares += v * v / float64(k)
	}
	return mean, math.Sqrt(max(0, squares-mean*mean))
}

// nearest returns the bits of the finite number that is nearest to x.
func (n *noiseNumber) nearest(x float64) (best uint32) {
	if n.count == 0 {
		return 0
	}
	least := math.Inf(1)
	for v := range uint32(1) << n.bits.width() {
		if off := math.Abs(float64(n.as(v)) - x); off < least {
			best, least = v, off
		}
	}
	return best
}

// set makes all numbers of a block v.
func (n *noiseNumber) set(block []byte, v uint32) {
	for i := range n.count {
		n.at.set(block, i, v)
	}
}

// Row fills dst, which is whole blocks, with a row of random weights.
func (n *Noise) Row(rng *rand.PCG, dst []byte) {
	pool := n.pools[rng.Uint64()%noiseSteps]
	for ; len(dst) >= n.b.Bytes; dst = dst[n.b.Bytes:] {
		from := int(rng.Uint64()%noiseBlocks) * n.b.Bytes
		copy(dst[:n.b.Bytes], pool[from:])
	}
}
