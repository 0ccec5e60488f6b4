package lower

import "github.com/tmacc/tmacc/ir/vir"

// unite makes one register of a carried register and a value bitcast from or to
// it, where the two are never needed at once. In the loop
//
//	v1:u16x8 = bitcast v0          v1 reads v0, which changes only after that
//	v2:u16x8 = add v1 v9
//	v0:i16x8 = bitcast v2          v2 is made when v0 is no longer needed
//
// v0, v1 and v2 are one register and no bitcast is an instruction.
func (l *lives) unite(f *vir.Func, mut []bool) {
	u := l.uniter(mut)
	for at, s := range l.steps {
		if s.in != nil && isView(f, s.in) {
			u.unite(s.in, at)
		}
	}
	for r := range l.root {
		l.root[r] = l.find(vir.Reg(r))
	}
}

// coalesce drops copies to and from carried registers by the same rule, where that
// is possible without a second type for them.
//
//	v1:i16x8 = add v0 v9    ->   v0:i16x8 = add v0 v9
//	v0:i16x8 = bitcast v1
func coalesce(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	l := lifetimes(f)
	u := l.uniter(mut)
	to := identity(len(f.Regs))
	united := map[*vir.Instr]bool{}
	for at, s := range l.steps {
		if s.in == nil || !isMove(f, s.in) || l.find(s.in.Args[0]) != s.in.Args[0] || l.find(s.in.Dst) != s.in.Dst {
			continue
		}
		if united[s.in] = u.unite(s.in, at); united[s.in] {
			for _, r := range []vir.Reg{s.in.Args[0], s.in.Dst} {
				to[r] = l.find(r)
			}
		}
	}
	g := *f
	g.Body = vir.Map(f.Body, func(was *vir.Instr) []*vir.Instr {
		if united[was] {
			return nil
		}
		in := rename(was, to)
		if in.Dst != vir.NoReg && to[in.Dst] != in.Dst {
			c := *in
			c.Dst = to[in.Dst]
			in = &c
		}
		return instead(was, in)
	})
	return &g, nil
}

// find is the register that stands for r at last.
func (l *lives) find(r vir.Reg) vir.Reg {
	for l.root[r] != r {
		r = l.root[r]
	}
	return r
}

type uniter struct {
	*lives
	mut         []bool
	defs, reads map[vir.Reg][]int // steps, by root, of what a bitcast from or to a carried register reads or sets
	loops       []int             // by step: the begin of the innermost loop around, or -1
}

func (l *lives) uniter(mut []bool) *uniter {
	u := &uniter{lives: l, mut: mut, defs: map[vir.Reg][]int{}, reads: map[vir.Reg][]int{}, loops: l.loopsAround()}
	matters := make([]bool, len(mut))
	any := false
	for _, s := range l.steps {
		if s.in != nil && s.in.Op == vir.OpBitcast && mut[s.in.Dst] != mut[s.in.Args[0]] {
			matters[l.root[s.in.Dst]], matters[l.root[s.in.Args[0]]], any = true, true, true
		}
	}
	for at, s := range l.steps {
		if any && s.in != nil {
			u.note(s.in, at, matters)
		}
	}
	return u
}

func (l *lives) loopsAround() []int {
	around := make([]int, len(l.steps))
	open := []int{-1}
	for at, s := range l.steps {
		if s.end {
			open = open[:len(open)-1]
		}
		around[at] = open[len(open)-1]
		if s.loop != nil && !s.end {
			open = append(open, at)
		}
	}
	return around
}

func (u *uniter) note(in *vir.Instr, at int, matters []bool) {
	for _, r := range in.Args {
		if r != vir.NoReg && matters[u.root[r]] {
			u.reads[u.root[r]] = append(u.reads[u.root[r]], at)
		}
	}
	if in.Dst == vir.NoReg || in.Op == vir.OpBitcast && u.root[in.Dst] == u.root[in.Args[0]] {
		return
	}
	if r := u.root[in.Dst]; matters[r] {
		u.defs[r] = append(u.defs[r], at)
	}
}

// unite makes one register of the argument and the result of the bitcast `in`, if it can. Exactly one of the two must
// be carried by a loop.
func (u *uniter) unite(in *vir.Instr, at int) bool {
	arg, dst := u.find(in.Args[0]), u.find(in.Dst)
	switch {
	case arg == dst || u.mut[arg] == u.mut[dst]:
		return false
	case u.mut[arg]:
		// dst is a name of arg as long as arg does not change.
		if u.from[dst] != at || between(u.defs[arg], at, u.to[dst]) {
			return false
		}
		u.join(arg, dst)
	default:
		// arg may be computed in dst's register if nobody wants the old value of
		// that any more, and the new one is not replaced while arg is read.
		from := u.from[arg]
		if u.loops[from] != u.loops[at] || between(u.defs[dst], from, at) || between(u.reads[dst], from, at) ||
			between(u.defs[dst], at, u.to[arg]) {
			return false
		}
		u.join(dst, arg)
	}
	return true
}

// between says whether one of steps lies after from and before to.
func between(steps []int, from, to int) bool {
	for _, s := range steps {
		if from < s && s < to {
			return true
		}
	}
	return false
}

// join makes r another name of carried register m.
func (u *uniter) join(m, r vir.Reg) {
	u.root[r] = m
	u.defs[m] = append(u.defs[m], u.defs[r]...)
	u.reads[m] = append(u.reads[m], u.reads[r]...)
	u.from[m], u.to[m] = min(u.from[m], u.from[r]), max(u.to[m], u.to[r])
	u.from[r] = -1
}
