package lower

import (
	"encoding/binary"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// An expansion computes one operation by others that are declared earlier in
// package vir, or on narrower vectors, or that the target is known to have.
type expansion struct {
	*Seq
	t   *table
	in  *vir.Instr
	dst vir.Type // result, or stored value
}

// expansions are tried in order; one that does not apply returns nil.
var expansions = []struct {
	ops []vir.Op
	do  func(x *expansion) []*vir.Instr
}{
	{[]vir.Op{vir.OpLoadSplat}, (*expansion).loadSplat},
	{[]vir.Op{vir.OpPrefetch2}, (*expansion).prefetch2},
	{[]vir.Op{vir.OpSplat}, (*expansion).splat},
	{[]vir.Op{vir.OpSplatLane, vir.OpTile}, (*expansion).tile},
	{[]vir.Op{vir.OpUnzip}, (*expansion).unzip},
	{[]vir.Op{vir.OpSpread}, (*expansion).spread},
	{[]vir.Op{vir.OpAndNot}, (*expansion).andNot},
	{[]vir.Op{vir.OpBitSel}, (*expansion).bitSel},
	{[]vir.Op{vir.OpShl, vir.OpShrU}, (*expansion).shiftBytes},
	{[]vir.Op{vir.OpShrS}, (*expansion).shrS},
	{[]vir.Op{vir.OpMinS, vir.OpMaxS}, (*expansion).minMax},
	{[]vir.Op{vir.OpAbs}, (*expansion).abs},
	{[]vir.Op{vir.OpSign}, (*expansion).sign},
	{[]vir.Op{vir.OpAvgU}, (*expansion).avgU},
	{[]vir.Op{vir.OpAvgS}, (*expansion).avgS},
	{[]vir.Op{vir.OpCmpGtS}, (*expansion).cmpGtS},
	{[]vir.Op{vir.OpSelMSB}, (*expansion).selMSB},
	{[]vir.Op{vir.OpAddSat, vir.OpSubSat}, (*expansion).saturate},
	{[]vir.Op{vir.OpSubMSB}, (*expansion).subMSB},
	{[]vir.Op{vir.OpWiden}, (*expansion).widen},
	{[]vir.Op{vir.OpTrunc}, (*expansion).trunc},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4BySign},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4Sat},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4ByOffset},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4ByAbs},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4ByProducts},
	{[]vir.Op{vir.OpDot4}, (*expansion).dot4ByDot2},
	{[]vir.Op{vir.OpDot4Unit}, (*expansion).dot4Unit},
	{[]vir.Op{vir.OpDot2}, (*expansion).dot2},
	{[]vir.Op{vir.OpDot2Wrap}, (*expansion).dot2Wrap},
	{[]vir.Op{vir.OpDot2Sat}, (*expansion).dot2Sat},
	{[]vir.Op{vir.OpMulWide, vir.OpDot1}, (*expansion).productsBySign},
	{[]vir.Op{vir.OpMulWide, vir.OpDot1}, (*expansion).productsOfHalf},
	{[]vir.Op{vir.OpDot1}, (*expansion).dot1},
	{[]vir.Op{vir.OpMulWide}, (*expansion).mulWide},
	{[]vir.Op{vir.OpAddPairs}, (*expansion).addPairs},
	{[]vir.Op{vir.OpSum2}, (*expansion).sum2},
	{[]vir.Op{vir.OpCanonNaN}, (*expansion).canonNaN},
	{[]vir.Op{vir.OpCmpGtF}, (*expansion).cmpGtF},
	{[]vir.Op{vir.OpMaxF, vir.OpMinF}, (*expansion).minMaxF},
	{[]vir.Op{vir.OpRedAdd, vir.OpRedMaxS}, (*expansion).reduce},
	{[]vir.Op{vir.OpMMLA}, (*expansion).mmla},
	{lookupOps, (*expansion).lookupMasked},
	{lookupOps, (*expansion).lookupInPair},
	{lookupOps, (*expansion).lookupWider},
	{lookupOps, (*expansion).lookupHalvesByTop},
	{lookupOps, (*expansion).lookupMod},
	{lookupOps, (*expansion).lookupByCompare},
	{lookupOps, (*expansion).lookupBytes},
	{[]vir.Op{vir.OpLookupPair}, (*expansion).lookupPair},
}

// expandShared returns what computes in on targets that have no row for it and no
// expansion of their own, or nil.
func expandShared(t *table, b *Builder, in *vir.Instr) []*vir.Instr {
	x := &expansion{Seq: b.Seq(), t: t, in: in, dst: resultType(b.F, in)}
	if out := x.retype(); out != nil {
		return out
	}
	for _, e := range expansions {
		for _, op := range e.ops {
			if op != in.Op {
				continue
			}
			x.out = nil
			if out := e.do(x); out != nil {
				return out
			}
		}
	}
	return nil
}

