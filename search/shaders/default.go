package shaders

import (
	"context"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/space"
)

// model is the target whose default schedules become schedules of shaders: its vectors are as long as an access of a lane.
const model = "arm64/dotprod"

// Default are schedules of p for devices: the first ones of the space of workgroups. Where it has none they are the default ones of a CPU, with a workgroup
// for each tile of rows and a lane for each row of a vector. No model of devices has chosen them.
func Default(ctx context.Context, p ir.Problem, t spirv.Target) (uses []search.Use, err error) {
	if p.Act.Floats() {
		return nil, fmt.Errorf("%s: shaders multiply 8-bit activations: compile it for a CPU", p.Name())
	}
	if sp, err := space.For(p, t); err == nil && grouped(sp) {
		return ofSpace(sp)
	}
	all, err := search.Default(ctx, p, targets.ByName(model))
	if err != nil {
		return nil, err
	}
	var refused error
	for _, u := range all {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			return nil, err
		}
		for _, lanes := range []bool{true, false} {
			trace := Grouped(u.Trace, k.Nest.Loops, lanes)
			use := search.Use{Cols: u.Cols, Trace: trace}
			v, err := build.Shaders(ctx, p, t, []search.Use{use}, spirv.Controls{})
			if err == nil {
				err = v.Check()
			}
			if err == nil {
				uses = append(uses, use)
				break
			}
			refused = err
		}
	}
	if len(uses) == 0 {
		return nil, fmt.Errorf("%s has no default schedule for %s: %w: give one with -trace", p.Name(), t.Machine().Name, refused)
	}
	return uses, nil
}

// Grouped is a schedule whose calls are workgroups and, with lanes, whose vectors of rows are lanes of them.
func Grouped(trace schedule.Trace, loops []nest.Loop, lanes bool) (out schedule.Trace) {
	var lane []string
	to := map[string]string{}
	outside := 0
	for _, l := range loops {
		if l.Kind == nest.Outer {
			outside++
		}
		switch {
		case l.Root != "m":
		case l.Kind == nest.Outer:
			to[l.Name] = "group"
		case l.Kind == nest.Vector && lanes:
			to[l.Name] = "lane"
			lane = append(lane, l.Name)
		}
	}
	for _, s := range trace {
		switch x := s.(type) {
		case schedule.Bind:
			if to[x.Loop] != "" {
				x.To = to[x.Loop]
			}
			s = x
		case schedule.Reorder:
			order := slices.DeleteFunc(slices.Clone(x.Order), func(n string) bool { return slices.Contains(lane, n) })
			if len(order) < len(x.Order) {
				x.Order = slices.Insert(order, outside, lane...)
			}
			s = x
		}
		out = append(out, s)
	}
	return out
}

// ofSpace are the first schedules of a space.
func ofSpace(sp *space.Space) (uses []search.Use, err error) {
	points, err := sp.Widths(4, 8)
	for _, x := range points {
		k, err := sp.Kernel(x)
		if err != nil {
			return nil, err
		}
		uses = append(uses, search.Use{Cols: k.Cols, Trace: x.Trace()})
	}
	return uses, err
}

// Traces are the schedules of uses.
func Traces(uses []search.Use) []schedule.Trace {
	all := []schedule.Trace{}
	for _, u := range uses {
		all = append(all, u.Trace)
	}
	return all
}
