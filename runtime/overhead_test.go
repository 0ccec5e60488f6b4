package runtime

import (
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// BenchmarkCall is what a product costs besides its kernels, which do nothing here: one row of 2048 activations by 512
// rows of weights, in tiles of 32 rows.
func BenchmarkCall(b *testing.B) {
	for _, name := range []string{"w4", "w4-g128", "w4-g32"} {
		b.Run(name, func(b *testing.B) {
			const m, k, rows = 512, 2048, 32
			s := fakeSpec(b, name, 0, rows, 128, []int{1})
			s.Variants[0].Kernels[0].Fn = func(*GemmArgs) {}
			p, err := New(*s).On("fake/a")
			if err != nil {
				b.Fatal(err)
			}
			packed, act := make([]byte, must(p.PackedSize(m, k))), make([]byte, must(p.ActSize(1, k)))
			x, dst := make([]float32, k), make([]float32, m)
			src := p.spec.Weight.NewSource(make([]byte, m*k), m, k, func(format.Shared, int) float32 { return 1 })
			if err := p.Pack(packed, src, m, k); err != nil {
				b.Fatal(err)
			}
			if err := p.PrepareAct(act, x, 1, k); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := p.Gemm(dst, packed, act, 0, m, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
