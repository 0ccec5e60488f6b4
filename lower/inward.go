package lower

import "github.com/tmacc/tmacc/ir/vir"

// inward masks the parts of a union instead of the union, where constants mask the parts anyway. This saves an
// operation where a select takes a code from two words and the target has no select. All of it must be in one body.
//
//	v2:u8x16 = and v0 v8             v6:u8x16 = and v9 v8
//	v3:u8x16 = andnot v1 v8          v2:u8x16 = and v0 v6
//	v4:u8x16 = or v2 v3        ->    v7:u8x16 = andnot v9 v8
//	v5:u8x16 = and v4 v9             v3:u8x16 = and v1 v7
//	                                 v5:u8x16 = or v2 v3
func inward(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	w := &inwards{b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f), home: make([]int, len(f.Regs))}
	bodies := 0
	var number func(body []vir.Node)
	number = func(body []vir.Node) {
		bodies++
		here := bodies
		for _, n := range body {
			switch n := n.(type) {
			case *vir.Instr:
				if n.Dst != vir.NoReg {
					w.home[n.Dst] = here
				}
			case *vir.Loop:
				number(n.Body)
			}
		}
	}
	number(f.Body)
	w.b.F.Body = vir.Map(f.Body, w.instr)
	return w.b.F, nil
}

type inwards struct {
	b    *Builder
	def  []*vir.Instr // nil of registers that change
	mut  []bool
	uses []int
	home []int // the body that defines a register
}

// part is a masked value: x & by, or x &^ by.
type part struct {
	op    vir.Op
	x, by vir.Reg
}

// instr returns the instructions that replace `in`. It leaves values that are no longer read to dce, and masks of masks
// to constants.
func (w *inwards) instr(in *vir.Instr) []*vir.Instr {
	if in.Op != vir.OpAnd || in.Fold > 0 {
		return vir.Kept
	}
	for i, mask := range in.Args {
		union := w.only(in, in.Args[1-i])
		if !w.constant(mask) || union == nil || union.Op != vir.OpOr {
			continue
		}
		a, okA := w.part(union, union.Args[0])
		b, okB := w.part(union, union.Args[1])
		if okA && okB {
			s, t := w.b.Seq(), w.b.TypeOf(in.Dst)
			masked := func(p part) vir.Reg { return s.Op(vir.OpAnd, t, p.x, s.Op(p.op, t, mask, p.by)) }
			return s.End(in.Dst, vir.OpOr, 0, masked(a), masked(b))
		}
	}
	return vir.Kept
}

// part is argument r of union, if a constant masks something that does not change.
func (w *inwards) part(union *vir.Instr, r vir.Reg) (p part, ok bool) {
	d := w.only(union, r)
	if d == nil || d.Op != vir.OpAnd && d.Op != vir.OpAndNot {
		return p, false
	}
	p = part{d.Op, d.Args[0], d.Args[1]}
	if d.Op == vir.OpAnd && w.constant(p.x) {
		p.x, p.by = p.by, p.x
	}
	return p, !w.mut[p.x] && w.constant(p.by)
}

// only is what makes r, if only by reads it, in the same body.
func (w *inwards) only(by *vir.Instr, r vir.Reg) *vir.Instr {
	if d := w.def[r]; d != nil && d.Fold == 0 && w.uses[r] == 1 && w.home[r] == w.home[by.Dst] {
		return d
	}
	return nil
}

func (w *inwards) constant(r vir.Reg) bool { return w.def[r] != nil && isConstant(w.def[r]) }
