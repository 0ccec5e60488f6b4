package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/tune"
)

// Found is what a search has found. Best is empty if nothing was measured.
type Found struct {
	tune.Outcome[*tune.Candidate]
	Took        time.Duration
	Run         tune.Run // as the log has it
	Logged      bool     // everything is in the log
	Interrupted bool     // the context ended before a limit was reached
	best        *tune.Candidate
	again       []tune.Confirmed // the best, measured again
	locked      *lockedBefore    // nil: nothing
}

// Traces are the schedules of the best candidate, the narrowest first; none if nothing was measured.
func (f *Found) Traces() []schedule.Trace {
	if len(f.Best) == 0 {
		return nil
	}
	return traces(f.Best[0].G.Kernels)
}

// Search measures the machine's ceilings, and then candidates until a limit is reached or ctx ends. If ctx ends, that is
// no error: the result is what was found until then. Search returns a *ResumeError, a *Broken, the error of a machine that
// can measure nothing, or the error of ctx if it ends before the first candidate.
func (s *Session) Search(ctx context.Context) (*Found, error) {
	s.best, s.before = tune.Ratio{}, nil // of this search alone
	s.say(Step("measuring what the machine can do"))
	if err := s.measureCeilings(ctx); err != nil {
		return nil, err
	}
	if path := s.store().path; path != "" {
		if err := tune.Writable(path); err != nil {
			s.say(Note{NotLockable, err})
		}
	}
	seeds, err := s.seeds(ctx)
	if err != nil {
		return nil, err
	}
	f, err := s.evolve(ctx, seeds)
	if unlogged := s.journal.end(f.Ended, f.Dropped); unlogged != nil {
		s.say(Note{NotLogged, unlogged})
	} else {
		f.Logged = s.journal.on
	}
	f.Run, f.Interrupted = s.journal.run, ctx.Err() != nil
	if err != nil {
		return f, &Broken{f, err}
	}
	return f, nil
}

