package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
)

// buildTarget compiles the kernels of p for t: of the default schedules, or of
// the given one alone.
func buildTarget(ctx context.Context, p ir.Problem, t lower.Target, trace schedule.Trace) (variant.Variant, error) {
	uses := []search.Use{{Trace: trace}}
	if trace == nil {
		var err error
		if uses, err = search.Default(ctx, p, t); err != nil {
			return variant.Variant{}, err
		}
	}
	return build.Variant(ctx, p, t, uses)
}

// onAllCores calls f for 0 to n-1, several at once. Interrupted, it begins no other
// call, waits for those that run, and returns the error of ctx.
func onAllCores(ctx context.Context, n int, f func(int)) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
	return ctx.Err()
}
