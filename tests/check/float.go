package check

import (
	"fmt"
	"math"
	"math/rand"
)

// floats fills in columns of f32 activations: ordinary numbers, or what kind says. Extreme
// ones are of all sizes and cancel each other.
func (c *Case) floats(rng *rand.Rand, kind Kind) {
	for n := range c.N {
		x := make([]float32, c.K)
		for i := range x {
			v := rng.NormFloat64()
			switch {
			case kind == Extreme && i%2 == 1:
				v = -float64(x[i-1]) * (1 + rng.Float64()/1e6)
			case kind == Extreme:
				v *= math.Exp(20 * rng.NormFloat64())
			case kind == Zeros:
				v = math.Copysign(0, v)
			case kind == Outlier:
				v *= 1e-41 // subnormal
			}
			x[i] = float32(v)
		}
		switch kind {
		case Outlier:
			x[rng.Intn(c.K)] = -3e38
		case NotFinite:
			x[rng.Intn(c.K)] = [...]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32}[n%4]
		}
		c.X = append(c.X, x)
	}
}

// naiveFloat is the definition of element n, m for f32 activations.
func (c *Case) naiveFloat(n, m int) float32 {
	p := c.Problem
	acc := float32(0)
	for k0, group := 0, c.group(); k0 < c.K; k0 += group {
		sum, end := float32(0), min(k0+group, c.K)
		for k := k0; k < end; k += p.Act.Float {
			few := c.term(n, m, k)
			for i := k + 1; i < min(k+p.Act.Float, end); i++ {
				few = float32(few + c.term(n, m, i))
			}
			sum = float32(sum + few)
		}
		acc = float32(acc + float32(sum*c.Source.Scaling(p.Weight, m, k0, c.K).Scale))
	}
	return acc
}

// term is level times activation.
func (c *Case) term(n, m, k int) float32 {
	return float32(float32(c.Problem.Weight.Levels[c.Source.Codes[m*c.K+k]]) * c.X[n][k])
}

// mustBeNear compares the definition of a product of f32 activations with that in
// float64: it is within the bound that format.Act.FloatError derives.
func (c *Case) mustBeNear(out []float32) {
	relative, absolute := c.Problem.Act.FloatError(c.Problem.Weight, c.K)
	for n := range c.N {
		if c.unscaled(n) > math.MaxFloat32 {
			continue // may overflow
		}
		for m := range c.M {
			sum, size := c.realFloat(n, m)
			away := math.Abs(float64(out[n*c.M+m]) - sum)
			if most := relative*size + absolute; size < math.MaxFloat32 && !(away <= most) {
				panic(fmt.Sprintf("column %d row %d: %v is %v away from %v; at most %v", n, m, out[n*c.M+m], away, sum, most))
			}
		}
	}
}

// realFloat is element n, m in float64, and the sum of its magnitudes.
func (c *Case) realFloat(n, m int) (sum, size float64) {
	w := c.Problem.Weight
	for k0 := 0; k0 < c.K; k0 += c.group() {
		scale := float64(c.Source.Scaling(w, m, k0, c.K).Scale)
		for k := k0; k < min(k0+c.group(), c.K); k++ {
			term := scale * float64(w.Levels[c.Source.Codes[m*c.K+k]]) * float64(c.X[n][k])
			sum, size = sum+term, size+math.Abs(term)
		}
	}
	return sum, size
}

// unscaled bounds the sums of column n before they are scaled.
func (c *Case) unscaled(n int) float64 {
	w, size := c.Problem.Weight, 0.0
	for _, x := range c.X[n] {
		size += math.Abs(float64(x)) * float64(max(w.MaxLevel(), -w.MinLevel()))
	}
	return size
}
