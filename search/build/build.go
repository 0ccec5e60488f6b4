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
	"github.com/tmacc/tmacc/search/beam"
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
	var given schedule.Trace
	if len(uses) > 0 {
		given = uses[0].Prepare
	}
	var err error
	v.Prepare, err = prepared(ctx, p, v, given)
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
	return prepared(ctx, p, v, nil)
}

// prepared is Prepare by a given schedule, if that makes the tables of v.
func prepared(ctx context.Context, p ir.Problem, v variant.Variant, given schedule.Trace) (*variant.Prepare, error) {
	x, err := prepare(ctx, p, v, given)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("activations for %s on %s: %w", p.Name(), v.Target.Machine().Name, err)
	}
	return x, nil
}

func prepare(ctx context.Context, p ir.Problem, v variant.Variant, given schedule.Trace) (*variant.Prepare, error) {
	tables := v.Tables()
	k, err := schedule.CompilePreparation(p, tables, given)
	if given == nil || err != nil || k.Chunk != v.TableChunk() {
		trace, err := beam.Preparation(ctx, p, tables, v.TableChunk(), v.Target)
		if err != nil {
			return nil, err
		}
		if k, err = schedule.CompilePreparation(p, tables, trace); err != nil {
			return nil, err
		}
	}
	code, err := lower.Build(ctx, v.Target, k.Nest)
	if err != nil {
		return nil, err
	}
	return &variant.Prepare{Schedule: k, Text: v.Target.Print(code)}, nil
}

// TablesOf returns the tables that schedules of p, the narrowest first, read; nil if they read none.
// `chunk` is the number of elements of K whose tables lie together in the widest kernel's blocks.
func TablesOf(p ir.Problem, uses []search.Use) (tables *ir.Tables, chunk int, err error) {
	for _, u := range uses {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			return nil, 0, err
		}
		if k.Tables != nil {
			tables, chunk = k.Tables, k.Chunk
		}
	}
	return tables, chunk, nil
}

// Preparation chooses the schedule that prepares activations for schedules of p, the narrowest first; nil if there is nothing to prepare.
func Preparation(ctx context.Context, p ir.Problem, t lower.Target, uses []search.Use) (schedule.Trace, error) {
	tables, chunk, err := TablesOf(p, uses)
	if err != nil || tables == nil && p.Act.Floats() {
		return nil, err
	}
	return beam.Preparation(ctx, p, tables, chunk, t)
}
