package main

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// pictureTypes are the kinds of pictures, by the ends of their names.
var pictureTypes = []string{".svg", ".png"}

// validPicture refuses names of other kinds of files.
func validPicture(path string) error {
	if !slices.Contains(pictureTypes, filepath.Ext(path)) {
		return fmt.Errorf("%s: a picture is an .svg or a .png", path)
	}
	return nil
}

// noFolder says why there is no folder for a file, or that the file is a folder itself.
func noFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: is a folder: want a file", path)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = errors.New("is no folder")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	return nil
}

// black is the colour of what stands for all.
var black = color.RGBA{A: 255}

// line is a line through points, of a width.
func line(points plotter.XYs, s style, width float64) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	l.Color, l.Dashes, l.Width = s.color, s.dashes, vg.Points(width)
	return l, nil
}

// stairs is a line that stays where it is until the next point.
func stairs(points plotter.XYs, s style, width float64) (*plotter.Line, error) {
	l, err := line(points, s, width)
	if err == nil {
		l.StepStyle = plotter.PostStep
	}
	return l, err
}

// falls are the trials at which the best so far, in turn, gets better, and the last one.
func falls(trials []int, best []float64) (out plotter.XYs) {
	for i, c := range best {
		if !math.IsInf(c, 1) && (len(out) == 0 || c < out[len(out)-1].Y || i == len(best)-1) {
			out = append(out, plotter.XY{X: float64(trials[i]), Y: c})
		}
	}
	return out
}

// style is how a line and its marks look. Styles differ by colours that colour-blind people can tell apart, and also by dashes and shapes.
type style struct {
	color  color.Color
	dashes []vg.Length
	shape  draw.GlyphDrawer
}

// The parts of styles. Colours are those of Okabe and Ito that can be seen on white.
var (
	styleColors = []color.Color{color.RGBA{0x00, 0x72, 0xb2, 255}, color.RGBA{0xd5, 0x5e, 0x00, 255}, color.RGBA{0x00, 0x9e, 0x73, 255},
		color.RGBA{0xcc, 0x79, 0xa7, 255}, color.RGBA{0xe6, 0x9f, 0x00, 255}, color.RGBA{0x56, 0xb4, 0xe9, 255}}
	styleDashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {6, 2, 1.5, 2}}
	styleShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}}
)

// maxStyles is the number of different styles: every colour with every dash.
var maxStyles = len(styleColors) * len(styleDashes)

func styleOf(i int) style {
	both := maxStyles / 2 // after 12 styles 6 colours and 4 dashes would repeat: dashes move on by one
	return style{styleColors[i%len(styleColors)], styleDashes[(i+i/both)%len(styleDashes)], styleShapes[i%len(styleShapes)]}
}

// view is the range of a logarithmic axis. The samples are the values of all curves at each of their trials. The range has a margin and contains 1, the
// least sample and 95 of 100 samples, so the bad first trials of a search do not squash the rest.
func view(samples []float64) (low, high float64) {
	samples = slices.Sorted(slices.Values(samples))
	low, high = min(1, samples[0]), max(1, samples[(len(samples)*95+99)/100-1])
	margin := max(1.02, math.Pow(high/low, 0.05))
	return low / margin, high * margin
}

// plotSearch draws the best so far over the trials, of each family and of all, by
// shares of the default's time.
func plotSearch(title string, from source, tried []tune.Tried) (*picture, error) {
	p := newPlot("", "trials", "best time so far / default's time")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shares{}
	trials, costs := map[string][]int{}, map[string][]float64{}
	const all = ""
	for i, t := range tried {
		for _, f := range []string{all, t.Family} {
			trials[f], costs[f] = append(trials[f], i+1), append(costs[f], t.Cost)
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(trials)), func(f string) bool { return len(falls(trials[f], tune.BestSoFar(costs[f]))) == 0 })
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: nothing to draw: no trial was measured", title)
	}
	last := func(f string) float64 { s := falls(trials[f], tune.BestSoFar(costs[f])); return s[len(s)-1].Y }
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(last(a), last(b)) })
	var samples []float64
	for _, f := range names {
		samples = append(samples, finite(tune.BestSoFar(costs[f]))...)
	}
	low, high := view(samples)
	out := &picture{title: title, source: from, plots: []*plot.Plot{p}, columns: 1, size: pictureSize}
	for i, f := range names {
		points, name, s, width := falls(trials[f], tune.BestSoFar(costs[f])), f, styleOf(i), 1.0
		if points[len(points)-1].X < float64(len(tried)) { // it is not tried any more, and stays as good
			points = append(points, plotter.XY{X: float64(len(tried)), Y: last(f)})
		}
		if f == all {
			name, s, width = "all", style{color: black}, 2.5
		}
		l, err := stairs(points, s, width)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		text := fmt.Sprintf("%s: %.2f, %s", name, last(f), counted(len(costs[f]), "trial"))
		if last(f) > high {
			text += ", above"
		}
		out.legend = append(out.legend, legendEntry{text, []plot.Thumbnailer{l}})
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, low, high
	p.Add(horizontal(1))
	return out, nil
}

// pictureSize is that of the plot of a picture that has one.
var pictureSize = vg.Point{X: 560, Y: 320}

// finite returns the values without infinities.
func finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsInf(v, 0) })
}

// helper is the style of grey lines that mark a value.
var helper = style{color: color.Gray{128}, dashes: []vg.Length{2, 3}}

