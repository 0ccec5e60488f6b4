package beam

import (
	"context"
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Preparation chooses the schedule that prepares activations of p on a target, also tables if there are any. The tables of `chunk`
// elements of K lie together, 0: of all elements.
func Preparation(ctx context.Context, p ir.Problem, tables *ir.Tables, chunk int, t lower.Target) (schedule.Trace, error) {
	sp, err := space.ForPreparation(p, tables, chunk, t)
	if err != nil {
		return nil, err
	}
	return choose(ctx, sp, func(ctx context.Context, trace schedule.Trace) (float64, error) {
		return preparationCost(ctx, p, tables, t, trace)
	})
}

// preparationCost is the cycles of a row of cost.TypicalK activations.
func preparationCost(ctx context.Context, p ir.Problem, tables *ir.Tables, t lower.Target, trace schedule.Trace) (float64, error) {
	k, err := schedule.CompilePreparation(p, tables, trace)
	if err != nil {
		return math.Inf(1), err
	}
	s, err := selected(ctx, t, k.Nest)
	if err != nil {
		return math.Inf(1), err
	}
	counts := len(k.Nest.Params) - len(k.CountDiv)
	x := cost.Code(s, func(count vir.Extent, _ bool) float64 {
		if count.Param < 0 {
			return float64(count.Const)
		}
		div := k.CountDiv[count.Param-counts]
		return float64((cost.TypicalK + div - 1) / div)
	})
	if x.Refused != nil {
		return lacks(x)
	}
	return x.Cycles, nil
}
