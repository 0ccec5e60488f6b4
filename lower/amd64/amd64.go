// Package amd64 prints kernels as Go assembly for AVX2, AVX-VNNI and AVX-512. Registers
// are physical by the time avo sees them: tmacc allocates, avo checks operand
// forms and prints.
//
// Instructions: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2. Comments give operands in Go order, sources first.
package amd64

import (
	"slices"
	"strings"
	"sync"

	"github.com/mmcloughlin/avo/reg"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
)

// The CPU features that rows need.
const (
	AVX2 lower.Features = 1 << iota
	F16C
	AVXVNNI
	AVX512F
	AVX512BW
	AVX512DQ
	AVX512VL
	AVX512VNNI
	AVX512VBMI
	SSE4A // no instruction of ours: CPUs of AMD (and Hygon) have it, Intel's do not; of them with AVX-512, AVX-VNNI tells Zen 5 from Zen 4
)

// featureNames are the features in the order of their bits, as
// klauspost/cpuid/v2, avo and Intel's manual name them.
var featureNames = [...]string{
	"AVX2", "F16C", "AVXVNNI", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VNNI", "AVX512VBMI", "SSE4A",
}

// FeatureNames lists the names of the features in f: "AVX2", "F16C".
func FeatureNames(f lower.Features) []string {
	var names []string
	for i, n := range featureNames {
		if f>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return names
}

// evex is what every use of registers 16 to 31 and of 512 bits takes for granted.
const evex = AVX512F | AVX512BW | AVX512DQ | AVX512VL

// numGP counts the allocatable general registers: all but SP, BP (the frame
// pointer) and R15 (the Go assembler's in dynamically linked code).
const numGP = 13

var gpRegs = [numGP]reg.Register{
	reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13, reg.R14,
}

// machines has a row per target. With evex, a target has 32 registers of 512
// bits; without, no instruction of its kernels is EVEX-encoded.
var machines = []lower.Machine{
	machine("avx2", AVX2|F16C),
	zen("zen2", AVX2|F16C, "amd64/avx2", zen2),
	machine("avxvnni", AVX2|F16C|AVXVNNI),
	machine("avx512", AVX2|F16C|evex|AVX512VNNI),
	machine("avx512vbmi", AVX2|F16C|evex|AVX512VNNI|AVX512VBMI),
	onZen4(zen("zen4", AVX2|F16C|evex|AVX512VNNI|AVX512VBMI, "amd64/avx512vbmi", zen4)),
	onZen5(zen("zen5", AVX2|F16C|AVXVNNI|evex|AVX512VNNI|AVX512VBMI, "amd64/avx512vbmi", zen5)),
}

// The cores whose costs are not those of Golden Cove.
const (
	zen4Core = "Zen 4"
	zen5Core = "Zen 5"
)

// onZen4 is m with its costs: registers of 512 bits are computed on, and loaded, by half. Where an instruction that decodes and a dot product take turns, it runs fewer
// of them than where several of a kind follow each other. (Zen 4, one column from the second-level cache, decoding first, of the time by turns, the layout being the same: w2 0.95, w3 0.95, w4-g32 0.94,
// w4-g64 0.90, by runs w4-g128 0.91 to 0.99, w2-g32 0.92 to 1.0, w2-g128, w2-g64 and w4 0.98 to 1.02. Lookups and codewords: iq4nl 0.93 and 1.06, ternary 1.03.)
func onZen4(m lower.Machine) lower.Machine {
	m.Core, m.Halves, m.DecodeFirst = zen4Core, true, true
	return m
}

// onZen5 is m with its costs. Sums that begin in an iteration wait for half of what one dot product waits for the one before it, which is a guess at how far
// iterations overlap: w4-g64 with four columns takes 0.97 of the time with two sums of 8 dot products for each row vector and column as with one of 16, which would
// win otherwise.
func onZen5(m lower.Machine) lower.Machine {
	m.Core, m.Fresh = zen5Core, 25
	return m
}

// zen is a target on CPUs of AMD.
func zen(name string, has lower.Features, like string, memory lower.Memory) lower.Machine {
	m := machine(name, has|SSE4A)
	m.Like, m.Memory = like, memory
	return m
}

// near and far are how CPUs of AMD up to Zen 4 read what takes little work and much of it. 24 lines are all that a first-level cache of
// Zen 4 waits for, 17 GB/s, so nothing is asked for into it but lines nearby; what the hardware foresees suffices up to the end of a
// page, if it gets there in time. (Zen 4, GEMV of 4096 x 4096 from memory, share of the bandwidth by the distances of other CPUs, by near
// and by far: w4 0.63 0.92 0.55, w8 0.81 0.90 0.77, q4_0 0.59 0.88 0.65, w4-g32 - 0.83 0.66; w3 0.63 0.70 0.73,
// ternary 0.65 - 0.75, w1 0.54 - 0.63. Four columns take 0.78 of the time
// by far of what they take by near for q4_0, 0.81 for w4 and 1.2 for w8. What weights displace, 32 KiB between two uses, has to wait
// for one of those 24 lines: asked for 128 bytes ahead, q4_k and q2_k take 0.94 of the time, 256 or 512 bytes are worse;
// tables of four columns of w1, asked for 2 KiB ahead, take 1.09 times as long as without.)
//
// Row vectors that lie 1 or 2 KiB apart, read in turns, it foresees badly, from the third-level cache too: w4-g128, w4-g256 and w8-g128 of one column take 0.36, 0.39 and 0.46 of the time
// with row vectors side by side (512 x 2048 from the second-level cache: 0.98). Of tiles of which they read half or a quarter, four columns take 1.9 to 3.5 times as long as of whole ones.
//
// Of one column the CPU foresees more out of memory by near, though from the third-level cache far is faster. (Zen 4, by near, of the time by far, from memory and the
// third-level cache: w2, 4.8 cycles a line, 0.87 and 1.1, w2-g32 0.9 and 1.1, w2-g64 0.92 and 1.15, w3-g64 0.79 and 1.1, q2_0, 6, 0.95 and 1.15, ternary, 8.3, 1.01, q1_0, 12, 1.02; of two columns w3, 6 a line, 1.08 and 1.06, iq1, 5.9, 1.15 and 1.15, but by two tiles
// iq4_nl, 5.3, 0.87 and 1.1, mxfp4 0.89 and 1.07, q5_0 0.86 to 0.94 and 1.24, iq3_xxs 0.8 and 1.0. Activations asked for too: w3 0.90, w2 0.96, q6_k 0.9 from memory, others 0.98 to 1.02; of four columns w8 0.95, w8-g64 1.08.)
//
// What it foresees is a stream: of super-blocks it needs to find what groups share where kernels read it (Lead). (Zen 4, activations in groups as ggml's, one column from memory and from the third-level
// cache, by Lead and 128 bytes ahead, of the time by far without: q4_k 0.75 and 0.82 to 1.1, q5_k 0.80 and 0.8 to 1.1, q6_k 0.75 and 0.72, iq4_xs 0.81 and 0.84, iq3_s 0.81 and 0.89, and without Lead 1.08, 0.97, 1.25, 1.05, 1.05 from memory; what takes 6.5 cycles a line stays with far: q3_k 1.0 and 1.17, q2_k
// 0.95 and 1.15. By two tiles, 256 bytes ahead, 0.9 to 0.97 of that, q6_k 1.02 and by 128 bytes 1.3.)
//
// Two tiles, of the time by one, from memory, the third- and the second-level cache: w1 0.93, 0.95 and 1.0, w4 0.99, 0.97 and 0.93, w8 1.0, 0.97 and 1.0, ternary 0.94, 1.02 and 1.0, q4_0 0.96, 0.95 and 0.96, w4-g64 0.94, 0.9 and 0.93, mxfp4 0.96, 0.93 and 0.95, w8-g64 1.0, 0.84 and 0.96,
// tq2_0 1.02, 1.0 and 0.99; of two columns, where they cost less, 0.86 (iq4_nl) to 1.0, 0.81 to 1.05 and 0.95 to 1.0. What costs 1.006 (w3-g64) takes 1.06 from memory, 1.012 (w3) 0.95.
//
// What searches found for four columns, a line into the first-level cache 2 KiB ahead besides, 4096 x 4096 from memory, speed of four and of eight columns over that by far alone, medians of 2 to 4, of which others differ by up to 0.03 (SlowFew): w1 1.08 and 1.03, w2 1.03 and 1.02, w3 1.05 and 1.03,
// ternary 1.05 and 1.02, w4 1.0 to 1.02 and 1.04, q4_0 1.05 and 1.02, w4-g128 and w2-g32 1.01 and 1.0, iq4_nl 1.01 and 1.27, mxfp4 1.0 and 1.25; from the second-level cache 0.98 to 1.02, but iq4_nl once 0.94. Of two columns w2 1.05 and q4_0 1.04, but w4 0.95; of one ternary 1.1, but q1_0 0.87.
//
// Weights of one column that looks up in tables come more slowly than others, whatever is asked for (TablesRead): w2 and ternary by tables, which cost what dot products do from
// caches, take 1.43 times as long from memory; w1 reads 20 and q1_0 24 of 28 GB/s; 1.3 lies between. Two such tiles in groups have to be asked for earlier than 4 KiB
// ahead of each, and into the first-level cache besides (GroupLookups: q1_0, 128 bytes and 16 KiB, half of 32 for each of two, 1.06 to 1.23 times as fast from memory, four medians of 2 to 5 rounds, 1.13 and 1.2 by tmacc threads; w1-g128 1.0; from caches the same). Without groups w1 has 0.75 of
// the bandwidth by 128 bytes alone, instead of 0.64, by tmacc bench, but takes 1.3 times as long by tmacc threads; nobody knows why.
var (
	near = nest.Streams{Ahead: 128, Act: 128}
	far  = nest.Streams{Far: 8 << 10, Every: true, Act: 128}
	zen4 = lower.Memory{
		Streams: near, Slow: far, SlowFew: nest.Streams{Ahead: 2 << 10, Far: 8 << 10, Every: true, Act: 128},
		GroupLookups: nest.Streams{Ahead: 128, Far: 32 << 10, Every: true, Act: 128}, Scattered: far, Alone: nest.Streams{Ahead: 256, Act: 128}, Lead: true, SlowLine: 4.5, SlowOne: 6.5, // w3 4.3, w4 2.4, of four columns 7
		Stride: 1 << 10, Skipping: 1.5, Tiles: 2, TilesCost: 1, Indexes: true, TablesRead: 1.3, RowFields: true,
	}
)

// zen2 asks for every line into the first-level cache, 3 KiB ahead, or 1 KiB where two tiles lie side by side, and super-blocks by sparse. (Zen 3, reads 25 GB/s; medians of 9 to 15 rounds of 4096 x 4096 from memory and
// from the third-level cache, by 3 KiB, of the time by 128 bytes ahead (w1: by streams), which measurements on a Zen 4 had said: w1 0.92 and 0.89, w3 0.80 and 0.91, w4 0.81 and 0.81, w8 0.96 and 0.84, q4_0 0.77 and 0.86, w2 0.97 and 0.95,
// iq4_nl 0.83 and 1.02, ternary 0.97 and 0.93, q1_0 0.95 and 0.98; by far w1 0.93 and 0.92, w3 0.77 and 0.93, w4 0.83 and 0.79, w8 0.98 and 0.65, q4_0 0.83 and 0.83, iq4_nl 0.88 and 0.99; 1 KiB ahead w2 1.06, w3 0.85, ternary 1.09 from memory.
// Four columns, by 3 KiB: q4_0 0.62 and 0.96, w8 0.90 and 0.93, w2 0.71 and 0.95, w1 0.97, w3 1.09 of the time by streams.)
//
// Super-blocks by sparse, from memory, the third- and the second-level cache (kernels in turn in one process, medians of 5 rounds of samples of 3 ms). One column by one tile, of the time by far:
// q2_k 0.93, 0.97 and 0.99, q3_k 0.90, 0.95 and 0.99, q6_k 0.84, 0.85 and 0.93; by two tiles, of the time by 1 KiB ahead: q4_k 1.0, 0.81 and 1.07, q5_k 0.84, 0.65 and 1.01, iq4_xs 0.89, 0.81 and 1.04, iq3_s 1.01, 0.79 and 1.08. Two columns, of the time by far:
// 0.74 (q4_k) to 1.02 (q2_k), 0.93 to 1.01 and 0.96 to 1.01; four 0.92 to 0.98, 0.90 to 0.99 and 0.98 to 1.0. 3 KiB ahead is as good but for q3_k from the third-level cache, 1.08 of the time by far, and iq3_s from memory, 1.17 of that by 1 KiB.
// What has a line for few weights is not for sparse: q8_0 takes 1.4 of the time by 1 KiB ahead from memory, 1.6 from the third-level cache.
//
// Two tiles, 1 KiB ahead, of the time by one that asks by far, from memory, the third- and the second-level cache: w4 0.79, 0.83 and 0.88, w8 0.75, 0.84 and 0.92, w2 0.93, 0.97 and 0.92,
// q4_0 0.89, 0.80 and 0.79, q8_0 0.75, 0.90 and 1.13 (the best samples 0.96), iq4_nl 0.89, 0.94 and 0.95, all of which cost less than by one. What costs more, in brackets, activations in groups as GGUF's have them or w2-g128's of whole rows, of the time by one that asks by steady, on another Zen 3 whose memory sends more of two streams:
// q1_0 (1.045) 0.92, 0.91 and 0.90, w2-g128 (1.02) 0.87, 0.88 and 0.89, w3 (1.03) 0.89 to 1.02, 0.96 and 0.92, w3-g32 0.92, 0.88 and 0.88, iq1 0.89, 1.0 and 0.94, iq2 0.88, 0.91 and 1.02, w1-g16 (1.04) 0.87, 0.88 and 1.28, tq2_0 (1.02) 1.0, 1.02 and 0.88.
// Super-blocks, of the time by one tile, by sparse: q4_k (0.98) 0.86, 0.88 and 0.89, iq3_s (0.98) 0.88, 0.87 and 0.89, iq4_xs (0.99) 0.96, 0.98 and 0.98, q5_k (0.97) 0.85, 0.92 and 1.04, q6_k (1.05) 0.75 to 0.79, 0.81 and 1.0; q3_k (1.01) 0.75 to 0.93, 1.14 to 1.2 and
// 1.19, where memory counts for more; q2_k (1.07 with activations in groups of 256), which stays with one, 0.91 to 1.0, 1.15 and 1.16.
// Two row vectors of one tile instead, which is the layout of all columns, w4 1.16 to 1.34, 1.09 and 1.05 of the time by two tiles.
var zen2 = lower.Memory{
	Streams: steady, Slow: steady, Scattered: sparse, Tables: memory.Tables, Skipping: skipping, Tiles: 2, TilesCost: 1.06, Indexes: true, SuperTiles: sparse,
}

// sparse is far of two lines in four: what lies between, the CPU foresees.
var sparse = nest.Streams{Far: 8 << 10, Act: 128}

var steady = nest.Streams{Ahead: 3 << 10, Act: 128}

// early is every line into the first-level cache.
var early = nest.Streams{Ahead: 9 << 10, Act: 128}

// zen5 asks for every line into the first-level cache, early. (Zen 5, share of the bandwidth by zen4 and so 8 KiB ahead: w1 0.75 0.90, w2 0.88 0.92,
// w3 0.61 0.92, ternary 0.93 0.93, w4 0.90 0.95, w8 0.97 0.97, q4_0 0.70 0.93, tq2_0 0.92 0.97, mxfp4 0.86 0.91, four columns w3 0.74 0.80, w8 0.81 0.92,
// w1 0.73 0.71; 4 KiB ahead w1 has 0.73 and w3 0.84, 12 KiB are as good as 8. Where what is asked for has the place of what is read in the
// first-level cache, 8 KiB ahead, four columns of w1 take 70 us instead of 65 by 9 KiB, two runs; w2, w4 and w8 the same. Four columns of records of super-blocks are asked for by far: with
// scales beside their groups q2_k takes 1.36 times as long by early, q5_k 1.22, but q4_k 0.96; with scales elsewhere q3_k 0.76, iq4_xs 0.91. One column by early, see search.)
//
// An iteration that reads 2 KiB takes up to twice as long as two of 1 KiB where weights are in the second-level cache, not
// always, whatever is prefetched, and not in the first-level cache: it looks as if what the CPU foresees of 32 loads, each 2 KiB from where
// it was before, displaces what is needed. (512 x 2048, quartiles of 400 samples in us: w4 in iterations of 1 KiB 2.60 and 2.67, of 2 KiB
// 3.38 and 4.80, best ones 2.53; in loops of 1 KiB within them 2.76 and 2.84; w8, 256 x 1024, 1 KiB 1.69 and 1.87, 2 KiB 1.71 and 2.54, 4 KiB 1.66 and 2.03;
// w4-g64 by four row vectors in iterations of 2 KiB 4.97 and 5.20, in loops of 1 KiB 3.48 and 3.63.)
//
// What takes least work on a line (w8 1.39 cycles, of two columns 1.45, q8_0 1.48; w4 1.55) the CPU foresees by itself: without prefetches w8 takes
// 0.90 of the time from the second-level cache, which it fills, 0.92 from the third-level one and 0.98 from memory, q8_0 0.90, 0.95 and 0.99, but of four columns 1.2, and w4 1.05 from memory.
//
// One stream is not enough everywhere: a VM that calls itself Oxide Virtual Turin-like sends 27 to 34 GB/s of one, busy or as it is made, 34 to 41 of two, with and without prefetches.
// Two tiles side by side then take, of the time by one: w1 0.83, w3 0.97, w4 0.84 to 0.88, w8 0.85, w4-g32 0.75 to 0.82, q4_0 0.80, tq2_0 0.70 of neighbours; w1 0.91, w4 0.88 to 0.94, w8 0.86 to 0.88, w4-g32 0.79 of halves of the rows; w4 0.97 to 1.00 while one stream has 36.
// (From the second-level cache, of halves, four shapes from 128 x 8192 to 2048 x 512: w1 0.89 to 0.98, but 1.09 and 1.11 in two disturbed runs, w4 0.90 to 1.01, w8 0.88 to 0.96, w4-g64 0.91 to 0.95, w2-g128 0.89 to 0.93; from the third-level one w1 0.98, w4 0.99, w8 0.89 to 0.94, w4-g32 0.95. Prefetches into the
// second-level cache are no better than none: w4-g32 1.06 to 1.15, w8 1.09 to 1.26.)
//
// Of tiles of which they read half, four columns take longest: w4-g64 twice the time of whole ones from memory, mxfp4 too, and from a cache one column gains 6 to 10 %.
var zen5 = lower.Memory{
	Streams: nest.Streams{Act: 128}, Slow: early, Scattered: far, Alone: early, SlowLine: 1.52, Stride: 1 << 10, Skipping: 1.25, Tiles: 2, HalvesTiles: true, TilesCost: 1.15, // tq2_0, 1.14, takes 1.03, 1.04 and 0.70 of the time from the second- and third-level cache and from memory
}

// streams is how far prefetches are ahead. One distance is not enough: as many lines
// as memory can send do not fit into what a first-level cache waits for. (Emerald
// Rapids, GEMV of 4096 x 4096 from memory, share of the bandwidth with the first alone
// and with both: w1 0.76 and 0.87, w2 0.80 and 0.93, w3 0.80 and 0.92, w4 0.88 and
// 0.95. A second prefetch of each line, not of half of them, costs w4 a fifth where
// the weights are in the second-level cache.)
var streams = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}

