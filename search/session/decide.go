package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Confirm measures the best of a search again, each beside the default schedules. No context ends it: who interrupts
// a search wants its result. The error is a *Broken.
func (s *Session) Confirm(f *Found) (err error) {
	s.say(Step("measuring the best again"))
	if f.locked, err = s.locked(); err != nil {
		return &Broken{f, err}
	}
	if f.again, err = s.tuner.Confirm(f.Best); err != nil {
		return &Broken{f, err}
	}
	f.best = s.hopeful(f.again)
	return nil
}

// hopeful is the fastest candidate that is neither the default nor slower; nil if there is none.
func (s *Session) hopeful(all []tune.Confirmed) *tune.Candidate {
	for _, c := range all {
		if c.Cost < 1 && !s.tuner.IsDefault(c.Candidate) {
			return c.Candidate
		}
	}
	return nil
}

// nearest says how long the fastest candidate takes that is not the default; "" if there is none.
func (s *Session) nearest(all []tune.Confirmed) string {
	for _, c := range all {
		if !s.tuner.IsDefault(c.Candidate) {
			return fmt.Sprintf(": the fastest of the others takes %.2f of their time", c.Cost)
		}
	}
	return ""
}

// Outcome is what becomes of the lock.
type Outcome string

// Outcomes.
const (
	Locked  Outcome = "locked"  // or recorded, in a session for records
	Renewed Outcome = "renewed" // the entry stays, with the figures of today
	Stays   Outcome = "stays"   // the entry stays as it was
	Removed Outcome = "removed"
	None    Outcome = "not locked"
	Failed  Outcome = "failed" // an error says why
)

// Decision is what becomes of the lock, why, and the measurements that say so.
type Decision struct {
	Outcome Outcome
	Why     string  // a sentence without its end; "" if something is locked
	judged  *judged // the locked, renewed or removed schedules, or else the best of the search; nil: nothing was found
	none    string  // says that nothing was hopeful, if so
}

// Found says that there are schedules and figures: the following methods are for that only.
func (d *Decision) Found() bool { return d.judged != nil }

// Ratio is the ratio of the times for the purposes of the search to the times of the default schedules.
func (d *Decision) Ratio() tune.Ratio { return d.judged.ratio() }

// Traces are the schedules, the narrowest first.
func (d *Decision) Traces() []schedule.Trace { return traces(d.judged.Kernels) }

// Cols are the columns of the schedules.
func (d *Decision) Cols() (out []int) {
	for _, k := range d.judged.Kernels {
		out = append(out, k.Schedule.Cols)
	}
	return out
}

// String is the line that stands above the figures: whose they are and their ratio. Without figures it is "".
func (d *Decision) String() string {
	var lines []string
	if d.none != "" {
		lines = append(lines, d.none)
	}
	if d.judged != nil {
		name := "best"
		if d.Outcome == Renewed || d.Outcome == Stays || d.Outcome == Removed {
			name = "locked"
		}
		lines = append(lines, fmt.Sprintf("%s: %v of the default's time", name, d.Ratio()))
	}
	return strings.Join(lines, "\n\n")
}

// Decide measures the best of a confirmed search, and the locked schedules, each beside the default schedules as a lock would
// have them, and then the one beside the other. Faster and slower means beyond the noise of these measurements.
//
// The best is locked if, for the purposes of the search, it is faster than the default and than the locked schedules, and
// slower for no purpose. The locked schedules are removed if they are slower than the default for all purposes together, unless
// the search was interrupted, or their entry is for other purposes or of another machine. The error is a *Broken.
func (s *Session) Decide(f *Found) (*Decision, error) {
	d, err := s.decide(f.best, f.locked, f.Interrupted)
	if err != nil {
		return nil, &Broken{f, err}
	}
	if d.judged != nil && s.beyond(d.judged.figures) { // something else ran while the machine was measured
		s.say(Step("measuring what the machine can do again"))
		_ = s.measureCeilings(context.Background()) // also after an interrupt, like what it is compared with
	}
	if f.best == nil {
		d.none = "best: none is faster than the default schedules" + s.nearest(f.again)
	}
	return &d, nil
}

