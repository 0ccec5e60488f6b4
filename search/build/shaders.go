package build

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
)

// Shaders compiles the schedules of p to shaders, of each kernel one for each of the controls. A schedule that ends with quantize is a kernel for floats, and without
// the step a kernel for prepared activations.
func Shaders(ctx context.Context, p ir.Problem, t spirv.Target, uses []search.Use, controls ...spirv.Controls) (variant.Shaders, error) {
	v := variant.Shaders{Target: t}
	for _, u := range uses {
		trace := u.Trace
		if plain := schedule.Unquantized(trace); len(plain) < len(trace) && v.Fused == nil {
			k, err := Shaded(ctx, p, t, trace, controls...)
			if err != nil {
				return v, fmt.Errorf("%s on %s: %w", p.Name(), t.Machine().Name, err)
			}
			k.Most = u.Most
			v.Fused, trace = &k, plain
		}
		k, err := Shaded(ctx, p, t, trace, controls...)
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

// Listed compiles one schedule so that each block of its columns is multiplied by a matrix of its own, for models with experts.
func Listed(ctx context.Context, p ir.Problem, t spirv.Target, trace schedule.Trace, controls ...spirv.Controls) ([]abi.Shader, error) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return nil, err
	}
	k.PlainSums()
	all, err := printed(ctx, k.Listed(), "matmul", t, controls)
	return variant.ABIShaders(all), err
}

// Ended compiles one schedule so that its product ends in an operator of vectors.
func Ended(ctx context.Context, p ir.Problem, t spirv.Target, trace schedule.Trace, end schedule.Epilogue, controls ...spirv.Controls) ([]abi.Shader, error) {
	k, err := Shaded(ctx, p, t, append(slices.Clip(trace), end), controls...)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(k.Schedule.Epilogue, func(in schedule.EpilogueInput) bool { return in.One }) {
		return nil, fmt.Errorf("operator %s has inputs of one element", end.Operator)
	}
	return k.ABI(), nil
}

// longest is the most elements of a row that a quantizer is made for. Longer rows have that of a part.
const longest = 1 << 14

// Quantizers compiles the preparation of activations for a kernel of p, by the first schedules for rows of ascending lengths. Each is for all multiples of a length. The error is that of
// the shortest rows if there is none for any length.
func Quantizers(ctx context.Context, p ir.Problem, to *schedule.Kernel) (all []abi.Operator, err error) {
	var refused error
	for k := shortest(p); k <= longest; k *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x, no := quantizer(p, to.Wants(), k)
		if no != nil {
			refused = cmp.Or(refused, no)
			continue
		}
		if n := len(all); n == 0 || !bytes.Equal(x.Code, all[n-1].Code) {
			all = append(all, *x)
		}
	}
	if len(all) == 0 {
		return nil, refused
	}
	return all, nil
}

// shortest is the least elements of a row of p that a quantizer is made for.
func shortest(p ir.Problem) int { return multiple(multiple(operator.Panel, p.GroupK()), p.Act.Group) }

// QuantizerLength is the length of rows that the quantizer for rows of k elements is made for.
func QuantizerLength(p ir.Problem, k int) int {
	n := shortest(p)
	for 2*n <= longest && k%(2*n) == 0 {
		n *= 2
	}
	return n
}

// quantizer compiles the first schedule for rows of k elements.
func quantizer(p ir.Problem, to schedule.Prepared, k int) (*abi.Operator, error) {
	of, err := Quantizer(p, to, k)
	if err != nil {
		return nil, err
	}
	return operators.Shader(of)
}

// Quantizer is the preparation of rows of k activations of p by its first schedule, as devices run it.
func Quantizer(p ir.Problem, to schedule.Prepared, k int) (*schedule.OperatorKernel, error) {
	s, err := schedule.NewQuantizer(p, to, k)
	if err != nil {
		return nil, err
	}
	x, err := space.ForLoops(s, operators.ShaderTarget()).First()
	if err != nil {
		return nil, err
	}
	if s, err = x.Trace().ReplayOperator(s); err != nil {
		return nil, err
	}
	return s.Kernel()
}

// multiple is the least common multiple of n and m, or n if m is 0.
func multiple(n, m int) int {
	least := n
	for m > 0 && least%m != 0 {
		least += n
	}
	return least
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
