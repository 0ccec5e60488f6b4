package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Registers is what they hold where they do not suffice, of PressureKind.
	Registers *Registers `json:"registers,omitempty"`
}

// Registers is what registers hold at the place where a kernel needs most of them.
type Registers struct {
	Kind   string `json:"kind"` // vector or general
	Have   int    `json:"have"`
	Need   int    `json:"need"`
	At     string `json:"at"` // the operation of vector IR
	Values []Live `json:"values"`
}

// Live are values that were made for one statement of the nest.
type Live struct {
	Number    int           `json:"number"`              // of values: each needs a register
	Made      string        `json:"made"`                // the operation that makes the first of them
	Line      int           `json:"line,omitempty"`      // of the nest, from 1; 0: constants that several statements share, addresses and counts
	Statement string        `json:"statement,omitempty"` // that line
	Repeats   []RelatedLine `json:"repeats,omitempty"`   // steps that make one statement several: they unroll a loop around it
	Steps     []RelatedLine `json:"steps,omitempty"`     // all that name a loop around it
}

// Lines are a problem and what follows from it.
func (p Problem) Lines() []string {
	lines := []string{p.String()}
	r := p.Registers
	if r == nil {
		return lines
	}
	lines = append(lines, fmt.Sprintf("%d %s registers are needed, and there are %d. Live at %s:", r.Need, r.Kind, r.Have, r.At))
	for _, v := range r.Values {
		if v.Line == 0 {
			lines = append(lines, fmt.Sprintf("%4d  %s", v.Number, v.Made))
			continue
		}
		lines = append(lines, fmt.Sprintf("%4d  nest %d: %s", v.Number, v.Line, shortened(v.Statement)), "      first "+v.Made)
		if len(v.Repeats) > 0 {
			lines = append(lines, "      repeated by "+stepsText(v.Repeats))
		}
	}
	return lines
}

// mostStatement is how many characters of a statement texts have.
const mostStatement = 60

func shortened(text string) string {
	if r := []rune(text); len(r) > mostStatement {
		return string(r[:mostStatement-1]) + "…"
	}
	return text
}

// stepsText are steps in a line.
func stepsText(all []RelatedLine) string {
	var out []string
	for _, x := range all {
		out = append(out, fmt.Sprintf("step %d (%s)", x.Line, x.Text))
	}
	return strings.Join(out, ", ")
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
			text := strings.TrimPrefix(err.Error(), fmt.Sprintf("step %d: ", i))
			return append(out, Problem{Step: i, Stage: build.TraceStage, Kind: IllegalKind, Text: text})
		}
	}
	all := e.Stages(t)
	if last := all[len(all)-1]; last.Err != nil {
		p := Problem{Step: -1, Stage: last.Name, Kind: kindOf(last.Err), Text: last.Err.Error()}
		if p.Kind == PressureKind {
			p.Registers = e.registers(t, all)
		}
		out = append(out, p)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if why := e.about(t).fault; why != "" {
		out = append(out, Problem{Step: -1, Stage: "measure", Kind: FaultKind, Text: why})
	}
	return out
}

// registers says what they hold, nil if that is not known.
func (e *Explorer) registers(t schedule.Trace, all []build.Stage) *Registers {
	h, err := build.Held(context.Background(), all, e.Target)
	if err != nil || h == nil {
		return nil
	}
	r := &Registers{Kind: h.Kind, Have: h.Have, Need: h.Need, At: h.At}
	spans := build.SpansOf(all)
	nest, _ := e.Text(t, build.NestStage)
	at := map[string]int{} // in r.Values
	for _, v := range h.Values {
		x := Live{Made: v.Text}
		key := v.Text // of addresses and counts
		if related := spans.OfOperation(v.From); related != nil {
			line := related[build.NestStage][0]
			x.Line, x.Statement = line+1, strings.TrimSpace(strings.Split(nest, "\n")[line])
			for _, i := range related[build.TraceStage] {
				x.Steps = append(x.Steps, RelatedLine{i, t[i : i+1].String()})
			}
			x.Repeats = repeating(t, spans.Unrolled(line))
			key = fmt.Sprint(line)
		} else if h.Kind == "vector" {
			key = "shared"
		}
		i, ok := at[key]
		if !ok {
			i = len(r.Values)
			at[key], r.Values = i, append(r.Values, x)
		}
		r.Values[i].Number++
	}
	slices.SortStableFunc(r.Values, func(a, b Live) int { return b.Number - a.Number })
	return r
}

// repeating are the steps that bind loops.
func repeating(t schedule.Trace, loops []string) (out []RelatedLine) {
	for i, x := range t {
		if b, ok := x.(schedule.Bind); ok && slices.Contains(loops, b.Loop) {
			out = append(out, RelatedLine{i, t[i : i+1].String()})
		}
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
	key := t.Key()
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
