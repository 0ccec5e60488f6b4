package vir

import (
	"fmt"
	"slices"
)

// Walk calls visit for every instruction of body in program order, with the
// loops around it, outermost first. The slice of loops is valid during the call.
func Walk(body []Node, visit func(in *Instr, loops []*Loop)) { walk(body, nil, visit) }

func walk(body []Node, loops []*Loop, visit func(*Instr, []*Loop)) {
	for _, n := range body {
		switch n := n.(type) {
		case *Loop:
			walk(n.Body, append(loops, n), visit)
		case *Instr:
			visit(n, loops)
		default:
			panic(fmt.Sprintf("BUG: vir: unknown node %T", n))
		}
	}
}

// Map returns a body in which every instruction of body is replaced by what
// rewrite returns for it: itself, others, or none. body does not change; loops
// are copied, and empty ones kept.
func Map(body []Node, rewrite func(*Instr) []*Instr) []Node {
	out := make([]Node, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *Loop:
			l := *n
			l.Carried = slices.Clone(n.Carried)
			l.Body = Map(n.Body, rewrite)
			out = append(out, &l)
		case *Instr:
			for _, in := range rewrite(n) {
				out = append(out, in)
			}
		default:
			panic(fmt.Sprintf("BUG: vir: unknown node %T", n))
		}
	}
	return out
}

// Clone returns a copy of in that shares no slice with it.
func (in *Instr) Clone() *Instr {
	c := *in
	c.Args = slices.Clone(in.Args)
	c.Mem.Stride = slices.Clone(in.Mem.Stride)
	return &c
}

// Clone returns a copy of f that shares nothing with it that a pass may change;
// the bytes of constants are shared.
func (f *Func) Clone() *Func {
	c := *f
	c.Params = slices.Clone(f.Params)
	c.Consts = slices.Clone(f.Consts)
	c.Regs = slices.Clone(f.Regs)
	if f.Repeat != nil {
		c.Repeat = &Repeat{f.Repeat.Count, slices.Clone(f.Repeat.Moves)}
	}
	c.Grid = slices.Clone(f.Grid)
	for i, g := range c.Grid {
		c.Grid[i].Moves = slices.Clone(g.Moves)
	}
	c.Body = Map(f.Body, func(in *Instr) []*Instr { return []*Instr{in.Clone()} })
	return &c
}
