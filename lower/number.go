package lower

import "github.com/tmacc/tmacc/ir/vir"

// number renumbers registers and constants in the order of their definitions and
// forgets the unused ones: what prints then parses to the same function.
func number(f *vir.Func) (*vir.Func, error) {
	g := *f
	g.Regs, g.Consts = nil, nil
	to := make([]vir.Reg, len(f.Regs))
	for i := range to {
		to[i] = vir.NoReg
	}
	consts := map[int64]int64{}
	each(f.Body, func(in *vir.Instr) {
		if in.Dst != vir.NoReg && to[in.Dst] == vir.NoReg {
			to[in.Dst] = vir.Reg(len(g.Regs))
			g.Regs = append(g.Regs, f.Regs[in.Dst])
		}
		c, ok := in.Imm, in.Op == vir.OpConst
		if in.FoldConst > 0 {
			c, ok = int64(in.FoldConst-1), true
		}
		if _, known := consts[c]; ok && !known {
			consts[c] = int64(len(g.Consts))
			g.Consts = append(g.Consts, f.Consts[c])
		}
	})
	one := make([]*vir.Instr, 1)
	g.Body = vir.Map(f.Body, func(in *vir.Instr) []*vir.Instr {
		c := *in
		c.Args = make([]vir.Reg, len(in.Args))
		for i, r := range in.Args {
			c.Args[i] = vir.NoReg
			if r != vir.NoReg {
				c.Args[i] = to[r]
			}
		}
		if in.Dst != vir.NoReg {
			c.Dst = to[in.Dst]
		}
		if in.Op == vir.OpConst {
			c.Imm = consts[in.Imm]
		}
		if in.FoldConst > 0 {
			c.FoldConst = 1 + int(consts[int64(in.FoldConst-1)])
		}
		one[0] = &c // Map copies it
		return one
	})
	eachLoop(g.Body, func(l *vir.Loop) { // Map has copied the loops
		for i, r := range l.Carried {
			l.Carried[i] = to[r]
		}
	})
	return &g, nil
}
