package build

import (
	"context"
	"errors"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
)

// CostReport says where the cycles of a call of p go, by the schedule among its stages.
func CostReport(ctx context.Context, p ir.Problem, stages []Stage, t lower.Target) (r cost.Report, err error) {
	trace, err := TraceOf(stages)
	if err != nil {
		return r, err
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return r, err
	}
	code, err := cost.Select(ctx, t, k.Nest, cost.Any)
	if err != nil {
		return r, err
	}
	return cost.ReportOf(ctx, k, code), nil
}

// TraceOf is the schedule among stages.
func TraceOf(stages []Stage) (schedule.Trace, error) {
	for _, s := range stages {
		if trace, ok := s.Value.(schedule.Trace); ok {
			return trace, nil
		}
	}
	return nil, errors.New("there is no schedule to tell the cost of")
}