// seeds are the candidates that a search begins with: of the log, then the default schedules, the given ones and others that are known.
func (s *Session) seeds(ctx context.Context) ([]*tune.Candidate, error) {
	var usual []*tune.Candidate
	if !s.Scratch {
		if usual = append(s.tuner.Seeds(ctx), s.known(ctx)...); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	before, err := s.begin()
	if err != nil && s.Resume {
		return nil, &ResumeError{err}
	}
	if err != nil {
		s.say(Note{NotLogged, err})
	}
	if !s.Scratch {
		usual = append(usual, s.carried()...)
	}
	given, err := s.begins()
	if err != nil { // of a From that is newer than Open
		given = nil
	}
	first := min(len(usual), 1) // before what may be slower
	return slices.Concat(before, usual[:first], given, usual[first:]), nil
}

// FromError says why a search cannot begin with a schedule of From.
type FromError struct {
	N   int // the number of the schedule, from 0
	Err error
}

func (e *FromError) Error() string { return fmt.Sprintf("schedule %d to begin with: %v", e.N+1, e.Err) }

func (e *FromError) Unwrap() error { return e.Err }

// begins are the candidates that have the schedules of From.
func (s *Session) begins() ([]*tune.Candidate, error) {
	if len(s.From) == 0 {
		return nil, nil
	}
	uses, err := s.tuner.Begin(s.From...)
	if err != nil {
		return nil, &FromError{len(uses), err}
	}
	return s.tuner.From(uses), nil
}

// known are the locked schedules, and the default ones that a record goes before.
func (s *Session) known(ctx context.Context) (out []*tune.Candidate) {
	if l, err := s.locked(); err == nil && l != nil {
		var uses []search.Use
		for _, k := range l.Kernels {
			uses = append(uses, search.Use{Cols: k.Schedule.Cols, Trace: k.Schedule.Trace})
		}
		out = s.tuner.From(uses)
	}
	if s.Records == "" && s.Defaults.Record(s.Problem, s.Target) != nil {
		if all, err := s.Defaults.Layouts(ctx, s.Problem, s.Target); err == nil {
			out = append(out, s.tuner.From(all[0])...)
		}
	}
	return out
}

// carried are the best of other searches in the log, for this product on such a core. Their measurements do not count here.
func (s *Session) carried() []*tune.Candidate {
	if !s.journal.on {
		return nil
	}
	trials, err := s.journal.log.Elsewhere(&s.journal.run)
	if err != nil && !s.Resume { // which has said so
		s.say(Note{LogUnread, err})
	}
	return s.tuner.Carried(trials)
}

// evolve searches from seeds. The error says why nothing can be measured any more.
func (s *Session) evolve(ctx context.Context, seeds []*tune.Candidate) (*Found, error) {
	limited, stop := context.WithTimeout(ctx, s.Limit)
	defer stop()
	defer s.until(ctx)()
	start := time.Now()
	out, err := s.tuner.Search(limited, tune.Options{
		Trials: s.Trials, Patience: s.Patience, Rng: rand.New(rand.NewSource(s.Seed)),
		Progress: func(p tune.Progress) { s.say(s.progress(p, time.Since(start))) },
	}, seeds...)
	if limited.Err() != nil && ctx.Err() == nil {
		out.Ended = "time"
	}
	return &Found{Outcome: out, Took: time.Since(start)}, err
}

// until lets the end of ctx end measurements, before release is called.
func (s *Session) until(ctx context.Context) (release func()) {
	if s.tuner == nil { // of a test that replaces what measures
		return func() {}
	}
	s.tuner.Context = ctx
	return func() { s.tuner.Context = nil }
}

// progress is the event of p.
func (s *Session) progress(p tune.Progress, took time.Duration) Progress {
	e := Progress{Product: fmt.Sprintf("%s on %s", s.Problem.Weight, s.Target.Machine().ShortName()),
		Measured: p.Trials, Trials: s.Trials, Dropped: p.Dropped, Took: took, Limit: s.Limit, Best: s.best}
	if s.best.Median != p.Best { // an earlier search has measured it
		e.Best = (&tune.Trial{Cost: p.Best}).Ratio()
		if i := slices.IndexFunc(s.before, func(r tune.Ratio) bool { return r.Median == p.Best }); i >= 0 {
			e.Best = s.before[i]
		}
	}
	if ns := s.tuner.ReferenceNs[0]; ns > 0 { // else an earlier search has measured everything
		e.First = s.record(s.Purposes[0], p.Best*ns, nil)
	}
	return e
}

// ResumeError says that the log of earlier searches could not be read or continued. Nothing was searched.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string {
	return e.Err.Error() + ": nothing was searched, and the lock is as it was"
}

func (e *ResumeError) Unwrap() error { return e.Err }

// Broken says why a search could not go on, or its best not be measured again. The lock is as it was.
type Broken struct {
	Found *Found // until then
	Err   error
}

func (e *Broken) Error() string {
	text := fmt.Sprintf("after %d candidates: %v; the lock is as it was", e.Found.Trials, e.Err)
	if e.Found.Logged {
		text += "; what was measured is logged: tmacc tune -resume goes on"
	}
	return text
}

func (e *Broken) Unwrap() error { return e.Err }

// ErrNothing is the error of a search that measured no schedule.
var ErrNothing = errors.New("nothing was measured: give the search more time")

// Tune is Search, Confirm, Decide and Save. A search that measured no schedule is ErrNothing, and saves nothing.
func (s *Session) Tune(ctx context.Context) (*Decision, error) {
	f, err := s.Search(ctx)
	if err != nil {
		return nil, err
	}
	if len(f.Best) == 0 {
		return nil, ErrNothing
	}
	if err := s.Confirm(f); err != nil {
		return nil, err
	}
	d, err := s.Decide(f)
	if err != nil {
		return nil, err
	}
	_, err = s.Save(d)
	return d, err
}
