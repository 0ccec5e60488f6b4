package picture

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Group is a group of bars: a ratio for each column.
type Group struct {
	Plot   string // the title of the plot that the group stands in
	Name   string
	Ratios []float64
}

// barWidth is the width of a bar.
const barWidth = 9

// Bars draws groups of bars beside a line at 1: a plot for each title, and in each group a bar for each column. All plots have
// the same axis.
func Bars(title, axis string, from Source, columns []string, groups []Group) (*Picture, error) {
	out := &Picture{title: title, source: from}
	byPlot, longest, most, highest := map[string][]Group{}, vg.Length(0), 0, 1.0
	var titles []string
	for _, g := range groups {
		if byPlot[g.Plot] == nil {
			titles = append(titles, g.Plot)
		}
		byPlot[g.Plot] = append(byPlot[g.Plot], g)
		longest, most = max(longest, room(tickStyle, g.Name)), max(most, len(byPlot[g.Plot]))
		highest = max(highest, slices.Max(g.Ratios))
	}
	for _, name := range titles {
		p, err := barPlot(name, axis, columns, byPlot[name])
		if err != nil {
			return nil, err
		}
		p.Y.Min, p.Y.Max = 0, 1.05*highest
		out.plots = append(out.plots, p)
	}
	for i, name := range columns {
		sample, err := plotter.NewBarChart(plotter.Values{1}, barWidth)
		if err != nil {
			return nil, err
		}
		sample.Color = styleOf(i).color
		out.legend = append(out.legend, legendEntry{name, []plot.Thumbnailer{sample}})
	}
	group := max(barWidth*vg.Length(len(columns)), longest) + gap
	out.size, out.columns = vg.Point{X: max(group*vg.Length(most)+60, 260), Y: 170}, 1
	if len(titles) > 1 && out.size.X < 400 {
		out.columns = 2
	}
	return out, nil
}

// barPlot draws the groups of one plot.
func barPlot(name, axis string, columns []string, groups []Group) (*plot.Plot, error) {
	p := newPlot(name, "", axis)
	for i := range columns {
		var values plotter.Values
		for _, g := range groups {
			values = append(values, g.Ratios[i])
		}
		bars, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = styleOf(i).color, 0
		bars.Offset = barWidth * (vg.Length(i) - vg.Length(len(columns)-1)/2)
		p.Add(bars)
	}
	p.Add(horizontal(1))
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.X.Padding = -0.5, float64(len(groups))-0.5, 3
	return p, nil
}
