package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tmacc/tmacc/gen/gomod"
)

// picture is one page: a title, a legend below it, plots in rows, and at the bottom where the figures come from.
//
//	title
//	-- first    -o second    .. third
//	plot  plot
//	plot
//	machine: ...; date: ...; tmacc: ...
type picture struct {
	title   string
	source  source
	legend  []legendEntry
	plots   []*plot.Plot
	columns int      // of plots
	size    vg.Point // of each plot
}

// legendEntry is a line of a legend: a sample and its name.
type legendEntry struct {
	name   string
	sample []plot.Thumbnailer
}

// source says where, when and by which tmacc the figures of a picture were measured. Empty parts were not recorded.
type source struct{ machines, dates, commits []string }

// add adds what one record says.
func (s *source) add(machine, date, commit string) {
	for _, x := range []struct {
		list *[]string
		text string
	}{{&s.machines, machine}, {&s.dates, date}, {&s.commits, commit}} {
		if x.text != "" && x.text != gomod.Unknown && !slices.Contains(*x.list, x.text) {
			*x.list = append(*x.list, x.text)
		}
	}
}

// String is the line at the bottom of a picture.
func (s source) String() string {
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

// The styles of the texts of a page.
var (
	titleStyle  = textStyle(13)
	labelStyle  = textStyle(10)
	tickStyle   = textStyle(9)
	sourceStyle = textStyle(8)
)

func textStyle(size vg.Length) text.Style {
	face := font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: size}
	return text.Style{Color: color.Black, Font: face, YAlign: draw.YTop, Handler: aligned{text.Plain{Fonts: font.DefaultCache}}}
}

// newPlot is a plot whose texts keep their room in every font.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.TextHandler = labelStyle.Handler
	p.Title.Padding = gap
	for _, s := range []struct{ to, from *text.Style }{{&p.Title.TextStyle, &labelStyle}, {&p.X.Label.TextStyle, &labelStyle}, {&p.Y.Label.TextStyle, &labelStyle},
		{&p.X.Tick.Label, &tickStyle}, {&p.Y.Tick.Label, &tickStyle}, {&p.Legend.TextStyle, &labelStyle}} {
		s.to.Font, s.to.Handler = s.from.Font, s.from.Handler
	}
	p.X.Tick.Length, p.Y.Tick.Length = 4, 4
	p.Y.Label.Padding = 2 * gap // ticks in a wide font reach into it
	return p
}

// room is the width to leave for a line of text. A viewer without our font draws it in another one, which may be wider: 0.65 em for each
// character is enough for the common screen fonts.
func room(s text.Style, line string) vg.Length {
	return max(s.Width(line), 0.65*s.Font.Size*vg.Length(utf8.RuneCountInString(line)))
}

// wrapped breaks text into lines whose room is at most width: at spaces, and inside of longer words.
func wrapped(s text.Style, words string, width vg.Length) (lines []string) {
	line := ""
	for _, word := range strings.Fields(words) {
		if next := strings.TrimSpace(line + " " + word); room(s, next) <= width {
			line = next
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		runes, most := []rune(word), max(1, int(width/(0.65*s.Font.Size)))
		for ; len(runes) > most; runes = runes[most:] {
			lines = append(lines, string(runes[:most]))
		}
		line = string(runes)
	}
	return append(lines, line)
}

// block draws lines of text at the top of c. It returns the part of c below them.
func block(c draw.Canvas, s text.Style, lines []string) draw.Canvas {
	for _, line := range lines {
		c.FillText(s, vg.Point{X: c.Min.X, Y: c.Max.Y}, line)
		c.Max.Y -= lineHeight(s)
	}
	return c
}

func lineHeight(s text.Style) vg.Length { return s.Font.Size * 1.3 }

// width is the width of the page inside its margins.
func (p *picture) width() vg.Length { return vg.Length(p.columns)*(p.size.X+2*gap) - 2*gap }

// legendGrid returns the width of an entry and the number of entries in a row.
func (p *picture) legendGrid() (width vg.Length, columns int) {
	for _, e := range p.legend {
		width = max(width, sampleLong+gap+room(labelStyle, e.name)+2*gap)
	}
	return width, max(1, int((p.width()+2*gap)/max(width, 1)))
}

// drawLegend draws the entries in rows at the top of c, each sample left of its name. It returns the part of c below them.
func (p *picture) drawLegend(c draw.Canvas) draw.Canvas {
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
	c.Max.Y -= vg.Length((len(p.legend)+columns-1)/columns)*height + gap
	return c
}

// encode returns the page as a file; kind is ".svg" or ".png".
func (p *picture) encode(kind string) ([]byte, error) {
	for i := range p.legend { // a name must fit the page
		e := &p.legend[i]
		e.name = shorten(drawable(e.name), int((p.width()-sampleLong-gap)/(0.65*labelStyle.Font.Size)))
	}
	_, inRow := p.legendGrid()
	title, about := wrapped(titleStyle, drawable(p.title), p.width()), wrapped(sourceStyle, drawable(p.source.String()), p.width())
	rows, legendRows := (len(p.plots)+p.columns-1)/p.columns, (len(p.legend)+inRow-1)/inRow
	plots := vg.Length(rows)*(p.size.Y+gap) - gap
	head := vg.Length(len(title))*lineHeight(titleStyle) + gap/2
	foot := vg.Length(len(about))*lineHeight(sourceStyle) + gap
	height := head + vg.Length(legendRows)*lineHeight(labelStyle) + gap + plots + foot
	canvas, err := newCanvas(kind, p.width()+2*pageMargin, height+2*pageMargin, p.title)
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

// drawable is s on one line, without characters that XML has no way to say.
func drawable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, s)
}

