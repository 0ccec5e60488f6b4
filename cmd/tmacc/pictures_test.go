package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// svg is what a picture draws: paths, by their styles, and texts.
type svg struct {
	paths []svgPath
	texts []string
}

type svgPath struct {
	style  string
	points plotter.XYs // ends of its lines
}

var vertex = regexp.MustCompile(`[ML]([-0-9.e]+),([-0-9.e]+)`)

func parseSVG(t *testing.T, data []byte) (out svg) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(data))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			var p svgPath
			for _, a := range x.Attr {
				switch a.Name.Local {
				case "style":
					p.style = a.Value
				case "d":
					for _, m := range vertex.FindAllStringSubmatch(a.Value, -1) {
						x, _ := strconv.ParseFloat(m[1], 64)
						y, _ := strconv.ParseFloat(m[2], 64)
						p.points = append(p.points, plotter.XY{X: x, Y: y})
					}
				}
			}
			if x.Name.Local == "path" {
				out.paths = append(out.paths, p)
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				out.texts = append(out.texts, text)
			}
		}
	}
}

// holds reports a missing text.
func (s *svg) holds(t *testing.T, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if all := strings.Join(s.texts, "\n"); !strings.Contains(all, want) {
			t.Errorf("no text %q in\n%s", want, all)
		}
	}
}

// isLine says that points lie where an axis each puts the corners: the first and the last tell
// how the axes run.
func isLine(got, want plotter.XYs) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d corners, want %d", len(got), len(want))
	}
	axis := func(a, b, x, pa, pb float64) float64 { return pa + (x-a)/(b-a)*(pb-pa) }
	first, last := 0, len(want)-1
	for i, w := range want {
		x := axis(want[first].X, want[last].X, w.X, got[first].X, got[last].X)
		y := axis(want[first].Y, want[last].Y, w.Y, got[first].Y, got[last].Y)
		if math.Abs(x-got[i].X) > 0.1 || math.Abs(y-got[i].Y) > 0.1 {
			return fmt.Errorf("corner %d at %v, want %.2f %.2f", i, got[i], x, y)
		}
	}
	return nil
}

// corners are those of stairs through points: before each but the first, on the level before it.
func corners(points plotter.XYs) (out plotter.XYs) {
	for i, p := range points {
		if i > 0 {
			out = append(out, plotter.XY{X: p.X, Y: math.Log(points[i-1].Y)})
		}
		out = append(out, plotter.XY{X: p.X, Y: math.Log(p.Y)})
	}
	return out
}

var someTried = []tune.Tried{{Family: "dot affine", Cost: 3}, {Family: "table bits"}, {Family: "table bits", Cost: 2}, {Family: "dot affine", Cost: 1.5},
	{Family: "table bits", Cost: 1.8}, {Family: "dot affine", Cost: 0.9}, {Family: "table codes"}, {Family: "dot affine", Cost: 1.2}}

// The picture of a search has a line of all trials and one of each family that was measured, with
// their data.
func TestPlotSearch(t *testing.T) {
	p, err := plotSearch("w2", source{}, someTried)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.svg")
	if err := p.save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picture := parseSVG(t, data)
	picture.holds(t, "w2", "trials", "all: 0.90, 8 trials", "dot affine: 0.90, 4 trials", "table bits: 1.80, 3 trials")
	if strings.Contains(string(data), "table codes") {
		t.Error("a family without a figure is named")
	}
	all := corners(plotter.XYs{{X: 1, Y: 3}, {X: 3, Y: 2}, {X: 4, Y: 1.5}, {X: 6, Y: .9}, {X: 8, Y: .9}})
	tables := corners(plotter.XYs{{X: 3, Y: 2}, {X: 5, Y: 1.8}, {X: 8, Y: 1.8}})
	found := [2]bool{}
	for _, x := range picture.paths {
		found[0] = found[0] || strings.Contains(x.style, "stroke:#000000;stroke-width:2.5") && isLine(x.points, all) == nil
		found[1] = found[1] || isLine(x.points, tables) == nil
	}
	if found != [2]bool{true, true} {
		t.Errorf("lines of all and of tables: %v in\n%s", found, data)
	}
}