// memory is that of most machines. Tables of several columns are more than a first-level cache has room for: four of w1
// out of memory took 155 us, without asking for them 164 (Emerald Rapids, 4096 x 4096; 1.5 to 3 KiB are as good).
var memory = lower.Memory{Streams: streams, Slow: streams, Scattered: streams, Tables: 2 << 10, Skipping: skipping}

// skipping: w4-g128 with four columns took 1.27 times as long with the row vectors of the halves side by side, 1.14 with each half of a
// record in one piece, which is what such tiles have; from a cache one column gained a tenth. (Emerald Rapids.)
const skipping = 1.07

func machine(name string, has lower.Features) lower.Machine {
	m := lower.Machine{Name: "amd64/" + name, VecBits: 256, NumVec: 16, NumGP: numGP, Indexed: true, Has: has, Memory: memory}
	if has&evex == evex {
		m.VecBits, m.NumVec = 512, 32
	}
	return m
}

type target struct {
	m    lower.Machine
	rows func() []lower.Row
}

var targets = makeTargets()

func makeTargets() []lower.Target {
	var ts []lower.Target
	for _, m := range machines {
		ts = append(ts, newTarget(m))
	}
	return ts
}

func newTarget(m lower.Machine) target {
	return target{m, sync.OnceValue(func() []lower.Row { return makeRows(m) })}
}

