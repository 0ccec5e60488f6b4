package arm64

import (
	"github.com/tmacc/tmacc/lower/core"
)

// neoverseN1 stands for every Arm core that has no file of its own.
var neoverseN1 = core.Core{
	Name: "neoverse-n1", ISAs: []string{"arm64/neon", "arm64/dotprod", "arm64/i8mm"},
	// Arm Neoverse N1 technical reference manual (100616) has the sizes of the caches, and its software optimization guide the latencies of loads.
	// What lies beyond the second-level cache is a system's: these are estimates of a server. Shared: a Graviton2
	// has 64 cores at 2.5 GHz and 8 channels of DDR4-3200 (AWS).
	Hierarchy: core.Hierarchy{
		First: 64 << 10, Fills: 20, Latency: [3]float64{11, 80, 300}, Line: [3]float64{2, 4, 10}, Several: 9, Shared: 50,
	},
	Costs:    neoverseN1Costs,
	Pipeline: core.Pipeline{Width: 4, Window: 128, Waiting: 64, Scalar: "def"},
}

// neoverseN1Costs are reciprocal throughputs (Arm's Neoverse N1 software optimization guide, as in LLVM's model). The
// core has no matrix products: their cost is that of a dot product.
//
// Latencies and ports: llvm/lib/Target/AArch64/AArch64SchedNeoverseN1.td; port 0 and 1 are V0 and V1. The number of waiting
// instructions is a guess.
var neoverseN1Costs = core.Costs{
	logic:         {Tenths: 5, Latency: 2, Ports: "01"},
	choose:        {Tenths: 5, Latency: 2, Ports: "01"},
	add:           {Tenths: 5, Latency: 2, Ports: "01"},
	compare:       {Tenths: 5, Latency: 2, Ports: "01"},
	average:       {Tenths: 5, Latency: 2, Ports: "01"},
	saturate:      {Tenths: 10, Latency: 2, Ports: "1"},
	shift:         {Tenths: 10, Latency: 2, Ports: "1"},
	multiply:      {Tenths: 20, Latency: 5, Ports: "0*2"},
	multiplyBytes: {Tenths: 10, Latency: 4, Ports: "0"},
	dot:           {Tenths: 5, Latency: 3, Ports: "01"},
	matrix:        {Tenths: 5, Latency: 3, Ports: "01"},
	addPairs:      {Tenths: 5, Latency: 2, Ports: "01"},
	sumPairs:      {Tenths: 10, Latency: 4, Ports: "1"},
	across:        {Tenths: 10, Latency: 4, Ports: "1"},
	widen:         {Tenths: 10, Latency: 2, Ports: "1"},
	narrow:        {Tenths: 5, Latency: 2, Ports: "01"},
	lookup:        {Tenths: 5, Latency: 2, Ports: "01"},
	permute:       {Tenths: 5, Latency: 2, Ports: "01"},
	toFloat:       {Tenths: 20, Latency: 4, Ports: "0*2"},
	convert:       {Tenths: 20, Latency: 4, Ports: "0*2"},
	floatAdd:      {Tenths: 5, Latency: 2, Ports: "01"},
	floatMul:      {Tenths: 5, Latency: 3, Ports: "01"},
	divide:        {Tenths: 70, Latency: 10, Ports: "0*7"},
	immediate:     {Tenths: 5, Latency: 2, Ports: "01"},
	load:          {Tenths: 5, Latency: 5, Ports: "89"},
	loadSplat:     {Tenths: 5, Latency: 7, Ports: "89+01"},
	store:         {Tenths: 10, Latency: 2, Ports: "a"},
	prefetch:      {Tenths: 5, Latency: 1, Ports: "89"},
}
