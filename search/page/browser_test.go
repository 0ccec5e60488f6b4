package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/browser"
)

var shots = flag.String("shots", "", "folder that gets pictures of the page as a browser shows it")

// recorded is a search of 80 candidates on a busy machine, of a format in a file: what tmacc log -json has printed after
// tmacc tune -format codebook.json -target avx2 -mode l2,l3 -n 1,4 -trials 80.
func recorded(t *testing.T) (s Search) {
	t.Helper()
	f, err := os.Open("testdata/search.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(text); d.More(); {
		line := struct {
			*tune.Run
			Trial tune.Trial `json:"trial"`
		}{Run: &s.Run}
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		s.Trials = append(s.Trials, line.Trial)
	}
	p, err := s.Definition()
	if err != nil {
		t.Fatal(err)
	}
	s.Problem, s.Target = &p, targets.ByName(s.Run.Target)
	return s
}

// views are a wide and a narrow window, for users of light and of dark pages.
var views = []browser.View{{Width: 1280, Height: 900}, {Width: 1280, Height: 900, Dark: true}, {Width: 420, Height: 900}, {Width: 420, Height: 900, Dark: true}}

// The page of a real search has its sections and no fault in a browser. The same browser finds each fault that is put into the page.
func TestInBrowser(t *testing.T) {
	b := browser.Open(t)
	page, err := HTML(t.Context(), recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "search.html")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(page)
	for _, v := range views {
		seen := b.Look(t, path, v)
		for _, fault := range seen.Faults {
			t.Errorf("%v: %s", v, fault)
		}
		for _, want := range []string{"codebook on amd64/avx2", "What the best schedule reaches", "What the models said", "Families of schedules", "Candidates that were dropped, and why",
			"The best schedule", "nest", "vir", "asm", "packed tile", "where the cycles go"} {
			if !slices.ContainsFunc(seen.Headings, func(h string) bool { return strings.HasPrefix(h, want) }) {
				t.Errorf("%v: no heading %q among %q", v, want, seen.Headings)
			}
		}
		if *shots != "" {
			if err := os.WriteFile(filepath.Join(*shots, strings.ReplaceAll(v.String(), " ", "-")+".png"), seen.Shot, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	strange := recorded(t)
	long := "w<&>" + strings.Repeat("mmmmmmmm", 8)
	strange.Product, strange.CPU, strange.Ended = long, long, long
	strange.Run.Dropped = map[string]int{long: 1e9}
	for i := range strange.Trials {
		if t := &strange.Trials[i]; t.Cost > 0 { // slow and hard to predict
			t.Cost, t.Estimate = 1e5*t.Cost, 1e-5*float64(i)
		}
	}
	odd, err := HTML(t.Context(), strange)
	if err != nil {
		t.Fatal(err)
	}
	write(odd)
	for _, fault := range b.Look(t, path, views[2]).Faults {
		t.Errorf("with long names: %s", fault)
	}
	faults := []struct {
		broken, want string
		view         int // of views
	}{
		{`<div style="width: 500px">wide</div>`, "the page scrolls sideways", 2},
		{`<p style="position: relative; left: -40px">far left</p>`, "text outside the window: far left", 2},
		{`<svg viewBox="0 0 2000 20"><text x="9" y="15">tiny</text></svg>`, "text too small: tiny", 2},
		{`<p style="width: 60px; white-space: nowrap; overflow: hidden">longer than its box</p>`, "text outside its box: longer", 0},
		{`<svg viewBox="0 0 100 20" style="overflow: visible"><text x="90" y="15">beyond</text></svg>`, "text outside its picture: beyond", 0},
		{`<svg viewBox="0 0 100 20"><text x="9" y="15">one</text><text x="12" y="15">two</text></svg>`, "texts overlap: two | one", 0},
		{`<p style="margin: 0">below</p><p style="margin: -1em 0 0">above</p>`, "texts overlap: above | below", 0},
		{`<p style="color: #bbb">pale</p>`, "contrast 1.9: pale", 0},
		{`<p style="color: #333">gloomy</p>`, ": gloomy", 1},
		{`<img src="http://localhost:9/x.png">`, "asks for http://localhost:9/x.png", 0},
		{`<link rel="stylesheet" href="other.css">`, "/other.css", 0},
		{`<script>console.warn("odd")</script>`, "console, warning: [{odd}]", 0},
		{`<script>throw new Error("lost")</script>`, "Error: lost", 0},
	}
	for i, v := range views[:3] {
		broken := page
		for _, x := range faults {
			if x.view == i {
				broken = bytes.Replace(broken, []byte("</body>"), []byte(x.broken+"</body>"), 1)
			}
		}
		write(broken)
		seen := b.Look(t, path, v)
		for _, x := range faults {
			if x.view == i && !slices.ContainsFunc(seen.Faults, func(f string) bool { return strings.Contains(f, x.want) }) {
				t.Errorf("%v, %s: %q, want %q", v, x.broken, seen.Faults, x.want)
			}
		}
	}
}
