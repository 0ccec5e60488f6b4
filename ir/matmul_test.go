package ir

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// problems are the kinds of product: formats, scales per row, tensor and group,
// f16 and f32, zero points, activation groups.
var problems = []struct {
	weight string
	act    int
}{
	{"w1", 0}, {"ternary", 0}, {"w2", 0}, {"w3", 0}, {"w4", 0}, {"w8", 0}, {"iq4nl", 0},
	{"w2-tensor", 0}, {"w4-row-f16", 16}, {"ternary", 48},
	{"iq4_nl", 0}, {"w4-g16", 0}, {"w2-g48-f32", 0}, {"w3-g96", 32}, {"w1-g48", 16}, {"ternary-g96", 48},
	{"w4-g16-z", 0}, {"w2-g48-z", 16}, {"w8-g96-f32-z", 96}, {"ternary-g48-z", 0},
	{"w4-g32-m", 0}, {"w4-g32-f32-m", 16}, {"w4-g16-s64", 0}, {"w4-g32-s96-i8", 32}, {"w2-g16-s48-m", 0}, {"w3-g32-s64-i8-z", 16}, {"w4-g32-bf16", 0}, {"w4-row-bf16", 32}, {"w4-g16-bf16-m", 0},
	{"cb2x4", 0}, {"cb4x16", 16}, {"cb2x16-g96-b16-z", 48}, {"cb4x16-g64-s128-m", 16}, {"cb2x4-tensor-b48", 0},
	{"w4-g16", 64}, {"w2-g16-s64-m", 256}, {"w4-g32-s256", 256}, {"w3-g16-s64-z", 32},
}

func (c product) check(t *testing.T, g *Graph) {
	t.Helper()
	all, err := Eval(g, c.sizes(), c.in)
	if err != nil {
		t.Fatal(err)
	}
	out := all["out"]
	if fmt.Sprint(out.Shape) != fmt.Sprint([]int{c.n, c.m}) {
		t.Fatalf("out has shape %v", out.Shape)
	}
	for i, want := range plainMatmul(c) {
		if have := uint32(out.V[i]); have != want {
			t.Fatalf("m %d n %d k %d: out[%d, %d] is %#x (%v), want %#x", c.m, c.n, c.k, i/c.m, i%c.m,
				have, math.Float32frombits(have), want)
		}
	}
}

// shapes are odd sizes; K is whole groups where there are groups.
func shapes(rng *rand.Rand, p Problem) [][3]int {
	unit := p.Unit()
	return [][3]int{{1, 1, unit}, {3, 2, 2 * unit}, {1 + rng.Intn(5), 1 + rng.Intn(3), unit * (1 + rng.Intn(3*max(1, 32/unit)))}}
}

func TestMatmul(t *testing.T) {
	for _, x := range problems {
		t.Run(fmt.Sprintf("%s/a%d", x.weight, x.act), func(t *testing.T) {
			rng := rand.New(rand.NewSource(1))
			p := Problem{Weight: weight(t, x.weight), Act: format.Act{Group: x.act}}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			for _, s := range shapes(rng, p) {
				randomProduct(rng, p, s[0], s[1], s[2]).check(t, Matmul(p))
			}
		})
	}
}

// A row of activations without a finite scale gives the canonical NaN in every
// output of the row, and in no other.
func TestMatmulNaN(t *testing.T) {
	p := Problem{Weight: weight(t, "w4-g16"), Act: format.Act{Group: 16}}
	c := randomProduct(rand.New(rand.NewSource(2)), p, 3, 2, 48)
	c.in["ascale"].V[3+1] = 0xffc12345 // the second group of row 1
	c.check(t, Matmul(p))
	all, err := Eval(Matmul(p), c.sizes(), c.in)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range all["out"].V {
		if (v == 0x7fc00000) != (i >= 3) {
			t.Errorf("out[%d, %d] is %#x", i/3, i%3, v)
		}
	}
}

// Every product is rounded before the add: a fused multiply-add would not give 0.
func TestMatmulRounds(t *testing.T) {
	w := weight(t, "w8-g16-f32")
	p := Problem{Weight: w, Act: format.Act{Group: 16}}
	c := product{p, 1, 1, 32, map[string]*Array{"codes": NewArray(1, 32), "act": NewArray(1, 32), "scales": NewArray(1, 2), "sums": NewArray(1, 2), "ascale": NewArray(1, 2)}}
	c.in["codes"].V[0], c.in["codes"].V[16] = 128+1, 128+1
	c.in["act"].V[0], c.in["act"].V[16] = -1, 3
	c.in["scales"].V[0], c.in["scales"].V[1] = f32bits(1), f32bits(1)
	third := float32(1.0 / 3)
	c.in["ascale"].V[0], c.in["ascale"].V[1] = f32bits(float32(3*third)), f32bits(third)
	c.check(t, Matmul(p))
	all, _ := Eval(Matmul(p), c.sizes(), c.in)
	if have := f32(all["out"].V[0]); have != 0 {
		t.Errorf("out is %v, want 0", have)
	}
	if fused := math.FMA(3, float64(third), -1); float32(fused) == 0 {
		t.Error("the inputs do not tell a fused add from a rounded one")
	}
}

