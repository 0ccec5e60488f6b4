package format

import "math"

// HalfToFloat32 is the value of an IEEE 754 binary16 number; every one of them
// is a float32. A NaN keeps its sign and payload and becomes quiet, as the
// conversion instructions of x86 (VCVTPH2PS) and Arm (FCVT) do.
func HalfToFloat32(h uint16) float32 {
	sign, mag := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if mag < 0x7c00<<13 { // finite: 2^112 moves the exponent, which is exact, of subnormal numbers too
		return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(mag)*0x1p112))
	}
	if mag > 0x7c00<<13 {
		sign |= 0x00400000
	}
	return math.Float32frombits(sign | 0x7f800000 | mag)
}

// HalfFromFloat32 rounds f to the nearest binary16 number, ties to even; what
// rounds to 65520 or more becomes infinite. A NaN keeps its sign and the upper
// bits of its payload and becomes quiet.
func HalfFromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	sign, mag := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00 | uint16(mag>>13&0x3ff)
	case mag >= 0x477ff000: // 65520: half way between the largest number and 2^16
		return sign | 0x7c00
	case mag < 0x38800000: // below 2^-14: subnormal, in units of 2^-24
		// Adding 0.5 leaves a float32 whose last place is 2^-24: the addition rounds.
		return sign | uint16(math.Float32bits(math.Float32frombits(mag)+0.5)-0x3f000000)
	}
	mag += 0xfff + mag>>13&1 // round to nearest even; a carry moves into the exponent
	return sign | uint16(mag>>13-(127-15)<<10)
}
