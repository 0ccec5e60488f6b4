package amd64

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// zen2 is AMD's cores with AVX2 only, Zen to Zen 3, whose memory was measured on Zen 2 and Zen 3. Their
// instructions were not: they have the costs of Golden Cove.
//
// Every line is asked for into the first-level cache, by steady, or 1 KiB ahead where two tiles lie side by
// side, which is worth a little more arithmetic. Figures: docs/lab/choices.md, Streams, Tiles, TilesCost.
var zen2 = core.Core{
	Name: "zen2", ISAs: []string{"amd64/avx2"}, CPUs: []cpu.Set{{Vendor: amd}, {Vendor: hygon}},
	Memory: core.Memory{
		Streams: steady, Slow: steady, Tables: 2 << 10, Skipping: skipping, Tiles: 2, TilesCost: 1.06, Indexes: true,
		// Super-blocks, also by two tiles. What has a line for few weights is not for sparse. Figures: docs/lab/choices.md, Scattered, SuperTiles.
		Scattered: sparse, SuperTiles: sparse,
	},
	Costs: goldenCoveCosts,
}

// The vendors of Zen cores, as CPUID has them.
const (
	amd   = "AuthenticAMD"
	hygon = "HygonGenuine"
)

var steady = nest.Streams{Ahead: 3 << 10, Act: 128}

// sparse is far of two lines in four: what lies between, the CPU foresees.
var sparse = nest.Streams{Far: 8 << 10, Act: 128}
