package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// scaled is a file with a stack of three matrices "x_exps.weight" of the given type and its scales.
func scaled(t *testing.T, typ uint32, size int, scales ...float32) *File {
	t.Helper()
	values, _, _ := Type(typ).Block()
	b := ggufgen.Header(2, 0).Tensor("x_exps.weight", typ, 0, uint64(values), 2, 3).Tensor("x_exps.scale", 0, uint64(size+31)&^31, uint64(len(scales)))
	f, err := Read(b.Pad(0).Add(make([]byte, size)).Pad(0).Add(scales).Pad(0).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestScales(t *testing.T) {
	for _, c := range []struct {
		scales, want []float32
	}{
		{[]float32{0.375}, []float32{0.375, 0.375, 0.375}},
		{[]float32{0.375, -2, math.MaxFloat32}, []float32{0.375, -2, math.MaxFloat32}},
		{[]float32{math.SmallestNonzeroFloat32}, slices.Repeat([]float32{math.SmallestNonzeroFloat32}, 3)},
	} {
		for typ, size := range map[uint32]int{40: 6 * 36, 2: 6 * 18, 0: 6 * 4} { // NVFP4, Q4_0, F32
			f := scaled(t, typ, size, c.scales...)
			if got, err := f.Scales("x_exps.weight"); !slices.Equal(got, c.want) || err != nil {
				t.Errorf("%v: %v, %v; want %v", c.scales, got, err, c.want)
			}
			if f.ScaleTensor("x_exps.weight") != f.Tensor("x_exps.scale") || f.Tensor("x_exps.scale") == nil {
				t.Error(f.ScaleTensor("x_exps.weight"))
			}
		}
	}
}

// A matrix without scales has none; neither has a tensor that is not called a weight.
func TestNoScales(t *testing.T) {
	f := scaled(t, 40, 6*36, 1)
	for _, name := range []string{"x.weight", "x_exps", "x_exps.scale", "x_exps.scale.weight", ""} {
		if got, err := f.Scales(name); got != nil || err != nil || f.ScaleTensor(name) != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
}

func TestScaleRefusals(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct {
		scales []float32
		want   string
	}{
		{[]float32{1, 2}, `tensor "x_exps.scale": has 2 values of F32; tensor "x_exps.weight" of 3 matrices takes 1 or 3 of F32`},
		{[]float32{1, 2, 3, 4}, `has 4 values of F32`},
		{[]float32{0}, `value 0 is 0: a scale is finite and not 0`},
		{[]float32{1, 2, inf}, `value 2 is -Inf: a scale is finite and not 0`},
		{[]float32{1, nan, 2}, `value 1 is NaN: a scale is finite and not 0`},
	} {
		_, err := scaled(t, 40, 6*36, c.scales...).Scales("x_exps.weight")
		wantError(t, err, c.want)
	}
	half, err := Read(ggufgen.Header(2, 0).Tensor("x.weight", 0, 0, 1, 1).Tensor("x.scale", 1, 32, 1).Pad(34).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = half.Scales("x.weight")
	wantError(t, err, `tensor "x.scale": has 1 values of F16; tensor "x.weight" of 1 matrices takes 1 or 1 of F32`)
	bad, err := Read(ggufgen.Header(2, 0).Tensor("x.weight", 2, 0, 33, 1).Tensor("x.scale", 0, 32, 1).Pad(36).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = bad.Scales("x.weight")
	wantError(t, err, `tensor "x.weight": rows of 33 values are not whole Q4_0 blocks of 32`)
	orphan, err := Read(ggufgen.Header(1, 0).Tensor("x.scale", 0, 0, 1).Pad(4).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = orphan.Scales("x.weight")
	wantError(t, err, `tensor "x.weight": is not in the file, which has tensor "x.scale" for it`)
}

// One value for a stack takes memory for each matrix, which a tensor of unknown type could claim without having them.
func TestScalesOfClaims(t *testing.T) {
	for matrices, fits := range map[uint64]bool{32: true, 33: false, 1 << 30: false} {
		b := ggufgen.Header(2, 0).Tensor("x.weight", 99, 0, 1, 1, matrices).Tensor("x.scale", 0, 32, 1).Pad(32)
		if err := binary.Write(&b.Buffer, binary.LittleEndian, float32(2)); err != nil {
			t.Fatal(err)
		}
		f, err := Read(bytes.Clone(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Scales("x.weight")
		if fits && (len(got) != int(matrices) || err != nil) {
			t.Errorf("%d matrices: %d scales, %v", matrices, len(got), err)
		}
		if !fits {
			wantError(t, err, "matrices in 32 bytes")
		}
	}
}

// A tensor without values is a stack of no matrices, whatever its other extents are.
func TestScalesOfNothing(t *testing.T) {
	for _, shape := range [][]uint64{{0, 1, 1 << 62, 2}, {0, 1, 1 << 32, 1 << 32}, {1 << 62, 2, 0, 2}} {
		b := ggufgen.Header(2, 0).Tensor("x.weight", 0, 0, shape...).Tensor("x.scale", 0, 0, 1)
		if err := binary.Write(&b.Pad(0).Buffer, binary.LittleEndian, float32(2)); err != nil {
			t.Fatal(err)
		}
		f, err := Read(bytes.Clone(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Scales("x.weight")
		if f.Tensor("x.weight").Err != nil { // where an int has 32 bits
			wantError(t, err, "is too large")
		} else if f.Tensor("x.weight").Matrices() != 0 || len(s) != 0 || err != nil {
			t.Errorf("%v: %d matrices, %d scales, %v", shape, f.Tensor("x.weight").Matrices(), len(s), err)
		}
	}
}
