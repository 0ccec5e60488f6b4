package operator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

func floats(shape []int, of func(i int) float32) *ir.Array {
	a := ir.NewArray(shape...)
	for i := range a.V {
		a.V[i] = int64(math.Float32bits(of(i)))
	}
	return a
}

func float(v int64) float64 { return float64(math.Float32frombits(uint32(v))) }

// eval is the tensors of an operator, all by name.
func eval(t *testing.T, o Operator, sizes map[string]int, in map[string]*ir.Array) map[string]*ir.Array {
	t.Helper()
	out, err := ir.Eval(o.Graph, sizes, in)
	if err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	return out
}

// near fails if have is further from want than tolerance times the larger of |want| and 1.
func near(t *testing.T, what string, have, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(have-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: %v, want %v", what, have, want)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range All() {
		if seen[o.Name] {
			t.Errorf("two operators are called %s", o.Name)
		}
		seen[o.Name] = true
		if Find(o.Name) == nil {
			t.Errorf("Find does not find %s", o.Name)
		}
		for _, name := range o.Outputs {
			if o.Graph.Stage(name) == nil {
				t.Errorf("%s has no output %s", o.Name, name)
			}
		}
	}
	if Find("none") != nil {
		t.Error("Find finds an operator that does not exist")
	}
}

