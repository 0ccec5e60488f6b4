package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// A step is a point of a function in print order: an instruction, or the begin or
// end of a loop.
type step struct {
	in   *vir.Instr
	loop *vir.Loop
	end  bool // of loop
	last int  // begin: the step that ends loop
}

func steps(body []vir.Node) []step {
	out := make([]step, 0, numSteps(body))
	var walk func([]vir.Node)
	walk = func(body []vir.Node) {
		for _, n := range body {
			switch n := n.(type) {
			case *vir.Instr:
				out = append(out, step{in: n})
			case *vir.Loop:
				begin := len(out)
				out = append(out, step{loop: n})
				walk(n.Body)
				out = append(out, step{loop: n, end: true})
				out[begin].last = len(out) - 1
			}
		}
	}
	walk(body)
	return out
}

func numSteps(body []vir.Node) int {
	n := len(body)
	for _, x := range body {
		if l, ok := x.(*vir.Loop); ok {
			n += 1 + numSteps(l.Body)
		}
	}
	return n
}

// lives says from which step to which a register holds a value that is still needed.
type lives struct {
	steps []step
	root  []vir.Reg // which register stands for each: bitcasts share their argument's
	from  []int     // by root: the step that defines it first
	to    []int     // by root: the last step that needs it
	depth []int     // by root: loops around from
}

// lifetimes finds the first definition and last use of every register. A register that is defined outside a loop, and
// used or redefined inside it, lives to the loop's end. A bitcast to another type is another name of its argument,
// where that is possible. A bitcast to the same type is a copy.
func lifetimes(f *vir.Func) *lives {
	n := len(f.Regs)
	l := &lives{steps: steps(f.Body), root: identity(n), from: make([]int, n), to: make([]int, n), depth: make([]int, n)}
	for i := range l.from {
		l.from[i] = -1
	}
	mut := mutable(f)
	var ends []int // of the loops around, outermost first
	for at, s := range l.steps {
		switch {
		case s.end:
			ends = ends[:len(ends)-1]
		case s.loop != nil:
			ends = append(ends, s.last)
		default:
			l.instr(f, mut, s.in, at, ends)
		}
	}
	l.unite(f, mut)
	return l
}

func (l *lives) instr(f *vir.Func, mut []bool, in *vir.Instr, at int, ends []int) {
	for _, r := range in.Args {
		if r != vir.NoReg {
			l.touch(l.root[r], at, ends)
		}
	}
	if in.Dst == vir.NoReg {
		return
	}
	if isView(f, in) && !mut[in.Dst] && !mut[in.Args[0]] {
		l.root[in.Dst] = l.root[in.Args[0]]
	}
	l.touch(l.root[in.Dst], at, ends)
}

func (l *lives) touch(r vir.Reg, at int, ends []int) {
	if l.from[r] < 0 {
		l.from[r], l.to[r], l.depth[r] = at, at, len(ends)
		return
	}
	if d := l.depth[r]; len(ends) > d {
		at = ends[d]
	}
	l.to[r] = max(l.to[r], at)
}

func isView(f *vir.Func, in *vir.Instr) bool { return in.Op == vir.OpBitcast && !isMove(f, in) }

// dies says whether step at is the last to read r, which it does.
func (l *lives) dies(r vir.Reg, at int) bool { return l.to[l.root[r]] == at }

// pressure is the largest number of registers live at once, and where.
func (l *lives) pressure() (need, at int) {
	return l.atOnce(func(vir.Reg) int { return 1 })
}

// carriedAtOnce is the largest number of carried registers live at once: no order
// of instructions needs fewer registers.
func carriedAtOnce(f *vir.Func) int {
	return wideAtOnce(f, math.MaxInt)
}

// wideAtOnce is carriedAtOnce on a machine whose registers have `bits` bits: a wider register counts several times.
func wideAtOnce(f *vir.Func, bits int) int {
	mut := mutable(f)
	n, _ := lifetimes(f).atOnce(func(r vir.Reg) int {
		if !mut[r] {
			return 0
		}
		return (f.Regs[r].Bits()-1)/bits + 1
	})
	return n
}

// atOnce is the largest number of registers live at once, each counted as often as
// counts says, and where.
func (l *lives) atOnce(counts func(vir.Reg) int) (need, at int) {
	change := make([]int, len(l.steps)+1)
	for r, from := range l.from {
		if from >= 0 {
			n := counts(vir.Reg(r))
			change[from] += n
			change[max(l.to[r], from+1)] -= n
		}
	}
	live := 0
	for i, c := range change {
		if live += c; live > need {
			need, at = live, i
		}
	}
	return need, at
}

// tie makes argument and result one register where a row says so: if the argument
// is needed later, or the result has a register already, the row gets a copy.
//
//	v2 = dot4 v0 v1 v1        v3 = bitcast v0
//	v4 = add v2 v0       ->   v2 = dot4 v3 v1 v1
//	                          v4 = add v2 v0
func (t *table) tie(f *vir.Func) (*vir.Func, error) {
	x := &tier{t: t, b: &Builder{F: clone(f)}, mut: mutable(f), lives: lifetimes(f)}
	at := 0
	x.b.F.Body = x.body(f.Body, &at)
	return x.b.F, nil
}

type tier struct {
	t     *table
	b     *Builder
	mut   []bool
	lives *lives
}

func (x *tier) reads(in *vir.Instr, r vir.Reg) bool {
	return slices.ContainsFunc(in.Args, func(a vir.Reg) bool {
		return a != vir.NoReg && x.lives.root[a] == x.lives.root[r]
	})
}

