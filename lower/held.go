package lower

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// Held is what registers hold where a function needs more of them than there are.
type Held struct {
	Pressure
	// Values are one for each vector register that the function needs, in the order in which they are made. For general registers they are the counts
	// of loops and the buffers whose addresses are needed there. One of these may need several registers.
	Values []HeldValue
}

// HeldValue is what a register holds.
type HeldValue struct {
	Text string // the operation that makes the value, as vector IR has it, or a count or an address in words
	From int    // the vir.Instr.From of that operation, 0: none
}

// Held says what registers hold at the place at which s needs most, before Allocate gives up anything. It is nil if they suffice then. The error is
// that of ctx, or of a pass.
func (s *Selected) Held(ctx context.Context) (*Held, error) {
	f, err := s.table.run(ctx, s.table.back(plan{}), s.Func, nil)
	if err != nil {
		return nil, err
	}
	_, err = s.table.kernel(f)
	need := (*Pressure)(nil)
	if !errors.As(err, &need) {
		return nil, err
	}
	l := lifetimes(f)
	if need.Kind == "vector" {
		return &Held{*need, l.held(f)}, nil
	}
	return &Held{*need, addressed(f, l.steps, need.At)}, nil
}

// held are the values that are live where most are.
func (l *lives) held(f *vir.Func) (out []HeldValue) {
	_, worst := l.pressure()
	var made []int // steps; several registers may be united, so that another one's first instruction is theirs
	for r, from := range l.from {
		if from >= 0 && from <= worst && worst < max(l.to[r], from+1) {
			made = append(made, from)
		}
	}
	slices.Sort(made)
	for _, at := range made {
		in := l.steps[at].in
		out = append(out, HeldValue{f.Format(in), in.From})
	}
	return out
}

// addressed are the loops around the step that a text describes, and the buffers that are needed from there on.
func addressed(f *vir.Func, all []step, where string) (out []HeldValue) {
	at := max(0, slices.IndexFunc(all, func(s step) bool { return !s.end && describe(f, s) == where }))
	var buffers []int
	for i, s := range all {
		switch {
		case s.loop != nil && !s.end && i <= at && at < s.last:
			out = append(out, HeldValue{Text: fmt.Sprintf("the count of loop l%d", s.loop.ID)})
		case s.in != nil && s.in.HasMem() && (i >= at || insideLoopOf(all, i, at)) && !slices.Contains(buffers, s.in.Mem.Buf):
			buffers = append(buffers, s.in.Mem.Buf)
		}
	}
	slices.Sort(buffers)
	for _, b := range buffers {
		out = append(out, HeldValue{Text: "the address of " + f.Params[b].Name})
	}
	return out
}

// insideLoopOf says that a step is in a loop that is also around another one.
func insideLoopOf(all []step, at, other int) bool {
	return slices.ContainsFunc(all[:at], func(s step) bool { return s.loop != nil && !s.end && s.last > at && s.last > other })
}
