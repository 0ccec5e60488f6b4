//go:build peer

package ggml

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/measure/library"
)

// TestQuantize: rows of floats become the blocks that ggml_quantize_chunk makes of them.
func TestQuantize(t *testing.T) {
	l := opened(t)
	lib, err := library.Load(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	var quantize func(typ int32, from *float32, to *byte, start, rows, columns int64, importance pointer) uint64
	if err := library.Bind(lib, "ggml_quantize_chunk", &quantize); err != nil {
		t.Fatal(err)
	}
	for _, typ := range blocks.Quantized() {
		id, err := l.typeOf(typ)
		if err != nil {
			t.Fatal(err)
		}
		q, err := blocks.NewQuantizer(typ)
		if err != nil {
			t.Fatal(err)
		}
		b, err := blocks.Lookup(typ)
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range quantizable() {
			size, err := b.Size(1, len(rows.x))
			if err != nil {
				t.Fatal(err)
			}
			got, want := make([]byte, size), make([]byte, size)
			if err := q.Row(got, rows.x); err != nil {
				t.Fatal(err)
			}
			if n := quantize(id, &rows.x[0], &want[0], 0, 1, int64(len(rows.x)), nil); n != uint64(size) {
				t.Fatalf("%s: ggml wrote %d bytes, want %d", typ, n, size)
			}
			for i := 0; i < size; i += b.Bytes {
				if !bytes.Equal(got[i:][:b.Bytes], want[i:][:b.Bytes]) {
					t.Fatalf("%s, %s, block %d of %v:\n%x, ggml has\n%x", typ, rows.what, i/b.Bytes, rows.x[i/b.Bytes*b.Values:][:b.Values], got[i:][:b.Bytes], want[i:][:b.Bytes])
				}
			}
		}
	}
}

type rowOf struct {
	what string
	x    []float32
}

// quantizable are rows: random ones of several magnitudes, of few values with ties, with outliers and with zeros.
func quantizable() []rowOf {
	rnd := rand.New(rand.NewPCG(11, 13))
	rows := []rowOf{{"zeros", make([]float32, 256)}}
	add := func(what string, of func(i int) float64) {
		x := make([]float32, 1<<16)
		for i := range x {
			x[i] = float32(of(i))
		}
		rows = append(rows, rowOf{what, x})
	}
	for _, deviation := range []float64{1e-9, 1e-6, 1e-3, 0.03, 1, 1e4} {
		add("normal", func(int) float64 { return rnd.NormFloat64() * deviation })
	}
	add("ties", func(int) float64 { return float64(rnd.IntN(65)-32) / 4 })
	add("halves", func(int) float64 { return float64(rnd.IntN(509)-254) / 2 })
	add("few", func(int) float64 { return float64(rnd.IntN(3) - 1) })
	add("groups of zeros", func(i int) float64 { return float64(i/16%3%2) * rnd.NormFloat64() })
	add("groups of every size", func(i int) float64 { return math.Exp(10*math.Sin(float64(i/16))) * rnd.NormFloat64() })
	add("outliers", func(i int) float64 { return rnd.NormFloat64() * math.Exp(5*rnd.Float64()*rnd.Float64()) })
	rnd = rand.New(rand.NewPCG(17, 19))
	add("of every exponent, as the test of package blocks has", func(int) float64 { return float64(rnd.IntN(1<<23)-1<<22) / float64(int(1)<<rnd.IntN(28)) })
	return rows
}
