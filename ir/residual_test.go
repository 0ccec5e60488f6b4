package ir

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestResidualShare: the share of units with residuals is that of drawn rows of normally distributed activations.
func TestResidualShare(t *testing.T) {
	const k, rows = 4096, 500
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct {
		tables Tables
		spread int
	}{
		{Tables{Decomposition: Decomposition{Alphabet: []int{0, 1}, Parts: []int{4}}}, 1},
		{Tables{Decomposition: Decomposition{Alphabet: []int{-1, 0, 1}, Parts: []int{2}}}, 2},
	} {
		digits := x.tables.Digits()
		some := 0
		act := make([]float64, k)
		for range rows {
			for i := range act {
				act[i] = math.Abs(rng.NormFloat64())
			}
			largest := slices.Max(act)
			for unit := range slices.Chunk(act, digits) {
				sum := 0.0
				for _, a := range unit {
					sum += math.RoundToEven(a / largest * ActMax)
				}
				if float64(x.spread)*sum > mostByte {
					some++
				}
			}
		}
		drawn := float64(some*digits) / (rows * k)
		if got := x.tables.ResidualShare(k); !(math.Abs(got/drawn-1) < 0.1) {
			t.Errorf("%d digits, a spread of %d: a share of %.5f, drawn ones have %.5f", digits, x.spread, got, drawn)
		}
	}
}
