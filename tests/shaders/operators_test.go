package shaders

import (
	"errors"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops/shaders"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestOperators runs the shader of each float operator as package runtime/ops/shaders describes it: several calls along two axes, with tame and with wild inputs.
// Eval, which finds races, and the device give the bits of the definition.
func TestOperators(t *testing.T) {
	for _, s := range operators.Shaded() {
		t.Run(s.Name, func(t *testing.T) {
			x, d, rng := shaders.Find(s.Name), Device(t), rand.New(rand.NewSource(1))
			trace, err := s.Trace()
			if err != nil {
				t.Fatal(err)
			}
			k, f, sh, err := operatorOf(s.Operator, trace, Controls(d))
			if err != nil {
				t.Fatal(err)
			}
			Accepted(t, sh)
			for _, wild := range []bool{false, true} {
				b := drawnBatch(t, rng, k, wild)
				args := b.Args(k)
				holds(t, k, b, args, "vir", func(args []vir.Arg) error { return vir.Eval(f, args) })
				holds(t, k, b, args, "device", func(args []vir.Arg) error { return dispatch(d, x, sh.Binary(), k, args) })
			}
		})
	}
}

// operatorOf compiles an operator by a schedule.
func operatorOf(o operator.Operator, trace schedule.Trace, c spirv.Controls) (*schedule.OperatorKernel, *vir.Func, *spirv.Shader, error) {
	k, err := schedule.CompileOperator(o, trace)
	if err != nil {
		return nil, nil, nil, err
	}
	f, sh, err := operators.Module(k.Nest, c)
	return k, f, sh, err
}

// drawnBatch is calls of k's operator of random sizes that k computes.
func drawnBatch(t *testing.T, rng *rand.Rand, k *schedule.OperatorKernel, wild bool) *check.Batch {
	t.Helper()
	sizes := map[string]int{}
	for _, p := range k.Params {
		if p.Role == schedule.TripCount {
			sizes[p.Size] = least(sizes[p.Size], p.Div)
		}
	}
	for name := range sizes {
		sizes[name] *= 1 + rng.Intn(3)
	}
	axes := 0
	for _, p := range k.Params {
		if p.Role == schedule.CallCount {
			axes++
		}
	}
	calls := [2]int{1, 1}
	for i := range min(axes, 2) {
		calls[i] = 1 + rng.Intn(3)
	}
	b, err := check.NewBatch(rng, k.Of, sizes, calls, wild)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// least is the least common multiple of two numbers. The first may be 0: none.
func least(a, b int) int {
	n := max(a, 1)
	for n%b != 0 {
		n += max(a, 1)
	}
	return n
}

// holds compares what run makes with the definition.
func holds(t *testing.T, k *schedule.OperatorKernel, b *check.Batch, args []vir.Arg, what string, run func([]vir.Arg) error) {
	t.Helper()
	args = copied(args)
	err := run(args)
	if err == nil {
		err = b.Compare(k, args)
	}
	if err != nil {
		t.Errorf("%s: %v: %v", what, k.Trace, err)
	}
}

// dispatch runs an operator as x describes it.
func dispatch(d *vulkan.Device, x *abi.Operator, code []byte, k *schedule.OperatorKernel, args []vir.Arg) error {
	c := &abi.OperatorCall{Sizes: map[string]int{}}
	place := map[string]*abi.OperatorPlace{}
	var buffers []*vulkan.Buffer
	var outputs []int
	for _, tensor := range x.Tensors {
		i := slices.IndexFunc(k.Params, func(p schedule.OperatorParam) bool { return p.Name == tensor.Name })
		begin := beginOf(len(buffers))
		b, err := d.Buffer(begin + int64(len(args[i].Buf)&^3+8))
		if err != nil {
			return err
		}
		defer b.Free()
		if err := b.Upload(begin, args[i].Buf); err != nil {
			return err
		}
		buffers, outputs = append(buffers, b), append(outputs, i)
		c.Tensors = append(c.Tensors, abi.OperatorPlace{Offset: int(begin)})
	}
	for i, tensor := range x.Tensors {
		place[tensor.Name] = &c.Tensors[i]
	}
	for i, p := range k.Params {
		switch p.Role {
		case schedule.TripCount:
			c.Sizes[p.Size] = max(c.Sizes[p.Size], int(args[i].Int)*p.Div)
		case schedule.RowStep:
			place[p.Tensor].Row = int(args[i].Int)
		case schedule.CallCount:
			c.Calls = append(c.Calls, int(args[i].Int))
		case schedule.CallStep: // in the order of axes
			place[p.Tensor].Steps = append(place[p.Tensor].Steps, int(args[i].Int))
		}
	}
	push, groups, err := x.Words(c)
	if err != nil {
		return err
	}
	p, err := d.Pipeline(code, vulkan.Layout{Buffers: len(buffers), PushBytes: len(push)})
	if err != nil {
		return err
	}
	defer p.Free()
	if err := d.Run(p, groups, buffers, push); err != nil {
		return err
	}
	for n, i := range outputs {
		if err := buffers[n].Download(beginOf(n), args[i].Buf); err != nil {
			return err
		}
	}
	return nil
}

// TestOperatorSpace compares operators by the first schedule of their space, which is the committed one, and by samples with the definition: Eval runs all, and the
// device the ones that are not long. Four samples in five have to lower.
func TestOperatorSpace(t *testing.T) {
	d, draw := Device(t), drawn.New(t)
	rng, samples, lowered := rand.New(rand.NewSource(drawn.Some(draw, 100, seeds())[0])), 0, 0
	for _, o := range drawn.Some(draw, 3, operators.Shaded()) {
		sp := space.ForOperator(o.Operator, operators.ShaderTarget())
		first, err := sp.First()
		if err != nil {
			t.Fatal(err)
		}
		if trace, err := o.Trace(); err != nil || trace.String() != o.Listing(first.Trace()).String() {
			t.Errorf("%s: %v, and the committed schedule is %v: run go generate ./runtime/ops", o.Name, first.Trace(), trace)
		}
		for range drawn.Env(t, "TMACC_SHADERS", 4) {
			x, err := sp.Sample(rng)
			if err != nil {
				t.Fatal(err)
			}
			samples++
			k, f, sh, err := operatorOf(o.Operator, x.Trace(), Controls(d))
			if no := (*nest.Refused)(nil); errors.As(err, &no) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v: %v", o.Name, x.Trace(), err)
			}
			lowered++
			b := drawnBatch(t, rng, k, true)
			args := b.Args(k)
			holds(t, k, b, args, "vir", func(args []vir.Arg) error { return vir.Eval(f, args) })
			if numInstrs(f) < Long {
				holds(t, k, b, args, "device", func(args []vir.Arg) error { return Run(d, sh, f, args) })
			}
		}
	}
	if t.Logf("%d of %d samples lower", lowered, samples); 5*lowered < 4*samples {
		t.Errorf("%d of %d samples lower", lowered, samples)
	}
}

// seeds are the seeds of samples.
func seeds() (all []int64) {
	for i := range int64(100) {
		all = append(all, i)
	}
	return all
}

// numInstrs is how many instructions f has.
func numInstrs(f *vir.Func) (n int) {
	vir.Walk(f.Body, func(*vir.Instr, []*vir.Loop) { n++ })
	return n
}
