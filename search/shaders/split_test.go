package shaders

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/tune"
)

// TestFewRows: the model finds a product of few rows faster if workgroups share its sums, and one of many rows slower. The space has both.
func TestFewRows(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	dot, _ := spirv.ByName("spirv")
	for _, speeds := range spirv.AllSpeeds() {
		target := dot.With(speeds)
		uses, err := Default(t.Context(), p, target)
		if err != nil {
			t.Fatal(err)
		}
		alone := schedule.Unquantized(uses[0].Trace)
		split := append(slices.Clone(alone), schedule.SplitK{Groups: 4})
		sp, err := space.For(p, target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Parse(split); err != nil {
			t.Errorf("%s: %v", speeds.Name, err)
		}
		ratio := func(rows int) float64 {
			var ns [2]float64
			for i, trace := range []schedule.Trace{alone, split} {
				k, err := schedule.Compile(p, trace)
				if err != nil {
					t.Fatal(err)
				}
				s, err := Select(t.Context(), target, k)
				if err != nil {
					t.Fatal(err)
				}
				ns[i] = s.Estimate(tune.Purpose{M: rows, K: 14336, N: 1})
			}
			return ns[1] / ns[0]
		}
		if few, many := ratio(64), ratio(16384); few > 0.9 || many < 1.05 {
			t.Errorf("%s: with shared sums, 64 rows take %.2f times as long, 16384 %.2f times", speeds.Name, few, many)
		}
	}
}

// TestFewRowsInGroups: so it is where groups have scales, whose floats the last workgroup adds in order.
func TestFewRowsInGroups(t *testing.T) {
	p, err := ir.Named("q4_k")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../tests/shaders/testdata/q4_k.split.json")
	if err != nil {
		t.Fatal(err)
	}
	var shared schedule.Trace
	if err := json.Unmarshal(data, &shared); err != nil {
		t.Fatal(err)
	}
	dot, _ := spirv.ByName("spirv")
	for _, speeds := range spirv.AllSpeeds() {
		var kernels [2]*Selected
		for i, trace := range []schedule.Trace{shared[:len(shared)-1], shared} {
			k, err := schedule.Compile(p, trace)
			if err != nil {
				t.Fatal(err)
			}
			if kernels[i], err = Select(t.Context(), dot.With(speeds), k); err != nil {
				t.Fatal(err)
			}
		}
		ratio := func(rows int) float64 {
			x := tune.Purpose{M: rows, K: 14336, N: 1}
			return kernels[1].Estimate(x) / kernels[0].Estimate(x)
		}
		if few, many := ratio(64), ratio(16384); few > 0.9 || many < 1.05 {
			t.Errorf("%s: with shared sums, 64 rows take %.2f times as long, 16384 %.2f times", speeds.Name, few, many)
		}
	}
}
