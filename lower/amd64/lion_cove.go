package amd64

import (
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// lionCove is Intel's performance core of Lunar Lake and Arrow Lake, which has AVX-VNNI and no AVX-512. Nobody has
// measured it: its costs are from tables.
//
// CPUs: Linux, arch/x86/include/asm/intel-family.h, names family 6 with models 0xBD (Lunar Lake), 0xC5 and 0xC6 (Arrow
// Lake H and S) as Lion Cove with Skymont. Arrow Lake U, 0xB5, has other cores. The small cores of these CPUs say the
// same model, so that they run these kernels too.
var lionCove = core.Core{
	Name: "lion-cove", ISAs: []string{"amd64/avxvnni"},
	CPUs: []cpu.Set{
		{Vendor: "GenuineIntel", FirstFamily: 6, LastFamily: 6, FirstModel: 0xbd, LastModel: 0xbd},
		{Vendor: "GenuineIntel", FirstFamily: 6, LastFamily: 6, FirstModel: 0xc5, LastModel: 0xc6},
	},
	// Intel, Lunar Lake architecture (Hot Chips 2024), as far as remembered: 48 KiB of data at 4 cycles, 17 cycles to the second-level cache. The rest are estimates
	// of a laptop. Shared: a Core Ultra 7 258V has 8 cores at 4.8 GHz and 128 bits of LPDDR5X-8533 (Intel ARK).
	Hierarchy: core.Hierarchy{
		First: 48 << 10, Fills: 16, Latency: [3]float64{17, 90, 500}, Line: [3]float64{1.5, 4, 8}, Several: 8, Shared: 18,
	},
	Costs:    lionCoveCosts,
	Pipeline: core.Pipeline{Width: 8, Window: 576, Waiting: 120, Scalar: "defghi"},
}

// lionCoveCosts are derived from the ports in LLVM's model (llvm/lib/Target/X86/X86SchedLunarlakeP.td, commit
// 353732b75417): logic runs on the vector ports V0 to V3; products, shifts, minimum and comparison on V0 and V1;
// shuffles of any width and float additions on V2 and V3; three ports load and two store. A conversion from 16-bit floats
// is one operation on each pair, a blend by top bits three operations on any port.
//
// The model takes the latency of products and divisions for their throughput: here products are pipelined, on two
// ports. It doubts its own figures for divide and mul32, so these have the costs of the ordinary core. So have the classes
// that need AVX-512 or two registers of a table, which this core does not run.
//
// Latencies have the same source. Ports 0 to 3 are V0 to V3, 8 to a load, b and c store. The number of waiting
// instructions is a guess.
var lionCoveCosts = onUnits(core.Costs{
	alu: {Tenths: 3}, blend: {Tenths: 8}, load: {Tenths: 4}, splat: {Tenths: 4}, store: {Tenths: 5},
	compare: onV01(5), shift: onV01(5), multi: onV01(5), floatMul: onV01(5), floatFMA: onV01(6),
	shuffle: onV23(5), permute: onV23(5), permuteByte: onV23(5), floatAdd: onV23(5), splatBytes: onV23(5),
	toFloat: {Tenths: 5, Busy: []int{5, 5, 5}},
	mul32:   goldenCoveCosts[mul32], divide: goldenCoveCosts[divide],
	select3: goldenCoveCosts[select3], toMask: goldenCoveCosts[toMask], narrow: goldenCoveCosts[narrow],
	permuteWord: goldenCoveCosts[permuteWord],
	permutes:    goldenCoveCosts[permutes], bytePairs: goldenCoveCosts[bytePairs],
}, core.Costs{
	alu:         {Latency: 1, Ports: "0123"},
	blend:       {Latency: 3, Ports: "0123+0123+0123"},
	load:        {Latency: 7, Ports: "89a"},
	splat:       {Latency: 7, Ports: "89a"},
	store:       {Latency: 1, Ports: "bc"},
	compare:     {Latency: 1, Ports: "01"},
	shift:       {Latency: 1, Ports: "01"},
	multi:       {Latency: 4, Ports: "01"},
	floatMul:    {Latency: 4, Ports: "01"},
	floatFMA:    {Latency: 4, Ports: "01+89a"},
	shuffle:     {Latency: 1, Ports: "23"},
	permute:     {Latency: 3, Ports: "23"},
	permuteByte: {Latency: 3, Ports: "23"},
	permuteWord: {Latency: 3, Ports: "01+23"},
	floatAdd:    {Latency: 3, Ports: "23"},
	splatBytes:  {Latency: 8, Ports: "89a+23"},
	toFloat:     {Latency: 8, Ports: "01+23"},
	mul32:       {Latency: 10, Ports: "01+01"},
	divide:      {Latency: 11, Ports: "0*5"},
	select3:     {Latency: 1, Ports: "0123"},
	toMask:      {Latency: 4, Ports: "01+0123"},
	narrow:      {Latency: 4, Ports: "23"},
	permutes:    {Latency: 7, Ports: "01+23+23"},
	bytePairs:   {Latency: 5, Ports: "01+23+23"},
})

// onV01 is the cost of an instruction that runs on V0 and V1. The sets of units are all ports, this pair, and the other.
func onV01(tenths int) core.Cost { return core.Cost{Tenths: tenths, Busy: []int{3, tenths, 0}} }

// onV23 is the cost of an instruction that runs on V2 and V3.
func onV23(tenths int) core.Cost { return core.Cost{Tenths: tenths, Busy: []int{3, 0, tenths}} }
