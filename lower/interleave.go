package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// interleave splits a value that is truncated to bytes and takes more than a register. It computes the even lanes and
// the odd lanes apart. The bytes are then put together where they lie, without moving lanes. This is for
// targets where that costs less than a truncation. Lanes can be taken apart where they come from
// constants and from values that are equal in all lanes.
//
//	v2:i16x64 = mul v0 v1(1 2 3 4...)     v6:i16x32 = mul v4 v5(1 3...)
//	v3:u8x64 = trunc v2              ->   v9:i16x32 = mul v7 v8(2 4...)
//	                                      v10:i16x32 = shl v9 8
//	                                      v11:i16x32 = bitsel 255 v6 v10
//	                                      v3:u8x64 = bitcast v11
func (t *table) interleave(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	x := &interleaver{b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, parts: map[vir.Reg][2]vir.Reg{}, ends: map[*vir.Instr]bool{}}
	inside := useCounts(f)
	each(f.Body, func(in *vir.Instr) {
		if in.Op == vir.OpTrunc && t.interleaves(f, in) && x.splits(in.Args[0]) {
			x.ends[in] = true
		}
	})
	if len(x.ends) == 0 {
		return f, nil
	}
	each(f.Body, func(in *vir.Instr) {
		if _, ok := x.parts[in.Dst]; in.Dst != vir.NoReg && ok || x.ends[in] {
			for _, r := range in.Args {
				inside[r]--
			}
		}
	})
	for r := range x.parts {
		if inside[r] > 0 && !isLeaf(x.def[r].Op) {
			return f, nil // lanes are wanted in their order too
		}
	}
	x.b.F.Body = vir.Map(f.Body, x.instr)
	return x.b.F, nil
}

// interleaves says whether in takes more than putting bytes together does.
func (t *table) interleaves(f *vir.Func, in *vir.Instr) bool {
	from, to := f.Regs[in.Args[0]], f.Regs[in.Dst]
	if from.Elem != format.I16 || to.Elem.Bits() != 8 || from.Bits() <= t.m.VecBits {
		return false
	}
	wide := vir.Type{Elem: format.I16, Lanes: t.m.VecBits / 16}
	cost := func(op vir.Op, dst vir.Type, args ...vir.Type) int {
		for _, r := range t.rows[keyOf(op, dst)] {
			if slices.Equal(r.Args, args) {
				return r.Cost
			}
		}
		return 1 << 20
	}
	together := cost(vir.OpShl, wide, wide) + min(cost(vir.OpBitSel, wide, wide, wide, wide),
		cost(vir.OpAnd, wide, wide, wide)+cost(vir.OpAndNot, wide, wide, wide)+cost(vir.OpOr, wide, wide, wide))
	return together < 2*cost(vir.OpTrunc, vir.Type{Elem: to.Elem, Lanes: wide.Lanes}, wide)
}

type interleaver struct {
	b     *Builder
	def   []*vir.Instr
	mut   []bool
	parts map[vir.Reg][2]vir.Reg // even and odd lanes; the same register if all lanes are equal
	ends  map[*vir.Instr]bool
}

// isLeaf says of an operation that a value begins with it.
func isLeaf(op vir.Op) bool { return op == vir.OpConst || op == vir.OpSplat || op == vir.OpLoadSplat }

// splits says whether the even and the odd lanes of r can be computed apart, from even and odd lanes of the arguments.
// It notes every register that this takes in x.parts.
func (x *interleaver) splits(r vir.Reg) bool {
	if _, ok := x.parts[r]; ok {
		return true
	}
	d := x.def[r]
	if d == nil || x.mut[r] || d.Fold > 0 {
		return false
	}
	switch d.Op {
	case vir.OpConst, vir.OpSplat, vir.OpLoadSplat,
		vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAndNot, vir.OpShl, vir.OpShrU, vir.OpShrS, vir.OpAdd, vir.OpSub, vir.OpMul, vir.OpMinS, vir.OpMaxS, vir.OpAbs, vir.OpWiden:
	default:
		return false
	}
	for _, a := range d.Args {
		if !x.splits(a) {
			return false
		}
	}
	x.parts[r] = [2]vir.Reg{}
	return true
}

// instr is what in becomes.
func (x *interleaver) instr(in *vir.Instr) []*vir.Instr {
	if x.ends[in] {
		return x.together(in)
	}
	if in.Dst == vir.NoReg {
		return vir.Kept
	}
	if _, ok := x.parts[in.Dst]; !ok {
		return vir.Kept
	}
	out := []*vir.Instr{in} // dce drops it if nothing else reads it
	var parts [2]vir.Reg
	for p := range parts {
		if p == 1 && x.equal(in) {
			parts[1] = parts[0]
			break
		}
		c := *in
		c.Args = nil
		for _, r := range in.Args {
			c.Args = append(c.Args, x.parts[r][p])
		}
		if in.Op == vir.OpConst {
			c.Imm = x.b.Const(everyOther(x.b.F.Consts[in.Imm], x.b.TypeOf(in.Dst).Elem.Bytes(), p))
		}
		c.Dst = x.b.Reg(halved(x.b.TypeOf(in.Dst)))
		parts[p] = c.Dst
		out = append(out, &c)
	}
	x.parts[in.Dst] = parts
	return out
}

// equal says that the even lanes of in's result are the odd ones too.
func (x *interleaver) equal(in *vir.Instr) bool {
	return in.Op != vir.OpConst && !slices.ContainsFunc(in.Args, func(r vir.Reg) bool { return x.parts[r][0] != x.parts[r][1] })
}

// everyOther returns every other element of `data`, from number `first`, which is 0 or 1. An element has `size` bytes.
func everyOther(data []byte, size, first int) []byte {
	var out []byte
	for at := first * size; at < len(data); at += 2 * size {
		out = append(out, data[at:at+size]...)
	}
	return out
}

// together makes bytes of the low ones of even and odd lanes. If those are shifted right, odd ones have less to
// be shifted left.
func (x *interleaver) together(in *vir.Instr) []*vir.Instr {
	s, of, by := x.b.Seq(), in.Args[0], int64(0)
	if d := x.def[of]; (d.Op == vir.OpShrU || d.Op == vir.OpShrS) && d.Imm <= 8 {
		of, by = d.Args[0], d.Imm
	}
	even, odd := x.parts[of][0], x.parts[of][1]
	t := x.b.TypeOf(even)
	if by > 0 {
		even = s.Imm(vir.OpShrU, t, by, even)
	}
	if by < 8 {
		odd = s.Imm(vir.OpShl, t, 8-by, odd)
	}
	both := s.Op(vir.OpBitSel, t, s.Splat(t, 0xff), even, odd)
	return s.End(in.Dst, vir.OpBitcast, 0, both)
}
