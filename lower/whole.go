package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// whole saves masks where a loop sums the lower parts and the upper parts of lanes apart. It adds the whole lanes instead
// of their lower parts. Sums wrap, so the sum of the lower parts is the sum of the whole lanes minus the sum of the upper
// parts, shifted up.
//
//	v0:i16x16 = splat 0              v8:i16x16 = splat 0
//	v1:i16x16 = splat 0              v1:i16x16 = splat 0
//	loop ... carry v0 v1             loop ... carry v8 v1
//	    v3:i16x16 = and v2 255           v8:i16x16 = add v8 v2
//	    v0:i16x16 = add v0 v3    ->      v4:i16x16 = shru v2 8
//	    v4:i16x16 = shru v2 8            v1:i16x16 = add v1 v4
//	    v1:i16x16 = add v1 v4        v9:i16x16 = shl v1 8
//	                                 v0:i16x16 = sub v8 v9
func (t *table) whole(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	w := &wholes{t: t, b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f), carriers: map[vir.Reg]int{}}
	eachLoop(f.Body, func(l *vir.Loop) {
		for _, r := range l.Carried {
			w.carriers[r]++
		}
	})
	body := w.body(f.Body)
	if len(w.b.F.Regs) == len(f.Regs) {
		return f, nil // it has found nothing
	}
	w.b.F.Body = body
	return w.b.F, nil
}

type wholes struct {
	t        *table
	b        *Builder
	def      []*vir.Instr
	mut      []bool
	uses     []int
	carriers map[vir.Reg]int // how many loops carry a register
}

// parts is a sum of parts of lanes in a loop: of the lower bits, or of those above them.
type parts struct {
	sum   vir.Reg
	bits  int64
	upper bool
	of    []vir.Reg // the lanes
}

// body does the loops of a body, inner ones first.
func (w *wholes) body(body []vir.Node) []vir.Node {
	var out []vir.Node
	for _, n := range body {
		l, ok := n.(*vir.Loop)
		if !ok {
			out = append(out, n)
			continue
		}
		c := *l
		c.Body, c.Carried = w.body(l.Body), slices.Clone(l.Carried)
		var after []vir.Node
		for _, pair := range w.pairs(out, &c) {
			after = append(after, w.rewrite(out, &c, pair[0], pair[1])...)
		}
		out = append(append(out, &c), after...)
	}
	return out
}

// pairs are the sums of lower parts that l carries, each with that of the upper parts of the same lanes.
func (w *wholes) pairs(before []vir.Node, l *vir.Loop) (out [][2]parts) {
	var upper, lower []parts
	for _, r := range l.Carried {
		p, ok := w.sumOf(r, l.Body)
		switch {
		case !ok || w.carriers[r] != 1 || w.zero(before, r) < 0:
		case p.upper:
			upper = append(upper, p)
		default:
			lower = append(lower, p)
		}
	}
	for _, p := range lower {
		i := slices.IndexFunc(upper, func(u parts) bool { return u.bits == p.bits && slices.Equal(u.of, p.of) })
		if t := w.b.TypeOf(p.sum); i >= 0 && w.t.has(vir.OpSub, t, t, t) && w.t.has(vir.OpShl, t, t) {
			out = append(out, [2]parts{p, upper[i]})
		}
	}
	return out
}

// zero is the index of the node of a body that sets r to 0, if nothing reads that there, or -1.
func (w *wholes) zero(body []vir.Node, r vir.Reg) int {
	at := slices.IndexFunc(body, func(n vir.Node) bool {
		in, ok := n.(*vir.Instr)
		return ok && in.Dst == r && in.Op == vir.OpSplat && in.Imm == 0
	})
	each(body, func(in *vir.Instr) {
		if slices.Contains(in.Args, r) {
			at = -1
		}
	})
	return at
}

// sumOf is what r sums in a body, if all that is done to it there is that parts of lanes are added.
func (w *wholes) sumOf(r vir.Reg, body []vir.Node) (p parts, ok bool) {
	if t := w.b.TypeOf(r); t.Elem != format.I16 && t.Elem != format.U16 && t.Elem != format.I32 && t.Elem != format.U32 {
		return p, false
	}
	p.sum = r
	reads := 0
	for _, n := range body {
		in, isInstr := n.(*vir.Instr)
		if !isInstr || in.Dst != r {
			continue
		}
		x, bits, upper, fits := w.part(in, r)
		if !fits || len(p.of) > 0 && (bits != p.bits || upper != p.upper) {
			return p, false
		}
		p.bits, p.upper, p.of = bits, upper, append(p.of, x)
		reads++
	}
	each(body, func(in *vir.Instr) { reads -= countOf(in.Args, r) })
	return p, len(p.of) > 0 && reads == 0
}

// part recognizes an instruction `in` that adds a part of some lanes to r. It returns the lanes, how many bits the lower
// part has, and whether `in` adds the upper part.
func (w *wholes) part(in *vir.Instr, r vir.Reg) (x vir.Reg, bits int64, upper, ok bool) {
	i := slices.Index(in.Args, r)
	if in.Op != vir.OpAdd || in.Fold > 0 || i < 0 {
		return 0, 0, false, false
	}
	d := w.once(in.Args[1-i])
	if d == nil || d.Fold > 0 {
		return 0, 0, false, false
	}
	switch d.Op {
	case vir.OpShrU:
		return d.Args[0], d.Imm, true, !w.mut[d.Args[0]]
	case vir.OpAnd:
		for j, c := range d.Args {
			if x = d.Args[1-j]; !w.mut[c] && w.def[c] != nil && w.def[c].Op == vir.OpSplat && !w.mut[x] {
				for bits = 1; bits < int64(w.b.TypeOf(r).Elem.Bits()); bits++ {
					if w.def[c].Imm == 1<<bits-1 {
						return x, bits, false, true
					}
				}
			}
		}
	}
	return 0, 0, false, false
}

// once is what makes r, if only one instruction reads it.
func (w *wholes) once(r vir.Reg) *vir.Instr {
	if w.mut[r] || w.uses[r] != 1 {
		return nil
	}
	return w.def[r]
}

// rewrite has l sum the whole lanes instead of their lower parts, and returns the nodes that must follow l. `before` are
// the nodes that precede l. rewrite changes one of them: the 0 that the sum begins with.
func (w *wholes) rewrite(before []vir.Node, l *vir.Loop, lower, upper parts) []vir.Node {
	t := w.b.TypeOf(lower.sum)
	all := w.b.Reg(t)
	i := w.zero(before, lower.sum)
	zero := *before[i].(*vir.Instr)
	zero.Dst = all
	before[i] = &zero
	l.Carried[slices.Index(l.Carried, lower.sum)] = all
	next := 0
	for j, n := range l.Body {
		if in, ok := n.(*vir.Instr); ok && in.Dst == lower.sum {
			l.Body[j] = &vir.Instr{Op: vir.OpAdd, Dst: all, Args: []vir.Reg{all, lower.of[next]}}
			next++
		}
	}
	up := w.b.Reg(t)
	return []vir.Node{
		&vir.Instr{Op: vir.OpShl, Dst: up, Args: []vir.Reg{upper.sum}, Imm: upper.bits},
		&vir.Instr{Op: vir.OpSub, Dst: lower.sum, Args: []vir.Reg{all, up}},
	}
}
