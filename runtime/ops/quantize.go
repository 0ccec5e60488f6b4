package ops

import "math"

// Quantize sets codes, as bytes of I8, and returns their scale: x is about scale * codes. The scale is the largest magnitude of x over 127, and a code
// is the nearest integer to x / scale, of two the even one. A scale below 2^-126 is 0, as all codes are. If x has an infinity or a NaN, the
// scale is NaN. codes and x have the same length.
func Quantize(codes []byte, x []float32) (scale float32) {
	const (
		most     = 127
		rounder  = 12582912 // 1.5 * 2^23: adding it rounds to an integer, in the low bits
		infinity = 0x7f800000
	)
	top := uint32(0) // the bits of a magnitude, which are in the order of magnitudes
	for _, v := range x {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	scale = math.Float32frombits(top) / most
	switch {
	case top >= infinity:
		clear(codes)
		return math.Float32frombits(0x7fc00000)
	case scale < 0x1p-126:
		clear(codes)
		return 0
	}
	for i, v := range x {
		codes[i] = byte(math.Float32bits(v/scale + rounder)) // at most 127 by its magnitude
	}
	return scale
}

// StoreLane writes codes as lane number lane of a panel of len(codes) rows of 32 elements of I8.
func StoreLane(panel, codes []byte, lane int) {
	for i, c := range codes {
		panel[i*Panel+lane] = c
	}
}
