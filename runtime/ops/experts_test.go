//go:build amd64 || arm64

package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
)

func TestAddScaled(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x, y, scale := floats(rng, n, rare), floats(rng, n, rare), floats(rng, 1, rare)[0]
		want := eval(t, "addscaled", map[string]int{"K": n}, map[string]*ir.Array{"x": array(x, n), "y": array(y, n), "scale": one(scale)})["out"]
		dst := make([]float32, n)
		AddScaled(dst, x, y, scale)
		equal(t, fmt.Sprint("sum of ", n), dst, want, true)
		AddScaled(x, x, y, scale)
		equal(t, fmt.Sprint("sum in place of ", n), x, want, true)
	})
}

// ranked is what Route chooses, by sorting.
func ranked(scores []float32) []int32 {
	all := make([]int32, len(scores))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortStableFunc(all, func(i, j int32) int {
		x, y := scores[i], scores[j]
		switch {
		case before(x, y):
			return -1
		case before(y, x):
			return 1
		}
		return 0
	})
	return all
}

// TestRoute compares choices with a sorted list, and weights with the softmax in float64.
func TestRoute(t *testing.T) {
	each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			scores := floats(rng, 1+rng.IntN(200), 0)
			for i := range scores { // with ties
				if rng.IntN(4) == 0 {
					scores[i] = scores[rng.IntN(len(scores))]
				}
			}
			n := 1 + rng.IntN(min(len(scores), Block))
			r := Routing{Normalize: rng.IntN(2) == 0, Scale: []float32{0, 1, 2.5}[rng.IntN(3)]}
			chosen, weights := make([]int32, n), make([]float32, n)
			r.Route(chosen, weights, scores)
			order := ranked(scores)
			if !slices.Equal(chosen, order[:n]) {
				t.Fatalf("of %v it chose %v, want %v", scores, chosen, order[:n])
			}
			for i, w := range softmax64(scores, order, n, r) {
				if math.Abs(float64(weights[i])-w) > 1e-6*w {
					t.Fatalf("%+v: weight %d of %d is %v, want %v", r, i, n, weights[i], w)
				}
			}
		}
	})
}

// softmax64 is the weights of the first n experts of an order.
func softmax64(scores []float32, order []int32, n int, r Routing) []float64 {
	sum, out := 0.0, make([]float64, n)
	for i, j := range order {
		e := math.Exp(float64(scores[j]) - float64(scores[order[0]]))
		if i < n {
			out[i] = e
		}
		if i < n || !r.Normalize {
			sum += e
		}
	}
	for i := range out {
		if out[i] /= sum; r.Scale != 0 {
			out[i] *= float64(r.Scale)
		}
	}
	return out
}

// TestRouteOfNaN: an expert whose score is not a number is chosen, so that the result shows it.
func TestRouteOfNaN(t *testing.T) {
	nan := float32(math.NaN())
	chosen, weights := make([]int32, 2), make([]float32, 2)
	Routing{Normalize: true}.Route(chosen, weights, []float32{1, 5, nan, 7, nan})
	if !slices.Equal(chosen, []int32{2, 4}) || Finite(weights) {
		t.Errorf("chose %v with weights %v", chosen, weights)
	}
}

func TestSigmoid(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, _ int) {
		for _, x := range append(floats(rng, n, 0), 0, 50, -50) {
			if want := 1 / (1 + math.Exp(-float64(x))); math.Abs(float64(Sigmoid(x))-want) > 1e-6*want {
				t.Fatalf("of %v it is %v, want %v", x, Sigmoid(x), want)
			}
		}
		if nan := float32(math.NaN()); Sigmoid(nan) == Sigmoid(nan) {
			t.Fatal("of NaN it is a number")
		}
	})
}

func TestCombine(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		rows, weights, at := floats(rng, 5*n, rare), floats(rng, 3, rare), []int32{4, 0, 2}
		want, dst := make([]float32, n), floats(rng, n, rare)
		for i, row := range at {
			addscaled_go(want, rows[int(row)*n:][:n], weights[i], want, n)
		}
		Combine(dst, rows, at, weights)
		equal(t, fmt.Sprint("three rows of ", n), dst, array(want, n), true)
	})
}

func TestRouteAllocates(t *testing.T) {
	scores, chosen, weights := make([]float32, 100), make([]int32, 8), make([]float32, 8)
	if n := testing.AllocsPerRun(20, func() { Routing{}.Route(chosen, weights, scores) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
