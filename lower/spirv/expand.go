package spirv

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand implements lower.Selector: narrow lanes by words, in which they lie side by side, and products by way of 32 bits.
func (t Target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	x := &expansion{Seq: b.Seq(), b: b, in: in}
	if in.Dst == vir.NoReg {
		return nil
	}
	x.dst = b.TypeOf(in.Dst)
	switch in.Op {
	case vir.OpShl, vir.OpShrU:
		return x.shift()
	case vir.OpAdd, vir.OpSub:
		return x.sum()
	case vir.OpMul:
		return x.mul()
	case vir.OpMulWide:
		return x.of(x.product(x.part(in.Args[0]), x.part(in.Args[1])))
	case vir.OpDot1:
		p := x.product(x.part(in.Args[1]), x.part(in.Args[2]))
		return x.End(in.Dst, vir.OpAdd, 0, in.Args[0], x.Op(vir.OpTrunc, x.dst, p))
	case vir.OpDot2Wrap:
		return x.End(in.Dst, vir.OpRedAdd, 0, x.product(in.Args[0], in.Args[1]))
	case vir.OpDot2Sat:
		return x.saturated()
	case vir.OpSum2:
		sum := x.Op(vir.OpRedAdd, x.dst, x.wide(in.Args[1]))
		return x.End(in.Dst, vir.OpAdd, 0, in.Args[0], sum)
	case vir.OpDot2:
		return x.dot()
	case vir.OpDot4:
		if t.m.Has&Dot == 0 {
			return x.dot()
		}
	case vir.OpAddPairs:
		return x.pairs()
	case vir.OpRedAdd, vir.OpRedMaxS:
		return x.reduced(t.m.VecBits)
	}
	return nil
}

// expansion is code for one instruction.
type expansion struct {
	*lower.Seq
	b   *lower.Builder
	in  *vir.Instr
	dst vir.Type
}

// as is t with its bits cut into lanes of e.
func as(t vir.Type, e format.DType) vir.Type { return vir.Type{Elem: e, Lanes: t.Bits() / e.Bits()} }

// narrow says that the result has lanes of fewer bits than a word, and whole words of them.
func (x *expansion) narrow() bool { return x.dst.Elem.Bits() < 32 && x.dst.Bits() >= 32 }

// everywhere is bits in every lane of the result, as words.
func (x *expansion) everywhere(bits int64) vir.Reg {
	n := x.dst.Elem.Bits()
	for ; n < 32; n *= 2 {
		bits |= bits << n
	}
	return x.Splat(as(x.dst, format.U32), int64(uint32(bits)))
}

// words is the arguments as words, and their type. A register of less than a word becomes the low part of one.
func (x *expansion) words() (w vir.Type, args []vir.Reg) {
	w = as(x.dst, format.U32)
	for _, r := range x.in.Args {
		args = append(args, x.Bitcast(w, r))
	}
	return w, args
}

// padded is in on registers of a word instead of less.
func (x *expansion) padded() []*vir.Instr {
	full := vir.Type{Elem: x.dst.Elem, Lanes: 32 / x.dst.Elem.Bits()}
	var args []vir.Reg
	for _, r := range x.in.Args {
		for t := x.dst; t != full; {
			t.Lanes *= 2
			r = x.Op(vir.OpJoin, t, r, r)
		}
		args = append(args, r)
	}
	r := x.Imm(x.in.Op, full, x.in.Imm, args...)
	t := full
	for t.Lanes /= 2; t != x.dst; t.Lanes /= 2 {
		r = x.Imm(vir.OpHalf, t, 0, r)
	}
	return x.End(x.in.Dst, vir.OpHalf, 0, r)
}

// shift: of whole words, without the bits that come from a neighbour.
func (x *expansion) shift() []*vir.Instr {
	switch {
	case x.dst.Elem.Bits() == 32:
		return nil
	case !x.narrow():
		return x.padded()
	}
	w, args := x.words()
	lane := int64(1)<<x.dst.Elem.Bits() - 1
	mask := lane << x.in.Imm & lane
	if x.in.Op == vir.OpShrU {
		mask = lane >> x.in.Imm
	}
	shifted := x.Imm(x.in.Op, w, x.in.Imm, args[0])
	return x.End(x.in.Dst, vir.OpBitcast, 0, x.Op(vir.OpAnd, w, shifted, x.everywhere(mask)))
}