// end finishes the expansion with the instruction that sets its result.
func (x *expansion) end(op vir.Op, args ...vir.Reg) []*vir.Instr {
	return x.End(x.in.Dst, op, 0, args...)
}

func (x *expansion) typeOf(r vir.Reg) vir.Type { return x.b.TypeOf(r) }

// as is t with its bits cut into lanes of e.
func as(t vir.Type, e format.DType) vir.Type { return vir.Type{Elem: e, Lanes: t.Bits() / e.Bits()} }

// inRegister is as(v, e), or what a register holds of it.
func (t *table) inRegister(v vir.Type, e format.DType) vir.Type {
	return vir.Type{Elem: e, Lanes: min(v.Bits(), t.m.VecBits) / e.Bits()}
}

// cast is r as lanes of type e of the same width. The known range of r holds for the result if no lane changes sign.
func (x *expansion) cast(r vir.Reg, e format.DType) vir.Reg {
	c := x.Bitcast(as(x.typeOf(r), e), r)
	if a := x.b.Range(r); a.Lo >= 0 && a.Hi < 1<<(e.Bits()-1) {
		x.b.setRange(c, a)
	}
	return c
}

// alike lists the element types among which an operation makes no difference, and
// the first argument that has one of them.
func alike(op vir.Op, e format.DType) (elems []format.DType, first int) {
	byWidth := []format.DType{e.Unsigned(), e.Signed()}
	if op.IsLookup() {
		return byWidth, 1
	}
	switch op {
	case vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAndNot, vir.OpBitSel:
		return []format.DType{format.U8, format.I8, format.U16, format.I16, format.U32, format.I32}, 0
	case vir.OpLoad, vir.OpLoadSplat, vir.OpStore, vir.OpConst, vir.OpSplat, vir.OpHalf, vir.OpJoin, vir.OpSplatLane, vir.OpTile,
		vir.OpSelMSB, vir.OpSubMSB:
		return byWidth, 0
	case vir.OpShl, vir.OpShrU, vir.OpShrS, vir.OpAdd, vir.OpSub, vir.OpMul:
		if e != format.F32 {
			return byWidth, 0
		}
	case vir.OpTrunc:
		return byWidth, 1
	}
	return nil, 0
}

// retype does what in does on another element type, where that makes no
// difference and the target has a row.
func (x *expansion) retype() []*vir.Instr {
	elems, first := alike(x.in.Op, x.dst.Elem)
	for _, e := range elems {
		args := make([]vir.Type, len(x.in.Args))
		for i, r := range x.in.Args {
			args[i] = x.typeOf(r)
			if i >= first {
				args[i] = as(args[i], e)
			}
		}
		if x.t.has(x.in.Op, as(x.dst, e), args...) {
			return x.retyped(as(x.dst, e), args)
		}
	}
	return nil
}

func (x *expansion) retyped(dst vir.Type, args []vir.Type) []*vir.Instr {
	c := *x.in
	c.Args = make([]vir.Reg, len(args))
	for i, r := range x.in.Args {
		c.Args[i] = x.Bitcast(args[i], r)
	}
	if c.Dst == vir.NoReg {
		x.Add(&c)
		return x.out
	}
	c.Dst = x.b.Reg(dst)
	x.Add(&c)
	return x.end(vir.OpBitcast, c.Dst)
}

// loadSplat: load the element, then repeat it.
func (x *expansion) loadSplat() []*vir.Instr {
	if x.dst.Lanes == 1 {
		c := *x.in
		c.Op = vir.OpLoad
		return []*vir.Instr{&c}
	}
	one := x.b.Reg(vir.Type{Elem: x.dst.Elem, Lanes: 1})
	x.Add(&vir.Instr{Op: vir.OpLoad, Dst: one, Mem: x.in.Mem})
	return x.end(vir.OpSplatLane, one)
}

// prefetch2: the nearest cache will do too.
func (x *expansion) prefetch2() []*vir.Instr {
	c := *x.in
	c.Op = vir.OpPrefetch
	return []*vir.Instr{&c}
}

// splat: a constant with every byte written out.
func (x *expansion) splat() []*vir.Instr {
	if !x.t.has(vir.OpConst, x.dst) {
		return nil
	}
	return x.End(x.in.Dst, vir.OpConst, x.b.Const(splatBytes(x.dst, x.in.Imm)))
}

// tile: a joined with a, doubling.
func (x *expansion) tile() []*vir.Instr {
	r := x.in.Args[0]
	t := x.typeOf(r)
	if t == x.dst {
		return x.end(vir.OpBitcast, r)
	}
	for t.Lanes *= 2; t.Lanes < x.dst.Lanes; t.Lanes *= 2 {
		r = x.Op(vir.OpJoin, t, r, r)
	}
	return x.end(vir.OpJoin, r, r)
}

