package cost_test

import (
	"encoding/json"
	"testing"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
)

// Lines are counted once for accesses of an iteration that share them, and again each time that a loop comes back.
func TestLines(t *testing.T) {
	o := *operator.Find("matmul_f32_2")
	for text, want := range map[string]float64{ // of a panel of 64 rows of 128 bytes each
		`[{"bind":{"loop":"acc.j","to":"vector"}},{"reorder":{"order":["acc.r","acc.k","acc.j"]}}]`:                                                                                          2 * 64 * 2,
		`[{"bind":{"loop":"acc.r","to":"unrolled"}},{"bind":{"loop":"acc.j","to":"vector"}},{"reorder":{"order":["acc.k","acc.r","acc.j"]}}]`:                                                64 * 2,
		`[{"bind":{"loop":"acc.r","to":"unrolled"}},{"split":{"loop":"acc.j","by":8,"into":["o","v"]}},{"bind":{"loop":"v","to":"vector"}},{"reorder":{"order":["o","acc.k","acc.r","v"]}}]`: 64 * 4,
	} {
		var trace schedule.Trace
		if err := json.Unmarshal([]byte(text), &trace); err != nil {
			t.Fatal(err)
		}
		k, err := schedule.CompileOperator(o, trace)
		if err != nil {
			t.Fatal(err)
		}
		f, err := lower.Vectorize(k.Nest, "matmul")
		if err != nil {
			t.Fatal(err)
		}
		s, err := lower.Select(t.Context(), targets.ByName("amd64/avx2"), f)
		if err != nil {
			t.Fatal(err)
		}
		trips := func(count vir.Extent, _ bool) float64 {
			if count.Param < 0 {
				return float64(count.Const)
			}
			return 64
		}
		if have := cost.Lines(s, trips, func(param string) bool { return param == "b" }); have != want {
			t.Errorf("%s: %v lines, want %v", text, have, want)
		}
	}
}
