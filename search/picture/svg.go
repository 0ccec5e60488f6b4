package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// newCanvas returns an empty page. The kind is one of Types.
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

// svgOf returns the page that c draws on, or nil if the page is no SVG.
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

// svgPage is a page of SVG whose texts stay in place in every font. Each text is anchored at the side, or the middle, that
// it is aligned by. Each text states its width, and viewers such as browsers fit other fonts to it.
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

// svgFonts lists the fonts of all texts. The first three have the same widths. The last one is the viewer's own.
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

// points prints a length for an SVG.
func points(x vg.Length) string { return fmt.Sprint(math.Round(x.Points()*100) / 100) }
