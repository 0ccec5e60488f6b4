package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/shaders"
)

// choose finds the default schedules of all problems, as tmacc compile and bench do, by the speeds of the device: of products by few columns, and of
// products by many on devices with cooperative matrices.
func (x *lab) choose() error {
	speeds := spirv.SpeedsOf(x.d.Name)
	if data, err := os.ReadFile(x.known); err == nil {
		var r report
		if err := json.Unmarshal(data, &r); err == nil && r.Speeds != nil {
			speeds = *r.Speeds
		}
	}
	targets := map[string][]int{"spirv/dot": nil}
	if len(speeds.Shapes) > 0 && x.d.Features.CooperativeMatrix {
		targets["spirv/coop"] = []int{512}
	}
	problems := strings.Split(x.problems, ",")
	ctx, stop := context.WithDeadline(x.ctx, x.deadline)
	defer stop()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for name, columns := range targets {
		target, _ := spirv.ByName(name)
		for _, problem := range problems {
			wait.Go(func() {
				var all []entry
				err := caught(func() (err error) {
					all, err = defaults(ctx, problem, target.With(speeds), columns)
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				x.failed(problem+" on "+name, err)
				x.Chosen = append(x.Chosen, all...)
				x.failed("save", x.save())
			})
		}
	}
	wait.Wait()
	slices.SortStableFunc(x.Chosen, func(a, b entry) int { return slices.Index(problems, a.Problem) - slices.Index(problems, b.Problem) })
	return nil
}

// defaults are the default schedules of a problem.
func defaults(ctx context.Context, problem string, t spirv.Target, columns []int) (all []entry, err error) {
	p, err := ir.Named(problem)
	if err != nil {
		return nil, err
	}
	uses, err := shaders.Default(ctx, p, t, columns...)
	for _, u := range uses {
		all = append(all, entry{Problem: problem, Cols: u.Cols, Name: fmt.Sprintf("default of %s, %d columns", t.Machine().Name, u.Cols), Trace: u.Trace})
	}
	return all, err
}
