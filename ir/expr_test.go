package ir

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		t       format.DType
		v, want int64
	}{
		{format.U8, 256, 0}, {format.U8, -1, 255}, {format.U8, 255, 255},
		{format.I8, 127, 127}, {format.I8, 128, -128}, {format.I8, -129, 127}, {format.I8, 255, -1},
		{format.U16, -1, 65535}, {format.U16, 65536, 0}, {format.F16, 0x13c00, 0x3c00},
		{format.I16, 32768, -32768}, {format.I16, -32769, 32767},
		{format.U32, -1, 1<<32 - 1}, {format.I32, 1 << 31, -1 << 31}, {format.I32, -1<<31 - 1, 1<<31 - 1},
		{format.F32, int64(int32(-1 << 31)), 1 << 31},
	} {
		if have := Wrap(c.t, c.v); have != c.want {
			t.Errorf("Wrap(%s, %d) = %d, want %d", c.t, c.v, have, c.want)
		}
	}
}

// vars is an Env with axes and one-dimensional tensors.
type vars struct {
	axes    map[string]int
	tensors map[string]*Array
}

func (v vars) Axis(name string) int { return v.axes[name] }
func (v vars) Load(t *Tensor, index []int) (int64, error) {
	if v.tensors[t.Name] == nil {
		return 0, fmt.Errorf("no tensor %s", t.Name)
	}
	return v.tensors[t.Name].At(BlockIndex(t, index)...), nil
}

