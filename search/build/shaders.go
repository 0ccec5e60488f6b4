package build

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
)

// Shaders compiles the schedules of p to shaders, of each kernel one for each of the controls.
func Shaders(ctx context.Context, p ir.Problem, t spirv.Target, uses []search.Use, controls ...spirv.Controls) (variant.Shaders, error) {
	v := variant.Shaders{Target: t}
	for _, u := range uses {
		k, err := Shaded(ctx, p, t, u.Trace, controls...)
		if err != nil {
			return v, fmt.Errorf("%s on %s: %w", p.Name(), t.Machine().Name, err)
		}
		v.Kernels = append(v.Kernels, k)
	}
	return v, nil
}

// Shaded compiles one schedule. Of several controls, those are left out that it cannot have, such as subgroups of another size than its tiles.
func Shaded(ctx context.Context, p ir.Problem, t spirv.Target, trace schedule.Trace, controls ...spirv.Controls) (k variant.Shaded, err error) {
	if k.Schedule, err = schedule.Compile(p, trace); err != nil {
		return k, err
	}
	k.Schedule.PlainSums()
	k.Shaders, err = printed(ctx, k.Schedule.Nest, "matmul", t, controls)
	return k, err
}

// Quantizer compiles the first schedule of the preparation of p's activations to shaders. A workgroup prepares a row.
func Quantizer(ctx context.Context, p ir.Problem, t spirv.Target, controls ...spirv.Controls) (*variant.Quantizer, error) {
	sp, err := space.ForPreparation(p, nil, 0, t)
	if err != nil {
		return nil, err
	}
	x, err := sp.First()
	if err != nil {
		return nil, err
	}
	q := &variant.Quantizer{}
	if q.Schedule, err = schedule.CompilePreparation(p, nil, x.Trace()); err != nil {
		return nil, err
	}
	q.Shaders, err = printed(ctx, q.Schedule.Nest, "prepare", t, controls)
	return q, err
}

// printed is a nest as shaders, one for each of the controls that it can have.
func printed(ctx context.Context, n *nest.Nest, name string, t spirv.Target, controls []spirv.Controls) (all []*spirv.Shader, err error) {
	f, err := lower.Vectorize(n, name)
	if err != nil {
		return nil, err
	}
	s, err := lower.Select(ctx, t, f)
	if err != nil {
		return nil, err
	}
	var refused error
	for _, c := range controls {
		if sh, err := t.Print(s, c); err == nil {
			all = append(all, sh)
		} else {
			refused = cmp.Or(refused, err)
		}
	}
	if len(all) == 0 {
		return nil, refused
	}
	return all, nil
}
