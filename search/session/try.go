package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// Contender is schedules for one packed matrix, compiled, and what they are called.
type Contender struct {
	Name string
	*tune.Candidate
}

// Tried is what a contender takes beside the default schedules.
type Tried struct {
	Schedule string           `json:"schedule"` // the name of the contender
	Cost     float64          `json:"cost"`     // as of Better
	Figures  []TriedFigure    `json:"figures"`  // of each purpose
	Traces   []schedule.Trace `json:"traces"`
}

// String is the name and, of each purpose, the time and its ratio to the default's.
func (x Tried) String() string {
	var all []string
	for _, f := range x.Figures {
		all = append(all, fmt.Sprintf("%s %.1f us, %.2f of the default's time", tune.PurposesText(f.Purpose), f.Ns/1e3, f.Ns/f.DefaultNs))
	}
	return x.Schedule + ": " + strings.Join(all, "; ")
}

// TriedFigure is what one purpose takes, in nanoseconds, by the contender and by the default schedules in the same rounds.
type TriedFigure struct {
	tune.Purpose
	Ns        float64 `json:"ns"`
	DefaultNs float64 `json:"default_ns"`
}

// Usual is the contender of the default schedules: what measuring them beside themselves differs from 1 is noise. Its name says where
// they come from: "default" or "record".
func (s *Session) Usual() (Contender, error) {
	var usual []schedule.Trace
	for _, u := range s.tuner.Default {
		usual = append(usual, u.Trace)
	}
	c, err := s.tuner.Given(usual...)
	return Contender{string(s.origin), c}, err
}

// Contender compiles schedules, the narrowest first. The error says which is illegal, that they do not share a packed
// matrix, or that the narrowest has more columns than a purpose.
func (s *Session) Contender(name string, traces ...schedule.Trace) (Contender, error) {
	if len(traces) == 0 {
		return Contender{}, errors.New("session: no schedule to try: give at least one trace")
	}
	c, err := s.tuner.Given(traces...)
	if err == nil {
		err = s.tuner.Fits(c)
	}
	return Contender{name, c}, err
}

// Near returns contenders that differ from the default schedules in their prefetches, or do the same in another order.
// Their names say how they differ.
func (s *Session) Near() (out []Contender, err error) {
	near, err := s.tuner.Near()
	for _, c := range near {
		out = append(out, Contender{s.tuner.Differs(c), c})
	}
	return out, err
}

// Measure compares a contender with the definition of the product, in a process of its own, and measures it beside the default
// schedules. The error is a *tune.Unmeasured if no other contender can be measured either.
func (s *Session) Measure(x Contender) (Tried, error) {
	if err := s.tuner.Verify(x.Candidate); err != nil {
		return Tried{}, err
	}
	found, err := s.tuner.Confirm([]tune.Found[*tune.Candidate]{{G: x.Candidate}})
	if err != nil {
		return Tried{}, err
	}
	r := Tried{Schedule: x.Name, Cost: found[0].Cost}
	for i, p := range s.Purposes {
		r.Figures = append(r.Figures, TriedFigure{p, found[0].Ns[i], found[0].DefaultNs[i]})
	}
	r.Traces = traces(x.Kernels)
	return r, nil
}

// Try compiles, verifies and measures schedules for one packed matrix: Contender and Measure. It returns the error of ctx if that has
// ended before it measures.
func (s *Session) Try(ctx context.Context, traces ...schedule.Trace) (Tried, error) {
	c, err := s.Contender("given", traces...)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return Tried{}, err
	}
	return s.Measure(c)
}
