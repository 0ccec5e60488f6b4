package ops

import (
	"math"
	"testing"
)

// TestLog compares logarithms and exponentials at the ends of their ranges, and knows some of their bits.
func TestLog(t *testing.T) {
	tiny, nan, inf := math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1)
	if have := Log(tiny); have != -744.4400719213812 { // math.Log is wrong on some machines
		t.Errorf("Log(%v) is %v", tiny, have)
	}
	for _, x := range []float64{0, 1e-300, 1, 2, 1e308, math.MaxFloat64, inf, -1, -inf, nan} {
		have, want := Log(x), math.Log(x)
		if have != want && !(math.Abs(have-want) <= 4e-16*math.Abs(want)) && !(math.IsNaN(have) && math.IsNaN(want)) {
			t.Errorf("Log(%v) is %v, want %v", x, have, want)
		}
	}
	for _, x := range []float64{0, 1, -1, 700, 709.7, 711, -700, -745, -747, 1e300, -1e300, inf, -inf, nan} {
		have, want := Exp(x), math.Exp(x)
		if have != want && !(math.Abs(have-want) <= 1e-13*want+tiny) && !(math.IsNaN(have) && math.IsNaN(want)) {
			t.Errorf("Exp(%v) is %v, want %v", x, have, want)
		}
	}
	if have := math.Float64bits(Log(10)); have != 0x40026bb1bbb55515 {
		t.Errorf("Log(10) has the bits %#x", have)
	}
	if have := math.Float64bits(Exp(-3.5)); have != 0x3f9eec1018e4ff66 {
		t.Errorf("Exp(-3.5) has the bits %#x", have)
	}
}
