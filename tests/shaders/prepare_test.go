package shaders

import (
	"bytes"
	"encoding/binary"
	"errors"
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
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
)

// TestLanesPrepare quantizes a row of activations by the first schedule for workgroups: lanes have parts of the largest value, or groups.
func TestLanesPrepare(t *testing.T) {
	for _, group := range []int{0, 32} {
		p, err := ir.Named("w2")
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = group
		for _, target := range spirv.Targets() {
			sp, err := space.ForPreparation(p, nil, 0, target)
			if err != nil {
				t.Fatal(err)
			}
			x, err := sp.First()
			if err != nil {
				t.Fatal(err)
			}
			k, err := schedule.CompilePreparation(p, nil, x.Trace())
			if err != nil {
				t.Fatal(err)
			}
			f, err := lower.Vectorize(k.Nest, "prepare")
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Lanes()) != 1 {
				t.Errorf("lanes %v: %v", f.Lanes(), x.Trace())
			}
			of, by := onCPU(t, p)
			sameRow(t, group, k, of, f, by)
			for _, scale := range []float32{1, 1e-40, 1e38} {
				t.Run(fmt.Sprint(group, " ", target.Machine().ShortName(), " ", scale), func(t *testing.T) { prepared(t, target, k, f, scale) })
			}
		}
	}
}

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
		k, f := onCPU(t, p)
		for _, target := range spirv.Targets() {
			for _, scale := range []float32{1, 1e-40, 1e38} {
				t.Run(fmt.Sprint(c.weight, " ", target.Machine().ShortName(), " ", scale), func(t *testing.T) { prepared(t, target, k, f, scale) })
			}
		}
	}
}

// onCPU is the preparation of activations by the default schedule of a CPU.
func onCPU(t *testing.T, p ir.Problem) (*schedule.PreparationKernel, *vir.Func) {
	trace, err := search.DefaultPrepare(p, nil, 0, targets.ByName("arm64/dotprod"))
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
	return k, f
}

// columns is the length of the rows of activations.
const columns = 1000

func prepared(t *testing.T, target spirv.Target, k *schedule.PreparationKernel, f *vir.Func, scale float32) {
	Accepted(t, Compiled(t, target, f, spirv.Controls{}))
	d := Device(t)
	args := rowOf(k, f, floats(scale))
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

// floats is a row of random floats of some size.
func floats(scale float32) (x []float32) {
	rng := rand.New(rand.NewSource(2))
	for range columns {
		x = append(x, scale*float32(rng.NormFloat64()))
	}
	return x
}

// rowOf are the arguments of a preparation of one row.
func rowOf(k *schedule.PreparationKernel, f *vir.Func, x []float32) []vir.Arg {
	pad := slices.Max(append(k.Pads, 1))
	args := make([]vir.Arg, len(f.Params))
	for i, q := range f.Params {
		if args[i].Buf = make([]byte, 4*(len(x)+pad-1)/pad*pad+256); q.Int {
			args[i] = vir.Arg{Int: int64(8 * len(x))}
		}
	}
	for i, v := range x {
		binary.LittleEndian.PutUint32(args[0].Buf[4*i:], math.Float32bits(v))
	}
	for i, name := range k.Nest.Counts {
		div := k.CountDiv[i]
		args[slices.Index(k.Nest.Params, nest.CountParam(nest.Loop{Name: name}))].Int = int64((len(x) + div - 1) / div)
	}
	return args
}

// sameRow says whether two preparations make the same of a row: of its activations, and of their sums and scales by groups.
func sameRow(t *testing.T, group int, k, of *schedule.PreparationKernel, f, by *vir.Func) {
	have, want := rowOf(k, f, floats(1)), rowOf(of, by, floats(1))
	if err := errors.Join(vir.Eval(f, have), vir.Eval(by, want)); err != nil {
		t.Fatal(err)
	}
	groups := 1
	if group > 0 {
		groups = (columns + group - 1) / group
	}
	for name, n := range map[string]int{"act": columns, "sums": 4 * groups, "ascale": 4 * groups} {
		a, b := have[slices.Index(k.Nest.Params, name)].Buf[:n], want[slices.Index(of.Nest.Params, name)].Buf[:n]
		if !bytes.Equal(a, b) {
			t.Errorf("%s is not what a CPU makes, from byte %d on", name, differ(a, b))
		}
	}
}
