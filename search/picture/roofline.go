package picture

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// roof is what bounds a product: the bandwidth of the memory that its weights are in, and the most that its kernel
// consumes where nothing else keeps it waiting.
type roof struct {
	name   string
	points plotter.XYs // available and effective bandwidth, bytes per cycle of one core
	top    float64     // the most that it consumes, bytes per cycle
}

// onRoof reports whether the roofline draws r: a product of one column by one thread, with ceilings.
func onRoof(r measure.Record) bool {
	return r.N == 1 && r.Threads <= 1 && r.ClockGHz > 0 && r.CeilingGBS > 0 && r.GBS > 0
}

// roofs returns the products that the roofline draws, by format and target. Schedules of a lock are products of their own.
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

// Roofline draws the bandwidth that kernels of one column use over the bandwidth that is available, in bytes per cycle of one
// core. Each product has a line, min(available, what its kernel consumes at most), and a mark for each measurement. Records
// without such a product, or with more products than there are styles, are an error.
func Roofline(records []measure.Record) (*Picture, error) {
	all := roofs(records)
	if len(all) == 0 {
		return nil, errors.New("no records of products with one column by one thread that have ceilings: want the records of tmacc bench -json -n 1")
	}
	if len(all) > maxStyles {
		return nil, fmt.Errorf("%d products for one picture: want at most %d: give records of fewer to each", len(all), maxStyles)
	}
	p := newPlot("", "available bandwidth, bytes per cycle", "effective bandwidth, bytes per cycle")
	out := &Picture{title: "Weights read per cycle of one core", plots: []*plot.Plot{p}, columns: 1, size: plotSize}
	for _, r := range records {
		if onRoof(r) {
			out.source.Add(r.Host, r.Date, r.Commit)
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

// addModes marks the bandwidth that each mode has available, the median of all products, with its name above.
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
		half := float64(room(tickStyle, mode)/2/plotSize.X) * 1.2 * p.X.Max // axes take less than a fifth
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
