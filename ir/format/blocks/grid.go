package blocks

import (
	"encoding/base64"
	"encoding/binary"
	gobits "math/bits"
	"strings"
	"sync"
)

// grid is codes stored as indices of vectors, and signs apart. An element of a
// vector is a digit; with its sign it is a level.
//
//	vector Index 17    43  8  8 25  8  8  8  8
//	Signs 10000010      -                 -
//	levels            -43  8  8 25  8  8 -8  8
type grid struct {
	Entries func() []uint16
	Vector  int       // elements of an entry
	Index   field     // of vector i
	Signs   field     // of elements 8i to 8i+7: 8 bits; 7, and the eighth makes their number even; or 1 for all
	Codes   [2][]byte // the code of each digit, with sign +, with sign -
}

// entries decodes a grid when it is first used.
func entries(text string) func() []uint16 {
	return sync.OnceValue(func() []uint16 {
		data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		if err != nil {
			panic("BUG: blocks: a grid: " + err.Error())
		}
		words := make([]uint16, len(data)/2)
		for i := range words {
			words[i] = binary.LittleEndian.Uint16(data[2*i:])
		}
		return words
	})
}

// mirrored are the codes of digits that count n levels up from the least above 0:
// the format has their negatives too, and its levels ascend.
func mirrored(n int) [2][]byte {
	var codes [2][]byte
	for d := range n {
		codes[0] = append(codes[0], byte(n+d))
		codes[1] = append(codes[1], byte(n-1-d))
	}
	return codes
}

// decoder makes the function that reads the codes of one block, an entry at a time: as
// bytes of a word its codes with sign + and with sign -, and a mask of those that have -.
func (g *grid) decoder(values int) func(codes, block []byte) {
	entries, index := g.Entries(), g.Index.places(values/g.Vector)
	signs, signWidth := g.Signs.places(values/8), g.Signs.width()
	plus, minus := g.words(entries, 0), g.words(entries, 1)
	var masks [256]uint64
	for i := range masks {
		for j := range 8 {
			masks[i] |= uint64(i>>j&1) * 0xff << (8 * j)
		}
	}
	put := func(codes []byte, v uint64) { binary.LittleEndian.PutUint64(codes, v) }
	if g.Vector == 4 {
		put = func(codes []byte, v uint64) { binary.LittleEndian.PutUint32(codes, uint32(v)) }
	}
	return func(codes, block []byte) {
		for i := range values / g.Vector {
			at := i * g.Vector
			negative := masks[byte(allSigns(signs.get(block, at/8), signWidth)>>(at%8))]
			entry := index.get(block, i)
			put(codes[at:], plus[entry]&^negative|minus[entry]&negative)
		}
	}
}

// words are the codes of each entry, all with one sign: the first in the lowest byte.
func (g *grid) words(entries []uint16, sign int) []uint64 {
	width := 16 / g.Vector
	words := make([]uint64, len(entries))
	for i, e := range entries {
		for j := range g.Vector {
			if digit := int(e >> (j * width) & (1<<width - 1)); digit < len(g.Codes[sign]) {
				words[i] |= uint64(g.Codes[sign][digit]) << (8 * j)
			}
		}
	}
	return words
}

// allSigns returns the signs of 8 elements; the first width signs are stored, the others follow from parity.
func allSigns(stored uint32, width int) uint32 {
	switch width {
	case 1:
		return stored * 0xff
	case 7:
		return stored | uint32(gobits.OnesCount32(stored)&1)<<7
	}
	return stored
}
