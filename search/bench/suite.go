package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// Suite is a set of products whose kernels are mapped into this process, and the places to measure them at.
type Suite struct {
	Subjects []Subject
	Places   []Place
	Lock     *tune.Lock        // of the schedules that AddUsual prefers, nil: none
	Defaults *defaults.Chooser // of the default schedules; nil: as nil is
	codes    []*live.Code
}

// Close unmaps all kernels.
func (s *Suite) Close() error {
	var all error
	for _, code := range s.codes {
		all = errors.Join(all, code.Close())
	}
	return all
}

// Add compiles a product by its schedules for a target that this machine runs, compares its kernels with the definition, and
// appends it to Subjects. It stops between kernels when ctx ends. search.Refusal classifies the error of a schedule.
func (s *Suite) Add(ctx context.Context, p ir.Problem, t targets.Target, uses []search.Use, tuned bool) error {
	v, err := build.Variant(ctx, p, t, uses)
	if err != nil {
		return err
	}
	code, err := live.Assemble(p, v)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", p.Name(), t.Machine().Name, err)
	}
	s.codes = append(s.codes, code)
	product, err := code.Product()
	if err != nil {
		return err
	}
	s.Subjects = append(s.Subjects, Subject{Problem: p, Variant: v, Product: product, Tuned: tuned})
	return nil
}

// AddUsual is Add by the schedules that the lock has for the product, or else by the default ones.
func (s *Suite) AddUsual(ctx context.Context, p ir.Problem, t targets.Target) error {
	if e := s.locked(p, t); e != nil {
		return s.Add(ctx, p, t, e.Uses(), true)
	}
	uses, err := s.Defaults.Uses(ctx, p, t)
	if err != nil {
		return err
	}
	return s.Add(ctx, p, t, uses, false)
}

// AddBoth is Add by the default schedules, and once more by the schedules that the lock has for the product.
func (s *Suite) AddBoth(ctx context.Context, p ir.Problem, t targets.Target) error {
	uses, err := s.Defaults.Uses(ctx, p, t)
	if err == nil {
		err = s.Add(ctx, p, t, uses, false)
	}
	if e := s.locked(p, t); err == nil && e != nil {
		err = s.Add(ctx, p, t, e.Uses(), true)
	}
	return err
}

// locked returns the lock's entry for a product, or nil. An entry for another product of that name does not count.
func (s *Suite) locked(p ir.Problem, t targets.Target) *tune.Entry {
	if s.Lock == nil {
		return nil
	}
	if e := s.Lock.Find(p, t); e != nil && e.For(p) {
		return e
	}
	return nil
}

// Untuned returns the subjects whose product has no tuned subject for the same target.
func (s *Suite) Untuned() (out []Subject) {
	tuned := map[string]bool{}
	name := func(x Subject) string { return x.Problem.Name() + " " + x.Target() }
	for _, x := range s.Subjects {
		tuned[name(x)] = tuned[name(x)] || x.Tuned
	}
	for _, x := range s.Subjects {
		if !tuned[name(x)] {
			out = append(out, x)
		}
	}
	return out
}

// Step is an event of a run: the measurement of a product at a place begins.
type Step struct {
	Round, Rounds int // from 1
	Product       string
	Target, Mode  string
}

// String is a step on one line.
func (s Step) String() string {
	return fmt.Sprintf("round %d of %d: %s on %s, %s", s.Round, s.Rounds, s.Product, s.Target, s.Mode)
}

// Run measures all subjects at all places, round after round, so that a disturbance of the machine hits all
// alike. It calls begin before each measurement and tell with each record. When ctx ends, it returns the error of ctx
// after the sample that it takes.
func (s *Suite) Run(ctx context.Context, g *Gauge, rounds int, begin func(Step), tell func(measure.Record)) error {
	for round := range rounds {
		for _, x := range s.Subjects {
			for _, at := range s.Places {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if at.Extreme && !x.Residual() {
					continue // it takes as long with all activations
				}
				begin(Step{round + 1, rounds, x.Problem.Name(), x.Target(), at.Mode})
				records, err := g.Measure(ctx, x, at)
				if err != nil {
					return err
				}
				for _, r := range records {
					tell(r)
				}
			}
		}
	}
	return nil
}
