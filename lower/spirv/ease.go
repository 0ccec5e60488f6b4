package spirv

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// early is a body in which loads come before the first loop beside them: what they wait for runs while the loop does. What they read
// is never stored to.
func (p *printer) early(body []vir.Node) []vir.Node {
	first := slices.IndexFunc(body, isLoop)
	if first < 0 {
		return body
	}
	var loads, rest []vir.Node
	for _, n := range body[first:] {
		switch n := n.(type) {
		case *vir.Loop:
			c := *n
			c.Body = p.early(n.Body)
			rest = append(rest, &c)
		case *vir.Instr:
			if (n.Op == vir.OpLoad || n.Op == vir.OpLoadSplat) && p.constantBuffer(n.Mem.Buf) {
				loads = append(loads, n)
			} else {
				rest = append(rest, n)
			}
		}
	}
	return slices.Concat(body[:first], loads, rest)
}

func isLoop(n vir.Node) bool { _, ok := n.(*vir.Loop); return ok }

// constantBuffer says that nothing stores to the buffer of a parameter.
func (p *printer) constantBuffer(param int) bool {
	return !p.stored[param] && p.f.Params[param].Shared == 0
}

// oneWord says which vectors of 32-bit sums are kept in one word, the sum of their lanes: what only products are added to, or other
// such sums, from zero on, if only the sum of all lanes is asked for.
func (p *printer) oneWord() map[vir.Reg]bool {
	class := make([]vir.Reg, len(p.f.Regs)) // registers that are alike have one of them in common
	for r := range class {
		class[r] = vir.Reg(r)
	}
	of := func(r vir.Reg) vir.Reg {
		for class[r] != r {
			r = class[r]
		}
		return r
	}
	wide := func(r vir.Reg) bool {
		return r != vir.NoReg && p.f.Regs[r].Elem == format.I32 && p.f.Regs[r].Lanes > 1
	}
	var bad []vir.Reg
	vir.Walk(p.f.Body, func(in *vir.Instr, _ []*vir.Loop) {
		like := 0 // how many arguments are like the result
		switch {
		case in.Op == vir.OpDot4 || in.Op == vir.OpBitcast && p.f.Regs[in.Dst] == p.f.Regs[in.Args[0]]:
			like = 1
		case in.Op == vir.OpAdd:
			like = 2
		case in.Op == vir.OpSplat && in.Imm == 0:
		case in.Op == vir.OpRedAdd && p.f.Regs[in.Dst].Lanes == 1:
			return
		default:
			bad = append(bad, in.Dst)
		}
		for i, r := range in.Args {
			if i >= like {
				bad = append(bad, r)
			} else if wide(in.Dst) {
				class[of(r)] = of(in.Dst)
			}
		}
	})
	one := map[vir.Reg]bool{}
	for r := range class {
		if wide(vir.Reg(r)) {
			one[vir.Reg(r)] = true
		}
	}
	spoilt := map[vir.Reg]bool{}
	for _, r := range bad {
		if wide(r) {
			spoilt[of(r)] = true
		}
	}
	for r := range one {
		if spoilt[of(r)] {
			delete(one, r)
		}
	}
	return one
}

// summed writes an instruction on sums that are kept in one word.
func (p *printer) summed(in *vir.Instr) []module.ID {
	switch in.Op {
	case vir.OpSplat:
		return []module.ID{p.number(0)}
	case vir.OpAdd:
		return []module.ID{p.sum(p.arg(in, 0)[0], p.arg(in, 1)[0])}
	case vir.OpDot4:
		c, code := p.arg(in, 0)[0], module.OpSDot
		if p.f.Regs[in.Args[1]].Elem == format.U8 {
			code = module.OpSUDot
		}
		for i, w := range p.arg(in, 1) {
			c = p.dot(code, c, p.arg(in, 2)[i], w)
		}
		return []module.ID{c}
	}
	return p.arg(in, 0)
}
