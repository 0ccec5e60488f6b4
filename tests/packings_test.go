package tests

import (
	"math/rand"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// packings are ways of published kernels to store indices of tables, as committed traces:
// the bits that a weight takes, and the entries that each part looks up.
var packings = []struct {
	file    string
	bits    float64
	entries []int
}{
	{"tl1", 2, []int{9}},
	{"tl2", 5.0 / 3, []int{14}},
	{"333-ternary", 16.0 / 9, []int{27, 27, 27}},
	{"5trit-sign", 1.6, []int{122}},
	{"332-w2", 2, []int{64, 64, 16}},
	{"g8-mirror", 1, []int{128}},
}

// TestPackings runs each on every target, on inputs of all kinds.
func TestPackings(t *testing.T) {
	for _, c := range packings {
		r := check.ReadReplay(t, filepath.Join("sequences", c.file+".json"))
		for _, target := range native.Targets(t) {
			t.Run(c.file+"/"+target.Machine().Name, func(t *testing.T) {
				k, err := native.Compile(target, r.Problem, r.Trace)
				if err != nil {
					t.Fatal(err)
				}
				var looked []int
				for part := range k.Tables.Parts {
					looked = append(looked, k.Tables.Looked(part))
				}
				if have := k.Weights.Part("codes").CodeBits(); have != c.bits || !slices.Equal(looked, c.entries) {
					t.Errorf("%v bits per weight, %d entries; want %v, %d", have, looked, c.bits, c.entries)
				}
				native.Load(t, target, k)
				for kind := check.Uniform; kind <= check.NotFinite; kind++ {
					rng := rand.New(rand.NewSource(int64(kind)))
					if err := k.Check(check.New(rng, r.Problem, k.Rows+5, 3, 2*k.StepK+61, kind)); err != nil {
						t.Errorf("kind %d: %v", kind, err)
					}
				}
			})
		}
	}
}
