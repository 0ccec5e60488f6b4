package runtime

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestBits: packed matrices, activations and products in pure Go are the same bytes on every CPU, whatever its order of
// bytes, the size of its words, and the multiplications that Go fuses with additions there. These figures are the
// CRC-32 of what linux/amd64 computes; other tests compare that with the definition.
func TestBits(t *testing.T) {
	const m, n, k = 37, 5, 384
	for _, c := range []struct {
		name string
		act  format.Act
		want uint32
	}{
		{"w1", format.Act{}, 0x2342b97a},
		{"ternary-tensor", format.Act{}, 0x2dcce05b},
		{"w4-g32", format.Act{Group: 32}, 0x05d0b194},
		{"w3-g48-f32-z", format.Act{Group: 16}, 0xaacb5207},
		{"w4-g32-bf16-m", format.Act{}, 0x810ddf4d},
		{"w4-g32-s128-m", format.Act{Group: 32}, 0x4339641a},
		{"w2-g16-s64-i8", format.Act{Group: 64}, 0xceb80264},
		{"w8", format.Act{Float: 1}, 0x3513947b},
		{"w4-g32-s64", format.Act{Float: 8}, 0x3ca8b7fc},
	} {
		w, rng := lookup(t, c.name), rand.New(rand.NewPCG(1, 2))
		// Sums of integers and powers of two: NormFloat64 uses logarithms and roots, which differ by CPU.
		number := func() float32 { return float32(rng.IntN(1<<24)-1<<23) * 0x1p-22 }
		src := w.NewSource(make([]byte, m*k), m, k, func(x format.Shared, _ int) float32 {
			if x.Limit > 0 {
				return float32(rng.IntN(x.Limit))
			}
			return x.Elem.Round(number())
		})
		for i := range src.Codes {
			src.Codes[i] = byte(rng.IntN(w.Codes()))
		}
		x := make([]float32, n*k)
		for i := range x {
			x[i] = number()
		}
		copy(x[k:], []float32{1e30, 1, -1e-38})                                    // a row whose scale is large
		copy(x[2*k:], []float32{float32(math.Inf(1)), float32(math.NaN())})        // one without a product
		copy(x[3*k:4*k], slices.Repeat([]float32{math.SmallestNonzeroFloat32}, k)) // one that underflows
		p := New(Spec{Name: "p", Weight: w, Act: c.act, LimitK: k, Layouts: []*format.Layout{format.PlainLayout(w)}})
		packed, act, out := mustPack(t, p, src, m, k), mustPrepare(t, p, x, n, k), make([]float32, n*m)
		if err := p.Gemm(out, packed, act, 0, m, Options{}); err != nil {
			t.Fatal(err)
		}
		sum := crc32.ChecksumIEEE(append(packed, act...))
		for _, v := range out {
			b := math.Float32bits(v)
			sum = crc32.Update(sum, crc32.IEEETable, []byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
		if sum != c.want {
			t.Errorf("%s, activations %+v: %#08x, want %#08x", c.name, c.act, sum, c.want)
		}
	}
}
