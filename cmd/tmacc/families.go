package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// familyFormats are compared if -format names none: those whose codes make an index.
var familyFormats = []string{"w1", "ternary", "w2", "w3", "w4", "iq4nl"}

// familyPlaces are what families are compared at.
var familyPlaces = []bench.Place{
	{Mode: measure.ModeL2, M: 512, K: 2048, Ns: []int{1}},
	{Mode: measure.ModeL3, M: 4096, K: 4096, Ns: []int{1}},
	{Mode: measure.ModeDRAM, M: 4096, K: 4096, Ns: []int{1, 4}},
	{Mode: measure.ModeL2, M: 512, K: 2048, Ns: []int{64}},
}

type familiesFlags struct {
	formats []string
	targets []string
	out     string
	rounds  int
	tables  int
	quiet   bool
	command string // with the flags that were given
}

func (c *cli) families() *cobra.Command {
	var x familiesFlags
	cmd := &cobra.Command{
		Use: "families", Args: between(0, 0),
		Short: "measure where tables win and where dot products do",
		Long: `Measure the default dot-product schedules and the schedules by tables that are estimated
best of every format on every target of this machine, and write a page of the ratios of
their speeds, families.md, and a plot, families.svg. Rounds take the targets of a format in
turn; the files are written after each format: a run that is stopped leaves those it has.`,
		Example: "  tmacc families -o docs/lab",
	}
	f := cmd.Flags()
	f.StringSliceVar(&x.formats, "format", familyFormats, "weight formats, separated by commas")
	f.StringSliceVar(&x.targets, "target", []string{allWord}, "targets, or all that this machine runs; may be repeated")
	f.StringVarP(&x.out, "out", "o", ".", "`folder` of families.md and families.svg")
	f.IntVar(&x.rounds, "rounds", 3, "rounds of which the median counts")
	f.IntVar(&x.tables, "tables", 3, "schedules by tables to measure, of which the quickest counts at each place")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if x.rounds < 1 || x.rounds > 1000 {
			return fmt.Errorf("-rounds %d: want 1 to 1000", x.rounds)
		}
		if x.tables < 1 || x.tables > 100 {
			return fmt.Errorf("-tables %d: want 1 to 100", x.tables)
		}
		x.command = "go run ./cmd/tmacc families"
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Name != "quiet" {
				x.command += " -" + strings.TrimSuffix(f.Name+" "+strings.Trim(f.Value.String(), "[]"), " ")
			}
		})
		return c.compareFamilies(cmd.Context(), x)
	}
	return cmd
}

// contest is a product of one target by both families: by dot products, and by some
// tables.
type contest struct {
	format, target string
	entrants       []*entrant // the first is by dot products
}

// entrant is one schedule in a contest.
type entrant struct {
	bench.Subject
	tables string      // what its tables are
	speeds [][]float64 // by round and place
}

func (c *cli) compareFamilies(ctx context.Context, x familiesFlags) error {
	if err := canBeFolder(x.out); err != nil { // now, not when all is measured
		return err
	}
	ts, err := targetsHere(x.targets)
	if err != nil {
		return err
	}
	if err := mapping("families"); err != nil {
		return err
	}
	if err := os.MkdirAll(x.out, 0o777); err != nil { // now, not after the first format
		return plain(err)
	}
	bar := newProgress(c.err, x.quiet)
	defer bar.done()
	bar.step("assembling what shows what this machine can do")
	g, err := bench.NewGauge(timing.Options{Rounds: 5})
	if err != nil {
		return err
	}
	defer g.Close()
	var all []*contest
	var skipped []string
	for _, name := range x.formats {
		measured, refused, err := c.compareTargets(ctx, name, ts, x, g, bar)
		if err != nil {
			return err
		}
		all, skipped = append(all, measured...), append(skipped, refused...)
		if len(all) == 0 {
			continue
		}
		if err := writeFamilies(x, all, skipped, g); err != nil {
			return err
		}
	}
	bar.done()
	c.noteBusy(g)
	if len(all) == 0 {
		return fmt.Errorf("nothing to compare: %s", strings.Join(skipped, "; "))
	}
	return nil
}

