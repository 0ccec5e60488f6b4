package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// NoLog as Options.Log says that nothing is logged.
const NoLog = "none"

// LogAt is the log in the file path; "" is the user's, which an error says cannot be found.
func LogAt(path string) (tune.Log, error) {
	if path != "" {
		return tune.Log{Path: path}, nil
	}
	return tune.DefaultLog()
}

// begin makes the tuner report and log what it measures. With Resume it returns candidates of the log to begin with.
func (s *Session) begin() (before []*tune.Candidate, err error) {
	p, j := s.Problem, &s.journal
	j.run = tune.Run{Start: time.Now(), Cost: tune.CostVersion, Default: s.tuner.DefaultHash, Product: p.Name(), ActGroup: p.Act.Group, Target: s.Target.Machine().Name,
		Problem: tune.ProblemHash(p), Defined: &p, Ceilings: slices.Clone(s.ceilings), Purposes: s.Purposes, Seed: s.Seed, CPU: s.Host.CPU, Compiler: s.Version}
	if best := measure.BestOn(s.Host, ""); best != nil {
		j.run.Core = best.Machine().Core.Name
	}
	for _, u := range s.tuner.Default {
		j.run.Usual = append(j.run.Usual, u.Trace)
	}
	s.tuner.Log = func(t tune.Trial) {
		s.report(t)
		j.add(t)
	}
	if s.Log == NoLog {
		return nil, nil
	}
	if j.log, err = LogAt(s.Log); err != nil {
		return nil, err
	}
	if s.Resume {
		if before, err = s.earlier(); err != nil {
			return nil, err
		}
	}
	if err = j.log.Begin(&j.run); err != nil {
		return nil, err
	}
	j.on = true
	return before, nil
}

// earlier are candidates of earlier searches, whose results the tuner takes over.
func (s *Session) earlier() ([]*tune.Candidate, error) {
	trials, err := s.journal.log.Before(&s.journal.run)
	if unread := (*tune.Unread)(nil); errors.As(err, &unread) {
		s.say(Note{LogUnread, err})
	} else if err != nil {
		return nil, err
	}
	for _, t := range trials {
		if t.Error == "" {
			s.before = append(s.before, t.Ratio())
		}
	}
	return s.tuner.Resume(trials), nil
}

// report turns a trial into events.
func (s *Session) report(t tune.Trial) {
	switch {
	case t.Error != "":
		s.say(Dropped{t.Error})
	case s.best.Median == 0 || t.Cost < s.best.Median:
		s.best = t.Ratio()
		var traces []schedule.Trace
		for _, g := range t.Genes {
			traces = append(traces, g.Trace)
		}
		s.say(Better{s.best, traces})
	}
	if t.Fault != "" {
		s.say(Fault(t.Fault))
	}
}

// journal adds what a search measures to the log. Without a log, and after an error, the search goes on: its
// result does not depend on the log.
type journal struct {
	log     tune.Log
	run     tune.Run
	on      bool
	pending []tune.Trial // not added yet
	failed  error        // of the last writing
	writing chan bool    // closed when the last writing has ended
}

// add adds trials to the log while the next one is measured. It also adds trials that could not be added before. It waits
// only until the previous trials are written.
func (j *journal) add(ts ...tune.Trial) {
	if !j.on {
		return
	}
	j.wait()
	j.pending = append(j.pending, ts...)
	done := make(chan bool)
	j.writing = done
	go func() {
		defer close(done)
		if j.failed = j.log.Add(&j.run, j.pending...); j.failed == nil {
			j.pending = nil
		}
	}()
}

// wait waits until everything is written, or cannot be.
func (j *journal) wait() {
	if j.writing != nil {
		<-j.writing
	}
}

// end notes why the search ended. The error is that of the last writing.
func (j *journal) end(reason string, dropped map[string]int) error {
	j.wait()
	j.run.Ended, j.run.Dropped = reason, dropped
	j.add()
	j.wait()
	if len(j.pending) > 0 {
		return fmt.Errorf("%d candidates: %w", len(j.pending), j.failed)
	}
	return j.failed
}
