package ops

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMatrix compares products and rows with sums in ascending order, for shapes whose last panel is in part.
func TestMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct{ m, k, n, threads int }{{1, 1, 1, 1}, {32, 5, 3, 2}, {33, 40, 9, 2}, {70, 17, 130, 3}} {
		data := make([]byte, 4*c.m*c.k)
		w, in := make([]float32, c.m*c.k), make([]float32, c.n*c.k)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(w[i]))
		}
		for i := range in {
			in[i] = float32(rng.NormFloat64())
		}
		x, err := NewMatrix(F32, data, c.m, c.k)
		if err != nil {
			t.Fatal(err)
		}
		dst, again, row := make([]float32, c.n*c.m), make([]float32, c.n*c.m), make([]float32, c.k)
		if err := x.Multiply(dst, in, c.n, c.threads); err != nil {
			t.Fatal(err)
		}
		var all Products
		all.Add(x, again)
		all.Add(x, make([]float32, c.n*c.m))
		if err := all.Run(in, c.n, c.threads); err != nil || !slices.Equal(dst, again) {
			t.Fatalf("%v: products of two matrices: %v, or other results", c, err)
		}
		for r := range c.m {
			if err := x.Row(row, r); err != nil {
				t.Fatal(err)
			}
			for j := range c.n {
				sum := float32(0)
				for i := range c.k {
					if row[i] != w[r*c.k+i] {
						t.Fatalf("%v: row %d has %v at %d, want %v", c, r, row[i], i, w[r*c.k+i])
					}
					sum += float32(in[j*c.k+i] * row[i])
				}
				if have := dst[j*c.m+r]; have != sum {
					t.Fatalf("%v: row %d, activations %d: %v, want %v", c, r, j, have, sum)
				}
			}
		}
	}
}

// TestFillPanels: elements of every type stand in their lanes, and what lies behind the last row is 0.
func TestFillPanels(t *testing.T) {
	for e := F32; e <= BF16; e++ {
		const m, k = 70, 9
		data := make([]byte, m*k*e.Bytes())
		for i := range data {
			data[i] = byte(1 + i%255)
		}
		panels := bytes.Repeat([]byte{77}, int(MatrixBytes(e, m, k)))
		if err := FillPanels(panels, e, bytes.NewReader(data), m, k); err != nil {
			t.Fatal(err)
		}
		for i := range len(panels) / e.Bytes() {
			panel, col, row := i/Panel/k, i/Panel%k, i/Panel/k*Panel+i%Panel
			want := make([]byte, e.Bytes())
			if row < m {
				copy(want, data[(row*k+col)*e.Bytes():])
			}
			if have := panels[i*e.Bytes():][:e.Bytes()]; !bytes.Equal(have, want) {
				t.Fatalf("%s: panel %d, column %d, row %d: %x, want %x", e, panel, col, row, have, want)
			}
		}
		if err := FillPanels(panels, e, bytes.NewReader(data[1:]), m, k); err == nil || !strings.Contains(err.Error(), "rows 64 to 69") {
			t.Errorf("%s: %v of data that ends", e, err)
		}
		if _, err := MatrixOf(e, panels[1:], m, k); err == nil {
			t.Errorf("%s: panels of another size", e)
		}
	}
}

func TestMatrixRefuses(t *testing.T) {
	for _, c := range []struct{ bytes, m, k int }{{8, 1, 3}, {8, 0, 2}, {8, 2, -1}, {7, 1, 3}, {0, 1, 0}, {8, math.MaxInt, 2}} {
		if _, err := NewMatrix(F16, make([]byte, c.bytes), c.m, c.k); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	x, err := NewMatrix(F16, make([]byte, 12), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if m, k := x.Shape(); m != 2 || k != 3 {
		t.Errorf("shape %d, %d", m, k)
	}
	if x.Row(make([]float32, 3), 2) == nil || x.Row(make([]float32, 2), 1) == nil || x.Multiply(make([]float32, 2), make([]float32, 2), 1, 1) == nil || x.Multiply(nil, nil, -1, 1) == nil {
		t.Error("no error")
	}
}

func TestElemOf(t *testing.T) {
	for e := F32; e <= BF16; e++ {
		if have, ok := ElemOf(e.String()); !ok || have != e {
			t.Errorf("%s is %v, %v", e, have, ok)
		}
	}
	if _, ok := ElemOf("Q4_0"); ok {
		t.Error("Q4_0 is no float")
	}
}
