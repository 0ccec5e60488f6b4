package ranking

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search/cost"
)

// columns is a schedule of w4 for some columns. A kernel of one column reads and unpacks all weights for each activation.
func columns(t *testing.T, cols string) (trace schedule.Trace) {
	t.Helper()
	text := `[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"split":{"loop":"n","by":` + cols + `,"into":["nt","nc"]}},
		{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
		{"split":{"loop":"m","by":32,"into":["mt","mi"]}},{"split":{"loop":"mi","by":16,"into":["r","l"]}},{"bind":{"loop":"mt","to":"outer"}},
		{"bind":{"loop":"r","to":"unrolled"}},{"bind":{"loop":"l","to":"vector"}},{"split":{"loop":"k","by":8,"into":["ks","kk"]}},
		{"split":{"loop":"kk","by":4,"into":["f","j"]}},{"bind":{"loop":"f","to":"unrolled"}},{"tensorize":{"loop":"j","to":"dot4"}},
		{"reorder":{"order":["nt","mt","ks","f","r","nc","l","j"]}},
		{"pack":{"tensor":"codes","order":["mt","ks","r","l","j"],"fields":["f"],"map":"dense"}},{"read_scaled":{"below":4}}]`
	if err := json.Unmarshal([]byte(text), &trace); err != nil {
		t.Fatal(err)
	}
	return trace
}

// pair is a pair of one column and of four, for eight activations: the first takes longer by this ratio.
func pair(t *testing.T, ratio float64) pairs.Pair {
	return pairs.Pair{Core: "golden-cove", Target: "amd64/avx512vbmi", Product: "w4", Mode: "dram", M: 64, N: 8, K: 1024, Ratio: ratio, A: columns(t, "1"), B: columns(t, "4")}
}

// A pair is ranked right whichever schedule comes first, and wrong if the slower one was measured to be faster. Equal schedules count a half,
// and pairs that say nothing do not count.
func TestDecided(t *testing.T) {
	right, swapped, wrong, equal := pair(t, 2), pair(t, 0.5), pair(t, 0.5), pair(t, 2)
	swapped.A, swapped.B = right.B, right.A
	equal.B = equal.A
	near, below, torn, other := pair(t, 1.039), pair(t, 0.962), pair(t, 2), pair(t, 2)
	torn.Least, torn.Most = 0.9, 3
	other.Product, other.Operator = "", operator.All()[0].Name
	all, err := Decided(t.Context(), []pairs.Pair{near, right, below, swapped, torn, wrong, other, equal})
	if err != nil || len(all) != 4 {
		t.Fatalf("%d pairs are decided, %v", len(all), err)
	}
	x := all[0].Log(cost.Fitted)
	for i, want := range []float64{x, x, -x, 0} {
		if got := all[i].Log(cost.Fitted); math.Abs(got-want) > 1e-9 || x < math.Log(1.5) {
			t.Errorf("pair %d: %v, want %v", i, got, want)
		}
	}
	if s := Rank(all, cost.Fitted)[""]; s.Right != 2.5 || s.Of != 4 || math.Abs(s.Clear-2.5) > 1e-6 {
		t.Errorf("%+v", s)
	}
}

// The pairs of a core that is left out count for nothing, and cores count alike, however many pairs each has.
func TestWithout(t *testing.T) {
	right, wrong := pair(t, 2), pair(t, 0.5)
	wrong.Core = "zen4"
	all, err := Decided(t.Context(), []pairs.Pair{right, right, wrong, right})
	if err != nil {
		t.Fatal(err)
	}
	s := Rank(all, cost.Fitted)
	if s[""].Right != 3 || s["golden-cove"].Right != 3 || s["zen4"].Right != 0 || s["zen4"].Of != 1 {
		t.Errorf("%+v", s)
	}
	for core, want := range map[string]float64{"": 0.5, "zen4": 1, "golden-cove": 0} {
		if got := s.Without(core); math.Abs(got-want) > 1e-5 {
			t.Errorf("without %q: %v, want %v", core, got, want)
		}
	}
	if got := (Scores{"": {3, 3, 4}, "a": {1, 1, 2}, "b": {2, 2, 2}}).Without("b"); got != 0.5 {
		t.Errorf("half right: %v", got)
	}
}

// Predictions near zero are no order. A clear one counts more than one that measurements may have by chance.
func TestScore(t *testing.T) {
	s := Score{}.With(1).With(-1).With(0).With(1e-9)
	if s.Right != 2 || s.Of != 4 || math.Abs(s.Clear-2) > 1e-6 {
		t.Errorf("%+v", s)
	}
	if clear, near := (Score{}).With(1).Clear, (Score{}).With(0.01).Clear; clear < 0.99 || near < 0.5 || near > 0.6 {
		t.Errorf("%v and %v", clear, near)
	}
}

// Kernels for the ordinary core of an instruction set are ranked by the core that ran them.
func TestCore(t *testing.T) {
	for _, c := range targets.Cores() {
		p := pair(t, 2)
		if p.Core = c.Name; !strings.HasPrefix(c.ISAs[0], "amd64/avx512") {
			continue
		}
		x, err := New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if x.core.Hierarchy != c.Hierarchy || x.core.Pipeline.Window != c.Pipeline.Window {
			t.Errorf("%s is ranked by the core %s", c.Name, x.core.Name)
		}
	}
	for want, change := range map[string]func(*pairs.Pair){
		`line 7: no target "amd64/mmx"`: func(p *pairs.Pair) { p.Target = "amd64/mmx" },
		`line 7: no core "zen9"`:        func(p *pairs.Pair) { p.Core = "zen9" },
		`line 7: place "l4"`:            func(p *pairs.Pair) { p.Mode = "l4" },
		`line 7: b: `:                   func(p *pairs.Pair) { p.B = p.B[:2] },
		`line 7: product: `:             func(p *pairs.Pair) { p.Product = "w77" },
	} {
		p := pair(t, 2)
		p.Line = 7
		change(&p)
		if _, err := Decided(t.Context(), []pairs.Pair{p}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
