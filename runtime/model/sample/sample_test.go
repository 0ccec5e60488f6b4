package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func sampler(t *testing.T, temperature float64, seed uint64) *Sampler {
	t.Helper()
	s, err := New(Options{Temperature: temperature, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Temperature 0 takes the first of the largest logits, whatever the seed.
func TestGreedy(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{-5, -2, -2}, 1},
		{[]float32{nan, -1, nan, -3}, 1},
		{[]float32{0, inf, inf}, 1},
		{[]float32{nan}, None},
	} {
		for seed := range uint64(3) {
			if got := sampler(t, 0, seed).Next(c.logits); got != c.want {
				t.Errorf("%v: %d, want %d", c.logits, got, c.want)
			}
		}
	}
}

// Tokens come as often as their probabilities say, across blocks of a softmax, and impossible ones never.
func TestProbabilities(t *testing.T) {
	const tokens, draws = 200, 200_000
	rng := rand.New(rand.NewPCG(3, 4))
	logits := make([]float32, tokens)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	logits[7], logits[70] = float32(math.NaN()), float32(math.Inf(-1))
	for _, temperature := range []float64{0.5, 1, 2} {
		want, total := make([]float64, tokens), 0.0
		for i, x := range logits {
			if x == x {
				want[i] = math.Exp(float64(x) / temperature)
			}
			total += want[i]
		}
		s, counts := sampler(t, temperature, 1), make([]int, tokens)
		for range draws {
			counts[s.Next(logits)]++
		}
		for i, n := range counts {
			p := want[i] / total
			if off := math.Abs(float64(n) - draws*p); off > 6*math.Sqrt(draws*p) {
				t.Errorf("temperature %v, token %d: %d times, want about %.0f", temperature, i, n, draws*p)
			}
		}
	}
}

// The tokens of a seed are the same on every machine: they are written down here.
func TestSeed(t *testing.T) {
	logits := make([]float32, 300)
	for i := range logits {
		logits[i] = float32(i*37%101) / 16
	}
	draw := func(seed uint64) (out []int32) {
		s := sampler(t, 0.8, seed)
		for range 8 {
			out = append(out, s.Next(logits))
		}
		return out
	}
	if got, want := fmt.Sprint(draw(42)), "[76 161 38 79 229 54 30 237]"; got != want {
		t.Errorf("seed 42: %s, want %s", got, want)
	}
	if slices.Equal(draw(1), draw(2)) {
		t.Error("two seeds give the same tokens")
	}
}

// A low temperature is as good as none.
func TestCold(t *testing.T) {
	s := sampler(t, LeastTemperature, 1)
	for range 100 {
		if got := s.Next([]float32{0, 9, 3}); got != 1 {
			t.Fatalf("token %d", got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, x := range []float64{-1, 0.001, 101, math.NaN(), math.Inf(1)} {
		if _, err := New(Options{Temperature: x}); err == nil {
			t.Errorf("temperature %v is taken", x)
		}
	}
}

// Nothing is allocated for a token.
func TestAllocations(t *testing.T) {
	s, logits := sampler(t, 0.8, 1), make([]float32, 1000)
	s.Next(logits)
	if n := testing.AllocsPerRun(100, func() { s.Next(logits) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
