package runtime

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// residualSpec has kernels of 1 and 3 columns that check what they are given: tables of two bytes for an
// activation (both its magnitude, at most 100) and residuals (the rest), listed by steps of 16.
func residualSpec(t *testing.T, x [][]int8) *Spec {
	s := fakeSpec(t, "w1", 0, 8, 64, []int{1, 3})
	s.Layouts[0] = testLayout(t, s.Weight, 8, 16)
	v := &s.Variants[0]
	for i := range v.Kernels {
		k := &v.Kernels[i]
		k.StepK, k.Chunk, k.Tables, k.SumBy = 16, 8, true, 1
		k.Fn = func(a *abi.GemmArgs) { checkResiduals(t, k, a, x) }
	}
	v.Prepare = &abi.Prepare{Name: "prep", Pads: []int{8, 24}, CountDiv: []int{8, 24}, Residuals: 1, Tables: abi.Tables{K: 8, Bytes: unitBytes, ID: "magnitudes", Residual: true}}
	v.Prepare.Fn = func(a *abi.PrepareArgs) {
		n := 8 * int(a.Count[0])
		codes, table, pair, excess := unsafe.Slice((*byte)(a.Act), n), unsafe.Slice((*byte)(a.Table), 2*n), unsafe.Slice((*byte)(a.Pair), n), unsafe.Slice((*byte)(a.Excess), n/8)
		clear(excess)
		offset := int32(0)
		if n > 0 {
			quantize(codes, unsafe.Slice((*int32)(a.Sums), 1), unsafe.Slice((*uint32)(a.ActScale), 1), unsafe.Slice((*float32)(a.X), n), 0, 0)
		} else {
			*(*int32)(a.Sums), *(*uint32)(a.ActScale) = -1, 1
		}
		for i, c := range codes {
			m := byte(max(int8(c), -int8(c)))
			table[2*i], table[2*i+1], pair[i] = min(m, 100), min(m, 100), m
			excess[i/8], offset = max(excess[i/8], max(m, 100)-100), offset+int32(m)
		}
		*(*int32)(a.Offsets) = offset
		if a.Count[1] == 0 {
			return
		}
		n = 24 * int(a.Count[1])
		pair = unsafe.Slice((*byte)(a.Pair), n)
		for i, m := range pair {
			copy(unsafe.Slice((*byte)(a.Residual), 2*n)[2*i:], []byte{max(m, 100) - 100, max(m, 100) - 100})
		}
	}
	return s
}

// checkResiduals compares tables, residuals, offsets and the list of a block with the activations
// of the first rows, whose codes are x.
func checkResiduals(t *testing.T, k *abi.Kernel, a *abi.GemmArgs, x [][]int8) {
	steps, listed := int(a.Count), []uint32{}
	for i := range int(a.ListCount) {
		listed = append(listed, *at[uint32](a.List, 4*i))
	}
	var want []uint32
	for step := range steps {
		some := false
		for c := range min(k.Cols, len(x)) {
			for e := step * 16; e < min(step*16+16, len(x[c])); e++ {
				m := max(x[c][e], -x[c][e])
				place := e/8*16*k.Cols + c*16 + e%8*2 + 1
				some = some || m > 100
				if have := *at[byte](a.Act, place); have != byte(min(m, 100)) {
					t.Fatalf("column %d: entry %d is %d, want %d", c, e, have, min(m, 100))
				}
				if have := *at[byte](a.Residual, place); slices.Contains(listed, uint32(step)) && have != byte(max(m, 100)-100) {
					t.Fatalf("column %d: residual %d is %d, want %d", c, e, have, max(m, 100)-100)
				}
			}
		}
		if some {
			want = append(want, uint32(step))
		}
	}
	if !slices.Equal(listed, want) {
		t.Fatalf("%d columns: listed %v, want %v", k.Cols, listed, want)
	}
	for c := range min(k.Cols, len(x)) {
		sum := int32(0)
		for _, v := range x[c] {
			sum += int32(max(v, -v))
		}
		if have := *at[int32](a.Offsets, 4*c); have != sum {
			t.Fatalf("column %d: offset %d, want %d", c, have, sum)
		}
	}
}

// Kernels get the residuals of a block, and a list of exactly those steps along K that have any in
// some row; a list that leads behind the end is an error.
func TestResiduals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ n, k, large int }{{1, 64, 0}, {1, 67, 1}, {1, 300, 20}, {1, 256, 20}, {2, 300, 1}, {3, 77, 3}, {3, 512, 500}, {3, 40, 0}} {
		x, codes := make([]float32, c.n*c.k), make([][]int8, c.n)
		for i := range x {
			x[i] = float32(rng.IntN(181) - 90)
		}
		for j := range c.n { // each row has 127, which sets its scale
			x[j*c.k+rng.IntN(c.k)] = 127
		}
		for range c.large {
			x[rng.IntN(len(x))] = -127
		}
		for j := range codes {
			for _, v := range x[j*c.k:][:c.k] {
				codes[j] = append(codes[j], int8(v))
			}
		}
		s := residualSpec(t, codes)
		p := newProduct(*s, 0, "a test", cpu.Mask{})
		size, err := p.ActSize(c.n, c.k)
		if err != nil {
			t.Fatal(err)
		}
		act := make([]byte, size)
		for i := range act {
			act[i] = 0xa5
		}
		if err := p.PrepareAct(act, x, c.n, c.k); err != nil {
			t.Fatal(err)
		}
		bytes, err := p.PackedSize(8, c.k)
		if err != nil {
			t.Fatal(err)
		}
		packed := make([]byte, bytes)
		if err := p.Pack(packed, randomWeights(s.Weight, 8, c.k, rng), 8, c.k); err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, 8*c.n)
		for range 2 { // the second time it is known what that comes to
			if err := p.Gemm(dst, packed, act, 0, 8, Options{}); err != nil {
				t.Fatal(err)
			}
		}
		first := p.cut.shape(c.n, c.k)
		b, _, offset := first.at(0)
		list := act[headerBytes+offset+b.list:]
		binary.LittleEndian.PutUint32(list, 1)
		binary.LittleEndian.PutUint32(list[4:], uint32(b.steps))
		var fault *Error
		if err := p.Gemm(dst, packed, act, 0, 8, Options{}); !errors.As(err, &fault) || fault.Thing != "argument act" {
			t.Errorf("a damaged list: %v", err)
		}
		binary.LittleEndian.PutUint32(list, uint32(b.steps+1))
		if err := p.Gemm(dst, packed, act, 0, 8, Options{}); !errors.As(err, &fault) {
			t.Errorf("too long a list: %v", err)
		}
	}
}
