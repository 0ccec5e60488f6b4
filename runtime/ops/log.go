package ops

import "math"

// Log is the natural logarithm of x, with the same bits on every machine, as math.Log does not promise. It is -Inf of 0, and NaN of a
// negative number.
func Log(x float64) float64 {
	switch {
	case x < 0 || math.IsNaN(x):
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	return ln(x)
}

// Exp is the exponential of x, with the same bits on every machine.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 710: // more than the largest number
		return math.Inf(1)
	case x < -746: // less than half of the smallest one
		return 0
	}
	return expOf(x)
}
