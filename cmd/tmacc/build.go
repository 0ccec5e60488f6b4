package main

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
)

// buildTarget compiles the kernels of p for t: of the default schedules, or of
// the given one alone. Their names begin with prefix.
func buildTarget(ctx context.Context, p ir.Problem, t lower.Target, trace schedule.Trace, prefix string) (variant.Variant, error) {
	uses := []search.Use{{Trace: trace}}
	if trace == nil {
		var err error
		if uses, err = heeding(ctx, func() ([]search.Use, error) { return search.Default(p, t) }); err != nil {
			return variant.Variant{}, err
		}
	}
	return buildUses(ctx, p, t, uses, prefix)
}

// buildUses compiles kernels by their schedules, and the preparation of their
// activations.
func buildUses(ctx context.Context, p ir.Problem, t lower.Target, uses []search.Use, prefix string) (variant.Variant, error) {
	return build.Variant(ctx, p, t, uses, func(what string) string { return kernelName(prefix, t, what) })
}

// heeding is what f makes or, interrupted, at once, the error of ctx: f may still run, and shares nothing that is used afterwards.
func heeding[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type made struct {
		v   T
		err error
	}
	done := make(chan made, 1)
	go func() {
		v, err := f()
		done <- made{v, err}
	}()
	select {
	case x := <-done:
		return x.v, x.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// onAllCores calls f for 0 to n-1, several at once. Interrupted, it returns at
// once, while calls may still run.
func onAllCores(ctx context.Context, n int, f func(int)) error {
	var next atomic.Int64
	workers := min(n, runtime.GOMAXPROCS(0))
	done := make(chan bool, workers)
	for range workers {
		go func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				f(i)
			}
			done <- true
		}()
	}
	for range workers {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// kernelName is an identifier of Go: "w4_g32_avx2_n8".
func kernelName(prefix string, t lower.Target, what string) string {
	return identifier(prefix) + "_" + t.Machine().Identifier() + "_" + what
}

// identifier is s in small letters with '_' for what may not stand in a name.
func identifier(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	if s[0] < 'a' {
		return "k" + s
	}
	return s
}
