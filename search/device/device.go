// Package device runs schedules on devices of Vulkan: it compiles them for a device, compares their products with the definition, and times
// them by the device's clock.
package device

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
)

// Kernel is a schedule and its shader.
type Kernel struct {
	Schedule *schedule.Kernel
	Shader   *spirv.Shader
}

// Controls are what the device has of what shaders may ask.
func Controls(d *vulkan.Device) spirv.Controls {
	c := d.FloatControls[32]
	return spirv.Controls{Subgroup: subgroup(d), RoundToEven: c.RoundToEven, Denormals: c.PreserveDenormals, NotNumbers: c.PreserveSpecials}
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
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return Kernel{}, err
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		return Kernel{}, err
	}
	s, err := lower.Select(ctx, t, f)
	if err != nil {
		return Kernel{}, err
	}
	sh, err := t.Print(s, c)
	return Kernel{k, sh}, err
}

// Product is schedules of a problem on a device: of different numbers of columns, for one packed layout.
type Product struct {
	*runtime.Product // on the device
	Kernels          []Kernel
	runner           *device.Runner
	device           *vulkan.Device
}

// New readies kernels of p on d.
func New(d *vulkan.Device, p ir.Problem, ks ...Kernel) (*Product, error) {
	if len(ks) == 0 {
		return nil, fmt.Errorf("%s: no kernel", p.Name())
	}
	ks = slices.SortedFunc(slices.Values(ks), func(a, b Kernel) int { return a.Schedule.Cols - b.Schedule.Cols })
	x := &Product{Kernels: ks, device: d}
	v := abi.Variant{Target: "spirv/dot", ABI: abi.Version, Fill: ks[0].Schedule.Fill}
	var shaders device.Shaders
	for _, k := range ks {
		s := k.Schedule
		if !s.SharesBuffers(ks[0].Schedule) {
			return nil, fmt.Errorf("%s: the schedules for n = %d and %d are not for one packed matrix", p.Name(), ks[0].Schedule.Cols, s.Cols)
		}
		v.Kernels = append(v.Kernels, abi.Kernel{Name: fmt.Sprintf("n%d", s.Cols), Rows: s.Rows, Cols: s.Cols, StepK: s.StepK, Chunk: s.Chunk,
			Tables: s.Tables != nil, SumBy: s.SumBy, ScaledSums: s.ScaledSums, ErrorStep: s.Deviation.Span, ErrorMost: s.Deviation.Most})
		shaders = append(shaders, device.Kernels{Shader(k.Shader)})
	}
	v.Device = given{x, d, shaders}
	spec := runtime.Spec{Name: p.Name(), Weight: p.Weight, Act: p.Act, LimitK: p.LimitK(), Layouts: []*format.Layout{ks[0].Schedule.Weights}, Variants: []abi.Variant{v}}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	var err error
	x.Product, err = runtime.New(spec).On(v.Target)
	return x, err
}

// Shader is what package runtime/device knows of s.
func Shader(s *spirv.Shader) device.Shader {
	return device.Shader{Code: s.Binary(), Params: s.Params, Buffers: s.Buffers, Grid: s.Grid, Subgroup: s.Subgroup}
}

// given is a device of the caller's.
type given struct {
	x       *Product
	d       *vulkan.Device
	shaders device.Shaders
}

// Open implements abi.Device.
func (g given) Open(_ string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	r, err := g.shaders.On(g.d, v, l)
	if err != nil {
		return nil, err
	}
	g.x.runner = r
	return r, nil
}

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
