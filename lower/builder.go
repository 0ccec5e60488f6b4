package lower

import "github.com/tmacc/tmacc/ir/vir"

// Builder makes registers and constants of a function under rewriting.
type Builder struct{ F *vir.Func }

// Reg returns a new register of type t.
func (b *Builder) Reg(t vir.Type) vir.Reg {
	b.F.Regs = append(b.F.Regs, t)
	return vir.Reg(len(b.F.Regs) - 1)
}

// TypeOf returns the type of r.
func (b *Builder) TypeOf(r vir.Reg) vir.Type { return b.F.Regs[r] }
