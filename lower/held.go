package lower

import (
	"context"
	"errors"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// Held is what registers hold where a function needs more of them than there are.
type Held struct {
	Pressure
	// Values are one for each register that the function needs: of vectors in the order in which they are made, else by the number of the register.
	Values []HeldValue
}

// HeldValue is what a register holds.
type HeldValue struct {
	Text string // the operation that makes the value, as vector IR has it; of a general register, what it holds in words
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
	return &Held{*need, s.table.addressed(f, l.steps)}, nil
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

// addressed are what general registers hold where most are needed.
func (t *table) addressed(f *vir.Func, all []step) (out []HeldValue) {
	_, _, most := address(t.m, &Kernel{Func: f, Machine: t.m}, all, func(at int) *MOp { return &MOp{Kind: MInstr, In: all[at].in} })
	for _, h := range most {
		out = append(out, HeldValue{Text: h.in(f)})
	}
	return out
}
