package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// each calls fn for every instruction of body in print order.
func each(body []vir.Node, fn func(*vir.Instr)) {
	vir.Walk(body, func(in *vir.Instr, _ []*vir.Loop) { fn(in) })
}

// has says that body has an instruction that ok accepts.
func has(body []vir.Node, ok func(*vir.Instr) bool) bool {
	return slices.ContainsFunc(body, func(n vir.Node) bool {
		if l, isLoop := n.(*vir.Loop); isLoop {
			return has(l.Body, ok)
		}
		return ok(n.(*vir.Instr))
	})
}

// eachLoop calls fn for every loop of body, outer loops first.
func eachLoop(body []vir.Node, fn func(*vir.Loop)) {
	for _, n := range body {
		if l, ok := n.(*vir.Loop); ok {
			fn(l)
			eachLoop(l.Body, fn)
		}
	}
}

// clone returns a copy of f to which registers and constants can be added. Its
// body, registers and constants still belong to f: passes replace nodes, they never write to them.
func clone(f *vir.Func) *vir.Func {
	g := *f
	g.Regs = slices.Clip(f.Regs)
	g.Consts = slices.Clip(f.Consts)
	return &g
}

// withArgs returns in reading args instead.
func withArgs(in *vir.Instr, args []vir.Reg) *vir.Instr {
	c := *in
	c.Args = args
	return &c
}

// rename returns in with every argument r replaced by to[r].
func rename(in *vir.Instr, to []vir.Reg) *vir.Instr {
	for _, r := range in.Args {
		if r != vir.NoReg && to[r] != r {
			args := slices.Clone(in.Args)
			for i, r := range args {
				if r != vir.NoReg {
					args[i] = to[r]
				}
			}
			return withArgs(in, args)
		}
	}
	return in
}

// renamed is what a rewrite makes of in if it does nothing but rename.
func renamed(in *vir.Instr, to []vir.Reg) []*vir.Instr { return instead(in, rename(in, to)) }

// instead is what a rewrite makes of in: c, which may be in.
func instead(in, c *vir.Instr) []*vir.Instr {
	if c == in {
		return vir.Kept
	}
	return []*vir.Instr{c}
}

// identity is a renaming of n registers that changes nothing.
func identity(n int) []vir.Reg {
	to := make([]vir.Reg, n)
	for i := range to {
		to[i] = vir.Reg(i)
	}
	return to
}

// move returns dst = r, a copy between registers of one type.
func move(dst, r vir.Reg) *vir.Instr {
	return &vir.Instr{Op: vir.OpBitcast, Dst: dst, Args: []vir.Reg{r}}
}

// isMove says whether in copies a register to one of the same type.
func isMove(f *vir.Func, in *vir.Instr) bool {
	return in.Op == vir.OpBitcast && in.Fold == 0 && f.Regs[in.Dst] == f.Regs[in.Args[0]]
}

// mutable says of each register whether a loop carries it: whether it may be
// defined more than once. All others stand for one value.
func mutable(f *vir.Func) []bool {
	m := make([]bool, len(f.Regs))
	eachLoop(f.Body, func(l *vir.Loop) {
		for _, r := range l.Carried {
			m[r] = true
		}
	})
	return m
}

// definitions maps each immutable register to the instruction that defines it.
func definitions(f *vir.Func, mut []bool) []*vir.Instr {
	def := make([]*vir.Instr, len(f.Regs))
	each(f.Body, func(in *vir.Instr) {
		if in.Dst != vir.NoReg && !mut[in.Dst] {
			def[in.Dst] = in
		}
	})
	return def
}

// useCounts counts the arguments that are each register.
func useCounts(f *vir.Func) []int {
	n := make([]int, len(f.Regs))
	each(f.Body, func(in *vir.Instr) {
		for _, r := range in.Args {
			if r != vir.NoReg {
				n[r]++
			}
		}
	})
	return n
}
