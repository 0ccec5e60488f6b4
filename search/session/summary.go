package session

import (
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// Summary is a search and what came of it, as tmacc tune -json prints it.
type Summary struct {
	Product  string           `json:"product"`
	ActGroup int              `json:"act_group"`
	Target   string           `json:"target"`
	Measured int              `json:"measured"` // candidates
	Seconds  float64          `json:"seconds"`
	Ended    string           `json:"ended"`
	Dropped  map[string]int   `json:"dropped"` // candidates by reason
	Outcome  Outcome          `json:"outcome"`
	Why      string           `json:"why,omitempty"`
	Lock     string           `json:"lock,omitempty"` // the file, if it was changed
	Ratio    *tune.Ratio      `json:"ratio"`          // of the times for the purposes of the search to the default's; null: nothing was found
	Figures  []Figure         `json:"figures"`
	Traces   []schedule.Trace `json:"traces"` // of the schedules that the figures are of
}

// Summary is that of a search about which nothing was decided yet: its outcome is Failed.
func (s *Session) Summary(f *Found) Summary {
	return Summary{Product: s.Problem.Name(), ActGroup: s.Problem.Act.Group, Target: s.Target.Machine().Name,
		Measured: f.Trials, Seconds: f.Took.Seconds(), Ended: f.Ended, Dropped: f.Dropped, Outcome: Failed, Figures: []Figure{}, Traces: []schedule.Trace{}}
}

// Conclude adds to a summary what was decided.
func (s *Session) Conclude(r *Summary, d *Decision) {
	r.Outcome, r.Why = d.Outcome, d.Why
	if d.judged == nil {
		return
	}
	ratio := d.Ratio()
	r.Ratio, r.Figures, r.Traces = &ratio, s.Figures(d), d.Traces()
}
