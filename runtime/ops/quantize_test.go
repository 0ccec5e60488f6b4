package ops

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuantize: codes are the nearest, ties go to the even one, and numbers that are not finite spoil the scale.
func TestQuantize(t *testing.T) {
	quantized := func(x ...float32) ([]byte, float32) {
		codes := bytes.Repeat([]byte{99}, len(x))
		scale := Quantize(codes, x)
		return codes, scale
	}
	codes, scale := quantized(254, -254, 1, 3, -1, 2.9, 0)
	if want := []byte{127, 129, 0, 2, 0, 1, 0}; scale != 2 || !bytes.Equal(codes, want) {
		t.Errorf("%v times %v, want %v times 2", scale, codes, want)
	}
	for _, x := range []float32{0, float32(math.Copysign(0, -1)), 1e-45, 1.4e-36} {
		if codes, scale := quantized(x, x); scale != 0 || !bytes.Equal(codes, []byte{0, 0}) {
			t.Errorf("of %v: %v times %v", x, scale, codes)
		}
	}
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		if codes, scale := quantized(1, x, 2); scale == scale || !bytes.Equal(codes, []byte{0, 0, 0}) {
			t.Errorf("of %v: %v times %v", x, scale, codes)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []float64{1, 1e-30, 1e-35, 1e37} {
		x := make([]float32, 64)
		for i := range x {
			x[i] = float32(size * rng.NormFloat64())
		}
		codes, scale := quantized(x...)
		for i, v := range x {
			have, most := float64(scale)*float64(int8(codes[i])), 0.5001*float64(scale)
			if off := math.Abs(have - float64(v)); !(off <= most) {
				t.Errorf("%v is %v", v, have)
			}
			if want := int8(math.RoundToEven(float64(v / scale))); int8(codes[i]) != want {
				t.Errorf("%v has the code %d, want %d", v, int8(codes[i]), want)
			}
		}
	}
}

func TestStoreLane(t *testing.T) {
	panel := make([]byte, 3*Panel)
	StoreLane(panel, []byte{1, 2, 255}, 5)
	want := make([]byte, 3*Panel)
	want[5], want[Panel+5], want[2*Panel+5] = 1, 2, 255
	if !bytes.Equal(panel, want) {
		t.Errorf("%v", panel)
	}
	lane := make([]float32, 3)
	if LoadLane(lane, panel, I8, 5); lane[0] != 1 || lane[1] != 2 || lane[2] != -1 {
		t.Errorf("%v", lane)
	}
}
