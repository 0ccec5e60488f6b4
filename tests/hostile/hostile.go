// Package hostile makes damaged GGUF files, and says what reading one may cost.
package hostile

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// odd are numbers that hurt.
var odd = []uint64{0, 1, 2, 3, 7, 8, 31, 32, 33, 36, 64, 127, 128, 255, 256, 1 << 15, 1<<16 - 1, 1 << 20, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32,
	1 << 40, 1<<48 + 1, 1 << 59, 1<<62 - 1, 1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 31, math.MaxUint64}

func anOdd(rng *rand.Rand) uint64 { return odd[rng.IntN(len(odd))] }

// Mutate changes a few places of a file, mostly of its first bytes, which are the header.
func Mutate(rng *rand.Rand, data []byte, header int) []byte {
	data = slices.Clone(data)
	for range 1 + rng.IntN(4) {
		if len(data) < 16 {
			break
		}
		within := min(header, len(data)-8)
		if rng.IntN(4) == 0 {
			within = len(data) - 8
		}
		at := rng.IntN(within)
		switch rng.IntN(9) {
		case 0:
			data[at] ^= 1 << rng.IntN(8)
		case 1:
			data[at] = byte(rng.Uint32())
		case 2:
			binary.LittleEndian.PutUint64(data[at:], anOdd(rng))
		case 3:
			binary.LittleEndian.PutUint32(data[at:], uint32(anOdd(rng)))
		case 4:
			v := binary.LittleEndian.Uint32(data[at:])
			binary.LittleEndian.PutUint32(data[at:], v+uint32(rng.IntN(9))-4)
		case 5: // another number that stands there already
			copy(data[at:][:4], data[rng.IntN(within):][:4])
		case 6:
			data = data[:len(data)-rng.IntN(len(data))]
		case 7: // a piece twice
			n := min(rng.IntN(64), len(data)-at)
			data = slices.Insert(data, at, data[at:at+n]...)
		case 8:
			n := min(rng.IntN(64), len(data)-at)
			data = slices.Delete(data, at, at+n)
		}
	}
	return data
}
