package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"gonum.org/v1/plot/plotter"

	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// box is an upright rectangle on a page of SVG, in points, y downwards.
type box struct{ left, top, right, bottom float64 }

func (a box) meets(b box) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

// turn is an SVG transform: x is a*x + c*y + e, y is b*x + d*y + f.
type turn struct{ a, b, c, d, e, f float64 }

func (m turn) at(x, y float64) (float64, float64) { return m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f }

// then is m after n.
func (m turn) then(n turn) turn {
	e, f := m.at(n.e, n.f)
	return turn{m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b, m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d, e, f}
}

var transform = regexp.MustCompile(`(\w+)\(([^)]*)\)`)

// turned is m with a transform attribute.
func (m turn) turned(t *testing.T, attr string) turn {
	t.Helper()
	for _, x := range transform.FindAllStringSubmatch(attr, -1) {
		var v [2]float64
		for i, text := range strings.FieldsFunc(x[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			v[i], _ = strconv.ParseFloat(text, 64)
		}
		switch x[1] {
		case "translate":
			m = m.then(turn{1, 0, 0, 1, v[0], v[1]})
		case "scale":
			m = m.then(turn{v[0], 0, 0, v[1], 0, 0})
		case "rotate":
			sin, cos := math.Sincos(v[0] * math.Pi / 180)
			m = m.then(turn{cos, sin, -sin, cos, 0, 0})
		default:
			t.Fatalf("transform %s", attr)
		}
	}
	return m
}

// words is a text of a page and the room that it takes where every character is 0.65 em wide.
type words struct {
	text string
	box
}

// laidOut is what lies where on a page.
type laidOut struct {
	page  box
	texts []words
	lines []box // each side of every path but of those that fill the page
}

var pathStep = regexp.MustCompile(`([MLAZ])([^MLAZ]*)`)

// layout reads a page of SVG. Its texts must say their widths.
func layout(t *testing.T, data []byte) (out laidOut) {
	t.Helper()
	stack, open := []turn{{1, 0, 0, 1, 0, 0}}, map[string]string(nil)
	d := xml.NewDecoder(strings.NewReader(string(data)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		switch x := token.(type) {
		case xml.StartElement:
			attrs := map[string]string{"": x.Name.Local}
			for _, a := range x.Attr {
				attrs[a.Name.Local] = a.Value
			}
			m := stack[len(stack)-1].turned(t, attrs["transform"])
			stack, open = append(stack, m), attrs
			switch x.Name.Local {
			case "svg":
				fmt.Sscanf(attrs["viewBox"], "0 0 %f %f", &out.page.right, &out.page.bottom)
			case "path":
				out.addPath(m, attrs["d"])
			}
		case xml.EndElement:
			stack, open = stack[:len(stack)-1], nil
		case xml.CharData:
			if open[""] == "text" {
				out.addText(t, stack[len(stack)-1], open, string(x))
			}
		}
	}
}

func (l *laidOut) addPath(m turn, steps string) {
	var points plotter.XYs
	for _, s := range pathStep.FindAllStringSubmatch(steps, -1) {
		fields := strings.FieldsFunc(s[2], func(r rune) bool { return r == ',' || r == ' ' })
		if len(fields) < 2 {
			continue
		}
		x, _ := strconv.ParseFloat(fields[len(fields)-2], 64)
		y, _ := strconv.ParseFloat(fields[len(fields)-1], 64)
		x, y = m.at(x, y)
		points = append(points, plotter.XY{X: x, Y: y})
	}
	var sides []box
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		sides = append(sides, box{min(a.X, b.X), min(a.Y, b.Y), max(a.X, b.X), max(a.Y, b.Y)})
	}
	if len(sides) == 3 && sides[0].right-sides[0].left > 100 && sides[1].bottom-sides[1].top > 100 {
		return // a white ground
	}
	l.lines = append(l.lines, sides...)
}

func (l *laidOut) addText(t *testing.T, m turn, attrs map[string]string, text string) {
	t.Helper()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatalf("text %q: %v", text, err)
		}
		return v
	}
	_, size, _ := strings.Cut(attrs["style"], "font-size:")
	size, _, _ = strings.Cut(size, "px")
	em, x, y := number(size), number(attrs["x"]), number(attrs["y"])
	number(attrs["textLength"])
	width := 0.65 * em * float64(utf8.RuneCountInString(text))
	start, ok := map[string]float64{"start": 0, "middle": -0.5, "end": -1}[attrs["text-anchor"]]
	if !ok || attrs["lengthAdjust"] != "spacingAndGlyphs" {
		t.Errorf("text %q does not say how to fit it: %v", text, attrs)
	}
	x0, y0 := m.at(x+start*width, y-0.75*em)
	x1, y1 := m.at(x+start*width+width, y+0.1*em)
	l.texts = append(l.texts, words{text, box{min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)}})
}

