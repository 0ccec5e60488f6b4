// Package vir is the vector IR: straight-line code over typed virtual vector
// registers inside counted loops. It knows no target and no format; every back
// end consumes it. Functions are built by the vectorizer and by Parse, nowhere
// else. Eval is its meaning.
package vir

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// Type is a vector type: Lanes lanes of Elem. A scalar has one lane. With a Use it is a tile, a matrix of Rows, whose elements
// are its lanes. On targets with lanes of a workgroup, the lanes of the loops that are not around an instruction on tiles hold
// them together. No such lane knows which elements it has.
type Type struct {
	Elem  format.DType
	Lanes int
	Rows  int // 0 of a vector
	Use   Use
}

// Bits is the total width of t.
func (t Type) Bits() int { return t.Elem.Bits() * t.Lanes }

// Bytes is the total width of t in bytes.
func (t Type) Bytes() int { return t.Elem.Bytes() * t.Lanes }

// String prints t as text has it: "u8x64", or of a tile "i8x16x32a".
func (t Type) String() string {
	if t.Tile() {
		return fmt.Sprintf("%vx%dx%d%c", t.Elem, t.Rows, t.Columns(), useNames[min(int(t.Use), len(useNames)-1)])
	}
	return fmt.Sprintf("%vx%d", t.Elem, t.Lanes)
}

// Reg names a virtual register of its Func. NoReg is none.
type Reg int32

// NoReg is the absent register.
const NoReg Reg = -1

// Param is one argument of a kernel. A kernel receives one pointer, to
// consecutive 8-byte words that hold its parameters in order.
type Param struct {
	Name string
	Int  bool // an integer (a trip count); otherwise a pointer to a buffer
	// Of a pointer: if not 0, Most is the largest magnitude of the buffer's bytes, or with Words of
	// its words of 32 bits, as signed numbers.
	Most  int
	Words bool
	// Align is what an integer is a multiple of, or how many bytes the address that a pointer stands for is a multiple
	// of: a power of two. 0: nothing is known.
	Align int
	// Shared is the number of bytes of a buffer that the lanes of a workgroup share, 0 of all other parameters. It is
	// there when the group begins, with any contents, and has no argument. Such parameters come last.
	Shared int
}

// limit is the largest Most: one number is beyond.
func (p Param) limit() int {
	if p.Words {
		return math.MaxInt32
	}
	return math.MaxInt8
}

// bounded says that Most bounds lanes of d that p points to.
func (p Param) bounded(d format.DType) bool {
	return p.Most > 0 && (d == i8 && !p.Words || d == i32 && p.Words)
}

// Mem is an address: a pointer parameter, a constant byte offset, a stride for the
// number of each enclosing loop it moves with, and multiples of numbers of bytes that are
// parameters.
type Mem struct {
	Buf    int // index into Func.Params
	Off    int
	Stride []Stride    // sorted by Loop, none that moves nothing
	Plus   [2]Multiple // sorted by By; the ones of 0 times come last, and have By 0
	Apart  Apart       // of a tile; of others nothing
}

// Apart is how far the rows or columns of a tile are from each other in memory.
type Apart struct {
	Bytes    int
	Multiple // its By is 0 if Times is
}

// Stride moves an address by Bytes, and by a multiple of a parameter, times the number of
// loop Loop, which is none over a list if there is such a multiple.
type Stride struct {
	Loop, Bytes int
	Multiple    // its By is 0 if Times is
}

// Multiple is Times times the number of bytes that is the integer parameter By, an index into Func.Params.
type Multiple struct{ Times, By int }

// Stepped says that an address depends on integer parameters.
func (m Mem) Stepped() bool {
	return m.Plus[0].Times != 0 || slices.ContainsFunc(m.Stride, func(s Stride) bool { return s.Times != 0 })
}

// Moved is the address that far behind m, false if it would depend on too many parameters.
func (m Mem) Moved(by Apart) (Mem, bool) {
	m.Off += by.Bytes
	plus := slices.DeleteFunc(slices.Clone(m.Plus[:]), func(x Multiple) bool { return x.Times == 0 })
	if i := slices.IndexFunc(plus, func(x Multiple) bool { return x.By == by.By }); i >= 0 {
		plus[i].Times += by.Times
	} else {
		plus = append(plus, by.Multiple)
	}
	plus = slices.DeleteFunc(plus, func(x Multiple) bool { return x.Times == 0 })
	if len(plus) > len(m.Plus) {
		return m, false
	}
	slices.SortFunc(plus, func(a, b Multiple) int { return a.By - b.By })
	m.Plus = [2]Multiple{}
	copy(m.Plus[:], plus)
	return m, true
}

