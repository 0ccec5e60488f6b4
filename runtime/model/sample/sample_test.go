package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func sampler(t *testing.T, temperature float64, seed uint64) *Sampler {
	t.Helper()
	return made(t, Options{Temperature: temperature, Seed: seed})
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
	const tokens, draws = 200, 50_000
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

// A bad option is an error that names it.
func TestNewRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for option, bad := range map[string][]Options{
		"Temperature": {{Temperature: -1}, {Temperature: 0.001}, {Temperature: 101}, {Temperature: nan}, {Temperature: inf}, {Mirostat: 2}},
		"TopK":        {{TopK: -1}},
		"TopP":        {{TopP: -0.1}, {TopP: 1.1}, {TopP: nan}},
		"MinP":        {{MinP: -0.1}, {MinP: 1.1}, {MinP: nan}},
		"Typical":     {{Typical: -0.1}, {Typical: 1.1}, {Typical: nan}},
		"RepeatLast":  {{RepeatLast: -2}},
		"Repeat":      {{Repeat: -1}, {Repeat: 1e-4}, {Repeat: inf}, {Repeat: nan}},
		"Presence":    {{Presence: inf}, {Presence: -1001}, {Presence: nan}},
		"Frequency":   {{Frequency: -inf}, {Frequency: 1001}, {Frequency: nan}},
		"Bias":        {{Bias: map[int32]float32{-1: 1}}, {Bias: map[int32]float32{1: float32(nan)}}},
		"Mirostat":    {{Temperature: 1, Mirostat: 3}, {Temperature: 1, Mirostat: -1}},
		"Tau":         {{Tau: -1}, {Tau: nan}, {Tau: inf}},
		"Eta":         {{Eta: -1}, {Eta: nan}, {Eta: 2}},
	} {
		for _, o := range bad {
			_, err := New(o)
			if e := (*Error)(nil); !errors.As(err, &e) || e.Option != option || !strings.Contains(err.Error(), option) {
				t.Errorf("%s of %+v: %v", option, o, err)
			}
		}
	}
}

// Nothing is allocated for a token.
func TestAllocations(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i * 37 % 101)
	}
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.1, Typical: 0.9}, {Temperature: 1, Mirostat: 1},
		{Temperature: 1, Mirostat: 2}, {Temperature: 1, Repeat: 1.1, Presence: 1, Frequency: 1, Bias: map[int32]float32{3: 1}}} {
		s := made(t, o)
		for range 200 {
			s.Next(logits)
		}
		if n := testing.AllocsPerRun(200, func() { s.Next(logits) }); n != 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
	}
}
