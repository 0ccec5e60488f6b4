package ops

import "math"

// canonNaN makes every NaN the same.
func canonNaN(x float32) float32 {
	if x != x {
		return math.Float32frombits(0x7fc00000)
	}
	return x
}

// fmax is x if x > y, else y.
func fmax(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

// fmin is x if x < y, else y.
func fmin(x, y float32) float32 {
	if x < y {
		return x
	}
	return y
}

// greater has all bits set if x > y, else none.
func greater(x, y int32) int32 {
	if x > y {
		return -1
	}
	return 0
}