// unzip: of each argument as of its halves.
func (x *expansion) unzip() []*vir.Instr {
	if x.dst.Lanes == 1 {
		return x.end(vir.OpBitcast, x.in.Args[x.in.Imm])
	}
	var parts [2]vir.Reg
	for i, r := range x.in.Args {
		lo, hi := x.halves(r)
		parts[i] = x.Imm(vir.OpUnzip, halved(x.dst), x.in.Imm, lo, hi)
	}
	return x.end(vir.OpJoin, parts[0], parts[1])
}

// spread: of the half that has the lane, at last of that alone.
func (x *expansion) spread() []*vir.Instr {
	a, n := x.in.Args[0], x.in.Imm
	h := halved(x.typeOf(a))
	if h.Lanes == 0 {
		return x.end(vir.OpSplatLane, a)
	}
	half := x.Imm(vir.OpHalf, h, n/int64(h.Lanes), a)
	return x.End(x.in.Dst, vir.OpSpread, n%int64(h.Lanes), half)
}

// andNot: a & (b ^ -1).
func (x *expansion) andNot() []*vir.Instr {
	not := x.Op(vir.OpXor, x.dst, x.in.Args[1], x.Splat(x.dst, -1))
	return x.end(vir.OpAnd, x.in.Args[0], not)
}

// bitSel: (a & b) | (c &^ a).
func (x *expansion) bitSel() []*vir.Instr {
	a, b, c := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	return x.end(vir.OpOr, x.Op(vir.OpAnd, x.dst, a, b), x.Op(vir.OpAndNot, x.dst, c, a))
}

// shiftBytes: shift 16-bit lanes and clear what came from the other byte.
//
//	v1:u8x16 = shru v0 4   ->   v2:u16x8 = bitcast v0
//	                            v3:u16x8 = shru v2 4
//	                            v4:u8x16 = bitcast v3
//	                            v5:u8x16 = splat 15
//	                            v1:u8x16 = and v4 v5
func (x *expansion) shiftBytes() []*vir.Instr {
	if x.dst.Elem.Bits() != 8 || x.dst.Lanes < 2 {
		return nil
	}
	t := as(x.dst, format.U16)
	shifted := x.Imm(x.in.Op, t, x.in.Imm, x.Bitcast(t, x.in.Args[0]))
	mask := int64(0xff) << x.in.Imm & 0xff
	if x.in.Op == vir.OpShrU {
		mask = 0xff >> x.in.Imm
	}
	return x.end(vir.OpAnd, x.Bitcast(x.dst, shifted), x.Splat(x.dst, mask))
}

// shrS: with m the place of the sign bit after shifting, (a >> n ^ m) - m.
func (x *expansion) shrS() []*vir.Instr {
	m := x.Splat(x.dst, 1<<(int64(x.dst.Elem.Bits())-1-x.in.Imm))
	shifted := x.Imm(vir.OpShrU, x.dst, x.in.Imm, x.in.Args[0])
	return x.end(vir.OpSub, x.Op(vir.OpXor, x.dst, shifted, m), m)
}

// minMax: select by comparison.
func (x *expansion) minMax() []*vir.Instr {
	a, b := x.in.Args[0], x.in.Args[1]
	gt := x.Op(vir.OpCmpGtS, x.dst, a, b)
	if x.in.Op == vir.OpMinS {
		a, b = b, a
	}
	return x.end(vir.OpBitSel, gt, a, b)
}

// abs: max(a, 0 - a); the minimum is its own negative.
func (x *expansion) abs() []*vir.Instr {
	a := x.in.Args[0]
	return x.end(vir.OpMaxS, a, x.Op(vir.OpSub, x.dst, x.Splat(x.dst, 0), a))
}

// cmpGtS: the sign of b - a, corrected where the difference overflows, in every
// bit: b < a iff the sign of (b &^ a) | (b - a) &^ (a ^ b) is set.
func (x *expansion) cmpGtS() []*vir.Instr {
	t, a, b := x.dst, x.in.Args[0], x.in.Args[1]
	signs := x.Op(vir.OpAndNot, t, b, a)
	same := x.Op(vir.OpAndNot, t, x.Op(vir.OpSub, t, b, a), x.Op(vir.OpXor, t, a, b))
	return x.End(x.in.Dst, vir.OpShrS, int64(t.Elem.Bits()-1), x.Op(vir.OpOr, t, signs, same))
}

// sign: by comparison with 0 from both sides.
func (x *expansion) sign() []*vir.Instr {
	a, b, zero := x.in.Args[0], x.in.Args[1], x.Splat(x.dst, 0)
	positive := x.Op(vir.OpAnd, x.dst, a, x.Op(vir.OpCmpGtS, x.dst, b, zero))
	return x.end(vir.OpBitSel, x.Op(vir.OpCmpGtS, x.dst, zero, b), x.Op(vir.OpSub, x.dst, zero, a), positive)
}

