package space

import (
	"context"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
)

// TestTiles: the space of cooperative matrices has a first point and samples of formats with and without groups, which Parse finds again, and
// most of them have code.
func TestTiles(t *testing.T) {
	target, _ := spirv.ByName("spirv/coop")
	rng := rand.New(rand.NewSource(1))
	coded, samples := 0, 0
	for _, name := range []string{"w1", "w4", "w4-g128", "w4-g32", "q6_k"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		sp, err := ForTiles(p, target, 32, [][3]int{{16, 16, 32}})
		if err != nil {
			t.Fatal(err)
		}
		first, err := sp.First()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(first.Trace().String(), "tensorize d tile i j 32") {
			t.Errorf("%s: the first point has no matrices: %v", name, first.Trace())
		}
		for range 3 {
			x, err := sp.Sample(rng)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if y, err := sp.Parse(x.Trace()); err != nil || y.Trace().String() != x.Trace().String() {
				t.Errorf("%s: %v is parsed as %v, %v", name, x.Trace(), y.Trace(), err)
			}
			samples++
			k, err := sp.Kernel(x)
			if err != nil {
				continue
			}
			if f, err := lower.Vectorize(k.Nest, "f"); err == nil {
				if _, err := lower.SelectShort(context.Background(), target, f, 1<<14); err == nil {
					coded++
				}
			}
		}
	}
	if 2*coded < samples {
		t.Errorf("%d of %d samples have code", coded, samples)
	}
	dot, _ := spirv.ByName("spirv/dot")
	p, _ := ir.Named("w4")
	if _, err := ForTiles(p, dot, 32, [][3]int{{16, 16, 32}}); err == nil || !strings.Contains(err.Error(), "spirv/dot has no products of matrices of the shapes [[16 16 32]]") {
		t.Error(err)
	}
}
