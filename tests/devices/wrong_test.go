package devices

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/shaders"
)

// TestWrongShader: of a product with a shader that is wrong on the device, only that one is left out, and it is said which. A product whose shaders all are wrong is an error.
func TestWrongShader(t *testing.T) {
	lab, err := shaders.Open(t.Context(), "", nil)
	if err != nil {
		t.Skip(err)
	}
	defer lab.Close()
	target, _ := spirv.ByName("spirv")
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	uses, err := shaders.Default(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	uses = uses[:min(2, len(uses))]
	compiled := func(p ir.Problem) *shaders.Product {
		v, err := lab.Compile(t.Context(), p, target, uses...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Spec(p); err != nil { // which sorts kernels
			t.Fatal(err)
		}
		return v
	}
	v, other := compiled(p), p // whose levels are others
	other.Weight.Name, other.Weight.Levels = "mine", nil
	for _, x := range p.Weight.Levels {
		other.Weight.Levels = append(other.Weight.Levels, x+1)
	}
	wrong := compiled(other)
	if len(v.Kernels) < 2 {
		t.Fatalf("%d kernels", len(v.Kernels))
	}
	n := len(v.Kernels) - 1
	v.Kernels[n].Shaders = wrong.Kernels[n].Shaders
	columns := v.Kernels[n].Schedule.Cols
	left, err := lab.Verify(t.Context(), p, v)
	if err != nil || len(left) != 1 || left[0].Columns != columns || !shaders.IsFault(left[0].Why) || len(v.Kernels) != n {
		t.Fatalf("left out %v, %v, and kept %d of %d", left, err, len(v.Kernels), n+1)
	}
	if said := (kernels.NotUsed{Problem: p, Columns: columns, Why: left[0].Why}).String(); !strings.HasPrefix(said, "w2 does without its shader of ") || !strings.Contains(said, " is wrong: ") {
		t.Error(said)
	}
	if err := lab.Test(t.Context(), p, v); err != nil {
		t.Error(err)
	}
	if left, err := lab.Verify(t.Context(), p, wrong); !shaders.IsFault(err) || len(left) > 0 || len(wrong.Kernels) != n+1 {
		t.Errorf("shaders of another format: left out %v, %v", left, err)
	}
}
