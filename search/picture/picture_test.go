package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/tmacc/tmacc/search/measure"
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

// corners returns the corners of stairs through points. Each point but the first has one before it, on the level of the point before.
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
func TestSearch(t *testing.T) {
	p, err := Search("w2", Source{}, someTried)
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.Encode(".svg")
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
func TestRoofline(t *testing.T) {
	record := func(format, mode string, read, used float64) measure.Record {
		return measure.Record{Format: format, Target: "avx2", Mode: mode, N: 1, Threads: 1, ClockGHz: 2, CeilingGBS: 2 * read, GBS: 2 * used}
	}
	records := []measure.Record{record("w1", "dram", 5, 4), record("w1", "l2", 40, 10), record("w4", "dram", 5, 4.9), record("w4", "l2", 40, 20), {Format: "w4", N: 4, ClockGHz: 1, CeilingGBS: 1}}
	p, err := Roofline(records)
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.Encode(".svg")
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

// A search without a measured trial has no picture.
func TestSearchRefuses(t *testing.T) {
	if _, err := Search("w2", Source{}, []tune.Tried{{Family: "dot"}}); err == nil || err.Error() != "w2: nothing to draw: no trial was measured" {
		t.Error(err)
	}
}

// Files of pictures are named by their kinds.
func TestCheck(t *testing.T) {
	for _, path := range []string{"a.svg", "b/c.png"} {
		if err := Check(path); err != nil {
			t.Error(err)
		}
	}
	if err := Check("a.pdf"); err == nil || err.Error() != "a.pdf: a picture is an .svg or a .png" {
		t.Error(err)
	}
}
