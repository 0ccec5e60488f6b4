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

// Kept is what a rewrite of Map returns to leave an instruction as it is.
var Kept = []*Instr{nil}

// Map returns a body in which every instruction of body is replaced by what
// rewrite returns for it: others, none, or with Kept itself. body does not change; what did not change
// is shared, and loops around what did are copied. Empty loops are copied and kept. New instructions are from the same source.
func Map(body []Node, rewrite func(*Instr) []*Instr) []Node {
	var out []Node // nil as long as nothing has changed
	for i, n := range body {
		switch n := n.(type) {
		case *Loop:
			inner := Map(n.Body, rewrite)
			if SameBody(inner, n.Body) && len(inner) > 0 {
				if out != nil {
					out = append(out, n)
				}
				continue
			}
			l := *n
			l.Carried, l.Body = slices.Clone(n.Carried), inner
			out = append(begun(out, body, i), &l)
		case *Instr:
			to := rewrite(n)
			kept := len(to) == 1 && (to[0] == nil || to[0] == n)
			switch {
			case kept && out != nil:
				out = append(out, n)
			case !kept:
				out = begun(out, body, i)
				for _, in := range Inherit(n, to) {
					out = append(out, in)
				}
			}
		default:
			panic(fmt.Sprintf("BUG: vir: unknown node %T", n))
		}
	}
	if out == nil {
		return body
	}
	return out
}

// begun is out, or if nothing has changed before node i of body, those nodes.
func begun(out, body []Node, i int) []Node {
	if out != nil {
		return out
	}
	return append(make([]Node, 0, len(body)+len(body)/8+1), body[:i]...)
}

// SameBody says that two bodies are one.
func SameBody(a, b []Node) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
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

// Inherit gives new instructions, made in the place of one, the source of that, and returns them.
func Inherit(from *Instr, to []*Instr) []*Instr {
	for _, in := range to {
		if in.From == 0 && from.From != 0 {
			in.From = from.From
		}
	}
	return to
}
