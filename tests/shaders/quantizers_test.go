package shaders

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
)

// TestQuantizers prepares rows of activations on the device, by the first schedule, for products of one column or more. What it makes is what a CPU makes of
// each row, where the product reads it.
func TestQuantizers(t *testing.T) {
	d := Device(t)
	for _, c := range []struct {
		weight   string
		group, k int
		to       schedule.Prepared
	}{
		{"w2", 0, 512, schedule.Prepared{Cols: 1, Chunk: 64, SumBy: 1}},
		{"w2", 0, 1024, schedule.Prepared{Cols: 4, Chunk: 64, SumBy: -2}},
		{"w4-g32", 0, 96, schedule.Prepared{Cols: 1, Chunk: 32, SumBy: -8}},
		{"w4-g32", 32, 96, schedule.Prepared{Cols: 2, Chunk: 32, SumBy: 1}},
		{"w4-g32-m", 32, 64, schedule.Prepared{Cols: 1, Chunk: 32, SumBy: 1, ScaledSums: true}},
		{"w4-g32", 256, 512, schedule.Prepared{Cols: 1, Chunk: 16, SumBy: 1}},
		{"w4-g32", 0, 1024, schedule.Prepared{Cols: 4, Chunk: 64, SumBy: 1}},
		{"w4-g32", 32, 128, schedule.Prepared{Cols: 4, Chunk: 64, SumBy: 1}},
		{"ternary-g256", 256, 512, schedule.Prepared{Cols: 4, Chunk: 64, SumBy: 3}},
	} {
		t.Run(fmt.Sprint(c.weight, " ", c.group, " ", c.to), func(t *testing.T) {
			p, err := ir.Named(c.weight)
			if err != nil {
				t.Fatal(err)
			}
			p.Act.Group = c.group
			s, err := schedule.NewQuantizer(p, c.to, c.k)
			if err != nil {
				t.Fatal(err)
			}
			x, err := space.ForLoops(s, operators.ShaderTarget()).First()
			if err != nil {
				t.Fatal(err)
			}
			if s, err = x.Trace().ReplayOperator(s); err != nil {
				t.Fatal(err)
			}
			k, err := s.Kernel()
			if err != nil {
				t.Fatal(err)
			}
			f, sh, err := operators.Module(k.Nest, Controls(d))
			if err != nil {
				t.Fatal(err)
			}
			Accepted(t, sh)
			described, err := operators.Shader(k)
			if err != nil {
				t.Fatal(err)
			}
			q := newQuantized(t, p, c.to, c.k)
			for what, run := range map[string]func([]vir.Arg) error{
				"vir":    func(args []vir.Arg) error { return vir.Eval(f, args) },
				"device": func(args []vir.Arg) error { return dispatch(d, described, sh.Binary(), k, args) },
			} {
				args := q.args(k)
				if err := run(args); err != nil {
					t.Errorf("%s: %v: %v", what, x.Trace(), err)
					continue
				}
				for i, param := range k.Params {
					if want, ok := q.want[param.Name]; ok && string(args[i].Buf) != string(want) {
						t.Errorf("%s: %s is not what a CPU makes, from byte %d on: %v", what, param.Name, differ(args[i].Buf, want), x.Trace())
					}
				}
			}
		})
	}
}

// quantizedRows is rows of activations, and what the preparation makes of them, by tensor: of blocks of columns.
type quantizedRows struct {
	k, rows int
	to      schedule.Prepared
	x       []byte
	want    map[string][]byte
}

const quantizedBlocks = 2

func newQuantized(t *testing.T, p ir.Problem, to schedule.Prepared, n int) *quantizedRows {
	q := &quantizedRows{k: n, rows: quantizedBlocks * to.Cols, to: to, want: map[string][]byte{}}
	groups := map[string]int{"sums": 1, "ascale": 1}
	for name, g := range map[string]int{"sums": p.GroupK(), "ascale": p.Act.Group} {
		if g > 0 {
			groups[name] = n / g
		}
		q.want[name] = make([]byte, 4*groups[name]*q.rows)
	}
	q.want["act"] = make([]byte, n*q.rows)
	of, err := schedule.CompilePreparation(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	by, err := lower.Vectorize(of.Nest, "prepare")
	if err != nil {
		t.Fatal(err)
	}
	for row := range q.rows {
		x := floats([]float32{1, 1e-40, 1e38, 3}[row%4])[:n]
		if row%4 == 3 {
			x[n-1] = float32(math.NaN())
		}
		for _, v := range x {
			q.x = binary.LittleEndian.AppendUint32(q.x, math.Float32bits(v))
		}
		args := rowOf(of, by, x)
		if err := vir.Eval(by, args); err != nil {
			t.Fatal(err)
		}
		made := func(name string) []byte { return args[slices.Index(of.Nest.Params, name)].Buf }
		block, column := row/to.Cols, row%to.Cols
		for i := range n {
			q.want["act"][block*n*to.Cols+i/to.Chunk*to.Chunk*to.Cols+column*to.Chunk+i%to.Chunk] = made("act")[i]
		}
		for name, groups := range groups {
			for g := range groups {
				word := binary.LittleEndian.Uint32(made(name)[4*g:])
				if name == "sums" && to.ScaledSums {
					scale := math.Float32frombits(binary.LittleEndian.Uint32(made("ascale")[4*g:]))
					word = math.Float32bits(float32(int32(word)) * scale)
				} else if name == "sums" {
					word *= uint32(int32(to.SumBy))
				}
				binary.LittleEndian.PutUint32(q.want[name][4*((block*groups+g)*to.Cols+column):], word)
			}
		}
	}
	return q
}

// args are the arguments of a preparation of all rows: calls along the columns of a block, and along blocks.
func (q *quantizedRows) args(k *schedule.OperatorKernel) (args []vir.Arg) {
	for _, p := range k.Params {
		var a vir.Arg
		switch p.Role {
		case schedule.ScratchTensor:
			continue
		case schedule.InputTensor:
			a.Buf = slices.Clone(q.x)
		case schedule.OutputTensor:
			a.Buf = make([]byte, len(q.want[p.Name]))
		case schedule.TripCount:
			a.Int = int64(q.k / p.Div)
		case schedule.CallCount:
			a.Int = []int64{int64(q.to.Cols), quantizedBlocks, 1}[p.Axis]
		case schedule.ConstantStep:
			a.Int = int64(p.Value)
		case schedule.CallStep:
			column := map[string]int{"x": 4 * q.k, "act": q.to.Chunk, "sums": 4, "ascale": 4}[p.Tensor]
			all := len(q.want[p.Tensor])
			if p.Tensor == "x" {
				all = len(q.x)
			}
			a.Int = []int64{int64(column), int64(all / quantizedBlocks), 0}[p.Axis]
		}
		args = append(args, a)
	}
	return args
}
