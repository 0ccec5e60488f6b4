package lower

import "github.com/tmacc/tmacc/ir/vir"

// inward masks the parts of a union, where constants mask them anyway, instead of the union: what takes a code from two words
// by a select, and the select from a target that has none, is an operation less.
//
//	v2:u8x16 = and v0 v8             v6:u8x16 = and v8 v9
//	v3:u8x16 = andnot v1 v8          v2:u8x16 = and v0 v6
//	v4:u8x16 = or v2 v3        ->    v7:u8x16 = andnot v9 v8
//	v5:u8x16 = and v4 v9             v3:u8x16 = and v1 v7
//	                                 v5:u8x16 = or v2 v3
func inward(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	w := &inwards{b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f)}
	w.b.F.Body = vir.Map(f.Body, w.instr)
	return w.b.F, nil
}

type inwards struct {
	b    *Builder
	def  []*vir.Instr // nil of registers that change
	mut  []bool
	uses []int
}

// instr is what in becomes; what it does not read any more is left to dce, masks of masks to constants.
func (w *inwards) instr(in *vir.Instr) []*vir.Instr {
	if in.Op != vir.OpAnd || in.Fold > 0 {
		return []*vir.Instr{in}
	}
	for i, mask := range in.Args {
		union := w.only(in.Args[1-i])
		if !w.constant(mask) || union == nil || union.Op != vir.OpOr {
			continue
		}
		s := w.b.Seq()
		a, b := w.part(s, union.Args[0], mask), w.part(s, union.Args[1], mask)
		if a != vir.NoReg && b != vir.NoReg {
			return s.End(in.Dst, vir.OpOr, 0, a, b)
		}
	}
	return []*vir.Instr{in}
}

// part is r masked: what is masked anyway, once; NoReg if that is not so.
func (w *inwards) part(s *Seq, r, mask vir.Reg) vir.Reg {
	d := w.only(r)
	if d == nil || d.Op != vir.OpAnd && d.Op != vir.OpAndNot {
		return vir.NoReg
	}
	x, by := d.Args[0], d.Args[1]
	if d.Op == vir.OpAnd && w.constant(x) {
		x, by = by, x
	}
	if w.mut[x] || !w.constant(by) {
		return vir.NoReg
	}
	t := w.b.TypeOf(r)
	return s.Op(vir.OpAnd, t, x, s.Op(d.Op, t, mask, by))
}

// only is what makes r, if r is read once.
func (w *inwards) only(r vir.Reg) *vir.Instr {
	if d := w.def[r]; d != nil && d.Fold == 0 && w.uses[r] == 1 {
		return d
	}
	return nil
}

func (w *inwards) constant(r vir.Reg) bool { return w.def[r] != nil && isConstant(w.def[r]) }
