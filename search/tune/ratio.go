package tune

import (
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/search/timing"
)

// Ratio is the result of repeated measurements of a ratio: their median, and bounds of the true median by their spread.
// The true median lies below Low in at most 5 of 100 cases, and above High in at most 5 of 100 cases. This holds however
// the measurements are distributed.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// RatioOf returns the ratio that the measurements `xs` give. It needs at least 5 of them to find bounds. With 8, the
// bounds are the second lowest and the second highest measurement.
func RatioOf(xs []float64) Ratio {
	r := Ratio{timing.Median(xs), 0, math.Inf(1)}
	if k := bound(len(xs)); k > 0 {
		s := slices.Sorted(slices.Values(xs))
		r.Low, r.High = s[k-1], s[len(s)-k]
	}
	return r
}

// unlikely is how often a bound may be wrong by chance.
const unlikely = 0.05

// bound is the largest k for which this holds: in at most 5 of 100 cases fewer than k of n measurements lie below their
// true median. It is 0 if there is none.
func bound(n int) (k int) {
	chance, below := math.Pow(0.5, float64(n)), 0.0 // of exactly k, and of fewer than k + 1
	for ; k < n; k++ {
		if below += chance; below > unlikely {
			break
		}
		chance *= float64(n-k) / float64(k+1)
	}
	return k
}

// Less says that the ratio is below 1, and Greater that it is above, beyond the noise of its measurements.
func (r Ratio) Less() bool    { return r.High < 1 }
func (r Ratio) Greater() bool { return r.Low > 1 }

// String is "0.97 ± 0.02", or "0.97" without bounds: too few measurements give none, and the log of an earlier search may have none.
func (r Ratio) String() string {
	noise := max(r.High-r.Median, r.Median-r.Low)
	switch {
	case math.IsInf(noise, 1):
		return fmt.Sprintf("%.2f", r.Median)
	case noise < 0.01:
		return fmt.Sprintf("%.3f ± %.3f", r.Median, noise)
	}
	return fmt.Sprintf("%.2f ± %.2f", r.Median, noise)
}

// Beside is a purpose with repeated measurements of a candidate and of a base, each time both in the same rounds.
type Beside struct {
	Purpose
	Ns, BaseNs []float64 // of each time
}

// ratios returns the ratio of each measurement.
func (b *Beside) ratios() (out []float64) {
	for i, ns := range b.Ns {
		out = append(out, ns/b.BaseNs[i])
	}
	return out
}

// Ratio is that of the candidate's time to the base's.
func (b *Beside) Ratio() Ratio { return RatioOf(b.ratios()) }

// Together is the ratio of the times for several purposes: each time their geometric mean.
func Together(all []Beside) Ratio {
	var means []float64
	for i := range all[0].Ns {
		sum := 0.0
		for _, b := range all {
			sum += math.Log(b.Ns[i] / b.BaseNs[i])
		}
		means = append(means, math.Exp(sum/float64(len(all))))
	}
	return RatioOf(means)
}

// Losses are the purposes for which the candidate takes longer than the base, beyond the noise.
func Losses(all []Beside) (out []Beside) {
	for _, b := range all {
		if b.Ratio().Greater() {
			out = append(out, b)
		}
	}
	return out
}