// horizontal is a thin line at y.
func horizontal(y float64) *plotter.Function {
	f := plotter.NewFunction(func(float64) float64 { return y })
	f.Color, f.Dashes = helper.color, helper.dashes
	return f
}

// shares marks a logarithmic axis at round shares: at those of the first of these series that has enough of them in the range.
//
//	1 2 5 10            of each power of ten
//	1 1.5 2 3 4 5 ...   of each power of ten
//	all tenths, twentieths, fiftieths, hundredths ...
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
	for _, step := range []float64{10, 20, 50, 100, 200, 500, 1000} {
		if len(out) >= enough {
			break
		}
		out = nil
		for i := math.Ceil(low * step); i <= high*step; i++ {
			out = appendTick(out, low, high, i/step)
		}
	}
	return out
}

// appendTick adds a tick at v if it is in the range.
func appendTick(ticks []plot.Tick, low, high, v float64) []plot.Tick {
	if v < low || v > high {
		return ticks
	}
	return append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g", v)})
}

// roof is what bounds a product: what it reads at most from where its weights are, and what
// its kernel consumes where nothing else keeps it waiting.
type roof struct {
	name   string
	points plotter.XYs // available and effective bandwidth, bytes per cycle of one core
	top    float64     // the most that it consumes
}

// onRoof says that r has what the roofline draws: a product of one column by one thread.
func onRoof(r measure.Record) bool {
	return r.N == 1 && r.Threads <= 1 && r.ClockGHz > 0 && r.CeilingGBS > 0 && r.GBS > 0
}

// roofs are the products of records that the roofline draws, by format and target, those of a lock apart.
func roofs(records []measure.Record) (out []roof) {
	for _, r := range records {
		if !onRoof(r) {
			continue
		}
		name := r.Format + " " + r.Target
		if r.Tuned {
			name += " tuned"
		}
		i := slices.IndexFunc(out, func(x roof) bool { return x.name == name })
		if i < 0 {
			i, out = len(out), append(out, roof{name: name})
		}
		at := plotter.XY{X: r.CeilingGBS / r.ClockGHz, Y: r.GBS / r.ClockGHz}
		out[i].points, out[i].top = append(out[i].points, at), max(out[i].top, at.Y)
	}
	return out
}

// plotRoofline draws the effective bandwidth of a core over what is available to it: for each
// product min(available, what its kernel consumes), and where it was measured.
func plotRoofline(records []measure.Record) (*picture, error) {
	all := roofs(records)
	if len(all) == 0 {
		return nil, errors.New("no records of products with one column by one thread that have ceilings: want those of tmacc bench -json -n 1")
	}
	if len(all) > maxStyles {
		return nil, fmt.Errorf("%d products for one picture: want at most %d: give records of fewer to each", len(all), maxStyles)
	}
	p := newPlot("", "available bandwidth, bytes per cycle", "effective bandwidth, bytes per cycle")
	out := &picture{title: "Weights read per cycle of one core", plots: []*plot.Plot{p}, columns: 1, size: pictureSize}
	for _, r := range records {
		if onRoof(r) {
			out.source.add(r.Host, r.Date, r.Commit)
		}
	}
	right := 0.0
	for _, r := range all {
		for _, at := range r.points {
			right = max(right, at.X)
		}
	}
	for i, r := range all {
		top := min(r.top, right)
		l, err := line(plotter.XYs{{}, {X: top, Y: top}, {X: 1.05 * right, Y: top}}, styleOf(i), 1)
		if err != nil {
			return nil, err
		}
		s, err := plotter.NewScatter(r.points)
		if err != nil {
			return nil, err
		}
		s.Color, s.Shape, s.Radius = styleOf(i).color, styleOf(i).shape, vg.Points(3)
		p.Add(l, s)
		out.legend = append(out.legend, legendEntry{r.name, []plot.Thumbnailer{l, s}})
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1.05*p.Y.Max
	return out, addModes(p, records)
}

// addModes marks what is available where weights are: for each mode the median of all products, with its name above.
func addModes(p *plot.Plot, records []measure.Record) error {
	available := map[string][]float64{}
	for _, r := range records {
		if onRoof(r) {
			available[r.Mode] = append(available[r.Mode], r.CeilingGBS/r.ClockGHz)
		}
	}
	at := func(mode string) float64 { return timing.Median(available[mode]) }
	modes := slices.SortedFunc(maps.Keys(available), func(a, b string) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b)) })
	end, level := 0.0, 0 // of the name before, as far as the axis goes
	for _, mode := range modes {
		l, err := line(plotter.XYs{{X: at(mode)}, {X: at(mode), Y: p.Y.Max}}, helper, 0.5)
		if err != nil {
			return err
		}
		name, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: at(mode), Y: p.Y.Max}}, Labels: []string{drawable(mode)}})
		if err != nil {
			return err
		}
		half := float64(room(tickStyle, mode)/2/pictureSize.X) * 1.2 * p.X.Max // axes take less than a fifth
		if level++; at(mode)-half > end {
			level = 0
		}
		end = max(end, at(mode)+half)
		name.TextStyle[0], name.Offset.Y = tickStyle, 2+vg.Length(level)*lineHeight(tickStyle)
		name.TextStyle[0].XAlign, name.TextStyle[0].YAlign = draw.XCenter, draw.YBottom
		p.Add(l, name)
	}
	return nil
}
