// Package arm64 prints kernels as Go assembly for NEON. The Go assembler lacks
// most NEON arithmetic, so every vector instruction is a WORD that the row table
// encodes; scalars, branches and arguments are Go mnemonics.
//
// Instructions: Arm Architecture Reference Manual for A-profile, chapter C7.
// Comments and texts give operands in Arm's order, the result first.
package arm64

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/lower"
)

// The CPU features that rows need beyond NEON itself.
const (
	ASIMDDP lower.Features = 1 << iota // FEAT_DotProd: SDOT
	I8MM                               // FEAT_I8MM: SMMLA
)

// featureNames are the features in the order of their bits, as
// klauspost/cpuid/v2 and Linux name them.
var featureNames = [...]string{"ASIMDDP", "I8MM"}

// FeatureNames lists the names of the features in f: "ASIMDDP".
func FeatureNames(f lower.Features) []string {
	names := []string{}
	for i, n := range featureNames {
		if f>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return names
}

// isas are the instruction sets, from the fewest CPU features to the most. neon is what every core of Armv8-A has, dotprod
// what those with FEAT_DotProd have, and i8mm what those with FEAT_I8MM have, which Armv8.6 demands.
var isas = []lower.ISA{
	isa("neon", 0),
	isa("dotprod", ASIMDDP),
	isa("i8mm", ASIMDDP|I8MM),
}

func isa(name string, has lower.Features) lower.ISA {
	return lower.ISA{Name: "arm64/" + name, VecBits: 128, NumVec: 32, NumGP: numGP, Narrow: 1, Octets: has&I8MM != 0, Has: has}
}

// target is an instruction set on a core.
type target struct {
	m    lower.Machine
	rows func() []lower.Row
}

// Backend is what the targets are made of.
var Backend = &lower.Backend{Arch: "arm64", ISAs: isas, Classes: classes, Ordinary: ordinary, Cores: cores, New: newTarget}

var targets = Backend.Targets()

func newTarget(m lower.Machine) lower.Target {
	return target{m, sync.OnceValue(func() []lower.Row { return makeRows(m.Costs) })}
}

// Targets lists the targets, from the fewest CPU features to the most.
func Targets() []lower.Target { return slices.Clone(targets) }

// ByName returns the target called "arm64/dotprod" (or just "dotprod"), or nil.
func ByName(name string) lower.Target { return lower.Find(Targets(), name) }

func (t target) Machine() lower.Machine { return t.m }
func (t target) Rows() []lower.Row      { return t.rows() }

// General registers: R0-R15 and R19-R24 are the allocator's. R16 holds an
// address or a number for a moment, R25 the argument pointer throughout. R17 is
// left to veneers; R18 is the platform's, R26 the closure, R27 the Go assembler's
// scratch, R28 the goroutine, R29 and R30 frame and link.
const (
	numGP   = 22
	regTemp = 16
	regArgs = 25
)

// gp is the machine's number of the allocator's general register n.
func gp(n int) int {
	switch {
	case n < 0 || n >= numGP:
		panic(fmt.Sprintf("BUG: arm64: no general register %d", n))
	case n < 16:
		return n
	}
	return n + 3
}
