package explore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
)

// Problem is why a schedule has no kernel, or one that cannot be used.
type Problem struct {
	Step  int    `json:"step"`  // that does not apply; -1: the schedule as a whole
	Stage string `json:"stage"` // of the compiler that stopped
	Kind  string `json:"kind"`
	Text  string `json:"text"`
}

// Kinds of problems.
const (
	IllegalKind    = "illegal"    // a step does not apply
	UnfinishedKind = "unfinished" // something is left open
	RefusedKind    = "refused"    // loops would need accumulators in memory
	OverflowKind   = "overflow"   // a sum could lose information, for the inputs that the text names
	PressureKind   = "pressure"   // there are not enough registers
	TargetKind     = "target"     // the target cannot do it
	FaultKind      = "fault"      // measured, it crashed, did not end, or computed something else
)

func (p Problem) String() string {
	if p.Step >= 0 {
		return fmt.Sprintf("step %d is %s: %s", p.Step, p.Kind, p.Text)
	}
	return fmt.Sprintf("%s at stage %s: %s", p.Kind, p.Stage, p.Text)
}

// Problems are why the schedule has no kernel; none if it has a kernel that may be measured.
func (e *Explorer) Problems() (out []Problem) {
	t := e.Now()
	for i := range t {
		if _, err := e.state(t[:i+1]); err != nil {
			return append(out, Problem{i, build.TraceStage, IllegalKind, strings.TrimPrefix(err.Error(), fmt.Sprintf("step %d: ", i))})
		}
	}
	all := e.Stages(t)
	if last := all[len(all)-1]; last.Err != nil {
		out = append(out, Problem{-1, last.Name, kindOf(last.Err), last.Err.Error()})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if why := e.about(t).fault; why != "" {
		out = append(out, Problem{-1, "measure", FaultKind, why})
	}
	return out
}

func kindOf(err error) string {
	switch {
	case errors.As(err, new(*schedule.Unfinished)):
		return UnfinishedKind
	case errors.As(err, new(*schedule.Overflow)):
		return OverflowKind
	case errors.As(err, new(*nest.Refused)):
		return RefusedKind
	case errors.As(err, new(*lower.Pressure)):
		return PressureKind
	case errors.As(err, new(*schedule.Illegal)):
		return IllegalKind
	}
	return TargetKind
}

// Spans say which lines of the stages of a trace belong together.
func (e *Explorer) Spans(t schedule.Trace) build.Spans { return build.SpansOf(e.Stages(t)) }

// mostStages is how many schedules' stages are kept.
const mostStages = 16

// Stages are the stages of a trace, as build.Stages makes them.
func (e *Explorer) Stages(t schedule.Trace) []build.Stage {
	key := t.String()
	e.mu.Lock()
	all := e.stages[key]
	e.mu.Unlock()
	if all != nil {
		return all
	}
	all = build.Stages(e.Problem, t, e.Target)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.stages) >= mostStages {
		clear(e.stages)
	}
	e.stages[key] = all
	return all
}
