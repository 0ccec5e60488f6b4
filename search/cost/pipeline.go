// Package cost predicts how long kernels take, from their code before registers are allocated and what the core's file says
// of it.
package cost

import (
	"context"
	"errors"
	"math"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TypicalK is the K of a call that costs are of.
const TypicalK = 4096

// Pipeline is what the execution units of a core take for one call of a kernel whose data are in the first-level cache, for
// TypicalK elements of K, while a call follows the other.
type Pipeline struct {
	Cycles           float64 // of a call; infinite if Refused
	Stretches        []Stretch
	Vectors, Scalars int   // registers that it needs; of a refused kernel the ones that it lacks
	Refused          error // wraps a *lower.Pressure if registers lack, or a *nest.Refused, or is that of the context
}

// Stretch is a part of a kernel's code that runs as a whole: between two begins or ends of loops.
type Stretch struct {
	Loop   *vir.Loop // the innermost loop around, nil: none
	Times  float64   // that it runs in a call
	Cycles float64   // of one run
	Instrs int
	Bound  string // what takes so long: "ports 0 5", "front end", or "latency" of instructions that wait for one another
}

// Run predicts what a call of k by its selected code s takes.
func Run(ctx context.Context, k *schedule.Kernel, s *lower.Selected) Pipeline {
	return At(ctx, k, s, TypicalK)
}

// At is Run for another K.
func At(ctx context.Context, k *schedule.Kernel, s *lower.Selected, elements int) Pipeline {
	return Code(ctx, s, func(count vir.Extent, listed bool) float64 { return trips(k, elements, count, listed) })
}

// Code predicts what a call of selected code takes whose loops run as often as trips says, each time that they are entered.
func Code(ctx context.Context, s *lower.Selected, trips func(count vir.Extent, listed bool) float64) Pipeline {
	m, err := lower.Sketch(ctx, s)
	if err != nil {
		p := Pipeline{Cycles: math.Inf(1), Refused: err}
		if need := (*lower.Pressure)(nil); errors.As(err, &need) && need.Kind == "vector" {
			p.Vectors = need.Need
		} else if need != nil {
			p.Scalars = need.Need
		}
		return p
	}
	return of(m, trips)
}

// Trips is how often the body of a loop of k runs for each time that the loop is entered, by TypicalK elements of K.
func Trips(k *schedule.Kernel, l *vir.Loop) float64 { return trips(k, TypicalK, l.Count, l.List > 0) }

func trips(k *schedule.Kernel, elements int, count vir.Extent, listed bool) float64 {
	n := float64(count.Const)
	if count.Param >= 0 {
		n = float64(k.FilledK(elements)) / float64(k.StepK)
	}
	if listed {
		n *= listedShare(k, elements)
	}
	return n
}

// listedShare is the share of iterations that a list of k names: those with residuals of at least one unit of any column. It is rounded to one part in a
// million, the same on every host: their libraries differ in the last bits.
func listedShare(k *schedule.Kernel, elements int) float64 {
	if group := k.Problem.Act.Group; group > 0 {
		elements = min(elements, group)
	}
	units := float64(k.StepK*k.Cols) / float64(k.Tables.Digits())
	return math.Round((1-math.Pow(1-k.Tables.ResidualShare(elements), units))*(1<<20)) / (1 << 20)
}
