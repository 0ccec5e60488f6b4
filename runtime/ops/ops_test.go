//go:build amd64 || arm64

package ops

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// special are numbers that sums, comparisons and conversions treat in ways of their own.
var special = []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-40, 1e-38, math.MaxFloat32, -math.MaxFloat32, 65519, 65520, 6e-8, 2.9e-8, -88, 88.5, 89, 200, -200,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffa00001)}

// floats are n numbers: one in `rare` is special, none if rare is 0.
func floats(rng *rand.Rand, n, rare int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64()) * 3
		if rare > 0 && rng.IntN(rare) == 0 {
			out[i] = special[rng.IntN(len(special))]
		}
	}
	return out
}

// array is the values of x as the definition has them.
func array(x []float32, shape ...int) *ir.Array {
	a := ir.NewArray(shape...)
	for i, v := range x {
		a.V[i] = int64(math.Float32bits(v))
	}
	return a
}

func one(x float32) *ir.Array { return array([]float32{x}, 1) }

// eval is an output of the definition.
func eval(t *testing.T, name string, sizes map[string]int, in map[string]*ir.Array) map[string]*ir.Array {
	t.Helper()
	out, err := ir.Eval(operator.Find(name).Graph, sizes, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// equal compares floats with the definition by their bits. NaNs that are not made canonical may differ.
func equal(t *testing.T, what string, have []float32, want *ir.Array, canonical bool) {
	t.Helper()
	for i, v := range have {
		x := math.Float32frombits(uint32(want.V[i]))
		if math.Float32bits(v) != uint32(want.V[i]) && (canonical || v == v || x == x) {
			t.Fatalf("%s: element %d is %v (%#x), want %v (%#x)", what, i, v, math.Float32bits(v), x, want.V[i])
		}
	}
}

// cases calls f for lengths and kinds of numbers, on everything that this CPU runs. Short tests have fewer of them.
func cases(t *testing.T, f func(t *testing.T, rng *rand.Rand, n, rare int)) {
	lengths := []int{1, 2, 7, 31, 32, 33, 63, 64, 65, 100, 128, 160, 257}
	if testing.Short() {
		lengths = []int{7, 64, 100}
	}
	each(t, func(t *testing.T) {
		for _, n := range lengths {
			for _, rare := range []int{0, 100, 3} {
				f(t, rand.New(rand.NewPCG(uint64(n), uint64(rare))), n, rare)
			}
		}
	})
}

// each calls f with every target that this CPU runs, and in plain Go.
func each[T interface {
	testing.TB
	Run(string, func(T)) bool
}](t T, f func(t T)) {
	was := chosen
	defer func() { chosen = was }()
	for i, target := range targets {
		if cpu.Lacks(target.Need, cpu.Has) == "" {
			chosen = i
			t.Run(target.Target, f)
		}
	}
	chosen = -1
	t.Run(cpu.PureGo, f)
}

func TestRMSNorm(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x, w, eps := floats(rng, n, rare), floats(rng, n, rare), float32(1e-5)
		want := eval(t, "rmsnorm", map[string]int{"K": n}, map[string]*ir.Array{"x": array(x, n), "w": array(w, n), "share": one(1 / float32(n)), "eps": one(eps)})
		dst := make([]float32, n)
		RMSNorm(dst, x, w, eps)
		equal(t, fmt.Sprint("norm of ", n), dst, want["out"], true)
		RMSNorm(x, x, w, eps)
		equal(t, fmt.Sprint("norm in place of ", n), x, want["out"], true)
	})
}

func TestPointwise(t *testing.T) {
	for _, o := range []struct {
		name string
		in   [2]string
		of   func(dst, x, y []float32)
	}{
		{"add", [2]string{"x", "y"}, Add},
		{"mul", [2]string{"x", "y"}, Mul},
		{"silu", [2]string{"gate", "up"}, SiLUMul},
		{"gelu", [2]string{"gate", "up"}, GELUMul},
		{"relu2", [2]string{"gate", "up"}, ReLU2Mul},
	} {
		cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
			x, y := floats(rng, n, rare), floats(rng, n, rare)
			want := eval(t, o.name, map[string]int{"K": n}, map[string]*ir.Array{o.in[0]: array(x, n), o.in[1]: array(y, n)})["out"]
			dst := make([]float32, n)
			o.of(dst, x, y)
			equal(t, fmt.Sprint(o.name, " of ", n), dst, want, true)
			o.of(y, x, slices.Clone(y))
			equal(t, fmt.Sprint(o.name, " in place of ", n), y, want, true)
		})
	}
}

