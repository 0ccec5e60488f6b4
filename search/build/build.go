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

// Variant compiles and prints the kernels of p for t, the narrowest first, and the
// preparation of their activations. A use that was chosen by its kernel on t has it
// already. Interrupted, Variant returns the error of ctx.
func Variant(ctx context.Context, p ir.Problem, t lower.Target, uses []search.Use) (variant.Variant, error) {
	v := variant.Variant{Target: t, Need: targets.Features(t)}
	for _, u := range uses {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		k, err := kernel(ctx, p, t, u)
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
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
	v.Prepare, err = Prepare(ctx, p, v)
	return v, err
}

// kernel is the printed kernel of u.
func kernel(ctx context.Context, p ir.Problem, t lower.Target, u search.Use) (k variant.Kernel, err error) {
	if u.Kernel != nil {
		return u.Kernel.Printed(t), nil
	}
	if k, err = lowered(ctx, p, t, u); err != nil {
		return k, err
	}
	return k.Printed(t), nil
}

// lowered compiles the trace of u.
func lowered(ctx context.Context, p ir.Problem, t lower.Target, u search.Use) (k variant.Kernel, err error) {
	if k.Schedule, err = schedule.Compile(p, u.Trace); err != nil {
		return k, err
	}
	cols := k.Schedule.Cols
	if u.Cols != 0 && u.Cols != cols {
		return k, fmt.Errorf("a schedule for n = %d is said to be for %d", cols, u.Cols)
	}
	k.Code, err = lower.Build(ctx, t, k.Schedule.Nest)
	return k, err
}

// Prepare compiles and prints the preparation of activations for the kernels of v, by its default
// schedule.
func Prepare(ctx context.Context, p ir.Problem, v variant.Variant) (*variant.Prepare, error) {
	x, err := prepare(ctx, p, v)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("activations for %s on %s: %w", p.Name(), v.Target.Machine().Name, err)
	}
	return x, nil
}

func prepare(ctx context.Context, p ir.Problem, v variant.Variant) (*variant.Prepare, error) {
	tables := v.Tables()
	trace, err := search.DefaultPrepare(p, tables, v.TableChunk(), v.Target)
	if err != nil {
		return nil, err
	}
	k, err := schedule.CompilePreparation(p, tables, trace)
	if err != nil {
		return nil, err
	}
	code, err := lower.Build(ctx, v.Target, k.Nest)
	if err != nil {
		return nil, err
	}
	return &variant.Prepare{Schedule: k, Text: v.Target.Print(code)}, nil
}
