package amd64

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
)

// goldenCove is Intel's core of Sapphire and Emerald Rapids, measured on Emerald Rapids. It stands
// for every CPU without a core of its own.
var goldenCove = core{
	Core: lower.Core{
		Name: "golden-cove",
		Memory: lower.Memory{
			Streams: farther, Slow: farther, Scattered: farther,
			// Tables of several columns are more than a first-level cache has room for. Figures: docs/lab/choices.md, Tables.
			Tables: 2 << 10, Skipping: skipping,
		},
	},
	cost: goldenCoveCost,
}

// farther is how far prefetches are ahead. One distance is not enough: as many lines
// as memory can send do not fit into what a first-level cache waits for. Figures: docs/lab/choices.md, Streams.
var farther = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}

// skipping: several columns take longer where they read half of a tile, though from a cache one
// column gains. Figures: docs/lab/choices.md, Skipping.
const skipping = 1.07

// goldenCoveCosts are tenths of a cycle up to 256 bits, and at 512.
var goldenCoveCosts = [numClasses]struct{ narrow, wide int }{
	alu: {3, 5}, select3: {3, 5}, compare: {5, 10}, shift: {5, 10}, blend: {10, 10}, toMask: {10, 10},
	multi: {5, 5}, mul32: {10, 10}, divide: {50, 100},
	floatAdd: {5, 5}, floatMul: {5, 5}, floatFMA: {6, 6}, toFloat: {10, 10},
	shuffle: {5, 10}, permute: {10, 10}, permuteByte: {10, 10}, permutes: {20, 20}, bytePairs: {20, 20}, narrow: {10, 20},
	load: {5, 5}, splat: {5, 5}, splatBytes: {10, 10}, store: {5, 10},
}

func goldenCoveCost(c class, bits int) (int, []int) {
	f := goldenCoveCosts[c]
	switch {
	case bits <= 256:
		return f.narrow, nil
	case c == permuteByte:
		return f.wide, []int{f.wide / 2, f.wide} // the other one of two ports for 512 bits does dot products meanwhile
	}
	return f.wide, nil
}
