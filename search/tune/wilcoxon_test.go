package tune

import (
	"math"
	"testing"
)

// Values of the table of the test, and of examples that other programs have computed.
func TestWilcoxon(t *testing.T) {
	for _, c := range []struct {
		name        string
		differences []float64
		want        float64
	}{
		{"none", nil, 1},
		{"five, all below", []float64{-1, -2, -3, -4, -5}, 1.0 / 32},
		{"zeros do not count", []float64{0, -1, -2, -3, -4, -5, 0}, 1.0 / 32},
		{"the least is above", []float64{1, -2, -3, -4, -5}, 2.0 / 32},
		{"all above", []float64{1, 2, 3}, 1},
		{"equal sizes share ranks", []float64{-1, -1, 1}, 4.0 / 8}, // sums of {2, 2, 2} up to 2: one way for 0, three for 2
		// Hollander and Wolfe's depression scores, R's example of wilcox.test: V = 40 of 9 pairs, one-sided p = 0.01953.
		{"depression", []float64{-0.952, 0.147, -1.022, -0.43, -0.62, -0.59, -0.49, 0.08, -0.01}, 0.01953125},
	} {
		if got := Wilcoxon(c.differences); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
