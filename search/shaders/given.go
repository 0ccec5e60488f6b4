package shaders

import (
	"context"
	"errors"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Space is the space of schedules of a product with ns activations, 0 of them: of any number.
func Space(p ir.Problem, t spirv.Target, ns ...int) (*space.Space, error) {
	sp, _, err := spaceFor(p, t, ns)
	return sp, err
}

// Given is a search that has not begun. Its Beside, Reached and EntryOf are about schedules of one's own, and Search takes it, too.
func (l *Lab) Given(p ir.Problem, t spirv.Target, purposes []tune.Purpose, usual ...search.Use) *Search {
	return &Search{Problem: p, Target: t, Purposes: purposes, Default: ofPrepared(usual), lab: l}
}

// candidate compiles schedules of one packed layout.
func (s *Search) candidate(ctx context.Context, uses []search.Use) (*Candidate, error) {
	v, err := s.lab.Compile(ctx, s.Problem, s.Target, uses...)
	if err != nil {
		return nil, err
	}
	if _, err := v.Spec(s.Problem); err != nil { // which also sorts the kernels
		return nil, err
	}
	return &Candidate{Uses: uses, shaders: v}, nil
}

// Compiles says that schedules can be measured.
func (s *Search) Compiles(ctx context.Context, uses ...search.Use) bool {
	_, err := s.candidate(ctx, uses)
	return err == nil
}

// SeedLocked adds the schedules of a lock file, if it has the product, to those that the search begins with. The error is that of reading the lock.
func (s *Search) SeedLocked(ctx context.Context, l *Lab, path string) error {
	lock, err := tune.ReadLock(path)
	if err != nil {
		return err
	}
	if e := lock.Find(s.Problem, s.Target); e != nil && e.For(s.Problem) {
		if _, err := l.Compile(ctx, s.Problem, s.Target, e.Uses()...); err == nil { // else this compiler cannot make it any more
			s.Seeds = append(s.Seeds, e.Uses())
		}
	}
	return nil
}

// Beside compares schedules and the default ones with the definition, and measures them in turn for each purpose. An error for which no schedule is to
// blame is a *tune.Unmeasured.
func (s *Search) Beside(ctx context.Context, uses ...search.Use) ([]tune.Beside, error) {
	base, err := s.candidate(ctx, s.Default)
	if err != nil {
		return nil, err
	}
	c, err := s.candidate(ctx, uses)
	if err != nil {
		return nil, err
	}
	s.base = base.shaders
	if err := s.lab.Test(ctx, s.Problem, s.base); err != nil {
		return nil, err
	}
	all, err := s.confirmed(ctx, c)
	if err = s.blame(ctx, err); errors.As(err, new(*tune.Unmeasured)) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return all, err
}

// Reached is what schedules reach, by their measurements, of what reading memory takes at least.
func (s *Search) Reached(ctx context.Context, all []tune.Beside, uses ...search.Use) (out []measure.Record, err error) {
	read, err := s.lab.ReadGBS(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.candidate(ctx, uses)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		out = append(out, Record(s.Problem, c.shaders, b.Purpose, timing.Sample{Rounds: b.Ns}, read))
	}
	return out, nil
}

// EntryOf is schedules as a lock has them. The error also says that packages cannot have them.
func (s *Search) EntryOf(ctx context.Context, figures []tune.Beside, version string, uses ...search.Use) (tune.Entry, error) {
	c, err := s.candidate(ctx, uses)
	if err != nil {
		return tune.Entry{}, err
	}
	if err := s.packaged(ctx, c); err != nil {
		return tune.Entry{}, err
	}
	return s.Entry(ctx, c, figures, version)
}
