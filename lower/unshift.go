package lower

import (
	"math/bits"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// unshift leaves out shifts down that a shift up of the sum undoes: of what has no lower bits, such as a
// sum of products with codes that were read where they lie. 32-bit sums wrap, so a shift up
// of a sum is a sum of shifts up.
//
//	v2:i32x4 = shrs v0 1             v5:i32x4 = shl v1 1
//	v3:i32x4 = add v1 v2        ->   v4:i32x4 = add v5 v0
//	v4:i32x4 = shl v3 1
func unshift(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	u := &unshifter{b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f)}
	u.b.F.Body = vir.Map(f.Body, u.instr)
	return u.b.F, nil
}

type unshifter struct {
	b    *Builder
	def  []*vir.Instr
	mut  []bool
	uses []int
}

// instr is what in becomes; what it does not read any more is left to dce.
func (u *unshifter) instr(in *vir.Instr) []*vir.Instr {
	sum := u.only(in, vir.OpShl, 0)
	if sum == nil || sum.Op != vir.OpAdd {
		return vir.Kept
	}
	for i, other := range sum.Args {
		down := u.only(sum, vir.OpAdd, 1-i)
		if down == nil || down.Op != vir.OpShrS || down.Imm != in.Imm || u.mut[other] {
			continue
		}
		if x := down.Args[0]; !u.mut[x] && u.lowZeros(x) >= int(in.Imm) {
			s := u.b.Seq()
			return s.End(in.Dst, vir.OpAdd, 0, s.Imm(vir.OpShl, u.b.TypeOf(in.Dst), in.Imm, other), x)
		}
	}
	return vir.Kept
}

// only is what makes argument i of in, if in is op of 32-bit integers and reads alone what that makes.
func (u *unshifter) only(in *vir.Instr, op vir.Op, i int) *vir.Instr {
	if in.Op != op || u.b.TypeOf(in.Dst).Elem != format.I32 || u.mut[in.Args[i]] || u.uses[in.Args[i]] != 1 {
		return nil
	}
	return u.def[in.Args[i]]
}

// lowZeros is how many of the lowest bits of each lane of r are 0, as far as that is known.
func (u *unshifter) lowZeros(r vir.Reg) int {
	most := u.b.TypeOf(r).Elem.Bits()
	d := u.def[r]
	if u.mut[r] || d == nil || d.Fold > 0 {
		return 0
	}
	switch d.Op {
	case vir.OpSplat:
		return min(most, bits.TrailingZeros64(uint64(d.Imm)))
	case vir.OpAnd:
		return max(u.lowZeros(d.Args[0]), u.lowZeros(d.Args[1]))
	case vir.OpDot4: // products of bytes
		return min(u.lowZeros(d.Args[0]), u.lowZeros(d.Args[1])+u.lowZeros(d.Args[2]))
	case vir.OpBitcast: // of zeros
		if a := d.Args[0]; u.lowZeros(a) == u.b.TypeOf(a).Elem.Bits() {
			return most
		}
	}
	return 0
}
