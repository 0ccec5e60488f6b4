package tune

import (
	"math"
	"testing"
)

// Features that differ in their last bit, and infinite ones, have nothing half way between them. A model that learns from them stays finite, also for
// features beyond: a figure that is no number cannot be logged.
func TestModelLimits(t *testing.T) {
	for _, pair := range [][2]float64{{math.Nextafter(1, 0), 1}, {1, math.Inf(1)}, {math.Inf(-1), 1}, {math.Inf(-1), math.Inf(1)}, {-math.MaxFloat64, math.MaxFloat64}} {
		var m model
		for range 5 {
			for i, x := range pair {
				m.add(Point{Estimate: 1, Features: []float64{x}}, 1+float64(i))
			}
		}
		m.fit()
		for i, x := range []float64{pair[0], pair[1], math.Inf(-1), math.Inf(1)} {
			if cost := math.Exp(m.predict(Point{Estimate: 1, Features: []float64{x}})); math.Abs(cost-1-float64(i%2)) > 0.1 {
				t.Errorf("learned from %v: %v costs %v", pair, x, cost)
			}
		}
	}
}
