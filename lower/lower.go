// Package lower turns vector IR into machine code. Passes that are the same on
// every target are here; a target is a machine description, a table of rows, a
// few expansions and a printer.
package lower

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Features is a set of CPU capabilities; each target names its bits.
type Features uint64

// Row says that one vir operation on one combination of types is one machine
// instruction (or none). A row for OpBitcast serves all types of its size and is a
// move between registers: bitcasts that need none never reach the printer. Every
// size of register has such a row, and one for OpConst or OpSplat.
type Row struct {
	Op      vir.Op
	Dst     vir.Type   // result type; for OpStore the stored type
	Args    []vir.Type // argument types
	Need    Features
	Asm     string       // mnemonic, for dumps and tests
	Cost    int          // reciprocal throughput, tenths of a cycle
	Busy    []int        // tenths of a cycle that each of up to MostBusy sets of execution units is busy with it, all of them first; nil: the first, for Cost
	Latency int          // cycles from its operands to its result
	Micros  []core.Micro // what it runs on
	Tied    int          // 1 + the argument that must share the result's register, or 0
	// Fold lists the arguments (1 + index) that may be a whole-vector memory
	// operand, FoldSplat those that may be one element broadcast from memory. If it is NoConst, a
	// constant cannot be that operand.
	Fold, FoldSplat []int
	NoConst         bool
	Code            any // what the target's printer needs; private to the target
}

// MostBusy is how many sets of units rows tell apart.
const MostBusy = 4

// ISA is an instruction set, as the passes see it.
type ISA struct {
	Name    string // "amd64/avx512vbmi"
	VecBits int    // widest vector register
	NumVec  int    // allocatable vector registers
	NumGP   int    // allocatable general registers
	Narrow  int    // products of bytes that one instruction adds to a sum of 16 bits: 2 or 1
	Octets  bool   // an instruction multiplies two rows by two columns, eight elements of K of each
	Group   int    // lanes of a workgroup, at most; 0: there are no workgroups
	Indexed bool   // an address may be the sum of two registers
	Has     Features
}

// Machine is what a target is for: an instruction set on a core.
type Machine struct {
	Name string // that of the instruction set for its ordinary core, else with the core: "amd64/avx512vbmi+my-core"
	ISA
	core.Core
}

// Class is the name of the target with the same instructions on the ordinary core.
func (m Machine) Class() string { return m.ISA.Name }

// Ordinary says that m is for CPUs without a core of their own.
func (m Machine) Ordinary() bool { return m.Name == m.ISA.Name }

// For says that a CPU has the core of m, or that m is for all CPUs.
func (m Machine) For(id cpu.ID) bool { return len(m.CPUs) == 0 || cpu.Among(m.CPUs, id) }

// FewVectors says that m has at most 16 vector registers, like the oldest machines that have a target. Others have 32.
func (m Machine) FewVectors() bool { return m.NumVec <= 16 }

// Arch is the architecture of m, as GOARCH has it: what its name begins with.
func (m Machine) Arch() string {
	arch, _, _ := strings.Cut(m.Name, "/")
	return arch
}

// ShortName is the name of m without its architecture.
func (m Machine) ShortName() string {
	_, name, _ := strings.Cut(m.Name, "/")
	return name
}

// Preferred lists targets in the order in which programs try them, whatever order they come in: of one architecture,
// those that need more CPU features come first, so that no target hides another that can do more. Of one
// instruction set, targets for a user's own cores come first, and the one for the ordinary core last. The order of
// architectures only decides for whose layout pure Go packs.
func Preferred(ts []Target) []Target {
	return slices.SortedStableFunc(slices.Values(ts), func(a, b Target) int { return Prefer(a.Machine(), b.Machine()) })
}

