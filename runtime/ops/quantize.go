package ops

import "math"

// mostCode is the largest magnitude of a code of Quantize.
const mostCode = 127

// Quantize sets codes, as bytes of I8, and returns their scale: x is about scale * codes. The scale is the largest magnitude of x over 127, and a code
// is the nearest integer to x / scale, of two the even one. If x has an infinity or a NaN, the scale is NaN. codes and x have the same length.
func Quantize(codes []byte, x []float32) (scale float32) {
	top := float32(0)
	for _, v := range x {
		top = max(top, v, -v)
	}
	clear(codes)
	if !Finite(x) {
		return math.Float32frombits(0x7fc00000)
	}
	if scale = top / mostCode; scale == 0 {
		return 0
	}
	for i, v := range x {
		code := math.RoundToEven(float64(v / scale))
		codes[i] = byte(int8(min(mostCode, max(-mostCode, code))))
	}
	return scale
}

// StoreLane writes codes as lane number lane of a panel of len(codes) rows of 32 elements of I8.
func StoreLane(panel, codes []byte, lane int) {
	for i, c := range codes {
		panel[i*Panel+lane] = c
	}
}
