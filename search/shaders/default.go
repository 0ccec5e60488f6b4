package shaders

import (
	"context"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
)

// columns are the numbers of columns of default schedules besides one.
var columns = []int{4, 8}

// Default are the first schedules of the space of workgroups: no model of devices has chosen them.
func Default(ctx context.Context, p ir.Problem, t spirv.Target) (uses []search.Use, err error) {
	if p.Act.Floats() {
		return nil, fmt.Errorf("%s: shaders multiply 8-bit activations: compile it for a CPU", p.Name())
	}
	sp, err := space.For(p, t)
	if err != nil {
		return nil, err
	}
	points, err := sp.Widths(columns...)
	if err != nil {
		return nil, fmt.Errorf("%s has no default schedule for %s: %w: give one with -trace", p.Name(), t.Machine().Name, err)
	}
	for _, x := range points {
		k, err := sp.Kernel(x)
		if err != nil {
			return nil, err
		}
		uses = append(uses, search.Use{Cols: k.Cols, Trace: x.Trace()})
	}
	return uses, ctx.Err()
}

// Traces are the schedules of uses.
func Traces(uses []search.Use) []schedule.Trace {
	all := []schedule.Trace{}
	for _, u := range uses {
		all = append(all, u.Trace)
	}
	return all
}