// legible reports what a viewer with a wide font could not read: text beyond the page, upon text, or upon a line.
func (l *laidOut) legible(t *testing.T, name string) {
	t.Helper()
	if len(l.texts) == 0 || l.page.right < 100 {
		t.Errorf("%s: %d texts on a page of %v", name, len(l.texts), l.page)
	}
	for i, a := range l.texts {
		if a.left < 0 || a.top < 0 || a.right > l.page.right || a.bottom > l.page.bottom {
			t.Errorf("%s: %q leaves the page: %v", name, a.text, a.box)
		}
		for _, b := range l.texts[:i] {
			if a.meets(b.box) {
				t.Errorf("%s: %q and %q overlap: %v, %v", name, a.text, b.text, a.box, b.box)
			}
		}
		for _, line := range l.lines {
			const thin = 0.01
			if a.meets(box{line.left - thin, line.top - thin, line.right + thin, line.bottom + thin}) {
				t.Errorf("%s: a line %v runs over %q: %v", name, line, a.text, a.box)
			}
		}
	}
}

// holds reports texts that are missing.
func (l *laidOut) holds(t *testing.T, name string, texts ...string) {
	t.Helper()
	var all []string
	for _, x := range l.texts {
		all = append(all, x.text)
	}
	for _, want := range texts {
		if !strings.Contains(strings.Join(all, " "), want) {
			t.Errorf("%s: no %q in %q", name, want, all)
		}
	}
}

// The pictures of the documentation can be read in any font, and say where they were measured.
func TestPicturesAreLegible(t *testing.T) {
	for path, about := range map[string]string{"roofline.svg": "machine: Emerald Rapids VM;", "search.svg": "machine: AMD EPYC;", "families.svg": "machine: AMD EPYC; date: 2026-11-22; tmacc: not recorded",
		"emerald/families.svg": "machine: Intel(R) Xeon(R) Processor; date: 2026-11-21;"} {
		data, err := os.ReadFile(filepath.Join("../../docs/lab", path))
		if err != nil {
			t.Fatal(err)
		}
		l := layout(t, data)
		l.legible(t, path)
		l.holds(t, path, about)
	}
}

// hostile is a name of the greatest length that formats may have, with all that XML must escape, and bytes that it cannot express.
const hostile = "W<&\"'>\x01\xff-" + "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"

// hostileRecords returns records of one product for each style of a picture.
func hostileRecords() (out []measure.Record) {
	for i := range maxStyles {
		for at, mode := range []string{"dram", "l3", "l2", "near l2"} {
			out = append(out, measure.Record{Format: fmt.Sprint(hostile, i), Target: "avx512vbmi", Mode: mode, N: 1, Threads: 1, ClockGHz: 2, CeilingGBS: []float64{1, 1.1, 80, 82}[at], GBS: 1 + float64(i*at), Tuned: i%2 > 0,
				Host: "AMD <EPYC> & \"others\" (family 26 model 2, virtual), 128 cores, L1d 48 KiB, L2 1024 KiB, L3 32 MiB, linux/amd64, go1.26.8", Date: fmt.Sprintf("2026-01-%02d", i+1), Commit: fmt.Sprint("c0ffee", i)})
		}
	}
	return out
}

// Pictures of many things with long and strange names can be read in any font, too.
func TestHostilePicturesAreLegible(t *testing.T) {
	pictures := map[string]*Picture{}
	add := func(name string, p *Picture, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		pictures[name] = p
	}
	p, err := Search(strings.Repeat(hostile+" on amd64/avx512vbmi, dram 4096x4096x256 ", 3), Source{machines: []string{hostile}}, slices.Concat(someTried, []tune.Tried{{Family: hostile, Cost: 1}, {Family: "far", Cost: 1e6}}))
	add("search", p, err)
	groups := []Group{{"w2", hostile, []float64{2, 0.5}}, {"w2", "avx2", []float64{1, 1}}, {hostile, "avx2", []float64{0, 20}}}
	p, err = Bars("ratios", "ratio", Source{}, []string{"l2 N=1", hostile}, groups)
	add("bars", p, err)
	p, err = Searches("searches", Source{machines: []string{hostile}}, []string{"random", hostile}, []Panel{{"w2", [][][]float64{{{3, 2}, {2, 0, 1}}, nil}}, {"none", [][][]float64{nil, {{0}}}}})
	add("searches", p, err)
	p, err = Roofline(hostileRecords())
	add("roofline", p, err)
	where := Source{machines: []string{hostile}}
	places := []Place{{Name: hostile, ReadGBS: 1e-3, Best: []Attained{{1e-3, 1e4}}}, {Name: "l2", ReadGBS: 1e6, Candidates: []Attained{{1e3, 1}, {1e3, 1}, {}}, Default: []Attained{{1e3, 2}}}, {Name: "none", ReadGBS: 1}}
	p, err = Ceilings(hostile, where, 100, places)
	add("ceilings", p, err)
	add("narrow ceilings", p.Narrow(), nil)
	p, err = Ceilings(hostile, where, 0, []Place{{Name: "dram", Candidates: []Attained{{2, 3}}}})
	add("no ceilings", p, err)
	p, err = Forecasts(hostile, where, []Forecast{{hostile, []Foretold{{1, 1e-6}, {1e6, 1}}}, {"none", nil}})
	add("forecasts", p, err)
	add("narrow forecasts", p.Narrow(), nil)
	for name, p := range pictures {
		data, err := p.Encode(".svg")
		if err != nil {
			t.Fatal(name, err)
		}
		l := layout(t, data)
		l.legible(t, name)
		l.holds(t, name, "W<&\"'>\ufffd\ufffd-mm")
		if name == "roofline" {
			l.holds(t, name, "machine: AMD <EPYC> & \"others\"", "date: 2026-01-01 to 2026-01-24", "tmacc: c0ffee0, c0ffee1, c0ffee2, 21 more")
		}
	}
}

