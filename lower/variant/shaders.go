package variant

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
)

// Shaders is a product compiled for devices. Its kernels read one packed layout of the weights and differ in how many columns they compute at once.
type Shaders struct {
	Target  spirv.Target
	Kernels []Shaded
	// Fused is one of a column whose schedule ends with quantize: it takes a row of floats; nil: none does.
	Fused *Shaded
}

// Shaded is a scheduled product and its shaders. A device runs the first that it can.
type Shaded struct {
	Schedule   *schedule.Kernel
	Shaders    []*spirv.Shader
	Quantizers []abi.Operator  // as abi.Variant has them; none: only CPUs prepare activations
	Most       []abi.FusedRows // of one that takes floats, as abi.Fused has them
}

// Check says what kernels do not share, and what package runtime gives no shader.
func (v *Shaders) Check() error {
	for i, k := range v.Kernels {
		s, first := k.Schedule, v.Kernels[0].Schedule
		switch {
		case !s.SharesBuffers(first):
			return fmt.Errorf("the schedules for n = %d and %d are not for one packed matrix", first.Cols, s.Cols)
		case i > 0 && s.Cols == v.Kernels[i-1].Schedule.Cols:
			return fmt.Errorf("two schedules are for n = %d", s.Cols)
		case s.Quantized != nil:
			return fmt.Errorf("the schedule for n = %d quantizes activations, which only one kernel does besides the others: put the step quantize last", s.Cols)
		case s.Epilogue != nil:
			return fmt.Errorf("the schedule for n = %d ends in an operator, whose inputs only steps of models have: leave the step epilogue out", s.Cols)
		case s.Tables != nil:
			return fmt.Errorf("the schedule for n = %d reads tables of activations, which shaders do not", s.Cols)
		case s.Scratch > 0:
			return fmt.Errorf("the schedule for n = %d keeps sums in memory that the caller lends, which shaders do not", s.Cols)
		case len(s.Nest.Grid) == 0:
			return fmt.Errorf("the schedule for n = %d has no workgroups: bind tiles of rows to group", s.Cols)
		case s.Rows%s.Weights.TileM != 0:
			return fmt.Errorf("the schedule for n = %d has %d rows of tiles of %d in a workgroup: bind all rows of a tile inside the groups", s.Cols, s.Rows, s.Weights.TileM)
		}
	}
	if f := v.Fused; f != nil {
		s := f.Schedule
		switch {
		case s.Quantized == nil:
			return fmt.Errorf("the schedule for floats does not quantize them")
		case s.Epilogue != nil:
			return fmt.Errorf("the schedule for floats ends in an operator, whose inputs only steps of models have: leave the step epilogue out")
		case s.Weights.Hash() != v.Kernels[0].Schedule.Weights.Hash():
			return fmt.Errorf("the schedules for floats and for n = %d are not for one packed matrix", v.Kernels[0].Schedule.Cols)
		case s.Rows%s.Weights.TileM != 0:
			return fmt.Errorf("the schedule for floats has %d rows of tiles of %d in a workgroup: bind all rows of a tile inside the groups", s.Rows, s.Weights.TileM)
		}
	}
	return nil
}

// ABI describes v to the runtime, without a device and with layout number 0. Names of kernels begin with prefix.
func (v *Shaders) ABI(prefix string) abi.Variant {
	v.sort()
	out := abi.Variant{Target: v.Target.Machine().Name, ABI: abi.Version, Fill: v.Kernels[0].Schedule.Fill}
	for _, k := range v.Kernels {
		out.Kernels = append(out.Kernels, Kernel{Schedule: k.Schedule}.abi(prefix))
		out.Shaders = append(out.Shaders, ABIShaders(k.Shaders))
		out.Quantizers = append(out.Quantizers, k.Quantizers)
	}
	if v.Fused != nil {
		out.Fused = v.Fused.fused(prefix)
	}
	return out
}

// FusedName is the name of the kernel that takes floats among the kernels of its variant.
const FusedName = "floats"

// fused describes a kernel that takes floats. Its parameters have the numbers of other kernels'. Floats are in the place of activations, and the numbers that are counted of
// them is behind.
func (k *Shaded) fused(prefix string) *abi.Fused {
	s := k.Schedule
	f := &abi.Fused{Kernel: Kernel{Schedule: s}.abi(prefix), Room: s.Room, CountDiv: s.Quantized.CountDiv, Pads: s.Quantized.Pads, Shaders: k.ABI(), Most: k.Most}
	f.Name = prefix + FusedName
	return f
}

// renumber gives the parameters of shaders of s the numbers that the runtime knows them by.
func renumber(all []abi.Shader, s *schedule.Kernel) {
	number := s.ParamNumbers()
	of := func(params []int) (out []int) {
		for _, p := range params {
			out = append(out, number[p])
		}
		return out
	}
	for i := range all {
		x := &all[i]
		x.Params, x.Buffers, x.Grid = of(x.Params), of(x.Buffers), of(x.Grid)
	}
}

// ABI describes the shaders of k to the runtime by the numbers that it knows parameters by.
func (k *Shaded) ABI() []abi.Shader {
	all := ABIShaders(k.Shaders)
	renumber(all, k.Schedule)
	return all
}

// ABIShaders describes shaders to the runtime.
func ABIShaders(of []*spirv.Shader) (all []abi.Shader) {
	for _, s := range of {
		all = append(all, abi.Shader{Code: s.Binary(), Params: s.Params, Buffers: s.Buffers, Grid: s.Grid, Subgroup: s.Subgroup, Parts: s.Parts, Sums: s.Sums, EachSums: s.EachSums})
	}
	return all
}

func (v *Shaders) sort() {
	slices.SortFunc(v.Kernels, func(a, b Shaded) int { return a.Schedule.Cols - b.Schedule.Cols })
}

// Spec describes the product to the runtime, with v as its one variant.
func (v *Shaders) Spec(p ir.Problem) (runtime.Spec, error) {
	v.sort()
	if err := v.Check(); err != nil {
		return runtime.Spec{}, fmt.Errorf("%s on %s: %w", p.Name(), v.Target.Machine().Name, err)
	}
	s := runtime.Spec{Name: p.Name(), Weight: p.Weight, Act: p.Act, LimitK: p.LimitK(),
		Layouts: []*format.Layout{v.Kernels[0].Schedule.Weights}, Variants: []abi.Variant{v.ABI("")}}
	return s, s.Validate()
}
