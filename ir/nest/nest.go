// Package nest is the loop-nest IR: loops over accesses whose addresses are
// affine in the loop variables. A Plan is what a schedule decides about one
// stage; Build makes the nest from it; Eval is the nest's meaning.
package nest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Kind says how a loop runs.
type Kind uint8

// The kinds of loop.
const (
	Serial   Kind = iota // a counted loop of the kernel
	Unrolled             // repeated in the code
	Vector               // lanes of a register, outermost vector loop first
	Dot                  // the innermost lanes, summed by a dot-product instruction
	Outer                // run by the caller, or one iteration after the other by Nest.Repeat
	Pair                 // lanes of the lowest accumulator; unrolled above it
	Averaged             // not run: the body of the plan is the average over it already
)

var kindNames = [...]string{"for", "unroll", "vector", "dot", "outer", "pair", "average"}

func (k Kind) String() string { return kindNames[k] }

// Loop is one loop. The value of the stage axis Root is the sum over its loops
// of Coef times the loop variable. N is the trip count, 0 at run time. While the loop
// ListedBy, which is around it, is not at 0, a loop of run-time trip count takes the
// values of a list instead: those of ListParam, as many as ListCountParam says.
type Loop struct {
	Name, Root string
	Coef, N    int
	Kind       Kind
	ListedBy   string // "": never
}

func (l Loop) String() string {
	n := fmt.Sprint(l.N)
	if l.N == 0 {
		n = fmt.Sprintf("%s/%d", strings.ToUpper(l.Root), l.Coef)
	}
	if l.ListedBy != "" {
		n += fmt.Sprintf(", listed if %s", l.ListedBy)
	}
	return fmt.Sprintf("%s %s %s", l.Kind, l.Name, n)
}

// Stmt is a *For or an *Assign.
type Stmt interface{ isStmt() }

// For runs Body Loop.N times.
type For struct {
	Loop Loop
	Body []Stmt
}

// How says what an Assign does with the old value.
type How uint8

// The assignments.
const (
	Set How = iota
	Accumulate
)

// Assign stores Value to Dst[Index], or combines it with what is there.
type Assign struct {
	Dst   *ir.Tensor
	Index []ir.Expr
	How   How
	Op    ir.Op // with Accumulate
	Value ir.Expr
}

func (*For) isStmt()    {}
func (*Assign) isStmt() {}

// Buffer says where a tensor's elements lie in a kernel's buffer.
type Buffer struct {
	Tensor *ir.Tensor
	Param  string // name of the pointer parameter
	// Tiles of a call, side by side, are as many bytes apart as the integer parameter Side says, if it names one:
	// a packed part, indexed (row, k) ...
	Side   string
	Layout *format.Layout
	Part   *format.Part
	// ... or dense: bytes per unit of each index component, or if Step names an integer
	// parameter, of the first one that many bytes, as known at run time; the last one counts rows of tiles of TileM ...
	Strides []int
	Step    string
	TileM   int
	// ... or tables, indexed (column, k, part, half, entry): Chunk elements of K of one
	// column, then as many of the next of Cols columns; or as they are made, indexed
	// (0, unit * elements + element): Chunk elements of K Step behind those before, or if it
	// is 0 all of them together.
	Tables      *ir.Tables
	Cols, Chunk int
	Output      bool
	// Whole says that a buffer holds all bytes of iterations of run-time loops over K, so that
	// vectors may read more of them than their lanes need.
	Whole bool
	// What is asked for ahead of each load or table. Next asks for a prefetch of the same place of another
	// parameter with each load inside the serial loop NextIn.
	Streams
	Next, NextIn string
}

// Streams is how far prefetches of what is read once are ahead of its use, in bytes, into the nearest cache
// and into the second-level one, 0: none; and whether the latter are of every line or of two of four. Act is
// how far those of activations are, which what is read once may have displaced from the nearest cache. With Rest the first of
// tiles side by side is left to what the hardware foresees.
type Streams struct {
	Ahead int  `json:"ahead"`
	Far   int  `json:"far"`
	Every bool `json:"every"`
	Rest  bool `json:"rest"`
	Act   int  `json:"act"`
}

// Pos is the place of one element: a byte offset from the buffer's pointer, how often
// the buffer's Step and its Side are to be added, and, for codes, the field number within the cell.
type Pos struct{ Byte, Steps, Sides, Field int }

