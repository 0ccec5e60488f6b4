package arm64

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower/core"
)

// neoverseN1 stands for every Arm core that has no file of its own. How it asks for memory was not measured: it has
// the values of amd64's ordinary core, measured on Emerald Rapids.
var neoverseN1 = core.Core{
	Name: "neoverse-n1", ISAs: []string{"arm64/neon", "arm64/dotprod", "arm64/i8mm"},
	Memory: core.Memory{Streams: streams, Slow: streams, Scattered: streams, Tables: 2 << 10, Skipping: 1.07},
	Costs:  neoverseN1Costs,
}

// streams is how far prefetches are ahead.
var streams = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}

// neoverseN1Costs are reciprocal throughputs (Arm's Neoverse N1 software optimization guide, as in LLVM's model). The
// core has no matrix products: their cost is that of a dot product.
var neoverseN1Costs = core.Costs{
	logic: {Tenths: 5}, choose: {Tenths: 5}, add: {Tenths: 5}, compare: {Tenths: 5}, average: {Tenths: 5}, saturate: {Tenths: 10}, shift: {Tenths: 10},
	multiply: {Tenths: 20}, multiplyBytes: {Tenths: 10}, dot: {Tenths: 5}, matrix: {Tenths: 5}, addPairs: {Tenths: 5}, sumPairs: {Tenths: 10}, across: {Tenths: 10},
	widen: {Tenths: 10}, narrow: {Tenths: 5}, lookup: {Tenths: 5}, permute: {Tenths: 5},
	toFloat: {Tenths: 20}, convert: {Tenths: 20}, floatAdd: {Tenths: 5}, floatMul: {Tenths: 5}, divide: {Tenths: 70},
	immediate: {Tenths: 5}, load: {Tenths: 5}, loadSplat: {Tenths: 5}, store: {Tenths: 10}, prefetch: {Tenths: 5},
}
