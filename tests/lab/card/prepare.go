package main

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
)

// prepared is how long it takes to quantize a row of activations on the device, by the fastest of some schedules of the space.
type prepared struct {
	K     int            `json:"k"`
	Group int            `json:"group"` // activations that share a scale, 0: the row
	Ns    float64        `json:"ns"`    // of one of many in a sequence, each after the one before it
	Lanes int            `json:"lanes"`
	Tried int            `json:"tried"`
	Trace schedule.Trace `json:"trace"`
}

// samples is how many schedules of a preparation are tried.
const samples = 3

// lengths are the rows of activations that are prepared, and how often in a sequence.
func (x *lab) lengths() (all []int, times int) {
	if x.small {
		return []int{256}, 2
	}
	return []int{4096, 14336, 16384}, 64
}

// preparations times preparations of activations.
func (x *lab) preparations() error {
	target, _ := spirv.ByName("spirv/dot")
	for _, group := range []int{0, 32} {
		p, err := ir.Named("w2")
		if err != nil {
			return err
		}
		p.Act.Group = group
		sp, err := space.ForPreparation(p, nil, 0, target)
		if err != nil {
			return err
		}
		best := map[int]*prepared{}
		rng := rand.New(rand.NewSource(1))
		for i := range samples {
			at, err := sp.First()
			if i > 0 {
				at, err = sp.Sample(rng)
			}
			if err != nil || x.over() {
				continue
			}
			x.failed("preparation "+at.Trace().String(), caught(func() error { return x.preparation(p, at.Trace(), best) }))
		}
		lengths, _ := x.lengths()
		for _, k := range lengths {
			if best[k] != nil {
				x.Prepared = append(x.Prepared, *best[k])
			}
		}
	}
	return nil
}

// preparation times one schedule at all lengths.
func (x *lab) preparation(p ir.Problem, trace schedule.Trace, best map[int]*prepared) error {
	k, err := schedule.CompilePreparation(p, nil, trace)
	if err != nil {
		return err
	}
	f, err := lower.Vectorize(k.Nest, "prepare")
	if err != nil {
		return nil // some points do not lower
	}
	sh, err := x.print(f)
	if err != nil || len(sh.Binary()) > mostCode || len(f.Lanes()) == 0 {
		return nil
	}
	pipeline, err := x.d.Pipeline(sh.Binary(), vulkan.Layout{Buffers: len(sh.Buffers), PushBytes: 4 * len(sh.Params), Subgroup: sh.Subgroup, FullSubgroups: sh.Subgroup > 0})
	if err != nil {
		return err
	}
	defer pipeline.Free()
	c := &candidate{shader: sh, params: f.Params, pipeline: pipeline}
	lengths, _ := x.lengths()
	for _, length := range lengths {
		ns, err := x.row(c, k, length)
		if err != nil {
			return fmt.Errorf("%d activations: %w", length, err)
		}
		if b := best[length]; b == nil || ns < b.Ns {
			best[length] = &prepared{K: length, Group: p.Act.Group, Ns: ns, Lanes: vir.Product(sh.Lanes), Trace: trace}
		}
		best[length].Tried++
	}
	return nil
}

// row times the preparation of a row.
func (x *lab) row(c *candidate, k *schedule.PreparationKernel, length int) (float64, error) {
	args := make([]vir.Arg, len(c.params))
	for i, q := range c.params {
		if args[i].Buf = make([]byte, 8*length); q.Int {
			args[i] = vir.Arg{Int: int64(8 * length)}
		}
	}
	for i, name := range k.Nest.Counts {
		args[slices.Index(k.Nest.Params, nest.CountParam(nest.Loop{Name: name}))].Int = int64((length + k.CountDiv[i] - 1) / k.CountDiv[i])
	}
	b := &binding{x: x, c: c, args: args, own: map[int]*vulkan.Buffer{}}
	defer b.free()
	if err := b.upload(nil, 1); err != nil {
		return 0, err
	}
	var commands []vulkan.Command
	_, times := x.lengths()
	for range times {
		commands = append(commands, b.dispatch(vulkan.Range{}, 0))
	}
	return x.each(commands, x.warm()/20, 5)
}
