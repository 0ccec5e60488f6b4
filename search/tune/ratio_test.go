package tune

import (
	"math"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/search/timing"
)

// The bounds of n measurements are those that fewer than k lie beyond in at most 5 of 100 cases: by the binomial distribution.
func TestBound(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 4: 0, 5: 1, 7: 1, 8: 2, 10: 2, 11: 3, 16: 5, 100: 42} {
		if have := bound(n); have != want {
			t.Errorf("%d measurements: bound %d, want %d", n, have, want)
		}
	}
}

// A ratio has its median and the bounds by its own spread, whatever the order; one measurement of 8 that went wrong moves no bound.
func TestRatio(t *testing.T) {
	for _, c := range []struct {
		xs            []float64
		want          Ratio
		less, greater bool
		text          string
	}{
		{[]float64{0.9}, Ratio{0.9, 0, math.Inf(1)}, false, false, "0.90"},
		{[]float64{0.95, 0.96, 0.94, 0.97, 0.93, 0.98, 0.92, 0.99}, Ratio{0.955, 0.93, 0.98}, true, false, "0.95 ± 0.03"},
		{[]float64{0.5, 0.96, 0.94, 0.97, 0.93, 0.98, 0.95, 1.5}, Ratio{0.955, 0.93, 0.98}, true, false, "0.95 ± 0.03"},
		{[]float64{0.95, 0.96, 0.94, 1.01, 0.93, 1.02, 0.92, 0.99}, Ratio{0.955, 0.93, 1.01}, false, false, "0.95 ± 0.06"},
		{[]float64{1.05, 1.06, 1.04, 1.01, 1.03, 1.02, 0.92, 0.99}, Ratio{1.025, 0.99, 1.05}, false, false, "1.02 ± 0.03"},
		{[]float64{1.05, 1.06, 1.05, 1.01, 1.05, 1.02, 0.92, 1.07}, Ratio{1.05, 1.01, 1.06}, false, true, "1.05 ± 0.04"},
		{[]float64{1, 1, 1, 1, 1, 1, 1, 1}, Ratio{1, 1, 1}, false, false, "1.000 ± 0.000"},
		{[]float64{0.995, 0.994, 0.996, 0.995, 0.995}, Ratio{0.995, 0.994, 0.996}, true, false, "0.995 ± 0.001"},
	} {
		have := RatioOf(c.xs)
		near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9 }
		if !near(have.Median, c.want.Median) || !near(have.Low, c.want.Low) || !near(have.High, c.want.High) || have.Less() != c.less || have.Greater() != c.greater || have.String() != c.text {
			t.Errorf("%v: %+v %v %v %v, want %+v %v %v %s", c.xs, have, have.Less(), have.Greater(), have, c.want, c.less, c.greater, c.text)
		}
	}
}

// A trial's noise is that of all its purposes that were measured. It is unknown if that of one is, and never leaves out the cost itself.
func TestTrialRatio(t *testing.T) {
	for want, x := range map[string]Trial{
		"0.90 ± 0.10": {Cost: 0.9, Ratios: []float64{0.9, 0, 0.9}, Low: []float64{0.85, 0, 0.85}, High: []float64{1, 0, 1}},
		"0.80 ± 0.15": {Cost: 0.8, Ratios: []float64{0.8}, Low: []float64{0.9}, High: []float64{0.95}},
		"0.70":        {Cost: 0.7, Ratios: []float64{0.7, 0.7}, Low: []float64{0.6, 0}, High: []float64{0.8, 0}},
		"0.60":        {Cost: 0.6, Ratios: []float64{0.6}},
		"0.50":        {Cost: 0.5},
	} {
		if have := x.Ratio().String(); have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
}

// Only rounds in which both functions had their core count, and few of them bound nothing.
func TestRoundRatios(t *testing.T) {
	sample := func(ns ...float64) timing.Sample {
		return timing.Sample{Rounds: ns, Alone: []bool{true, true, true, true, true, ns[5] < 9}}
	}
	rounds := RoundRatios(sample(2, 2, 2, 2, 2, 2), sample(1, 2, 3, 2, 2, 9))
	if !slices.Equal(rounds, []float64{0.5, 1, 1.5, 1, 1}) {
		t.Errorf("%v", rounds)
	}
	if low, high := Bounds(1.7, rounds); low != 0.5 || high != 1.7 {
		t.Errorf("from %v to %v", low, high)
	}
	if low, high := Bounds(1, rounds[:4]); low != 0 || high != 0 {
		t.Errorf("by four rounds from %v to %v", low, high)
	}
}

// Purposes count together by the geometric mean of each time; one that takes longer beyond the noise is a loss.
func TestTogether(t *testing.T) {
	same := func(ratio float64) (b Beside) {
		for range 8 {
			b.Ns, b.BaseNs = append(b.Ns, 10*ratio), append(b.BaseNs, 10)
		}
		return b
	}
	turns := same(1)
	for i := range turns.Ns {
		turns.Ns[i] = []float64{5, 20}[i%2]
	}
	if r := Together([]Beside{same(0.5), same(2)}); math.Abs(r.Median-1) > 1e-9 || r.Less() && r.Greater() {
		t.Errorf("half and twice: %v", r)
	}
	if r := Together([]Beside{same(0.5), same(1), same(1)}); math.Abs(r.Median-math.Cbrt(0.5)) > 1e-9 || !r.Less() {
		t.Errorf("half of one: %v", r)
	}
	losses := Losses([]Beside{same(0.5), turns, same(1.01), same(1)})
	if len(losses) != 1 || losses[0].Ratio().Median != 1.01 {
		t.Errorf("losses %v", losses)
	}
}
