package runtime

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

func TestMatrix(t *testing.T) {
	p := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4}))
	const m, n, k = 37, 5, 320
	src, x := randomWeights(p.Weight(), m, k, newRand()), testActivations(n, k, newRand())[0]
	want := make([]float32, n*m)
	define(want, p.spec, src, x, m, n, k)
	a, err := p.NewMatrix(src, m, k)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	b, err := p.LoadMatrix(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, x2 := range []*Matrix{a, b} {
		dst := make([]float32, n*m)
		if err := x2.Multiply(dst, x, n, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(dst, want, m); err != nil {
			t.Error(err)
		}
		clear(dst)
		if err := GemmAll(2, x2.Call(dst, mustPrepare(t, p, x, n, k))); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(dst, want, m); err != nil {
			t.Error(err)
		}
		if rows, columns := x2.Shape(); rows != m || columns != k || x2.Product() != p {
			t.Error(rows, columns)
		}
		if testing.CoverMode() == "" && !raceEnabled {
			if got := testing.AllocsPerRun(100, func() { _ = x2.Multiply(dst, x, n, Options{}) }); got != 0 {
				t.Errorf("%v allocations per call", got)
			}
		}
		if err := x2.Multiply(dst, x[1:], n, Options{}); err == nil {
			t.Error("too few activations are taken")
		}
		if err := x2.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.LoadMatrix(path + "x"); err == nil {
		t.Error("no error without a file")
	}
	if _, err := p.NewMatrix(src, m+1, k); err == nil {
		t.Error("too few codes are taken")
	}
}

// What does not fit is refused before memory for so much is asked for: none has it.
func TestMatrixTooLarge(t *testing.T) {
	b, err := blocks.Lookup("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(*fakeSpec(t, b.Weight, 0, 16, 32, []int{1, 4}))
	const m, n, k, huge, tooLarge = 32, 2, 64, math.MaxInt >> 12, math.MaxInt/2 + 1
	data := make([]byte, m*k/32*b.Bytes)
	x, err := p.NewMatrixOfBlocks("Q4_0", data, m, k)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	in, dst := make([]float32, n*k), make([]float32, n*m)
	for want, err := range map[string]error{
		fmt.Sprintf("argument x: has 128 elements; %d rows of 64 have %d", huge, huge*k): x.Multiply(dst, in, huge, Options{}),
		"argument dst: has 63 elements; 2 rows of 32 are needed":                         x.Multiply(dst[1:], in, n, Options{}),
		"argument n: is -1; it must be at least 1":                                       x.Multiply(dst, in, -1, Options{}),
		fmt.Sprintf("argument n: %d rows of 64 activations are too large", tooLarge):     x.Multiply(dst, in, tooLarge, Options{}),
		fmt.Sprintf("argument codes: has 2048 elements; a %d by 64 matrix has", huge):    second(p.NewMatrix(format.Source{Codes: make([]byte, m*k)}, huge, k)),
		fmt.Sprintf("argument data: has 1152 bytes; a Q4_0 matrix of %d rows", huge):     second(p.NewMatrixOfBlocks("Q4_0", data, huge, k)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestTensors(t *testing.T) {
	b, err := blocks.Lookup("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	ts := Tensors{{Name: "blk.0.x", Type: "Q4_0", Product: New(*fakeSpec(t, b.Weight, 0, 16, 32)), M: 32, K: 64, Count: 1}}
	data := make([]byte, 32*2*b.Bytes)
	x, err := ts.New("blk.0.x", data)
	if err != nil {
		t.Fatal(err)
	}
	if m, k := x.Shape(); m != 32 || k != 64 || x.Close() != nil {
		t.Error(m, k)
	}
	zeros := make([]byte, 32*64)
	if x, err = ts.Pack("blk.0.x", format.Source{Codes: zeros, Scales: make([]float32, 32*2)}); err != nil || x.Close() != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"tensor blk.2.x: is not one that this package was compiled for": second(ts.Pack("blk.2.x", format.Source{})),
		"tensor blk.0.x: q4_0: format: argument codes: has":             second(ts.Pack("blk.0.x", format.Source{Codes: zeros[1:]})),
		"tensor blk.1.x: is not one that this package was compiled for": second(ts.New("blk.1.x", data)),
		"tensor blk.0.x: q4_0: blocks: argument data: has":              second(ts.New("blk.0.x", data[1:])),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
