package gen_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir"
	tformat "github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// TestMeaning: pure Go computes what the tensor expressions mean, bit for bit.
func TestMeaning(t *testing.T) {
	for _, c := range []struct {
		weight  string
		act     int
		m, n, k int
	}{{"w4", 0, 3, 2, 37}, {"ternary-tensor", 0, 17, 1, 130}, {"w3-g48-z", 16, 18, 3, 144}, {"iq4_nl", 32, 5, 2, 96}, {"w2-g128", 32, 4, 2, 256},
		{"w4-g32-m", 16, 5, 2, 96}, {"w2-g16-s64-m", 0, 17, 2, 128}, {"w3-g32-s64-i8", 32, 3, 1, 192}, {"w4-g32-s64-i8-z", 0, 3, 2, 64}, {"w4-row-bf16", 0, 3, 2, 40},
		{"cb4x16", 0, 19, 2, 96}, {"cb2x4-g64-b16", 16, 5, 2, 128},
		{"w1-f32act", 0, 3, 2, 37}, {"ternary-f32act", 0, 18, 1, 50}, {"w3-g32-s64-i8-f32act", 0, 3, 2, 128}} {
		p := problem(t, c.weight, c.act)
		rng := rand.New(rand.NewPCG(3, 4))
		in, src := weights(p.Weight, c.m, c.k, rng)
		x, bits := make([]float32, c.n*c.k), ir.NewArray(c.n, c.k)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		x[len(x)-1] = []float32{1e20, float32(math.Inf(-1))}[c.m%2]
		for i := range x {
			bits.V[i] = int64(math.Float32bits(x[i]))
		}
		sizes := map[string]int{"M": c.m, "N": c.n, "K": c.k}
		prepared, err := ir.Eval(ir.PrepareAct(p), sizes, map[string]*ir.Array{"x": bits})
		if err != nil {
			t.Fatal(err)
		}
		in["act"], in["sums"], in["ascale"] = prepared["act"], prepared["sums"], prepared["ascale"]
		if p.Act.Floats() {
			in["act"] = bits
		}
		all, err := ir.Eval(ir.Matmul(p), sizes, in)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range multiply(t, p, src, x, c.m, c.n, c.k) {
			if want := uint32(all["out"].V[i]); math.Float32bits(v) != want {
				t.Fatalf("%s: element %d is %v, not %v", c.weight, i, v, math.Float32frombits(want))
			}
		}
	}
}

// weights is a random matrix, as the tensor expressions and as callers have it.
func weights(w tformat.Weight, m, k int, rng *rand.Rand) (map[string]*ir.Array, tformat.Source) {
	src := w.NewSource(make([]byte, m*k), m, k, func(x tformat.Shared, _ int) float32 {
		if x.Limit > 0 {
			return float32(rng.IntN(x.Limit))
		}
		if x.Elem.Bits() == 8 {
			return x.Elem.Round(float32(rng.IntN(512) - 256))
		}
		return x.Elem.Round(float32(rng.NormFloat64()))
	})
	in := map[string]*ir.Array{"codes": ir.NewArray(m, k)}
	for i := range src.Codes {
		src.Codes[i] = byte(rng.IntN(w.Codes()))
		in["codes"].V[i] = int64(src.Codes[i])
	}
	for _, x := range w.Shared() {
		perRow := max(w.Count(x, m, k)/m, 1)
		a := ir.NewArray(m, perRow)
		for i := range a.V {
			v := src.Number(x, w.Index(x, i/perRow, i%perRow*x.Span, k))
			switch x.Elem {
			case tformat.U8, tformat.I8:
				a.V[i] = int64(v)
			case tformat.F16:
				a.V[i] = int64(tformat.HalfFromFloat32(v))
			case tformat.BF16:
				a.V[i] = int64(math.Float32bits(v) >> 16)
			default:
				a.V[i] = int64(math.Float32bits(v))
			}
		}
		in[x.Name] = a
	}
	return in, src
}

// multiply is the product as package runtime computes it in pure Go.
func multiply(t *testing.T, p ir.Problem, src tformat.Source, x []float32, m, n, k int) []float32 {
	t.Helper()
	q := runtime.New(runtime.Spec{Name: "p", Weight: p.Weight, Act: p.Act, LimitK: p.LimitK(), Layouts: []*tformat.Layout{tformat.PlainLayout(p.Weight)}})
	size, err := q.PackedSize(m, k)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, size)
	if err := q.Pack(packed, src, m, k); err != nil {
		t.Fatal(err)
	}
	if size, err = q.ActSize(n, k); err != nil {
		t.Fatal(err)
	}
	act, dst := make([]byte, size), make([]float32, n*m)
	if err := q.PrepareAct(act, x, n, k); err != nil {
		t.Fatal(err)
	}
	if err := q.Gemm(dst, packed, act, 0, m, runtime.Options{}); err != nil {
		t.Fatal(err)
	}
	return dst
}
