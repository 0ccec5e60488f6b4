package runtime

import (
	"bytes"
	"math"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// FuzzGemm calls Gemm with damaged buffers and odd arguments: it must return an
// error or the product, and never touch what it was not given.
func FuzzGemm(f *testing.F) {
	p := New(*fakeSpec(f, "w2-g32", 0, 4, 32, []int{1, 2}))
	q, err := p.On(cpu.PureGo)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(6), uint8(3), uint8(3), int16(0), int16(6), uint16(0), uint8(0), int8(0))
	f.Add(uint8(1), uint8(1), uint8(1), int16(0), int16(1), uint16(24), uint8(1), int8(1))
	f.Fuzz(func(t *testing.T, m8, n8, k8 uint8, lo, hi int16, damage uint16, bit uint8, extra int8) {
		m, n, k := int(m8%20)+1, int(n8%7)+1, (int(k8%5)+1)*32
		for _, p := range []*Product{p, q} {
			src := randomWeights(p.Weight(), m, k, newRand())
			packed, x := mustPack(t, p, src, m, k), testActivations(n, k, newRand())[0]
			act := mustPrepare(t, p, x, n, k)
			dst := make([]float32, max(0, n*m+int(extra%2)))
			if bit != 0 {
				packed[int(damage)%headerBytes] ^= bit
				act[int(damage>>8)%headerBytes] ^= bit
			}
			if p.Gemm(dst, packed, act, int(lo), int(hi), Options{}) != nil {
				continue
			}
			if bit != 0 {
				t.Fatal("a damaged header is accepted")
			}
			want := make([]float32, n*m)
			define(want, p.spec, src, x, m, n, k)
			for i := range want {
				inside := i%m >= int(lo) && i%m < int(hi)
				if inside && math.Float32bits(dst[i]) != math.Float32bits(want[i]) || !inside && dst[i] != 0 {
					t.Fatalf("element %d of rows %d to %d: %v, not %v", i, lo, hi, dst[i], want[i])
				}
			}
		}
	})
}

// FuzzPack calls Pack and PackBlocks with odd arguments.
func FuzzPack(f *testing.F) {
	p := New(*fakeSpec(f, "q4_0", 0, 4, 32))
	f.Add(5, 64, bytes.Repeat([]byte{3}, 320), int16(0), true)
	f.Add(1, 32, bytes.Repeat([]byte{0x11}, 18), int16(0), false)
	f.Fuzz(func(t *testing.T, m, k int, data []byte, extra int16, codes bool) {
		size, err := p.PackedSize(m, k)
		if err != nil || size > 1<<20 {
			return
		}
		dst := make([]byte, max(0, size+int(extra)))
		if codes {
			err = p.Pack(dst, format.Source{Codes: data, Scales: make([]float32, len(data)/32)}, m, k)
		} else {
			err = p.PackBlocks(dst, "Q4_0", data, m, k)
		}
		if err != nil {
			return
		}
		src, err := p.Unpack(dst)
		if err != nil || codes && !bytes.Equal(src.Codes, data) {
			t.Fatalf("Unpack: %v", err)
		}
	})
}
