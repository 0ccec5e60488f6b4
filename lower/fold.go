package lower

import (
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// fold makes a load the memory operand of the instruction that uses it, if the
// target has that form. The load must have no other use (unless all is set: then
// each use of a broadcast reads memory, and fewer registers are live), stand in the
// same body, and no store to its buffer may lie between. Bitcasts on the way do not matter, nor do halves
// if nothing uses the whole.
//
//	v2:u32x16 = loadsplat x+4
//	v3:i8x64 = bitcast v2
//	v0:i32x16 = dot4 v0 v1 v3   ->   v0:i32x16 = dot4 v0 v1 [x+4 i8x64 splat 4]
//
//	v1:i8x32 = load x+0
//	v2:i8x16 = half v1 1
//	v3:i16x16 = widen v2        ->   v3:i16x16 = widen [x+16 i8x16]
//
// In loops, constants are loads like others, though of whole vectors: outside, one that fills a register from fewer bytes takes less room. Figures:
// docs/lab/choices.md, fold.
//
//	v1:u8x32 = splat 3
//	v2:u8x32 = and v0 v1        ->   v2:u8x32 = and v0 [c0 u8x32]
func (t *table) fold(f *vir.Func, all bool) (*vir.Func, error) {
	p := &folder{t: t, b: &Builder{F: clone(f)}, all: all, mut: mutable(f), uses: useCounts(f), halves: halfCounts(f)}
	p.b.F.Body = p.body(f.Body)
	return p.b.F, nil
}

type folder struct {
	t    *table
	b    *Builder
	all  bool
	mut  []bool
	uses []int
	loop bool // the body at hand is one of a loop
	// How many uses of each register are halves of it.
	halves []int
	// Of the body at hand: the load, or constant, each register comes from, unless a store has made
	// it stale; a register of parts is used by halves only.
	from, parts map[vir.Reg]*vir.Instr
}

// halfCounts counts the halves of each register.
func halfCounts(f *vir.Func) []int {
	n := make([]int, len(f.Regs))
	each(f.Body, func(in *vir.Instr) {
		if in.Op == vir.OpHalf && in.Fold == 0 {
			n[in.Args[0]]++
		}
	})
	return n
}

func (p *folder) body(body []vir.Node) []vir.Node {
	from, parts := p.from, p.parts
	p.from, p.parts = map[vir.Reg]*vir.Instr{}, map[vir.Reg]*vir.Instr{}
	out := make([]vir.Node, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			n = p.instr(n)
			p.track(n)
			out = append(out, n)
		case *vir.Loop:
			l, outside := *n, p.loop
			p.loop = true
			l.Body = p.body(n.Body)
			p.loop = outside
			each(n.Body, p.forget)
			out = append(out, &l)
		}
	}
	p.from, p.parts = from, parts
	return out
}

// track notes which load the result of in comes from.
func (p *folder) track(in *vir.Instr) {
	p.forget(in)
	if in.Dst == vir.NoReg || p.mut[in.Dst] {
		return
	}
	var load *vir.Instr
	switch in.Op {
	case vir.OpLoad, vir.OpLoadSplat:
		load = in
	case vir.OpConst, vir.OpSplat:
		if p.loop {
			load = in
		}
	case vir.OpBitcast:
		load = p.from[in.Args[0]]
	case vir.OpHalf:
		load = p.half(in)
	}
	switch {
	case load == nil:
	case p.uses[in.Dst] == 1, p.all && (load.Op == vir.OpLoadSplat || in.Op == vir.OpBitcast):
		p.from[in.Dst] = load
	case p.uses[in.Dst] == p.halves[in.Dst]:
		p.parts[in.Dst] = load
	}
}

// half is the load of what in takes of a loaded register, or nil.
func (p *folder) half(in *vir.Instr) *vir.Instr {
	load := p.parts[in.Args[0]]
	if load == nil {
		load = p.from[in.Args[0]]
	}
	bytes := p.b.TypeOf(in.Dst).Bytes()
	switch {
	case load == nil || isConstant(load) || load.Op == vir.OpLoadSplat && p.b.TypeOf(load.Dst).Elem.Bytes() > bytes:
		return nil
	case load.Op == vir.OpLoadSplat:
		return load
	}
	c := *load
	c.Mem.Off += int(in.Imm) * bytes
	return &c
}

// forget drops the loads that in, if it is a store, may have overtaken.
func (p *folder) forget(in *vir.Instr) {
	if in.Op != vir.OpStore {
		return
	}
	stale := func(_ vir.Reg, load *vir.Instr) bool { return load.HasMem() && load.Mem.Buf == in.Mem.Buf }
	maps.DeleteFunc(p.from, stale)
	maps.DeleteFunc(p.parts, stale)
}

// instr returns in with a folded argument if one can be.
func (p *folder) instr(in *vir.Instr) *vir.Instr {
	if in.Op == vir.OpBitcast || in.Op.HasMem() || in.Fold > 0 {
		return in
	}
	for i, r := range in.Args {
		load := p.from[r]
		if load == nil || countOf(in.Args, r) > 1 {
			continue
		}
		if c := p.folded(in, i, load); c != nil {
			return c
		}
		if j := commutes(p.b.F, in, i); j >= 0 {
			if c := p.folded(withArgs(in, swapped(in.Args, i, j)), j, load); c != nil {
				return c
			}
		}
	}
	return in
}

// folded is in with argument i read by load's address, or the constant that it is, nil if the target has no
// such form.
func (p *folder) folded(in *vir.Instr, i int, load *vir.Instr) *vir.Instr {
	c := *in
	c.Args = slices.Clone(in.Args)
	c.FoldType = p.b.TypeOf(in.Args[i])
	c.Args[i], c.Fold, c.Mem = vir.NoReg, i+1, load.Mem
	switch {
	case load.Op == vir.OpLoadSplat:
		c.FoldUnit = p.b.TypeOf(load.Dst).Elem.Bytes()
	case isConstant(load):
		c.FoldConst = 1 // some
	}
	if p.t.find(p.b.F, &c) == nil {
		return nil
	}
	switch load.Op {
	case vir.OpConst:
		c.FoldConst = 1 + int(load.Imm)
	case vir.OpSplat:
		c.FoldConst = 1 + int(p.b.Const(splatBytes(p.b.TypeOf(load.Dst), load.Imm)))
	}
	return &c
}

func countOf(args []vir.Reg, r vir.Reg) int {
	n := 0
	for _, a := range args {
		if a == r {
			n++
		}
	}
	return n
}

// commutes is the argument that may change places with argument i, or -1.
func commutes(f *vir.Func, in *vir.Instr, i int) int {
	j := -1
	switch in.Op {
	case vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAdd, vir.OpMul, vir.OpMinS, vir.OpMaxS, vir.OpAddSat, vir.OpDot2Wrap:
		j = 1 - i
	case vir.OpDot2, vir.OpDot4:
		if i > 0 {
			j = 3 - i
		}
	}
	if j >= 0 && f.ArgType(in, i) != f.ArgType(in, j) {
		return -1
	}
	return j
}

func swapped(args []vir.Reg, i, j int) []vir.Reg {
	out := slices.Clone(args)
	out[i], out[j] = out[j], out[i]
	return out
}
