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
	"gonum.org/v1/plot/plotutil"
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

// noFolder says why there is no folder for a file.
func noFolder(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = errors.New("is no folder")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	return nil
}

// savePicture writes p as its name's end says.
func savePicture(p *plot.Plot, path string) error {
	if err := validPicture(path); err != nil {
		return err
	}
	return plain(p.Save(20*vg.Centimeter, 12*vg.Centimeter, path))
}

// black is the colour of what stands for all.
var black = color.RGBA{A: 255}

// line is a line through points, of a width.
func line(points plotter.XYs, c color.Color, width float64) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	l.Color, l.Width = c, vg.Points(width)
	return l, nil
}

// stairs is a line that stays where it is until the next point.
func stairs(points plotter.XYs, c color.Color, width float64) (*plotter.Line, error) {
	l, err := line(points, c, width)
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

// plotSearch draws the best so far over the trials, of each family and of all, by
// shares of the default's time.
func plotSearch(title string, tried []tune.Tried) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "trials", "best time so far / default's time"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shares{}
	p.Legend.Top = true
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
	for i, f := range names {
		points, name, c, width := falls(trials[f], tune.BestSoFar(costs[f])), f, plotutil.Color(i), 1.0
		if points[len(points)-1].X < float64(len(tried)) { // it is not tried any more, and stays as good
			points = append(points, plotter.XY{X: float64(len(tried)), Y: last(f)})
		}
		if f == all {
			name, c, width = "all", black, 2.5
		}
		l, err := stairs(points, c, width)
		if err != nil {
			return nil, err
		}
		if i >= len(plotutil.SoftColors) {
			l.Dashes = plotutil.Dashes(1)
		}
		p.Add(l)
		p.Legend.Add(fmt.Sprintf("%s: %.2f of %d", name, last(f), len(costs[f])), l)
	}
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0.9), max(p.Y.Max, 1.1)
	p.Add(horizontal(1))
	return p, nil
}

// horizontal is a thin line at y.
func horizontal(y float64) *plotter.Function {
	f := plotter.NewFunction(func(float64) float64 { return y })
	f.Color, f.Dashes = color.Gray{128}, plotutil.Dashes(2)
	return f
}

// shares marks a logarithmic axis at few round shares.
type shares struct{}

// Ticks implements plot.Ticker.
func (shares) Ticks(low, high float64) (out []plot.Tick) {
	for _, v := range []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 10, 15, 20} {
		if v >= low && v <= high {
			out = append(out, plot.Tick{Value: v, Label: fmt.Sprint(v)})
		}
	}
	return out
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
	return r.N == 1 && r.Threads <= 1 && r.ClockGHz > 0 && r.CeilingGBS > 0
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
func plotRoofline(records []measure.Record) (*plot.Plot, error) {
	all := roofs(records)
	if len(all) == 0 {
		return nil, fmt.Errorf("no records of products with one column by one thread that have ceilings: want those of tmacc bench -json -n 1")
	}
	p := plot.New()
	p.Title.Text = "weights read per cycle of one core"
	p.X.Label.Text, p.Y.Label.Text = "available bandwidth, bytes per cycle", "effective bandwidth, bytes per cycle"
	p.X.Min, p.Y.Min = 0, 0
	p.Legend.Top, p.Legend.Left = true, true
	right := 0.0
	for _, r := range all {
		for _, at := range r.points {
			right = max(right, at.X)
		}
	}
	for i, r := range all {
		top := min(r.top, right)
		l, err := line(plotter.XYs{{}, {X: top, Y: top}, {X: 1.05 * right, Y: top}}, plotutil.Color(i), 1)
		if err != nil {
			return nil, err
		}
		s, err := plotter.NewScatter(r.points)
		if err != nil {
			return nil, err
		}
		s.Color, s.Shape, s.Radius = plotutil.Color(i), draw.CircleGlyph{}, vg.Points(3)
		p.Add(l, s)
		p.Legend.Add(r.name, l, s)
	}
	return p, addModes(p, records)
}

// addModes marks what is available where weights are: for each mode the median of all products.
func addModes(p *plot.Plot, records []measure.Record) error {
	available := map[string][]float64{}
	for _, r := range records {
		if onRoof(r) {
			available[r.Mode] = append(available[r.Mode], r.CeilingGBS/r.ClockGHz)
		}
	}
	var at plotter.XYLabels
	for _, mode := range slices.Sorted(maps.Keys(available)) {
		x := timing.Median(available[mode])
		l, err := line(plotter.XYs{{X: x}, {X: x, Y: p.Y.Max}}, color.Gray{128}, 0.5)
		if err != nil {
			return err
		}
		l.Dashes = plotutil.Dashes(2)
		p.Add(l)
		at.XYs, at.Labels = append(at.XYs, plotter.XY{X: x}), append(at.Labels, mode)
	}
	labels, err := plotter.NewLabels(at)
	if err == nil {
		p.Add(labels)
	}
	return err
}
