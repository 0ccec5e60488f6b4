package amd64

import (
	"encoding/binary"
	"fmt"

	avo "github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// ctor makes an avo instruction of operands in Go order, or fails if there is no
// such operand form.
type ctor func(...operand.Op) (*avo.Instruction, error)

func f1(f func(a operand.Op) (*avo.Instruction, error)) ctor {
	return func(o ...operand.Op) (*avo.Instruction, error) { return f(o[0]) }
}

func f2(f func(a, b operand.Op) (*avo.Instruction, error)) ctor {
	return func(o ...operand.Op) (*avo.Instruction, error) { return f(o[0], o[1]) }
}

func f3(f func(a, b, c operand.Op) (*avo.Instruction, error)) ctor {
	return func(o ...operand.Op) (*avo.Instruction, error) { return f(o[0], o[1], o[2]) }
}

func f4(f func(a, b, c, d operand.Op) (*avo.Instruction, error)) ctor {
	return func(o ...operand.Op) (*avo.Instruction, error) { return f(o[0], o[1], o[2], o[3]) }
}

// printer prints one operation: a is its arguments and dst its result, sized by
// their types; a memory operand stands where an argument is folded.
type printer struct {
	dst      operand.Op
	a        []operand.Op
	mem      operand.Mem // In.Mem
	imm      int64
	splat    bool   // the memory operand is broadcast
	constant []byte // of OpConst
	evex     bool
	pool     *pool
	out      []*avo.Instruction
}

// emit is the Code of a row.
type emit func(*printer)

// ins appends an instruction. That its form exists was seen when the table was
// built.
func (p *printer) ins(f ctor, ops ...operand.Op) {
	in, err := f(ops...)
	if err != nil {
		s := ""
		for _, o := range ops {
			s += " " + o.Asm()
		}
		panic(fmt.Sprintf("BUG: amd64: no instruction with operands%s: %v", s, err))
	}
	p.out = append(p.out, in)
}

// op is ins with the broadcast instruction b if the memory operand is broadcast.
func (p *printer) op(f, b ctor, ops ...operand.Op) {
	if p.splat {
		f = b
	}
	p.ins(f, ops...)
}

// move copies from to dst, of one size, unless they are one register.
func (p *printer) move(from, dst operand.Op) {
	switch {
	case from == dst:
	case p.evex:
		p.ins(x86.VMOVDQA64, from, dst)
	default:
		p.ins(f2(x86.VMOVDQA), from, dst)
	}
}

// form is how operands of an operation become operands of an instruction; b is its
// broadcast instruction or nil.
type form func(f, b ctor) emit

// reverse is the usual form: argument n, ..., argument 1, result.
func reverse(f, b ctor) emit {
	return func(p *printer) {
		var ops []operand.Op
		for i := len(p.a) - 1; i >= 0; i-- {
			ops = append(ops, p.a[i])
		}
		p.op(f, b, append(ops, p.dst)...)
	}
}

// forward is argument 1, argument 2, result.
func forward(f, b ctor) emit {
	return func(p *printer) { p.op(f, b, p.a[0], p.a[1], p.dst) }
}

// commuting is reverse for two arguments, either of them in memory.
func commuting(f, b ctor) emit {
	return func(p *printer) {
		if operand.IsMem(p.a[0]) {
			forward(f, b)(p)
			return
		}
		reverse(f, b)(p)
	}
}

// immediate is the number, argument 1, result.
func immediate(f, b ctor) emit {
	return func(p *printer) { p.op(f, b, operand.U8(p.imm), p.a[0], p.dst) }
}

// ternlog is VPTERNLOG of arguments 2 and 1 and the result, which is tied to 3.
func ternlog(table uint8) form {
	return func(f, b ctor) emit {
		return func(p *printer) { p.op(f, b, operand.U8(table), p.a[1], p.a[0], p.dst) }
	}
}

// throughMask compares into a mask register, which expand makes a vector again.
func throughMask(expand ctor) form {
	return func(f, b ctor) emit {
		return func(p *printer) {
			p.op(f, b, p.a[1], p.a[0], reg.K1)
			p.ins(expand, reg.K1, p.dst)
		}
	}
}

// forward3 is argument 1, argument 2, argument 3, result.
func forward3(f, b ctor) emit {
	return func(p *printer) { p.op(f, b, p.a[0], p.a[1], p.a[2], p.dst) }
}

// byMask blends arguments 2 and 3 by a mask register that top makes of argument 1.
func byMask(top ctor) form {
	return func(f, b ctor) emit {
		return func(p *printer) {
			p.ins(top, p.a[0], reg.K1)
			p.op(f, b, p.a[1], p.a[2], reg.K1, p.dst)
		}
	}
}

// subMasked subtracts argument 3, which is tied to the result, from argument 2
// where the mask register that top makes of argument 1 is set.
func subMasked(top ctor) form {
	return func(f, _ ctor) emit {
		return func(p *printer) {
			p.ins(top, p.a[0], reg.K1)
			p.ins(f, p.a[2], p.a[1], reg.K1, p.dst)
		}
	}
}

// tile repeats the 128 or 256 bits of argument 1: VINSERTI128 puts them above
// themselves, VSHUFI32X4 and VSHUFI64X2 choose quarters of a register by two bits
// each (halves by one bit, if it has 256).
func (p *printer) tile(f ctor, bits int, t vir.Type) {
	a := sized(p.a[0], t)
	switch {
	case bits == 128 && p.evex:
		p.ins(f, operand.U8(0), a, a, p.dst)
	case bits == 128:
		p.ins(f, operand.U8(1), p.a[0], a, p.dst)
	default:
		p.ins(f, operand.U8(0x44), a, a, p.dst)
	}
}

// withoutFirst is e without its first argument, which is tied.
func withoutFirst(e emit) emit {
	return func(p *printer) {
		p.a = p.a[1:]
		e(p)
	}
}

// canonNaN replaces the lanes that are unordered with themselves.
func canonNaN(compare, _ ctor) emit {
	return func(p *printer) {
		const unordered = 3
		p.ins(compare, operand.U8(unordered), p.a[0], p.a[0], reg.K1)
		p.ins(x86.VPBLENDMD_BCST, p.pool.word(0x7fc00000), p.a[0], reg.K1, p.dst)
	}
}

// splatImm puts a number in every lane: zeros and ones need no memory, others
// are 4 bytes of the pool. Zeroing 128 bits zeroes the whole register.
func splatImm(t vir.Type, evex bool) emit {
	return func(p *printer) {
		low := p.dst.(reg.Physical).PhysicalIndex() < 16
		x := sized(p.dst, vir.Type{Elem: t.Elem, Lanes: 1})
		switch v := replicate(t, p.imm); {
		case v == 0 && low:
			p.ins(f3(x86.VPXOR), x, x, x)
		case v == 0:
			p.ins(x86.VPXORD, x, x, x)
		case v == 0xffffffff && evex:
			p.ins(x86.VPTERNLOGD, operand.U8(0xff), p.dst, p.dst, p.dst)
		case v == 0xffffffff:
			p.ins(x86.VPCMPEQD, p.dst, p.dst, p.dst)
		default:
			p.ins(x86.VPBROADCASTD, p.pool.word(v), p.dst)
		}
	}
}

// replicate fills 4 bytes with the low bits of x, repeated at the width of an element of t.
func replicate(t vir.Type, x int64) uint32 {
	switch t.Elem.Bytes() {
	case 1:
		return uint32(uint8(x)) * 0x01010101
	case 2:
		return uint32(uint16(x)) * 0x00010001
	}
	return uint32(x)
}

// truncate gathers the low bytes of every lane within 128 bits, then the
// halves.
//
//	i32x8 -> i8x8    abcd efgh         bytes of dst, from the low end
//	VPSHUFB          abcd.... efgh....
//	VPERMQ $8        abcd....efgh....
//	VPSHUFD $8       abcdefgh
func truncate(dst, arg vir.Type) emit {
	from, to := arg.Elem.Bytes(), dst.Elem.Bytes()
	mask := make([]byte, max(16, arg.Bytes()))
	for i := range mask {
		if j := i % 16; j < 16/from*to {
			mask[i] = byte(j/to*from + j%to)
		} else {
			mask[i] = 0x80
		}
	}
	return func(p *printer) {
		m := p.pool.data(mask)
		if arg.Bits() <= 128 {
			p.ins(x86.VPSHUFB, m, p.a[0], p.dst)
			return
		}
		wide := sized(p.dst, arg)
		p.ins(x86.VPSHUFB, m, p.a[0], wide)
		p.ins(x86.VPERMQ, operand.U8(8), wide, wide)
		if from == 4*to {
			p.ins(x86.VPSHUFD, operand.U8(8), p.dst, p.dst)
		}
	}
}

// vector is register n as large as t needs.
func vector(n int, t vir.Type) reg.Physical {
	spec := reg.S128
	switch bits := t.Bits(); {
	case bits > 256:
		spec = reg.S512
	case bits > 128:
		spec = reg.S256
	}
	return reg.Vector.Lookup(reg.Index(n), spec)
}

// sized is the register op as large as t needs; memory operands have no size.
func sized(op operand.Op, t vir.Type) operand.Op {
	r, ok := op.(reg.Physical)
	if !ok {
		return op
	}
	return vector(int(r.PhysicalIndex()), t)
}

// sample prints r with registers 0, 1, ..., which checks the operand forms, and
// returns its mnemonics.
func sample(r *lower.Row) string {
	p := &printer{imm: 1, evex: r.Need&evex != 0, pool: &pool{}, mem: operand.Mem{Base: reg.RAX}, constant: []byte{1}}
	if r.Op.HasResult() {
		p.dst = vector(0, r.Dst)
	}
	for i, t := range r.Args {
		p.a = append(p.a, vector(i+1, t))
	}
	r.Code.(emit)(p)
	s := ""
	for i, in := range p.out {
		if i > 0 {
			s += "; "
		}
		s += in.Opcode
	}
	return s
}

// pool collects the constants of a function.
type pool struct {
	constants []lower.Constant
	have      map[string]operand.Mem // by data
}

// word is a constant of 4 bytes.
func (l *pool) word(v uint32) operand.Mem {
	return l.data(binary.LittleEndian.AppendUint32(nil, v))
}

// data is a constant of these bytes.
func (l *pool) data(b []byte) operand.Mem {
	if m, ok := l.have[string(b)]; ok {
		return m
	}
	c := lower.NewConstant(b, l.constants)
	l.constants = append(l.constants, c)
	if l.have == nil {
		l.have = map[string]operand.Mem{}
	}
	l.have[string(b)] = avo.NewStaticGlobal(c.Symbol).Base()
	return l.have[string(b)]
}
