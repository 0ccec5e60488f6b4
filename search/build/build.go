// Package build compiles the schedules of a product into a variant: its kernels for one
// target, and the preparation of their activations.
package build

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
)

// Variant compiles the kernels of p for t, the narrowest first, and what prepares their
// activations. name makes names of assembly functions of what they are, "n4" or "prepare"; if it
// is nil they are these. Interrupted, it returns the error of ctx after the kernel that it is at.
func Variant(ctx context.Context, p ir.Problem, t lower.Target, uses []search.Use, name func(what string) string) (variant.Variant, error) {
	if name == nil {
		name = func(what string) string { return what }
	}
	v := variant.Variant{Target: t, Need: targets.Features(t)}
	for _, u := range uses {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		k, err := kernel(p, t, u, name)
		if err != nil && u.Cols > 0 {
			err = fmt.Errorf("n = %d: %w", u.Cols, err)
		}
		if err != nil {
			return v, fmt.Errorf("%s on %s: %w", p.Name(), t.Machine().Name, err)
		}
		if len(v.Kernels) > 0 && !k.Schedule.SharesBuffers(v.Kernels[0].Schedule) {
			return v, fmt.Errorf("%s on %s: the schedules for n = %d and %d are not for one packed matrix", p.Name(), t.Machine().Name, v.Kernels[0].Schedule.Cols, k.Schedule.Cols)
		}
		v.Kernels = append(v.Kernels, k)
	}
	slices.SortFunc(v.Kernels, func(a, b variant.Kernel) int { return cmp.Compare(a.Schedule.Cols, b.Schedule.Cols) })
	var err error
	v.Prepare, err = Prepare(p, v, name("prepare"))
	return v, err
}

func kernel(p ir.Problem, t lower.Target, u search.Use, name func(what string) string) (k variant.Kernel, err error) {
	if k.Schedule, err = schedule.Compile(p, u.Trace); err != nil {
		return k, err
	}
	cols := k.Schedule.Cols
	if u.Cols != 0 && u.Cols != cols {
		return k, fmt.Errorf("a schedule for n = %d is said to be for %d", cols, u.Cols)
	}
	k.Code, err = lower.Build(t, k.Schedule.Nest, name(fmt.Sprintf("n%d", cols)))
	return k, err
}

// Prepare compiles what prepares activations for the kernels of v, by its default schedule.
func Prepare(p ir.Problem, v variant.Variant, name string) (*variant.Prepare, error) {
	x, err := prepare(p, v, name)
	if err != nil {
		return nil, fmt.Errorf("activations for %s on %s: %w", p.Name(), v.Target.Machine().Name, err)
	}
	return x, nil
}

func prepare(p ir.Problem, v variant.Variant, name string) (*variant.Prepare, error) {
	tables := v.Tables()
	trace, err := search.DefaultPrepare(p, tables, v.TableChunk(), v.Target)
	if err != nil {
		return nil, err
	}
	k, err := schedule.CompilePreparation(p, tables, trace)
	if err != nil {
		return nil, err
	}
	code, err := lower.Build(v.Target, k.Nest, name)
	if err != nil {
		return nil, err
	}
	return &variant.Prepare{Schedule: k, Code: code}, nil
}
