// Package picture draws what searches and measurements found, as SVG or PNG. A picture can be read in any font,
// and names the machine, the date and the commit of its figures.
package picture

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tmacc/tmacc/gen/gomod"
)

// Types are the kinds of pictures: the ends of their files' names.
var Types = []string{".svg", ".png"}

// Check returns an error if the name of a file ends in none of Types.
func Check(path string) error {
	if !slices.Contains(Types, filepath.Ext(path)) {
		return fmt.Errorf("%s: a picture is an .svg or a .png", path)
	}
	return nil
}

// Picture is one page: a title, a legend below it, plots in rows, and at the bottom where the figures come from.
//
//	title
//	-- first    -o second    .. third
//	plot  plot
//	plot
//	machine: ...; date: ...; tmacc: ...
type Picture struct {
	title   string
	source  Source
	legend  []legendEntry
	plots   []*plot.Plot
	columns int      // plots side by side
	size    vg.Point // of each plot
}

// legendEntry is one entry of a legend: a sample and its name.
type legendEntry struct {
	name   string
	sample []plot.Thumbnailer
}

// Source lists where, when and by which tmacc the figures of a picture were measured.
type Source struct{ machines, dates, commits []string }

// Add adds what one record says. Parts that are "" or "unknown" were not recorded, and are left out.
func (s *Source) Add(machine, date, commit string) {
	add := func(list *[]string, text string) {
		if text != "" && text != gomod.Unknown && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	add(&s.machines, machine)
	add(&s.dates, date)
	add(&s.commits, commit)
}

// String is the line at the bottom of a picture.
func (s Source) String() string {
	dates := slices.Sorted(slices.Values(s.dates))
	if len(dates) > 2 {
		dates = []string{dates[0] + " to " + dates[len(dates)-1]}
	}
	some := func(all []string) string {
		if len(all) > 3 {
			all = append(slices.Clone(all[:3]), fmt.Sprintf("%d more", len(all)-3))
		}
		return cmp.Or(strings.Join(all, ", "), "not recorded")
	}
	return fmt.Sprintf("machine: %s; date: %s; tmacc: %s", some(s.machines), some(dates), some(s.commits))
}

// The lengths of a page.
const (
	pageMargin = 8 * vg.Length(1)
	sampleLong = 26 * vg.Length(1) // a sample of the legend
	gap        = 6 * vg.Length(1)  // between things that belong together
)

// plotSize is the size of the plot of a picture that has one plot.
var plotSize = vg.Point{X: 560, Y: 320}

// Encode returns the page as the content of a file. The kind is one of Types.
func (p *Picture) Encode(kind string) ([]byte, error) {
	p.shortenLegend()
	title, about := wrapped(titleStyle, drawable(p.title), p.width()), wrapped(sourceStyle, drawable(p.source.String()), p.width())
	rows := (len(p.plots) + p.columns - 1) / p.columns
	plots := vg.Length(rows)*(p.size.Y+gap) - gap
	head := vg.Length(len(title))*lineHeight(titleStyle) + gap/2
	foot := vg.Length(len(about))*lineHeight(sourceStyle) + gap
	canvas, err := newCanvas(kind, p.width()+2*pageMargin, head+p.legendHeight()+plots+foot+2*pageMargin, p.title)
	if err != nil {
		return nil, err
	}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = block(draw.Crop(c, pageMargin, -pageMargin, pageMargin, -pageMargin), titleStyle, title)
	c.Max.Y -= gap / 2
	c = p.drawLegend(c)
	block(draw.Crop(c, 0, 0, 0, -plots-gap), sourceStyle, about)
	for i, one := range p.plots {
		x, y := vg.Length(i%p.columns)*(p.size.X+2*gap), vg.Length(i/p.columns)*(p.size.Y+gap)
		at := vg.Point{X: c.Min.X + x, Y: c.Max.Y - y - p.size.Y}
		one.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: at, Max: at.Add(p.size)}})
	}
	var out bytes.Buffer
	_, err = canvas.WriteTo(&out)
	return out.Bytes(), err
}

// width is the width of the page inside its margins.
func (p *Picture) width() vg.Length { return vg.Length(p.columns)*(p.size.X+2*gap) - 2*gap }

// shortenLegend cuts the names in the legend that are wider than the page.
func (p *Picture) shortenLegend() {
	width := p.width() - sampleLong - gap
	for i := range p.legend {
		e := &p.legend[i]
		if e.name = drawable(e.name); room(labelStyle, e.name) > width {
			e.name = e.name[:fitting(labelStyle, e.name, width-room(labelStyle, "…"))] + "…"
		}
	}
}

// legendGrid returns the width of an entry and the number of entries in a row.
func (p *Picture) legendGrid() (width vg.Length, columns int) {
	for _, e := range p.legend {
		width = max(width, sampleLong+gap+room(labelStyle, e.name)+2*gap)
	}
	return width, max(1, int((p.width()+2*gap)/max(width, 1)))
}

// legendHeight is the height of the legend, with the gap below it.
func (p *Picture) legendHeight() vg.Length {
	_, columns := p.legendGrid()
	return vg.Length((len(p.legend)+columns-1)/columns)*lineHeight(labelStyle) + gap
}

// drawLegend draws the entries in rows at the top of c, each sample left of its name. It returns the part of c below them.
func (p *Picture) drawLegend(c draw.Canvas) draw.Canvas {
	width, columns := p.legendGrid()
	height := lineHeight(labelStyle)
	for i, e := range p.legend {
		x, y := c.Min.X+vg.Length(i%columns)*width, c.Max.Y-vg.Length(i/columns)*height
		sample := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: x, Y: y - 0.9*height}, Max: vg.Point{X: x + sampleLong, Y: y - 0.1*height}}}
		for _, s := range e.sample {
			s.Thumbnail(&sample)
		}
		c.FillText(labelStyle, vg.Point{X: x + sampleLong + gap, Y: y}, e.name)
	}
	c.Max.Y -= p.legendHeight()
	return c
}
