package amd64

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// zen4 is AMD's Zen 4. Registers of 512 bits are computed on, and loaded, by half.
var zen4 = core.Core{
	Name: "zen4", ISAs: []string{"amd64/avx512vbmi"}, CPUs: []cpu.Set{{Vendor: amd, FirstFamily: 0x19, LastFamily: 0x19}},
	// A VM of 2026-11-29 (family 25, model 17) has 2, 2.7 and 6.6 cycles from line to line by tmacc host -calibrate, and 15, 58 and 550 to a line of any
	// page. 300 to memory, and 19 to the second-level cache, explain the times of kernels better: by the measured ones, default schedules take 1.04 times as long. 24 misses in
	// flight: another VM, docs/lab/choices.md, Streams and TablesRead. 50 cycles to the third-level cache: AMD, Software
	// Optimization Guide for Zen 4 (57647), as far as remembered, and the pairs; VMs that share it show 160 and more. That prefetches into the second-level cache hold a
	// miss, and are dropped at times, is what loads of others show (Wang et al., arXiv 2411.02814), and the pairs. Trains, Misses, Follows and Ahead are what explains how
	// long kernels with 21 kinds of prefetches take on the VM of 2026-11-29 (docs/lab/zen4/prefetches.md), and the pairs.
	// Results: 192 registers, less the 32 that programs name (the guide, as far as remembered). Shared: an EPYC 9654 has 96 cores at 3.55 GHz and 12 channels of DDR5-4800 (AMD's page of it).
	Hierarchy: core.Hierarchy{
		First: 32 << 10, Fills: 24, Holds: true, Trains: true, Misses: true, Latency: [3]float64{19, 50, 300}, Line: [3]float64{2, 2.7, 6.6}, Several: 6.5, Shared: 47,
		Follows: 8 << 10, Ahead: 28,
	},
	Costs:    zen4Costs,
	Pipeline: core.Pipeline{Width: 6, Window: 320, Waiting: 48, Results: 160, Scalar: "cdef"},
}

// zen4Costs are the costs at 512 bits; narrower instructions take half. The units are 256 bits wide. At 512 bits, 2
// instructions a cycle run on any units, 1 on two units, and 1.5 of products and permutations in turns, as if no unit
// were ever idle.
//
// The figures are of loops of one instruction and of two in turns. The exceptions are instructions with three operands that run on any unit (VPTERNLOG and a
// dot product take 13, two and a dot product 22; with AND instead 12 and 15), masks, and VPERMI2B. VPERMI2B takes 10 alone; in a loop with two ANDs of its result and
// two dot products of these it adds 17 (VPERMB adds 7; VPERMI2W in loops of lookups and additions adds as little).
//
// Latencies and most ports: llvm/lib/Target/X86/X86ScheduleZnver4.td. Port 0 to 3 are the four units of 256 bits. That file has products on 0 and 3, and shifts on 1 and 2; loops of two
// instructions in turns say otherwise (docs/lab/zen4/prefetches.md, Ports). Two schedulers have 32 entries each, says the same file, and each gives to its own units: one is
// full before the other. 48 that wait explain best how long 408 kernels take on the VM of 2026-11-29 with weights in the second-level cache.
var zen4Costs = halved(map[core.Class]figure{
	alu:         {5, anyUnit, 1, "0123"},
	select3:     {8, anyUnit, 1, "0123"},
	compare:     {5, anyUnit, 1, "0123"},
	shift:       {10, shifts, 1, "23"},
	blend:       {5, anyUnit, 1, "0123"},
	toMask:      {15, products, 3, "01+0123"},
	multi:       {10, products, 4, "01"},
	mul32:       {10, products, 4, "01"},
	divide:      {60, products, 11, "01*6"},
	floatAdd:    {10, shifts, 3, "23"},
	floatMul:    {10, products, 3, "01"},
	floatFMA:    {10, products, 4, "01+89"},
	toFloat:     {13, shifts, 4, "23"},
	shuffle:     {10, permutations, 2, "12"},
	permute:     {10, permutations, 4, "12"},
	permuteByte: {10, permutations, 4, "12"},
	permuteWord: {10, permutations, 4, "12"},
	permutes:    {11, permutations, 4, "12"},
	bytePairs:   {17, anyUnit, 4, "12+0123"}, // which are multiplied
	narrow:      {10, permutations, 4, "12+12"},
	load:        {10, anyUnit, 7, "89"}, splat: {5, anyUnit, 7, "89"},
	splatBytes: {5, anyUnit, 7, "89"},
	store:      {20, anyUnit, 1, "a*2"},
})

// halved has the costs of figures of 512 bits on a core that computes on registers of 512 bits by half.
func halved(figures map[core.Class]figure) core.Costs {
	costs, any := core.Costs{}, figures[alu].tenths
	for class, f := range figures {
		half := figure{tenths: (f.tenths + 1) / 2, on: f.on}
		costs[class] = core.Cost{
			Tenths: half.tenths, Busy: half.busy((any+1)/2, (half.tenths+2)/3),
			Wide: f.tenths, WideBusy: f.busy(any, (f.tenths+2)/3),
			Latency: f.latency, Ports: f.ports, WidePorts: twice(f.ports, class == load || class == store),
		}
	}
	return costs
}

// twice has each micro-operation on registers keep its port busy twice as long, and with memory each other one too: what
// a broadcast reads is no wider.
func twice(ports string, memory bool) string {
	micros, err := core.Micros(ports)
	if err != nil {
		panic("BUG: amd64: " + err.Error())
	}
	all := strings.Split(ports, "+")
	for i, m := range micros {
		if memory || m.Ports&0xf != 0 {
			name, _, _ := strings.Cut(all[i], "*")
			all[i] = fmt.Sprint(name, "*", 2*m.Cycles)
		}
	}
	return strings.Join(all, "+")
}