// sum: of the bits below the top one of each lane, so that none is carried into the next lane, and the top bits apart.
//
//	a + b = (a &^ top) + (b &^ top) ^ (a ^ b) & top     if the top bit of a is 0: a + (b &^ top) ^ b & top
//	a - b = (a | top) - (b &^ top) ^ (a ^ b ^ top) & top
func (x *expansion) sum() []*vir.Instr {
	switch {
	case x.dst.Elem.Bits() == 32:
		return nil
	case !x.narrow():
		return x.padded()
	}
	w, args := x.words()
	top := int64(1) << (x.dst.Elem.Bits() - 1)
	tops, rest := x.everywhere(top), x.everywhere(top-1)
	a, b := args[0], args[1]
	for i, r := range x.in.Args {
		if known := x.b.Range(r); x.in.Op == vir.OpAdd && known.Lo >= 0 && known.Hi < top {
			a, b = args[i], args[1-i]
			sum := x.Op(vir.OpAdd, w, a, x.Op(vir.OpAnd, w, b, rest))
			return x.End(x.in.Dst, vir.OpBitcast, 0, x.Op(vir.OpXor, w, sum, x.Op(vir.OpAnd, w, b, tops)))
		}
	}
	differ := x.Op(vir.OpXor, w, a, b)
	b = x.Op(vir.OpAnd, w, b, rest)
	if x.in.Op == vir.OpAdd {
		a = x.Op(vir.OpAnd, w, a, rest)
	} else {
		a = x.Op(vir.OpOr, w, a, tops)
		differ = x.Op(vir.OpXor, w, differ, tops)
	}
	return x.End(x.in.Dst, vir.OpBitcast, 0, x.Op(vir.OpXor, w, x.Op(x.in.Op, w, a, b), x.Op(vir.OpAnd, w, differ, tops)))
}

// mul: in 32 bits.
func (x *expansion) mul() []*vir.Instr {
	if x.dst.Elem.Bits() == 32 {
		return nil
	}
	return x.of(x.product(x.in.Args[0], x.in.Args[1]))
}

// of truncates r to the result.
func (x *expansion) of(r vir.Reg) []*vir.Instr { return x.End(x.in.Dst, vir.OpTrunc, 0, r) }

// wide is r in lanes of 32 bits.
func (x *expansion) wide(r vir.Reg) vir.Reg {
	t := x.b.TypeOf(r)
	if t.Elem == format.I32 {
		return r
	}
	return x.Op(vir.OpWiden, lanes(t, format.I32), r)
}

// product is the products of the lanes of a and b in 32 bits.
func (x *expansion) product(a, b vir.Reg) vir.Reg {
	a, b = x.wide(a), x.wide(b)
	return x.Op(vir.OpMul, x.b.TypeOf(a), a, b)
}

// part is the half of r that the immediate says, if r has more lanes than the result.
func (x *expansion) part(r vir.Reg) vir.Reg {
	t := x.b.TypeOf(r)
	if t.Lanes == x.dst.Lanes {
		return r
	}
	return x.Imm(vir.OpHalf, vir.Type{Elem: t.Elem, Lanes: x.dst.Lanes}, x.in.Imm, r)
}

// dot: products in 32 bits, and their sums.
func (x *expansion) dot() []*vir.Instr {
	sum := x.Op(vir.OpRedAdd, x.dst, x.product(x.in.Args[1], x.in.Args[2]))
	return x.End(x.in.Dst, vir.OpAdd, 0, x.in.Args[0], sum)
}

// saturated: of sums in 32 bits.
func (x *expansion) saturated() []*vir.Instr {
	w := lanes(x.dst, format.I32)
	sum := x.Op(vir.OpRedAdd, w, x.product(x.in.Args[0], x.in.Args[1]))
	sum = x.Op(vir.OpMinS, w, sum, x.Splat(w, 1<<15-1))
	return x.of(x.Op(vir.OpMaxS, w, sum, x.Splat(w, -1<<15)))
}

// pairs: sums of neighbours of both arguments.
func (x *expansion) pairs() []*vir.Instr {
	a, b := x.wide(x.in.Args[0]), x.wide(x.in.Args[1])
	t := x.b.TypeOf(a)
	both := x.Op(vir.OpJoin, vir.Type{Elem: t.Elem, Lanes: 2 * t.Lanes}, a, b)
	if x.dst.Elem == format.I32 {
		return x.End(x.in.Dst, vir.OpRedAdd, 0, both)
	}
	return x.of(x.Op(vir.OpRedAdd, t, both))
}

// reduced: of the halves of what no register holds.
func (x *expansion) reduced(most int) []*vir.Instr {
	t := x.b.TypeOf(x.in.Args[0])
	if t.Bits() <= most || x.dst.Lanes == 1 {
		return nil
	}
	from, to := vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2}, vir.Type{Elem: t.Elem, Lanes: x.dst.Lanes / 2}
	var parts []vir.Reg
	for h := range int64(2) {
		parts = append(parts, x.Op(x.in.Op, to, x.Imm(vir.OpHalf, from, h, x.in.Args[0])))
	}
	return x.End(x.in.Dst, vir.OpJoin, 0, parts...)
}