func TestEvalExpr(t *testing.T) {
	c := func(d format.DType, v int64) Expr { return Const{d, v} }
	f := func(x float32) Expr { return Const{format.F32, f32bits(x)} }
	bin := func(op Op, x, y Expr) Expr { return Binary{op, x, y} }
	blocks := &Tensor{Name: "s", Elem: format.I8, Dims: []string{"k"}, Block: 4}
	one := &Tensor{Name: "s", Elem: format.I8, Dims: []string{"k"}, Block: -1}
	trits := &Tensor{Name: "t", Elem: format.U8, Dims: []string{"k"}}
	env := vars{map[string]int{"i": 9}, map[string]*Array{"s": {[]int{3}, []int64{10, 20, 30}}, "t": {[]int{4}, []int64{2, 1, 0, 2}}}}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const big, smallest = 1<<31 - 1, -1 << 31
	third := float32(1.0 / 3)

	for _, x := range []struct {
		e    Expr
		want int64
	}{
		{c(format.I8, 200), -56},
		{Axis{"i"}, 9},
		{Read{blocks, []Expr{Axis{"i"}}}, 30},
		{Read{blocks, []Expr{I32(12)}}, 0}, // outside
		{Read{one, []Expr{Axis{"i"}}}, 10},
		{Cast{format.U8, I32(-2)}, 254},
		{Cast{format.I32, c(format.U32, 1<<31)}, smallest},
		{Lookup{[]int{-1, 300}, format.I8, I32(1)}, 44},

		{bin(Add, I32(big), I32(1)), smallest},
		{bin(Add, c(format.U8, 200), c(format.U8, 100)), 44},
		{bin(Sub, I32(smallest), I32(1)), big},
		{bin(Sub, c(format.U8, 1), c(format.U8, 2)), 255},
		{bin(Mul, I32(1<<20), I32(1<<12+1)), 1 << 20},
		{bin(Mul, c(format.I8, -128), c(format.I8, -1)), -128},
		{bin(And, I32(-2), I32(255)), 254},
		{bin(Or, I32(-256), I32(255)), -1},
		{bin(Shl, I32(3), I32(31)), smallest},
		{bin(Shl, I32(3), I32(32)), 0},
		{bin(ShrS, I32(-5), I32(1)), -3},
		{bin(ShrS, I32(-5), I32(40)), -1},
		{bin(ShrS, c(format.U8, 0x80), c(format.U8, 7)), 1},
		{bin(AddSat, c(format.U8, 200), c(format.U8, 55)), 255},
		{bin(AddSat, c(format.U8, 200), c(format.U8, 100)), 255},
		{bin(SubSat, c(format.U8, 7), c(format.U8, 5)), 2},
		{bin(SubSat, c(format.U8, 5), c(format.U8, 7)), 0},
		{bin(MaxS, I32(-5), I32(3)), 3},
		{bin(CmpGtS, I32(4), I32(3)), -1},
		{bin(CmpGtS, I32(3), I32(3)), 0},
		{bin(Avg, c(format.I8, -128), c(format.I8, -127)), -127},
		{bin(Avg, c(format.U8, 255), c(format.U8, 254)), 255},
		{bin(NegIf, I32(3), I32(0)), 3},
		{bin(NegIf, I32(3), I32(1)), -3},
		{bin(NegIf, c(format.I8, -128), c(format.I8, 1)), -128},
		{Join{T: trits, Index: []Expr{I32(0)}, N: 3, Radix: 3}, 2 + 3*1 + 9*0},
		{Join{T: trits, Index: []Expr{I32(0)}, N: 3, Radix: 3, Of: Lower}, 5},
		{Join{T: trits, Index: []Expr{I32(0)}, N: 3, Radix: 3, Of: Upper}, 0},
		{Join{T: trits, Index: []Expr{I32(2)}, N: 2, Radix: 3, Of: Lower}, 8 - 6}, // digits 0 2, of the image 2 0
		{Join{T: trits, Index: []Expr{I32(2)}, N: 2, Radix: 3, Of: Upper}, 1},
		{Join{T: trits, Index: []Expr{I32(1)}, N: 1, Radix: 3, Of: Lower}, 1}, // its own image
		{Join{T: trits, Index: []Expr{I32(1)}, N: 1, Radix: 3, Of: Upper}, 0},
		{Join{T: trits, Index: []Expr{I32(0)}, N: 4, Radix: 2, Plane: I32(1), Of: Lower}, 15 - 9}, // bits 1 0 0 1

		{bin(Add, f(1), f(0x1p-24)), f32bits(1)}, // ties to even
		{bin(Add, f(1), f(0x1.8p-24)), f32bits(1 + 0x1p-23)},
		{bin(Sub, f(1), f(1)), 0},
		{bin(Mul, f(third), f(3)), f32bits(1)},
		{bin(Mul, f(0x1p-100), f(0x1p-49)), 1}, // subnormal
		{bin(Mul, f(math.MaxFloat32), f(2)), f32bits(inf)},
		{bin(Div, f(1), f(3)), f32bits(third)},
		{bin(Div, f(-1), f(0)), f32bits(-inf)},

		{Unary{Bits, f(-0x1p-149)}, smallest + 1},
		{Unary{Bits, I32(smallest)}, 1 << 31},
		{Unary{CvtF32, I32(1<<24 + 1)}, f32bits(1 << 24)},
		{Unary{CvtF32, I32(1<<24 + 3)}, f32bits(1<<24 + 4)},
		{Unary{CvtI32, f(2.5)}, 2}, {Unary{CvtI32, f(3.5)}, 4}, {Unary{CvtI32, f(-2.5)}, -2}, {Unary{CvtI32, f(smallest)}, smallest},
		{Unary{CvtHalf, c(format.F16, 0x3555)}, f32bits(0.333251953125)},
		{Unary{CvtHalf, c(format.F16, 1)}, f32bits(0x1p-24)},
		{Unary{CanonNaN, f(nan)}, 0x7fc00000},
		{Unary{CanonNaN, c(format.F32, 0xff800001)}, 0x7fc00000},
		{Unary{CanonNaN, f(-inf)}, f32bits(-inf)},
	} {
		have, err := EvalExpr(x.e, env)
		if err != nil || have != x.want {
			t.Errorf("%s = %d, %v; want %d", x.e, have, err, x.want)
		}
	}
	for _, x := range []struct {
		e    Expr
		want string
	}{
		{Lookup{[]int{1, 2}, format.I8, I32(2)}, "ir: index 2 of a table of 2"},
		{Lookup{[]int{1, 2}, format.I8, I32(-1)}, "ir: index -1 of a table of 2"},
		{Unary{CvtI32, f(nan)}, "ir: NaN does not fit i32"},
		{Unary{CvtI32, f(0x1p31)}, "ir: 2.1474836e+09 does not fit i32"},
		{bin(Add, I32(1), Cast{format.I32, Read{&Tensor{Name: "none"}, []Expr{I32(0)}}}), "no tensor none"},
		{Read{blocks, []Expr{Lookup{nil, format.I8, I32(0)}}}, "ir: index 0 of a table of 0"},
	} {
		if _, err := EvalExpr(x.e, env); err == nil || err.Error() != x.want {
			t.Errorf("%s: %v, want %s", x.e, err, x.want)
		}
	}
}

