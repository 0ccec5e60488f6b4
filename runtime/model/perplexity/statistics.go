package perplexity

import (
	"math"
	"slices"

	"github.com/tmacc/tmacc/runtime/ops"
)

// Estimate is a figure with its standard error.
type Estimate struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// Result is what was measured.
type Result struct {
	Chunks     int         `json:"chunks"`
	Tokens     int         `json:"tokens"` // that were predicted and count
	NLL        Estimate    `json:"nll"`    // mean negative log-likelihood, in nats
	Perplexity Estimate    `json:"perplexity"`
	Base       *Comparison `json:"base,omitempty"` // nil: there was none
}

// Comparison is what was measured beside a base. Divergences are KL(base || model) of each prediction, in nats, and differences are
// the probability of the token that came by the model, minus the one by the base.
type Comparison struct {
	Perplexity  Estimate      `json:"perplexity"`  // of the base
	Correlation float64       `json:"correlation"` // of the logarithms of both perplexities
	LogRatio    Estimate      `json:"log_ratio"`   // of the perplexity to the base's
	Ratio       Estimate      `json:"ratio"`
	Difference  Estimate      `json:"difference"`
	Divergence  Estimate      `json:"kl_divergence"`
	Divergences *Distribution `json:"kl_divergences,omitempty"` // nil until all chunks are done, as Deltas
	Delta       Estimate      `json:"delta_p"`
	DeltaRMS    Estimate      `json:"delta_p_rms"` // the root of the mean square
	Deltas      *Distribution `json:"delta_ps,omitempty"`
	SameTop     Estimate      `json:"same_top"` // the share of predictions whose likeliest tokens are the same, 0 to 1
}

// Distribution is the values that the given shares of all values do not exceed, with linear interpolation.
type Distribution struct {
	Minimum float64 `json:"minimum"`
	P001    float64 `json:"p0.1"`
	P01     float64 `json:"p1"`
	P05     float64 `json:"p5"`
	P10     float64 `json:"p10"`
	P25     float64 `json:"p25"`
	Median  float64 `json:"median"`
	P75     float64 `json:"p75"`
	P90     float64 `json:"p90"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p99.9"`
	Maximum float64 `json:"maximum"`
}

// newDistribution sorts values.
func newDistribution(values []float64) *Distribution {
	slices.Sort(values)
	at := func(share float64) float64 {
		p := float64(share * float64(len(values)-1))
		i := int(p)
		next := values[min(i+1, len(values)-1)]
		return values[i] + float64((p-float64(i))*(next-values[i]))
	}
	return &Distribution{at(0), at(0.001), at(0.01), at(0.05), at(0.1), at(0.25), at(0.5), at(0.75), at(0.9), at(0.95), at(0.99), at(0.999), at(1)}
}

// exponential is the estimate of e to the power of what was estimated.
func (e Estimate) exponential() Estimate {
	x := ops.Exp(e.Value)
	return Estimate{x, float64(x * e.Error)}
}

// moments are the count, the sum and the sum of squares of values.
type moments struct{ n, sum, square float64 }

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.square += float64(x * x)
}

// estimate is the mean and its standard error.
func (m *moments) estimate() Estimate {
	mean := m.sum / m.n
	if m.n < 2 {
		return Estimate{Value: mean}
	}
	return Estimate{mean, math.Sqrt(max(0, m.square/m.n-float64(mean*mean)) / (m.n - 1))}
}

// sums are what figures are made of.
type sums struct {
	nll, base, divergence, delta, square moments // square is of the squares of delta
	product                              float64 // of nll and base
	same                                 float64 // predictions with the same likeliest token
	divergences, deltas                  []float64
}

// add adds a value, beside a base or not.
func (s *sums) add(v *value, beside bool) {
	s.nll.add(v.nll)
	if !beside {
		return
	}
	delta := ops.Exp(-v.nll) - ops.Exp(-v.base)
	s.base.add(v.base)
	s.product += float64(v.nll * v.base)
	s.divergence.add(v.divergence)
	s.delta.add(delta)
	s.square.add(float64(delta * delta))
	if v.sameTop {
		s.same++
	}
	s.divergences = append(s.divergences, v.divergence)
	s.deltas = append(s.deltas, delta)
}

// compare sets the figures of c that sums suffice for.
func (s *sums) compare(c *Comparison) {
	nll, base := s.nll.estimate(), s.base.estimate()
	covariance := 0.0 // of the means
	if s.nll.n > 1 {
		covariance = (s.product/s.nll.n - float64(nll.Value*base.Value)) / (s.nll.n - 1)
	}
	// difference is the error of the difference of two estimates whose errors have that covariance.
	difference := func(a, b, covariance float64) float64 {
		return math.Sqrt(max(0, float64(a*a)+float64(b*b)-float64(2*covariance)))
	}
	here, there := nll.exponential(), base.exponential()
	c.Perplexity = there
	if both := float64(nll.Error * base.Error); both > 0 {
		c.Correlation = covariance / both
	}
	c.LogRatio = Estimate{nll.Value - base.Value, difference(nll.Error, base.Error, covariance)}
	c.Ratio = c.LogRatio.exponential()
	c.Difference = Estimate{here.Value - there.Value, difference(here.Error, there.Error, float64(float64(here.Value*there.Value)*covariance))}
	c.Divergence, c.Delta = s.divergence.estimate(), s.delta.estimate()
	square := s.square.estimate()
	c.DeltaRMS.Value = math.Sqrt(square.Value)
	if c.DeltaRMS.Value > 0 {
		c.DeltaRMS.Error = 0.5 / c.DeltaRMS.Value * square.Error
	}
	c.SameTop.Value = s.same / s.nll.n
	if s.nll.n > 1 {
		c.SameTop.Error = math.Sqrt(c.SameTop.Value * (1 - c.SameTop.Value) / (s.nll.n - 1))
	}
}

// distribute sets the distributions of c. It sorts the values.
func (c *Comparison) distribute(divergences, deltas []float64) {
	c.Divergences, c.Deltas = newDistribution(divergences), newDistribution(deltas)
}
