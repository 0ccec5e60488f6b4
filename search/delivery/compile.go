package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/tune"
)

// TryTraces compiles the given traces. A trace that does not compile is an error of the caller, not a product to leave
// out, and is found before anything is written.
func (x *Package) TryTraces(ctx context.Context) error {
	for _, w := range x.products {
		for _, t := range x.Targets {
			g, ok := w.Traces[t.Machine().Name]
			if !ok {
				continue
			}
			v, err := build.Variant(ctx, w.Problem, t, []search.Use{{Trace: g.Trace}})
			if err != nil {
				return fmt.Errorf("trace %s of %s: %w", g.Path, w.Name(), w.Blamed(err))
			}
			w.tried[t.Machine().Name] = &v
		}
		if err := x.tryShaders(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// job is one product to compile for one target.
type job struct {
	w       *product
	on      lower.Selector
	built   variant.Variant
	shaders *variant.Shaders // in place of built, for devices
	by      defaults.Origin
	err     error
}

// Compile compiles every product for every target, on all cores. A product that does not compile for a target goes to
// the order's Left. It is an error if there is but one product and one target, or if the lock is at fault
// (*tune.LockError). If nothing compiles, the error is ErrNothing. Unless the package is read-only, Compile first
// completes what a killed Write had left to do.
func (x *Package) Compile(ctx context.Context) error {
	if !x.ReadOnly {
		if err := gen.Complete(x.Dir); err != nil {
			return message.Plain(err)
		}
	}
	jobs := x.jobs()
	err := onAllCores(ctx, len(jobs), func(i int) {
		j := jobs[i]
		x.say(Compiling{j.w.Problem, j.on, i + 1, len(jobs)})
		if t, ok := j.on.(spirv.Target); ok {
			j.shaders, j.by, j.err = x.buildShaders(ctx, j.w, t)
		} else {
			j.built, j.by, j.err = x.buildProduct(ctx, j.w, j.on.(lower.Target))
		}
		j.err = j.w.Blamed(j.err)
	})
	if err != nil {
		return err
	}
	return x.gather(jobs)
}

// jobs lists the products for each target.
func (x *Package) jobs() (jobs []*job) {
	for _, w := range x.products {
		w.compiled, w.recorded = w.Uncompiled(), nil
		for _, t := range x.selectors() {
			jobs = append(jobs, &job{w: w, on: t})
		}
	}
	return jobs
}

// gather gives products the kernels that jobs have built, and leaves out what did not compile.
func (x *Package) gather(jobs []*job) error {
	for _, j := range jobs {
		if j.err == nil && j.shaders != nil {
			j.w.compiled.Shaders = append(j.w.compiled.Shaders, *j.shaders)
			continue
		}
		if j.err == nil {
			j.w.compiled.Variants = append(j.w.compiled.Variants, j.built)
			if j.by == defaults.Record {
				j.w.recorded = append(j.w.recorded, j.on.Machine().Name)
			}
			continue
		}
		var bad *tune.LockError
		if len(jobs) == 1 || errors.As(j.err, &bad) {
			return j.err
		}
		x.Order.Left = append(x.Order.Left, order.Left{Name: j.w.Label(), Type: j.on.Machine().Name, Reason: message.Line(j.err)})
	}
	x.products = slices.DeleteFunc(x.products, func(w *product) bool { return len(w.compiled.Variants)+len(w.compiled.Shaders) == 0 })
	if x.Empty() {
		return ErrNothing
	}
	return nil
}

// buildProduct compiles w for t: by the given trace, else by the lock, else by a record or the default schedules. It never
// searches.
func (x *Package) buildProduct(ctx context.Context, w *product, t lower.Target) (v variant.Variant, by defaults.Origin, err error) {
	if v := w.tried[t.Machine().Name]; v != nil {
		return *v, defaults.Trace, nil
	}
	if e := x.locked(w, t); e != nil {
		v, err = buildLocked(ctx, w.Product, t, e)
		return v, defaults.Lock, err
	}
	chosen, err := x.Defaults.Choose(ctx, w.Problem, t)
	if err == nil {
		v, err = build.Variant(ctx, w.Problem, t, chosen.Uses)
	}
	return v, chosen.Origin(), err
}

// buildLocked compiles w for t by an entry of the lock. The error is a *tune.LockError.
func buildLocked(ctx context.Context, w *order.Product, t lower.Target, e *tune.Entry) (variant.Variant, error) {
	v, err := build.Variant(ctx, w.Problem, t, e.Uses())
	if err != nil {
		err = &tune.LockError{Path: tune.LockName, Problem: message.Line(err)}
	}
	return v, err
}

// Origins says where the schedules of w would come from, by the name of the target. It compiles what it finds in the lock and in records. A record
// that does not compile is not used. The error is that of Compile for an entry of the lock that does not compile, or that of ctx.
func (x *Package) Origins(ctx context.Context, w *order.Product) (map[string]string, error) {
	out := map[string]string{}
	for _, t := range x.Shaders {
		by, err := x.shaderOrigin(ctx, w, t)
		if err != nil {
			return nil, cmp.Or(ctx.Err(), w.Blamed(err))
		}
		out[t.Machine().Name] = string(by)
	}
	for _, t := range x.Targets {
		by, err := x.origin(ctx, w, t)
		if err != nil {
			return nil, cmp.Or(ctx.Err(), w.Blamed(err))
		}
		out[t.Machine().Name] = string(by)
	}
	return out, nil
}

// origin is Origins for one target.
func (x *Package) origin(ctx context.Context, w *order.Product, t lower.Target) (defaults.Origin, error) {
	if w.Trace(t) != nil {
		return defaults.Trace, nil
	}
	if e := x.locked(&product{Product: w}, t); e != nil {
		_, err := buildLocked(ctx, w, t, e)
		return defaults.Lock, err
	}
	if e, err := x.Defaults.Takes(ctx, w.Problem, t); e != nil || err != nil {
		return defaults.Record, err
	}
	return defaults.Default, nil
}

// shaderOrigin is Origins for one target of shaders.
func (x *Package) shaderOrigin(ctx context.Context, w *order.Product, t spirv.Target) (defaults.Origin, error) {
	if w.Trace(t) != nil {
		return defaults.Trace, nil
	}
	if e := x.lock.Find(w.Problem, t); e == nil || !e.For(w.Problem) {
		return defaults.Default, nil
	}
	_, by, err := x.buildShaders(ctx, &product{Product: w}, t)
	return by, err
}

// onAllCores calls f for 0 to n-1, several at once. When ctx ends, it begins no other call, waits for the calls that
// run, and returns the error of ctx.
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
