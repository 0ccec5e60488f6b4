package tune

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/timing"
)

// Pairs are the purposes of r, a search of t's product, in which a trial took less time than the default schedules, in its rounds and than they usually took in r, by more than
// pairs.Noise. Side A is the fastest trial, side B the default. The error says why the search cannot be compared with
// today's defaults, or that its machine's core is not known. Purposes that take kernels of several widths are left out.
func (t *Tuner) Pairs(r Run, trials []Trial) (out []pairs.Pair, err error) {
	if r.Problem != ProblemHash(t.Problem) || r.Default != t.DefaultHash {
		return nil, errors.New("the search measured other default schedules than this tmacc has, or other kernels of them")
	}
	named := pairs.Pair{Product: r.Product, ActGroup: r.ActGroup}
	if p, err := named.Problem(); err != nil || ProblemHash(p) != r.Problem {
		return nil, fmt.Errorf("%s is not built in: pairs are of built-in formats", r.Product)
	}
	on := r.Core
	if m := t.Target.Machine(); !m.Ordinary() {
		on = m.Core.Name
	}
	if on == "" {
		return nil, fmt.Errorf("an earlier tmacc wrote the search, without the core of its machine, and %s is for several: search again", r.Target)
	}
	for i, x := range r.Purposes {
		p := pairs.Pair{
			Core: on, Machine: r.CPU, Target: r.Target, Product: r.Product, ActGroup: r.ActGroup,
			Mode: x.Mode, M: x.M, N: x.N, K: x.K, Source: pairs.Source{Page: "log", Text: r.ID},
		}
		best, ratio := fastest(trials, i)
		if best == nil || len(best.Genes) == 0 { // a log may say anything
			continue
		}
		if p.Ratio = ratio; p.Ratio > 1 || !p.Decided() {
			continue
		}
		if p.A, err = t.only(best.Genes, x.N); err != nil {
			return nil, err
		}
		if p.B = single(t.reference.Kernels, x.N); p.A != nil && p.B != nil && p.A.Key() != p.B.Key() {
			out = append(out, p)
		}
	}
	return out, nil
}

// DefaultUses are the default schedules that r measured everything beside: records among them, and default ones of earlier versions. Without them in the
// log there are none. The error says that this tmacc cannot compile one.
func (r *Run) DefaultUses(p ir.Problem) (out []search.Use, err error) {
	for _, trace := range r.Usual {
		k, err := schedule.Compile(p, trace)
		if err != nil {
			return nil, fmt.Errorf("a default schedule of the search is none for this tmacc: %w", err)
		}
		out = append(out, search.Use{Cols: k.Cols, Trace: trace})
	}
	return out, nil
}

// fastest is the trial that was fastest for a purpose, nil if none was measured, and the ratio of its time to the one that the default usually took. In the rounds of
// a trial something else may have disturbed the default, or the clock was higher for both: the ratio is the larger one of both.
func fastest(trials []Trial, purpose int) (best *Trial, least float64) {
	usual := usually(trials, purpose)
	for i := range trials {
		t := &trials[i]
		if !t.measured(purpose) {
			continue
		}
		ratio := t.Ratios[purpose]
		if purpose < len(t.Ns) && t.Ns[purpose] > 0 {
			ratio = max(ratio, t.Ns[purpose]/usual)
		}
		if best == nil || ratio < least {
			best, least = t, ratio
		}
	}
	return best, least
}

// measured says that t has a ratio for a purpose.
func (t *Trial) measured(purpose int) bool {
	return t.Error == "" && purpose < len(t.Ratios) && t.Ratios[purpose] > 0
}

// usually is how many nanoseconds the default took for a purpose beside the trials, in the median. Without any it is NaN.
func usually(trials []Trial, purpose int) float64 {
	var all []float64
	for i := range trials {
		if t := &trials[i]; t.measured(purpose) && purpose < len(t.Ns) && t.Ns[purpose] > 0 {
			all = append(all, t.Ns[purpose]/t.Ratios[purpose])
		}
	}
	return timing.Median(all)
}

// only is the schedule of genes that n activations use, nil if they use several.
func (t *Tuner) only(genes []Gene, n int) (schedule.Trace, error) {
	var kernels []variant.Kernel
	for _, g := range genes {
		k, err := schedule.Compile(t.Problem, g.Trace)
		if err != nil {
			return nil, fmt.Errorf("a schedule of the search is none for this tmacc: %w", err)
		}
		kernels = append(kernels, variant.Kernel{Schedule: k})
	}
	slices.SortFunc(kernels, func(a, b variant.Kernel) int { return cmp.Compare(a.Schedule.Cols, b.Schedule.Cols) })
	return single(kernels, n), nil
}

// single is the schedule that n activations use, nil if they use several.
func single(kernels []variant.Kernel, n int) schedule.Trace {
	if by := used(kernels, n); len(by) == 1 {
		return by[0].Schedule.Trace
	}
	return nil
}