func TestScale(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x, by := floats(rng, n, rare), float32(rng.NormFloat64())
		want := eval(t, "scale", map[string]int{"K": n}, map[string]*ir.Array{"x": array(x, n), "by": one(by)})["out"]
		dst := make([]float32, n)
		Scale(dst, x, by)
		equal(t, fmt.Sprint("scaled ", n), dst, want, true)
		Scale(x, x, by)
		equal(t, fmt.Sprint("scaled in place ", n), x, want, true)
	})
}

func TestSoftcap(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x, scale, cap := floats(rng, n, rare), float32(rng.NormFloat64()), 1+50*rng.Float32()
		want := eval(t, "softcap", map[string]int{"K": n}, map[string]*ir.Array{"x": array(x, n), "cap": one(cap), "twice": one(2 * scale / cap)})["out"]
		dst := make([]float32, n)
		Softcap(dst, x, scale, cap)
		equal(t, fmt.Sprint("capped ", n), dst, want, true)
		Softcap(x, x, scale, cap)
		equal(t, fmt.Sprint("capped in place ", n), x, want, true)
	})
}

func TestRope(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		x, cos, sin := floats(rng, 2*n, rare), floats(rng, n, rare), floats(rng, n, rare)
		want := eval(t, "rope", map[string]int{"H": n}, map[string]*ir.Array{"x": array(x[:n], n), "y": array(x[n:], n), "cos": array(cos, n), "sin": array(sin, n)})
		Rope(x, cos, sin)
		equal(t, fmt.Sprint("low of ", n), x[:n], want["low"], true)
		equal(t, fmt.Sprint("high of ", n), x[n:], want["high"], true)
	})
}

func TestSoftmax(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		rows := n%20 + 1
		s, scale, first, end := floats(rng, rows*Block, rare), float32(rng.NormFloat64()), make([]int32, rows), make([]int32, rows)
		firsts, ends := ir.NewArray(rows), ir.NewArray(rows)
		for r := range end {
			end[r] = 1 + rng.Int32N(Block)
			first[r] = rng.Int32N(end[r])
			firsts.V[r], ends.V[r] = int64(first[r]), int64(end[r])
		}
		want := eval(t, "softmax", map[string]int{"R": rows}, map[string]*ir.Array{"s": array(s, rows, Block), "scale": one(scale), "first": firsts, "end": ends})
		top, sum := make([]float32, rows), make([]float32, rows)
		Softmax(s, rows, scale, first, end, top, sum)
		equal(t, "exponentials", s, want["e"], false)
		equal(t, "maximum", top, want["top1"], false)
		equal(t, "sum", sum, want["total1"], false)
	})
}

func TestMergeAndFinish(t *testing.T) {
	cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
		rows := 1 + rng.IntN(40)
		o, o2 := floats(rng, rows*n, rare), floats(rng, rows*n, rare)
		m, l, m2, l2 := floats(rng, rows, rare), floats(rng, rows, rare), floats(rng, rows, rare), floats(rng, rows, rare)
		want := eval(t, "merge", map[string]int{"R": rows, "D": n}, map[string]*ir.Array{"o": array(o, rows, n), "m": array(m, rows), "l": array(l, rows),
			"o2": array(o2, rows, n), "m2": array(m2, rows), "l2": array(l2, rows)})
		Merge(o, m, l, o2, m2, l2, rows, n)
		equal(t, "outputs", o, want["out"], false)
		equal(t, "maxima", m, want["top"], false)
		equal(t, "sums", l, want["total"], false)
		end := eval(t, "finish", map[string]int{"R": rows, "D": n}, map[string]*ir.Array{"o": array(o, rows, n), "l": array(l, rows)})
		Finish(o, l, rows, n)
		equal(t, "quotients", o, end["out"], true)
	})
}