// decide is Decide for the best of a search and for the locked schedules. Either may be nil.
func (s *Session) decide(best *tune.Candidate, locked *lockedBefore, interrupted bool) (d Decision, err error) {
	all := s.purposes(locked)
	var found, before *judged
	if best != nil {
		s.say(Step("measuring the best and the default in turn"))
		if best, err = s.completed(best); err != nil {
			return d, err
		}
		if found, err = s.judge(nil, best, all, false); err != nil {
			return d, err
		}
	}
	if locked != nil {
		s.say(Step("measuring the locked schedules and the default in turn"))
		if before, err = s.judge(nil, locked.Candidate, all, true); err != nil {
			return d, err
		}
	}
	goes := before != nil && s.outdone(before) && locked.same && !interrupted
	d = Decision{Outcome: None, judged: found, Why: s.refusal(found)}
	if d.Why == "" && before != nil && !goes {
		s.say(Step("measuring the best and the locked schedules in turn"))
		beside, err := s.judge(locked.Candidate, best, all, false)
		if err != nil {
			return d, err
		}
		if !beside.better() {
			d.Why = "what was found takes " + beside.describe("the locked one's")
		}
	}
	switch {
	case d.Why == "":
		d.Outcome = Locked
	case goes:
		d = Decision{Outcome: Removed, judged: before, Why: "what was " + s.store().verb + " takes " + before.describe("the default's")}
	case before != nil && locked.same:
		d = Decision{Outcome: Renewed, judged: before, Why: d.Why}
	case before != nil:
		d = Decision{Outcome: Stays, judged: before, Why: d.Why}
	}
	return d, nil
}

// outdone says that what was locked is slower than the default, or that what was recorded does not save the margin any more.
func (s *Session) outdone(before *judged) bool {
	r, margin := tune.Together(before.figures), s.store().margin
	return r.Greater() || margin > 0 && r.Median > 1-margin
}

// withinNoise follows a ratio that does not tell which one is faster.
const withinNoise = ", which is within the noise"

// refusal is why what was found is not locked beside the default; "" if it is. For a purpose, a record may take longer by no more than what it has to save in all.
func (s *Session) refusal(found *judged) string {
	if found == nil {
		return "nothing was found that is faster than the default: more -time may find something"
	}
	r, margin := found.ratio(), s.store().margin
	losses := slices.DeleteFunc(tune.Losses(found.figures), func(b tune.Beside) bool { return b.Ratio().Median <= 1+margin })
	switch {
	case r.Greater():
		return fmt.Sprintf("what was found takes %v of the default's time: more -time may find something faster", r)
	case !r.Less():
		return fmt.Sprintf("what was found takes %v of the default's time%s: more -time may find something faster, and a quieter machine tells more", r, withinNoise)
	case r.High > 1-margin:
		return fmt.Sprintf("what was found takes %v of the default's time, and a record has to save %.0f %% of it beyond the noise", r, 100*margin)
	case len(losses) == 0:
		return ""
	}
	why := "what was found takes " + found.describe("the default's")
	if s.Records == "" && slices.ContainsFunc(losses, func(b tune.Beside) bool { return !slices.Contains(s.Purposes, b.Purpose) }) {
		why += ": with -only, the purposes of the search alone decide"
	}
	return why
}

// lockedBefore is what the lock has for a product.
type lockedBefore struct {
	*tune.Candidate
	figures []tune.Figures
	same    bool // locked on such a machine, for all purposes of this search, and this session measures all that it was locked for
}

// locked is what the lock has for the product; nil if it has nothing that this compiler can still make, which a note says once.
func (s *Session) locked() (*lockedBefore, error) {
	if s.store().path == "" {
		return nil, nil
	}
	lock, err := s.store().read()
	if err != nil {
		return nil, err
	}
	e := lock.Find(s.Problem, s.Target)
	if e == nil {
		return nil, nil
	}
	if !e.For(s.Problem) {
		s.unused(lock, e, "is for other levels, scales or activations")
		return nil, nil
	}
	c, err := s.tuner.Locked(e)
	if err != nil {
		s.unused(lock, e, "does not compile: "+message.Line(err))
		return nil, nil
	}
	same := e.Host.CPU == s.Host.CPU
	for _, p := range s.Purposes {
		same = same && slices.ContainsFunc(e.Figures, func(f tune.Figures) bool { return f.Mode == p.Mode && f.M == p.M && f.N == p.N && f.K == p.K })
	}
	l := &lockedBefore{c, e.Figures, same}
	for _, f := range e.Figures {
		l.same = l.same && slices.Contains(s.purposes(l), s.purposeOf(f))
	}
	return l, nil
}