// Records that no roofline can show are errors.
func TestRooflineRefuses(t *testing.T) {
	more := hostileRecords()
	for _, r := range hostileRecords() {
		r.Target = "avx2"
		more = append(more, r)
	}
	for want, records := range map[string][]measure.Record{
		"plotter: infinite data point":              {{N: 1, ClockGHz: 1e-300, CeilingGBS: 1e300, GBS: 1}},
		"no records of products with one column":    {{N: 1, ClockGHz: 1, CeilingGBS: 1, GBS: -1}},
		"products for one picture: want at most 24": more,
	} {
		if _, err := Roofline(records); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Whatever a search begins with, its axis ends near the curves, and has ticks that tell their values.
func TestSearchAxis(t *testing.T) {
	for _, x := range []struct {
		name      string
		samples   []float64
		low, high float64 // margins aside
		ticks     string
	}{
		{"a bad beginning", append(slices.Repeat([]float64{0.8, 0.75}, 50), 20, 10, 5), 0.75, 1, "0.75 0.8 0.85 0.9 0.95 1"},
		{"much worse than the default", slices.Repeat([]float64{4, 3}, 50), 1, 4, "1 1.5 2 3 4"},
		{"all alike", slices.Repeat([]float64{1}, 50), 1, 1, "0.99 1 1.01 1.02"},
		{"near the default", slices.Repeat([]float64{1.01, 0.97}, 50), 0.97, 1.01, "0.96 0.98 1 1.02"},
		{"few trials", []float64{3, 2, 0.5}, 0.5, 3, "0.5 0.6 0.8 1 1.5 2 3"},
		{"a wide range", slices.Repeat([]float64{0.05, 30}, 50), 0.05, 30, "0.05 0.1 0.2 0.5 1 2 5 10 20"},
	} {
		low, high := view(x.samples)
		if low > x.low || high < x.high || low < x.low*0.7 || high > x.high*1.4 {
			t.Errorf("%s: %g to %g, want %g to %g and a margin", x.name, low, high, x.low, x.high)
		}
		var ticks []string
		for _, tick := range (shares{}).Ticks(low, high) {
			ticks = append(ticks, tick.Label)
		}
		if got := strings.Join(ticks, " "); got != x.ticks {
			t.Errorf("%s: ticks of %g to %g: %s, want %s", x.name, low, high, got, x.ticks)
		}
	}
}

// Lines and marks of a picture are told apart by their colours, and without them.
func TestStyles(t *testing.T) {
	seen := map[string]int{}
	for i := range maxStyles {
		s := styleOf(i)
		look := fmt.Sprint(s.color, s.dashes)
		if j, ok := seen[look]; ok {
			t.Errorf("lines %d and %d look alike", j, i)
		}
		seen[look] = i
	}
	for i := range 4 {
		for j := range i {
			if a, b := styleOf(i), styleOf(j); slices.Equal(a.dashes, b.dashes) || fmt.Sprintf("%T", a.shape) == fmt.Sprintf("%T", b.shape) {
				t.Errorf("without colours lines %d and %d look alike", i, j)
			}
		}
	}
}

// TestTicks: a logarithmic axis has ticks wherever it is, also between two powers of ten.
func TestTicks(t *testing.T) {
	for _, x := range []struct {
		low, high float64
		want      string
	}{
		{105, 223, "120 140 160 180 200 220"},
		{110, 140, "110 120 130 140"},
		{1180, 1390, "1200 1250 1300 1350"},
		{0.00109, 0.00131, "0.0011 0.00115 0.0012 0.00125 0.0013"},
		{12, 3000, "20 50 100 200 500 1000 2000"},
	} {
		var ticks []string
		for _, tick := range spread(10).Ticks(x.low, x.high) {
			ticks = append(ticks, tick.Label)
		}
		if got := strings.Join(ticks, " "); got != x.want {
			t.Errorf("ticks of %g to %g: %s, want %s", x.low, x.high, got, x.want)
		}
	}
}