// save writes the page as its name's end says.
func (p *picture) save(path string) error {
	if err := validPicture(path); err != nil {
		return err
	}
	data, err := p.encode(filepath.Ext(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeFile(path, data)
}

// newCanvas is a page of a kind of picture.
func newCanvas(kind string, w, h vg.Length, title string) (vg.CanvasWriterTo, error) {
	if kind == ".svg" {
		return &svgPage{Canvas: vgsvg.New(w, h), title: title}, nil
	}
	return draw.NewFormattedCanvas(w, h, strings.TrimPrefix(kind, "."))
}

// aligned draws text as text.Plain does, and tells an svgPage how it is aligned.
type aligned struct{ text.Plain }

// Draw implements text.Handler.
func (a aligned) Draw(c vg.Canvas, words string, s text.Style, at vg.Point) {
	if to := svgOf(c); to != nil {
		to.align = s.XAlign
	}
	a.Plain.Draw(c, words, s, at)
}

// svgOf is the page that c draws on, nil if that is no SVG.
func svgOf(c vg.Canvas) *svgPage {
	for {
		switch x := c.(type) {
		case *svgPage:
			return x
		case draw.Canvas:
			c = x.Canvas
		case *draw.Canvas:
			c = x.Canvas
		default:
			return nil
		}
	}
}

// svgPage is a page of SVG. Its texts stay in place in every font: each is anchored at the side, or the middle, that it is aligned by.
// Each states its width, and viewers such as browsers fit other fonts to it.
type svgPage struct {
	*vgsvg.Canvas
	title string
	align draw.XAlignment // of the next texts
	texts []svgText
}

// svgText is where a text is anchored, and its width.
type svgText struct {
	x, width vg.Length
	align    draw.XAlignment
}

// FillString implements vg.Canvas.
func (p *svgPage) FillString(f font.Face, at vg.Point, words string) {
	words = drawable(words)
	width := f.Width(words)
	p.texts = append(p.texts, svgText{at.X - vg.Length(p.align)*width, width, p.align})
	p.Canvas.FillString(f, at, words)
}

var (
	svgTextStart = regexp.MustCompile(`<text x="[^"]*" y="([^"]*)" transform="scale\(1, -1\)"\s+style="font-family:[^;]*;font-variant:[^;]*;([^"]*)">`)
	svgUsual     = strings.NewReplacer("font-weight:normal;", "", "font-style:normal;", "")
	svgAnchors   = map[draw.XAlignment]string{draw.XLeft: "start", draw.XCenter: "middle", draw.XRight: "end"}
)

// svgFonts are the fonts of all texts. The first three have the same widths; the last one is the viewer's own.
const svgFonts = "Liberation Sans, Arial, Helvetica, sans-serif"

// WriteTo implements io.WriterTo.
func (p *svgPage) WriteTo(w io.Writer) (int64, error) {
	var plain bytes.Buffer
	if _, err := p.Canvas.WriteTo(&plain); err != nil {
		return 0, err
	}
	n := 0
	out := svgTextStart.ReplaceAllStringFunc(plain.String(), func(start string) string {
		m, t := svgTextStart.FindStringSubmatch(start), p.texts[n]
		n++
		return fmt.Sprintf(`<text x="%s" y="%s" transform="scale(1, -1)" text-anchor="%s" textLength="%s" lengthAdjust="spacingAndGlyphs" style="%s">`,
			points(t.x), m[1], svgAnchors[t.align], points(t.width), svgUsual.Replace(m[2]))
	})
	if n != len(p.texts) {
		panic(fmt.Sprintf("BUG: %d texts of %d in an SVG", n, len(p.texts)))
	}
	var title bytes.Buffer
	xml.EscapeText(&title, []byte(p.title))
	before, after, _ := strings.Cut(out, "xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n")
	written, err := fmt.Fprintf(w, "%sfont-family=\"%s\">\n<title>%s</title>\n%s", before, svgFonts, title.String(), after)
	return int64(written), err
}

// points is a length of an SVG.
func points(x vg.Length) string { return fmt.Sprint(math.Round(x.Points()*100) / 100) }
