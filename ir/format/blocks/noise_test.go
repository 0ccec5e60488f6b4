package blocks

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestNoise: rows of every type with a scale in each block have the deviation that was asked for, and mean 0.
func TestNoise(t *testing.T) {
	const rows, deviation = 200, 1. / 45
	for _, name := range Types() {
		n, err := NewNoise(rand.New(rand.NewPCG(1, 2)), name, deviation)
		b, _ := Lookup(name)
		if b.weight().Per != format.PerGroup {
			if err == nil {
				t.Errorf("%s has no scale in its blocks but makes rows", name)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		k := 8 * b.Values
		data := make([]byte, rows*8*b.Bytes)
		rng := rand.NewPCG(3, 4)
		for r := range rows {
			n.Row(rng, data[r*8*b.Bytes:][:8*b.Bytes])
		}
		w, src, err := Read(name, data, rows, k)
		if err != nil {
			t.Fatal(err)
		}
		sum, squares, least, most := 0.0, 0.0, math.Inf(1), 0.0
		for r := range rows {
			row := 0.0
			for j := range k {
				v := float64(src.Value(w, r, j, k))
				sum += v
				row += v * v
			}
			squares += row
			least, most = min(least, math.Sqrt(row/float64(k))), max(most, math.Sqrt(row/float64(k)))
		}
		count := float64(rows * k)
		got, mean := math.Sqrt(squares/count), sum/count
		near := 0.15
		if name == "MXFP4" {
			near = 0.5 // its scales are powers of two
		}
		if math.Abs(got/deviation-1) > near || math.Abs(mean) > deviation/5 {
			t.Errorf("%s: mean %.4f, deviation %.4f; want 0 and %.4f", name, mean, got, deviation)
		}
		if least > 0.95*most {
			t.Errorf("%s: rows have the deviations %.4f to %.4f; they should differ", name, least, most)
		}
	}
}

// TestNoiseAgain: the same seeds make the same rows, others make other rows.
func TestNoiseAgain(t *testing.T) {
	row := func(seed, of uint64) []byte {
		n, err := NewNoise(rand.New(rand.NewPCG(seed, 0)), "Q4_0", 0.02)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 18*64)
		n.Row(rand.NewPCG(of, 0), dst)
		return dst
	}
	if !bytes.Equal(row(1, 1), row(1, 1)) || bytes.Equal(row(1, 1), row(1, 2)) || bytes.Equal(row(1, 1), row(2, 1)) {
		t.Error("rows do not follow from their seeds")
	}
}

func BenchmarkNoise(b *testing.B) {
	for _, name := range []string{"Q4_0", "TQ2_0", "Q4_K", "Q6_K"} {
		b.Run(name, func(b *testing.B) {
			n, err := NewNoise(rand.New(rand.NewPCG(1, 1)), name, 0.02)
			if err != nil {
				b.Fatal(err)
			}
			dst, rng := make([]byte, n.b.Bytes*8192/n.b.Values), rand.NewPCG(1, 1)
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				n.Row(rng, dst)
			}
		})
	}
}
