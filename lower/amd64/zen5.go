package amd64

import (
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// zen5 is AMD's Zen 5.
var zen5 = core.Core{
	Name: "zen5", ISAs: []string{"amd64/avx512vbmi"}, CPUs: []cpu.Set{{Vendor: amd, FirstFamily: 0x1a}},
	// AMD, Software Optimization Guide for Zen 5 (58455), as far as remembered: 48 KiB, three schedulers of 38 entries, 384 registers (programs name 32). A VM of 2026-11-28 (family 26, model 2) has 17, 54
	// and 660 cycles, and 1, 2.1 and 6.3 from line to line, by tmacc host -calibrate. Fills, Holds, Follows and Ahead are what explains how long kernels
	// with 14 kinds of prefetches take there (docs/lab/README.md, Pairs). Shared: an EPYC 9755 has 128 cores at 4.1 GHz and 12 channels of DDR5-6400 (AMD's page of it).
	Hierarchy: core.Hierarchy{
		First: 48 << 10, Fills: 96, Holds: true, Latency: [3]float64{17, 54, 660}, Line: [3]float64{1, 2.1, 6.3}, Several: 6.1, Shared: 55, Follows: 16 << 10, Ahead: 50,
	},
	Costs:    zen5Costs,
	Pipeline: core.Pipeline{Width: 8, Window: 448, Waiting: 114, Results: 352, Scalar: "bcdefg"},
}

// zen5Costs are the costs at any width. 3.6 instructions a cycle run on any unit, 2 on two units, and 2.45 of products
// and permutations in turns.
//
// Latencies are Zen 4's, because llvm/lib/Target/X86/X86ScheduleZnver5.td has those too. Nobody has measured them here.
var zen5Costs = whole(map[core.Class]figure{
	alu:         {3, anyUnit, 1, "0123"},
	select3:     {3, anyUnit, 1, "0123"},
	compare:     {3, anyUnit, 1, "0123"},
	shift:       {5, shifts, 1, "23"},
	blend:       {3, anyUnit, 1, "0123"},
	toMask:      {10, permutations, 4, "12+0123"},
	multi:       {5, products, 4, "01"},
	mul32:       {10, products, 4, "01"},
	divide:      {50, products, 11, "01*6"},
	floatAdd:    {5, shifts, 3, "23"},
	floatMul:    {5, products, 3, "01"},
	floatFMA:    {5, products, 4, "01+89"},
	toFloat:     {8, shifts, 4, "23+12"},
	shuffle:     {5, permutations, 2, "12"},
	permute:     {5, permutations, 4, "12"},
	permuteByte: {5, permutations, 4, "12"},
	permuteWord: {5, permutations, 4, "12"},
	permutes:    {7, permutations, 4, "12"},
	bytePairs:   {7, permutations, 5, "12+12"},
	narrow:      {10, permutations, 4, "12+12"},
	load:        {5, anyUnit, 7, "89"}, splat: {5, anyUnit, 7, "89"},
	splatBytes: {5, anyUnit, 7, "89"},
	store:      {10, anyUnit, 1, "a*2"},
})

// whole has the costs of figures of any width.
func whole(figures map[core.Class]figure) core.Costs {
	costs := core.Costs{}
	for class, f := range figures {
		costs[class] = core.Cost{Tenths: f.tenths, Busy: f.busy(figures[alu].tenths, 3*f.tenths/5), Latency: f.latency, Ports: f.ports}
	}
	return costs
}
