package amd64

import (
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand rewrites what x86 does otherwise than the shared expansions.
func (t target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	if (in.Op == vir.OpShl || in.Op == vir.OpShrU) && b.TypeOf(in.Dst).Bits() == 8 {
		return shiftByte(b, in)
	}
	return nil
}

// shiftByte makes one byte two, which shift as 16 bits do.
func shiftByte(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	s := b.Seq()
	two := vir.Type{Elem: b.TypeOf(in.Dst).Elem, Lanes: 2}
	a := in.Args[0]
	return s.End(in.Dst, vir.OpHalf, 0, s.Imm(in.Op, two, in.Imm, s.Op(vir.OpJoin, two, a, a)))
}
