package beam

import (
	"context"
	"math"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
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
	return choose(ctx, space.ForOperator(o, t), x.of)
}

// operatorCost predicts how long an operator takes.
type operatorCost struct {
	operator.Operator
	lower.Target
}

// of is the logarithm of the cycles of all calls by a schedule.
func (x operatorCost) of(ctx context.Context, trace schedule.Trace) (sum float64, err error) {
	k, err := schedule.CompileOperator(x.Operator, trace)
	if err != nil {
		return math.Inf(1), err
	}
	s, err := selected(ctx, x.Target, k.Nest)
	if err != nil {
		return math.Inf(1), err
	}
	for _, sizes := range x.Typical() {
		trips := func(count vir.Extent, _ bool) float64 {
			if count.Param < 0 {
				return float64(count.Const)
			}
			of := k.Params[count.Param]
			return float64((sizes[of.Size] + of.Div - 1) / of.Div)
		}
		p := cost.Code(s, trips)
		if p.Refused != nil {
			return lacks(p)
		}
		sum += math.Log(p.Cycles) + farther*math.Log(1+linesAhead(s, trips))
	}
	return sum, nil
}

// farther is the power of the lines that a kernel asks for ahead by which it takes longer than from the first-level cache: lines that it
// reads twice come twice from farther away.
const farther = 0.1

// linesAhead is how many lines a call of a kernel asks for ahead.
func linesAhead(s *lower.Selected, trips func(count vir.Extent, listed bool) float64) (lines float64) {
	vir.Walk(s.Func.Body, func(in *vir.Instr, around []*vir.Loop) {
		if in.Op != vir.OpPrefetch {
			return
		}
		n := 1.0
		for _, l := range around {
			n *= trips(l.Count, false)
		}
		lines += n
	})
	return lines
}

// lacks says how many registers a kernel lacks.
func lacks(p cost.Pipeline) (wrong float64, err error) {
	return float64(max(p.Vectors+p.Scalars, 1)), p.Refused
}

// selected is the code of a nest before it has registers.
func selected(ctx context.Context, t lower.Target, n *nest.Nest) (*lower.Selected, error) {
	f, err := lower.Vectorize(n, n.Name)
	if err != nil {
		return nil, err
	}
	return lower.Select(ctx, t, f)
}

// choose is the best point of a space of loops, first among points that spare registers. Costs are of data in the first-level cache, so
// prefetches stay as the first point has them.
func choose(ctx context.Context, sp *space.Space, of func(context.Context, schedule.Trace) (float64, error)) (schedule.Trace, error) {
	spare := sp.Spare()
	first, err := spare.First()
	if err != nil {
		return nil, err
	}
	s := Search{Width: 2, Most: 12, Passes: 2, Budget: 2000,
		Cost: func(ctx context.Context, x space.Point, _ float64) (float64, error) { return of(ctx, x.Trace()) },
		Skip: func(rule string, _ *Found) bool { return strings.HasPrefix(rule, "prefetch") }}
	best, err := s.Improve(ctx, spare, first)
	if err != nil {
		return nil, err
	}
	if best, err = s.Improve(ctx, sp, best[0].Point); err != nil {
		return nil, err
	}
	return best[0].Trace(), nil
}
