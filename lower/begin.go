package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// begin saves an addition in sums of products that begin with 0. The value that is added at the end becomes the
// beginning, if it is known before the products or is a load that can move before them. 32-bit sums wrap, so their
// order does not matter. A value that a loop carries stays at the end: all products would wait for it.
//
//	v1:i32x4 = splat 0                v3:i32x4 = dot4 v2 v7 v8
//	v3:i32x4 = dot4 v1 v7 v8     ->   v4:i32x4 = dot4 v3 v9 v10
//	v4:i32x4 = dot4 v3 v9 v10         store x+0 v4
//	v5:i32x4 = add v2 v4
//	store x+0 v5
func begin(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	b := &beginner{f: f, mut: mut, def: definitions(f, mut), uses: useCounts(f), to: identity(len(f.Regs)), start: map[*vir.Instr]vir.Reg{}, early: map[*vir.Instr]*vir.Instr{}}
	b.body(f.Body)
	g := *f
	g.Body = vir.Map(f.Body, b.instr)
	return &g, nil
}

type beginner struct {
	f     *vir.Func
	mut   []bool
	def   []*vir.Instr
	uses  []int
	to    []vir.Reg                 // the register that stands for a sum that is gone
	start map[*vir.Instr]vir.Reg    // the register that a product is added to instead of 0
	early map[*vir.Instr]*vir.Instr // a load that moves, and the product that it moves before
}

// body finds the sums of one body.
func (b *beginner) body(body []vir.Node) {
	at := map[vir.Reg]int{}           // where registers of this body are defined
	first := map[vir.Reg]*vir.Instr{} // of a sum of products, which begins with 0
	wall := -1                        // the last loop or store: no load moves over it
	for i, n := range body {
		if l, ok := n.(*vir.Loop); ok {
			b.body(l.Body)
			wall = i
			continue
		}
		in := n.(*vir.Instr)
		if in.Op.Orders() {
			wall = i
		}
		if in.Dst == vir.NoReg || b.mut[in.Dst] {
			continue
		}
		at[in.Dst] = i
		switch in.Op {
		case vir.OpDot4, vir.OpDot2:
			if c := in.Args[0]; b.zero(c) {
				first[in.Dst] = in
			} else if first[c] != nil && b.uses[c] == 1 {
				first[in.Dst] = first[c]
			}
		case vir.OpAdd:
			for k, sum := range in.Args {
				x, p := in.Args[1-k], first[sum]
				if _, begun := b.start[p]; p == nil || begun || b.uses[sum] != 1 {
					continue
				}
				if b.before(x, p, at, wall) {
					b.start[p], b.to[in.Dst] = b.to[x], b.to[sum]
					break
				}
				first[in.Dst] = p // a sum of products and more
			}
		}
	}
}

// before says whether x, which no loop carries, is there before p, of the body at hand. A load behind p moves there, but
// not over a wall.
func (b *beginner) before(x vir.Reg, p *vir.Instr, at map[vir.Reg]int, wall int) bool {
	i, here := at[x]
	switch d := b.def[x]; {
	case b.mut[x]:
		return false
	case !here || i < at[p.Dst]:
		return true
	case d.Op != vir.OpLoad && d.Op != vir.OpLoadSplat || at[p.Dst] < wall:
		return false
	default:
		b.early[d], at[x] = p, at[p.Dst]-1
		return true
	}
}

// zero says whether r is the integer 0 in every lane.
func (b *beginner) zero(r vir.Reg) bool {
	d := b.def[r]
	return d != nil && d.Op == vir.OpSplat && d.Imm == 0 && b.f.Regs[r].Elem == format.I32
}

// instr is what in becomes.
func (b *beginner) instr(in *vir.Instr) []*vir.Instr {
	if in.Dst != vir.NoReg && b.to[in.Dst] != in.Dst || b.early[in] != nil {
		return nil
	}
	start, ok := b.start[in]
	if !ok {
		return renamed(in, b.to)
	}
	var out []*vir.Instr
	if d := b.def[start]; d != nil && b.early[d] == in {
		out = append(out, d)
	}
	args := slices.Clone(rename(in, b.to).Args)
	args[0] = start
	return append(out, withArgs(in, args))
}
