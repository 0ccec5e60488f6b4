package beam

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Operator chooses the schedule of a float operator on a target.
func Operator(ctx context.Context, o operator.Operator, t lower.Target) (schedule.Trace, error) {
	x := operatorCost{o, t}
	best, err := choose(ctx, space.ForOperator(o, t), x.of)
	return best.Trace(), err
}

// operatorCost predicts how long an operator takes.
type operatorCost struct {
	operator.Operator
	lower.Target
}

// of is the logarithm of the cycles of all calls by a schedule. Stored inputs come to the first-level cache each time that a kernel goes over
// them, and execution does not hide that.
func (x operatorCost) of(ctx context.Context, at space.Point) (sum float64, err error) {
	k, err := schedule.CompileOperator(x.Operator, at.Trace())
	if err != nil {
		return math.Inf(1), err
	}
	s, err := cost.Select(ctx, x.Target, k.Nest, cost.MostInstrs)
	if err != nil {
		return refused, err
	}
	stored := func(param string) bool { return slices.Contains(x.Stored, param) }
	for _, sizes := range x.Typical() {
		trips := func(count vir.Extent, _ bool) float64 {
			if count.Param < 0 {
				return float64(count.Const)
			}
			of := k.Params[count.Param]
			return float64((sizes[of.Size] + of.Div - 1) / of.Div)
		}
		p := cost.Code(ctx, s, trips)
		if p.Refused != nil {
			return lacks(p)
		}
		brought := float64(cost.Lines(s, trips, stored) * s.Machine.Core.Hierarchy.Line[cost.L2])
		sum += logarithm(p.Cycles + brought + around(s, p, trips, 0))
	}
	return sum, nil
}

// lacks says how wrong a kernel is that is refused: by how many registers it lacks, or else as one that does not lower.
func lacks(p cost.Pipeline) (wrong float64, err error) {
	if !errors.As(p.Refused, new(*lower.Pressure)) {
		return refused, p.Refused
	}
	return float64(max(p.Vectors+p.Scalars, 1)), p.Refused
}

// What cores have in common, as estimates: a preparation's code and the ends of its loops are a small part of its time.
const (
	instrBytes = 6  // of an instruction on vectors on amd64; arm64 has 4, by which other preparations are chosen, not measured
	foreseen   = 48 // iterations of a loop whose end a core foresees: its predictor knows the last some hundred branches, of several loops
)

// around is the cycles that a call takes beside the ones of its instructions: a share of what it takes to bring its code from the second-level
// cache, since whoever calls it runs other code in between, and about as much as the latency of a line for each end of a loop that
// is not foreseen.
func around(s *lower.Selected, p cost.Pipeline, trips func(count vir.Extent, listed bool) float64, share float64) float64 {
	h := s.Machine.Core.Hierarchy
	cycles := float64(float64(len(s.Rows)*instrBytes) / 64 * h.Line[cost.L2] * share)
	ended := map[*vir.Loop]bool{}
	for _, x := range p.Stretches {
		if x.Loop == nil || ended[x.Loop] {
			continue
		}
		ended[x.Loop] = true
		if n := trips(x.Loop.Count, x.Loop.List > 0); n > foreseen {
			cycles += float64(x.Times / n * h.Latency[cost.L2])
		}
	}
	return cycles
}

// choose is the best point of a space of loops, first among points that spare registers. Costs are of data in the first-level cache, so
// prefetches stay as the first point has them.
func choose(ctx context.Context, sp *space.Space, of func(context.Context, space.Point) (float64, error)) (space.Point, error) {
	spare := sp.Spare()
	first, err := spare.First()
	if err != nil {
		return nil, err
	}
	s := Search{Width: 2, Most: 12, Passes: 2, Budget: 2000,
		Cost: func(ctx context.Context, x space.Point, _ float64) (float64, error) { return of(ctx, x) },
		Skip: func(rule string, _ *Found) bool { return strings.HasPrefix(rule, "prefetch") || rule == "chunk" }}
	best, err := s.Improve(ctx, spare, first)
	if err != nil {
		return nil, err
	}
	if best, err = s.Improve(ctx, sp, best[0].Point); err != nil {
		return nil, err
	}
	return best[0].Point, nil
}
