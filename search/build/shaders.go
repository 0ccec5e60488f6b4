package build

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
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
	f, err := lower.Vectorize(k.Schedule.Nest, "matmul")
	if err != nil {
		return k, err
	}
	s, err := lower.Select(ctx, t, f)
	if err != nil {
		return k, err
	}
	var refused error
	for _, c := range controls {
		if sh, err := t.Print(s, c); err == nil {
			k.Shaders = append(k.Shaders, sh)
		} else {
			refused = cmp.Or(refused, err)
		}
	}
	if len(k.Shaders) == 0 {
		return k, refused
	}
	return k, nil
}