// unused says once that the entry of the product is not used, where it is, why, and what to do. Records have the order of their file. Entries of
// a lock are sorted by the targets' names of today, so that their numbers may be others than in the file.
func (s *Session) unused(l *tune.Lock, e *tune.Entry, why string) {
	if s.doubted {
		return
	}
	s.doubted = true
	to := s.store()
	place := fmt.Sprintf("the %s of %s on %s", to.unit, e.Product, e.Target)
	if s.Records != "" {
		n := 1 + slices.IndexFunc(l.Entries, func(x tune.Entry) bool {
			return x.Product == e.Product && x.ActGroup == e.ActGroup && x.Target == e.Target
		})
		place = fmt.Sprintf("%s %d (%s on %s)", to.unit, n, e.Product, e.Target)
	}
	s.say(Note{NotUsed, &tune.LockError{Path: to.path, Problem: place + " " + why,
		Remedy: "the search replaces it if it finds a faster schedule; else remove the " + to.unit}})
}

// purposeOf is the purpose that a figure was measured for.
func (s *Session) purposeOf(f tune.Figures) tune.Purpose {
	return purpose(s.Host, f.Mode, f.M, f.N, f.K)
}

// purposes are all purposes of a packed matrix: first the purposes of the search and then, unless Only is set, the others and
// the purposes of the lock's entry.
func (s *Session) purposes(locked *lockedBefore) []tune.Purpose {
	all := slices.Clone(s.Purposes)
	if s.Only {
		return all
	}
	others := slices.Clone(s.Others)
	if locked != nil {
		for _, f := range locked.figures {
			others = append(others, s.purposeOf(f))
		}
	}
	for _, p := range others {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// judged is schedules as a lock has them, measured beside others again and again.
type judged struct {
	*tune.Candidate
	figures []tune.Beside // of the purposes of the search, then of others
	asked   int           // purposes of the search
}

// judge measures c beside base; a nil base is the default. Unless whole is set, a candidate that is not faster for the purposes of the
// search is not measured for others.
func (s *Session) judge(base, c *tune.Candidate, all []tune.Purpose, whole bool) (*judged, error) {
	asked := len(s.Purposes)
	figures, err := s.beside(base, c, all[:asked])
	if err != nil {
		return nil, err
	}
	j := &judged{c, figures, asked}
	if asked == len(all) || !whole && !j.ratio().Less() {
		return j, nil
	}
	others, err := s.beside(base, c, all[asked:])
	j.figures = append(j.figures, others...)
	return j, err
}

// ratio is the ratio of the times for the purposes of the search to the times of the base.
func (j *judged) ratio() tune.Ratio { return tune.Together(j.figures[:j.asked]) }

// traces are the schedules of kernels.
func traces(kernels []variant.Kernel) (out []schedule.Trace) {
	for _, k := range kernels {
		out = append(out, k.Schedule.Trace)
	}
	return out
}

// better says that j is faster for the purposes of the search, and slower for none of all, beyond the noise.
func (j *judged) better() bool { return j.ratio().Less() && len(tune.Losses(j.figures)) == 0 }

// describe is the share of the time of what j was measured beside that j takes: for the purposes of the search together, and for
// each purpose for which j takes longer.
func (j *judged) describe(whose string) string {
	r, losses := j.ratio(), tune.Losses(j.figures)
	text := fmt.Sprintf("%v of %s time", r, whose)
	if len(losses) == 0 {
		if !r.Less() && !r.Greater() {
			text += withinNoise
		}
		return text
	}
	var all []string
	for _, b := range losses {
		all = append(all, fmt.Sprintf("%v for %s", b.Ratio(), tune.PurposesText(b.Purpose)))
	}
	return text + ", but " + strings.Join(all, ", ")
}

// Figure is what a purpose takes.
type Figure struct {
	tune.Purpose
	Ns        float64    `json:"ns"` // the median
	DefaultNs float64    `json:"default_ns"`
	Ratio     tune.Ratio `json:"ratio"`
	GWeightsS float64    `json:"-"` // weights per nanosecond
	Share     float64    `json:"-"` // of the ceiling that binds; 0 if that is not known
}

// Figures are the figures of a decision, first of the purposes of the search, then of others; none if nothing was found.
func (s *Session) Figures(d *Decision) (out []Figure) {
	if d.judged == nil {
		return nil
	}
	for _, b := range d.judged.figures {
		ns := timing.Median(b.Ns)
		r := s.record(b.Purpose, ns, d.judged.Kernels)
		out = append(out, Figure{b.Purpose, ns, timing.Median(b.BaseNs), b.Ratio(), r.GWeightsS, r.Share})
	}
	return out
}
