package runtime

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

// TestPackInPieces: what threads pack in pieces is what format.Pack makes of the
// whole, and an error names the row of the matrix.
func TestPackInPieces(t *testing.T) {
	const m, k = 601, 4096 // three pieces, the last tile not whole
	if m*k < 2*pieceBytes {
		t.Fatal("one piece")
	}
	for _, name := range []string{"w4-g32", "w3-tensor", "ternary", "w2-g64-z", "w4-g32-s256-m"} {
		p := New(*fakeSpec(t, name, 0, 16, 256))
		src := randomWeights(p.Weight(), m, k, newRand())
		want, err := format.Pack(p.Weight(), p.layout, m, k, src)
		if err != nil {
			t.Fatal(err)
		}
		size, err := p.PackedSize(m, k)
		if err != nil {
			t.Fatal(err)
		}
		got := bytes.Repeat([]byte{0xa5}, size)
		if err := p.Pack(got, src, m, k); err != nil || !bytes.Equal(got[headerBytes:], want) || p.Verify(got) != nil {
			t.Errorf("%s: packed otherwise in pieces, %v", name, err)
		}
		if len(src.Scales) == 1 {
			continue
		}
		src.Scales[p.Weight().ScaleIndex(577, 0, k)] = float32(math.Inf(1))
		if err := p.Pack(got, src, m, k); err == nil || !strings.Contains(err.Error(), "row 577") {
			t.Errorf("%s: %v; want row 577", name, err)
		}
		if _, _, err := p.Shape(got); err == nil {
			t.Errorf("%s: what could not be packed is taken for a packed matrix", name)
		}
	}
}

// TestPackBlocksInPieces does likewise for blocks, also for blocks of several rows.
func TestPackBlocksInPieces(t *testing.T) {
	const m, k = 600, 4096
	for _, typeName := range []string{"Q4_0", "Q4_K", "I2_S", "I2_S:rows4"} {
		b, err := blocks.Lookup(typeName)
		if err != nil {
			t.Fatal(err)
		}
		size, err := b.Size(m, k)
		if err != nil {
			t.Fatal(err)
		}
		data, rng := make([]byte, size), newRand()
		for i := range data {
			data[i] = byte(rng.UintN(256)) & 0x2a // no forbidden code, no scale that is not finite
		}
		p := New(*fakeSpec(t, b.Weight, 0, 16, 256))
		w, src, err := blocks.Read(typeName, data, m, k)
		if err != nil {
			t.Fatal(err)
		}
		want := mustPack(t, p, src, m, k)
		got := make([]byte, len(want))
		if err := p.PackBlocks(got, typeName, data, m, k); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: packed otherwise in pieces, %v", typeName, err)
		}
		if w.Per == format.PerTensor {
			continue
		}
		row := size / m
		copy(data[599*row:], bytes.Repeat([]byte{0x7c, 0x7c}, row/2)) // infinite scales
		if err := p.PackBlocks(got, typeName, data, m, k); err == nil || !strings.Contains(err.Error(), "row 599, block 0") {
			t.Errorf("%s: %v; want row 599, block 0", typeName, err)
		}
		if err := p.PackBlocks(got, typeName, data[1:], m, k); err == nil || !strings.Contains(err.Error(), "argument data") {
			t.Errorf("%s: %v; want argument data", typeName, err)
		}
	}
}

// TestInParallel: all are called unless one fails; the lowest error counts.
func TestInParallel(t *testing.T) {
	each := func(do func(i int) error) func() (func(i int) error, error) {
		return func() (func(i int) error, error) { return do, nil }
	}
	for n := range 50 {
		var sum atomic.Int64
		if err := inParallel(n, each(func(i int) error { sum.Add(int64(i)); return nil })); err != nil || sum.Load() != int64(n*(n-1)/2) {
			t.Errorf("%d: sum %d, %v", n, sum.Load(), err)
		}
	}
	low, high := errors.New("low"), errors.New("high")
	err := inParallel(1000, each(func(i int) error {
		switch {
		case i == 100:
			return low
		case i > 100:
			return high
		}
		return nil
	}))
	if err != low {
		t.Error(err)
	}
	if err := inParallel(3, func() (func(i int) error, error) { return nil, high }); err != high {
		t.Error(err)
	}
}

// A damaged matrix that names a book that there is not has some product, as other damage has.
func TestDamagedBooks(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 16, 32)
	l := *s.Layouts[0]
	l.Parts = append(slices.Clone(l.Parts), format.Part{Name: format.Books, Elem: format.U8, Base: l.HeaderBytes + l.RecordBytes,
		Digits: []format.Digit{{Axis: "m", Div: 1, Mod: l.TileM, Stride: 1}}})
	l.RecordBytes += l.TileM
	s.Weight, s.Layouts = lookup(t, "cb2x4"), []*format.Layout{&l}
	p := New(*s)
	const m, n, k = 32, 2, 64
	packed := mustPack(t, p, randomWeights(p.Weight(), m, k, newRand()), m, k)
	act := mustPrepare(t, p, testActivations(n, k, newRand())[0], n, k)
	for i := headerBytes; i < len(packed); i++ {
		packed[i] = 0xff
	}
	if err := p.Gemm(make([]float32, n*m), packed, act, 0, m, Options{}); err != nil {
		t.Error(err)
	}
	if p.Verify(packed) == nil {
		t.Error("damage is not found")
	}
}

// A header that differs from an accepted one in any bit is refused by the next call, which
// compares it with that one.
func TestDamagedHeader(t *testing.T) {
	p := New(*fakeSpec(t, "w2-g32", 0, 4, 32, []int{1, 2}))
	for _, c := range [][2]int{{7, 5}, {8, 1}} { // the latter is one call of a kernel
		testDamagedHeader(t, p, c[0], c[1], 64)
	}
}

func testDamagedHeader(t *testing.T, p *Product, m, n, k int) {
	packed := mustPack(t, p, randomWeights(p.Weight(), m, k, newRand()), m, k)
	act := mustPrepare(t, p, testActivations(n, k, newRand())[0], n, k)
	dst := make([]float32, n*m)
	for bit := range 8 * headerBytes {
		for _, b := range [][]byte{packed, act} {
			if err := p.Gemm(dst, packed, act, 0, m, Options{}); err != nil {
				t.Fatal(err)
			}
			b[bit/8] ^= 1 << (bit % 8)
			if p.Gemm(dst, packed, act, 0, m, Options{}) == nil {
				t.Errorf("bit %d: a damaged header is accepted", bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}
