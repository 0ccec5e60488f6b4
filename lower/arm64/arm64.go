// Package arm64 prints kernels as Go assembly for NEON. The Go assembler lacks
// most NEON arithmetic, so every vector instruction is a WORD that the row table
// encodes; scalars, branches and arguments are Go mnemonics.
//
// Instructions: Arm Architecture Reference Manual for A-profile, chapter C7.
// Comments and texts give operands in Arm's order, the result first.
package arm64

import (
	"fmt"

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

func machine(name string, has lower.Features) lower.Machine {
	isa := lower.ISA{Name: "arm64/" + name, VecBits: 128, NumVec: 32, NumGP: numGP, Narrow: 1, Octets: has&I8MM != 0, Has: has}
	return lower.Machine{Name: isa.Name, ISA: isa, Core: neoverseN1}
}

// machines has a row per target. neon is every Armv8-A core: Cortex-A53, A57 and A72. dotprod is every Armv8.2 core with
// FEAT_DotProd: Neoverse N1, Cortex-A55 and A76, Apple M1. i8mm is every core with FEAT_I8MM too, which Armv8.6 demands:
// Neoverse V1, N2 and V2, Cortex-A510 and A710, Apple M2, and their successors.
var machines = []lower.Machine{
	machine("neon", 0),
	machine("dotprod", ASIMDDP),
	machine("i8mm", ASIMDDP|I8MM),
}

type target struct{ m lower.Machine }

// Targets lists the targets, from the fewest CPU features to the most.
func Targets() []lower.Target {
	var ts []lower.Target
	for _, m := range machines {
		ts = append(ts, target{m})
	}
	return ts
}

// ByName returns the target called "arm64/dotprod" (or just "dotprod"), or nil.
func ByName(name string) lower.Target { return lower.Find(Targets(), name) }

func (t target) Machine() lower.Machine { return t.m }
func (t target) Rows() []lower.Row      { return rows() }

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