// avgU: what both have, and half of what one has, rounded up: (a | b) - ((a ^ b) >> 1).
func (x *expansion) avgU() []*vir.Instr {
	t, a, b := x.dst, x.in.Args[0], x.in.Args[1]
	return x.end(vir.OpSub, x.Op(vir.OpOr, t, a, b), x.Imm(vir.OpShrU, t, 1, x.Op(vir.OpXor, t, a, b)))
}

// avgS: numbers with signs, counted from the least one, have none:
// avgs(a, b) = avgu(a + 2^7, b + 2^7) - 2^7, and adding 2^7 to a byte turns its top bit.
func (x *expansion) avgS() []*vir.Instr {
	t := as(x.dst, map[format.DType]format.DType{format.I8: format.U8, format.I16: format.U16}[x.dst.Elem])
	top := x.Splat(t, 1<<(t.Elem.Bits()-1))
	a := x.Op(vir.OpXor, t, x.Bitcast(t, x.in.Args[0]), top)
	b := x.Op(vir.OpXor, t, x.Bitcast(t, x.in.Args[1]), top)
	return x.end(vir.OpBitcast, x.Op(vir.OpXor, t, x.Op(vir.OpAvgU, t, a, b), top))
}

// selMSB: the top bits in every bit of their lanes; of 16 bits, lanes of bytes do
// as well.
func (x *expansion) selMSB() []*vir.Instr {
	a, b, c := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	t := as(x.dst, x.dst.Elem.Signed())
	bytes := as(x.dst, format.U8)
	if t.Elem == format.I8 || !x.hasSelMSB(bytes) {
		mask := x.Op(vir.OpCmpGtS, t, x.Splat(t, 0), x.Bitcast(t, a))
		return x.end(vir.OpBitSel, x.Bitcast(x.dst, mask), b, c)
	}
	mask := x.Imm(vir.OpShrS, t, int64(t.Elem.Bits()-1), x.Bitcast(t, a))
	return x.end(vir.OpBitcast, x.Op(vir.OpSelMSB, bytes, x.Bitcast(bytes, mask), x.Bitcast(bytes, b), x.Bitcast(bytes, c)))
}

// saturate: the wrapped sum or difference, unless its top bit carries or borrows. The top bit of
// a&b | (a|b)&^sum is the carry, the top bit of b&^a | difference&^(a^b) the borrow.
func (x *expansion) saturate() []*vir.Instr {
	t, a, b := x.dst, x.in.Args[0], x.in.Args[1]
	if x.in.Op == vir.OpAddSat {
		sum := x.Op(vir.OpAdd, t, a, b)
		carry := x.Op(vir.OpOr, t, x.Op(vir.OpAnd, t, a, b), x.Op(vir.OpAndNot, t, x.Op(vir.OpOr, t, a, b), sum))
		return x.end(vir.OpSelMSB, carry, x.Splat(t, 255), sum)
	}
	rest := x.Op(vir.OpSub, t, a, b)
	borrow := x.Op(vir.OpOr, t, x.Op(vir.OpAndNot, t, b, a), x.Op(vir.OpAndNot, t, rest, x.Op(vir.OpXor, t, a, b)))
	return x.end(vir.OpSelMSB, borrow, x.Splat(t, 0), rest)
}

// subMSB: selects b - c or c by the top bits of a.
func (x *expansion) subMSB() []*vir.Instr {
	a, b, c := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	return x.end(vir.OpSelMSB, a, x.Op(vir.OpSub, x.dst, b, c), c)
}

// widen: bytes to i32 by way of i16.
func (x *expansion) widen() []*vir.Instr {
	if x.typeOf(x.in.Args[0]).Elem.Bits() != 8 || x.dst.Elem != format.I32 {
		return nil
	}
	half := x.Op(vir.OpWiden, vir.Type{Elem: format.I16, Lanes: x.dst.Lanes}, x.in.Args[0])
	return x.end(vir.OpWiden, half)
}

// trunc: i32 to bytes by way of i16.
func (x *expansion) trunc() []*vir.Instr {
	if x.typeOf(x.in.Args[0]).Elem != format.I32 || x.dst.Elem.Bits() != 8 {
		return nil
	}
	half := x.Op(vir.OpTrunc, vir.Type{Elem: format.I16, Lanes: x.dst.Lanes}, x.in.Args[0])
	return x.end(vir.OpTrunc, half)
}

func (x *expansion) hasDot4(a format.DType) bool {
	bytes := 4 * x.dst.Lanes
	return x.t.has(vir.OpDot4, x.dst, x.dst, vir.Type{Elem: a, Lanes: bytes}, vir.Type{Elem: format.I8, Lanes: bytes})
}

