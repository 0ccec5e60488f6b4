package measure

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// Reference is some elements of a product of weights and float activations by the
// definition, in float64, and what quantizing activations to int8 may change in
// them.
type Reference struct {
	m    int
	at   []int     // of element i: activations*m + row
	want []float64 // element i
	// variance of element i, for a group of activations that share a scale: of
	// sum over k of w[k] * e[k], where e is uniform within half a step.
	groups   []int
	variance [][]float64 // of groups[j]
}

// perRow is how many elements of a row a Reference has, of different activations.
const perRow = 4

// NewReference multiplies m rows of k weights by n rows of activations, every row of
// weights by a few, so that every row of activations has its turn if there are
// enough rows of weights. groups are the numbers of activations that may share a
// scale, each a divisor of k, 0 for all of a row.
func NewReference(w format.Weight, src format.Source, x []float32, m, k, n int, groups ...int) *Reference {
	ref := &Reference{m: m, groups: groups, variance: make([][]float64, len(groups))}
	steps := make([][]float64, len(groups)) // squared, by row of activations and group
	for i, g := range groups {
		steps[i] = squaredSteps(x, span(g, k))
	}
	weights := make([]float64, k)
	for r := range m {
		for c := range weights {
			weights[c] = float64(src.Value(w, r, c, k))
		}
		for i := range min(perRow, n) {
			j := (r*perRow + i) % n
			ref.at = append(ref.at, j*m+r)
			ref.want = append(ref.want, dot(weights, x[j*k:][:k]))
			for g, s := range steps {
				size := span(groups[g], k)
				ref.variance[g] = append(ref.variance[g], variance(weights, s[j*k/size:], size))
			}
		}
	}
	return ref
}

// span is how many of k activations share a scale.
func span(group, k int) int {
	if group == 0 {
		return k
	}
	return group
}

func dot(w []float64, x []float32) float64 {
	sum := 0.0
	for i, v := range w {
		sum += v * float64(x[i])
	}
	return sum
}

// squaredSteps are the squares of the distances of two int8 levels.
func squaredSteps(x []float32, group int) []float64 {
	var out []float64
	for ; len(x) > 0; x = x[group:] {
		largest := 0.0
		for _, v := range x[:group] {
			largest = max(largest, math.Abs(float64(v)))
		}
		out = append(out, largest*largest/127/127)
	}
	return out
}

// variance is that of a row of weights times rounding errors, uniform within half a
// step.
func variance(w []float64, squaredSteps []float64, group int) float64 {
	sum := 0.0
	for i := 0; i < len(w); i += group {
		energy := 0.0
		for _, v := range w[i:min(i+group, len(w))] {
			energy += v * v
		}
		sum += energy * squaredSteps[i/group] / 12
	}
	return sum
}

// What a product may err by, in standard deviations of what rounding activations
// does to it: on average, and a single element. Scales in f16 (ggml's) are part of
// the first; of up to 2^24 elements that are normally distributed none is beyond the
// second.
const (
	maxTypical = 1.25
	maxSingle  = 8
)

// AgreeError says that a product is another than the definition's.
type AgreeError struct {
	Typical, Largest float64 // errors in standard deviations
	Row, Act         int     // of the largest
}

func (e *AgreeError) Error() string {
	return fmt.Sprintf("measure: the product is another: errors are %.2f standard deviations of what int8 activations explain, at most %.2f allowed; row %d times activations %d is off by %.1f, at most %d allowed",
		e.Typical, maxTypical, e.Row, e.Act, e.Largest, maxSingle)
}

// Agree compares a product, of row r with activations j at j*m+r, whose activations
// were quantized to int8 with a scale for each group (one of those the reference was
// made for). It returns the root mean square of its errors relative to that of the
// product; errors that rounding does not explain are an *AgreeError.
func (ref *Reference) Agree(got []float32, group int) (relative float64, err error) {
	var diff, all, expected float64
	worst := AgreeError{}
	for g, have := range ref.groups {
		if have != group {
			continue
		}
		for i, want := range ref.want {
			e := float64(got[ref.at[i]]) - want
			diff, all, expected = diff+e*e, all+want*want, expected+ref.variance[g][i]
			size := math.Abs(e) / math.Sqrt(ref.variance[g][i])
			if !(size <= worst.Largest) {
				worst.Largest, worst.Row, worst.Act = size, ref.at[i]%ref.m, ref.at[i]/ref.m
			}
		}
		worst.Typical = math.Sqrt(diff / expected)
		if !(worst.Typical <= maxTypical) || !(worst.Largest <= maxSingle) {
			return 0, &worst
		}
		return math.Sqrt(diff / all), nil
	}
	return 0, fmt.Errorf("measure: the reference is not for activations in groups of %d", group)
}
