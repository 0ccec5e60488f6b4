package timing

import (
	"fmt"
	"math/rand/v2"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// MaxMatrix bounds the matrices that are measured, in weights.
const MaxMatrix = 1 << 30

// PackRandom is a packed m x k matrix of random codes.
func PackRandom(p *runtime.Product, m, k int, rng *rand.Rand) ([]byte, error) {
	src, err := Random(p.Weight(), m, k, rng)
	if err != nil {
		return nil, err
	}
	return Pack(p, src, m, k)
}

// Random is an m x k matrix of random codes.
func Random(w format.Weight, m, k int, rng *rand.Rand) (format.Source, error) {
	if m > MaxMatrix/k {
		return format.Source{}, fmt.Errorf("a matrix of %d rows and %d columns is too large to measure: at most %d weights", m, k, MaxMatrix)
	}
	src := w.NewSource(make([]byte, m*k), m, k, func(x format.Shared, _ int) float32 {
		if x.Limit > 0 {
			return float32(rng.IntN(x.Limit))
		}
		if x.Elem.Bits() == 8 {
			return 1
		}
		return 1 / 64.
	})
	for i := 0; i < len(src.Codes); i += 8 {
		x := rng.Uint64()
		for j := i; j < min(i+8, len(src.Codes)); j++ {
			src.Codes[j] = byte(int(byte(x)) * w.Codes() >> 8) // nearly as often as one another
			x >>= 8
		}
	}
	return src, nil
}

// Pack is an m x k matrix, packed.
func Pack(p *runtime.Product, src format.Source, m, k int) ([]byte, error) {
	size, err := p.PackedSize(m, k)
	if err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	return packed, p.Pack(packed, src, m, k)
}

// Normal draws activations of a normal distribution.
func Normal(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) }

// Extreme draws activations that are as large as the largest: each is -127 or 127 as int8.
func Extreme(rng *rand.Rand) float32 { return float32(1 - 2*rng.IntN(2)) }

// Calls are a product of n activations, which draw makes, with the next copy of an m x k
// matrix, and the preparation of the activations.
func Calls(p *runtime.Product, weights *Copies, m, n, k int, draw func(*rand.Rand) float32) (product, prepare func(), err error) {
	size, err := p.ActSize(n, k)
	if err != nil {
		return nil, nil, err
	}
	act, x, dst := make([]byte, size), activations(n, k, draw), make([]float32, n*m)
	if err := p.PrepareAct(act, x, n, k); err != nil {
		return nil, nil, err
	}
	must := func(err error) {
		if err != nil {
			panic("BUG: " + err.Error())
		}
	}
	product = func() { must(p.Gemm(dst, weights.Next(), act, 0, m, runtime.Options{})) }
	prepare = func() { must(p.PrepareAct(act, x, n, k)) }
	return product, prepare, p.Gemm(dst, weights.Next(), act, 0, m, runtime.Options{})
}

// activations draws n rows of k elements, the same ones for all products: how often tables have residuals, and so how long a product
// takes, depends on them.
func activations(n, k int, draw func(*rand.Rand) float32) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	x := make([]float32, n*k)
	for i := range x {
		x[i] = draw(rng)
	}
	return x
}
