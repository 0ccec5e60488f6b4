package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// measureCeilings measures what the machine can do; of several calls the largest figures count. Without probes the shares
// stay unknown. The error is that of ctx, or of a machine that can measure nothing.
func (s *Session) measureCeilings(ctx context.Context) error {
	if s.ceilings == nil {
		s.ceilings = make([]tune.Ceilings, len(s.Purposes))
	}
	now, err := s.machineCeilings(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, n := range now {
		c := &s.ceilings[i]
		*c = tune.Ceilings{ReadGBS: max(c.ReadGBS, n.ReadGBS), DotGMACS: max(c.DotGMACS, n.DotGMACS), ClockGHz: max(c.ClockGHz, n.ClockGHz)}
	}
	if worker.IsEnvironment(err) { // candidates cannot be measured either
		return err
	}
	if err != nil {
		s.say(Note{NoCeilings, err})
	}
	return nil
}

// machineCeilings returns the ceilings of all purposes. An error ends it, so that a machine that has gone is not waited for
// again: then it returns the ceilings of the first purposes.
func (s *Session) machineCeilings(ctx context.Context) (found []tune.Ceilings, _ error) {
	lab, err := measure.NewLabOn(s.On)
	if err != nil {
		return nil, err
	}
	g := bench.NewGaugeOn(lab, s.Probing)
	defer g.Close()
	rate := func(probes []measure.Probe, err error) (float64, error) {
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return 0, err
		}
		best, err := lab.Best(s.Probing, probes)
		return best.Rate, err
	}
	clock, err := rate(lab.Clock(), nil)
	if err != nil {
		return nil, err
	}
	dots, err := rate(g.Dot(s.Target))
	if err != nil {
		return nil, err
	}
	reads := map[string]float64{}
	for _, p := range s.Purposes {
		if _, ok := reads[p.Mode]; !ok {
			if reads[p.Mode], err = rate(g.Read(p.Mode, p.M*p.K*s.Problem.Weight.Bits/8)); err != nil {
				return found, err
			}
		}
		found = append(found, tune.Ceilings{ReadGBS: reads[p.Mode], DotGMACS: dots, ClockGHz: clock})
	}
	return found, nil
}

// ceilingsOf are the ceilings of a purpose. What memory can do is known only for the modes of the purposes of the search.
func (s *Session) ceilingsOf(p tune.Purpose) tune.Ceilings {
	i := slices.IndexFunc(s.Purposes, func(o tune.Purpose) bool { return o.Mode == p.Mode })
	if i < 0 {
		c := s.ceilings[0]
		c.ReadGBS = 0
		return c
	}
	return s.ceilings[i]
}

// record is a purpose that took ns nanoseconds by kernels; nil kernels store every bit of their weights.
func (s *Session) record(p tune.Purpose, ns float64, kernels []variant.Kernel) measure.Record {
	r, _ := s.complete(p, ns, kernels) // an error is noise here
	return r
}

// complete is record. Its error, a *measure.ProbeError, says that the purpose took less time than the ceilings allow.
func (s *Session) complete(p tune.Purpose, ns float64, kernels []variant.Kernel) (measure.Record, error) {
	c := s.ceilingsOf(p)
	x := bench.Subject{Problem: s.Problem, Variant: variant.Variant{Target: s.Target, Kernels: kernels}}
	r, weights := x.Record(p.Mode, p.M, p.N, p.K)
	r.Ns, r.ClockGHz, r.CeilingGBS, r.CeilingGMACS = ns, c.ClockGHz, c.ReadGBS, c.DotGMACS
	return r.Complete(weights)
}

// beyond says that a purpose took less time than the ceilings allow.
func (s *Session) beyond(figures []tune.Beside) bool {
	for _, b := range figures {
		if _, err := s.complete(b.Purpose, timing.Median(b.Ns), nil); err != nil {
			return true
		}
	}
	return false
}
