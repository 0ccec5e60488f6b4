package shaders

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// endings are operators that products end in.
var endings = []schedule.Epilogue{{Operator: "add", Tensor: "y"}, {Operator: "add", Tensor: "x"}, {Operator: "silu", Tensor: "up"}, {Operator: "scale", Tensor: "x"}, {Operator: "gelu", Tensor: "up"}}

// TestEpilogues compares products that end in an operator with what the operator's definition makes of the product's definition, bit by bit: by vector IR and by the
// device. They have one and several columns, lanes that add up, workgroups that share sums, and workgroups that quantize floats.
func TestEpilogues(t *testing.T) {
	for i, name := range []string{"w2.gemv", "w4-g32.lanes", "w2.gemm", "w2.shared", "q4_k.split", "quantize/w4"} {
		t.Run(name, func(t *testing.T) {
			path := "testdata/" + name + ".json"
			trace := traceOf(t, path)
			for _, end := range []schedule.Epilogue{endings[0], endings[1+i%(len(endings)-1)]} {
				t.Run(end.Operator+" "+end.Tensor, func(t *testing.T) { epilogue(t, named(t, path), trace, end) })
			}
		})
	}
}

// epilogue compares the product of a trace that ends in an operator.
func epilogue(t *testing.T, p ir.Problem, trace schedule.Trace, end schedule.Epilogue) {
	plain, err := schedule.Compile(p, schedule.Unquantized(trace))
	if err != nil {
		t.Fatal(err)
	}
	k, err := schedule.Compile(p, append(slices.Clip(trace), end))
	if err != nil {
		t.Fatal(err)
	}
	target, d := Targets(false)[0], Device(t)
	f, _, sh, err := shaderOf(k, target, Controls(d))
	if err != nil {
		t.Fatal(err)
	}
	Accepted(t, sh)
	rng := rand.New(rand.NewSource(5))
	c := check.New(rng, p, 2*k.Rows+1, 4*k.Cols-min(3*k.Cols-1, 4), p.WholeK(k.StepK+5), check.Uniform)
	x := make([][]float32, c.N)
	if k.Quantized != nil {
		for i := range x {
			for range c.K {
				x[i] = append(x[i], float32(rng.NormFloat64()))
			}
			c.Act[i], c.Scale[i] = preparedBy(t, p, x[i])
		}
	}
	product, _, _, err := shaderOf(plain, target, spirv.Controls{})
	if err != nil {
		t.Fatal(err)
	}
	have, err := c.Run(plain, func(args []vir.Arg) error {
		own := slices.Clone(args)
		own[0].Buf = slices.Clone(args[0].Buf)
		others := others(rng, k, own)
		if err := vir.Eval(product, args); err != nil {
			return err
		}
		want := ended(t, end, args[0].Buf, others)
		for i := 0; i < len(want); i += 4 {
			if before := own[0].Buf[i:][:4]; bytes.Equal(args[0].Buf[i:][:4], before) { // no product has this place
				copy(want[i:], before)
			}
		}
		for what, run := range map[string]func([]vir.Arg) error{
			"vir":    func(all []vir.Arg) error { return vir.Eval(f, all) },
			"device": func(all []vir.Arg) error { return runOrEval(d, sh, f, all) },
		} {
			all := withOthers(k, plain.Nest.Params, own, others, x)
			out := &all[slices.Index(k.Nest.Params, "out")]
			out.Buf = slices.Clone(own[0].Buf)
			if err := run(all); err != nil {
				return err
			}
			if !bytes.Equal(out.Buf, want) {
				t.Errorf("%s: other bits", what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Equal(plain, have, c.Naive(), c.M); err != nil {
		t.Error(err)
	}
}

// others are inputs of the operator that k ends in, by name: each float has its place where the product has one.
func others(rng *rand.Rand, k *schedule.Kernel, args []vir.Arg) map[string][]byte {
	all := map[string][]byte{}
	for _, in := range k.Epilogue {
		n := len(args[0].Buf) / 4
		if in.One {
			n = 1
		}
		for range n {
			all[in.Name] = binary.LittleEndian.AppendUint32(all[in.Name], math.Float32bits(float32(rng.NormFloat64())))
		}
	}
	return all
}

// ended is what the definition of an operator makes of a product.
func ended(t *testing.T, end schedule.Epilogue, product []byte, others map[string][]byte) (out []byte) {
	o := operator.Find(end.Operator)
	in := map[string]*ir.Array{end.Tensor: arrayOf(product)}
	for name, data := range others {
		in[name] = arrayOf(data)
	}
	all, err := ir.Eval(o.Graph, map[string]int{"K": len(product) / 4}, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all[o.Outputs[0]].V {
		out = binary.LittleEndian.AppendUint32(out, uint32(v))
	}
	return out
}

func arrayOf(data []byte) *ir.Array {
	a := ir.NewArray(len(data) / 4)
	for i := range a.V {
		a.V[i] = int64(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return a
}

// withOthers are the arguments of k by name: args for the parameters called params, others, and if k quantizes floats.
func withOthers(k *schedule.Kernel, params []string, args []vir.Arg, others map[string][]byte, floats [][]float32) (all []vir.Arg) {
	by := map[string]vir.Arg{}
	for i, name := range params {
		by[name] = args[i]
	}
	for _, in := range k.Epilogue {
		p := in.Params()
		by[p[0]], by[p[1]], by[p[2]] = vir.Arg{Buf: others[in.Name]}, by[nest.StepParam("out")], by[nest.StepParam("block")]
	}
	if k.Quantized != nil {
		all = withFloats(k, params, args, floats)
	}
	for i, name := range slices.DeleteFunc(slices.Clone(k.Nest.Params), func(name string) bool { return k.Nest.Local[name] > 0 }) {
		if k.Quantized == nil {
			all = append(all, by[name])
		} else if strings.Contains(name, "epilogue") {
			all[i] = by[name]
		}
	}
	return all
}