// evalExp is exp(x) as the definition has it.
func evalExp(t *testing.T, x float32) float32 {
	t.Helper()
	v, err := ir.EvalExpr(Exp(num(x)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return math.Float32frombits(uint32(v))
}

func TestExp(t *testing.T) {
	worst := 0.0
	for i := range 40000 {
		x := float32(-87.3 + float64(i)*(88.3+87.3)/40000)
		want := math.Exp(float64(x))
		ulp := math.Ldexp(1, max(math.Ilogb(want), -126)-23)
		worst = max(worst, math.Abs(float64(evalExp(t, x))-want)/ulp)
	}
	t.Logf("exp is off by at most %.3f ulp", worst)
	if worst > 1.5 {
		t.Errorf("exp is off by %.3f ulp", worst)
	}
	inf := float32(math.Inf(1))
	for _, x := range []struct{ x, want float32 }{{0, 1}, {-88, 0}, {-1e30, 0}, {-inf, 0}, {89, inf}, {inf, inf}} {
		if have := evalExp(t, x.x); have != x.want || math.Signbit(float64(have)) {
			t.Errorf("exp(%v) = %v, want %v", x.x, have, x.want)
		}
	}
	if have := evalExp(t, float32(math.NaN())); have == have {
		t.Errorf("exp(NaN) = %v", have)
	}
}

func TestRMSNorm(t *testing.T) {
	for _, k := range []int{1, 32, 70, 257} {
		rng := rand.New(rand.NewPCG(1, uint64(k)))
		x, w := make([]float32, k), make([]float32, k)
		square := 0.0
		for i := range x {
			x[i], w[i] = float32(rng.NormFloat64())*3, float32(rng.NormFloat64())
			square += float64(x[i]) * float64(x[i])
		}
		one := func(v float32) *ir.Array { return floats([]int{1}, func(int) float32 { return v }) }
		out := eval(t, RMSNorm(), map[string]int{"K": k}, map[string]*ir.Array{
			"x": floats([]int{k}, func(i int) float32 { return x[i] }), "w": floats([]int{k}, func(i int) float32 { return w[i] }),
			"share": one(1 / float32(k)), "eps": one(1e-5)})["out"]
		for i, v := range out.V {
			near(t, "norm", float(v), float64(x[i])/math.Sqrt(square/float64(k)+1e-5)*float64(w[i]), 1e-6)
		}
	}
}

func TestGates(t *testing.T) {
	gates := map[string]func(g float64) float64{
		"silu":  func(g float64) float64 { return g / (1 + math.Exp(-g)) },
		"gelu":  func(g float64) float64 { return 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) },
		"relu2": func(g float64) float64 { return max(g, 0) * max(g, 0) },
	}
	const k = 200
	gate := func(i int) float32 { return float32(i-100) / 7 }
	up := func(i int) float32 { return float32(i%5) - 1.5 }
	for name, want := range gates {
		out := eval(t, *Find(name), map[string]int{"K": k}, map[string]*ir.Array{"gate": floats([]int{k}, gate), "up": floats([]int{k}, up)})["out"]
		for i, v := range out.V {
			near(t, name, float(v), want(float64(gate(i)))*float64(up(i)), 1e-6)
		}
	}
}

// TestAttention computes attention over the end of one block and the beginning of the next, and
// compares it with softmax in float64.
func TestAttention(t *testing.T) {
	const rows, d, ahead, valid = 3, 32, 20, 100
	rng := rand.New(rand.NewPCG(2, 3))
	s := floats([]int{rows, 2 * Block}, func(int) float32 { return float32(rng.NormFloat64()) * 20 })
	v := floats([]int{2 * Block, d}, func(int) float32 { return float32(rng.NormFloat64()) })
	scale := floats([]int{1}, func(int) float32 { return 0.25 })
	var m, l, o *ir.Array
	for b := range 2 {
		first, end := ir.NewArray(rows), ir.NewArray(rows)
		for r := range rows {
			first.V[r], end.V[r] = int64(max(ahead*r-b*Block, 0)), int64(min(valid-b*Block, Block))
		}
		block := floats([]int{rows, Block}, func(i int) float32 {
			return float32(float(s.At(i/Block, b*Block+i%Block)))
		})
		soft := eval(t, Softmax(), map[string]int{"R": rows}, map[string]*ir.Array{"s": block, "scale": scale, "first": first, "end": end})
		part := ir.NewArray(rows, d)
		for r := range rows {
			for i := range d {
				sum := float32(0)
				for p := range Block {
					sum += float32(float(soft["e"].At(r, p))) * float32(float(v.At(b*Block+p, i)))
				}
				part.V[r*d+i] = int64(math.Float32bits(sum))
			}
		}
		top, total := &ir.Array{Shape: []int{rows}, V: soft["top1"].V}, &ir.Array{Shape: []int{rows}, V: soft["total1"].V}
		if b == 0 {
			m, l, o = top, total, part
			continue
		}
		both := eval(t, Merge(), map[string]int{"R": rows, "D": d}, map[string]*ir.Array{"o": o, "m": m, "l": l, "o2": part, "m2": top, "l2": total})
		m, l, o = both["top"], both["total"], both["out"]
	}
	out := eval(t, Finish(), map[string]int{"R": rows, "D": d}, map[string]*ir.Array{"o": o, "l": l})["out"]
	for r := range rows {
		total, want := 0.0, make([]float64, d)
		for p := ahead * r; p < valid; p++ {
			e := math.Exp(float(s.At(r, p)) * 0.25)
			total += e
			for i := range d {
				want[i] += e * float(v.At(p, i))
			}
		}
		for i := range d {
			near(t, "attention", float(out.At(r, i)), want[i]/total, 3e-6)
		}
	}
}

func TestScale(t *testing.T) {
	x := floats([]int{3}, func(i int) float32 { return float32(i) - 1.5 })
	out := eval(t, Scale(), map[string]int{"K": 3}, map[string]*ir.Array{"x": x, "by": floats([]int{1}, func(int) float32 { return 4 })})["out"]
	for i, want := range []float64{-6, -2, 2} {
		near(t, "scaled", float(out.V[i]), want, 0)
	}
}

func TestSoftcap(t *testing.T) {
	const k, cap = 400, 30
	x := floats([]int{k}, func(i int) float32 { return float32(i-200) / 2 })
	one := func(v float32) *ir.Array { return floats([]int{1}, func(int) float32 { return v }) }
	out := eval(t, Softcap(), map[string]int{"K": k}, map[string]*ir.Array{"x": x, "cap": one(cap), "twice": one(2. / cap)})["out"]
	for i, v := range out.V {
		near(t, "capped", float(v)/cap, math.Tanh(float(x.V[i])/cap), 2e-7)
	}
}

func TestRope(t *testing.T) {
	of := func(v ...float32) *ir.Array { return floats([]int{len(v)}, func(i int) float32 { return v[i] }) }
	out := eval(t, Rope(), map[string]int{"H": 2}, map[string]*ir.Array{"x": of(1, 2), "y": of(3, 4), "cos": of(0, 1), "sin": of(1, 0)})
	for i, want := range []float64{-3, 2} {
		near(t, "low", float(out["low"].V[i]), want, 0)
	}
	for i, want := range []float64{1, 4} {
		near(t, "high", float(out["high"].V[i]), want, 0)
	}
}

// TestMatmul: the sum of a lane is made in ascending order, which 1 + 2^-24 + 2^-24 and 2^-24 + 2^-24 + 1 show.
func TestMatmul(t *testing.T) {
	tiny := float32(0x1p-24)
	for _, e := range []format.DType{format.F32, format.F16, format.U16, format.I8} {
		bits := map[format.DType]int64{format.F32: 0x3f800000, format.F16: 0x3c00, format.U16: 0x3f80, format.I8: 1}[e]
		ones := ir.NewArray(3, Panel)
		for i := range ones.V {
			ones.V[i] = bits
		}
		rows := [][]float32{{1, tiny, tiny}, {tiny, tiny, 1}}
		a := floats([]int{2, 3}, func(i int) float32 { return rows[i/3][i%3] })
		out := eval(t, Matmul(e, 2), map[string]int{"K": 3}, map[string]*ir.Array{"a": a, "b": ones})["out"]
		for i, want := range []float32{1, 1 + 0x1p-23} {
			near(t, "sum", float(out.At(i, 7)), float64(want), 0)
		}
	}
}

// TestIntegers: a panel of integers has their values, also below 0, and a product of vectors has one for each element.
func TestIntegers(t *testing.T) {
	codes := ir.NewArray(2, Panel)
	codes.V[3], codes.V[Panel+3] = -128, 127
	a := floats([]int{1, 2}, func(i int) float32 { return []float32{0.5, 3}[i] })
	out := eval(t, Matmul(format.I8, 1), map[string]int{"K": 2}, map[string]*ir.Array{"a": a, "b": codes})["out"]
	near(t, "sum", float(out.At(0, 3)), 3*127-64, 0)
	x, y := floats([]int{3}, func(i int) float32 { return float32(i) - 1 }), floats([]int{3}, func(i int) float32 { return 0.5 })
	for i, v := range eval(t, Mul(), map[string]int{"K": 3}, map[string]*ir.Array{"x": x, "y": y})["out"].V {
		near(t, "product", float(v), 0.5*float64(i-1), 0)
	}
}

func TestStored(t *testing.T) {
	x := []float32{1, -2.5, 65520, float32(math.NaN())}
	in := map[string]*ir.Array{"x": floats([]int{4}, func(i int) float32 { return x[i] })}
	for i, want := range []int64{0x3c00, 0xc100, 0x7c00, 0x7e00} {
		if have := eval(t, Column(format.F16), map[string]int{"K": 4}, in)["out"].V[i]; have != want {
			t.Errorf("%v as f16: %#x, want %#x", x[i], have, want)
		}
		if have := eval(t, Row(format.F16), map[string]int{"K": 4}, in)["out"].V[i]; have != want {
			t.Errorf("%v as f16: %#x, want %#x", x[i], have, want)
		}
	}
}

// TestMergeBlocks: several blocks at once are merged as one after the other, bit for bit, also where maxima rise and fall and exponentials vanish.
func TestMergeBlocks(t *testing.T) {
	const d = 32
	rng := rand.New(rand.NewPCG(4, 5))
	drawn := func(scale float64, shape ...int) *ir.Array {
		return floats(shape, func(int) float32 { return float32(rng.NormFloat64() * scale) })
	}
	row := func(a *ir.Array, b, n int) []int64 { return a.V[b*n:][:n] }
	for _, n := range mergedBlocks {
		for _, scale := range []float64{1, 100} {
			in := map[string]*ir.Array{"o": drawn(1, d), "m": drawn(scale, 1), "l": drawn(9, 1), "o2": drawn(1, n, d), "m2": drawn(scale, n, 1), "l2": drawn(9, n, 1)}
			have := eval(t, MergeBlocks(n), map[string]int{"D": d}, in)
			state := map[string]*ir.Array{"out": {Shape: []int{1, d}, V: in["o"].V}, "top": in["m"], "total": in["l"]}
			for b := range n {
				state = eval(t, Merge(), map[string]int{"R": 1, "D": d}, map[string]*ir.Array{"o": state["out"], "m": state["top"], "l": state["total"],
					"o2": {Shape: []int{1, d}, V: row(in["o2"], b, d)}, "m2": {Shape: []int{1}, V: row(in["m2"], b, 1)}, "l2": {Shape: []int{1}, V: row(in["l2"], b, 1)}})
			}
			for _, name := range []string{"top", "total", "out"} {
				if !slices.Equal(have[name].V, state[name].V) {
					t.Errorf("%d blocks, maxima of about %v: other %s", n, scale, name)
				}
			}
		}
	}
}

// TestDoc: docs/ir.md lists the operators, without element types and numbers of rows.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("../../docs/ir.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "\n## Float operators\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, o := range All() {
		name, _, variant := strings.Cut(o.Name, "_")
		row := fmt.Sprintf("| `%s` | %s |", name, o.About)
		if variant {
			row = fmt.Sprintf("| `%s` |", name)
		}
		if !strings.Contains(text, row) {
			t.Errorf("docs/ir.md lacks the row %s", row)
		}
	}
	for _, o := range OnDevices() {
		if !strings.Contains(text, "`"+o.Name+"`") {
			t.Errorf("docs/ir.md lacks %s", o.Name)
		}
	}
}