// compareTargets measures one format on all targets, interleaved, and says of which
// there is nothing to compare.
func (c *cli) compareTargets(ctx context.Context, name string, ts []lower.Target, x familiesFlags, g *bench.Gauge, bar *progress) (all []*contest, skipped []string, _ error) {
	for _, t := range ts {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		bar.step("compiling %s for %s", name, t.Machine().ShortName())
		k, codes, err := c.contest(ctx, name, t, x.tables)
		for _, code := range codes {
			defer code.Close()
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if none := (*noSchedule)(nil); errors.As(err, &none) {
			skipped = append(skipped, err.Error())
			continue
		}
		if err != nil { // a wrong kernel is not one that there is not, nor is one that this machine cannot run now
			return nil, nil, err
		}
		all = append(all, k)
	}
	for round := range x.rounds {
		for _, k := range all {
			bar.step("round %d of %d: %s on %s", round+1, x.rounds, k.format, k.target)
			if err := k.run(ctx, g); err != nil {
				return nil, nil, err
			}
		}
	}
	return all, skipped, nil
}

// noSchedule says that a family has no schedule for a product: there is nothing to compare.
type noSchedule struct{ error }

func (e *noSchedule) Unwrap() error { return e.error }

// contest compiles both families, up to n schedules by tables. The error is a *noSchedule if one of them has none.
func (c *cli) contest(ctx context.Context, name string, t lower.Target, n int) (*contest, []*live.Code, error) {
	w, err := c.benchWeight(name)
	if err != nil {
		return nil, nil, err
	}
	p, err := actFlags{actInt8, usualGroup}.problem(w)
	if err != nil {
		return nil, nil, err
	}
	tables, err := search.TableUses(ctx, p, t, n)
	if err != nil {
		return nil, nil, &noSchedule{err}
	}
	dots, err := search.DotUses(ctx, p, t)
	if err != nil {
		return nil, nil, &noSchedule{err}
	}
	k := &contest{format: name, target: t.Machine().ShortName()}
	var codes []*live.Code
	for i, uses := range append([][]search.Use{dots}, tables...) {
		s, code, err := subjectOf(ctx, p, t, uses)
		if err != nil {
			return nil, codes, err
		}
		e := &entrant{Subject: s}
		if i > 0 {
			e.tables = tableName(uses[0].Trace)
		}
		k.entrants, codes = append(k.entrants, e), append(codes, code)
	}
	return k, codes, nil
}

// tableName says how a trace makes indices, and what entries are: "signs 5 5 6 i16".
func tableName(t schedule.Trace) string {
	d, q := t[0].(schedule.Decompose), t[1].(schedule.QuantizeTable)
	text := fmt.Sprint(d.Value, " ", strings.Trim(fmt.Sprint(d.Parts), "[]"), " ", q.Kind)
	if d.Mirror {
		text += " mirrored"
	}
	return text
}

func subjectOf(ctx context.Context, p ir.Problem, t lower.Target, uses []search.Use) (bench.Subject, *live.Code, error) {
	v, err := build.Variant(ctx, p, t, uses)
	if _, refused := search.Refusal(err); refused {
		return bench.Subject{}, nil, &noSchedule{err}
	}
	if err != nil {
		return bench.Subject{}, nil, err
	}
	code, err := live.Assemble(p, v)
	if err != nil {
		return bench.Subject{}, nil, err
	}
	product, err := code.Product()
	if err != nil {
		code.Close()
		return bench.Subject{}, nil, err
	}
	return bench.Subject{Problem: p, Variant: v, Product: product}, code, nil
}

// run measures all entrants at every place.
func (k *contest) run(ctx context.Context, g *bench.Gauge) error {
	for _, e := range k.entrants {
		var row []float64
		for _, at := range familyPlaces {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			records, err := g.Measure(e.Subject, at)
			if err != nil {
				return err
			}
			for _, r := range records {
				row = append(row, r.GWeightsS)
			}
		}
		e.speeds = append(e.speeds, row)
	}
	return nil
}

// columns names what run measures.
func columns() []string {
	var out []string
	for _, at := range familyPlaces {
		for _, n := range at.Ns {
			name := fmt.Sprintf("%s N=%d", at.Mode, n)
			if n > 8 {
				name = fmt.Sprintf("GEMM N=%d", n)
			}
			out = append(out, name)
		}
	}
	return out
}

// median is that of all rounds at a place.
func (e *entrant) median(at int) float64 {
	var xs []float64
	for _, row := range e.speeds {
		xs = append(xs, row[at])
	}
	return timing.Median(xs)
}

// best is the quickest entrant by tables at a place.
func (k *contest) best(at int) *entrant {
	return slices.MaxFunc(k.entrants[1:], func(x, y *entrant) int { return cmp.Compare(x.median(at), y.median(at)) })
}

// ratio is its speed over that of dot products.
func (k *contest) ratio(at int) float64 { return k.best(at).median(at) / k.entrants[0].median(at) }

// tables names the entrants by tables that are quickest somewhere, and numbers all.
func (k *contest) tables() (text string, number map[*entrant]int) {
	number = map[*entrant]int{}
	var names []string
	for at := range columns() {
		if e := k.best(at); number[e] == 0 {
			number[e] = len(number) + 1
			names = append(names, fmt.Sprintf("%d: %s", number[e], e.tables))
		}
	}
	return strings.Join(names, "<br>"), number
}

func writeFamilies(x familiesFlags, all []*contest, skipped []string, g *bench.Gauge) error {
	var from source
	from.add(g.Lab.Host.CPU, today(), commit())
	page := familiesPage(x.command, all, skipped, from)
	if err := writeFile(filepath.Join(x.out, "families.md"), []byte(page)); err != nil {
		return err
	}
	picture, err := familiesPicture(columns(), familyRows(all), from)
	if err != nil {
		return err
	}
	return picture.save(filepath.Join(x.out, "families.svg"))
}

func familiesPage(command string, all []*contest, skipped []string, from source) string {
	var b strings.Builder
	tables, rounds := 0, len(all[0].entrants[0].speeds)
	for _, k := range all {
		tables = max(tables, len(k.entrants)-1)
	}
	fmt.Fprintf(&b, `# Where tables win

A product of low-bit weights can be computed by dot products of decoded weights, or by lookups in tables of activation
sums. Which is faster depends on the format, the instruction set, and on where the weights are. This page is measured:

    %s

by one thread; %s. Each cell is the speed of the quickest of the %d schedules by tables that are estimated best over that of the default one
by dot products, and in parentheses the speed by tables in weights (multiply-accumulates) per ns, the median of %d interleaved
rounds, without the preparation of activations, and behind it which tables. *Tables* says how their index is made: of which digits (each
bit as -1 or +1: signs), how many for each part; and what entries are: of 16 bits (i16), bytes of a lower and an upper half (split),
or bytes with residuals (u8).

`, command, from, tables, rounds)
	fmt.Fprintf(&b, "| format | target | tables | %s |\n|---|---|---|%s\n", strings.Join(columns(), " | "), strings.Repeat("---:|", len(columns())))
	for _, k := range all {
		names, number := k.tables()
		fmt.Fprintf(&b, "| %s | %s | %s |", k.format, k.target, names)
		for i := range columns() {
			e := k.best(i)
			cell := fmt.Sprintf("%.2f (%.0f) %d", k.ratio(i), e.median(i), number[e])
			if k.ratio(i) > 1 {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n![ratio of the speeds by format, target and place](families.svg)\n")
	if len(skipped) > 0 {
		fmt.Fprintf(&b, "\nNot compared: %s.\n", strings.Join(skipped, "; "))
	}
	return b.String()
}

// familyRow is a row of the page's table: a format, a target and a ratio for each column, rounded as on the page.
type familyRow struct {
	format, target string
	ratios         []float64
}

// familyRows returns the rows of the page's table.
func familyRows(all []*contest) (out []familyRow) {
	for _, k := range all {
		row := familyRow{format: k.format, target: k.target}
		for i := range columns() {
			row.ratios = append(row.ratios, math.Round(k.ratio(i)*100)/100)
		}
		out = append(out, row)
	}
	return out
}

// familiesPicture draws the ratios: a plot for each format, in it a group of bars for each target and a bar
// for each place. All plots have the same axis.
func familiesPicture(columns []string, rows []familyRow, from source) (*picture, error) {
	out := &picture{title: "Speed by tables over that by dot products, bars in this order", source: from}
	const bar = 9
	byFormat, longest, most, highest := map[string][]familyRow{}, vg.Length(0), 0, 1.0
	var formats []string
	for _, r := range rows {
		if byFormat[r.format] == nil {
			formats = append(formats, r.format)
		}
		byFormat[r.format] = append(byFormat[r.format], r)
		longest, most = max(longest, room(tickStyle, r.target)), max(most, len(byFormat[r.format]))
		highest = max(highest, slices.Max(r.ratios))
	}
	for _, name := range formats {
		p, err := familyPlot(name, byFormat[name], columns, bar)
		if err != nil {
			return nil, err
		}
		p.Y.Min, p.Y.Max = 0, 1.05*highest
		out.plots = append(out.plots, p)
	}
	for i, name := range columns {
		sample, err := plotter.NewBarChart(plotter.Values{1}, bar)
		if err != nil {
			return nil, err
		}
		sample.Color = styleOf(i).color
		out.legend = append(out.legend, legendEntry{name, []plot.Thumbnailer{sample}})
	}
	group := max(bar*vg.Length(len(columns)), longest) + gap
	out.size, out.columns = vg.Point{X: max(group*vg.Length(most)+60, 260), Y: 170}, 1
	if len(formats) > 1 && out.size.X < 400 {
		out.columns = 2
	}
	return out, nil
}

// familyPlot draws the rows of one format.
func familyPlot(name string, rows []familyRow, columns []string, bar vg.Length) (*plot.Plot, error) {
	p := newPlot(name, "", "ratio of speeds")
	for i := range columns {
		var values plotter.Values
		for _, r := range rows {
			values = append(values, r.ratios[i])
		}
		bars, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = styleOf(i).color, 0
		bars.Offset = bar * (vg.Length(i) - vg.Length(len(columns)-1)/2)
		p.Add(bars)
	}
	p.Add(horizontal(1))
	var names []string
	for _, r := range rows {
		names = append(names, r.target)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.X.Padding = -0.5, float64(len(rows))-0.5, 3
	return p, nil
}