// body follows the steps of the lifetimes: at is the one before its first node.
func (x *tier) body(body []vir.Node, at *int) []vir.Node {
	out := make([]vir.Node, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			out = x.instr(out, n, *at)
			*at++
		case *vir.Loop:
			l := *n
			*at++
			l.Body = x.body(n.Body, at)
			*at++
			out = append(out, &l)
		}
	}
	return out
}

// instr appends what in, at step at, becomes.
func (x *tier) instr(out []vir.Node, in *vir.Instr, at int) []vir.Node {
	row := x.t.find(x.b.F, in)
	if row == nil || row.Tied == 0 || x.tied(in, row.Tied-1, at) {
		return append(out, in)
	}
	i := row.Tied - 1
	if j := commutes(x.b.F, in, i); j >= 0 && in.Args[j] != vir.NoReg && x.tied(in, j, at) {
		return append(out, withArgs(in, swapped(in.Args, i, j)))
	}
	for _, c := range x.copied(in, i, x.first(in, at)) {
		out = append(out, c)
	}
	return out
}

// first says whether in, at step at, is the first to define its register.
func (x *tier) first(in *vir.Instr, at int) bool { return x.lives.from[x.lives.root[in.Dst]] == at }

// tied says whether argument i and the result of in can be one register.
func (x *tier) tied(in *vir.Instr, i, at int) bool {
	root := x.lives.root
	return root[in.Args[i]] == root[in.Dst] || x.first(in, at) && x.lives.dies(in.Args[i], at)
}

// copied copies argument i to a register that in may overwrite: to in.Dst itself
// if it is there and in does not read it.
func (x *tier) copied(in *vir.Instr, i int, first bool) []*vir.Instr {
	c := *in
	c.Args = slices.Clone(in.Args)
	from := in.Args[i]
	if !first && x.mut[in.Dst] && !x.reads(in, in.Dst) && x.b.TypeOf(from) == x.b.TypeOf(in.Dst) {
		c.Args[i] = in.Dst
		return []*vir.Instr{move(in.Dst, from), &c}
	}
	c.Args[i] = x.b.Reg(x.b.TypeOf(from))
	if first {
		return []*vir.Instr{move(c.Args[i], from), &c}
	}
	c.Dst = x.b.Reg(x.b.TypeOf(in.Dst))
	return []*vir.Instr{move(c.Args[i], from), &c, move(in.Dst, c.Dst)}
}

// allocate gives every register of f a physical one by linear scan: it keeps it
// from its first definition to its last use. There is no spilling; what does not
// fit is a *Pressure.
func allocate(m Machine, f *vir.Func, l *lives, rows []*Row) ([]int, error) {
	if need, at := l.pressure(); need > m.NumVec {
		return nil, &Pressure{"vector", need, m.NumVec, describe(f, l.steps[at])}
	}
	a := &allocator{l: l, phys: make([]int, len(f.Regs)), free: make([]bool, m.NumVec), ending: make([][]vir.Reg, len(l.steps))}
	for i := range a.phys {
		a.phys[i] = -1
	}
	for i := range a.free {
		a.free[i] = true
	}
	for r, from := range l.from {
		if from >= 0 && int(l.root[r]) == r {
			a.ending[l.to[r]] = append(a.ending[l.to[r]], vir.Reg(r))
		}
	}
	for at, s := range l.steps {
		a.release(at)
		if s.in != nil && s.in.Dst != vir.NoReg {
			a.define(s.in, at, rows[at])
		}
	}
	for r, root := range l.root {
		a.phys[r] = a.phys[root]
	}
	a.checkTied(f, rows)
	return a.phys, nil
}

type allocator struct {
	l      *lives
	phys   []int // by root
	free   []bool
	ending [][]vir.Reg // roots by the last step that reads them
}

// release frees the registers that are read for the last time at step `at`, so that the step's result may have one of
// them. It also frees the registers of results that nobody reads.
func (a *allocator) release(at int) {
	for _, r := range a.ending[at] {
		if a.l.from[r] < at {
			a.free[a.phys[r]] = true
		}
	}
	if at == 0 {
		return
	}
	for _, r := range a.ending[at-1] {
		if a.l.from[r] == at-1 {
			a.free[a.phys[r]] = true
		}
	}
}

func (a *allocator) define(in *vir.Instr, at int, row *Row) {
	r := a.l.root[in.Dst]
	if a.phys[r] >= 0 {
		return
	}
	p := a.wish(in, at, row)
	if p < 0 {
		p = slices.Index(a.free, true)
	}
	if p < 0 || !a.free[p] {
		panic(fmt.Sprintf("BUG: lower: no register for %v though the pressure is in bounds", in.Dst))
	}
	a.phys[r], a.free[p] = p, false
}

// checkTied makes sure that tie has done its work.
func (a *allocator) checkTied(f *vir.Func, rows []*Row) {
	for at, row := range rows {
		if row == nil || row.Tied == 0 {
			continue
		}
		if in := a.l.steps[at].in; a.phys[in.Args[row.Tied-1]] != a.phys[in.Dst] {
			panic("BUG: lower: argument and result are not one register: " + f.Format(in))
		}
	}
}

// wish is the register in's result must or should have: that of the tied
// argument, or of what it copies, if it is read here for the last time.
func (a *allocator) wish(in *vir.Instr, at int, row *Row) int {
	i := 0
	switch {
	case row.Tied > 0:
		i = row.Tied - 1
	case in.Op == vir.OpBitcast, in.Op == vir.OpHalf && in.Imm == 0:
	default:
		return -1
	}
	if r := in.Args[i]; r != vir.NoReg && a.l.dies(r, at) {
		return a.phys[a.l.root[r]]
	}
	return -1
}

func describe(f *vir.Func, s step) string {
	if s.in != nil {
		return f.Format(s.in)
	}
	return fmt.Sprintf("loop l%d", s.loop.ID)
}
