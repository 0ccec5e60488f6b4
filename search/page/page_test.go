package page

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// searched is a search of three candidates, and one of them failed.
func searched(t *testing.T) Search {
	t.Helper()
	data, err := os.ReadFile("../explore/testdata/w2.json")
	var trace schedule.Trace
	if err == nil {
		err = json.Unmarshal(data, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	table := schedule.Trace{schedule.Decompose{Family: "table", Value: "bits", Parts: []int{4}}}
	return Search{
		Run: tune.Run{ID: "0123456789abcdef", Start: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), Product: "w2", Target: "amd64/avx2",
			Purposes: []tune.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}, Ceilings: []tune.Ceilings{{ReadGBS: 123.4, DotGMACS: 567.8, ClockGHz: 3}}, Usual: []schedule.Trace{trace}, CPU: "a <processor>", Compiler: "v1.2.3", Ended: "time", Dropped: map[string]int{"wrong & slow": 2}},
		Trials: []tune.Trial{
			{Genes: []tune.Gene{{Trace: table}}, Error: "crashed SIGILL"},
			{Genes: []tune.Gene{{Trace: table}}, Cost: 1.5, Ns: []float64{300}, Ratios: []float64{1.5}, Estimate: 0.9, Predicted: 1.4},
			{Genes: []tune.Gene{{Trace: trace}}, Cost: 0.8, Ns: []float64{200}, Ratios: []float64{0.8}, Low: []float64{0.77}, High: []float64{0.82}, Estimate: 1.1, Predicted: 0.7},
		},
		Problem: &p, Target: targets.ByName("amd64/avx2"),
	}
}

// The page has the best schedule at each stage, names where its figures come from, and needs nothing from anywhere.
func TestPage(t *testing.T) {
	data, err := HTML(t.Context(), searched(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		`takes <b class="ratio good">0.80 ± 0.03</b> of the default's time.`, `<td class="n ratio">1.50</td>`, `<td class="n">0.2</td><td class="n ratio">0.80 ± 0.03</td>`, "3 candidates", "ended by time", "a &lt;processor&gt;", "2026-11-27", "v1.2.3", "<svg", "</svg>",
		"81.9", // products in a nanosecond: 64 * 256 / 200
		"21.1", // bytes in a nanosecond: a fourth of that, and scales
		"l2: a core reads 123 GB/s", "multiplies 568 per ns at most", "of&nbsp;567.8", "of&nbsp;123.4", "the default schedule</text>",
		`the model of the core</td><td class="n">2</td><td class="n">-1.00`, `as corrected by the search</td><td class="n">2</td><td class="n">1.00`, "as predicted</text>",
		"wrong &amp; slow", "nest matmul(", "func matmul(", "VPMADDUBSW", "a tile of 8 rows", "execution units", "data:font/ttf;base64,AAE",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if i, j := strings.Index(text, "<td>dot affine"), strings.Index(text, "<td>table bits"); i < 0 || j < i {
		t.Errorf("families at %d and %d: the best is not first", i, j)
	}
	for _, out := range []string{"src=", "href=", "url(http", "@import", "<script"} {
		if strings.Contains(text, out) {
			t.Errorf("the page has %s", out)
		}
	}
}

// Without the format there are no stages, and without a measurement there is no page.
func TestPageMissing(t *testing.T) {
	s := searched(t)
	s.Problem, s.Product = nil, "mine"
	data, err := HTML(t.Context(), s)
	if err != nil || !strings.Contains(string(data), "The stages are left out: the log does not say what mine is") || strings.Contains(string(data), "nest matmul(") {
		t.Errorf("%v", err)
	}
	for i := range s.Trials {
		s.Trials[i].Estimate, s.Trials[i].Predicted = 0, 0
	}
	data, err = HTML(t.Context(), s)
	if err != nil || !strings.Contains(string(data), "There is no roofline") || !strings.Contains(string(data), "did not record predictions") {
		t.Errorf("%v", err)
	}
	s.Trials[2].Cost = 1.01
	if data, err = HTML(t.Context(), s); err != nil || !strings.Contains(string(data), "No candidate was faster than the default schedule. The best takes <b class=\"ratio\">1.01 ± 0.24</b>") {
		t.Errorf("%v", err)
	}
	s.Trials[2].Cost, s.Trials[2].High = 0.9, []float64{1.02}
	if data, err = HTML(t.Context(), s); err != nil || !strings.Contains(string(data), "takes <b class=\"ratio\">0.90 ± 0.13</b> of the default's time, which is within the noise.") {
		t.Errorf("%v", err)
	}
	s.Trials = s.Trials[:1]
	if _, err := HTML(t.Context(), s); err == nil || !strings.Contains(err.Error(), "has measured nothing") {
		t.Error(err)
	}
}

// Ranks do not depend on the distances of values; equal values share a rank.
func TestRankCorrelation(t *testing.T) {
	for _, x := range []struct {
		as, bs []float64
		want   float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 4000}, 1},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1},
		{[]float64{1, 2, 3}, []float64{2, 2, 2}, 0},
		{[]float64{1, 2, 3, 4}, []float64{1, 3, 2, 4}, 0.8},
		{[]float64{1, 1, 2, 2}, []float64{1, 2, 3, 4}, 0.894427},
	} {
		if have := rankCorrelation(x.as, x.bs); math.Abs(have-x.want) > 1e-6 {
			t.Errorf("%v and %v: %v, want %v", x.as, x.bs, have, x.want)
		}
	}
}