// AppendKey appends bytes that tell m from every other address of the same function, also if more follow.
func (m Mem) AppendKey(key []byte) []byte {
	numbers := func(xs ...int) {
		for _, x := range xs {
			key = binary.AppendVarint(key, int64(x))
		}
	}
	numbers(m.Buf, m.Off)
	for _, s := range m.Stride {
		numbers(s.Loop, s.Bytes, s.Times, s.By)
	}
	for _, x := range m.Plus {
		numbers(-1, x.Times, x.By) // -1 is no loop
	}
	numbers(m.Apart.Bytes, m.Apart.Times, m.Apart.By)
	return key
}

// Node is an *Instr or a *Loop.
type Node interface{ isNode() }

// Instr is one operation. Args has one register for each argument of Op. If
// Fold > 0, argument Fold-1 is not a register (Args[Fold-1] is NoReg) but a
// vector of FoldType read from Mem: all its bytes or, with FoldUnit > 0, a unit
// of FoldUnit bytes (one or more elements) repeated to fill the vector. With FoldConst > 0
// it is constant FoldConst-1 of the function instead.
type Instr struct {
	Op        Op
	Dst       Reg // NoReg if Op has no result
	Args      []Reg
	Imm       int64
	Mem       Mem
	Fold      int
	FoldUnit  int
	FoldConst int
	FoldType  Type
	From      int // 1 + the index into Func.Sources of what it was made for, 0: unknown; it means nothing for the result
}

// HasMem says whether in has an address, its Mem: of its own or of a folded argument.
func (in *Instr) HasMem() bool { return in.Op.HasMem() || in.Fold > 0 && in.FoldConst == 0 }

// Loop runs Body Count times. Its number, which strides multiply, is that of the
// iteration or, with a List, the one of the list in its place: of Count consecutive
// u32 in memory, which Body does not write. Registers in Carried are defined before
// the loop and redefined in Body; every other register is defined exactly once and, if
// defined in Body, not used after it.
//
// Iterations of a loop with Lane are lanes of a workgroup, which run at once. Code around such a loop, inside others, runs
// once for all of its lanes. A register that it carries begins in each lane with what adds nothing: 0, or -0
// of f32. After the loop the lanes' are added to its value, in their order. With Max it begins with its value, and becomes the largest of
// the lanes' signed integers. Loops that are joined with it are one loop with it in this: see Joined.
//
// A loop with Ahead may load what its next iteration reads before it uses its own: a hint.
//
// Iterations of a loop with Part are parts of a sum. Each is another workgroup's, and they run at once. A register that it carries, of i32, begins in
// each with 0. After the loop the parts' values are added to the value it had. One workgroup goes on, with what its shared buffers had before the
// loop, and all others end. Around the loop are loops of lanes only, which carry nothing. A function has at most one. Registers of f32 are added in order: see Ordered.
//
// A loop with Dealt is in a loop with Part of n iterations: iteration p of that runs numbers p, p + n, p + 2n and so on of it, those below Count.
type Loop struct {
	ID      int
	Count   Extent
	Lane    bool
	Part    bool
	Dealt   bool
	List    int // 1 + the index into Func.Params of a pointer to the list, or 0
	Ahead   bool
	Max     bool
	Carried []Reg
	Body    []Node
}

// Joined are the loops of lanes that are joined with l, outermost first: each is the only loop in the one before, carries the same registers, floats among
// them, and nothing beside it touches these. The floats of all their lanes are added in the order of the lanes, to the value before l.
func (f *Func) Joined(l *Loop) (all []*Loop) {
	for l.Lane && slices.ContainsFunc(l.Carried, func(r Reg) bool { return f.Regs[r].Elem == f32 }) {
		var inner *Loop
		for _, n := range l.Body {
			switch n := n.(type) {
			case *Loop:
				if inner != nil || !n.Lane || n.Max || l.Max || !slices.Equal(n.Carried, l.Carried) {
					return all
				}
				inner = n
			case *Instr:
				if slices.Contains(l.Carried, n.Dst) || slices.ContainsFunc(n.Args, func(r Reg) bool { return slices.Contains(l.Carried, r) }) {
					return all
				}
			}
		}
		if inner == nil {
			break
		}
		all, l = append(all, inner), inner
	}
	return all
}

