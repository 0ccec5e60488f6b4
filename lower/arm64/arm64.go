// Package arm64 prints kernels as Plan 9 assembly for NEON. The Go assembler
// lacks most NEON arithmetic, so every vector instruction is a WORD that the row
// table encodes; scalars, branches and arguments are Go mnemonics.
//
// Encodings: Arm Architecture Reference Manual for A-profile, chapter C7.
package arm64

import (
	"fmt"

	"github.com/tmacc/tmacc/lower"
)

// ASIMDDP is FEAT_DotProd (Linux calls it asimddp): SDOT.
const ASIMDDP lower.Features = 1 << iota

// DotProd returns the target of every Armv8.2 core with FEAT_DotProd: Neoverse
// N1 and V1, Cortex-A55 and A76, Apple M1, and their successors.
func DotProd() lower.Target {
	return target{lower.Machine{Name: "arm64/dotprod", VecBits: 128, NumVec: 32, NumGP: numGP, Has: ASIMDDP}}
}

type target struct{ m lower.Machine }

func (t target) Machine() lower.Machine { return t.m }
func (t target) Rows() []lower.Row      { return rows }

// General registers: R0-R15 and R19-R24 are the allocator's. R16 holds an
// address or a number for one instruction, R25 the argument pointer throughout.
// R17 is left to veneers; R18 is the platform's, R26 the closure, R27 the Go
// assembler's scratch, R28 the goroutine, R29 and R30 frame and link.
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
