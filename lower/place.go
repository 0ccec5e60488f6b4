package lower

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// placeConstants loads each constant once, before the first outermost loop (or
// instruction) that uses it, and again only after a loop that does not: no
// register holds it there. The last constants that loops use least are instead
// loaded right before every instruction that uses them, which costs a load there
// and frees a register. Constants of equal bytes share a register.
//
//	v1:u8x16 = splat 15          v0:u8x16 = load x+0
//	v0:u8x16 = load x+0     ->   v1:u8x16 = splat 15
//	loop l0 n                    loop l0 n
//	    v2 = and v0 v1               v2 = and v0 v1
func placeConstants(f *vir.Func, reload int) (*vir.Func, error) {
	p := &placer{b: &Builder{F: clone(f)}, reload: map[vir.Reg]bool{}, held: map[string]*held{}}
	p.collect(f)
	if reload > 0 {
		for _, r := range p.byUse(f)[:min(reload, p.count)] {
			p.reload[r] = true
		}
	}
	for _, n := range f.Body {
		p.node(n)
	}
	p.b.F.Body = p.out
	return p.b.F, nil
}

// numConstants counts what placeConstants may reload.
func numConstants(f *vir.Func) int {
	p := &placer{}
	p.collect(f)
	return p.count
}

type placer struct {
	b      *Builder
	def    []*vir.Instr // the constants, by register
	count  int          // of them
	reload map[vir.Reg]bool
	held   map[string]*held // by their bytes
	out    []vir.Node
	one    []*vir.Instr // room for the results of uses
}

// held is a constant that registers hold at this point: one for each type it is
// used as, all of them views of the first.
type held struct {
	first vir.Reg
	as    map[vir.Type]vir.Reg
}

func isConstant(in *vir.Instr) bool { return in.Op == vir.OpConst || in.Op == vir.OpSplat }

// collect finds the constants at the start of the function, where pass constants
// put them. Initial values of carried registers look alike but are no constants.
func (p *placer) collect(f *vir.Func) {
	p.def = make([]*vir.Instr, len(f.Regs))
	mut := mutable(f)
	for _, n := range f.Body {
		in, ok := n.(*vir.Instr)
		if !ok || !isConstant(in) {
			return
		}
		if !mut[in.Dst] {
			p.def[in.Dst] = in
			p.count++
		}
	}
}

// byUse sorts the constants by the depth of the deepest loop that uses them, then
// by the number of uses there.
func (p *placer) byUse(f *vir.Func) []vir.Reg {
	type weight struct{ depth, uses int }
	uses := make([]weight, len(f.Regs))
	vir.Walk(f.Body, func(in *vir.Instr, loops []*vir.Loop) {
		for _, r := range in.Args {
			if !p.isConstant(r) {
				continue
			}
			w := uses[r]
			switch {
			case w.depth == len(loops):
				w.uses++
			case w.depth < len(loops):
				w = weight{len(loops), 1}
			}
			uses[r] = w
		}
	})
	var regs []vir.Reg
	for r, in := range p.def {
		if in != nil {
			regs = append(regs, vir.Reg(r))
		}
	}
	slices.SortFunc(regs, func(a, b vir.Reg) int {
		return cmp.Or(cmp.Compare(uses[a].depth, uses[b].depth), cmp.Compare(uses[a].uses, uses[b].uses), cmp.Compare(a, b))
	})
	return regs
}

func (p *placer) node(n vir.Node) {
	switch n := n.(type) {
	case *vir.Instr:
		if n.Dst == vir.NoReg || p.def[n.Dst] != n {
			p.out = append(p.out, p.uses([]vir.Node{n})...)
		}
	case *vir.Loop:
		l := *n
		used := map[string]bool{}
		each(n.Body, func(in *vir.Instr) {
			for _, r := range in.Args {
				if p.isConstant(r) && !p.reload[r] {
					used[string(p.bytes(r))] = true
				}
			}
		})
		for k := range p.held {
			if !used[k] {
				delete(p.held, k)
			}
		}
		l.Body = p.uses(n.Body)
		p.out = append(p.out, &l)
	}
}

// uses returns `body` with its constants in registers. The body is one node of the function or the inside of a node.
// Loads that must come before that node are appended to p.out.
func (p *placer) uses(body []vir.Node) []vir.Node {
	return vir.Map(body, func(in *vir.Instr) []*vir.Instr {
		if !slices.ContainsFunc(in.Args, p.isConstant) {
			p.one = append(p.one[:0], in)
			return p.one
		}
		loads := p.one[:0]
		to := map[vir.Reg]vir.Reg{}
		for _, r := range in.Args {
			_, done := to[r]
			switch {
			case done || !p.isConstant(r):
			case p.reload[r]:
				c := *p.def[r]
				c.Dst = p.b.Reg(p.b.TypeOf(r))
				loads = append(loads, &c)
				to[r] = c.Dst
			default:
				to[r] = p.hold(r)
			}
		}
		p.one = append(loads, replaceArgs(in, to))
		return p.one
	})
}

func (p *placer) isConstant(r vir.Reg) bool { return r != vir.NoReg && p.def[r] != nil }

func replaceArgs(in *vir.Instr, to map[vir.Reg]vir.Reg) *vir.Instr {
	if len(to) == 0 {
		return in
	}
	args := slices.Clone(in.Args)
	for i, r := range args {
		if s, ok := to[r]; ok {
			args[i] = s
		}
	}
	return withArgs(in, args)
}

// hold returns a register that holds constant r, loading it if none does.
func (p *placer) hold(r vir.Reg) vir.Reg {
	key := string(p.bytes(r))
	h := p.held[key]
	t := p.b.TypeOf(r)
	if h == nil {
		c := *p.def[r]
		c.Dst = p.b.Reg(t)
		p.out = append(p.out, &c)
		h = &held{c.Dst, map[vir.Type]vir.Reg{t: c.Dst}}
		p.held[key] = h
	}
	if _, ok := h.as[t]; !ok {
		c := &vir.Instr{Op: vir.OpBitcast, Dst: p.b.Reg(t), Args: []vir.Reg{h.first}}
		p.out = append(p.out, c)
		h.as[t] = c.Dst
	}
	return h.as[t]
}

func (p *placer) bytes(r vir.Reg) []byte {
	if in := p.def[r]; in.Op == vir.OpConst {
		return p.b.F.Consts[in.Imm]
	}
	return splatBytes(p.b.TypeOf(r), p.def[r].Imm)
}