// standIns have the names of targets and need other features.
var standIns = func() []target {
	out := []target{newTarget(machine("avxvnni", AVX2|F16C|AVX512VL|AVX512VNNI))}
	for _, m := range machines {
		if m.Has&SSE4A != 0 { // on CPUs of other makers
			m.Has &^= SSE4A
			if m.Has&evex == evex { // AVX-VNNI tells Zen 5, no instruction of zen5 is one of its
				m.Has &^= AVXVNNI
			}
			out = append(out, newTarget(m))
		}
	}
	return out
}()

// StandIn is a target whose kernels compute as those of t do, on a CPU that has only the features of
// has: avxvnni's instructions have EVEX-encoded twins on CPUs with AVX-512 VNNI, of which some (Zen 4) lack
// AVX-VNNI, and those of AMD need nothing but their maker, zen5 its generation. It is t itself if the CPU has all it needs, and nil if there is none. Tests run kernels by it;
// how avxvnni itself encodes them is compared with other assemblers.
func StandIn(t lower.Target, has func(feature string) bool) lower.Target {
	runs := func(t lower.Target) bool {
		return !slices.ContainsFunc(FeatureNames(t.Machine().Has), func(n string) bool { return !has(n) })
	}
	if runs(t) {
		return t
	}
	for _, s := range standIns {
		if s.m.Name == t.Machine().Name && runs(s) {
			return s
		}
	}
	return nil
}

// Targets lists the targets, from the fewest CPU features to the most.
func Targets() []lower.Target { return append([]lower.Target(nil), targets...) }

// ByName returns the target called "amd64/avx2" (or just "avx2"), or nil.
func ByName(name string) lower.Target {
	for _, t := range targets {
		if n := t.Machine().Name; n == name || strings.TrimPrefix(n, "amd64/") == name {
			return t
		}
	}
	return nil
}

func (t target) Machine() lower.Machine { return t.m }

// Rows are those of the machine alone: the same vir operation has other rows
// with and without EVEX.
func (t target) Rows() []lower.Row { return t.rows() }
