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
)

// featureNames are the features in the order of their bits, as
// klauspost/cpuid/v2, avo and Intel's manual name them.
var featureNames = [...]string{
	"AVX2", "F16C", "AVXVNNI", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VNNI", "AVX512VBMI",
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
	machine("avxvnni", AVX2|F16C|AVXVNNI),
	machine("avx512", AVX2|F16C|evex|AVX512VNNI),
	machine("avx512vbmi", AVX2|F16C|evex|AVX512VNNI|AVX512VBMI),
}

func machine(name string, has lower.Features) lower.Machine {
	m := lower.Machine{Name: "amd64/" + name, VecBits: 256, NumVec: 16, NumGP: numGP, Has: has}
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

var standIn = newTarget(machine("avxvnni", AVX2|F16C|AVX512VL|AVX512VNNI))

// StandIn is a target whose kernels compute as those of t do, on a CPU that has only the features of
// has: avxvnni's instructions have EVEX-encoded twins on CPUs with AVX-512 VNNI, of which some (Zen 4) lack
// AVX-VNNI. It is t itself if the CPU has all it needs, and nil if there is none. Tests run kernels by it;
// how avxvnni itself encodes them is compared with other assemblers.
func StandIn(t lower.Target, has func(feature string) bool) lower.Target {
	runs := func(t lower.Target) bool {
		return !slices.ContainsFunc(FeatureNames(t.Machine().Has), func(n string) bool { return !has(n) })
	}
	switch {
	case runs(t):
		return t
	case t.Machine().Name == standIn.m.Name && runs(standIn):
		return standIn
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
