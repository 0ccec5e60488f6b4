package spirv

import (
	"encoding/binary"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// arg is the words of argument i.
func (p *printer) arg(in *vir.Instr, i int) []module.ID { return p.regs[in.Args[i]] }

// each makes every word of the result of the words of the arguments in its place.
func (p *printer) each(in *vir.Instr, do func(i int, w []module.ID) module.ID) (out []module.ID) {
	for i := range p.regs[in.Args[0]] {
		var w []module.ID
		for n := range in.Args {
			if all := p.arg(in, n); i < len(all) {
				w = append(w, all[i])
			}
		}
		out = append(out, do(i, w))
	}
	return out
}

// word is the result of an instruction on words.
func (p *printer) word(op module.Op, args ...module.ID) module.ID {
	return p.m.Emit(op, p.uint, args...)
}

// number is a constant word.
func (p *printer) number(x uint32) module.ID { return p.m.Constant(module.OpConstant, p.uint, x) }

// extended is the result of an extended instruction.
func (p *printer) extended(t module.ID, code uint32, args ...module.ID) module.ID {
	return p.m.Emit(module.OpExtInst, t, append([]uint32{p.m.Import("GLSL.std.450"), code}, args...)...)
}

func (p *printer) choose(cond, yes, no module.ID) module.ID {
	return p.word(module.OpSelect, cond, yes, no)
}

func (p *printer) sum(a, b module.ID) module.ID { return p.word(module.OpIAdd, a, b) }

func (p *printer) larger(a, b module.ID) module.ID {
	return p.extended(p.uint, module.ExtendedSMax, a, b)
}

// asFloat is the float with these bits.
func (p *printer) asFloat(w module.ID) module.ID {
	if f, ok := p.floats[w]; ok {
		return f
	}
	return p.m.Emit(module.OpBitcast, p.f32, w)
}

// asWord is the bits of a float.
func (p *printer) asWord(f module.ID) module.ID {
	w := p.word(module.OpBitcast, f)
	p.floats[w] = f
	return w
}

// float is arithmetic that is not contracted with other arithmetic. Mesa's llvmpipe takes 0 + x for x, whatever the module
// asks for, which has another sign if x is -0.
func (p *printer) float(op module.Op, w ...module.ID) module.ID {
	if zero := p.number(0); op == module.OpFAdd && (w[0] == zero || w[1] == zero) {
		x := w[0]
		if x == zero {
			x = w[1]
		}
		return p.choose(p.m.Emit(module.OpIEqual, p.bool, x, p.number(1<<31)), zero, x)
	}
	f := p.m.Emit(op, p.f32, p.asFloat(w[0]), p.asFloat(w[1]))
	p.m.Declare(module.OpDecorate, f, module.DecorationNoContraction)
	return p.asWord(f)
}

// nan says that w has the bits of a NaN.
func (p *printer) nan(w module.ID) module.ID {
	return p.m.Emit(module.OpULessThan, p.bool, p.number(0x7f800000), p.word(module.OpBitwiseAnd, w, p.number(0x7fffffff)))
}

// unpacked is the float of one half of a word.
func (p *printer) unpacked(w module.ID, half int) module.ID {
	both := p.extended(p.m.Type(module.OpTypeVector, p.f32, 2), module.ExtendedUnpackHalf2x16, w)
	return p.asWord(p.m.Emit(module.OpCompositeExtract, p.f32, both, uint32(half)))
}

// ofHalf is the bits of the 32-bit float that has the value of a 16-bit one, a quiet NaN for any NaN. A 16-bit float
// below 2^-14 is a whole number of 2^-24.
func (p *printer) ofHalf(h module.ID) module.ID {
	number := p.word(module.OpBitwiseAnd, h, p.number(0x7fff))
	sign := p.word(module.OpShiftLeftLogical, p.word(module.OpBitwiseAnd, h, p.number(0x8000)), p.number(16))
	shifted := p.word(module.OpShiftLeftLogical, number, p.number(13))
	below := func(x uint32) module.ID { return p.m.Emit(module.OpULessThan, p.bool, number, p.number(x)) }
	usual := p.sum(shifted, p.number((127-15)<<23))
	large := p.sum(shifted, p.number(2*(127-15)<<23))
	nan := p.word(module.OpBitwiseOr, large, p.number(1<<22))
	tiny := p.float(module.OpFMul, p.asWord(p.m.Emit(module.OpConvertSToF, p.f32, number)), p.number((127-24)<<23))
	large = p.choose(below(0x7c01), large, nan)
	return p.word(module.OpBitwiseOr, sign, p.choose(below(0x400), tiny, p.choose(below(0x7c00), usual, large)))
}

// dot is c plus the sum of products of four bytes. The bytes of b may have no sign.
func (p *printer) dot(op module.Op, c, a, b module.ID) module.ID {
	return p.sum(c, p.word(op, a, b, module.PackedVectorFormat4x8Bit))
}

// constant is the words of a constant.
func (p *printer) constant(in *vir.Instr) []module.ID { return p.bytes(p.f.Consts[in.Imm]) }

func (p *printer) bytes(data []byte) (out []module.ID) {
	data = append([]byte(nil), data...)
	for len(data)%4 != 0 {
		data = append(data, 0)
	}
	for ; len(data) > 0; data = data[4:] {
		out = append(out, p.number(binary.LittleEndian.Uint32(data)))
	}
	return out
}

// splat is the words of a number in every lane.
func (p *printer) splat(in *vir.Instr) []module.ID {
	t := p.f.Regs[in.Dst]
	x := uint32(in.Imm)
	for n := t.Elem.Bits(); n < 32; n *= 2 {
		x &= 1<<n - 1
		x |= x << n
	}
	out := make([]module.ID, size(t))
	for i := range out {
		out[i] = p.number(x)
	}
	return out
}

// splatLane is the only lane in every lane.
func (p *printer) splatLane(in *vir.Instr) []module.ID {
	t := p.f.Regs[in.Dst]
	w := p.arg(in, 0)[0]
	if n := t.Elem.Bits(); n < 32 && t.Lanes > 1 {
		ones := map[int]uint32{8: 0x01010101, 16: 0x00010001}[n]
		w = p.word(module.OpIMul, p.word(module.OpBitwiseAnd, w, p.number(1<<n-1)), p.number(ones))
	}
	out := make([]module.ID, size(t))
	for i := range out {
		out[i] = w
	}
	return out
}

// half is the upper or the lower lanes.
func (p *printer) half(in *vir.Instr) []module.ID {
	w, n := p.arg(in, 0), p.f.Regs[in.Dst].Bits()
	switch {
	case n >= 32:
		n /= 32
		return w[int(in.Imm)*n : int(in.Imm)*n+n]
	case in.Imm == 0:
		return w
	}
	return []module.ID{p.word(module.OpShiftRightLogical, w[0], p.number(uint32(n)))}
}

// join is the lanes of one register behind the other's.
func (p *printer) join(in *vir.Instr) []module.ID {
	a, b, n := p.arg(in, 0), p.arg(in, 1), p.f.Regs[in.Args[0]].Bits()
	if n >= 32 {
		return append(append([]module.ID(nil), a...), b...)
	}
	return []module.ID{p.insert(a[0], b[0], n, n)}
}

// insert is w with bits of x from a place on.
func (p *printer) insert(w, x module.ID, at, bits int) module.ID {
	return p.word(module.OpBitFieldInsert, w, x, p.number(uint32(at)), p.number(uint32(bits)))
}

// lane is lane i of argument n as a word, with its sign if it has one.
func (p *printer) lane(in *vir.Instr, n, i int) module.ID {
	t := p.f.Regs[in.Args[n]]
	bits := t.Elem.Bits()
	w := p.arg(in, n)[i*bits/32]
	if bits == 32 {
		return w
	}
	op := module.OpBitFieldUExtract
	if t.Elem.IsSigned() && t.Elem != format.F16 {
		op = module.OpBitFieldSExtract
	}
	return p.word(op, w, p.number(uint32(i*bits%32)), p.number(uint32(bits)))
}

// pack is lanes side by side, in words.
func (p *printer) pack(t vir.Type, lanes []module.ID) (out []module.ID) {
	bits := t.Elem.Bits()
	for i, x := range lanes {
		if at := i * bits % 32; at > 0 {
			out[len(out)-1] = p.insert(out[len(out)-1], x, at, bits)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// lanewise is the lanes of the argument in lanes of other bits.
func (p *printer) lanewise(in *vir.Instr) []module.ID {
	t := p.f.Regs[in.Dst]
	var all []module.ID
	for i := range t.Lanes {
		all = append(all, p.lane(in, 0, i))
	}
	return p.pack(t, all)
}

// lookup is what tables of n entries, side by side in words, have at the lanes of the index. Its low bits count.
func (p *printer) lookup(in *vir.Instr, words []module.ID, n int) []module.ID {
	t := p.f.Regs[in.Dst]
	bits := t.Elem.Bits()
	var all []module.ID
	for i := range t.Lanes {
		tables := len(words) * 32 / (n * bits)
		at := min(i/n, tables-1) * n * bits / 32
		table := words[at : at+n*bits/32]
		index := p.word(module.OpBitwiseAnd, p.lane(in, 0, i), p.number(uint32(n-1)))
		perWord := uint32(32 / bits)
		w := p.among(table, p.word(module.OpShiftRightLogical, index, p.number(log2(int(perWord)))))
		if perWord > 1 {
			place := p.word(module.OpIMul, p.word(module.OpBitwiseAnd, index, p.number(perWord-1)), p.number(uint32(bits)))
			w = p.word(module.OpShiftRightLogical, w, place)
		}
		all = append(all, w)
	}
	return p.pack(t, all)
}

// among is the word of that number.
func (p *printer) among(words []module.ID, number module.ID) module.ID {
	switch n := len(words); {
	case n == 1:
		return words[0]
	case n <= 4:
		v := p.m.Emit(module.OpCompositeConstruct, p.vector(n), words...)
		return p.word(module.OpVectorExtractDynamic, v, number)
	default:
		high := p.m.Emit(module.OpULessThan, p.bool, p.number(uint32(n/2-1)), number)
		low := p.word(module.OpBitwiseAnd, number, p.number(uint32(n/2-1)))
		return p.choose(high, p.among(words[n/2:], low), p.among(words[:n/2], low))
	}
}

// vector is the type of n words.
func (p *printer) vector(n int) module.ID {
	if n == 1 {
		return p.uint
	}
	return p.m.Type(module.OpTypeVector, p.uint, uint32(n))
}
