package picture

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Place is where weights lie while products are measured, and what schedules reached there. A rate is in products of a weight and an
// activation per ns. An intensity is the number of these products for each byte of weights that is read.
type Place struct {
	Name       string
	ReadGBS    float64 // what one core reads from there, 0: not known
	Candidates []Attained
	Default    []Attained // of each number of activations
	Best       []Attained
}

// Attained is what one schedule reached for one number of activations.
type Attained struct{ Intensity, Rate float64 }

// Known reports whether a is a point of logarithmic axes.
func (a Attained) Known() bool { return a.Intensity > 0 && a.Rate > 0 }

// Ceilings draws the rates of schedules over their intensities, both logarithmic, below what a core can do: it multiplies at most `dot` per ns
// (0: not known), and reads from each place at most so fast. Places without a point are left out. Without any point it is an error.
func Ceilings(title string, from Source, dot float64, places []Place) (*Picture, error) {
	p := newPlot("", "products for each byte of weights", "products per ns")
	p.X.Scale, p.Y.Scale, p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, spread(6), spread(10)
	out := &Picture{title: title, source: from, plots: []*plot.Plot{p}, columns: 1, size: plotSize}
	low, high := bounds(dot, places)
	if low.Rate > high.Rate {
		return nil, errors.New("nothing to draw: no candidate has a rate")
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low.Intensity/1.3, high.Intensity*1.3, low.Rate/1.3, high.Rate*1.3
	i := 0
	for _, x := range places {
		if !x.drawn() {
			continue
		}
		if err := out.addPlace(x, i, dot); err != nil {
			return nil, err
		}
		i++
	}
	if dot > 0 {
		l, err := line(plotter.XYs{{X: p.X.Min, Y: dot}, {X: p.X.Max, Y: dot}}, style{color: black}, 1.5)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		out.legend = append(out.legend, legendEntry{fmt.Sprintf("multiplies %.3g per ns at most", dot), []plot.Thumbnailer{l}})
	}
	return out, out.nameMarks()
}

// The marks of one schedule among others.
var (
	candidateMark = draw.GlyphStyle{Shape: draw.CircleGlyph{}, Radius: 1.5}
	defaultMark   = draw.GlyphStyle{Shape: draw.RingGlyph{}, Radius: 5}
	bestMark      = draw.GlyphStyle{Shape: draw.PyramidGlyph{}, Radius: 5}
)

// drawn reports whether a place has a point.
func (x Place) drawn() bool { return len(x.marks()) > 0 }

// marks are the points of a place.
func (x Place) marks() (out []Attained) {
	for _, list := range [][]Attained{x.Candidates, x.Default, x.Best} {
		for _, a := range list {
			if a.Known() {
				out = append(out, a)
			}
		}
	}
	return out
}

// bounds are the least and the largest of all points, and of the ceilings that stand above them.
func bounds(dot float64, places []Place) (low, high Attained) {
	low = Attained{math.Inf(1), math.Inf(1)}
	for _, x := range places {
		for _, a := range x.marks() {
			low = Attained{min(low.Intensity, a.Intensity), min(low.Rate, a.Rate)}
			high = Attained{max(high.Intensity, a.Intensity), max(high.Rate, a.Rate)}
		}
	}
	for _, x := range places {
		if x.drawn() {
			if dot > 0 && x.ReadGBS > 0 { // where the slope ends
				low.Intensity, high.Intensity = min(low.Intensity, dot/x.ReadGBS/2), max(high.Intensity, dot/x.ReadGBS)
			}
		}
	}
	high.Rate = max(high.Rate, dot)
	return low, high
}

// addPlace draws what was reached in place i, and the slope of what a core reads from there. Marks of later places are smaller, because
// schedules often reach the same from several places.
func (p *Picture) addPlace(x Place, i int, dot float64) error {
	to, s := p.plots[0], styleOf(i)
	if x.ReadGBS > 0 {
		ends := plotter.XYs{}
		for _, at := range []float64{to.X.Min, to.X.Max} {
			at = min(at, to.Y.Max/x.ReadGBS)
			if dot > 0 {
				at = min(at, dot/x.ReadGBS)
			}
			at = max(at, to.Y.Min/x.ReadGBS)
			ends = append(ends, plotter.XY{X: at, Y: at * x.ReadGBS})
		}
		l, err := line(ends, style{color: s.color, dashes: s.dashes}, 1.5)
		if err != nil {
			return err
		}
		if ends[1].X > to.X.Min && ends[0].X < ends[1].X {
			to.Add(l)
		}
		p.legend = append(p.legend, legendEntry{fmt.Sprintf("%s: a core reads %.3g GB/s", x.Name, x.ReadGBS), []plot.Thumbnailer{l}})
	}
	for _, list := range []struct {
		mark draw.GlyphStyle
		of   []Attained
	}{{candidateMark, thinned(to, x.Candidates)}, {defaultMark, x.Default}, {bestMark, x.Best}} {
		var points plotter.XYs
		for _, a := range list.of {
			if a.Known() {
				points = append(points, plotter.XY{X: a.Intensity, Y: a.Rate})
			}
		}
		if len(points) == 0 {
			continue
		}
		marks, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		marks.GlyphStyle, marks.Color = list.mark, s.color
		marks.Radius *= vg.Length(max(0.5, 1.3-0.4*float64(i)))
		to.Add(marks)
	}
	return nil
}

// nameMarks adds the marks to the legend.
func (p *Picture) nameMarks() error {
	for _, m := range []struct {
		name string
		mark draw.GlyphStyle
	}{{"candidates", candidateMark}, {"the default schedule", defaultMark}, {"the best", bestMark}} {
		s, err := plotter.NewScatter(plotter.XYs{{}})
		if err != nil {
			return err
		}
		s.GlyphStyle, s.Color = m.mark, black
		p.legend = append(p.legend, legendEntry{m.name, []plot.Thumbnailer{s}})
	}
	return nil
}

// cells is how many points beside each other an axis shows at most.
const cells = 300

// thinned are the points that are drawn in places of their own: of several that would lie on each other it keeps the first.
func thinned(p *plot.Plot, all []Attained) (out []Attained) {
	seen := map[[2]int]bool{}
	cell := func(at, low, high float64) int { return int(math.Log(at/low) / math.Log(high/low) * cells) }
	for _, a := range all {
		if !a.Known() {
			continue
		}
		if key := [2]int{cell(a.Intensity, p.X.Min, p.X.Max), cell(a.Rate, p.Y.Min, p.Y.Max)}; !seen[key] {
			seen[key], out = true, append(out, a)
		}
	}
	return out
}

// Forecast is what a model said of candidates, beside what was measured: ratios of times to the default's.
type Forecast struct {
	Model string
	Pairs []Foretold
}

// Foretold is what a model said of one candidate.
type Foretold struct{ Predicted, Measured float64 }

// Forecasts draws what was measured over what was predicted, both logarithmic, beside the line where both are equal. Without a pair it is an
// error.
func Forecasts(title string, from Source, all []Forecast) (*Picture, error) {
	p := newPlot("", "predicted time / default's time", "measured time / default's time")
	p.X.Scale, p.Y.Scale, p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, spread(6), spread(10)
	out := &Picture{title: title, source: from, plots: []*plot.Plot{p}, columns: 1, size: plotSize}
	var across, up []float64
	for _, f := range all {
		for _, x := range f.Pairs {
			if x.Predicted > 0 && x.Measured > 0 {
				across, up = append(across, x.Predicted), append(up, x.Measured)
			}
		}
	}
	if len(up) == 0 {
		return nil, fmt.Errorf("%s: nothing to draw: no candidate was predicted", title)
	}
	p.X.Min, p.X.Max = view(across)
	p.Y.Min, p.Y.Max = view(up)
	ends := [2]float64{max(p.X.Min, p.Y.Min), min(p.X.Max, p.Y.Max)}
	equal, err := line(plotter.XYs{{X: ends[0], Y: ends[0]}, {X: ends[1], Y: ends[1]}}, style{color: black}, 1)
	if err != nil {
		return nil, err
	}
	p.Add(equal)
	for i, f := range all {
		marks, err := plotter.NewScatter(shownOf(p, f.Pairs))
		if err != nil {
			if len(f.Pairs) == 0 {
				continue
			}
			return nil, err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: styleOf(i).color, Shape: styleOf(i).shape, Radius: 2}
		p.Add(marks)
		out.legend = append(out.legend, legendEntry{f.Model, []plot.Thumbnailer{marks}})
	}
	out.legend = append(out.legend, legendEntry{"as predicted", []plot.Thumbnailer{equal}})
	return out, nil
}

// shownOf are the pairs inside the axes, one in each place.
func shownOf(p *plot.Plot, pairs []Foretold) (out plotter.XYs) {
	var inside []Attained
	for _, x := range pairs {
		if x.Predicted >= p.X.Min && x.Predicted <= p.X.Max && x.Measured >= p.Y.Min && x.Measured <= p.Y.Max {
			inside = append(inside, Attained{x.Predicted, x.Measured})
		}
	}
	for _, a := range thinned(p, inside) {
		out = append(out, plotter.XY{X: a.Intensity, Y: a.Rate})
	}
	return out
}

// Narrow is the picture for a screen of a phone: its plots stand below each other, and are less wide.
func (p *Picture) Narrow() *Picture {
	out := *p
	out.legend, out.columns = append([]legendEntry(nil), p.legend...), 1
	out.size = vg.Point{X: min(p.size.X, 290), Y: min(p.size.Y, 260)}
	return &out
}
