// Package device runs schedules on devices of Vulkan: it compiles them for a device, compares their products with the definition, and times
// them by the device's clock.
package device

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
)

// Kernel is a schedule and its shader.
type Kernel struct {
	Schedule *schedule.Kernel
	Shader   *spirv.Shader
}

// Controls are what the device has of what shaders may ask. A device with cooperative matrices runs a small shader to answer.
func Controls(d *vulkan.Device) spirv.Controls {
	c := controls(d)
	c.Matrices = roundsMatrices(d)
	return c
}

// controls are the ones that properties of the device say.
func controls(d *vulkan.Device) spirv.Controls {
	c := d.FloatControls[32]
	return spirv.Controls{Subgroup: subgroup(d), Subgroups: d.Subgroup.MostPerGroup, RoundToEven: c.RoundToEven, Denormals: c.PreserveDenormals,
		Halves: d.FloatControls[16].PreserveDenormals, NotNumbers: c.PreserveSpecials}
}

// subgroup is the size of subgroups that a pipeline of d may ask for, if its lanes can exchange words.
func subgroup(d *vulkan.Device) int {
	const shuffle = 0x10 // VK_SUBGROUP_FEATURE_SHUFFLE_BIT
	if d.Subgroup.Control && d.Features.FullSubgroups && d.Subgroup.Operations&shuffle != 0 {
		return d.Subgroup.Size
	}
	return 0
}

// Compile makes a kernel of a trace.
func Compile(ctx context.Context, p ir.Problem, trace schedule.Trace, t spirv.Target, c spirv.Controls) (Kernel, error) {
	k, err := build.Shaded(ctx, p, t, trace, c)
	if err != nil {
		return Kernel{}, err
	}
	return Kernel{k.Schedule, k.Shaders[0]}, nil
}

// Product is schedules of a problem on a device: of different numbers of columns, for one packed layout.
type Product struct {
	*runtime.Product // on the device
	Kernels          []Kernel
	Spec             runtime.Spec
	on               *device.One
}

// New readies kernels of p on d.
func New(d *vulkan.Device, p ir.Problem, ks ...Kernel) (*Product, error) {
	if len(ks) == 0 {
		return nil, fmt.Errorf("%s: no kernel", p.Name())
	}
	t, _ := spirv.ByName("spirv")
	v := variant.Shaders{Target: t}
	for _, k := range ks {
		of := variant.Shaded{Schedule: k.Schedule, Shaders: []*spirv.Shader{k.Shader}}
		if k.Schedule.Quantized != nil {
			v.Fused = &of
			continue
		}
		v.Kernels = append(v.Kernels, of)
	}
	spec, err := v.Spec(p)
	if err != nil {
		return nil, err
	}
	x, err := Of(d, spec)
	if err == nil {
		x.Kernels = ks
	}
	return x, err
}

// Of readies the product of a spec, whose one variant has shaders, on d.
func Of(d *vulkan.Device, spec runtime.Spec) (x *Product, err error) {
	x = &Product{Spec: spec, on: &device.One{Device: d}}
	spec.Variants = slices.Clone(spec.Variants)
	spec.Variants[0].Device = x.on
	x.Product, err = runtime.New(spec).On(spec.Variants[0].Target)
	if err == nil && len(x.Skipped()) > 0 { // who measures a product wants all of it
		err = &vulkan.Refused{Device: d.Name, Reason: strings.Join(x.Skipped(), "; ")}
	}
	if err != nil {
		x.Free()
		return nil, err
	}
	return x, nil
}

// Free frees what the product has on the device, besides its matrices. It may not be used any more.
func (x *Product) Free() { x.on.Free() }

// Check compares the product of random matrices of a shape with pure Go, bit for bit: all columns, and of large matrices some rows.
func (x *Product) Check(m, n, k int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	w, err := x.Random(m, k, rng)
	if err != nil {
		return err
	}
	defer w.Free()
	return w.Check(n, rng)
}
