package schedule

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
)

// twoStages is an operator of a stage s of n elements along axis s.i of size R, or of n if that is not 0, and of an output that reads it at index.
func twoStages(n int, index ir.Expr) operator.Operator {
	x := &ir.Tensor{Name: "x", Elem: format.F32, Dims: []string{"i"}}
	stage := func(name string, of *ir.Tensor, index ir.Expr) ir.Stage {
		d := ir.Dim{Name: name + ".i", N: n}
		if n == 0 {
			d = ir.Dim{Name: name + ".i", Run: "R", Div: 1}
		}
		return ir.Stage{Out: &ir.Tensor{Name: name, Elem: format.F32, Dims: []string{"i"}}, Axes: []ir.Dim{d}, Body: ir.Read{T: of, Index: []ir.Expr{index}}}
	}
	s := stage("s", x, ir.Axis{Name: "s.i"})
	out := stage("out", s.Out, index)
	return operator.Operator{Name: "test", Graph: &ir.Graph{Inputs: []*ir.Tensor{x}, Stages: []ir.Stage{s, out}}, Outputs: []string{"out"}}
}

// TestUnfinishedGroups: workgroups share no more than each device has, and no group reads what another one makes.
func TestUnfinishedGroups(t *testing.T) {
	i := ir.Axis{Name: "out.i"}
	for _, c := range []struct {
		operator.Operator
		Trace
		want string
	}{
		{twoStages(8192, i), Trace{Batch{Axes: 1}}, "scratch of 32768 bytes: is more than each device lets a workgroup share"},
		{twoStages(0, ir.I32(0)), Trace{Bind{"s.i", "group"}, Bind{"out.i", "group"}}, "tensor s in loop out.i: is not where the group is: each group has elements of its own"},
	} {
		var open *Unfinished
		if _, err := CompileOperator(c.Operator, c.Trace); !errors.As(err, &open) || err.Error() != c.want {
			t.Errorf("%v: got %v, want %s", c.Trace, err, c.want)
		}
	}
	if _, err := CompileOperator(twoStages(1024, i), Trace{Batch{Axes: 1}}); err != nil {
		t.Error(err)
	}
}

// TestQuantizer: activations of several columns lie in chunks, which groups do not divide.
func TestQuantizer(t *testing.T) {
	p := productOf(t, "w4-g32")
	p.Act.Group = 32
	s, err := NewQuantizer(p, Prepared{Cols: 2, Chunk: 64, SumBy: 1}, 128)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Inline{"finite"}).ApplyOperator(s); err == nil || err.Error() != "inline finite: is not indexed by its axes" {
		t.Error(err)
	}
	var trace Trace
	for _, stage := range s.Stages() {
		trace = append(trace, Bind{stage + ".g", "group"})
	}
	if s, err = append(trace, Batch{Axes: 1}).ReplayOperator(s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kernel(); err == nil || err.Error() != "loop act.g: moves activations by no whole chunks" {
		t.Error(err)
	}
	if have, want := (&Kernel{Cols: 2, Chunk: 64, SumBy: -8, ScaledSums: true}).Wants(), (Prepared{2, 64, -8, true}); have != want {
		t.Errorf("%v, want %v", have, want)
	}
}

// TestListed: a tensor moves by a list along the last axis of calls.
func TestListed(t *testing.T) {
	k, err := CompileOperator(*operator.Find("row_f16"), Trace{Batch{Axes: 2, Listed: "out"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []nest.Move{{Param: "x", By: "step.calls1.x"}, {Param: "out", By: "places"}}
	if have := k.Nest.Grid[1].Moves; !reflect.DeepEqual(have, want) {
		t.Errorf("moves %v, want %v", have, want)
	}
	if have, want := k.Params[len(k.Params)-1], (OperatorParam{Name: "places", Role: CallList, Elem: format.U32, Tensor: "out", Axis: 1}); !reflect.DeepEqual(have, want) {
		t.Errorf("%+v, want %+v", have, want)
	}
	args := []nest.Arg{{Buf: []byte{0, 0, 128, 63, 0, 0, 0, 64}}, {Buf: make([]byte, 6)}, {Int: 1}, {Int: 1}, {}, {}, {Int: 2}, {Int: 4}, {Buf: []byte{4, 0, 0, 0, 0, 0, 0, 0}}}
	if err := nest.Eval(k.Nest, args); err != nil || string(args[1].Buf) != "\x00\x40\x00\x00\x00\x3c" {
		t.Errorf("%v %x", err, args[1].Buf)
	}
	if args[8].Buf = args[8].Buf[:4]; nest.Eval(k.Nest, args) == nil {
		t.Error("a list is too short")
	}
}

// TestBatchParams pins what callers of a batch are told.
func TestBatchParams(t *testing.T) {
	k, err := CompileOperator(*operator.Find("scale"), Trace{Split{"out.k", 32, Pair{"o", "l"}}, Bind{"o", "group"}, Bind{"l", "lane"}, Batch{Axes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	padded := []Room{{Size: "K", Pads: []int{32}}}
	want := []OperatorParam{
		{Name: "x", Role: InputTensor, Elem: format.F32, Dims: padded, Stride: 1},
		{Name: "by", Role: InputTensor, Elem: format.F32, Dims: []Room{{N: 1}}, Stride: 1},
		{Name: "out", Role: OutputTensor, Elem: format.F32, Dims: padded, Stride: 1},
		{Name: "count.o", Role: TripCount, Size: "K", Div: 32},
		{Name: "step.128", Role: ConstantStep, Value: 128},
		{Name: "count.calls0", Role: CallCount},
		{Name: "step.calls0.x", Role: CallStep, Tensor: "x"},
		{Name: "step.calls0.by", Role: CallStep, Tensor: "by"},
		{Name: "step.calls0.out", Role: CallStep, Tensor: "out"},
	}
	if !reflect.DeepEqual(k.Params, want) {
		t.Errorf("got  %+v\nwant %+v", k.Params, want)
	}
}
