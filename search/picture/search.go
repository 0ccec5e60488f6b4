package picture

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// curve is the trials of one family, or of all families.
type curve struct {
	family string    // "" for all
	trials []int     // the number of each trial among all, from 1
	costs  []float64 // of each trial
	best   plotter.XYs
}

// last is the best cost of a curve.
func (c *curve) last() float64 { return c.best[len(c.best)-1].Y }

// curves returns the curve of all trials and of each family, the best first. It leaves out families without a measured trial.
func curves(tried []tune.Tried) []*curve {
	of := map[string]*curve{}
	for i, t := range tried {
		for _, f := range []string{"", t.Family} {
			if of[f] == nil {
				of[f] = &curve{family: f}
			}
			of[f].trials, of[f].costs = append(of[f].trials, i+1), append(of[f].costs, t.Cost)
		}
	}
	var out []*curve
	for _, f := range slices.Sorted(maps.Keys(of)) {
		c := of[f]
		if c.best = falls(c.trials, tune.BestSoFar(c.costs)); len(c.best) > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *curve) int { return cmp.Compare(a.last(), b.last()) })
	return out
}

// falls returns the trials at which the best cost so far improves, and the last trial. It leaves out infinite costs.
func falls(trials []int, best []float64) (out plotter.XYs) {
	for i, c := range best {
		if !math.IsInf(c, 1) && (len(out) == 0 || c < out[len(out)-1].Y || i == len(best)-1) {
			out = append(out, plotter.XY{X: float64(trials[i]), Y: c})
		}
	}
	return out
}

// Search draws the best time so far over the trials of a search, for each family and for all together. Times are
// divided by the default schedule's. A search without a measured trial is an error.
func Search(title string, from Source, tried []tune.Tried) (*Picture, error) {
	all := curves(tried)
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: nothing to draw: no trial was measured", title)
	}
	p := newPlot("", "trials", "best time so far / default's time")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shares{}
	var samples []float64
	for _, c := range all {
		samples = append(samples, finite(tune.BestSoFar(c.costs))...)
	}
	low, high := view(samples)
	out := &Picture{title: title, source: from, plots: []*plot.Plot{p}, columns: 1, size: plotSize}
	for i, c := range all {
		l, err := c.stairs(i, len(tried))
		if err != nil {
			return nil, err
		}
		p.Add(l)
		text := c.label()
		if c.last() > high {
			text += ", above"
		}
		out.legend = append(out.legend, legendEntry{text, []plot.Thumbnailer{l}})
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, low, high
	p.Add(horizontal(1))
	return out, nil
}

// stairs returns the line of the curve at place i of the legend. A family that is tried no more stays on its level up to the end.
func (c *curve) stairs(i, end int) (*plotter.Line, error) {
	points := c.best
	if points[len(points)-1].X < float64(end) {
		points = append(points, plotter.XY{X: float64(end), Y: c.last()})
	}
	if c.family == "" {
		return stairs(points, style{color: black}, 2.5)
	}
	return stairs(points, styleOf(i), 1)
}

// label is the curve's text in the legend: "dot affine: 0.90, 4 trials".
func (c *curve) label() string {
	trials := "trials"
	if len(c.costs) == 1 {
		trials = "trial"
	}
	return fmt.Sprintf("%s: %.2f, %d %s", cmp.Or(c.family, "all"), c.last(), len(c.costs), trials)
}

// Panel is one plot of Searches.
type Panel struct {
	Title string
	// Costs has the costs of each trial, divided by the default schedule's, 0 for a trial that failed:
	// by method, then by search. A method without a search is left out.
	Costs [][][]float64
}

// The widths of the lines of Searches, in points.
const thin, thick = 0.5, 2.5

// Searches compares methods of searching: for each panel it draws the best cost so far of every search, and each
// method's median. A median ends with the shortest search. Panels without a search are left out.
func Searches(title string, from Source, methods []string, panels []Panel) (*Picture, error) {
	out := &Picture{title: title, source: from, columns: 3, size: vg.Point{X: 215, Y: 200}}
	for i, method := range methods {
		l, err := stairs(plotter.XYs{{}}, styleOf(i), thick)
		if err != nil {
			return nil, err
		}
		out.legend = append(out.legend, legendEntry{method, []plot.Thumbnailer{l}})
	}
	for _, x := range panels {
		p := newPlot(x.Title, "trials", "time / default's")
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shares{}
		var samples []float64
		for i, searches := range x.Costs {
			shown, err := addMethod(p, searches, styleOf(i))
			if err != nil {
				return nil, err
			}
			samples = append(samples, shown...)
		}
		if len(samples) == 0 {
			continue
		}
		p.X.Min = 0
		p.Y.Min, p.Y.Max = view(samples)
		p.Add(horizontal(1))
		out.plots = append(out.plots, p)
	}
	return out, nil
}

// addMethod adds the searches of one method, and their median. It returns the values of all lines at each trial.
func addMethod(p *plot.Plot, searches [][]float64, s style) (samples []float64, _ error) {
	if len(searches) == 0 {
		return nil, nil
	}
	var all [][]float64 // the best so far, of each search
	shortest := math.MaxInt
	for _, costs := range searches {
		all, shortest = append(all, tune.BestSoFar(costs)), min(shortest, len(costs))
	}
	var trials []int
	var middle []float64
	for i := range shortest {
		var costs []float64
		for _, best := range all {
			costs = append(costs, best[i])
		}
		trials, middle = append(trials, i+1), append(middle, timing.Median(costs))
	}
	for i, best := range append(all, middle) {
		points := falls(trials, best[:shortest])
		if len(points) == 0 {
			continue
		}
		width, drawn := thin, style{color: s.color}
		if i == len(all) {
			width, drawn = thick, s
		}
		l, err := stairs(points, drawn, width)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		samples = append(samples, finite(best[:shortest])...)
	}
	return samples, nil
}
