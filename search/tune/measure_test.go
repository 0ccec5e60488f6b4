package tune

import (
	"math"
	"slices"
	"testing"
)

// A candidate costs the mean of its ratios, unless one of its purposes loses: then more, but never more than that one.
func TestCostOf(t *testing.T) {
	for _, c := range []struct {
		ratios []float64
		want   float64
	}{
		{[]float64{0.8}, 0.8},
		{[]float64{1.5}, 1.5},
		{[]float64{2, 2, 2}, 2},
		{[]float64{0.5, 1, 1}, math.Cbrt(0.5)},
		{[]float64{0.81, 1.02}, math.Sqrt(0.81 * 1.02)},
		{[]float64{0.5, 1.2}, math.Sqrt(0.5*1.2) * 1.2 * 1.2 / math.Exp(0.06)},
		{[]float64{0.9, 1.2}, 1.2},
		{[]float64{0.75, 0.97, 0.97, 1.17, 1.06}, 1.17},
	} {
		if have := CostOf(c.ratios); math.Abs(have-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.ratios, have, c.want)
		}
	}
}

// From a cache the default counts as it was beside whichever candidate it was fastest, out of memory as it was beside each. The best
// candidate comes first.
func TestRank(t *testing.T) {
	all := []Confirmed{{Ns: []float64{8, 40}, DefaultNs: []float64{10, 40}}, {Ns: []float64{6, 40}, DefaultNs: []float64{8, 50}}}
	rank(all, []Purpose{{}, {Total: 1 << 20}})
	for i, want := range []Confirmed{
		{Ns: []float64{6, 40}, DefaultNs: []float64{8, 50}, Cost: math.Sqrt(0.75 * 0.8)},
		{Ns: []float64{8, 40}, DefaultNs: []float64{8, 40}, Cost: 1},
	} {
		if have := all[i]; !slices.Equal(have.Ns, want.Ns) || !slices.Equal(have.DefaultNs, want.DefaultNs) || math.Abs(have.Cost-want.Cost) > 1e-9 {
			t.Errorf("%d: %+v, want %+v", i, have, want)
		}
	}
}
