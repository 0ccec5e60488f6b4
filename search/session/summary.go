package main

import (
	"time"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// tuned is what tmacc tune -json prints of a search.
type tuned struct {
	Product  string           `json:"product"`
	ActGroup int              `json:"act_group"`
	Target   string           `json:"target"`
	Measured int              `json:"measured"` // candidates
	Seconds  float64          `json:"seconds"`
	Ended    string           `json:"ended"`
	Dropped  map[string]int   `json:"dropped"` // by reason
	Outcome  string           `json:"outcome"` // locked, renewed, stays, removed, not locked, or failed
	Why      string           `json:"why,omitempty"`
	Lock     string           `json:"lock,omitempty"` // the file, if it was changed
	Ratio    *tune.Ratio      `json:"ratio"`          // of the times for the purposes of the search to the default's; null: nothing was found
	Figures  []tunedFigures   `json:"figures"`
	Traces   []schedule.Trace `json:"traces"` // of what the figures are of
}

// tunedFigures are those of a purpose.
type tunedFigures struct {
	tune.Purpose
	Ns        float64    `json:"ns"` // medians
	DefaultNs float64    `json:"default_ns"`
	Ratio     tune.Ratio `json:"ratio"`
}

// search notes what a search has measured.
func (r *tuned) search(p tune.Product, out tune.Outcome[*tune.Candidate], took time.Duration) {
	*r = tuned{Product: p.Problem.Name(), ActGroup: p.Problem.Act.Group, Target: p.Target.Machine().Name,
		Measured: out.Trials, Seconds: took.Seconds(), Ended: out.Ended, Dropped: out.Dropped, Outcome: outcomeFailed, Figures: []tunedFigures{}, Traces: []schedule.Trace{}}
}

// failed notes why nothing was decided, or not done.
func (r *tuned) failed(err error) { r.Outcome, r.Why = outcomeFailed, oneLine(err) }

// conclude notes what was decided.
func (r *tuned) conclude(d decision) {
	r.Outcome, r.Why = d.outcome, d.why
	if d.judged == nil {
		return
	}
	ratio := d.ratio()
	r.Ratio = &ratio
	for _, b := range d.figures {
		r.Figures = append(r.Figures, tunedFigures{b.Purpose, timing.Median(b.Ns), timing.Median(b.BaseNs), b.Ratio()})
	}
	for _, k := range d.Kernels {
		r.Traces = append(r.Traces, k.Schedule.Trace)
	}
}
