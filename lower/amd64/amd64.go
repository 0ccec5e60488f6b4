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

// isas are the instruction sets, from the fewest CPU features to the most. With evex, one has 32
// registers of 512 bits; without, no instruction of its kernels is EVEX-encoded.
var isas = []lower.ISA{
	isa("avx2", AVX2|F16C),
	isa("avxvnni", AVX2|F16C|AVXVNNI),
	isa("avx512", AVX2|F16C|evex|AVX512VNNI),
	isa("avx512vbmi", AVX2|F16C|evex|AVX512VNNI|AVX512VBMI),
}

func isa(name string, has lower.Features) lower.ISA {
	s := lower.ISA{Name: "amd64/" + name, VecBits: 256, NumVec: 16, NumGP: numGP, Narrow: 2, Indexed: true, Has: has}
	if has&evex == evex {
		s.VecBits, s.NumVec = 512, 32
	}
	return s
}

// target is an instruction set on a core.
type target struct {
	m    lower.Machine
	rows func() []lower.Row
}

// Backend is what the targets are made of.
var Backend = &lower.Backend{Arch: "amd64", ISAs: isas, Classes: classes, Ordinary: ordinary, Cores: cores, New: newTarget}

var targets = Backend.Targets()

func newTarget(m lower.Machine) lower.Target {
	return target{m, sync.OnceValue(func() []lower.Row { return makeRows(m.ISA, m.Costs) })}
}

// StandIn is a target whose kernels compute as t's do, on a CPU that has only the features of has. It is t itself
// if the CPU has all that t needs, and nil if there is none. Kernels of avxvnni run on a CPU with AVX-512 VNNI but
// without AVX-VNNI by the EVEX-encoded twins of their instructions. Tests run kernels by it; how avxvnni itself encodes
// them is compared with other assemblers.
func StandIn(t lower.Target, has func(feature string) bool) lower.Target {
	runs := func(t lower.Target) bool {
		return !slices.ContainsFunc(FeatureNames(t.Machine().Has), func(n string) bool { return !has(n) })
	}
	if runs(t) {
		return t
	}
	m := t.Machine()
	if m.ISA.Name != "amd64/avxvnni" {
		return nil
	}
	m.ISA = isa("avxvnni", AVX2|F16C|AVX512VL|AVX512VNNI)
	if twin := newTarget(m); runs(twin) {
		return twin
	}
	return nil
}

// Targets lists the targets, from the fewest CPU features to the most.
func Targets() []lower.Target { return slices.Clone(targets) }

// ByName returns the target called "amd64/avx2" (or just "avx2"), or nil.
func ByName(name string) lower.Target { return lower.Find(Targets(), name) }

func (t target) Machine() lower.Machine { return t.m }

// Rows lists the rows of this machine alone: the same vir operation has other rows
// with and without EVEX.
func (t target) Rows() []lower.Row { return t.rows() }