func TestMapAndWalk(t *testing.T) {
	table := &Tensor{Name: "t", Elem: format.I32}
	e := Binary{MaxS, Cast{format.I32, Lookup{[]int{1, 2}, format.U8, Axis{"i"}}},
		Unary{CvtI32, Unary{CvtF32, Read{table, []Expr{Axis{"i"}, I32(2)}}}}}
	const want = "max(i32(u8[1 2][i]), i32rne(f32(t[i, 2])))"
	if e.String() != want {
		t.Errorf("prints %s", e)
	}
	renamed := Map(e, func(x Expr) Expr {
		if a, ok := x.(Axis); ok {
			return Axis{a.Name + "2"}
		}
		return x
	})
	if have := renamed.String(); have != strings.ReplaceAll(want, "[i", "[i2") {
		t.Errorf("Map makes %s", have)
	}
	if e.String() != want {
		t.Errorf("Map changed its argument to %s", e)
	}
	n := 0
	Walk(e, func(Expr) { n++ })
	if n != 9 {
		t.Errorf("Walk visits %d nodes, want 9", n)
	}
}

// A stage with more axes than its tensor has dimensions is read by the merged
// index, whatever the axes.
func TestEvalMergesAxes(t *testing.T) {
	out := &Tensor{Name: "out", Elem: format.I32, Dims: []string{"n", "k"}}
	back := &Tensor{Name: "back", Elem: format.I32, Dims: []string{"n", "k"}}
	n, k := Dim{Name: "n", N: 2}, Dim{Name: "k", Run: "K", Div: 1}
	value := Binary{Add, Binary{Mul, Axis{"n"}, I32(100)}, Binary{Add, Binary{Mul, Axis{"g"}, I32(10)}, Binary{Add, Binary{Mul, Axis{"h"}, I32(5)}, Axis{"i"}}}}
	g := &Graph{nil, []Stage{
		{Out: out, Axes: []Dim{n, {Name: "g", Run: "K", Div: 4}, {Name: "h", N: 2}, {Name: "i", N: 2}}, Body: value},
		{Out: back, Axes: []Dim{n, k}, Body: Read{out, []Expr{Axis{"n"}, Axis{"k"}}}},
	}}
	all, err := Eval(g, map[string]int{"K": 7}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(all["out"].Shape, all["back"].Shape); have != "[2 8] [2 7]" {
		t.Errorf("shapes %s", have)
	}
	const want = "[0 1 5 6 10 11 15 100 101 105 106 110 111 115]"
	if have := fmt.Sprint(all["back"].V); have != want {
		t.Errorf("back is %s, want %s", have, want)
	}
}

func TestEvalRefusals(t *testing.T) {
	p := Problem{Weight: weight(t, "w2")}
	in := map[string]*Array{"codes": NewArray(1, 2), "scales": NewArray(1, 1), "act": NewArray(1, 2), "sums": NewArray(1, 1), "ascale": NewArray(1, 1)}
	sizes := map[string]int{"M": 1, "N": 1, "K": 2}
	without := map[string]*Array{}
	flat := map[string]*Array{}
	forbidden := map[string]*Array{}
	for name, a := range in {
		without[name], flat[name], forbidden[name] = a, a, a
	}
	delete(without, "scales")
	flat["act"] = NewArray(2)
	forbidden["codes"] = &Array{[]int{1, 2}, []int64{0, 4}}
	swapped := Matmul(p)
	swapped.Stages[0], swapped.Stages[1] = swapped.Stages[1], swapped.Stages[0]
	for _, c := range []struct {
		g    *Graph
		in   map[string]*Array
		want string
	}{
		{Matmul(p), without, `ir: no input "scales"`},
		{Matmul(p), flat, `ir: input "act" has 1 dimensions; want 2`},
		{Matmul(p), forbidden, "stage sum: ir: index 4 of a table of 4"},
		{swapped, in, "stage acc: read of sum before it is computed"},
	} {
		if _, err := Eval(c.g, sizes, c.in); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

var update = flag.Bool("update", false, "write testdata")

// TestGolden holds the text of graphs.
func TestGolden(t *testing.T) {
	grouped := Problem{Weight: weight(t, "w2-g32-z"), Act: format.Act{Group: 16}}
	serial, err := BitSerial(grouped.Weight, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	bits, err := BitSerialGraph(grouped, serial)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*Graph{
		"matmul": Matmul(grouped), "prepare": PrepareAct(grouped), "prepare-row": PrepareAct(Problem{Weight: weight(t, "w4")}), "bitserial": bits,
	} {
		path := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(g.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() != string(want) {
			t.Errorf("%s: go test -update to accept\n%s", path, g)
		}
	}
}

func TestStageByName(t *testing.T) {
	g := Matmul(Problem{Weight: weight(t, "w2")})
	c := g.Clone()
	c.Stage("sum").Out = &Tensor{Name: "other"}
	if g.Stage("sum") == nil || g.Stage("other") != nil || c.Stage("other") == nil {
		t.Error("Clone shares its stages")
	}
}
