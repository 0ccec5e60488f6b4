package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/schedule"
)

// State is the schedule with all known facts.
type State struct {
	Product  string         `json:"product"`
	Target   string         `json:"target"`
	Columns  int            `json:"columns"`
	Origin   string         `json:"origin"` // of the schedule that it began with
	Changes  int            `json:"changes"`
	Cursor   int            `json:"cursor"`
	Steps    []Step         `json:"steps"`
	Purposes []fmt.Stringer `json:"purposes"` // of the predicted times
	Predicts Prediction     `json:"predicted"`
	Measured *Measured      `json:"measured,omitempty"`
	Problems []Problem      `json:"problems"`
	Undo     bool           `json:"undo"`
	Redo     bool           `json:"redo"`
	Busy     string         `json:"busy,omitempty"`
	bad      map[int]bool
	unit     string // of predicted times
}

// Step is a step of the schedule.
type Step struct {
	Number int            `json:"number"`
	Text   string         `json:"text"`
	Step   schedule.Trace `json:"step"`           // alone
	Rule   string         `json:"rule,omitempty"` // that made it; "": the rules do not make this schedule
}

// State describes the schedule. The error is that of ctx.
func (e *Explorer) State(ctx context.Context) (State, error) {
	t := e.Now()
	s := State{Product: e.Problem.Name(), Target: e.Target.Machine().Name, Columns: e.Columns, Origin: e.Origin,
		Steps: []Step{}, Purposes: e.purposes, Problems: e.Problems(), bad: map[int]bool{}, unit: e.on.unit()}
	rules := e.rulesOf(t)
	for i := range t {
		x := Step{Number: i, Text: t[i : i+1].String(), Step: t[i : i+1]}
		if rules != nil {
			x.Rule = rules[i]
		}
		s.Steps = append(s.Steps, x)
	}
	for _, p := range s.Problems {
		s.bad[p.Step] = true
	}
	var err error
	s.Predicts, err = e.Predict(ctx, t)
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Cursor, s.Changes, s.Undo, s.Redo = e.cursor, e.now, e.now > 0, e.now < len(e.history)-1
	s.Measured, s.Busy = e.about(t).measured, e.busy
	if s.Problems == nil {
		s.Problems = []Problem{}
	}
	return s, err
}

// rulesOf names the rule of each step, nil if the rules do not make the trace.
func (e *Explorer) rulesOf(t schedule.Trace) (out []string) {
	x, err := e.space.Parse(t)
	if err != nil {
		return nil
	}
	for i, rule := range e.space.Rules() {
		for range x[i] {
			out = append(out, rule)
		}
	}
	return out
}

// String is a line about the whole, one for each step, the cursor before one of them, and the problems.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, kernel of %d column%s, from %s, %d change%s\n", s.Product, s.Target, s.Columns, plural(s.Columns), s.Origin, s.Changes, plural(s.Changes))
	b.WriteString(s.Figures() + "\n")
	for _, x := range s.Steps {
		mark := "  "
		switch {
		case s.bad[x.Number]:
			mark = "! "
		case x.Number == s.Cursor:
			mark = "> "
		}
		fmt.Fprintf(&b, "%s%3d  %-50s  %s\n", mark, x.Number, x.Text, x.Rule)
	}
	if s.Cursor == len(s.Steps) {
		fmt.Fprintf(&b, "> %3d  (the end)\n", s.Cursor)
	}
	for _, p := range s.Problems {
		b.WriteString(strings.Join(p.Lines(), "\n") + "\n")
	}
	return trimmed(b.String())
}

// Figures are predicted and measured times, a line each.
func (s State) Figures() string {
	switch {
	case s.Predicts.Refused != "" && len(s.Problems) > 0:
		return "no prediction: there is no kernel"
	case s.Predicts.Refused != "" && s.Measured == nil:
		return "no prediction: without computing values again, the kernel " + s.Predicts.Refused
	case s.Predicts.Refused != "":
		return s.Measured.String()
	}
	var each []string
	for i, c := range s.Predicts.Cycles {
		each = append(each, fmt.Sprintf("%.4f (n = %v)", c, s.Purposes[i]))
	}
	for i, ns := range s.Predicts.Ns {
		each = append(each, fmt.Sprintf("%.0f (%v)", ns, s.Purposes[i]))
	}
	text := fmt.Sprintf("predicted %.3f of the default's time: %s %s", s.Predicts.Ratio, strings.Join(each, ", "), s.unit)
	if s.Measured != nil {
		text += "\n" + s.Measured.String()
	}
	return text
}

// trimmed is text without spaces at the ends of its lines, and without the last line break.
func trimmed(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// JSON is the schedule as -trace reads it, a line for each step.
func (e *Explorer) JSON() string {
	var lines []string
	for _, x := range e.Now() {
		data, err := json.Marshal(schedule.Trace{x})
		if err != nil {
			panic("BUG: explore: " + err.Error())
		}
		lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(string(data), "["), "]"))
	}
	return "[" + strings.Join(lines, ",\n ") + "]"
}

// Command is a line for a shell that measures the schedule beside the default one, as Measure does.
func (e *Explorer) Command() string {
	data, err := json.Marshal(e.Now())
	if err != nil {
		panic("BUG: explore: " + err.Error())
	}
	by := "compare"
	if e.onDevice() {
		by = "bench"
	}
	args := append([]string{"tmacc", by}, e.Flags...)
	for i, a := range args {
		args[i] = message.ShellWord(a)
	}
	return fmt.Sprintf("printf %%s %s | %s -trace -", message.ShellWord(string(data)), strings.Join(args, " "))
}
