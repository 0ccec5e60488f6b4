package shaders

import (
	"context"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestSpace compares products by schedules of the derived space with the definition, on the device if they are not long: the first one
// of a format, the nearest ones for more columns with the same buffers, and samples. One in four of them at least has to lower.
func TestSpace(t *testing.T) {
	draw := drawn.New(t)
	rng := rand.New(rand.NewSource(drawn.Some(draw, 5, []int64{1, 2, 3, 4, 5})[0]))
	lowered, samples := 0, 0
	for _, name := range drawn.Some(draw, 8, format.Names()) {
		t.Run(name, func(t *testing.T) {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			sp, err := space.For(p, spirv.Targets()[1])
			if err != nil {
				t.Fatal(err)
			}
			first, err := sp.Columns(1).First()
			if err != nil {
				t.Fatal(err)
			}
			k, err := sp.Kernel(first)
			if err != nil {
				t.Fatal(err)
			}
			wider, err := sp.Columns(4).Sharing(k).Near(first)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []space.Point{first, wider} {
				if _, err := sp.Parse(x.Trace()); err != nil {
					t.Error(err)
				}
				if !pointOnDevice(t, sp, x) {
					t.Errorf("a first schedule does not lower: %v", x.Trace())
				}
			}
			for range 2 {
				x, err := sp.Sample(rng)
				if err != nil {
					t.Fatal(err)
				}
				if samples++; pointOnDevice(t, sp, x) {
					lowered++
				}
			}
		})
	}
	if 4*lowered < samples {
		t.Errorf("%d of %d samples lower", lowered, samples)
	}
}

// pointOnDevice says whether a point lowers, and what does is compared with the definition.
func pointOnDevice(t *testing.T, sp *space.Space, x space.Point) bool {
	k, err := sp.Kernel(x)
	if err != nil {
		t.Fatal(err)
	}
	target, d := spirv.Targets()[1], Device(t)
	f, s, sh, err := shaderOf(k, target, Controls(d))
	if err != nil {
		t.Log(err)
		return false
	}
	Accepted(t, sh)
	if k.Quantized != nil {
		of, err := schedule.Compile(k.Problem, schedule.Unquantized(x.Trace()))
		if err != nil {
			t.Fatal(err)
		}
		quantized(t, k.Problem, k, of.Nest.Params)
		return true
	}
	c := check.New(rand.New(rand.NewSource(4)), k.Problem, k.Rows+1, k.Cols, wholeK(k.Problem, k.StepK+5), check.Uniform)
	run := func(args []vir.Arg) error { return vir.Eval(f, args) }
	if len(s.Rows) <= Long {
		run = func(args []vir.Arg) error { return runOrEval(d, sh, f, args) }
	}
	compare(t, x.Trace().String(), c, k, run)
	return true
}

// runOrEval runs a shader, or evaluates its function if a workgroup shares more than the device has.
func runOrEval(d *vulkan.Device, sh *spirv.Shader, f *vir.Func, args []vir.Arg) error {
	if err := Run(d, sh, f, args); err == nil || !strings.Contains(err.Error(), "a workgroup shares") {
		return err
	}
	return vir.Eval(f, args)
}

// shaderOf is the shader of a kernel, and its function before and after selection.
func shaderOf(k *schedule.Kernel, target spirv.Target, c spirv.Controls) (*vir.Func, *lower.Selected, *spirv.Shader, error) {
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := lower.Select(context.Background(), target, f)
	if err != nil {
		return nil, nil, nil, err
	}
	sh, err := target.Print(s, c)
	return f, s, sh, err
}

// TestTileSpace compares products by small schedules of the space of cooperative matrices with the definition, also on the device if it has
// such matrices.
func TestTileSpace(t *testing.T) {
	const subgroup, small = 8, 64 * 64
	target := Targets(true)[0]
	draw := drawn.New(t)
	rng := rand.New(rand.NewSource(drawn.Some(draw, 5, []int64{1, 2, 3, 4, 5})[0]))
	for _, name := range drawn.Some(draw, 3, []string{"w1", "w2", "w4", "w8", "w4-g128", "w4-g32"}) {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		sp, err := space.ForTiles(p, target, subgroup, [][3]int{{8, 8, 8}})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for range 100 {
			x, err := sp.Sample(rng)
			if err != nil {
				t.Fatal(err)
			}
			k, err := sp.Kernel(x)
			if err != nil || k.Rows*k.Cols > small {
				continue
			}
			f, s, sh, err := shaderOf(k, target, spirv.Controls{})
			if err != nil || len(s.Rows) > Long {
				continue
			}
			d := Device(t)
			c := check.New(rng, p, k.Rows+1, k.Cols, wholeK(p, k.StepK+5), check.Uniform)
			compare(t, "vir "+x.Trace().String(), c, k, func(args []vir.Arg) error { return vir.Eval(f, args) })
			if Runs(d, sh) {
				compare(t, "device "+x.Trace().String(), c, k, func(args []vir.Arg) error { return Run(d, sh, f, args) })
			}
			Accepted(t, sh)
			found = true
			break
		}
		if !found {
			t.Errorf("%s: no small schedule of 100 lowers", name)
		}
	}
}
