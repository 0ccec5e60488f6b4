package picture

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// style is how a line and its marks look. Styles differ by colours that colour-blind people can tell apart, and also by
// dashes and shapes.
type style struct {
	color  color.Color
	dashes []vg.Length
	shape  draw.GlyphDrawer
}

// The parts of styles. The colours are from Okabe and Ito: the ones that can be seen on white.
var (
	styleColors = []color.Color{color.RGBA{0x00, 0x72, 0xb2, 255}, color.RGBA{0xd5, 0x5e, 0x00, 255}, color.RGBA{0x00, 0x9e, 0x73, 255},
		color.RGBA{0xcc, 0x79, 0xa7, 255}, color.RGBA{0xe6, 0x9f, 0x00, 255}, color.RGBA{0x56, 0xb4, 0xe9, 255}}
	styleDashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {6, 2, 1.5, 2}}
	styleShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}}
)

// maxStyles is the number of different styles: every colour with every dash.
var maxStyles = len(styleColors) * len(styleDashes)

// styleOf returns style i, for i below maxStyles.
func styleOf(i int) style {
	both := maxStyles / 2 // after 12 styles, 6 colours and 4 dashes would repeat: dashes move on by one
	return style{styleColors[i%len(styleColors)], styleDashes[(i+i/both)%len(styleDashes)], styleShapes[i%len(styleShapes)]}
}

// black is the colour of a line that stands for all others.
var black = color.RGBA{A: 255}

// helper is the style of grey lines that mark a value.
var helper = style{color: color.Gray{128}, dashes: []vg.Length{2, 3}}

// horizontal returns a thin line at y.
func horizontal(y float64) *plotter.Function {
	f := plotter.NewFunction(func(float64) float64 { return y })
	f.Color, f.Dashes = helper.color, helper.dashes
	return f
}

// line returns a line through points. The width is in points.
func line(points plotter.XYs, s style, width float64) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	l.Color, l.Dashes, l.Width = s.color, s.dashes, vg.Points(width)
	return l, nil
}

// stairs returns a line that stays on its level until the next point.
func stairs(points plotter.XYs, s style, width float64) (*plotter.Line, error) {
	l, err := line(points, s, width)
	if err == nil {
		l.StepStyle = plotter.PostStep
	}
	return l, err
}

// view returns the range of a logarithmic axis. The samples are the values of all curves at each of their trials. The range
// has a margin and contains 1, the least sample and 95 of 100 samples, so the bad first trials of a search do not squash the rest.
func view(samples []float64) (low, high float64) {
	samples = slices.Sorted(slices.Values(samples))
	low, high = min(1, samples[0]), max(1, samples[(len(samples)*95+99)/100-1])
	margin := max(1.02, math.Pow(high/low, 0.05))
	return low / margin, high * margin
}

// finite returns the values without infinities.
func finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsInf(v, 0) })
}

// shares marks a logarithmic axis at round shares. It takes the first of these series that has enough marks in the range.
//
//	1 2 5 10            of each power of ten
//	1 1.5 2 3 4 5 ...   of each power of ten
//	all halves, fifths, tenths ... of the largest power of ten
type shares struct{}

// Ticks implements plot.Ticker.
func (shares) Ticks(low, high float64) (out []plot.Tick) {
	const enough = 4
	for _, digits := range [][]float64{{1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}} {
		out = nil
		for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
			for _, d := range digits {
				out = appendTick(out, low, high, d*math.Pow(10, power))
			}
		}
		if len(out) >= enough {
			return out
		}
	}
	// Multiples of a half, a fifth, a tenth ... of the largest power of ten.
	largest := math.Floor(math.Log10(high))
	for power := largest; power >= largest-3; power-- {
		for _, parts := range []float64{2, 5, 10} {
			if len(out) >= enough {
				return out
			}
			out = multiples(low, high, parts, power)
		}
	}
	return out
}

// multiples are ticks at the multiples of a power of ten over parts.
func multiples(low, high, parts, power float64) (out []plot.Tick) {
	value := func(i float64) float64 { return i / parts * math.Pow(10, power) }
	if power < 0 { // not a product by a power that is not exact
		value = func(i float64) float64 { return i / (parts * math.Pow(10, -power)) }
	}
	for i := math.Ceil(low / value(1)); i <= math.Floor(high/value(1)); i++ {
		out = appendTick(out, low, high, value(i))
	}
	return out
}

// spread marks a logarithmic axis as shares does, with at most that number of marks: else it takes the first of these series that has no more.
//
//	1 3 10         of each power of ten
//	1 10 100       powers of ten
//	1 100 1e+04    every second power, every third ...
type spread int

// Ticks implements plot.Ticker.
func (most spread) Ticks(low, high float64) []plot.Tick {
	out := (shares{}).Ticks(low, high)
	for step := 0; len(out) > int(most); step++ {
		digits, every := []float64{1}, float64(step)
		if step == 0 {
			digits, every = []float64{1, 3}, 1
		}
		out = nil
		for power := every * math.Floor(math.Log10(low)/every); power <= math.Log10(high); power += every {
			for _, d := range digits {
				out = appendTick(out, low, high, d*math.Pow(10, power))
			}
		}
	}
	return out
}

// appendTick adds a tick at v if v is in the range.
func appendTick(ticks []plot.Tick, low, high, v float64) []plot.Tick {
	if v < low || v > high {
		return ticks
	}
	return append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g", v)})
}
