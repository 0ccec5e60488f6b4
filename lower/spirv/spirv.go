// Package spirv makes compute shaders of vector IR: SPIR-V modules for Vulkan 1.3. A lane of a workgroup runs the code of
// one iteration of the loops of lanes. It keeps each register in 32-bit words: lanes of fewer bits lie side by side in
// them, as in memory, and bits above a register's last lane are anything.
//
// Instructions: "SPIR-V Specification", version 1.6; extended ones: "SPIR-V Extended Instructions for GLSL".
package spirv

import (
	"sync"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
)

// Dot is the feature that rows need beyond Vulkan 1.1: sums of products of four bytes in a word, which Vulkan 1.3 has.
const Dot lower.Features = 1

// Tiles is the feature of cooperative matrices: the extension SPV_KHR_cooperative_matrix.
const Tiles lower.Features = 2

// isas are the instruction sets. A device without fast dot products may do better with plain integer code.
var isas = []lower.ISA{isa("plain", 0), isa("coop", Dot|Tiles), isa("dot", Dot)}

// isa has registers of 128 bits, which are one access to memory, and any number of them.
func isa(name string, has lower.Features) lower.ISA {
	return lower.ISA{Name: "spirv/" + name, VecBits: 128, Narrow: 1, Group: vir.MaxLanesOfGroup, Has: has}
}

// Target is an instruction set that prints what lower.Select returns.
type Target struct {
	m      lower.Machine
	rows   func() []lower.Row
	speeds *Speeds // nil: the general ones
}

var targets = makeTargets()

func makeTargets() (all []Target) {
	for _, s := range isas {
		m := lower.Machine{Name: s.Name, ISA: s, Core: core.Core{Name: "vulkan", ISAs: []string{s.Name}}}
		all = append(all, Target{m: m, rows: sync.OnceValue(makeRows)})
	}
	return all
}

// Targets lists the targets: plain integer code, dot products with cooperative matrices, and dot products.
func Targets() []Target { return targets }

// ByName returns the target called "spirv/dot", or just "dot"; "spirv" is the one with
// all that devices of Vulkan 1.3 have.
func ByName(name string) (Target, bool) {
	for _, t := range targets {
		if t.m.Name == name || t.m.ShortName() == name {
			return t, true
		}
	}
	return targets[len(targets)-1], name == "spirv"
}

// Machine implements lower.Selector.
func (t Target) Machine() lower.Machine { return t.m }

// Rows implements lower.Selector.
func (t Target) Rows() []lower.Row { return t.rows() }
