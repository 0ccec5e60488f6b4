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

// near compares a product of f32 activations with that in float64: it must be within
// the bound that format.Act.FloatError derives.
func (c *Case) near(out []float32) error {
	w := c.Problem.Weight
	relative, absolute := c.Problem.Act.FloatError(w, c.K)
	for n := range c.N {
		if c.unscaled(n) > math.MaxFloat32 {
			continue // may overflow
		}
		for m := range c.M {
			sum, size := 0.0, 0.0
			for k := range c.K {
				scale := float64(c.Source.Scaling(w, m, k/c.group()*c.group(), c.K).Scale)
				term := scale * float64(c.level(m, k)) * float64(c.X[n][k])
				sum, size = sum+term, size+math.Abs(term)
			}
			got := float64(out[n*c.M+m])
			if size < math.MaxFloat32 && !(math.Abs(got-sum) <= relative*size+absolute) {
				return fmt.Errorf("column %d row %d: %v is %v away from %v; at most %v", n, m, got, got-sum, sum, relative*size+absolute)
			}
		}
	}
	return nil
}

// unscaled bounds the sums of column n before they are scaled.
func (c *Case) unscaled(n int) float64 {
	w, size := c.Problem.Weight, 0.0
	for _, x := range c.X[n] {
		size += math.Abs(float64(x)) * float64(max(w.MaxLevel(), -w.MinLevel()))
	}
	return size
}
