package ops

import (
	"fmt"
	"math"
)

// Rotation says by which angles positions rotate the pairs of a head (RoPE). Pair i of d/2 pairs rotates by
// position * Base^(-2i/d) / Factors[i], which scaling may lessen.
type Rotation struct {
	Dims    int       // elements of a head that are rotated, an even number
	Base    float64   // above 0
	Factors []float32 // of each pair, which divide its angle, or nil
	Scale   float64   // that positions are divided by; 1 for none
	// Magnitude multiplies all cosines and sines; 1 for nothing. YaRN multiplies them by 0.1 ln(Scale) + 1 besides.
	Magnitude float64
	// YaRN, unless nil, divides the positions of slow pairs by Scale, of fast ones by nothing, and of the others by something between.
	YaRN *YaRN
}

// YaRN has the parameters of that scaling ("YaRN: Efficient Context Window Extension of Large Language Models", section 3).
type YaRN struct {
	Original   int     // positions that the model was trained with
	Fast, Slow float64 // full turns within Original from which a pair is fast, and up to which it is slow
	Multiplier float64 // of ln(Scale) in 0.1 ln(Scale) + 1, by which cosines and sines are divided; 0 for nothing
}

// Check is an error unless angles of r are finite.
func (r Rotation) Check() error {
	for i, f := range r.Factors {
		if !(f > 0 && f <= math.MaxFloat32) {
			return fmt.Errorf("factor %d of rope is %v; it must be a finite number above 0", i, f)
		}
	}
	return nil
}

// Angles are the cosines and sines of a Rotation. They have the same bits on every machine: sums and products of float64 in a
// fixed order, none fused, and integers of 64 bits.
type Angles struct {
	turns     []uint64 // of each pair for one position, in units of 2^-64 turns, without whole turns
	magnitude float64
}

// NewAngles makes the angles of a rotation.
func NewAngles(r Rotation) *Angles {
	a := &Angles{turns: make([]uint64, r.Dims/2), magnitude: r.Magnitude}
	slow := func(int) float64 { return 1 / r.Scale }
	if r.YaRN != nil {
		slow = r.slowing
		if r.Scale > 1 {
			a.magnitude = float64(a.magnitude*(1+float64(0.1*ln(r.Scale)))) / (1 + float64(float64(0.1*r.YaRN.Multiplier)*ln(r.Scale)))
		}
	}
	for i := range a.turns {
		angle := expOf(float64(float64(-2*i) / float64(r.Dims) * ln(r.Base)))
		if r.Factors != nil {
			angle /= float64(r.Factors[i])
		}
		turns := float64(float64(angle*slow(i)) * (1 / (2 * math.Pi)))
		a.turns[i] = uint64(math.Ldexp(turns-math.Floor(turns), 64))
	}
	return a
}

// Growth is what queries at a position are multiplied by for late positions to count more: 1 + scale * ln(1 + floor(position / per)).
func Growth(position, per int, scale float64) float32 {
	return float32(1 + float64(scale*ln(1+float64(position/per))))
}

// slowing is what YaRN multiplies the angle of pair i by: 1 for a fast pair, 1/Scale for a slow one.
func (r Rotation) slowing(i int) float64 {
	// pair is the number, not a whole one, of the pair that makes so many turns within Original.
	pair := func(turns float64) float64 {
		return float64(float64(r.Dims)*ln(float64(r.YaRN.Original)/float64(turns*(2*math.Pi)))) / float64(2*ln(r.Base))
	}
	low := max(0, math.Floor(pair(r.YaRN.Fast)))
	high := min(float64(r.Dims-1), math.Ceil(pair(r.YaRN.Slow)))
	at := min(1, max(0, (float64(i)-low)/max(0.001, high-low)))
	return float64(at/r.Scale) + (1 - at)
}

// Pairs is how many pairs are rotated.
func (a *Angles) Pairs() int { return len(a.turns) }

// Fill writes the cosines and sines of a position, one for each pair. Reduction to less than a turn is exact: it is what a
// product of 64-bit integers leaves out.
func (a *Angles) Fill(cos, sin []float32, position int) {
	for i, t := range a.turns {
		s, c := sinCos(uint64(position) * t)
		cos[i], sin[i] = float32(float64(c*a.magnitude)), float32(float64(s*a.magnitude))
	}
}

// sinCos is the sine and the cosine of an angle in units of 2^-64 turns.
func sinCos(angle uint64) (sin, cos float64) {
	quarter := (angle + 1<<61) >> 62 // the nearest
	x := float64(float64(int64(angle-quarter<<62)) * (2 * math.Pi / (1 << 64)))
	s, c := sinOf(x), cosOf(x)
	switch quarter % 4 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// The Taylor series of sine, cosine and exponential, from the highest power down.
var (
	sinTerms         = []float64{1. / 355687428096000, -1. / 1307674368000, 1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, -1. / 6}
	cosTerms         = []float64{-1. / 6402373705728000, 1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800, 1. / 40320, -1. / 720, 1. / 24, -1. / 2}
	exponentialTerms = []float64{1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}
)

// horner is the polynomial of x with these terms.
func horner(terms []float64, x float64) float64 {
	sum := terms[0]
	for _, t := range terms[1:] {
		sum = float64(sum*x) + t
	}
	return sum
}

// sinOf is the sine of x, which is at most pi/4.
func sinOf(x float64) float64 {
	square := float64(x * x)
	return x + float64(x*float64(square*horner(sinTerms, square)))
}

// cosOf is the cosine of x, which is at most pi/4.
func cosOf(x float64) float64 {
	square := float64(x * x)
	return 1 + float64(square*horner(cosTerms, square))
}

// ln is the natural logarithm of a finite x above 0: 2 artanh(s) = 2 (s + s^3/3 + s^5/5 ...) of a number near 1, and its exponent.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	square, sum := float64(s*s), 0.0
	for n := 23; n > 0; n -= 2 {
		sum = float64(sum*square) + 1/float64(n)
	}
	return float64(float64(e)*math.Ln2) + float64(2*float64(s*sum))
}

// expOf is the exponential of x, which has less than 1000 as its magnitude.
func expOf(x float64) float64 {
	n := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	r := x - float64(n*0x1.62e42feep-1) // 32 bits of ln 2: times n it is exact
	r -= float64(n * (math.Ln2 - 0x1.62e42feep-1))
	return math.Ldexp(horner(exponentialTerms, r), int(n))
}