// dot4BySign: an operand that is known to have no values above 127, or below 0,
// may as well have the other type.
func (x *expansion) dot4BySign() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	unsigned := x.typeOf(a).Elem == format.U8
	switch {
	case unsigned && x.b.Range(a).Hi <= 127 && x.hasDot4(format.I8):
		return x.end(vir.OpDot4, c, x.cast(a, format.I8), b)
	case unsigned || !x.hasDot4(format.U8):
		return nil
	case x.b.Range(a).Lo >= 0:
		return x.end(vir.OpDot4, c, x.cast(a, format.U8), b)
	case x.b.Range(b).Lo >= 0:
		return x.end(vir.OpDot4, c, x.cast(b, format.U8), a)
	}
	return nil
}

// dot4Unit: by the half that has the four of what no register holds, else by the four repeated in a vector.
func (x *expansion) dot4Unit() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	if h := halved(x.typeOf(b)); x.typeOf(b).Bits() > x.t.m.VecBits {
		units := int64(h.Lanes / 4)
		return x.End(x.in.Dst, vir.OpDot4Unit, x.in.Imm%units, c, a, x.Imm(vir.OpHalf, h, x.in.Imm/units, b))
	}
	words := x.Bitcast(as(x.typeOf(b), format.I32), b)
	all := x.Imm(vir.OpSpread, x.dst, x.in.Imm, words)
	return x.end(vir.OpDot4, c, a, x.Bitcast(as(x.dst, format.I8), all))
}

// dot4Sat: sums of two products in i16, where they are known to fit, and sums of
// two such sums.
//
//	v0 = dot4 v0 v1 v2   ->   v3:i16x8 = dot2sat v1 v2
//	                          v4:i16x8 = splat 1
//	                          v0:i32x4 = dot2 v0 v3 v4
func (x *expansion) dot4Sat() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	pairs := as(x.dst, format.I16)
	u, i := as(x.dst, format.U8), as(x.dst, format.I8)
	if !x.t.has(vir.OpDot2Sat, pairs, u, i) || !x.hasDot2() && !x.t.has(vir.OpDot2Wrap, x.dst, pairs, pairs) {
		return nil
	}
	if x.typeOf(a) != u && x.b.Range(a).Lo < 0 {
		a, b = b, a
	}
	if x.b.Range(a).Lo < 0 || x.saturates(a, b) {
		return nil
	}
	sums := x.Op(vir.OpDot2Sat, pairs, x.cast(a, format.U8), b)
	return x.end(vir.OpDot2, c, sums, x.Splat(pairs, 1))
}

// saturates says whether the sum of two products of lanes of a and b may not fit
// in an i16.
func (x *expansion) saturates(a, b vir.Reg) bool {
	ra, rb := x.b.Range(a), x.b.Range(b)
	lo := min(ra.Lo*rb.Lo, ra.Lo*rb.Hi, ra.Hi*rb.Lo, ra.Hi*rb.Hi)
	hi := max(ra.Lo*rb.Lo, ra.Lo*rb.Hi, ra.Hi*rb.Lo, ra.Hi*rb.Hi)
	return 2*lo < -1<<15 || 2*hi > 1<<15-1
}

// dot4ByOffset: a ^ 128 is a - 128 read as i8 if a is u8, a + 128 read as u8 if a
// is i8; the sum of 128*b makes up for it.
//
//	v0 = dot4 v0 v1 v2   ->   v5 = dot4 0 ones v2
//	                          v6 = shl v5 7
//	                          v7 = add v0 v6        (sub if v1 is i8)
//	                          v8 = xor v1 128
//	                          v0 = dot4 v7 v8 v2
func (x *expansion) dot4ByOffset() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	other, adjust := format.I8, vir.OpAdd
	if x.typeOf(a).Elem == format.I8 {
		other, adjust = format.U8, vir.OpSub
	}
	if !x.hasDot4(other) {
		return nil
	}
	t := as(x.typeOf(a), other)
	sum := x.Op(vir.OpDot4, x.dst, x.Splat(x.dst, 0), x.Splat(t, 1), b)
	c = x.Op(adjust, x.dst, c, x.Imm(vir.OpShl, x.dst, 7, sum))
	return x.end(vir.OpDot4, c, x.Op(vir.OpXor, t, x.Bitcast(t, a), x.Splat(t, 128)), b)
}

// dot4ByAbs: the sign of one operand moves to the other, which has no value that
// has no negative.
//
//	v0 = dot4 v0 v1 v2   ->   v3:i8x16 = abs v1
//	                          v4:i8x16 = sign v2 v1
//	                          v5:i16x8 = dot2sat v3 v4
//	                          v0:i32x4 = dot2 v0 v5 ones
func (x *expansion) dot4ByAbs() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	pairs, u, i := as(x.dst, format.I16), as(x.dst, format.U8), as(x.dst, format.I8)
	if x.typeOf(a) != i || !x.t.has(vir.OpSign, i, i, i) || !x.t.has(vir.OpDot2Sat, pairs, u, i) {
		return nil
	}
	if x.b.Range(b).Lo < -127 {
		a, b = b, a
	}
	if x.b.Range(b).Lo < -127 {
		return nil
	}
	size := x.Bitcast(u, x.Op(vir.OpAbs, i, a))
	r := x.b.Range(a)
	x.b.setRange(size, vir.Range{Lo: 0, Hi: max(-r.Lo, r.Hi)})
	sums := x.Op(vir.OpDot2Sat, pairs, size, x.Op(vir.OpSign, i, b, a))
	return x.end(vir.OpDot2, c, sums, x.Splat(pairs, 1))
}

