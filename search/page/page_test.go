package page

import (
	"encoding/json"
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
			Purposes: []tune.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}, CPU: "a <processor>", Compiler: "v1.2.3", Ended: "time", Dropped: map[string]int{"wrong & slow": 2}},
		Trials: []tune.Trial{
			{Genes: []tune.Gene{{Trace: table}}, Error: "crashed SIGILL"},
			{Genes: []tune.Gene{{Trace: table}}, Cost: 1.5, Ns: []float64{300}, Ratios: []float64{1.5}},
			{Genes: []tune.Gene{{Trace: trace}}, Cost: 0.8, Ns: []float64{200}, Ratios: []float64{0.8}},
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
		"<b>0.800</b>", "3 candidates", "ended by time", "a &lt;processor&gt;", "2026-11-27", "v1.2.3", "<svg", "</svg>",
		"81.9", // products in a nanosecond: 64 * 256 / 200
		"20.5", // bytes in a nanosecond: a fourth of that
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
	if err != nil || !strings.Contains(string(data), "The stages are left out: mine") || strings.Contains(string(data), "nest matmul(") {
		t.Errorf("%v", err)
	}
	s.Trials = s.Trials[:1]
	if _, err := HTML(t.Context(), s); err == nil || !strings.Contains(err.Error(), "has measured nothing") {
		t.Error(err)
	}
}
