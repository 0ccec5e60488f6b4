package measure

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestAgree: products of rounded activations agree, those with one wrong weight,
// scale or element do not.
func TestAgree(t *testing.T) {
	const m, k, n, group = 96, 512, 3, 32
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	src := w.NewSource(make([]byte, m*k), m, k, func(format.Shared, int) float32 { return 0.5 + rng.Float32() })
	for i := range src.Codes {
		src.Codes[i] = byte(rng.IntN(16))
	}
	x := make([]float32, n*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	ref := NewReference(w, src, x, m, k, n, group, 0)
	product := func(src format.Source, group int) []float32 {
		out := make([]float32, m*n)
		q := rounded(x, span(group, k))
		for i := range out {
			sum := 0.0
			for c := range k {
				sum += float64(src.Value(w, i%m, c, k)) * q[i/m*k+c]
			}
			out[i] = float32(sum)
		}
		return out
	}
	for _, g := range []int{group, 0} {
		relative, err := ref.Agree(product(src, g), g)
		if err != nil || relative < 1e-4 || relative > 2e-2 {
			t.Errorf("groups of %d: error %v, relative %v", g, err, relative)
		}
	}
	if _, err := ref.Agree(product(src, 0), group); err == nil {
		t.Error("one scale per row errs as little as one per 32")
	}
	if _, err := ref.Agree(product(src, 0), 64); err == nil {
		t.Error("a group that the reference is not for")
	}
	for name, spoil := range map[string]func(out []float32) []float32{
		"one element": func(out []float32) []float32 { out[m+5] += 20; return out },
		"NaN":         func(out []float32) []float32 { out[2*m-1] = float32(math.NaN()); return out },
		"all, by 1 %": func(out []float32) []float32 {
			for i := range out {
				out[i] *= 1.01
			}
			return out
		},
		"weights": func([]float32) []float32 {
			other := src
			other.Codes = append([]byte(nil), src.Codes...)
			for r := range m {
				other.Codes[r*k] ^= 8
			}
			return product(other, group)
		},
		"columns swapped": func(out []float32) []float32 {
			for r := range m {
				out[r], out[m+r] = out[m+r], out[r]
			}
			return out
		},
	} {
		var wrong *AgreeError
		if _, err := ref.Agree(spoil(product(src, group)), group); !errors.As(err, &wrong) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// rounded are activations as their int8 and scales say.
func rounded(x []float32, group int) []float64 {
	var out []float64
	for ; len(x) > 0; x = x[group:] {
		largest := 0.0
		for _, v := range x[:group] {
			largest = max(largest, math.Abs(float64(v)))
		}
		for _, v := range x[:group] {
			out = append(out, math.Round(float64(v)*127/largest)*largest/127)
		}
	}
	return out
}
