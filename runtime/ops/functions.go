package ops

// Log is the natural logarithm of a finite x above 0, in float64, with the same bits on every machine.
func Log(x float64) float64 { return ln(x) }

// Exp is the exponential of x, which has less than 700 as its magnitude, in float64, with the same bits on every machine.
func Exp(x float64) float64 { return expOf(x) }
