package arm64

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand rewrites what NEON does in more than one instruction and better than the
// expansions of all targets do.
func (t target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	if in.Op == vir.OpTrunc {
		return truncTwice(b, in)
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
