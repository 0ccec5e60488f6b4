package ir

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// floatFormats are weights for f32 activations: one to eight codes at once, with and
// without groups, of one level of scales and of two.
var floatFormats = []struct {
	weight string
	by     int // 0: as usual
}{
	{"w1", 0}, {"ternary", 0}, {"w2", 0}, {"w3", 0}, {"w4", 0}, {"iq4nl", 0}, {"w1", 1}, {"w1", 5}, {"w1", 8}, {"w8", 1},
	{"w1-g32", 0}, {"ternary-g48", 0}, {"ternary-g32", 0}, {"w4-g32-s64", 0}, {"w2-g16-bf16", 4}, {"w3-tensor-f16", 2},
}

func floatProblem(t testing.TB, name string, by int) Problem {
	t.Helper()
	if by > 0 {
		p := Problem{Weight: weight(t, name), Act: format.Act{Float: by}}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, err := Named(name + FloatSuffix)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	if have := p.Name(); have != name+FloatSuffix {
		t.Errorf("%s is called %s", name, have)
	}
	return p
}

// How many codes are summed at once is derived from the weights alone.
func TestFloatAct(t *testing.T) {
	for name, want := range map[string]int{"w1": 4, "w2": 2, "w3": 1, "w4": 1, "iq4nl": 1, "ternary": 3,
		"ternary-g32": 2, "ternary-g48": 2, "w1-g16": 4, "mxfp4": 1} {
		if p := floatProblem(t, name, 0); p.Act.Float != want {
			t.Errorf("%s: %d codes at once, want %d", name, p.Act.Float, want)
		}
	}
	for name, want := range map[string]string{
		"w8":       `weight "w8": has 256 levels in 8 bits; tables of f32 activations are for codes of at most 4 bits: quantize the activations`,
		"w4-g32-z": `weight "w4-g32-z": zero points need sums of quantized activations; these are f32: quantize them`,
		"w4-g32-m": `weight "w4-g32-m": minimums need sums of quantized activations; these are f32: quantize them`,
	} {
		if _, err := weight(t, name).FloatAct(); err == nil || err.Error() != "format: "+want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestFloatRefused(t *testing.T) {
	for _, c := range []struct {
		weight string
		act    format.Act
		want   string
	}{
		{"w1", format.Act{Float: -1}, "f32 activations summed by -1: want 1 to 8, or 0 for int8"},
		{"w1", format.Act{Float: 9}, "f32 activations summed by 9: want 1 to 8, or 0 for int8"},
		{"w1", format.Act{Float: 4, Group: 32}, "activation group 32: f32 activations have no scales; want 0"},
		{"ternary-g32", format.Act{Float: 3}, "f32 activations summed by 3: do not fill a weight group of 32"},
		{"w4-g32-z", format.Act{Float: 1}, "zero points need sums of quantized activations"},
		{"cb2x4-g64-b16", format.Act{Float: 1}, "several codebooks have no tables, which products of f32 activations need: quantize them"},
		{"w4-g32-m", format.Act{Float: 1}, "minimums need sums of quantized activations"},
	} {
		p := Problem{Weight: weight(t, c.weight), Act: c.act}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.weight, c.act, err, c.want)
		}
	}
	p := floatProblem(t, "w1", 0)
	d, err := BitSerial(p.Weight, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := BitSerialGraph(p, d); err == nil || !strings.Contains(err.Error(), "the sums of f32 activations have an order") {
		t.Errorf("BitSerialGraph of f32 activations: %v", err)
	}
}

// floatActs are rows of activations: ordinary ones, sums that cancel, subnormal
// numbers, infinities and NaNs.
func floatActs(rng *rand.Rand, k int) map[string][]float32 {
	fill := func(f func(i int) float64) []float32 {
		x := make([]float32, k)
		for i := range x {
			x[i] = float32(f(i))
		}
		return x
	}
	with := func(v float64) []float32 {
		return fill(func(i int) float64 {
			if i == k/3 {
				return v
			}
			return rng.NormFloat64()
		})
	}
	return map[string][]float32{
		"normal":    fill(func(int) float64 { return rng.NormFloat64() }),
		"wide":      fill(func(int) float64 { return rng.NormFloat64() * math.Exp(10*rng.NormFloat64()) }),
		"cancel":    fill(func(i int) float64 { return (1 + rng.Float64()/1e3) * float64(1-2*(i%2)) }),
		"subnormal": fill(func(int) float64 { return rng.NormFloat64() * 1e-43 }),
		"outlier":   with(-3e30),
		"nan":       with(math.NaN()),
		"inf":       with(math.Inf(1)),
		"overflow":  fill(func(int) float64 { return 3e38 }),
	}
}

// plainFloat is the bits of the product of f32 activations, by loops over them.
func plainFloat(c product) []uint32 {
	w, group := c.p.Weight, c.p.GroupK()
	if group == 0 {
		group = c.k
	}
	out := make([]uint32, c.n*c.m)
	for n := range c.n {
		for m := range c.m {
			acc := float32(0)
			for first := 0; first < c.k; first += group {
				sum := float32(0)
				for at := first; at < min(first+group, c.k); at += c.p.Act.Float {
					few := float32(0)
					for k := at; k < min(at+c.p.Act.Float, c.k, first+group); k++ {
						few = float32(few + float32(float32(w.Levels[c.in["codes"].V[m*c.k+k]])*f32(c.in["act"].V[n*c.k+k])))
					}
					sum = float32(sum + few)
				}
				acc = float32(acc + float32(sum*c.scale(m, first)))
			}
			out[n*c.m+m] = canonical(acc)
		}
	}
	return out
}

// scale is that of the weights of row m from element k on.
func (c product) scale(m, k int) float32 {
	v := float32(1)
	for _, x := range c.p.Weight.Shared() {
		at := m * blocks(c.k, x.Span)
		if x.Span > 0 {
			at += k / x.Span
		}
		v = float32(v * number(x.Elem, c.in[x.Name].V[at]))
	}
	return v
}

// realFloat is the product in float64, and the sum of its magnitudes.
func realFloat(c product, n, m int) (sum, size float64) {
	for k := range c.k {
		group := max(c.p.GroupK(), 1)
		w := float64(c.scale(m, k/group*group)) * float64(c.p.Weight.Levels[c.in["codes"].V[m*c.k+k]])
		term := w * float64(f32(c.in["act"].V[n*c.k+k]))
		sum, size = sum+term, size+math.Abs(term)
	}
	return sum, size
}

// Matmul of f32 activations has the bits of its definition, and is as near to the
// product in real numbers as FloatError says.
func TestFloatMatmul(t *testing.T) {
	for _, x := range floatFormats {
		p := floatProblem(t, x.weight, x.by)
		t.Run(fmt.Sprintf("%s/%d", x.weight, p.Act.Float), func(t *testing.T) {
			rng := rand.New(rand.NewSource(1))
			for _, s := range append(shapes(rng, p), [3]int{2, 1, 5 * max(p.Weight.Unit(), 99)}) {
				c := randomProduct(rng, Problem{Weight: p.Weight}, s[0], s[1], s[2])
				c.p = p
				for name, row := range floatActs(rng, c.n*c.k) {
					for i, v := range row {
						c.in["act"].V[i] = f32bits(v)
					}
					c.checkFloat(t, name)
				}
			}
		})
	}
}

func (c product) checkFloat(t *testing.T, name string) {
	t.Helper()
	all, err := Eval(Matmul(c.p), c.sizes(), c.in)
	if err != nil {
		t.Fatal(err)
	}
	relative, absolute := c.p.Act.FloatError(c.p.Weight, c.k)
	for i, want := range plainFloat(c) {
		n, m := i/c.m, i%c.m
		have := uint32(all["out"].V[i])
		if have != want {
			t.Fatalf("%s: m %d n %d k %d: out[%d, %d] is %#x, want %#x", name, c.m, c.n, c.k, n, m, have, want)
		}
		real, size := realFloat(c, n, m)
		got := float64(math.Float32frombits(have))
		switch {
		case size < math.MaxFloat32 && !(math.Abs(got-real) <= relative*size+absolute):
			t.Fatalf("%s: m %d n %d k %d: out[%d, %d] is %v, %v away from %v; at most %v", name, c.m, c.n, c.k, n, m, got, got-real, real, relative*size+absolute)
		case math.IsNaN(real) && have != 0x7fc00000:
			t.Fatalf("%s: out[%d, %d] is %#x of a product that is not a number", name, n, m, have)
		}
	}
}

// An entry is the sum of its activations in order, made canonical: every entry of every
// unit, of units that K cuts off too.
func TestFloatTables(t *testing.T) {
	for _, c := range []struct {
		weight, digits string
		parts          []int
	}{{"w1", DigitSigns, []int{4}}, {"w1", DigitCodes, []int{4, 4}}, {"ternary", DigitLevels, []int{3}}, {"w2", DigitCodes, []int{2}}, {"w3", DigitCodes, []int{1}}, {"iq4nl", DigitCodes, []int{1}}} {
		p := floatProblem(t, c.weight, c.parts[0])
		d, err := Decompose(p.Weight, c.digits, c.parts...)
		if err != nil {
			t.Fatal(err)
		}
		tab := &Tables{Decomposition: d, Elem: format.F32, Together: 1}
		const k = 25
		for name, x := range floatActs(rand.New(rand.NewSource(3)), k) {
			in := NewArray(1, k)
			for i, v := range x {
				in.V[i] = f32bits(v)
			}
			all, err := Eval(PrepareTables(p, tab), map[string]int{"N": 1, "K": k}, map[string]*Array{"x": in})
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for unit := range (k + d.Digits() - 1) / d.Digits() {
				for part := range d.Parts {
					for e := range tab.Stored(part) {
						want := canonical(tab.FloatEntry(part, e, func(digit int) float32 {
							if i := unit*d.Digits() + digit; i < k {
								return x[i]
							}
							return 0
						}))
						if have := uint32(all["table"].V[at]); have != want {
							t.Fatalf("%s, %s: unit %d, part %d, entry %d is %#x, want %#x", c.weight, name, unit, part, e, have, want)
						}
						at++
					}
				}
			}
		}
	}
}
