// Package beam chooses schedules without measuring: a beam search over the decisions of a space, by what a model says that points
// cost. It also chooses the schedules of float operators and of preparations of activations.
package beam

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/search/space"
)

// Search improves points of spaces. It remembers what points cost: its results are the same every time, however many cores there are.
type Search struct {
	// Cost is how long it takes what a point compiles to, in any unit, or any number from bound up if that is no less than bound. It is called
	// concurrently. With an error it says how wrong the point is instead, +Inf: there is no way to put it right.
	Cost   func(ctx context.Context, x space.Point, bound float64) (float64, error)
	Width  int // points that are kept after each rule, the best ones
	Most   int // other decisions of a rule that are tried, for each of these points
	Passes int // over all rules, at most
	Budget int // calls of Cost, at most
	// Hopeless is a cost that a search gives up with if its best point still has it, or more, after a third of the budget. 0: there is none.
	Hopeless float64
	// Strict says that points that are wrong are given up once one is right.
	Strict bool
	// Skip says that other decisions of a rule would gain nothing: its decisions stay. Nil: they may.
	Skip func(rule string, best *Found) bool
	// Distinct says that of points that cost the same one is kept, and others if there is room: most are the same code.
	Distinct bool
	// Backward says that the last rules come first: from them fewer other decisions follow.
	Backward bool

	known map[string]*Found // by trace
	calls int
	bound float64 // costs from here up are not among the best
}

// Found is a point and its cost.
type Found struct {
	space.Point
	Cost  float64
	err   error
	bound float64 // of the call of Search.Cost
}

// Improve starts from points of sp and tries other decisions of each rule in turn. It returns the best points that it found, the best
// one first, and of equally good ones the one that it found first. The error is that of ctx, or one of Cost if no point has a cost.
func (s *Search) Improve(ctx context.Context, sp *space.Space, start ...space.Point) ([]*Found, error) {
	s.bound = math.Inf(1)
	first := s.try(ctx, start)
	best := s.keep(slices.Clone(first))
	for range s.Passes {
		if len(best) == 0 {
			break
		}
		before := best[0].Cost
		rules := sp.Rules()
		for n := range rules {
			i := n
			if s.Backward {
				i = len(rules) - 1 - n
			}
			if rule := rules[i]; s.spent(best) || !sp.Moves(i) || s.Skip != nil && s.Skip(rule, best[0]) {
				continue
			}
			var others []space.Point
			for _, b := range best {
				others = append(others, sp.Options(b.Point, i, s.Most)...)
			}
			best = s.keep(append(best, s.try(ctx, others)...))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if best[0].Cost == before {
			break
		}
	}
	if len(best) == 0 && len(first) > 0 {
		return nil, first[0].err
	}
	if len(best) == 0 {
		return nil, errors.New("no schedule to begin with")
	}
	if err := best[0].err; err != nil {
		return nil, err
	}
	return slices.DeleteFunc(best, func(f *Found) bool { return f.err != nil }), nil
}

// spent says that no call is left, or that calls would be in vain.
func (s *Search) spent(best []*Found) bool {
	return s.calls >= s.Budget || s.Hopeless != 0 && 3*s.calls >= s.Budget && best[0].Cost >= s.Hopeless
}

// try finds what points cost, several at once, in their order.
func (s *Search) try(ctx context.Context, xs []space.Point) (out []*Found) {
	if s.known == nil {
		s.known = map[string]*Found{}
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, x := range xs {
		key := x.Trace().Key()
		f := s.known[key]
		if f == nil && s.calls < s.Budget || f != nil && f.bound < s.bound && f.Cost >= f.bound {
			f = &Found{Point: x, bound: s.bound}
			s.known[key] = f
			s.calls++
			free <- struct{}{}
			wg.Go(func() {
				defer func() { <-free }()
				f.Cost, f.err = s.Cost(ctx, x, f.bound)
			})
		}
		if f != nil {
			out = append(out, f)
		}
	}
	wg.Wait()
	return out
}

// keep is the best of all, and the ones that are the least wrong: some other decision may put them right.
func (s *Search) keep(all []*Found) []*Found {
	slices.SortStableFunc(all, func(a, b *Found) int { return cmp.Compare(a.Cost, b.Cost) })
	var right, wrong []*Found
	for _, again := range []bool{false, true} {
		for _, f := range all {
			to := &right
			if f.err != nil {
				to = &wrong
			}
			same := s.Distinct && slices.ContainsFunc(*to, func(o *Found) bool { return o.Cost == f.Cost })
			if len(*to) < s.Width && same == again && !math.IsInf(f.Cost, 1) && !slices.Contains(*to, f) {
				*to = append(*to, f)
			}
		}
		slices.SortStableFunc(right, func(a, b *Found) int { return cmp.Compare(a.Cost, b.Cost) })
	}
	if len(right) == s.Width {
		s.bound = right[len(right)-1].Cost
	}
	if s.Strict && len(right) > 0 {
		return right
	}
	return append(right, wrong...)
}