// Ordered are the loops in l, a loop with Part, whose floats are added in one order: the loop with Dealt in l, and the loops of lanes that are joined with it. dealt is
// nil if l carries no floats. These loops carry the same registers, and nothing beside them touches these. A register begins in each iteration of the dealt
// loop with -0. After l the values of all iterations, of each lane of these, are added to the value before l, in the order of the iterations and lanes.
func (f *Func) Ordered(l *Loop) (dealt *Loop, lanes []*Loop) {
	if !slices.ContainsFunc(l.Carried, func(r Reg) bool { return f.Regs[r].Elem == f32 }) {
		return nil, nil
	}
	if dealt = alone(l); dealt == nil || !dealt.Dealt {
		return nil, nil
	}
	if in := alone(dealt); in != nil && in.Lane && !in.Max {
		lanes = append([]*Loop{in}, f.Joined(in)...)
	}
	return dealt, lanes
}

// alone is the loop in l that carries the same registers, if nothing else in l touches them.
func alone(l *Loop) (in *Loop) {
	of := func(r Reg) bool { return slices.Contains(l.Carried, r) }
	for _, n := range l.Body {
		switch n := n.(type) {
		case *Loop:
			switch {
			case slices.Equal(n.Carried, l.Carried) && in == nil:
				in = n
			case slices.ContainsFunc(n.Carried, of):
				return nil
			}
		case *Instr:
			if of(n.Dst) || slices.ContainsFunc(n.Args, of) {
				return nil
			}
		}
	}
	return in
}

// Extent is a constant trip count, or (Param >= 0) an integer parameter less a number.
type Extent struct {
	Const int
	Param int // index into Func.Params, or -1
	Less  int // iterations fewer than the parameter says
}

func (*Instr) isNode() {}
func (*Loop) isNode()  {}

// Func is one kernel. Consts are read-only vectors that OpConst loads; their
// type is that of the register they are loaded into.
type Func struct {
	Name   string
	Params []Param
	Consts [][]byte
	Regs   []Type
	Repeat *Repeat // nil: Body runs once
	// Grid are the workgroups, which run at once: Body runs for each combination of their numbers, along x, y and z.
	// Its Moves move pointers by a multiple of that number. A function has Repeat or Grid.
	Grid []Repeat
	Body []Node
	// Sources says of each instruction that was there at first which statement of a loop nest it is of: the number of the statement in the
	// order of the text, from 0. nil: the function was made from no nest.
	Sources []int32
}

// MaxGrid is the number of dimensions that workgroups have.
const MaxGrid = 3

// MaxWords is how many parameters workgroups have, words that each device has room for.
const MaxWords = 32

// MaxLanesOfGroup bounds the lanes of a workgroup, and MaxParts the workgroups that have parts of a sum.
const (
	MaxLanesOfGroup = 1024
	MaxParts        = 1024
)

// Part is the loop of f whose iterations are parts of a sum, nil if it has none.
func (f *Func) Part() *Loop { return partOf(f.Body) }

func partOf(body []Node) *Loop {
	for _, n := range body {
		l, ok := n.(*Loop)
		if ok && l.Part {
			return l
		}
		if ok && l.Lane {
			if in := partOf(l.Body); in != nil {
				return in
			}
		}
	}
	return nil
}

// Lanes are the numbers of lanes of a workgroup of f: first of the outermost loops of lanes, then of the ones in these, and
// so on. nil: f has none.
func (f *Func) Lanes() []int { return lanesOf(f.Body) }

func lanesOf(body []Node) (most []int) {
	for _, n := range body {
		l, ok := n.(*Loop)
		if !ok {
			continue
		}
		lanes := lanesOf(l.Body)
		if l.Lane {
			lanes = append([]int{l.Count.Const}, lanes...)
		}
		if len(lanes) > len(most) {
			most = lanes
		}
	}
	return most
}

// shared is the number of parameters that are shared.
func (f *Func) shared() (n int) {
	for _, p := range f.Params {
		if p.Shared > 0 {
			n++
		}
	}
	return n
}

// Product is the product of numbers: of all lanes of a workgroup.
func Product(numbers []int) int {
	n := 1
	for _, x := range numbers {
		n *= x
	}
	return n
}

// Repeat runs all of Body as often as the integer parameter Count says, at least once, and
// between two runs moves pointers: what a caller would do that calls the kernel again. Compiled
// kernels do so in the words of their parameters, so that no pointer is moved past what the
// last run needs, and count Count down there.
type Repeat struct {
	Count int // index into Func.Params; Body does not use it
	Moves []Move
}

// Move adds the integer parameter By, in bytes, to the pointer parameter Param. Of workgroups, By may be a pointer to a list of u32:
// group i adds its number i.
type Move struct{ Param, By int }
