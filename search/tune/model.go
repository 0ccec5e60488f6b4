package tune

import (
	"cmp"
	"math"
	"slices"
)

// model predicts costs: the estimate, times what boosted trees have learned from the
// features of what was measured. Before it has seen anything it is the estimate.
type model struct {
	points []Point
	costs  []float64 // logarithms
	base   float64
	trees  []*tree
}

// tree adds a number to the logarithm of a cost: which one depends on features.
type tree struct {
	feature      int
	limit        float64
	below, above *tree // up to limit, and beyond; nil of a leaf
	adds         float64
}

// Boosting: the number of trees, the decisions in a row in each tree, the part of its finding that
// each tree contributes, and the least number of points in a leaf.
const (
	rounds   = 80
	decides  = 2
	learning = 0.15
	leastIn  = 3
)

func (m *model) add(p Point, cost float64) {
	m.points, m.costs = append(m.points, p), append(m.costs, math.Log(cost))
}

// predict is the logarithm of a cost.
func (m *model) predict(p Point) float64 {
	y := math.Log(max(p.Estimate, 1e-9)) + m.base
	for _, t := range m.trees {
		y += t.at(p.Features)
	}
	return y
}

func (t *tree) at(features []float64) float64 {
	for t.below != nil {
		if features[t.feature] <= t.limit {
			t = t.below
		} else {
			t = t.above
		}
	}
	return t.adds
}

// fit learns from all that was added.
func (m *model) fit() {
	n := len(m.points)
	m.base, m.trees = 0, nil
	if n == 0 {
		return
	}
	left := make([]float64, n) // the unexplained rest
	for i, p := range m.points {
		left[i] = m.costs[i] - math.Log(max(p.Estimate, 1e-9))
		m.base += left[i] / float64(n)
	}
	for i := range left {
		left[i] -= m.base
	}
	order := m.orders()
	for range rounds {
		t := m.grow(order, left, decides)
		if t.below == nil {
			return
		}
		m.trees = append(m.trees, t)
		for i, p := range m.points {
			left[i] -= t.at(p.Features)
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

// grow is the tree of at most depth decisions for points, which are given by each feature.
func (m *model) grow(order [][]int, left []float64, depth int) *tree {
	feature, limit := m.split(order, left)
	if depth == 0 || feature < 0 {
		return &tree{adds: learning * mean(order[0], left)}
	}
	below, above := make([][]int, len(order)), make([][]int, len(order))
	for f, by := range order {
		for _, i := range by {
			if m.points[i].Features[feature] <= limit {
				below[f] = append(below[f], i)
			} else {
				above[f] = append(above[f], i)
			}
		}
	}
	return &tree{feature: feature, limit: limit, below: m.grow(below, left, depth-1), above: m.grow(above, left, depth-1)}
}

func mean(points []int, left []float64) float64 {
	sum := 0.0
	for _, i := range points {
		sum += left[i]
	}
	return sum / float64(len(points))
}

// split is the decision that leaves the least squares; the feature is -1 if none helps.
func (m *model) split(order [][]int, left []float64) (feature int, limit float64) {
	n := len(order[0])
	total := mean(order[0], left) * float64(n)
	most := total*total/float64(n) + 1e-9
	feature = -1
	for f, by := range order {
		sum := 0.0
		for i := range n - 1 {
			sum += left[by[i]]
			here, next := m.points[by[i]].Features[f], m.points[by[i+1]].Features[f]
			if here == next || i+1 < leastIn || n-i-1 < leastIn {
				continue
			}
			below, above := sum/float64(i+1), (total-sum)/float64(n-i-1)
			if explained := sum*below + (total-sum)*above; explained > most {
				feature, limit, most = f, between(here, next), explained
			}
		}
	}
	return feature, limit
}

// between is a limit that a is not above and b is, if b is above a: half way, or a if no number is between them, as before an infinite one.
func between(a, b float64) float64 {
	if mid := a + (b-a)/2; mid < b {
		return mid
	}
	return a
}
