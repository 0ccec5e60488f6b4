package page

import (
	"cmp"
	"math"
	"slices"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// bytesOf returns the bytes of weights and scales that a product of each purpose reads, by the layout of a schedule. They are 0 if this
// program cannot compile it.
func (s Search) bytesOf(t schedule.Trace) []float64 {
	out := make([]float64, len(s.Purposes))
	if s.Problem == nil {
		return out
	}
	k, err := schedule.Compile(*s.Problem, t)
	if err != nil {
		return out
	}
	x := bench.Subject{Problem: *s.Problem, Variant: variant.Variant{Target: s.Target, Kernels: []variant.Kernel{{Schedule: k}}}}
	for i, p := range s.Purposes {
		r, weights := x.Record(p.Mode, p.M, p.N, p.K)
		r.Ns = 1
		r, _ = r.Complete(weights) // an error is about ceilings, which r has not
		out[i] = r.GBS
	}
	return out
}

// measuredFor reports whether a trial has a time for purpose i.
func (s Search) measuredFor(t *tune.Trial, i int) bool {
	return t.Error == "" && i < len(t.Ns) && i < len(t.Ratios) && t.Ns[i] > 0 && t.Ratios[i] > 0
}

// ceilings are what the machine can do for purpose i, zeros if the log does not say it.
func (s Search) ceilings(i int) tune.Ceilings {
	if i >= len(s.Run.Ceilings) {
		return tune.Ceilings{}
	}
	return s.Run.Ceilings[i]
}

func products(p tune.Purpose) float64 { return float64(p.M) * float64(p.N) * float64(p.K) }

// rates are what a trial reaches for each purpose that it was measured for.
func (s Search) rates(t *tune.Trial) (out []rate) {
	bytes := s.bytesOf(t.Genes[0].Trace)
	for i, p := range s.Purposes {
		if s.measuredFor(t, i) {
			out = append(out, rate{Purpose: tune.PurposesText(p), Ns: t.Ns[i], Ratio: t.RatioFor(i), GMACS: products(p) / t.Ns[i], CeilingGMACS: s.ceilings(i).DotGMACS,
				GBS: bytes[i] / t.Ns[i], CeilingGBS: s.ceilings(i).ReadGBS})
		}
	}
	return out
}

// attained is what a schedule that reads these bytes reaches for a purpose in ns nanoseconds.
func attained(p tune.Purpose, bytes, ns float64) picture.Attained {
	if bytes == 0 || ns == 0 {
		return picture.Attained{}
	}
	return picture.Attained{Intensity: products(p) / bytes, Rate: products(p) / ns}
}

// usualNs is the default schedule's time for purpose i: the median of its times beside the candidates.
func (s Search) usualNs(i int) float64 {
	var all []float64
	for j := range s.Trials {
		if t := &s.Trials[j]; s.measuredFor(t, i) {
			all = append(all, t.Ns[i]/t.Ratios[i])
		}
	}
	if len(all) == 0 {
		return 0
	}
	return timing.Median(all)
}

// drawCeilings draws all candidates, the default schedule and the best one below what the machine can do. It is nil if the log does not say
// what that is, or this program does not know the product, or cannot compile any schedule.
func (s Search) drawCeilings(best *tune.Trial) (*drawing, error) {
	if s.Problem == nil || len(s.Run.Ceilings) < len(s.Purposes) {
		return nil, nil
	}
	var usual []float64
	if len(s.Usual) > 0 {
		usual = s.bytesOf(s.Usual[0])
	}
	var places []picture.Place
	for i, p := range s.Purposes {
		at := slices.IndexFunc(places, func(x picture.Place) bool { return x.Name == p.Mode })
		if at < 0 {
			at, places = len(places), append(places, picture.Place{Name: p.Mode, ReadGBS: s.ceilings(i).ReadGBS})
		}
		if usual != nil {
			places[at].Default = append(places[at].Default, attained(p, usual[i], s.usualNs(i)))
		}
	}
	for j := range s.Trials {
		t := &s.Trials[j]
		if t.Error != "" || len(t.Genes) == 0 {
			continue
		}
		bytes := s.bytesOf(t.Genes[0].Trace)
		for i, p := range s.Purposes {
			if !s.measuredFor(t, i) {
				continue
			}
			x := &places[slices.IndexFunc(places, func(x picture.Place) bool { return x.Name == p.Mode })]
			if x.Candidates = append(x.Candidates, attained(p, bytes[i], t.Ns[i])); t == best {
				x.Best = append(x.Best, attained(p, bytes[i], t.Ns[i]))
			}
		}
	}
	if !slices.ContainsFunc(places, func(x picture.Place) bool { return slices.ContainsFunc(x.Candidates, picture.Attained.Known) }) {
		return nil, nil
	}
	out, err := drawn(picture.Ceilings("Below what the machine can do: "+s.Product+" on "+s.Run.Target, s.Source(), s.ceilings(0).DotGMACS, places))
	return &out, err
}

// drawForecasts draws what models said of the candidates beside what was measured. It returns nothing if the log does not say it.
func (s Search) drawForecasts() (models []model, _ *drawing, _ error) {
	var all []picture.Forecast
	for _, x := range []struct {
		name string
		said func(*tune.Trial) float64
	}{
		{"the model of the core", func(t *tune.Trial) float64 { return t.Estimate }},
		{"as corrected by the search", func(t *tune.Trial) float64 { return t.Predicted }},
	} {
		f := picture.Forecast{Model: x.name}
		var said, took []float64
		for i := range s.Trials {
			if t := &s.Trials[i]; t.Error == "" && t.Cost > 0 && x.said(t) > 0 {
				f.Pairs = append(f.Pairs, picture.Foretold{Predicted: x.said(t), Measured: t.Cost})
				said, took = append(said, x.said(t)), append(took, t.Cost)
			}
		}
		if len(f.Pairs) > 1 {
			all, models = append(all, f), append(models, model{x.name, len(f.Pairs), rankCorrelation(said, took)})
		}
	}
	if len(all) == 0 {
		return nil, nil, nil
	}
	out, err := drawn(picture.Forecasts("Predicted and measured: "+s.Product+" on "+s.Run.Target, s.Source(), all))
	return models, &out, err
}

// rankCorrelation is Spearman's: the correlation of the ranks of as and bs, from -1 to 1, 0 if all values of one are equal.
func rankCorrelation(as, bs []float64) float64 {
	x, y := ranks(as), ranks(bs)
	mean := float64(len(as)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// ranks are the places of values in their order, from 0. Equal values share the mean of their places.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			out[at] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}
