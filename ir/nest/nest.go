// Package nest is the loop-nest IR: loops over accesses whose addresses are
// affine in the loop variables. A Plan is what a schedule decides about one
// stage; Build makes the nest from it; Eval is the nest's meaning.
package nest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tmacc/tmacc/ir"
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
	Group                // workgroups, which run at once: like Outer, by Nest.Grid
	Lane                 // lanes of a workgroup, which run at once
	Tile                 // rows, columns or depth of a tile, which one instruction multiplies
	Part                 // parts of a sum, each of another workgroup, which run at once; floats are added in the order of iterations
)

var kindNames = [...]string{"for", "unroll", "vector", "dot", "outer", "pair", "average", "group", "lane", "tile", "part"}

func (k Kind) String() string { return kindNames[k] }

// Outside says that a loop is around the nest's body, which does not run it.
func (k Kind) Outside() bool { return k == Outer || k == Group }

// Loop is one loop. The value of the stage axis Root is the sum over its loops
// of Coef times the loop variable. N is the trip count; 0 means that it is known at run time. Such a loop can have a
// loop ListedBy around it. While that one is not at 0, the loop takes the values of the list ListParam instead, which
// has ListCountParam values. Or it can have a loop DealtTo of N parts around it: part p runs its iterations p, p + N, p + 2N and so on.
type Loop struct {
	Name, Root string
	Coef, N    int
	Kind       Kind
	ListedBy   string // "": never
	DealtTo    string // "": all iterations run
	Ahead      bool   // an iteration may load the weights of the next one before it uses its own
}

func (l Loop) String() string {
	n := fmt.Sprint(l.N)
	if l.N == 0 {
		n = fmt.Sprintf("%s/%d", strings.ToUpper(l.Root), l.Coef)
	}
	if l.ListedBy != "" {
		n += fmt.Sprintf(", listed if %s", l.ListedBy)
	}
	if l.DealtTo != "" {
		n += fmt.Sprintf(", dealt to %s", l.DealtTo)
	}
	if l.Ahead {
		n += ", ahead"
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

// Assign stores Value to Dst[Index], or combines it with the old value.
type Assign struct {
	Dst   *ir.Tensor
	Index []ir.Expr
	How   How
	Op    ir.Op // with Accumulate
	Value ir.Expr
}

func (*For) isStmt()    {}
func (*Assign) isStmt() {}

// Nest is a kernel as loops.
type Nest struct {
	Name    string
	Loops   []Loop            // every loop by name, also those that statements reopen
	Buffers map[string]Buffer // by the name of the tensor
	Params  []string          // kernel parameters in order
	Counts  []string          // run-time loops, by parameter
	Repeat  *Repeat           // nil: Body runs once
	Grid    []Repeat          // dimensions of workgroups, x first: Body runs for each of them
	Shared  []Shared          // buffers of workgroups
	Holders int               // lanes that hold tiles together; 0: each lane has its own
	Local   map[string]int    // bytes of parameters that are buffers of a workgroup, the last ones
	Aligned map[string]int    // by parameter: a power of two that its number, or the address of its buffer, is a multiple of
	Body    []Stmt
}

// Repeat runs a nest's body as often as the parameter Count says, at least once, for outer
// loops that the kernel runs itself: between two runs pointers move.
type Repeat struct {
	Count string
	Moves []Move
}

// Shared is what the lanes of a workgroup make together in each iteration of the loop At: a copy of all that the iteration reads
// of the buffer Param, or all values of the staged Temp. Ahead, they load what that needs while the iteration before computes. With
// Halves, they fill one half of the buffers while the other is used.
type Shared struct {
	Param, Temp, At string
	Ahead, Halves   bool
}

// Move adds the parameter By, in bytes, to the pointer Param. Of workgroups, By may be a pointer to a list of u32: group i adds its number i.
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
			if l.Root == r && l.Name != r && l.Kind != Part {
				terms = append(terms, fmt.Sprintf("%d*%s", l.Coef, l.Name))
			}
		}
		if terms != nil {
			fmt.Fprintf(&b, "where %s = %s\n", r, strings.Join(terms, " + "))
		}
	}
	if r := n.Repeat; r != nil {
		r.print(&b, "repeat")
	}
	for _, r := range n.Grid {
		r.print(&b, "groups")
	}
	for _, s := range n.Shared {
		fmt.Fprintf(&b, "shared %s at %s%s%s\n", s.Param+s.Temp, s.At, map[bool]string{true: " ahead"}[s.Ahead], map[bool]string{true: ", by halves"}[s.Halves])
	}
	if n.Holders > 0 {
		fmt.Fprintf(&b, "tiles of %d lanes\n", n.Holders)
	}
	printBody(&b, n.Body, 1)
	return b.String()
}

// Statements are the assignments of n in the order of its text.
func (n *Nest) Statements() []*Assign { return assigns(nil, n.Body) }

func assigns(out []*Assign, body []Stmt) []*Assign {
	for _, s := range body {
		switch s := s.(type) {
		case *For:
			out = assigns(out, s.Body)
		case *Assign:
			out = append(out, s)
		}
	}
	return out
}

func (r Repeat) print(b *strings.Builder, what string) {
	fmt.Fprintf(b, "%s %s", what, r.Count)
	for _, m := range r.Moves {
		fmt.Fprintf(b, ", %s += %s", m.Param, m.By)
	}
	b.WriteByte('\n')
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
