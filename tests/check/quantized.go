package check

import (
	"math"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/runtime"
)

// Inputs are activations before quantization.
var Inputs = []struct {
	Name string
	Fill func(rng *rand.Rand, x []float32, j int)
}{
	{"normal", func(rng *rand.Rand, x []float32, _ int) {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}},
	{"all 127", func(rng *rand.Rand, x []float32, _ int) {
		for i := range x {
			x[i] = 3 * float32(1-2*rng.Intn(2))
		}
	}},
	{"zeros", func(*rand.Rand, []float32, int) {}},
	{"outliers", func(rng *rand.Rand, x []float32, _ int) {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		x[rng.Intn(len(x))] = 1e30
		x[rng.Intn(len(x))] = math.SmallestNonzeroFloat32
	}},
	{"NaN and Inf", func(rng *rand.Rand, x []float32, j int) {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
		x[rng.Intn(len(x))] = float32(bad[j%3])
	}},
}

// Quantized is a case whose activations are made of float32.
type Quantized struct {
	*Case
	Floats []float32 // [n][k]
}

// Quantize makes a case of activations that fill makes, column by column, quantized as
// ir.PrepareAct defines it.
func Quantize(rng *rand.Rand, p ir.Problem, m, n, k int, fill func(*rand.Rand, []float32, int)) *Quantized {
	q := &Quantized{Case: New(rng, p, m, n, k, Uniform)}
	for j := range n {
		x := make([]float32, k)
		fill(rng, x, j)
		q.Floats = append(q.Floats, x...)
		if p.Act.Floats() {
			q.X[j] = x
			continue
		}
		g := p.Act.Group
		if g == 0 {
			g = k
		}
		for i, part := range slices.Collect(slices.Chunk(x, g)) {
			q.Scale[j][i] = toInt8(q.Act[j][i*g:][:len(part)], part)
		}
	}
	return q
}

// toInt8 is the definition of int8 activations: symmetric, the largest
// magnitude is 127, ties round to even.
func toInt8(q []int8, x []float32) (scale float32) {
	largest := float32(math.Ldexp(1, -100))
	finite := true
	for _, v := range x {
		finite = finite && v-v == 0
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if !finite {
		clear(q)
		return math.Float32frombits(0x7fc00000)
	}
	inv := 127 / largest
	for i, v := range x {
		q[i] = int8(math.RoundToEven(float64(float32(v * inv))))
	}
	return float32(largest * float32(1.0/127))
}

// Multiply packs, prepares and multiplies with x.
func (q *Quantized) Multiply(x *runtime.Product) ([]float32, error) {
	size, err := x.PackedSize(q.M, q.K)
	if err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	if err := x.Pack(packed, q.Source, q.M, q.K); err != nil {
		return nil, err
	}
	if size, err = x.ActSize(q.N, q.K); err != nil {
		return nil, err
	}
	act := make([]byte, size)
	if err := x.PrepareAct(act, q.Floats, q.N, q.K); err != nil {
		return nil, err
	}
	out := make([]float32, q.N*q.M)
	return out, x.Gemm(out, packed, act, 0, q.M, runtime.Options{})
}
