package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// Builder makes registers and constants of a function under rewriting.
type Builder struct {
	F *vir.Func

	ranges []vir.Range  // bounds of the registers' lanes, where they are known; nil: of none
	def    []*vir.Instr // the instruction that defines a register of the original function, where it is only one
}

// Reg returns a new register of type t.
func (b *Builder) Reg(t vir.Type) vir.Reg {
	b.F.Regs = append(b.F.Regs, t)
	return vir.Reg(len(b.F.Regs) - 1)
}

// TypeOf returns the type of r.
func (b *Builder) TypeOf(r vir.Reg) vir.Type { return b.F.Regs[r] }

// Range bounds the lanes of r, an integer register, as far as they are known.
func (b *Builder) Range(r vir.Reg) vir.Range {
	if x, ok := b.known(r); ok {
		return x
	}
	return vir.FullRange(b.TypeOf(r).Elem)
}

func (b *Builder) known(r vir.Reg) (vir.Range, bool) {
	if int(r) >= len(b.ranges) {
		return vir.Range{}, false
	}
	return b.ranges[r], b.ranges[r].Known()
}

func (b *Builder) setRange(r vir.Reg, x vir.Range) {
	if b.ranges == nil {
		return
	}
	for len(b.ranges) <= int(r) {
		b.ranges = append(b.ranges, vir.Range{Lo: 1}) // not known
	}
	b.ranges[r] = x
}

// repeats says whether r is known to be its first n bytes over and over.
func (b *Builder) repeats(r vir.Reg, n int) bool {
	if b.TypeOf(r).Bytes() <= n {
		return true
	}
	if int(r) >= len(b.def) || b.def[r] == nil || b.def[r].Fold > 0 {
		return false
	}
	switch d := b.def[r]; d.Op {
	case vir.OpConst:
		return repeats(b.F.Consts[d.Imm], n)
	case vir.OpSplat, vir.OpLoadSplat, vir.OpSplatLane:
		return b.TypeOf(r).Elem.Bytes() <= n
	case vir.OpJoin:
		return d.Args[0] == d.Args[1] && b.repeats(d.Args[0], n)
	case vir.OpTile:
		return b.repeats(d.Args[0], n) && b.TypeOf(d.Args[0]).Bytes() <= n
	case vir.OpBitcast:
		return b.repeats(d.Args[0], n)
	}
	return false
}

// Const returns the number of a constant with these bytes, for OpConst.
func (b *Builder) Const(data []byte) int64 {
	for i, c := range b.F.Consts {
		if slices.Equal(c, data) {
			return int64(i)
		}
	}
	b.F.Consts = append(b.F.Consts, data)
	return int64(len(b.F.Consts) - 1)
}

// Seq starts an empty sequence of instructions.
func (b *Builder) Seq() *Seq { return &Seq{b: b} }

// Seq is a sequence of instructions under construction, the usual body of an
// expansion:
//
//	s := b.Seq()
//	wide := s.Imm(vir.OpShl, u16, in.Imm, s.Op(vir.OpBitcast, u16, in.Args[0]))
//	return s.End(in.Dst, vir.OpBitcast, 0, wide)
type Seq struct {
	b   *Builder
	out []*vir.Instr
}

// Op appends dst = op args, dst being a new register of type t, and returns dst.
func (s *Seq) Op(op vir.Op, t vir.Type, args ...vir.Reg) vir.Reg {
	return s.Imm(op, t, 0, args...)
}

// Imm is Op with an immediate.
func (s *Seq) Imm(op vir.Op, t vir.Type, imm int64, args ...vir.Reg) vir.Reg {
	dst := s.b.Reg(t)
	s.End(dst, op, imm, args...)
	return dst
}

// Splat appends a new register of type t with x in every lane.
func (s *Seq) Splat(t vir.Type, x int64) vir.Reg { return s.Imm(vir.OpSplat, t, x) }

// Bitcast returns r as type t; it is r itself if it has that type already.
func (s *Seq) Bitcast(t vir.Type, r vir.Reg) vir.Reg {
	if s.b.TypeOf(r) == t {
		return r
	}
	return s.Op(vir.OpBitcast, t, r)
}

// Add appends any instruction.
func (s *Seq) Add(in *vir.Instr) { s.out = append(s.out, in) }

// End appends dst = op args and returns the whole sequence.
func (s *Seq) End(dst vir.Reg, op vir.Op, imm int64, args ...vir.Reg) []*vir.Instr {
	s.Add(&vir.Instr{Op: op, Dst: dst, Args: args, Imm: imm})
	return s.out
}
