package shaders

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/device"
	choose "github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/tests/drawn"
)

// scaled are formats whose scales are of other kinds than the ones of the table: one for a matrix, f16 and f32 in groups, zero points, minimums, and two levels.
var scaled = []string{"w2-tensor", "ternary-tensor", "w3-g48", "w4-g64-f32", "w4-g32-z", "w5-g32-m", "w2-g16-s64-m", "w6-g32"}

// heldOut are formats that no table has.
var heldOut = []format.Weight{
	{Name: "out-five", Bits: 3, Levels: []int{3, -7, 0, 90, -1}, Per: format.PerGroup, Group: 48, Scale: format.BF16},
	{Name: "out-rows", Bits: 2, Levels: []int{-2, 5, 127}, Per: format.PerRow, Scale: format.F32},
	{Name: "out-seven", Bits: 7, Levels: format.UpFrom(-100, 77), Per: format.PerGroup, Group: 16, Super: 96, Scale: format.I8},
}

// TestDefaults compares products by default schedules with the definition, bit for bit: of formats with scales of all kinds, by 1, 3, 64 and 256
// columns. Rows are odd, and so are the elements of K where the format has no groups. A format that is in no table is always among them. spirv-val accepts each module.
func TestDefaults(t *testing.T) {
	draw := drawn.New(t)
	var all []ir.Problem
	for _, name := range drawn.Some(draw, 40, append(format.Names(), scaled...)) {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, w := range drawn.Some(draw, 3, heldOut) {
		all = append(all, ir.Problem{Weight: w})
	}
	for _, p := range all {
		for _, target := range drawn.Some(draw, 2, Targets(false)) {
			t.Run(p.Name()+"/"+target.Machine().ShortName(), func(t *testing.T) { byDefault(t, p, target) })
		}
	}
}

func byDefault(t *testing.T, p ir.Problem, target spirv.Target) {
	d := Device(t)
	uses, err := choose.Default(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(uses, func(u search.Use) bool { return u.Cols > 1 }) {
		t.Errorf("no kernel has several columns")
	}
	v, err := build.Shaders(t.Context(), p, target, uses, Controls(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range v.Kernels {
		for _, sh := range k.Shaders {
			Accepted(t, sh)
		}
	}
	x := runnable(t, p, v)
	defer x.Free()
	rng := rand.New(rand.NewSource(1))
	for _, n := range []int{1, 3, 64, 256} {
		m, k := 2*rng.Intn(60)+1, p.WholeK(2*rng.Intn(400)+1)
		if err := x.Check(m, n, k, rng.Uint64()); err != nil {
			t.Error(err)
		}
	}
}

// runnable is the product by the kernels of v that the device runs, as packages do without the others: default schedules are for devices with subgroups of 32, without
// which lanes share more memory.
func runnable(t *testing.T, p ir.Problem, v variant.Shaders) *device.Product {
	t.Helper()
	d, all, floats := Device(t), v.Kernels, v.Fused
	runs := func(what string, one variant.Shaders) bool {
		x, err := ready(d, p, one)
		if refused := (*vulkan.Refused)(nil); errors.As(err, &refused) {
			t.Logf("%s: %v", what, err)
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		x.Free()
		return true
	}
	v.Kernels, v.Fused = nil, nil
	for _, k := range all {
		one := v
		one.Kernels = []variant.Shaded{k}
		if runs(fmt.Sprint(k.Schedule.Cols, " columns"), one) {
			v.Kernels = append(v.Kernels, k)
		}
	}
	if len(v.Kernels) == 0 {
		t.Fatal("the device runs none of the kernels")
	}
	if floats != nil {
		one := v
		if one.Fused = floats; runs("floats", one) {
			v = one
		}
	}
	x, err := ready(d, p, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ready(d *vulkan.Device, p ir.Problem, v variant.Shaders) (*device.Product, error) {
	spec, err := v.Spec(p)
	if err != nil {
		return nil, err
	}
	return device.Of(d, spec)
}
