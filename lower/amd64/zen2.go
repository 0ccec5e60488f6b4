package amd64

import (
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// zen2 is AMD's cores with AVX2 only, Zen to Zen 3, whose memory was measured on Zen 2 and Zen 3. Their
// instructions were not: they have the costs of Golden Cove.
var zen2 = core.Core{
	Name: "zen2", ISAs: []string{"amd64/avx2"}, CPUs: []cpu.Set{{Vendor: amd}, {Vendor: hygon}},
	// AMD, Software Optimization Guide for Family 17h Models 30h (56305), as far as remembered: 32 KiB, 22 misses in flight, 12 to 13 cycles to the second-level
	// cache. A Zen 3 VM reads 25 GB/s (docs/lab/choices.md, Streams). Estimates: the times of a third-level cache and of memory that others use too, and that
	// prefetches into the second-level cache hold a miss. AMD's manuals of older cores say that these bring lines to the first-level cache; by the pairs,
	// either is as good. Results: 160 registers, less the 16 that programs name. Shared: an EPYC 7763 has 64 cores at 2.45 GHz and 8 channels of DDR4-3200 (AMD's page of it).
	Hierarchy: core.Hierarchy{
		First: 32 << 10, Fills: 22, Holds: true, Trains: true, Latency: [3]float64{13, 130, 300}, Line: [3]float64{2, 2.6, 9}, Several: 8.5, Shared: 49,
	},
	Costs:    zen2Costs,
	Pipeline: core.Pipeline{Width: 6, Window: 224, Waiting: 64, Results: 144, Scalar: "cdef"},
}

// The vendors of Zen cores, as CPUID has them.
const (
	amd   = "AuthenticAMD"
	hygon = "HygonGenuine"
)

// zen2Costs are the costs of Golden Cove, with the latencies and ports of llvm/lib/Target/X86/X86ScheduleZnver3.td, which also has two schedulers of 32 entries.
var zen2Costs = onUnits(goldenCoveCosts, core.Costs{
	alu:         {Latency: 1, Ports: "0123"},
	select3:     {Latency: 1, Ports: "0123"},
	compare:     {Latency: 1, Ports: "0123"},
	shift:       {Latency: 1, Ports: "12"},
	blend:       {Latency: 1, Ports: "0123"},
	toMask:      {Latency: 1, Ports: "0123"},
	multi:       {Latency: 4, Ports: "03"},
	mul32:       {Latency: 4, Ports: "03"},
	divide:      {Latency: 10, Ports: "3*3"},
	floatAdd:    {Latency: 3, Ports: "23"},
	floatMul:    {Latency: 3, Ports: "01"},
	floatFMA:    {Latency: 5, Ports: "01+89"},
	toFloat:     {Latency: 5, Ports: "23+12"},
	shuffle:     {Latency: 1, Ports: "12"},
	permute:     {Latency: 2, Ports: "12"},
	permuteByte: {Latency: 2, Ports: "12"},
	permuteWord: {Latency: 2, Ports: "12"},
	permutes:    {Latency: 2, Ports: "12"},
	bytePairs:   {Latency: 2, Ports: "12"},
	narrow:      {Latency: 1, Ports: "12"},
	load:        {Latency: 7, Ports: "89"},
	splat:       {Latency: 7, Ports: "89"},
	splatBytes:  {Latency: 8, Ports: "89+12"},
	store:       {Latency: 1, Ports: "a"},
})

// onUnits has the throughputs of costs, and the latencies and ports of another core's.
func onUnits(costs, ports core.Costs) core.Costs {
	out := core.Costs{}
	for class, cost := range costs {
		cost.Latency, cost.Ports, cost.WidePorts = ports[class].Latency, ports[class].Ports, ""
		out[class] = cost
	}
	return out
}