// Prefer is negative if programs try a before b, as Preferred says.
func Prefer(a, b Machine) int {
	features := func(m Machine) int { return bits.OnesCount64(uint64(m.Has)) }
	return cmp.Or(cmp.Compare(b.Arch(), a.Arch()), cmp.Compare(features(b), features(a)),
		compareBool(b.Own, a.Own), compareBool(a.Ordinary(), b.Ordinary()), cmp.Compare(a.Name, b.Name))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Find is the target of a name, with or without its architecture, or nil. The name of a core alone, which is not an
// ordinary one, is that of its target: "my-core", or "amd64/my-core" as locks of earlier versions have them.
func Find(ts []Target, name string) Target {
	for _, t := range ts {
		m := t.Machine()
		alone := !m.Ordinary() && (name == m.Core.Name || name == m.Arch()+"/"+m.Core.Name)
		if m.Name == name || m.ShortName() == name || alone {
			return t
		}
	}
	return nil
}

// Identifier is the short name of m as names in assembly and of files have it: "avxvnni_my_core" of
// "avxvnni+my-core".
func (m Machine) Identifier() string {
	return strings.NewReplacer("+", "_", "-", "_").Replace(m.ShortName())
}

// Selector is what Select asks of a back end: which instructions there are.
type Selector interface {
	Machine() Machine
	// Rows lists the instructions; only those whose Need the machine has apply.
	Rows() []Row
	// Expand rewrites in into operations declared earlier or narrower, with the
	// same meaning, or returns nil if it knows no way. It is asked first, for
	// vectors wider than the machine's too; nil leaves those to be halved, others to
	// the expansions all targets share. The last instruction, and no other, defines
	// in.Dst, which may be an argument as well.
	Expand(b *Builder, in *vir.Instr) []*vir.Instr
}

// Target is a back end for a machine with a fixed number of registers: it prints what Allocate returns.
type Target interface {
	Selector
	// Print makes assembly of a kernel that was built for the target.
	Print(k *Kernel) *Function
	// File is the assembly file of package pkg with printed functions, without their
	// declarations in Go. Two functions of one name are an error.
	File(pkg string, fs ...Named) (File, error)
}

// File is one generated file.
type File struct {
	Name string
	Data []byte
}

// Kernel is a legal, selected and allocated function: what a target prints.
type Kernel struct {
	Func *vir.Func // after all passes; vir.Eval of it is still the kernel's meaning
	Ops  []MOp

	Machine Machine // what it was built for

	Vectors, Scalars int // of a sketch: the registers that it needs

	loads *table // of a sketch
}

// MKind is the kind of an MOp.
type MKind uint8

// The kinds of machine operation.
const (
	MInstr     MKind = iota // a vector instruction
	MLoadParam              // GP = parameter number Param
	MScale                  // Scale.Dst = Scale.Src + Scale.Bytes times the number in GP
	MLoopBegin              // counter GP = Count, read from the parameters if it is one and then <= 0 skips the loop; then GP copies; List
	MLoopEnd                // GP += Adds; counter--; repeat while > 0
)

// MOp is one machine operation in print order, with physical registers.
type MOp struct {
	Kind MKind
	// MInstr
	In   *vir.Instr
	Row  *Row
	Dst  int   // vector register, -1 if none
	Args []int // vector registers, -1 where folded
	Base int   // general register of In.Mem, -1 if none
	Plus int   // 1 + general register that is added to Base, 0 if none
	Disp int   // byte offset of In.Mem
	// MLoadParam, MScale, MLoopBegin, MLoopEnd
	Loop  int        // loop id
	GP    int        // destination, number or loop counter
	Param int        // MLoadParam: parameter number
	Scale GPScale    // MScale
	Count vir.Extent // MLoopBegin
	Copy  []GPCopy   // MLoopBegin: pointers that move inside the loop
	List  *GPList    // MLoopBegin: of a loop over a list, else nil
	Adds  []GPAdd    // MLoopEnd
}

// GPCopy copies general register Src to Dst before the first iteration.
type GPCopy struct{ Dst, Src int }

// GPList reads the numbers of a loop from a list, one u32 per iteration: GP is made
// parameter number Param before the first; every iteration begins with
//
//	Number = u32 at GP
//	Dst = Src + Number*Bytes, of all At
type GPList struct {
	Param, GP, Number int
	At                []GPScale
}

// GPScale adds a number times a constant to general register Src, or if that is -1, to nothing.
type GPScale struct{ Dst, Src, Bytes int }

// GPAdd adds general register By, or if that is -1 a constant, to a general register at the end of an
// iteration.
type GPAdd struct{ GP, Bytes, By int }

// Unsupported reports an operation that no row and no expansion covers.
type Unsupported struct{ Target, Instr string }

func (e *Unsupported) Error() string {
	return fmt.Sprintf("%s: no lowering for %s", e.Target, e.Instr)
}

// Pressure reports that a kernel needs more registers than the machine has.
// Kernels never spill: such a schedule is refused.
type Pressure struct {
	Kind       string // "vector" or "general"
	Need, Have int
	At         string
}

func (e *Pressure) Error() string {
	return fmt.Sprintf("needs %d %s registers of %d at %s", e.Need, e.Kind, e.Have, e.At)
}
