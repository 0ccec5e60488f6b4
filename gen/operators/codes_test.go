package operators

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/runtime/ops"
)

// TestCodes: the operators that store vectors in 8 bits are defined to make what ops.Quantize makes, of ordinary vectors, ties, tiny ones, zeros, infinities and NaNs.
func TestCodes(t *testing.T) {
	const k = 2 * operator.Panel
	rng := rand.New(rand.NewPCG(6, 7))
	draw := func(scale float32) (x []float32) {
		for range k {
			x = append(x, float32(rng.NormFloat64())*scale)
		}
		return x
	}
	with := func(x []float32, v float32) []float32 {
		x[rng.IntN(k)] = v
		return x
	}
	ties := make([]float32, k)
	for i := range ties {
		ties[i] = float32(i) - 30.5
	}
	inf := float32(math.Inf(1))
	for _, x := range [][]float32{draw(1), draw(1e-20), draw(3e38), with(ties, 127), make([]float32, k), with(draw(1), inf), with(draw(1), -inf), with(draw(1), float32(math.NaN())),
		with(make([]float32, k), 0x1p-126*127), with(make([]float32, k), 0x1p-126*126), with(make([]float32, k), 0x1p-149), with(make([]float32, k), float32(math.Copysign(0, -1)))} {
		codes := make([]byte, k)
		scale := ops.Quantize(codes, x)
		bits := make([]int64, k)
		for i, v := range x {
			bits[i] = int64(math.Float32bits(v))
		}
		for name, in := range map[string]*ir.Array{"column_i8": {Shape: []int{k}, V: bits}, "row_i8": {Shape: []int{k / operator.Panel, operator.Panel}, V: bits}} {
			out, err := ir.Eval(operator.Find(name).Graph, map[string]int{"K": k, "C": k / operator.Panel}, map[string]*ir.Array{"x": in})
			if err != nil {
				t.Fatal(err)
			}
			if have := uint32(out["scale"].V[0]); have != math.Float32bits(scale) {
				t.Errorf("%s of %v...: scale %#x, want %#x", name, x[:3], have, math.Float32bits(scale))
			}
			for i, v := range out["out"].V {
				if byte(v) != codes[i] {
					t.Errorf("%s of %v: code %d, want %d", name, x[i], v, int8(codes[i]))
				}
			}
		}
	}
}
