package shaders

import (
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/build"
	search "github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestTogether: by the speeds of a device with cooperative matrices, products have a kernel for one column and one by matrices, which read one packed
// matrix. TestTileProducts compares such kernels with the definition.
func TestTogether(t *testing.T) {
	target, _ := spirv.ByName("spirv/coop")
	speeds := target.Speeds()
	speeds.Shapes, speeds.Subgroup, speeds.Matrices = [][3]int{{8, 8, 8}}, 8, 10
	target = target.With(speeds)
	for _, name := range drawn.Some(drawn.New(t), 6, []string{"w1", "w2", "w4", "w4-g32", "w4-g128", "q4_0"}) {
		t.Run(name, func(t *testing.T) {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			uses, err := search.Default(t.Context(), p, target)
			if err != nil {
				t.Fatal(err)
			}
			v, err := build.Shaders(t.Context(), p, target, uses, spirv.Controls{Subgroup: 8})
			if err == nil {
				_, err = v.Spec(p)
			}
			if err != nil {
				t.Fatal(err)
			}
			first, last := v.Kernels[0].Schedule, v.Kernels[len(v.Kernels)-1].Schedule
			if first.Cols != 1 || last.Nest.Holders == 0 {
				t.Fatalf("kernels of %d to %d columns, the last without matrices", first.Cols, last.Cols)
			}
		})
	}
}