// elements are n random elements, as bytes and as the definition has them.
func elements(rng *rand.Rand, e Elem, n, rare int) ([]byte, *ir.Array) {
	data, a := make([]byte, n*e.Bytes()), ir.NewArray(n)
	for i, v := range floats(rng, n, rare) {
		switch bits := math.Float32bits(v); e {
		case F32:
			a.V[i] = int64(bits)
		case F16:
			a.V[i] = int64(format.HalfFromFloat32(v))
		case BF16:
			a.V[i] = int64(bits >> 16)
		case I8:
			a.V[i] = int64(int8(bits >> 5))
		}
		put(data, e, i, a.V[i])
	}
	return data, a
}

func put(data []byte, e Elem, i int, bits int64) {
	switch e {
	case F32:
		binary.LittleEndian.PutUint32(data[4*i:], uint32(bits))
	case I8:
		data[i] = byte(bits)
	default:
		binary.LittleEndian.PutUint16(data[2*i:], uint16(bits))
	}
}

var elemNames = map[Elem]string{F32: "f32", F16: "f16", BF16: "bf16", I8: "i8"}

func TestMatmul(t *testing.T) {
	for _, e := range []Elem{F32, F16, BF16, I8} {
		cases(t, func(t *testing.T, rng *rand.Rand, k, rare int) {
			rows := 1 + rng.IntN(17)
			stride, dstStride := k+rng.IntN(3), Panel+rng.IntN(40)
			a := floats(rng, rows*stride, rare*10)
			panel, b := elements(rng, e, k*Panel, rare*10)
			b.Shape = []int{k, Panel}
			dst := make([]float32, rows*dstStride)
			Matmul(dst, dstStride, a, stride, rows, panel, e, k)
			for r := range rows {
				in := map[string]*ir.Array{"a": array(a[r*stride:][:k], 1, k), "b": b}
				want := eval(t, "matmul_"+elemNames[e]+"_1", map[string]int{"K": k}, in)["out"]
				what := fmt.Sprintf("row %d of %d by a panel of %v of %d rows", r, rows, e, k)
				equal(t, what, dst[r*dstStride:][:Panel], want, true)
				for j, v := range dst[r*dstStride:][Panel:dstStride] {
					if v != 0 {
						t.Fatalf("%s: wrote element %d behind it", what, j)
					}
				}
			}
		})
	}
}

// TestStore: stored elements have the bits of the definition, and their neighbours are left alone.
func TestStore(t *testing.T) {
	for _, e := range []Elem{F32, F16} {
		cases(t, func(t *testing.T, rng *rand.Rand, n, rare int) {
			x := floats(rng, n, rare)
			want := eval(t, "row_"+elemNames[e], map[string]int{"K": n}, map[string]*ir.Array{"x": array(x, n)})["out"]
			row, _ := elements(rng, e, n+1, 0)
			full := slices.Clone(row)
			StoreRow(row[:n*e.Bytes()], e, x)
			for i, bits := range want.V {
				put(full, e, i, bits)
			}
			if !slices.Equal(row, full) {
				t.Fatalf("row of %d %v", n, e)
			}
			lane := rng.IntN(Panel)
			panel, _ := elements(rng, e, n*Panel, 0)
			full = slices.Clone(panel)
			StoreK(panel, e, x, lane)
			for i, bits := range want.V {
				put(full, e, i*Panel+lane, bits)
			}
			if !slices.Equal(panel, full) {
				t.Fatalf("lane %d of %d %v", lane, n, e)
			}
		})
	}
}

// TestExp bounds the error of the exponential that operators have in common, by softmax of two scores: 0 and x, at most 0.
func TestExp(t *testing.T) {
	steps := 400000
	if testing.Short() {
		steps = 10000
	}
	each(t, func(t *testing.T) {
		worst, at := 0.0, float32(0)
		var s [Block]float32
		var top, sum [1]float32
		for i := range steps {
			x := float32(-87.3 * float64(i) / float64(steps))
			s[0], s[1] = 0, x
			Softmax(s[:], 1, 1, []int32{0}, []int32{2}, top[:], sum[:])
			want := math.Exp(float64(x))
			if off := math.Abs(float64(s[1])-want) / math.Ldexp(1, max(math.Ilogb(want), -126)-23); off > worst {
				worst, at = off, x
			}
		}
		t.Logf("exp is off by at most %.3f ulp, at %v", worst, at)
		if worst > 1.2 {
			t.Errorf("exp(%v) is off by %.3f ulp", at, worst)
		}
	})
}

