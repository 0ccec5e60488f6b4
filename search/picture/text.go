package picture

import (
	"image/color"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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

// newPlot returns a plot whose texts have enough room in every font.
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

// widest is the mean width of a character in the widest of the common screen fonts, in em. A viewer without our font
// draws texts in another one.
const widest = 0.65

// room is the width to leave for a line of text, in whatever font it is drawn.
func room(s text.Style, line string) vg.Length {
	return max(s.Width(line), widest*s.Font.Size*vg.Length(utf8.RuneCountInString(line)))
}

// wrapped breaks text into lines whose room is at most width. It breaks at spaces, and longer words anywhere.
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
		for {
			n := fitting(s, word, width)
			if n == len(word) {
				break
			}
			lines, word = append(lines, word[:n]), word[n:]
		}
		line = word
	}
	return append(lines, line)
}

// fitting is the number of bytes at the beginning of words, at least one character, whose room is at most width.
func fitting(s text.Style, words string, width vg.Length) (n int) {
	for at, r := range words {
		end := at + utf8.RuneLen(r)
		if at > 0 && room(s, words[:end]) > width {
			return n
		}
		n = end
	}
	return n
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

// drawable returns s on one line, without the characters that XML cannot express.
func drawable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, s)
}