// The roofline has the bound of each product, min(available, what it consumes), and a mark for
// each measurement.
func TestPlotRoofline(t *testing.T) {
	record := func(format, mode string, read, used float64) measure.Record {
		return measure.Record{Format: format, Target: "avx2", Mode: mode, N: 1, Threads: 1, ClockGHz: 2, CeilingGBS: 2 * read, GBS: 2 * used}
	}
	records := []measure.Record{record("w1", "dram", 5, 4), record("w1", "l2", 40, 10), record("w4", "dram", 5, 4.9), record("w4", "l2", 40, 20), {Format: "w4", N: 4, ClockGHz: 1, CeilingGBS: 1}}
	bench := ""
	for _, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		bench += string(data) + "\n"
	}
	dir := t.TempDir()
	out := ok(t, "report", "-o", dir, "-log", "none", "-bench", file(t, "bench.jsonl", bench))
	data, err := os.ReadFile(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	picture := parseSVG(t, data)
	picture.holds(t, "w1 avx2", "w4 avx2", "available bandwidth, bytes per cycle", "dram", "l2")
	lines, marks, modes := 0, 0, 0
	for _, x := range picture.paths {
		for _, top := range []float64{10, 20} {
			if isLine(x.points, plotter.XYs{{}, {X: top, Y: top}, {X: 42, Y: top}}) == nil {
				lines++
			}
		}
		if strings.Contains(x.style, "fill:#") && !strings.Contains(x.style, "fill:#FFFFFF") {
			marks++
		}
		if n := len(x.points); n >= 2 && strings.Contains(x.style, "stroke:#808080") && x.points[0].X == x.points[n-1].X {
			modes++
		}
	}
	if lines != 2 || marks != 4+2 || modes != 2 { // marks are in the legend too
		t.Errorf("%d bounds, %d marks and %d modes, want 2, 6 and 2, in\n%s", lines, marks, modes, data)
	}
}

// Pictures of several products do not take each other's names.
func TestPlotOf(t *testing.T) {
	p := session.Options{Problem: ir.Problem{Weight: format.Weight{Name: "w2"}}, Target: amd64.ByName("avx2")}
	for plot, want := range map[string]string{"": "", "a/b.svg": "a/b-w2-avx2.svg"} {
		if got := plotOf(plot, p); got != want {
			t.Errorf("%q: %q, want %q", plot, got, want)
		}
	}
}

// The report has a picture of each search of the log that has measured something.
func TestReport(t *testing.T) {
	l := tune.Log{Path: filepath.Join(t.TempDir(), "tuning.db")}
	for i, costs := range [][]float64{{2, 0.5}, {0}, {3}} {
		r := &tune.Run{Start: time.Unix(int64(i), 0), Product: fmt.Sprint("w", i+1), Target: "amd64/avx2", Purposes: []tune.Purpose{{Mode: "l2", M: 1, N: 1, K: 1}}}
		if err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
		for _, c := range costs {
			x := tune.Trial{Genes: []tune.Gene{{Trace: schedule.Trace{schedule.Decompose{Family: "dot", Value: "affine"}}}}, Cost: c}
			if c == 0 {
				x.Error = "crashed"
			}
			if err := l.Add(r, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range pictureTypes {
		dir := t.TempDir()
		paths := strings.Fields(ok(t, "report", "-log", l.Path, "-o", dir, "-type", kind[1:]))
		if len(paths) != 2 || !strings.Contains(paths[0], "search-w1-amd64-avx2-") || !strings.Contains(paths[1], "search-w3-") {
			t.Fatalf("pictures %v", paths)
		}
		f, err := os.Open(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if kind == ".png" {
			if _, name, err := image.DecodeConfig(f); err != nil || name != "png" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		picture := parseSVG(t, data)
		picture.holds(t, "dot affine: 0.50, 2 trials", "date: 1970-01-01", "w1 on amd64/avx2, l2 1x1x1")
	}
	empty := filepath.Join(t.TempDir(), "no.db")
	for _, r := range []refusal{
		{2, `want svg or png`, "report -type gif"},
		{2, `no such file`, "report -log " + empty},
		{2, `nothing to draw`, "report -log none"},
		{2, `record 1: `, "report -log none -bench " + file(t, "bad.jsonl", "[]")},
		{2, `no records of products with one column`, "report -log none -bench " + file(t, "none.jsonl", "{}")},
		{2, `search.pdf: a picture is an .svg or a .png`, "tune -format w2 -plot search.pdf"},
	} {
		refused(t, r)
	}
}