// TestNoAllocation: a call allocates nothing.
func TestNoAllocation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y, w := floats(rng, 256, 0), floats(rng, 256, 0), floats(rng, 256, 0)
	panel, _ := elements(rng, F16, 64*Panel, 0)
	var top, sum [4]float32
	calls := map[string]func(){
		"RMSNorm":  func() { RMSNorm(x, y, w, 1e-5) },
		"Add":      func() { Add(x, y, w) },
		"Mul":      func() { Mul(x, y, w) },
		"Quantize": func() { Quantize(panel[:256], x) },
		"SiLUMul":  func() { SiLUMul(x, y, w) },
		"GELUMul":  func() { GELUMul(x, y, w) },
		"ReLU2Mul": func() { ReLU2Mul(x, y, w) },
		"Rope":     func() { Rope(x[:128], y[:64], w[:64]) },
		"Matmul":   func() { Matmul(x, 64, y, 64, 4, panel, F16, 64) },
		"Softmax":  func() { Softmax(x, 4, 1, []int32{0, 1, 0, 0}, []int32{1, 2, 64, 4}, top[:], sum[:]) },
		"Merge":    func() { Merge(x, top[:], sum[:], y, w[:4], w[4:8], 4, 64) },
		"Finish":   func() { Finish(x, sum[:], 4, 64) },
		"StoreK":   func() { StoreK(panel, F16, x[:64], 3) },
		"StoreRow": func() { StoreRow(panel, F16, x) },
	}
	each(t, func(t *testing.T) {
		for name, f := range calls {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}

func BenchmarkMatmul(b *testing.B) {
	const k = 2048
	rng := rand.New(rand.NewPCG(1, 1))
	a, dst := floats(rng, 8*k, 0), make([]float32, 8*Panel)
	each(b, func(b *testing.B) {
		for _, e := range []Elem{F32, F16, BF16, I8} {
			panel, _ := elements(rng, e, k*Panel, 0)
			for _, rows := range []int{1, 2, 4, 8} {
				b.Run(fmt.Sprint(e, "x", rows), func(b *testing.B) {
					for b.Loop() {
						Matmul(dst, Panel, a, k, rows, panel, e, k)
					}
					b.ReportMetric(float64(b.N*k*Panel*rows)/float64(b.Elapsed().Nanoseconds()), "GMAC/s")
				})
			}
		}
	})
}

func BenchmarkRows(b *testing.B) {
	const k = 2048
	rng := rand.New(rand.NewPCG(1, 1))
	x, y, z, dst := floats(rng, k, 0), floats(rng, k, 0), floats(rng, k, 0), make([]float32, k)
	panel, _ := elements(rng, F16, 128*Panel, 0)
	first, end := make([]int32, k/Block), slices.Repeat([]int32{Block}, k/Block)
	each(b, func(b *testing.B) {
		for _, o := range []struct {
			name string
			n    int
			f    func()
		}{
			{"RMSNorm", k, func() { RMSNorm(dst, x, y, 1e-5) }},
			{"Add", k, func() { Add(dst, x, y) }},
			{"Mul", k, func() { Mul(dst, x, y) }},
			{"Quantize", k, func() { Quantize(panel[:k], x) }},
			{"SiLUMul", k, func() { SiLUMul(dst, x, y) }},
			{"GELUMul", k, func() { GELUMul(dst, x, y) }},
			{"ReLU2Mul", k, func() { ReLU2Mul(dst, x, y) }},
			{"Rope", 128, func() { Rope(dst[:128], x[:64], y[:64]) }},
			{"Softmax", 8 * Block, func() { Softmax(dst[:8*Block], 8, 1, first, end, z[:8], z[8:16]) }},
			{"Merge", 512, func() { Merge(dst, z[:4], z[4:8], y, z[8:12], z[12:16], 4, 128) }},
			{"Finish", 512, func() { Finish(dst, z[:4], 4, 128) }},
			{"StoreK", 128, func() { StoreK(panel, F16, x[:128], 3) }},
			{"StoreRow", 128, func() { StoreRow(panel, F16, x[:128]) }},
		} {
			b.Run(o.name, func(b *testing.B) {
				for b.Loop() {
					o.f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*o.n), "ns/element")
			})
		}
	})
}
