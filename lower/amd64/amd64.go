// Package amd64 prints kernels as Go assembly for AVX2, AVX-VNNI and AVX-512. Registers
// are physical by the time avo sees them: tmacc allocates, avo checks operand
// forms and prints.
//
// Instructions: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2. Comments give operands in Go order, sources first.
package amd64

import (
	"slices"
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

// onZen4 is m with its costs: registers of 512 bits are computed on, and loaded, by half. Where an instruction that decodes and a dot product
// take turns, it runs fewer of them than where several of a kind follow each other. Figures: docs/choices.md, DecodeFirst.
func onZen4(m lower.Machine) lower.Machine {
	m.Core, m.Halves, m.DecodeFirst = zen4Core, true, true
	return m
}

// onZen5 is m with its costs. Sums that begin in an iteration wait for half of what one dot product waits for the one before it, which is a guess at how far
// iterations overlap. Figures: docs/choices.md, Fresh.
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

// near and far are how CPUs of AMD up to Zen 4 ask for what takes little work and much of it. 24 lines are all that a first-level cache of
// Zen 4 waits for, so nothing is asked for into it but lines nearby; what the hardware foresees suffices up to the end of a
// page, if it gets there in time. Figures: docs/choices.md, Streams.
var (
	near = nest.Streams{Ahead: 128, Act: 128}
	far  = nest.Streams{Far: 8 << 10, Every: true, Act: 128}
)

// zen4 asks by near, and by far where that gains from memory: from the third-level cache far is often faster, but defaults are for models that no
// cache holds. Figures: docs/choices.md, SlowLine, SlowOne, Act, Tiles, TilesCost.
var zen4 = lower.Memory{
	Streams: near, Slow: far, SlowLine: 4.5, SlowOne: 6.5, Tiles: 2, TilesCost: 1, Indexes: true,
	// What searches found. Figures: docs/choices.md, SlowFew, RowFields.
	SlowFew: nest.Streams{Ahead: 2 << 10, Far: 8 << 10, Every: true, Act: 128}, RowFields: true,
	// What the CPU foresees is a stream: of super-blocks it needs to find what groups share where kernels read it. Figures: docs/choices.md, Lead.
	Scattered: far, Alone: nest.Streams{Ahead: 256, Act: 128}, Lead: true,
	// Weights of one column that looks up in tables come more slowly than others, whatever is asked for. Two such tiles in groups have to be asked for
	// earlier than 4 KiB ahead of each, and into the first-level cache besides. Figures: docs/choices.md, TablesRead, GroupLookups.
	TablesRead: 1.3, GroupLookups: nest.Streams{Ahead: 128, Far: 32 << 10, Every: true, Act: 128},
	// Row vectors that lie 1 or 2 KiB apart, read in turns, it foresees badly, from the third-level cache too. Figures: docs/choices.md, Stride, Skipping.
	Stride: 1 << 10, Skipping: 1.5,
}

// zen2 asks for every line into the first-level cache, by steady, or 1 KiB ahead where two tiles lie side by side, which is worth a little more
// arithmetic. Figures: docs/choices.md, Streams, Tiles, TilesCost.
var zen2 = lower.Memory{
	Streams: steady, Slow: steady, Tables: memory.Tables, Skipping: skipping, Tiles: 2, TilesCost: 1.06, Indexes: true,
	// Super-blocks, also by two tiles. What has a line for few weights is not for sparse. Figures: docs/choices.md, Scattered, SuperTiles.
	Scattered: sparse, SuperTiles: sparse,
}

// sparse is far of two lines in four: what lies between, the CPU foresees.
var sparse = nest.Streams{Far: 8 << 10, Act: 128}

var steady = nest.Streams{Ahead: 3 << 10, Act: 128}

// early is every line into the first-level cache, 9 KiB ahead: 8 KiB ahead it would have the place of what is read there. Figures: docs/choices.md, Streams.
var early = nest.Streams{Ahead: 9 << 10, Act: 128}

// zen5 asks for every line into the first-level cache, by early. What takes least work on a line the CPU foresees by itself.
// Figures: docs/choices.md, Streams, SlowLine.
var zen5 = lower.Memory{
	Streams: nest.Streams{Act: 128}, Slow: early, SlowLine: 1.52,
	// Several columns of super-blocks are asked for by far, one by early. Figures: docs/choices.md, Scattered, Alone.
	Scattered: far, Alone: early,
	// An iteration that reads 2 KiB takes up to twice as long as two of 1 KiB where weights are in the second-level cache: it looks as if what the CPU foresees
	// of 32 loads, each 2 KiB from where it was before, displaces what is needed. Figures: docs/choices.md, Stride, Skipping.
	Stride: 1 << 10, Skipping: 1.25,
	// One stream is not enough everywhere: of some VMs memory sends more of two. Figures: docs/choices.md, Tiles, TilesCost, HalvesTiles.
	Tiles: 2, TilesCost: 1.15, HalvesTiles: true,
}

// streams is how far prefetches are ahead. One distance is not enough: as many lines
// as memory can send do not fit into what a first-level cache waits for. Figures: docs/choices.md, Streams.
var streams = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}

// memory is that of most machines. Tables of several columns are more than a first-level cache has room for.
// Figures: docs/choices.md, Tables.
var memory = lower.Memory{Streams: streams, Slow: streams, Scattered: streams, Tables: 2 << 10, Skipping: skipping}

// skipping: several columns take longer where they read half of a tile, though from a cache one column gains. Figures: docs/choices.md, Skipping.
const skipping = 1.07

func machine(name string, has lower.Features) lower.Machine {
	m := lower.Machine{Name: "amd64/" + name, VecBits: 256, NumVec: 16, NumGP: numGP, Narrow: 2, Indexed: true, Has: has, Memory: memory}
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
func ByName(name string) lower.Target { return lower.Find(Targets(), name) }

func (t target) Machine() lower.Machine { return t.m }

// Rows are those of the machine alone: the same vir operation has other rows
// with and without EVEX.
func (t target) Rows() []lower.Row { return t.rows() }
