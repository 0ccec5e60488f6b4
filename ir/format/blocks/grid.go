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

// decoder makes the function that reads the codes of one block.
func (g *grid) decoder(values int) func(codes, block []byte) {
	entries, index := g.Entries(), g.Index.places(values/g.Vector)
	signs, signWidth := g.Signs.places(values/8), g.Signs.width()
	var of [16]byte // the code of a digit, with sign - 8 further on
	copy(of[:8], g.Codes[0])
	copy(of[8:], g.Codes[1])
	width := 16 / g.Vector
	mask := uint32(1<<width - 1)
	return func(codes, block []byte) {
		for i := range values / g.Vector {
			at := i * g.Vector
			negative := allSigns(signs.get(block, at/8), signWidth) << 3 >> (at % 8)
			entry := entries[index.get(block, i)]
			for j := range codes[at:][:g.Vector] {
				codes[at+j] = of[(uint32(entry)&mask|negative&8)&15]
				entry, negative = entry>>width, negative>>1
			}
		}
	}
}

// allSigns are the signs of 8 elements, of which width are stored.
func allSigns(stored uint32, width int) uint32 {
	switch width {
	case 1:
		return stored * 0xff
	case 7:
		return stored | uint32(gobits.OnesCount32(stored)&1)<<7
	}
	return stored
}
