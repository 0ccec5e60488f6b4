package amd64

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower/core"
)

// goldenCove is Intel's core of Sapphire and Emerald Rapids, measured on Emerald Rapids. It stands
// for every CPU without a core of its own.
var goldenCove = core.Core{
	Name: "golden-cove", ISAs: []string{"amd64/avx2", "amd64/avxvnni", "amd64/avx512", "amd64/avx512vbmi"},
	Memory: core.Memory{
		Streams: farther, Slow: farther, Scattered: farther,
		// Tables of several columns are more than a first-level cache has room for. Figures: docs/lab/choices.md, Tables.
		Tables: 2 << 10, Skipping: skipping,
	},
	Costs: goldenCoveCosts,
}

// farther has the distances of prefetches. One distance is not enough: a first-level cache cannot wait
// for all the lines that memory can send at once. Figures: docs/lab/choices.md, Streams.
var farther = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}

// skipping: several columns take longer where they read half of a tile, though from a cache one
// column gains. Figures: docs/lab/choices.md, Skipping.
const skipping = 1.07

// goldenCoveCosts: what takes as long up to 256 bits and at 512 has no Wide. While one of the two ports for 512 bits
// permutes bytes, the other one does dot products.
var goldenCoveCosts = core.Costs{
	alu: {Tenths: 3, Wide: 5}, select3: {Tenths: 3, Wide: 5}, compare: {Tenths: 5, Wide: 10}, shift: {Tenths: 5, Wide: 10},
	blend: {Tenths: 10}, toMask: {Tenths: 10}, multi: {Tenths: 5}, mul32: {Tenths: 10}, divide: {Tenths: 50, Wide: 100},
	floatAdd: {Tenths: 5}, floatMul: {Tenths: 5}, floatFMA: {Tenths: 6}, toFloat: {Tenths: 10},
	shuffle: {Tenths: 5, Wide: 10}, permute: {Tenths: 10}, permuteByte: {Tenths: 10, Wide: 10, WideBusy: []int{5, 10}},
	permutes: {Tenths: 20}, bytePairs: {Tenths: 20}, narrow: {Tenths: 10, Wide: 20},
	load: {Tenths: 5}, splat: {Tenths: 5}, splatBytes: {Tenths: 10}, store: {Tenths: 5, Wide: 10},
}
