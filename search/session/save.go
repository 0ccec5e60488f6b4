package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Saved says what Save has done.
type Saved struct {
	Lock string // the file, if it was changed
	text string
}

func (x Saved) String() string { return x.text }

// SaveError says that the lock could not be changed. It is as it was.
type SaveError struct {
	Traces []schedule.Trace // what was to be locked; none if an entry was to be removed
	Err    error
}

func (e *SaveError) Error() string {
	if len(e.Traces) == 0 {
		return e.Err.Error() + ": the lock is as it was"
	}
	return e.Err.Error() + ": not locked"
}

func (e *SaveError) Unwrap() error { return e.Err }

// Save does to the lock what was decided. Other processes see the old lock or the new one. The error is a *SaveError, or that of
// a schedule that does not compile.
func (s *Session) Save(d *Decision) (Saved, error) {
	if d == nil {
		return Saved{}, errors.New("session: nothing was decided: call Decide first")
	}
	switch d.Outcome {
	case Locked:
		return s.put(d.judged)
	case Removed:
		return s.remove(d.Why)
	case Renewed:
		x, err := s.put(d.judged)
		x.text = fmt.Sprintf("the %s schedules stay, with the figures of today: %s\n\n%s", s.store().verb, d.Why, x.text)
		return x, err
	case Stays:
		return Saved{text: "the " + s.store().verb + " schedules, for other purposes or of another machine, stay: " + d.Why}, nil
	}
	return Saved{text: "not " + s.store().verb + ": " + d.Why}, nil
}

// errNoLock is the error of saving in a session without a lock.
var errNoLock = errors.New("session: no lock file was given")

// store is where schedules that were found go: a lock, or the records of a core.
type store struct {
	path   string
	verb   string  // what becomes of them there
	unit   string  // what a person calls a product's part of the file
	date   string  // that entries have
	margin float64 // the part of the default's time that schedules save at least
	read   func() (*tune.Lock, error)
	change func(func(*tune.Lock)) error
}

func (s *Session) store() store {
	if s.Records != "" {
		path := records.Path(s.Records, s.Target)
		return store{path, "recorded", "line", bench.Today(), records.Margin,
			func() (*tune.Lock, error) { return records.Read(path) },
			func(f func(*tune.Lock)) error { return records.Change(path, f) }}
	}
	return store{path: s.Lock, verb: "locked", unit: "entry",
		read: func() (*tune.Lock, error) { return tune.ReadLock(s.Lock) },
		change: func(f func(*tune.Lock)) error {
			if s.Lock == "" {
				return errNoLock
			}
			return tune.ChangeLock(s.Lock, func(l *tune.Lock) error { f(l); return nil })
		}}
}

// remove removes the product from the lock: today's default schedules are faster.
func (s *Session) remove(why string) (Saved, error) {
	to := s.store()
	if err := to.change(func(l *tune.Lock) { l.Remove(s.Problem, s.Target) }); err != nil {
		return Saved{}, &SaveError{nil, err}
	}
	return Saved{to.path, fmt.Sprintf("removed from %s: %s", to.path, why)}, nil
}

// put puts j into the lock, whose folder it makes.
func (s *Session) put(j *judged) (Saved, error) {
	e, err := s.entry(j)
	if err != nil {
		return Saved{}, err
	}
	to := s.store()
	if err = os.MkdirAll(filepath.Dir(to.path), 0o777); err == nil {
		err = to.change(func(l *tune.Lock) { l.Put(*e) })
	}
	if err != nil {
		return Saved{}, &SaveError{traces(j.Kernels), err}
	}
	lines := []string{fmt.Sprintf("%s in %s, %s", to.verb, to.path, message.Count(len(e.Kernels), "width"))}
	widest, usual := e.Widest(), s.tuner.Default[len(s.tuner.Default)-1].Cols
	larger := func(f tune.Figures) bool { return f.N > widest }
	if widest < usual && !slices.ContainsFunc(e.Figures, larger) {
		lines = append(lines, fmt.Sprintf("none is for more than %s, the default has some for %d: if there are larger products, tune for them too, with -n", columns(widest), usual))
	}
	return Saved{to.path, strings.Join(lines, "\n")}, nil
}

// columns is a number of columns in words: "1 column".
func columns(n int) string {
	if n == 1 {
		return "1 column"
	}
	return fmt.Sprintf("%d columns", n)
}

// entry is j for the lock: its figures are medians.
func (s *Session) entry(j *judged) (*tune.Entry, error) {
	e := &tune.Entry{Product: s.Problem.Name(), ActGroup: s.Problem.Act.Group, Target: s.Target.Machine().Name,
		Problem: tune.ProblemHash(s.Problem), Host: s.Host, Compiler: s.Version, Date: s.store().date}
	for _, b := range j.figures {
		ns := timing.Median(b.Ns)
		e.Figures = append(e.Figures, tune.Figures{Mode: b.Mode, M: b.M, N: b.N, K: b.K, Ns: ns, DefaultNs: timing.Median(b.BaseNs),
			Share: s.record(b.Purpose, ns, j.Kernels).Share, Ceilings: s.ceilingsOf(b.Purpose)})
	}
	uses, err := s.tuner.Uses(context.Background(), j.Candidate)
	if err != nil {
		return nil, err
	}
	v, err := build.Variant(context.Background(), s.Problem, s.Target, uses)
	if err != nil {
		return nil, err
	}
	e.Kernels, err = s.kernels(v.Kernels)
	return e, err
}

// kernels are compiled kernels as a lock has them.
func (s *Session) kernels(all []variant.Kernel) (out []tune.Kernel, err error) {
	for _, k := range all {
		hash, err := tune.KernelHash(s.Target, k.Text)
		if err != nil {
			return nil, err
		}
		out = append(out, tune.Kernel{Cols: k.Schedule.Cols, Hash: hash, Trace: k.Schedule.Trace})
	}
	return out, nil
}
