package spirv

import "github.com/tmacc/tmacc/lower/spirv/module"

// Vulkan allows divisions 2.5 units in the last place of error, and leaves open how floats are rounded to 16 bits. Both are
// integer code here, with the rounding of IEEE 754.

// and, right and left are operations on a word and a constant.
func (p *printer) and(w module.ID, x uint32) module.ID {
	return p.word(module.OpBitwiseAnd, w, p.number(x))
}
func (p *printer) right(w module.ID, n uint32) module.ID {
	return p.word(module.OpShiftRightLogical, w, p.number(n))
}
func (p *printer) left(w module.ID, n uint32) module.ID {
	return p.word(module.OpShiftLeftLogical, w, p.number(n))
}
func (p *printer) less(a, b module.ID) module.ID {
	return p.m.Emit(module.OpULessThan, p.bool, a, b)
}
func (p *printer) equal(a, b module.ID) module.ID {
	return p.m.Emit(module.OpIEqual, p.bool, a, b)
}
func (p *printer) either(a, b module.ID) module.ID {
	return p.m.Emit(module.OpLogicalOr, p.bool, a, b)
}
func (p *printer) both(a, b module.ID) module.ID {
	return p.m.Emit(module.OpLogicalAnd, p.bool, a, b)
}

const infinity = 0x7f800000

// parts are the exponent of a float without a sign, as its bits have it, and its mantissa with the leading one. Below 2^-126 the
// exponent is 0 or less.
func (p *printer) parts(w module.ID) (exponent, mantissa module.ID) {
	e, m := p.right(w, 23), p.and(w, 1<<23-1)
	shift := p.word(module.OpISub, p.number(23), p.extended(p.uint, module.ExtendedFindUMsb, m))
	small := p.less(w, p.number(1<<23))
	exponent = p.choose(small, p.word(module.OpISub, p.number(1), shift), e)
	return exponent, p.choose(small, p.word(module.OpShiftLeftLogical, m, shift), p.word(module.OpBitwiseOr, m, p.number(1<<23)))
}

// rounded is m without its lowest bits, whose number is at least 1, to nearest even. more says that m is more than its bits say.
func (p *printer) rounded(m, bits, more module.ID) module.ID {
	kept := p.word(module.OpShiftRightLogical, m, bits)
	rest := p.word(module.OpISub, m, p.word(module.OpShiftLeftLogical, kept, bits))
	half := p.word(module.OpShiftLeftLogical, p.number(1), p.word(module.OpISub, bits, p.number(1)))
	odd := p.equal(p.and(kept, 1), p.number(1))
	up := p.either(p.less(half, rest), p.both(p.equal(half, rest), p.either(odd, more)))
	return p.choose(up, p.sum(kept, p.number(1)), kept)
}

// divide is a / b: the quotient of the mantissas in base 256 by integer divisions, which leave a remainder.
func (p *printer) divide(a, b module.ID) module.ID {
	sign := p.and(p.word(module.OpBitwiseXor, a, b), 1<<31)
	a, b = p.and(a, 1<<31-1), p.and(b, 1<<31-1)
	ea, ma := p.parts(a)
	eb, mb := p.parts(b)
	below := p.less(ma, mb)
	ma = p.choose(below, p.left(ma, 1), ma)
	quotient, rest := p.number(1), p.word(module.OpISub, ma, mb)
	for range 3 {
		rest = p.left(rest, 8)
		digit := p.word(module.OpUDiv, rest, mb)
		rest = p.word(module.OpISub, rest, p.word(module.OpIMul, digit, mb))
		quotient = p.sum(p.left(quotient, 8), digit)
	}
	e := p.sum(p.word(module.OpISub, ea, eb), p.choose(below, p.number(126), p.number(127)))
	// A quotient has a bit more than a mantissa. An exponent below 1 takes away more of them, up to all.
	bits := p.extended(p.uint, module.ExtendedSMin, p.number(26), p.larger(p.number(1), p.word(module.OpISub, p.number(2), e)))
	m := p.rounded(quotient, bits, p.less(p.number(0), rest))
	e = p.extended(p.uint, module.ExtendedSMin, p.number(255), p.larger(p.number(1), e))
	usual := p.sum(p.left(p.word(module.OpISub, e, p.number(1)), 23), m)
	usual = p.extended(p.uint, module.ExtendedUMin, usual, p.number(infinity))
	return p.word(module.OpBitwiseOr, sign, p.special(a, b, usual))
}

// special is what a / b is without a sign, which is usual if neither is zero, infinite or a NaN.
func (p *printer) special(a, b, usual module.ID) module.ID {
	zero, inf := p.number(0), p.number(infinity)
	none := p.either(p.equal(a, zero), p.equal(b, inf))
	all := p.either(p.equal(b, zero), p.equal(a, inf))
	nan := p.either(p.both(none, all), p.either(p.less(inf, a), p.less(inf, b)))
	return p.choose(nan, p.number(0x7fc00000), p.choose(none, zero, p.choose(all, inf, usual)))
}

// toHalf is the nearest float of 16 bits.
func (p *printer) toHalf(w module.ID) module.ID {
	sign := p.and(p.right(w, 16), 0x8000)
	w = p.and(w, 1<<31-1)
	never := p.less(p.number(1), p.number(0))
	usual := p.rounded(p.word(module.OpISub, w, p.number((127-15)<<23)), p.number(13), never)
	usual = p.extended(p.uint, module.ExtendedUMin, usual, p.number(0x7c00))
	mantissa := p.word(module.OpBitwiseOr, p.and(w, 1<<23-1), p.number(1<<23))
	bits := p.word(module.OpISub, p.number(126), p.right(w, 23))
	tiny := p.rounded(mantissa, p.extended(p.uint, module.ExtendedUMin, p.larger(bits, p.number(1)), p.number(25)), never)
	nan := p.word(module.OpBitwiseOr, p.number(0x7e00), p.and(p.right(w, 13), 0x3ff))
	x := p.choose(p.less(w, p.number((127-14)<<23)), tiny, p.choose(p.less(w, p.number(infinity)), usual, p.number(0x7c00)))
	return p.word(module.OpBitwiseOr, sign, p.choose(p.less(p.number(infinity), w), nan, x))
}
