package amd64

import (
	"github.com/tmacc/tmacc/lower/core"
)

// goldenCove is Intel's core of Sapphire and Emerald Rapids, measured on Emerald Rapids. It stands
// for every CPU without a core of its own.
var goldenCove = core.Core{
	Name: "golden-cove", ISAs: []string{"amd64/avx2", "amd64/avxvnni", "amd64/avx512", "amd64/avx512vbmi"},
	// Intel, 64 and IA-32 Architectures Optimization Reference Manual (248966), Golden Cove, as far as remembered: 48 KiB, 16 fill buffers, 15 cycles to the
	// second-level cache. An Emerald Rapids VM reads 5.2 bytes a cycle (docs/lab/choices.md, bytesPerCycle). Estimates: what its third-level cache and memory take to
	// answer. Shared: a Xeon 8592+ has 64 cores at 2.9 GHz and 8 channels of DDR5-5600 (Intel ARK). A Granite Rapids VM has 20, 232 and 867 cycles, and 1.5, 7.4 and 14.3 from line to line, by tmacc host -calibrate.
	Hierarchy: core.Hierarchy{
		First: 48 << 10, Fills: 16, Latency: [3]float64{15, 200, 400}, Line: [3]float64{1.8, 6, 12.3}, Several: 11.5, Shared: 33,
	},
	Costs:    goldenCoveCosts,
	Pipeline: core.Pipeline{Width: 6, Window: 512, Waiting: 97, Results: 280, WideResults: 180, Scalar: "0156a", Closed: "1"},
}

// goldenCoveCosts: what takes as long up to 256 bits and at 512 has no Wide. While one of the two ports for 512 bits
// permutes bytes, the other one does dot products.
//
// Latencies and ports were measured on a Granite Rapids, in loops of one instruction, alone and in turns with one that runs on
// port 0 or 5 only. LLVM's model (llvm/lib/Target/X86/X86SchedSapphireRapids.td) agrees, except that it gives products of
// 512 bits port 0 alone. It also has the 97 entries for instructions that wait. An Emerald Rapids has 512 instructions in flight, 280 results of 256
// bits and 180 of 512: two loads that miss overlap as long as no more than these are between them.
var goldenCoveCosts = core.Costs{
	alu:         {Tenths: 3, Wide: 5, Latency: 1, Ports: "015", WidePorts: "05"},
	select3:     {Tenths: 3, Wide: 5, Latency: 1, Ports: "015", WidePorts: "05"},
	compare:     {Tenths: 5, Wide: 10, Latency: 1, Ports: "01", WidePorts: "0"},
	shift:       {Tenths: 5, Wide: 10, Latency: 1, Ports: "01", WidePorts: "0"},
	blend:       {Tenths: 10, Latency: 3, Ports: "015+015+015"},
	toMask:      {Tenths: 10, Latency: 6, Ports: "0+015", WidePorts: "0+05"},
	multi:       {Tenths: 5, Latency: 5, Ports: "01", WidePorts: "05"},
	mul32:       {Tenths: 10, Latency: 10, Ports: "01+01", WidePorts: "05+05"},
	divide:      {Tenths: 50, Wide: 100, Latency: 11, Ports: "0*5", WidePorts: "0*10"},
	floatAdd:    {Tenths: 5, Latency: 3, Ports: "15", WidePorts: "05"},
	floatMul:    {Tenths: 5, Latency: 4, Ports: "01", WidePorts: "05"},
	floatFMA:    {Tenths: 6, Latency: 4, Ports: "01+23b", WidePorts: "05+23b"},
	toFloat:     {Tenths: 10, Latency: 8, Ports: "01+5", WidePorts: "05+5"},
	shuffle:     {Tenths: 5, Wide: 10, Latency: 1, Ports: "15", WidePorts: "5"},
	permute:     {Tenths: 10, Latency: 3, Ports: "5"},
	permuteByte: {Tenths: 10, Wide: 10, WideBusy: []int{5, 10}, Latency: 3, Ports: "5"},
	permuteWord: {Tenths: 10, Latency: 4, Ports: "01+5", WidePorts: "0+5"},
	permutes:    {Tenths: 20, Latency: 7, Ports: "05+5+5"},
	bytePairs:   {Tenths: 20, Latency: 5, Ports: "05+5+5"},
	narrow:      {Tenths: 10, Wide: 20, Latency: 4, Ports: "5", WidePorts: "5+5"},
	load:        {Tenths: 5, Latency: 7, Ports: "23b", WidePorts: "23"},
	splat:       {Tenths: 5, Latency: 7, Ports: "23b"},
	splatBytes:  {Tenths: 10, Latency: 8, Ports: "23b+5"},
	store:       {Tenths: 5, Wide: 10, Latency: 1, Ports: "49+78", WidePorts: "4+9+78"},
}
