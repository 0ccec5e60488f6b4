package ops

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestFunctions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	near := func(what string, have, want, tolerance float64) {
		t.Helper()
		if !(math.Abs(have-want) <= tolerance*max(1, math.Abs(want))) {
			t.Errorf("%s: %v, want %v", what, have, want)
		}
	}
	for range 20000 {
		x := math.Exp(rng.NormFloat64() * 10)
		near("ln", ln(x), math.Log(x), 4e-16)
		y := rng.NormFloat64() * 10
		near("exp", expOf(y)/math.Exp(y), 1, 1e-14)
		u := rng.Uint64()
		s, c := sinCos(u)
		ws, wc := math.Sincos(math.Ldexp(float64(int64(u)), -64) * 2 * math.Pi)
		near("sin", s, ws, 6e-16)
		near("cos", c, wc, 6e-16)
	}
}

// TestAngles compares angles at high positions with sums of 300 bits.
func TestAngles(t *testing.T) {
	a := NewAngles(Rotation{Dims: 64, Base: 500000, Scale: 1, Magnitude: 1})
	cos, sin := make([]float32, 32), make([]float32, 32)
	pi, _ := new(big.Float).SetPrec(300).SetString("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651")
	whole := new(big.Float).SetPrec(300).Mul(pi, big.NewFloat(2))
	for _, position := range []int{0, 1, 2, 511, 131071, 1<<20 + 3} {
		a.Fill(cos, sin, position)
		for i := range cos {
			angle := new(big.Float).SetPrec(300).Mul(big.NewFloat(math.Pow(500000, -float64(i)/32)), big.NewFloat(float64(position)))
			turns, _ := new(big.Float).Quo(angle, whole).Int(nil)
			rest, _ := angle.Sub(angle, new(big.Float).SetPrec(300).Mul(whole, new(big.Float).SetInt(turns))).Float64()
			if math.Abs(float64(cos[i])-math.Cos(rest)) > 1e-7 || math.Abs(float64(sin[i])-math.Sin(rest)) > 1e-7 {
				t.Errorf("position %d, pair %d: %v %v, want %v %v", position, i, cos[i], sin[i], math.Cos(rest), math.Sin(rest))
			}
		}
	}
}

// TestYaRN: fast pairs rotate as without scaling, slow ones are slower by the scale, and all grow by the magnitude.
func TestYaRN(t *testing.T) {
	plain := Rotation{Dims: 128, Base: 1e6, Scale: 1, Magnitude: 1}
	yarn := Rotation{Dims: 128, Base: 1e6, Scale: 4, Magnitude: 1, YaRN: &YaRN{Original: 128, Fast: 32, Slow: 1}}
	slow := Rotation{Dims: 128, Base: 1e6, Scale: 4, Magnitude: 1}
	if at := yarn.slowing(0); at != 1 {
		t.Errorf("the first pair is slowed by %v", at)
	}
	if at := yarn.slowing(63); at != 0.25 {
		t.Errorf("the last pair is slowed by %v", at)
	}
	magnitude := 0.1*math.Log(4) + 1
	var cos, sin [3][64]float32
	for i, r := range []Rotation{plain, yarn, slow} {
		NewAngles(r).Fill(cos[i][:], sin[i][:], 77)
	}
	for i, of := range map[int]int{0: 0, 63: 2} {
		if have, want := float64(cos[1][i]), float64(cos[of][i])*magnitude; math.Abs(have-want) > 1e-6 {
			t.Errorf("pair %d: %v, want %v", i, have, want)
		}
	}
}

// TestMultiplier: YaRN's factor of cosines is divided by another one.
func TestMultiplier(t *testing.T) {
	var cos, sin [1]float32
	r := Rotation{Dims: 2, Base: 1e6, Scale: 4, Magnitude: 3, YaRN: &YaRN{Original: 128, Fast: 32, Slow: 1, Multiplier: 0.5}}
	NewAngles(r).Fill(cos[:], sin[:], 0)
	if have, want := float64(cos[0]), 3*(0.1*math.Log(4)+1)/(0.05*math.Log(4)+1); math.Abs(have-want) > 1e-6 {
		t.Errorf("cos(0) is %v, want %v", have, want)
	}
}

// TestGrowth: queries grow by a logarithm, in steps.
func TestGrowth(t *testing.T) {
	for position, want := range map[int]float64{0: 1, 99: 1, 100: 1 + 0.5*math.Log(2), 350: 1 + 0.5*math.Log(4)} {
		if have := float64(Growth(position, 100, 0.5)); math.Abs(have-want) > 1e-7 {
			t.Errorf("position %d: %v, want %v", position, have, want)
		}
	}
}

// TestLinear: scaling by 4 rotates position 4n as position n is rotated without it.
func TestLinear(t *testing.T) {
	var cos, sin [2][4]float32
	for n := range 40 {
		NewAngles(Rotation{Dims: 8, Base: 10000, Scale: 4, Magnitude: 1}).Fill(cos[0][:], sin[0][:], 4*n)
		NewAngles(Rotation{Dims: 8, Base: 10000, Scale: 1, Magnitude: 1}).Fill(cos[1][:], sin[1][:], n)
		if cos[0] != cos[1] || sin[0] != sin[1] {
			t.Errorf("position %d: %v %v, want %v %v", n, cos[0], sin[0], cos[1], sin[1])
		}
	}
}

func TestFactors(t *testing.T) {
	var cos, sin [2][4]float32
	NewAngles(Rotation{Dims: 8, Base: 10000, Scale: 1, Magnitude: 1, Factors: []float32{1, 2, 4, 8}}).Fill(cos[0][:], sin[0][:], 8)
	for i, position := range []int{8, 4, 2, 1} {
		NewAngles(Rotation{Dims: 8, Base: 10000, Scale: 1, Magnitude: 1}).Fill(cos[1][:], sin[1][:], position)
		if cos[0][i] != cos[1][i] || sin[0][i] != sin[1][i] {
			t.Errorf("pair %d: %v %v, want %v %v", i, cos[0][i], sin[0][i], cos[1][i], sin[1][i])
		}
	}
}