// Pos finds the element at index.
func (b *Buffer) Pos(index []int) Pos {
	if b.Output {
		n := b.Tables.OutSize()
		unit, chunk := index[1]/n, 0
		if b.Chunk > 0 {
			units := b.Chunk / b.Tables.Digits()
			unit, chunk = unit%units, unit/units
		}
		return Pos{Byte: b.Tables.OutPlace(unit, index[1]%n), Steps: chunk}
	}
	if b.Tables != nil {
		return Pos{Byte: b.entry(index[0], index[1], index[2], index[3], index[4])}
	}
	if b.Part == nil {
		p := Pos{}
		var room [4]int
		for i, x := range ir.BlockIndex(b.Tensor, append(room[:0], index...)) {
			if i == 0 && b.Step != "" {
				p.Steps = x
				continue
			}
			if i == len(b.Strides)-1 && b.Side != "" {
				p.Sides, x = x/b.TileM, x%b.TileM
			}
			p.Byte += x * b.Strides[i]
		}
		return p
	}
	row, k := index[0], index[1]
	p := Pos{Byte: b.Layout.Address(b.Part, row, k, 0) - b.Part.Base, Sides: row / b.Layout.TileM}
	if b.Part.Fields != nil {
		p.Field = b.Part.Field(row, k)
	}
	return p
}

// Period is after how many elements of the last index places of b begin again as at its first element, all
// of them as far apart.
func (b *Buffer) Period() int {
	if b.Output && b.Chunk > 0 {
		return b.Chunk / b.Tables.Digits() * b.Tables.OutSize()
	}
	return max(b.Tensor.Block, 1)
}

// entry is the place of an entry of a table.
func (b *Buffer) entry(n, k, part, half, entry int) int {
	t := b.Tables
	chunk := b.Chunk / t.Digits() * t.UnitBytes()
	return (k/b.Chunk*b.Cols+n)*chunk + t.Place(k%b.Chunk/t.Digits(), part, half, entry)
}

// Nest is a kernel as loops.
type Nest struct {
	Name    string
	Loops   []Loop // every loop by name, also those that statements reopen
	Buffers map[string]*Buffer
	Params  []string // kernel parameters in order
	Counts  []string // run-time loops, by parameter
	Repeat  *Repeat  // nil: Body runs once
	Body    []Stmt
}

// Repeat runs a nest's body as often as the parameter Count says, at least once, for outer
// loops that the kernel runs itself: between two runs pointers move.
type Repeat struct {
	Count string
	Moves []Move
}

// Move adds the parameter By, in bytes, to the pointer Param.
type Move struct{ Param, By string }

// Loop returns the loop called name.
func (n *Nest) Loop(name string) (Loop, bool) {
	for _, l := range n.Loops {
		if l.Name == name {
			return l, true
		}
	}
	return Loop{}, false
}

func (n *Nest) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nest %s(%s)\n", n.Name, strings.Join(n.Params, ", "))
	for _, r := range n.roots() {
		var terms []string
		for _, l := range n.Loops {
			if l.Root == r && l.Name != r {
				terms = append(terms, fmt.Sprintf("%d*%s", l.Coef, l.Name))
			}
		}
		if terms != nil {
			fmt.Fprintf(&b, "where %s = %s\n", r, strings.Join(terms, " + "))
		}
	}
	if r := n.Repeat; r != nil {
		fmt.Fprintf(&b, "repeat %s", r.Count)
		for _, m := range r.Moves {
			fmt.Fprintf(&b, ", %s += %s", m.Param, m.By)
		}
		b.WriteByte('\n')
	}
	printBody(&b, n.Body, 1)
	return b.String()
}

func (n *Nest) roots() []string {
	seen := map[string]bool{}
	for _, l := range n.Loops {
		if l.Root != "" {
			seen[l.Root] = true
		}
	}
	var out []string
	for r := range seen {
		out = append(out, r)
	}
	sort.Strings(out)
	return out
}

func printBody(b *strings.Builder, body []Stmt, depth int) {
	pad := strings.Repeat("  ", depth)
	for _, s := range body {
		switch s := s.(type) {
		case *For:
			fmt.Fprintf(b, "%s%v\n", pad, s.Loop)
			printBody(b, s.Body, depth+1)
		case *Assign:
			op := map[How]string{Set: "=", Accumulate: "+="}[s.How]
			if s.How == Accumulate && s.Op == ir.MaxS {
				op = "max="
			}
			fmt.Fprintf(b, "%s%s %s %s\n", pad, ir.Read{T: s.Dst, Index: s.Index}, op, s.Value)
		default:
			panic(fmt.Sprintf("BUG: nest: unknown statement %T", s))
		}
	}
}
