//go:build amd64 || arm64

package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/operator"
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

// numbers counts from 0 on.
func numbers(n int) *ir.Array {
	a := ir.NewArray(n)
	for i := range a.V {
		a.V[i] = int64(i)
	}
	return a
}

// TestRouteOnDevices: the operators of devices choose what Route chooses, in the same order, also of equal scores, zeros of both signs, infinities and NaNs.
func TestRouteOnDevices(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 4, 9, 64, 70} {
		for _, rare := range []int{0, 3} {
			scores, size := floats(rng, n, rare), map[string]int{"E": n}
			for i := range scores { // with ties
				if rng.IntN(4) == 0 {
					scores[i] = scores[rng.IntN(n)]
				}
			}
			used := min(n, 1+rng.IntN(Block))
			want, weights := make([]int32, used), make([]float32, used)
			Routing{Normalize: true}.Route(want, weights, scores)
			ranks := ir.NewArray(n)
			for i, x := range scores {
				ranks.V[i] = eval(t, "rank", size, map[string]*ir.Array{"x": array(scores, n), "number": numbers(n), "own": one(x), "at": whole(i)})["rank"].V[0]
			}
			out := eval(t, "choose", size, map[string]*ir.Array{"x": array(scores, n), "rank": ranks, "number": numbers(n), "place": numbers(Block)})
			for i, expert := range want {
				if have, score := int32(out["chosen"].V[i]), uint32(out["score"].V[i]); have != expert || score != math.Float32bits(scores[expert]) {
					t.Fatalf("of %v it chose %d with the score %x at %d, want %d", scores, have, score, i, expert)
				}
			}
		}
	}
}

// TestSlotsOnDevices: the operators of devices sort places by experts into blocks of one expert each, in the order of places.
func TestSlotsOnDevices(t *testing.T) {
	if MostPlaces != operator.MostPlaces {
		t.Errorf("keys tell %d places apart, %d are sorted", operator.MostPlaces, MostPlaces)
	}
	rng := rand.New(rand.NewPCG(7, 9))
	for _, places := range []int{1, 5, 32, 70} {
		for _, experts := range []int{1, 3, 40} {
			for _, cols := range []int{2, 4, 32} {
				slotsOf(t, rng, places, experts, cols)
			}
		}
	}
}

func slotsOf(t *testing.T, rng *rand.Rand, places, experts, cols int) {
	chosen, keys, size := make([]int, places), ir.NewArray(places), map[string]int{"P": places}
	for i := range chosen {
		chosen[i] = rng.IntN(experts)
		out := eval(t, "key", nil, map[string]*ir.Array{"chosen": whole(chosen[i]), "number": whole(i)})
		if int(out["expert"].V[0]) != chosen[i] {
			t.Fatalf("expert %d of a place is %d", out["expert"].V[0], chosen[i])
		}
		keys.V[i] = out["key"].V[0]
	}
	// panels are what an operator says of all places, Panel of them at a time
	panels := func(name string, of func(first int) map[string]*ir.Array) *ir.Array {
		all := ir.NewArray(places)
		for first := 0; first < places; first += Panel {
			copy(all.V[first:], eval(t, name, size, of(first))[name].V)
		}
		return all
	}
	panel := func(of *ir.Array, first int) *ir.Array {
		x := ir.NewArray(Panel)
		copy(x.V, of.V[first:])
		return x
	}
	earlier := panels("earlier", func(first int) map[string]*ir.Array {
		return map[string]*ir.Array{"key": keys, "own": panel(keys, first)}
	})
	slots := panels("slot", func(first int) map[string]*ir.Array {
		return map[string]*ir.Array{"key": keys, "earlier": earlier, "own": panel(keys, first), "column": panel(earlier, first), "mask": whole(cols - 1)}
	})
	next := 0
	for expert := range experts {
		for i, of := range chosen {
			if of != expert {
				continue
			}
			if int(slots.V[i]) != next {
				t.Fatalf("place %d of experts %v comes at %d, want %d in blocks of %d", i, chosen, slots.V[i], next, cols)
			}
			found := eval(t, "found", size, map[string]*ir.Array{"key": slots, "value": numbers(places), "own": panel(numbers(next+1+Panel), next)})["found"]
			if int(found.V[0]) != i {
				t.Fatalf("slot %d has place %d, want %d", next, found.V[0], i)
			}
			next++
		}
		next = (next + cols - 1) / cols * cols
	}
	if found := eval(t, "found", size, map[string]*ir.Array{"key": slots, "value": keys, "own": panel(numbers(next+2*Panel), next+1)})["found"]; found.V[0] != 0 {
		t.Fatalf("a slot that nobody has has %d", found.V[0])
	}
}

// whole is a tensor of one whole number.
func whole(n int) *ir.Array {
	x := ir.NewArray(1)
	x.V[0] = int64(n)
	return x
}

// TestWeightedOnDevices: sigmoids and weighted sums of devices have the bits of Sigmoid and Combine.
func TestWeightedOnDevices(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x := append(floats(rng, n, rare), 0, 50, -50, 100, -100)
		sigmoid := make([]float32, len(x))
		for i, v := range x {
			sigmoid[i] = Sigmoid(v)
		}
		equal(t, "sigmoid", sigmoid, eval(t, "sigmoid", map[string]int{"K": len(x)}, map[string]*ir.Array{"x": array(x, len(x))})["out"], true)
		rows, weights, dst := floats(rng, 3*n, rare), floats(rng, 3, rare), make([]float32, n)
		Combine(dst, rows, []int32{0, 1, 2}, weights)
		equal(t, fmt.Sprint("three rows of ", n), dst, eval(t, "weighted", map[string]int{"K": n, "U": 3}, map[string]*ir.Array{"y": array(rows, 3, n), "w": array(weights, 3)})["out"], true)
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