// dot4ByProducts: products in i16, sums of two of them, where these are known to fit, and sums of
// two such sums.
//
//	v0 = dot4 v0 v1 v2   ->   v3:i16x8 = mulwide v1 v2 0
//	                          v4:i16x8 = mulwide v1 v2 1
//	                          v5:i16x8 = addpairs v3 v4
//	                          v0:i32x4 = sum2 v0 v5
func (x *expansion) dot4ByProducts() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	pairs, i := as(x.dst, format.I16), as(x.dst, format.I8)
	if !x.t.has(vir.OpMulWide, pairs, i, i) || !x.t.has(vir.OpAddPairs, pairs, pairs, pairs) || !x.t.has(vir.OpSum2, x.dst, x.dst, pairs) {
		return nil
	}
	if x.typeOf(a).Elem == format.U8 && x.b.Range(a).Hi > 127 || x.saturates(a, b) {
		return nil
	}
	a = x.cast(a, format.I8)
	low := x.Imm(vir.OpMulWide, pairs, 0, a, b)
	return x.end(vir.OpSum2, c, x.Op(vir.OpAddPairs, pairs, low, x.Imm(vir.OpMulWide, pairs, 1, a, b)))
}

// dot4ByDot2: the even bytes and the odd bytes as i16.
func (x *expansion) dot4ByDot2() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	even := x.Op(vir.OpDot2, x.dst, c, x.even(a), x.even(b))
	return x.end(vir.OpDot2, even, x.odd(a), x.odd(b))
}

// even is lanes 0, 2, 4 ... of r in signed lanes of twice the width.
func (x *expansion) even(r vir.Reg) vir.Reg {
	t, wide := x.wideLanes(r)
	if x.typeOf(r).Elem == format.U8 {
		return x.Op(vir.OpAnd, t, wide, x.Splat(t, 255))
	}
	w := int64(t.Elem.Bits() / 2)
	return x.Imm(vir.OpShrS, t, w, x.Imm(vir.OpShl, t, w, wide))
}

// odd is lanes 1, 3, 5 ... of r in signed lanes of twice the width.
func (x *expansion) odd(r vir.Reg) vir.Reg {
	t, wide := x.wideLanes(r)
	op := vir.OpShrS
	if x.typeOf(r).Elem == format.U8 {
		op = vir.OpShrU
	}
	return x.Imm(op, t, int64(t.Elem.Bits()/2), wide)
}

func (x *expansion) wideLanes(r vir.Reg) (vir.Type, vir.Reg) {
	e := format.I16
	if x.typeOf(r).Elem == format.I16 {
		e = format.I32
	}
	t := as(x.typeOf(r), e)
	return t, x.Bitcast(t, r)
}

// dot2: a sum of two products, then an addition.
func (x *expansion) dot2() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	return x.end(vir.OpAdd, c, x.Op(vir.OpDot2Wrap, x.dst, a, b))
}

// dot2Wrap: dot2 with nothing to add to, or by products, which fit in 32 bits.
func (x *expansion) dot2Wrap() []*vir.Instr {
	t, a, b := x.dst, x.in.Args[0], x.in.Args[1]
	if x.hasDot2() {
		return x.end(vir.OpDot2, x.Splat(t, 0), a, b)
	}
	even := x.Op(vir.OpMul, t, x.even(a), x.even(b))
	return x.end(vir.OpAdd, even, x.Op(vir.OpMul, t, x.odd(a), x.odd(b)))
}

func (x *expansion) hasDot2() bool {
	pairs := as(x.dst, format.I16)
	return x.t.has(vir.OpDot2, x.dst, x.dst, pairs, pairs)
}

// dot2Sat: products of u8 and i8 fit in 16 bits. The sum of two overflows iff they
// have one sign and it another; then it is the largest number of theirs.
func (x *expansion) dot2Sat() []*vir.Instr {
	t, a, b := x.dst, x.in.Args[0], x.in.Args[1]
	p := x.Op(vir.OpMul, t, x.even(a), x.even(b))
	q := x.Op(vir.OpMul, t, x.odd(a), x.odd(b))
	if !x.saturates(a, b) {
		return x.end(vir.OpAdd, p, q)
	}
	sum := x.Op(vir.OpAdd, t, p, q)
	over := x.Op(vir.OpAndNot, t, x.Op(vir.OpXor, t, p, sum), x.Op(vir.OpXor, t, p, q))
	limit := x.Op(vir.OpXor, t, x.Imm(vir.OpShrS, t, 15, p), x.Splat(t, 1<<15-1))
	return x.end(vir.OpBitSel, x.Imm(vir.OpShrS, t, 15, over), limit, sum)
}

