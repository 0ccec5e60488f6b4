// Package cost predicts how long kernels take, from their selected code and what the core's file says of it.
package cost

import (
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TypicalK is the K of a call that costs are of.
const TypicalK = 4096

// Pipeline is what the execution units of a core take for one call of a kernel whose data are in the first-level cache, for TypicalK elements of K.
type Pipeline struct {
	Cycles           float64 // of the call
	Stretches        []Stretch
	Vectors, Scalars int // registers alive at most, if none is loaded or computed again
}

// Stretch is a part of a kernel's code that runs as a whole: between two ends or begins of loops.
type Stretch struct {
	Loop   *vir.Loop // the innermost loop around, nil: none
	Begin  int       // of its first instruction in the code, counting instructions and ends of loops
	Times  float64   // that it runs in a call
	Cycles float64   // of one run
	Bound  string    // what took so long: "port multiply", "chain", "front end"
}

// listedK is about how many elements of K there are for each that brings its iteration on a list: outliers of activations
// are rare.
const listedK = 2048.0

// Run predicts what a call of k by its selected code s takes.
func Run(k *schedule.Kernel, s *lower.Selected) Pipeline {
	t := tally{s: s, trips: func(l *vir.Loop) float64 { return Trips(k, l) }}
	t.body(s.Func.Body, nil, 1)
	return t.p
}

// Trips is how often the body of a loop of k runs for each time that the loop is entered.
func Trips(k *schedule.Kernel, l *vir.Loop) float64 {
	n := float64(l.Count.Const)
	if l.Count.Param >= 0 {
		n = float64(k.FilledK(TypicalK)) / float64(k.StepK)
	}
	if l.List > 0 {
		n *= min(1, float64(k.StepK)/listedK)
	}
	return n
}

// tally adds up stretches.
type tally struct {
	s     *lower.Selected
	trips func(*vir.Loop) float64
	p     Pipeline
	at    int
}

// body adds the stretches of a body that runs so often.
func (t *tally) body(body []vir.Node, in *vir.Loop, times float64) {
	part := Stretch{Loop: in, Begin: t.at, Times: times}
	var busy lower.BusyTimes
	flush := func() {
		part.Cycles = max(busy[0], busy[1], busy[2], busy[3]) / 10
		t.p.Cycles += part.Cycles * times
		t.p.Stretches = append(t.p.Stretches, part)
		part, busy = Stretch{Loop: in, Begin: t.at, Times: times}, lower.BusyTimes{}
	}
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			if row := t.s.Rows[n]; row != nil && n.Op != vir.OpBitcast {
				busy = busy.With(row, 1)
			}
		case *vir.Loop:
			flush()
			t.body(n.Body, n, times*t.trips(n))
		}
		t.at++
	}
	flush()
}
