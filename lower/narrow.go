package lower

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// narrow truncates before it computes. The low bits of a sum, a difference or a bitwise operation depend only on the low
// bits of its arguments, and lanes of bytes take half the registers.
//
//	v2:i16x32 = and v1 127        v4:u8x32 = trunc v1
//	v3:u8x32 = trunc v2      ->   v3:u8x32 = and v4 127
func (t *table) narrow(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	n := &truncater{t: t, b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f)}
	n.b.F.Body = vir.Map(f.Body, n.instr)
	return n.b.F, nil
}

type truncater struct {
	t    *table
	b    *Builder
	def  []*vir.Instr
	mut  []bool
	uses []int
}

// instr returns the instructions that replace `in`.
func (n *truncater) instr(in *vir.Instr) []*vir.Instr {
	if in.Op != vir.OpTrunc {
		return vir.Kept
	}
	s := n.b.Seq()
	last := n.trunc(s, in.Args[0], n.b.TypeOf(in.Dst))
	last.Dst = in.Dst
	s.Add(last)
	return s.out
}

// trunc is what makes the low bits of r, as lanes of type t; what that reads is appended to s.
func (n *truncater) trunc(s *Seq, r vir.Reg, t vir.Type) *vir.Instr {
	plain := &vir.Instr{Op: vir.OpTrunc, Args: []vir.Reg{r}}
	d := n.def[r]
	if d == nil || n.uses[r] != 1 || d.Fold > 0 {
		return plain
	}
	switch d.Op {
	case vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAdd, vir.OpSub:
	default:
		return plain
	}
	for i, c := range d.Args {
		x := d.Args[1-i]
		low := n.lowConst(s, c, t)
		if low == vir.NoReg || n.mut[x] || !n.computes(d.Op, t) {
			continue
		}
		in := n.trunc(s, x, t)
		in.Dst = n.b.Reg(t)
		s.Add(in)
		args := []vir.Reg{in.Dst, in.Dst}
		args[i] = low
		return &vir.Instr{Op: d.Op, Args: args}
	}
	return plain
}

// computes says that the target has op on lanes of t's size.
func (n *truncater) computes(op vir.Op, t vir.Type) bool {
	elems, _ := alike(op, t.Elem)
	for _, e := range elems {
		d := n.t.inRegister(t, e)
		if n.t.has(op, d, d, d) {
			return true
		}
	}
	return false
}

// lowConst is the low bits of r as lanes of type t, if it is a constant.
func (n *truncater) lowConst(s *Seq, r vir.Reg, t vir.Type) vir.Reg {
	d := n.def[r]
	switch {
	case d == nil:
		return vir.NoReg
	case d.Op == vir.OpSplat:
		return s.Splat(t, lowBits(d.Imm, t.Elem))
	case d.Op == vir.OpConst:
		var data []byte
		from, to := n.b.TypeOf(r).Elem.Bytes(), t.Elem.Bytes()
		for c := n.b.F.Consts[d.Imm]; len(c) > 0; c = c[from:] {
			data = append(data, c[:to]...)
		}
		return s.Imm(vir.OpConst, t, n.b.Const(data))
	}
	return vir.NoReg
}

// lowBits is x as a number of type e, as splats have it.
func lowBits(x int64, e format.DType) int64 {
	by := 64 - e.Bits()
	if e.Unsigned() == e {
		return int64(uint64(x) << by >> by)
	}
	return x << by >> by
}

// byteShifts shifts bytes where a target can, instead of wider lanes and then masking what came from their neighbours.
// Figures: docs/lab/choices.md, byteShifts.
//
//	v2:u16x8 = shru v1 4
//	v3:u8x16 = bitcast v2         v5:u8x16 = bitcast v1
//	v4:u8x16 = and v3 15     ->   v4:u8x16 = shru v5 4
func (t *table) byteShifts(f *vir.Func) (*vir.Func, error) {
	if bytes := t.inRegister(vir.Type{Elem: format.U8, Lanes: t.m.VecBits / 8}, format.U8); !t.has(vir.OpShrU, bytes, bytes) {
		return f, nil
	}
	mut := mutable(f)
	b, def, uses := &Builder{F: clone(f)}, definitions(f, mut), useCounts(f)
	only := func(r vir.Reg, op vir.Op) *vir.Instr { // what makes r, if op does and nothing else reads it
		if d := def[r]; d != nil && !mut[r] && d.Op == op && d.Fold == 0 && uses[r] == 1 {
			return d
		}
		return nil
	}
	b.F.Body = vir.Map(f.Body, func(in *vir.Instr) []*vir.Instr {
		if in.Op != vir.OpAnd || in.Fold > 0 {
			return vir.Kept
		}
		to := b.TypeOf(in.Dst)
		for i, r := range in.Args {
			mask, cast := def[in.Args[1-i]], only(r, vir.OpBitcast)
			if mask == nil || mask.Op != vir.OpSplat || cast == nil || to.Elem.Bits() != 8 {
				continue
			}
			shift := only(cast.Args[0], vir.OpShrU)
			if shift == nil || mut[shift.Args[0]] || shift.Imm >= 8 || mask.Imm&0xff != 0xff>>shift.Imm {
				continue
			}
			s := b.Seq()
			return s.End(in.Dst, vir.OpShrU, shift.Imm, s.Bitcast(to, shift.Args[0]))
		}
		return vir.Kept
	})
	return b.F, nil
}