func prepareRows(rng *rand.Rand, k int) map[string][]float32 {
	fill := func(f func() float32) []float32 {
		x := make([]float32, k)
		for i := range x {
			x[i] = f()
		}
		return x
	}
	normal := func() float32 { return float32(rng.NormFloat64()) }
	with := func(v float32) []float32 {
		x := fill(normal)
		x[k/3] = v
		return x
	}
	half := fill(func() float32 { return float32(rng.Intn(255)-127) + 0.5 })
	half[0] = 127 // ties: scale 1
	return map[string][]float32{
		"random":      fill(normal),
		"zeros":       fill(func() float32 { return float32(math.Copysign(0, rng.NormFloat64())) }),
		"subnormal":   fill(func() float32 { return float32(1e-40 * rng.NormFloat64()) }),
		"below tiny":  fill(func() float32 { return float32(0x1p-101 * rng.Float64()) }),
		"above tiny":  fill(func() float32 { return float32(0x1p-98 * rng.NormFloat64()) }),
		"huge":        fill(func() float32 { return float32(1e38 * math.Copysign(1+2*rng.Float64(), rng.NormFloat64())) }),
		"maximum":     fill(func() float32 { return float32(math.Copysign(math.MaxFloat32, rng.NormFloat64())) }),
		"outlier":     with(-3e5),
		"ties":        half,
		"NaN":         with(float32(math.NaN())),
		"negativeNaN": with(math.Float32frombits(0xffc00001)),
		"Inf":         with(float32(math.Inf(1))),
		"-Inf":        with(float32(math.Inf(-1))),
	}
}

func TestPrepareAct(t *testing.T) {
	for _, c := range []struct {
		weight string
		act, k int
	}{{"w4", 0, 96}, {"w4", 0, 37}, {"w4", 0, 1}, {"w4", 16, 96}, {"w4-g96", 48, 192}, {"w2-g48", 0, 96}, {"w4-g32", 16, 72}} {
		p := Problem{Weight: weight(t, c.weight), Act: format.Act{Group: c.act}}
		for name, x := range prepareRows(rand.New(rand.NewSource(3)), c.k) {
			t.Run(fmt.Sprintf("%s/a%d/k%d/%s", c.weight, c.act, c.k, name), func(t *testing.T) {
				checkPrepare(t, p, x)
			})
		}
	}
}

// checkPrepare prepares two rows: ones, and x.
func checkPrepare(t *testing.T, p Problem, x []float32) {
	k := len(x)
	in := NewArray(2, k)
	ones := make([]float32, k)
	for i := range k {
		ones[i] = 1
		in.V[i], in.V[k+i] = f32bits(1), f32bits(x[i])
	}
	all, err := Eval(PrepareAct(p), map[string]int{"N": 2, "K": k}, map[string]*Array{"x": in})
	if err != nil {
		t.Fatal(err)
	}
	for n, row := range [][]float32{ones, x} {
		want := plainPrepare(row, p.Act.Group, p.GroupK())
		for i, v := range want.act {
			if have := all["act"].At(n, i); have != int64(v) || have < -127 || have > 127 {
				t.Fatalf("act[%d, %d] of %v is %d, want %d", n, i, row[i], have, v)
			}
		}
		for i, v := range want.ascale {
			if have := all["ascale"].At(n, i); have != int64(v) {
				t.Fatalf("ascale[%d, %d] is %#x, want %#x", n, i, have, v)
			}
		}
		for i, v := range want.sums {
			if have := all["sums"].At(n, i); have != int64(v) {
				t.Fatalf("sums[%d, %d] is %d, want %d", n, i, have, v)
			}
		}
		if width := all["act"].Shape[1]; width < k {
			t.Fatalf("act has %d columns for K = %d", width, k)
		}
		for i := k; i < all["act"].Shape[1]; i++ {
			if all["act"].At(n, i) != 0 {
				t.Fatalf("act[%d, %d] behind K is not 0", n, i)
			}
		}
	}
}

// Stages of PrepareAct feed Matmul: one row of x through both, against the
// floats themselves.
func TestPrepareThenMatmul(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	p := Problem{Weight: weight(t, "w4-g32-f32"), Act: format.Act{Group: 16}}
	c := randomProduct(rng, p, 3, 2, 64)
	x := NewArray(2, 64)
	for i := range x.V {
		x.V[i] = f32bits(float32(rng.NormFloat64()))
	}
	prep, err := Eval(PrepareAct(p), c.sizes(), map[string]*Array{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"act", "sums", "ascale"} {
		c.in[name] = prep[name]
	}
	c.check(t, Matmul(p))
	all, err := Eval(Matmul(p), c.sizes(), c.in)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		for m := range 3 {
			want, size := 0.0, 0.0
			for k := range 64 {
				w := float64(p.Weight.Levels[c.in["codes"].At(m, k)]) * float64(f32(c.in["scales"].At(m, k/32)))
				want += w * float64(f32(x.At(n, k)))
				size += math.Abs(w)
			}
			if have := float64(f32(all["out"].At(n, m))); math.Abs(have-want) > size*4/127 {
				t.Errorf("out[%d, %d] is %v, want about %v", n, m, have, want)
			}
		}
	}
}

func TestProblemRefusals(t *testing.T) {
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{}, "has no name"},
		{Problem{Weight: weight(t, "w4"), Act: format.Act{Group: 24}}, "activation group 24: want 0 (one scale per row) or a multiple of 16 up to 65536"},
		{Problem{Weight: weight(t, "w4"), Act: format.Act{Group: -16}}, "activation group -16: want 0"},
		{Problem{Weight: weight(t, "w4"), Act: format.Act{Group: 1 << 17}}, "activation group 131072: want 0"},
		{Problem{Weight: weight(t, "w4-g32"), Act: format.Act{Group: 48}}, "activation group 48: neither divides the weight group 32 nor is a multiple of it"},
		{Problem{Weight: weight(t, "w4"), MaxK: -1}, "max_k -1: want at most 16777216"},
		{Problem{Weight: weight(t, "w4"), MaxK: 1<<24 + 1}, "max_k 16777217: want at most 16777216"},
	} {
		if err := c.p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
	}
}
