package session

import (
	"cmp"
	"context"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Beside measures a contender again and again beside the default schedules, or beside another contender, in the same rounds: for each
// purpose of the session. Both are first compared with the definition, in a process of their own. The error is a *tune.Unmeasured if no
// other contender can be measured either, or that of ctx, whose end ends a measurement too.
func (s *Session) Beside(ctx context.Context, base *Contender, x Contender) ([]tune.Beside, error) {
	defer s.until(ctx)()
	all := []Contender{x}
	if base != nil {
		all = append(all, *base)
	}
	for _, c := range all {
		if err := cmp.Or(ctx.Err(), s.tuner.Verify(c.Candidate)); err != nil {
			return nil, err
		}
	}
	if base == nil {
		return s.beside(nil, x.Candidate, s.Purposes)
	}
	return s.beside(base.Candidate, x.Candidate, s.Purposes)
}

// Roofline is what a contender reaches, by its measurements, of what the machine can do. Its ceilings are measured once. A figure may
// be above its ceiling, where something else ran while that was measured.
func (s *Session) Roofline(ctx context.Context, x Contender, all []tune.Beside) (out []measure.Record, err error) {
	if s.ceilings == nil {
		s.say(Step("measuring what the machine can do"))
		if err := s.measureCeilings(ctx); err != nil {
			return nil, err
		}
	}
	for _, b := range all {
		out = append(out, s.record(b.Purpose, timing.Median(b.Ns), x.Kernels))
	}
	return out, nil
}

// Keep is Decide for schedules that a person or a program gives instead of a search, the narrowest first: Save then puts them into the lock,
// with kernels of other widths for the same packed matrices. They must be faster than the default schedules for the purposes of the session,
// and slower for no purpose, unless `anyway` is set. The default schedules themselves need no lock: then Save removes the product from it.
func (s *Session) Keep(ctx context.Context, anyway bool, traces ...schedule.Trace) (*Decision, error) {
	x, err := s.Contender("given", traces...)
	if err != nil {
		return nil, err
	}
	if s.store().path == "" {
		return nil, errNoLock
	}
	if s.tuner.IsDefault(x.Candidate) {
		return s.unlocked()
	}
	locked, err := s.locked()
	if err != nil {
		return nil, err
	}
	if s.ceilings == nil {
		s.say(Step("measuring what the machine can do"))
		if err := s.measureCeilings(ctx); err != nil {
			return nil, err
		}
	}
	defer s.until(ctx)()
	for _, t := range traces {
		x.Genes = append(x.Genes, tune.Gene{Trace: t})
	}
	found, err := s.kept(x.Candidate, locked)
	if err != nil {
		return nil, err
	}
	d := &Decision{Outcome: Locked, judged: found}
	if !anyway && !found.better() {
		d.Outcome, d.Why = None, "the schedule takes "+found.describe("the default's")
	}
	return d, ctx.Err()
}

// unlocked is the decision that the default schedules need no lock: an entry goes, also one that this compiler cannot make any more.
func (s *Session) unlocked() (*Decision, error) {
	lock, err := s.store().read()
	if err != nil {
		return nil, err
	}
	d := &Decision{Outcome: None, Why: "the default schedule needs no lock"}
	if lock.Find(s.Problem, s.Target) != nil {
		d.Outcome = Removed
	}
	return d, nil
}

// kept measures a candidate as a lock would have it, for all purposes.
func (s *Session) kept(c *tune.Candidate, locked *lockedBefore) (*judged, error) {
	s.say(Step("measuring the schedule and the default in turn"))
	whole, err := s.completed(c)
	if err != nil {
		return nil, err
	}
	return s.judge(nil, whole, s.purposes(locked), true)
}