// productsOfHalf: of the half of the lanes that counts.
func (x *expansion) productsOfHalf() []*vir.Instr {
	args := slices.Clone(x.in.Args)
	factors := args[len(args)-2:]
	h := halved(x.typeOf(factors[0]))
	if h.Lanes != x.dst.Lanes {
		return nil
	}
	for i, r := range factors {
		factors[i] = x.Imm(vir.OpHalf, vir.Type{Elem: x.typeOf(r).Elem, Lanes: h.Lanes}, x.in.Imm, r)
		x.b.setRange(factors[i], x.b.Range(r))
	}
	return x.end(x.in.Op, args...)
}

// productsBySign: an unsigned factor with no values above 127 may be read as a signed one.
func (x *expansion) productsBySign() []*vir.Instr {
	args := slices.Clone(x.in.Args)
	a := &args[len(args)-2]
	t := as(x.typeOf(*a), format.I8)
	var types []vir.Type
	for _, r := range args {
		types = append(types, x.typeOf(r))
	}
	types[len(types)-2] = t
	if x.typeOf(*a).Elem != format.U8 || x.b.Range(*a).Hi > 127 || !x.t.has(x.in.Op, x.dst, types...) {
		return nil
	}
	*a = x.cast(*a, format.I8)
	return x.End(x.in.Dst, x.in.Op, x.in.Imm, args...)
}

// dot1: a product, then an addition.
func (x *expansion) dot1() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	return x.end(vir.OpAdd, c, x.Op(vir.OpMulWide, x.dst, a, b))
}

// mulWide: products of 16 bits.
func (x *expansion) mulWide() []*vir.Instr {
	a, b := x.in.Args[0], x.in.Args[1]
	return x.end(vir.OpMul, x.Op(vir.OpWiden, x.dst, a), x.Op(vir.OpWiden, x.dst, b))
}

// addPairs: sums of the upper and the lower halves of lanes of twice the width, or of groups of two.
func (x *expansion) addPairs() []*vir.Instr {
	both := x.Op(vir.OpJoin, vir.Type{Elem: x.dst.Elem, Lanes: 2 * x.dst.Lanes}, x.in.Args...)
	if x.dst.Elem == format.I32 {
		return x.end(vir.OpRedAdd, both)
	}
	t, wide := x.wideLanes(both)
	return x.end(vir.OpTrunc, x.Op(vir.OpAdd, t, wide, x.Imm(vir.OpShrU, t, 16, wide)))
}

// sum2: products with 1.
func (x *expansion) sum2() []*vir.Instr {
	c, a := x.in.Args[0], x.in.Args[1]
	return x.end(vir.OpDot2, c, a, x.Splat(x.typeOf(a), 1))
}

// mmla: for each row and column, two sums of four products, which one addition joins.
func (x *expansion) mmla() []*vir.Instr {
	c, a, b := x.in.Args[0], x.in.Args[1], x.in.Args[2]
	lo, hi := x.halves(a)
	if x.dst.Lanes > 4 {
		first, second := x.halves(c)
		half := halved(x.dst)
		return x.end(vir.OpJoin, x.Op(vir.OpMMLA, half, first, lo, b), x.Op(vir.OpMMLA, half, second, hi, b))
	}
	elem := x.typeOf(a).Elem
	sums := vir.Type{Elem: format.I32, Lanes: 8}
	rows := x.Op(vir.OpJoin, as(sums, elem), x.Op(vir.OpTile, x.typeOf(a), lo), x.Op(vir.OpTile, x.typeOf(a), hi))
	dots := x.Op(vir.OpDot4, sums, x.Splat(sums, 0), rows, x.Op(vir.OpTile, as(sums, format.I8), b))
	return x.end(vir.OpAdd, c, x.Op(vir.OpRedAdd, x.dst, dots))
}

// canonNaN: without the sign, a NaN's bits are a greater number than the bits of infinity.
func (x *expansion) canonNaN() []*vir.Instr {
	t := as(x.dst, format.I32)
	a := x.Bitcast(t, x.in.Args[0])
	abs := x.Op(vir.OpAnd, t, a, x.Splat(t, 0x7fffffff))
	nan := x.Op(vir.OpCmpGtS, t, abs, x.Splat(t, 0x7f800000))
	return x.end(vir.OpBitcast, x.Op(vir.OpBitSel, t, nan, x.Splat(t, 0x7fc00000), a))
}

