package shaders

import (
	"encoding/binary"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	search "github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestQuantize compares products whose workgroups quantize activations with products of activations that a preparation has made.
func TestQuantize(t *testing.T) {
	for _, name := range []string{"w2", "w4"} {
		t.Run(name, func(t *testing.T) {
			path := "testdata/quantize/" + name + ".json"
			p, trace := named(t, path), traceOf(t, path)
			k, err := schedule.Compile(p, trace)
			if err != nil {
				t.Fatal(err)
			}
			of, err := schedule.Compile(p, trace[:len(trace)-1])
			if err != nil {
				t.Fatal(err)
			}
			quantized(t, p, k, of.Nest.Params)
		})
	}
}

// TestChosenQuantize is TestQuantize of default schedules, by the speeds of a device whose launches are long.
func TestChosenQuantize(t *testing.T) {
	target, _ := spirv.ByName("spirv")
	speeds := target.Speeds()
	speeds.Launch = 1e5
	for _, name := range drawn.Some(drawn.New(t), 2, []string{"w1", "w2", "w4", "ternary", "w4-g32", "q4_0", "q8_0", "iq4_nl"}) {
		t.Run(name, func(t *testing.T) {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			uses, err := search.Default(t.Context(), p, target.With(speeds))
			if err != nil {
				t.Fatal(err)
			}
			k, err := schedule.Compile(p, uses[0].Trace)
			if err != nil {
				t.Fatal(err)
			}
			of, err := schedule.Compile(p, schedule.Unquantized(uses[0].Trace))
			if err != nil {
				t.Fatal(err)
			}
			if k.Quantized == nil {
				t.Fatal("workgroups prepare no activations")
			}
			quantized(t, p, k, of.Nest.Params)
		})
	}
}

// quantized compares k, whose product without the last step has parameters called params.
func quantized(t *testing.T, p ir.Problem, k *schedule.Kernel, params []string) {
	n := min(p.WholeK(k.StepK+5), k.Room/p.Unit()*p.Unit())
	target, d := spirv.Targets()[1], Device(t)
	f, _, sh, err := shaderOf(k, target, Controls(d))
	if err != nil {
		t.Fatal(err)
	}
	Accepted(t, sh)
	rng := rand.New(rand.NewSource(7))
	c := check.New(rng, p, 2*k.Rows+1, 2, n, check.Uniform)
	x := make([][]float32, c.N)
	for i := range x {
		for range n {
			x[i] = append(x[i], float32(rng.NormFloat64()))
		}
		c.Act[i], c.Scale[i] = preparedBy(t, p, x[i])
	}
	want := c.Naive()
	for what, call := range map[string]check.Call{
		"vir":    func(args []vir.Arg) error { return vir.Eval(f, args) },
		"device": func(args []vir.Arg) error { return runOrEval(d, sh, f, args) },
	} {
		have, err := c.Run(k, func(args []vir.Arg) error { return call(withFloats(k, params, args, x)) })
		if err == nil {
			err = check.Equal(k, have, want, c.M)
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// preparedBy is what a CPU makes of a row: its activations and their scales.
func preparedBy(t *testing.T, p ir.Problem, x []float32) (act []int8, scales []float32) {
	k, f := onCPU(t, p)
	args := rowOf(k, f, x)
	if err := vir.Eval(f, args); err != nil {
		t.Fatal(err)
	}
	for _, b := range args[slices.Index(k.Nest.Params, "act")].Buf[:len(x)] {
		act = append(act, int8(b))
	}
	groups := 1
	if g := p.Act.Group; g > 0 {
		groups = (len(x) + g - 1) / g
	}
	for i := range groups {
		scales = append(scales, math.Float32frombits(binary.LittleEndian.Uint32(args[slices.Index(k.Nest.Params, "ascale")].Buf[4*i:])))
	}
	return act, scales
}

// withFloats are the arguments of a product that quantizes, by name: args for the parameters called params, and the floats x.
func withFloats(k *schedule.Kernel, params []string, args []vir.Arg, x [][]float32) (all []vir.Arg) {
	pad := slices.Max(append(k.Quantized.Pads, 64))
	row := (len(x[0]) + pad - 1) / pad * pad
	by := map[string]vir.Arg{nest.StepParam("x"): {Int: int64(4 * row)}}
	for i, name := range params {
		by[name] = args[i]
	}
	buf := make([]byte, 4*row*len(x))
	for n, column := range x {
		for i, v := range column {
			binary.LittleEndian.PutUint32(buf[4*(n*row+i):], math.Float32bits(v))
		}
	}
	by["x"] = vir.Arg{Buf: buf}
	for i, name := range k.Quantized.Nest.Counts {
		div := k.Quantized.CountDiv[i]
		by[nest.CountParam(nest.Loop{Name: name})] = vir.Arg{Int: int64((len(x[0]) + div - 1) / div)}
	}
	for _, name := range k.Nest.Params {
		if k.Nest.Local[name] == 0 {
			all = append(all, by[name])
		}
	}
	return all
}
