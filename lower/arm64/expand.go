package arm64

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand rewrites what NEON does in more than one instruction and better than the
// expansions of all targets do.
func (t target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	switch in.Op {
	case vir.OpTrunc:
		return truncTwice(b, in)
	case vir.OpWiden:
		return widenTwice(b, in)
	case vir.OpDot2, vir.OpDot2Wrap:
		return pairSums(b, in)
	}
	return nil
}

// truncTwice narrows i32 to bytes by way of i16 before legalization cuts it into
// registers: each step is then one UZP1 for two registers.
func truncTwice(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	to := b.TypeOf(in.Dst)
	if b.TypeOf(in.Args[0]).Elem != format.I32 || to.Elem.Bits() != 8 {
		return nil
	}
	s := b.Seq()
	half := s.Op(vir.OpTrunc, vir.Type{Elem: format.I16, Lanes: to.Lanes}, in.Args[0])
	return s.End(in.Dst, vir.OpTrunc, 0, half)
}

// widenTwice widens bytes to i32 by way of i16 before legalization cuts it into
// registers: each step then reads a whole register, its lower and its upper half.
func widenTwice(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	to, from := b.TypeOf(in.Dst), b.TypeOf(in.Args[0])
	if from.Elem.Bits() != 8 || to.Elem != format.I32 {
		return nil
	}
	s := b.Seq()
	half := s.Op(vir.OpWiden, vir.Type{Elem: format.I16, Lanes: to.Lanes}, in.Args[0])
	return s.End(in.Dst, vir.OpWiden, 0, half)
}

// pairSums makes products with 1, which SADALP adds up.
func pairSums(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	ones := vir.Range{Lo: 1, Hi: 1}
	factors := in.Args[len(in.Args)-2:]
	a := factors[0]
	switch ones {
	case b.Range(factors[1]):
	case b.Range(a):
		a = factors[1]
	default:
		return nil
	}
	s := b.Seq()
	sum := in.Args[0]
	if in.Op == vir.OpDot2Wrap {
		sum = s.Splat(b.TypeOf(in.Dst), 0)
	}
	return s.End(in.Dst, vir.OpSum2, 0, sum, a)
}
