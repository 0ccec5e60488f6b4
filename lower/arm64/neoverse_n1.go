package arm64

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
)

// neoverseN1 stands for every Arm core. The costs in rows are its reciprocal throughputs (Arm's Neoverse N1
// software optimization guide, as in LLVM's model). How it asks for memory nobody has measured: that is
// what amd64's ordinary core does.
var neoverseN1 = lower.Core{
	Name:   "neoverse-n1",
	Memory: lower.Memory{Streams: streams, Slow: streams, Scattered: streams, Tables: 2 << 10, Skipping: 1.07 /* as on Emerald Rapids */},
}

// streams is how far prefetches are ahead.
var streams = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}