// cmpGtF: a > b if a - b is a positive number. It is none if one of them is a NaN or both are the same infinity, and it is
// not rounded to 0, as subnormal numbers are numbers.
func (x *expansion) cmpGtF() []*vir.Instr {
	t := x.dst
	diff := x.Bitcast(t, x.Op(vir.OpSub, x.typeOf(x.in.Args[0]), x.in.Args...))
	positive := x.Op(vir.OpCmpGtS, t, diff, x.Splat(t, 0))
	return x.end(vir.OpAndNot, positive, x.Op(vir.OpCmpGtS, t, diff, x.Splat(t, 0x7f800000)))
}

// minMaxF: a comparison, then a selection.
func (x *expansion) minMaxF() []*vir.Instr {
	t, a, b := as(x.dst, format.I32), x.in.Args[0], x.in.Args[1]
	more, less := a, b
	if x.in.Op == vir.OpMinF {
		more, less = b, a
	}
	mask := x.Bitcast(x.dst, x.Op(vir.OpCmpGtF, t, more, less))
	return x.end(vir.OpBitSel, mask, a, b)
}

// reduce: half the lanes with the other half, until one is left.
func (x *expansion) reduce() []*vir.Instr {
	r, op := x.in.Args[0], vir.OpAdd
	if x.in.Op == vir.OpRedMaxS {
		op = vir.OpMaxS
	}
	t := x.typeOf(r)
	if t.Lanes == x.dst.Lanes {
		return x.end(vir.OpBitcast, r)
	}
	if x.dst.Lanes > 1 {
		return x.reduceGroups(op, r)
	}
	lo, hi := x.halves(r)
	if t.Lanes == 2 {
		return x.end(op, lo, hi)
	}
	return x.end(x.in.Op, x.Op(op, halved(t), lo, hi))
}

func (x *expansion) halves(r vir.Reg) (lo, hi vir.Reg) {
	h := halved(x.typeOf(r))
	return x.Imm(vir.OpHalf, h, 0, r), x.Imm(vir.OpHalf, h, 1, r)
}

// reduceGroups combines the lanes of each group. A vector longer than a register is halved. In two registers, the
// neighbours of each group are added. Where an operation gathers neighbours, one operation combines them for all groups:
//
//	                                      even = lookuppair 0 2 4 6 v0 v1
//	v2:i32x4 = redadd (v0 and v1: i32x4)  odd  = lookuppair 1 3 5 7 v0 v1
//	                                 ->   v2   = add even odd
func (x *expansion) reduceGroups(op vir.Op, r vir.Reg) []*vir.Instr {
	t := x.typeOf(r)
	n := t.Lanes / x.dst.Lanes
	if n*t.Elem.Bits() > x.t.m.VecBits {
		return x.end(x.in.Op, x.combineHalves(op, r, x.dst.Lanes))
	}
	if sum, ok := x.combinePairs(op, r); ok {
		return x.end(x.in.Op, sum)
	}
	lo, hi := x.halves(r)
	h := halved(x.dst)
	return x.end(vir.OpJoin, x.Op(x.in.Op, h, lo), x.Op(x.in.Op, h, hi))
}

// combineHalves combines the halves of each group of r.
func (x *expansion) combineHalves(op vir.Op, r vir.Reg, groups int) vir.Reg {
	lo, hi := x.halves(r)
	h := x.typeOf(lo)
	if groups == 1 {
		return x.Op(op, h, lo, hi)
	}
	return x.Op(vir.OpJoin, h, x.combineHalves(op, lo, groups/2), x.combineHalves(op, hi, groups/2))
}

// combinePairs combines neighbouring lanes of r.
func (x *expansion) combinePairs(op vir.Op, r vir.Reg) (vir.Reg, bool) {
	h := halved(x.typeOf(r))
	index := vir.Type{Elem: format.U32, Lanes: h.Lanes}
	pairwise := op == vir.OpAdd && x.t.has(vir.OpAddPairs, h, h, h)
	if h.Bits() <= x.t.m.VecBits && !pairwise && !x.t.has(vir.OpLookupPair, h, index, h, h) {
		return 0, false
	}
	lo, hi := x.halves(r)
	if h.Bits() > x.t.m.VecBits {
		a, ok := x.combinePairs(op, lo)
		if !ok {
			return 0, false
		}
		b, _ := x.combinePairs(op, hi)
		return x.Op(vir.OpJoin, h, a, b), true
	}
	if pairwise {
		return x.Op(vir.OpAddPairs, h, lo, hi), true
	}
	var every [2]vir.Reg
	for first := range every {
		var at []byte
		for i := range h.Lanes {
			at = binary.LittleEndian.AppendUint32(at, uint32(2*i+first))
		}
		every[first] = x.Op(vir.OpLookupPair, h, x.Imm(vir.OpConst, index, x.b.Const(at)), lo, hi)
	}
	return x.Op(op, h, every[0], every[1]), true
}
