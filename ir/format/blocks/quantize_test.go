package blocks

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// quantizedRow is a row as it is after a Quantizer, and its blocks.
func quantizedRow(t testing.TB, typeName string, x []float32) (got []float32, data []byte) {
	t.Helper()
	q, err := NewQuantizer(typeName)
	if err != nil {
		t.Fatal(err)
	}
	size, err := q.b.Size(1, len(x))
	if err != nil {
		t.Fatal(err)
	}
	data, got = make([]byte, size), make([]float32, len(x))
	if err := q.Row(data, x); err != nil {
		t.Fatal(err)
	}
	w, src, err := Read(typeName, data, 1, len(x))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Dequantize(got, src); err != nil {
		t.Fatal(err)
	}
	return got, data
}

// TestQuantizer: what is read back is near: within half a step of Q8_0 for each value, and of Q6_K within a part of the largest of each group and,
// as it searches scales, with a small error in the mean.
func TestQuantizer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 5))
	for _, c := range []struct {
		typ         string
		group       int
		most, total float64 // errors: of a value, in largest of its group; mean square, in mean square of values
	}{{"Q8_0", 32, 0.5/127 + 1e-3, 3e-5}, {"Q6_K", 16, 1. / 16, 8e-4}} {
		for _, deviation := range []float64{0.02, 1, 300} {
			x := make([]float32, 4096)
			for i := range x {
				x[i] = float32(rnd.NormFloat64() * deviation)
			}
			got, _ := quantizedRow(t, c.typ, x)
			var errors, squares float64
			for i := range x {
				scale := math.Abs(float64(largest(x[i/c.group*c.group:][:c.group])))
				e := float64(got[i]) - float64(x[i])
				if math.Abs(e) > c.most*scale {
					t.Fatalf("%s: element %d of %v is %v, and the largest near it %v", c.typ, i, x[i], got[i], scale)
				}
				errors, squares = errors+e*e, squares+float64(x[i])*float64(x[i])
			}
			if errors > c.total*squares {
				t.Errorf("%s, deviation %v: mean square of errors is %v of that of values, want %v at most", c.typ, deviation, errors/squares, c.total)
			}
		}
	}
}

// TestQuantizerGrid: rows that a type holds exactly come back as they were, with scales of either sign, and so do zeros.
func TestQuantizerGrid(t *testing.T) {
	for _, c := range []struct {
		typ   string
		value func(i int) float32
	}{
		{"Q8_0", func(i int) float32 { return float32(i%32*8-127+i%32/16) / 128 }},
		{"Q6_K", func(i int) float32 { return float32(i%16*4-32) / 8 * float32(1+i/16) }},
		{"Q8_0", func(int) float32 { return 0 }},
		{"Q6_K", func(int) float32 { return 0 }},
	} {
		x := make([]float32, 256)
		for i := range x {
			x[i] = c.value(i)
		}
		got, _ := quantizedRow(t, c.typ, x)
		for i := range x {
			if math.Abs(float64(got[i]-x[i])) > math.Abs(float64(x[i]))*4e-3 {
				t.Errorf("%s: element %d of %v is %v", c.typ, i, x[i], got[i])
			}
		}
	}
}

// TestQuantizerBytes: the blocks are the same on every CPU, also where it multiplies and adds at once. search/measure/ggml compares them with ggml's.
func TestQuantizerBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 19))
	x := make([]float32, 1<<16)
	for i := range x {
		x[i] = float32(rnd.IntN(1<<23)-1<<22) / float32(int(1)<<rnd.IntN(28))
	}
	for typ, want := range map[string]uint32{"Q8_0": 0x4c1272f, "Q6_K": 0x17da949} {
		if _, data := quantizedRow(t, typ, x); crc32.ChecksumIEEE(data) != want {
			t.Errorf("%s: other blocks, of CRC-32 %#x", typ, crc32.ChecksumIEEE(data))
		}
	}
}

// What cannot be quantized is an error that says what and where.
func TestQuantizerRefuses(t *testing.T) {
	if _, err := NewQuantizer("Q4_0"); err == nil || !strings.Contains(err.Error(), "type Q4_0: is not one that floats can be quantized to; there are Q8_0 Q6_K") {
		t.Error(err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, typ := range Quantized() {
		q, err := NewQuantizer(typ)
		if err != nil {
			t.Fatal(err)
		}
		size, _ := q.b.Size(1, 512)
		for _, c := range []struct {
			size int
			n    int
			v    float32 // of element 300
			want string
		}{
			{size, 512, nan, "element 300 is NaN"},
			{size, 512, inf, "element 300 is -Inf"},
			{size, 512, 1e12, "too large for " + typ},
			{size, 512, -math.MaxFloat32, "too large for " + typ},
			{size - 1, 512, 1, "a row of 512 columns has"},
			{size, 510, 1, "not whole blocks"},
		} {
			x := make([]float32, c.n)
			x[300] = c.v
			if err := q.Row(make([]byte, c.size), x); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", typ, err, c.want)
			}
		}
	}
}

func BenchmarkQuantizer(b *testing.B) {
	x := make([]float32, 4096)
	rnd := rand.New(rand.NewPCG(3, 5))
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
	for _, typ := range Quantized() {
		q, err := NewQuantizer(typ)
		if err != nil {
			b.Fatal(err)
		}
		size, _ := q.b.Size(1, len(x))
		to := make([]byte, size)
		b.Run(typ, func(b *testing.B) {
			for b.Loop() {
				if err := q.Row(to, x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/weight")
		})
	}
}
