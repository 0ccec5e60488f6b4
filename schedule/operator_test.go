package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
)

// operatorExamples are steps that only operators have.
var operatorExamples = []struct {
	name, operator string
	before         Trace
	step           OperatorStep
}{
	{"inline", "rmsnorm", nil, Inline{"square16"}},
	{"inline_sum", "matmul_f16_2", nil, Inline{"acc"}},
	{"batch", "add", nil, Batch{Axes: 1}},
	{"prefetch_panel", "matmul_f16_1", Trace{Inline{"acc"}}, Prefetch{Tensor: "b", Bytes: 4096, Far: 16384}},
}

// drawn is all that steps decide about an operator.
func drawn(s *Operator) string {
	k, err := s.Kernel()
	if err != nil {
		return err.Error() + "\n"
	}
	_, text, _ := strings.Cut(k.Nest.String(), "\n")
	for _, name := range slices.Sorted(maps.Keys(s.streams)) {
		text += fmt.Sprintf("%s is prefetched %d bytes ahead, into the second-level cache %d\n", name, s.streams[name].Ahead, s.streams[name].Far)
	}
	return text
}

func startOperator(t testing.TB, name string, tr Trace) *Operator {
	t.Helper()
	s, err := tr.ReplayOperator(NewOperator(*operator.Find(name)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOperatorSteps compares what each example does with its file, and sees that a step leaves its argument alone.
func TestOperatorSteps(t *testing.T) {
	for _, x := range operatorExamples {
		t.Run(x.name, func(t *testing.T) {
			s := startOperator(t, x.operator, x.before)
			before := drawn(s)
			after, err := x.step.ApplyOperator(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := drawn(s); got != before {
				t.Errorf("ApplyOperator changed its argument to\n%s", got)
			}
			step, err := json.Marshal(Trace{x.step})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "testdata/"+x.name+".golden", fmt.Sprintf("%s: %s\n\n%s\n%s\n\n%s", x.operator, x.before, before, step, drawn(after)))
		})
	}
}

// refusedOperators are steps that do not apply to an operator.
var refusedOperators = []struct {
	operator string
	before   Trace
	step     Step
	want     string
}{
	{"silu", nil, dot, `step 0: decompose in an operator: is for products and preparations`},
	{"silu", nil, Inline{"in"}, `step 0: inline in: no such stage`},
	{"silu", nil, Inline{"out"}, `step 0: inline out: callers want it`},
	{"rmsnorm", nil, Inline{"square32"}, `step 0: inline square32: is read in loops that do not count what its own count`},
	{"rmsnorm", nil, Split{"square32.j", 64, Pair{"a", "b"}}, `step 0: split square32.j: 64 does not divide its extent 32`},
	{"silu", nil, Prefetch{Tensor: "out", Bytes: 64}, `step 0: prefetch out: is no input`},
	{"silu", nil, Prefetch{Tensor: "up", Bytes: 63}, `step 0: prefetch up: 63 bytes: want a multiple of 64 up to 1 MiB`},
	{"silu", nil, Prefetch{Tensor: "up", Bytes: 64, In: "out.k"}, `step 0: prefetch up: in an operator has distances only`},
	{"silu", Trace{Prefetch{Tensor: "up", Far: 64}}, Prefetch{Tensor: "up", Bytes: 64}, `step 1: prefetch up: already prefetched`},
	{"silu", nil, Batch{Axes: 4}, `step 0: batch axes: 4: want 1 to 3`},
	{"merge_4", nil, Batch{Axes: 3}, `step 0: batch axes: need 39 parameters of workgroups: there are at most 32`},
	{"silu", Trace{Batch{Axes: 2}}, Batch{Axes: 1}, `step 1: batch axes: are there already`},
	{"rmsnorm", nil, Batch{1, "inv"}, `step 0: batch inv: is no tensor that callers give`},
	{"softmax", Trace{Inline{"masked"}, Inline{"top32"}}, Split{"masked.r", 2, Pair{"a", "b"}}, `step 2: split masked.r: no such loop`},
}

// unfinishedOperators are traces that leave an operator without a kernel.
var unfinishedOperators = []struct {
	operator string
	trace    Trace
	want     string
}{
	{"add", Trace{Bind{"out.k", "outer"}}, `stage out: loop out.k: must be serial, unrolled, a vector, lanes or groups: an operator is one call, with sums of one type`},
	{"rmsnorm", Trace{Split{"square32.j", 2, Pair{"a", "b"}}, Bind{"b", "pair"}}, `stage square32: loop b: must be serial, unrolled, a vector, lanes or groups: an operator is one call, with sums of one type`},
	{"rmsnorm", Trace{Split{"square32.b", 4096, Pair{"a", "b"}}, Split{"a", 16, Pair{"c", "d"}}}, `stage square32: loop c: pads rows to a multiple of more than 1048576`},
	{"rope", Trace{Bind{"low.i", "group"}}, `loops over groups in stage high: are others than in the stage before`},
	{"rope", Trace{Split{"low.i", 8, Pair{"a", "b"}}, Bind{"b", "lane"}, Split{"high.i", 16, Pair{"c", "d"}}, Bind{"d", "lane"}}, `loops over lanes in stage high: are others than in the stage before`},
	{"matmul_f32_1", Trace{Bind{"acc.j", "group"}}, `stage acc: loop acc.j: has a known number of iterations: groups count at run time`},
	{"softmax", Trace{Batch{Axes: 3}, Bind{"masked.r", "group"}, Bind{"top32.r", "group"}, Bind{"top16.r", "group"}, Bind{"top8.r", "group"}, Bind{"top4.r", "group"}, Bind{"top2.r", "group"}, Bind{"top1.r", "group"}, Bind{"e.r", "group"},
		Bind{"total32.r", "group"}, Bind{"total16.r", "group"}, Bind{"total8.r", "group"}, Bind{"total4.r", "group"}, Bind{"total2.r", "group"}, Bind{"total1.r", "group"}}, `4 loops over groups and axes of calls: are more than the dimensions that workgroups have`},
	{"finish", Trace{Split{"out.r", 2, Pair{"a", "b"}}, Bind{"a", "group"}}, `tensor o in loop a: moves by several rows: groups have one row each`},
	{"merge", Trace{Batch{Axes: 1}}, `loop a.r: makes scratch of a run-time size, for which workgroups have no room: inline it`},
	{"matmul_f32_1", Trace{Split{"acc.k", 4, Pair{"ko", "ki"}}, Bind{"ki", "vector"}}, `stage acc: loop ki: floats are summed in order, not in lanes`},
	{"matmul_f32_1", Trace{Split{"acc.k", 4, Pair{"ko", "ki"}}, Reorder{[]string{"acc.r", "acc.j", "ki", "ko"}}}, `stage acc: loop ko: floats are summed in ascending order: move it outside the loops of shorter steps`},
	{"matmul_f32_2", Trace{Reorder{[]string{"acc.k", "acc.r", "acc.j"}}}, `stage acc: acc.r: accumulators cannot be indexed by a serial loop; unroll it or move it outside acc.k`},
}

func TestRefusedOperators(t *testing.T) {
	for _, c := range refusedOperators {
		_, err := append(slices.Clone(c.before), c.step).ReplayOperator(NewOperator(*operator.Find(c.operator)))
		var illegal *Illegal
		if !errors.As(err, &illegal) || err.Error() != c.want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", c.operator, Trace{c.step}, err, c.want)
		}
	}
	if _, err := (Batch{Axes: 1}).Apply(start(t, "w2", nil)); err == nil || err.Error() != "batch axes: is for operators" {
		t.Error(err)
	}
	if _, err := (Inline{"out"}).Apply(start(t, "w2", nil)); err == nil || err.Error() != "inline out: is for operators" {
		t.Error(err)
	}
	for _, c := range unfinishedOperators {
		_, err := CompileOperator(*operator.Find(c.operator), c.trace)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", c.operator, c.trace, err, c.want)
		}
	}
}

// graphOf is an operator of a sum over b[k], and of stages that read it.
func graphOf(stages ...ir.Stage) operator.Operator {
	b := &ir.Tensor{Name: "b", Elem: format.F32, Dims: []string{"i", "k"}}
	i, k := ir.Dim{Name: "s.i", N: 4}, ir.Dim{Name: "s.k", N: 8}
	sum := ir.Stage{Out: &ir.Tensor{Name: "s", Elem: format.F32, Dims: []string{"i"}}, Axes: []ir.Dim{i}, Reduce: []ir.Dim{k},
		Body: ir.Read{T: b, Index: []ir.Expr{ir.Axis{Name: "s.i"}, ir.Axis{Name: "s.k"}}}}
	g := &ir.Graph{Inputs: []*ir.Tensor{b}, Stages: []ir.Stage{sum}}
	for n, st := range stages {
		st.Out = &ir.Tensor{Name: fmt.Sprint("out", n), Elem: format.F32, Dims: []string{"i"}}
		st.Body = ir.Map(st.Body, func(e ir.Expr) ir.Expr {
			if r, ok := e.(ir.Read); ok {
				return ir.Read{T: sum.Out, Index: r.Index}
			}
			return e
		})
		g.Stages = append(g.Stages, st)
	}
	return operator.Operator{Name: "test", Graph: g, Outputs: []string{"out0", "out1"}}
}

// TestInlineSum: a sum ends in one stage that counts what it counts.
func TestInlineSum(t *testing.T) {
	i := ir.Expr(ir.Axis{Name: "i"})
	at := func(e ir.Expr) ir.Expr {
		return ir.Read{T: &ir.Tensor{Name: "s", Elem: format.F32}, Index: []ir.Expr{e}}
	}
	reader := ir.Stage{Axes: []ir.Dim{{Name: "i", N: 4}}, Body: at(i)}
	back := ir.Stage{Axes: reader.Axes, Body: at(ir.Binary{Op: ir.Sub, X: ir.I32(3), Y: i})}
	sum := ir.Stage{Axes: reader.Axes, Reduce: []ir.Dim{{Name: "j", N: 2}}, Body: at(i)}
	for want, o := range map[string]operator.Operator{
		"step 0: inline s: is read by 2 stages: a sum ends in one, which sums nothing itself": graphOf(reader, reader),
		"step 0: inline s: is read by 1 stages: a sum ends in one, which sums nothing itself": graphOf(sum),
		"step 0: inline s: is read elsewhere than at the element at hand":                     graphOf(back),
		"<nil>": graphOf(reader),
	} {
		if _, err := CompileOperator(o, Trace{Inline{"s"}}); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestOperatorParams pins what callers are told.
func TestOperatorParams(t *testing.T) {
	k, err := CompileOperator(*operator.Find("matmul_f16_2"), Trace{Inline{"acc"}, Split{"acc.k", 4, Pair{"ko", "ki"}}})
	if err != nil {
		t.Fatal(err)
	}
	padded := Room{Size: "K", Pads: []int{4}}
	want := []OperatorParam{
		{Name: "a", Role: InputTensor, Elem: format.F32, Dims: []Room{{N: 2}, padded}, Stride: 1},
		{Name: "b", Role: InputTensor, Elem: format.F16, Dims: []Room{padded, {N: 32}}, Stride: 1},
		{Name: "out", Role: OutputTensor, Elem: format.F32, Dims: []Room{{N: 2}, {N: 32}}, Stride: 1},
		{Name: "step.a", Role: RowStep, Tensor: "a"},
		{Name: "step.out", Role: RowStep, Tensor: "out"},
		{Name: "count.ko", Role: TripCount, Size: "K", Div: 4},
	}
	if !reflect.DeepEqual(k.Params, want) {
		t.Errorf("got  %+v\nwant %+v", k.Params, want)
	}
	if k, err = CompileOperator(*operator.Find("rmsnorm"), Trace{Split{"out.k", 8, Pair{"o", "i"}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := k.Params[0].Dims[0], (Room{Size: "K", Pads: []int{8, 32}}); !reflect.DeepEqual(got, want) {
		t.Errorf("x: %+v, want %+v", got, want)
	}
	if k, err = CompileOperator(*operator.Find("column_f16"), nil); err != nil {
		t.Fatal(err)
	}
	if got := k.Params[1].Stride; got != operator.Panel {
		t.Errorf("a column has stride %d", got)
	}
}

// TestOperatorTensors: where elements lie is known, except the distance of rows.
func TestOperatorTensors(t *testing.T) {
	runs := func(div int, index ...ir.Expr) operator.Operator {
		x := &ir.Tensor{Name: "x", Elem: format.F32, Dims: make([]string, len(index))}
		axes := []ir.Dim{{Name: "r", Run: "R", Div: 1}, {Name: "b", Run: "B", Div: div}, {Name: "j", N: 4}}
		out := &ir.Tensor{Name: "out", Elem: format.F32, Dims: []string{"r", "b", "j"}}
		g := &ir.Graph{Inputs: []*ir.Tensor{x}, Stages: []ir.Stage{{Out: out, Axes: axes, Body: ir.Read{T: x, Index: index}}}}
		return operator.Operator{Name: "test", Graph: g, Outputs: []string{"out"}}
	}
	axis := func(name string, by int) ir.Expr {
		return ir.Binary{Op: ir.Mul, X: ir.Axis{Name: name}, Y: ir.I32(by)}
	}
	sum := func(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Add, X: x, Y: y} }
	rows := runs(1, axis("r", 1))
	rows.Rows = []string{"out"}
	for want, o := range map[string]operator.Operator{
		"tensor out: rows have two indices, this one has 3":                                      rows,
		"tensor out: its rows have a run-time number of elements, so it must be among Rows":      runs(1, axis("r", 1)),
		"tensor x: index ((b * 4) + (j * 2)) reaches further than the 4 elements of a step of b": runs(4, sum(axis("b", 4), axis("j", 2))),
		"tensor x: index (b * 3) of loop b does not go in steps of 4":                            runs(4, axis("b", 3)),
		"tensor x: its rows have a run-time number of elements, so it must be among Rows":        runs(4, axis("j", 1), axis("r", 1)),
	} {
		if _, err := CompileOperator(o, nil); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
