package tune

import (
	"cmp"
	"math"
	"slices"
)

// model predicts costs: the estimate, times what boosted stumps have learned from the
// features of what was measured. Before it has seen anything it is the estimate.
type model struct {
	points []Point
	costs  []float64 // logarithms
	base   float64
	stumps []stump
}

// stump adds a number to the logarithm of a cost: which one depends on a feature.
type stump struct {
	feature      int
	limit        float64
	below, above float64 // up to limit, and beyond
}

// Boosting: so many stumps, each of which takes so much of what it finds, and has at
// least so many points on either side.
const (
	rounds   = 60
	learning = 0.3
	leastIn  = 3
)

func (m *model) add(p Point, cost float64) {
	m.points, m.costs = append(m.points, p), append(m.costs, math.Log(cost))
}

// predict is the logarithm of a cost.
func (m *model) predict(p Point) float64 {
	y := math.Log(max(p.Estimate, 1e-9)) + m.base
	for _, s := range m.stumps {
		y += s.at(p.Features)
	}
	return y
}

func (s stump) at(features []float64) float64 {
	if features[s.feature] <= s.limit {
		return s.below
	}
	return s.above
}

// fit learns from all that was added.
func (m *model) fit() {
	n := len(m.points)
	m.base, m.stumps = 0, nil
	if n == 0 {
		return
	}
	left := make([]float64, n) // what is not explained yet
	for i, p := range m.points {
		left[i] = m.costs[i] - math.Log(max(p.Estimate, 1e-9))
		m.base += left[i] / float64(n)
	}
	for i := range left {
		left[i] -= m.base
	}
	order := m.orders()
	for range rounds {
		s, gain := m.best(order, left)
		if gain <= 1e-9 {
			return
		}
		m.stumps = append(m.stumps, s)
		for i, p := range m.points {
			left[i] -= s.at(p.Features)
		}
	}
}

// orders are the points by each feature.
func (m *model) orders() [][]int {
	out := make([][]int, len(m.points[0].Features))
	for f := range out {
		out[f] = make([]int, len(m.points))
		for i := range out[f] {
			out[f][i] = i
		}
		slices.SortStableFunc(out[f], func(a, b int) int { return cmp.Compare(m.points[a].Features[f], m.points[b].Features[f]) })
	}
	return out
}

// best is the stump that leaves the least squares, and by how much they are less.
func (m *model) best(order [][]int, left []float64) (s stump, gain float64) {
	n, total := len(left), 0.0
	for _, x := range left {
		total += x
	}
	for f, by := range order {
		sum := 0.0
		for i := range n - 1 {
			sum += left[by[i]]
			here, next := m.points[by[i]].Features[f], m.points[by[i+1]].Features[f]
			if here == next || i+1 < leastIn || n-i-1 < leastIn {
				continue
			}
			a, b := sum/float64(i+1), (total-sum)/float64(n-i-1)
			if g := sum*a + (total-sum)*b; g > gain {
				s, gain = stump{f, (here + next) / 2, learning * a, learning * b}, g
			}
		}
	}
	return s, gain
}
