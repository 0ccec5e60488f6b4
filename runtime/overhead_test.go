package runtime

import (
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// BenchmarkCall is what a product costs besides its kernels, which do nothing here: one row of 2048 activations by 512
// rows of weights, in tiles of 32 rows, of eight matrices in turn, as layers of a model have them.
func BenchmarkCall(b *testing.B) {
	for _, name := range []string{"w4", "w4-g128", "w4-g32"} {
		b.Run(name, func(b *testing.B) {
			const m, k, rows = 512, 2048, 32
			s := fakeSpec(b, name, 0, rows, 128, []int{1})
			s.Variants[0].Kernels[0].Fn = func(*abi.GemmArgs) {}
			p, err := New(*s).On("fake/a")
			if err != nil {
				b.Fatal(err)
			}
			act := make([]byte, must(p.ActSize(1, k)))
			x, dst := make([]float32, k), make([]float32, m)
			var layers [8][]byte
			for i := range layers {
				layers[i] = make([]byte, must(p.PackedSize(m, k)))
				src := p.spec.Weight.NewSource(make([]byte, m*k), m, k, func(format.Shared, int) float32 { return float32(i) })
				if err := p.Pack(layers[i], src, m, k); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.PrepareAct(act, x, 1, k); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if err := p.Gemm(dst, layers[i%len(layers)], act, 0, m, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
