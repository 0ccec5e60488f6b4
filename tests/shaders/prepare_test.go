package shaders

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
)

// TestPreparations quantizes a row of activations on the device by a schedule of CPUs, in one lane: its scales are quotients.
func TestPreparations(t *testing.T) {
	for _, c := range []struct {
		weight string
		group  int
	}{{"w2", 0}, {"w4-g32", 32}} {
		p, err := ir.Named(c.weight)
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = c.group
		trace, err := beam.Preparation(t.Context(), p, nil, 0, targets.ByName("arm64/dotprod"))
		if err != nil {
			t.Fatal(err)
		}
		k, err := schedule.CompilePreparation(p, nil, trace)
		if err != nil {
			t.Fatal(err)
		}
		f, err := lower.Vectorize(k.Nest, "prepare")
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range spirv.Targets() {
			for _, scale := range []float32{1, 1e-40, 1e38} {
				t.Run(fmt.Sprint(c.weight, " ", target.Machine().ShortName(), " ", scale), func(t *testing.T) { prepared(t, target, k, f, scale) })
			}
		}
	}
}

func prepared(t *testing.T, target spirv.Target, k *schedule.PreparationKernel, f *vir.Func, scale float32) {
	Accepted(t, Compiled(t, target, f, spirv.Controls{}))
	d := Device(t)
	const columns = 160
	x := make([]byte, 0, 4*columns)
	rng := rand.New(rand.NewSource(2))
	for range columns {
		x = binary.LittleEndian.AppendUint32(x, math.Float32bits(scale*float32(rng.NormFloat64())))
	}
	args := make([]vir.Arg, len(f.Params))
	for i, q := range f.Params {
		if args[i].Buf = make([]byte, 8*columns); q.Int {
			args[i] = vir.Arg{Int: 8 * columns}
		}
	}
	copy(args[0].Buf, x)
	for i, name := range k.Nest.Counts {
		div := k.CountDiv[i]
		args[slices.Index(k.Nest.Params, nest.CountParam(nest.Loop{Name: name}))].Int = int64((columns + div - 1) / div)
	}
	want, have := copied(args), copied(args)
	if err := vir.Eval(f, want); err != nil {
		t.Fatal(err)
	}
	if err := Run(d, Compiled(t, target, f, Controls(d)), f, have); err != nil {
		t.Fatal(err)
	}
	for i, a := range want {
		if !bytes.Equal(a.Buf, have[i].Buf) {
			t.Errorf("%s differs from byte %d on", f.Params[i].Name, differ(a.Buf, have[i].Buf))
		}
	}
}
