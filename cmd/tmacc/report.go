package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// speed is what a kernel reached on this machine.
type speed struct {
	GEMV      float64 `json:"gweights_s"` // weights per ns, as many activations as the kernel has columns, out of DRAM
	ReadShare float64 `json:"dram_share"`
	GEMM      float64 `json:"gmac_s,omitempty"` // 256 activations, by the widest kernel
	DotShare  float64 `json:"peak_share,omitempty"`
}

// quick measures in a few seconds.
var quick = timing.Options{Rounds: 9, MinSample: time.Millisecond}

// measureAll is the speed of each kernel that was checked, by its name.
func (x *compilation) measureAll(ctx context.Context) (map[string]speed, error) {
	speeds := map[string]speed{}
	if len(x.codes) == 0 {
		return speeds, nil
	}
	x.bar.step("measuring what this machine can do")
	g, err := bench.NewGauge(quick)
	if err != nil {
		return speeds, err
	}
	defer g.Close()
	for _, w := range x.products {
		for i := range w.product.Variants {
			t := &w.product.Variants[i]
			if x.codes[t] == nil {
				continue
			}
			if err := x.measure(ctx, g, w, t, speeds); err != nil {
				return speeds, err
			}
		}
	}
	x.bar.done()
	x.noteBusy(g)
	return speeds, nil
}

// measure adds the speeds of the kernels of one target.
func (x *compilation) measure(ctx context.Context, g *bench.Gauge, w *wanted, t *variant.Variant, speeds map[string]speed) error {
	product, err := x.codes[t].Product()
	if err != nil {
		return err
	}
	s := bench.Subject{Problem: w.Problem, Variant: *t, Product: product}
	m, k := w.largest()
	var ns []int
	for _, k := range t.Kernels {
		ns = append(ns, k.Schedule.Cols)
	}
	at := func(mode string, ns ...int) ([]measure.Record, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x.bar.step("measuring %s on %s, %d activations", w.Problem.Name(), t.Target.Machine().Name, ns[len(ns)-1])
		return g.Measure(ctx, s, bench.Place{Mode: mode, M: m, K: k, Ns: ns})
	}
	records, err := at(measure.ModeDRAM, ns...)
	if err != nil {
		return err
	}
	for i, k := range t.Kernels {
		r := records[i]
		speeds[w.product.KernelName(t, k.Name())] = speed{GEMV: r.GWeightsS / float64(r.N), ReadShare: r.ReadShare}
	}
	if records, err = at(measure.ModeL3, measure.ManyColumns); err != nil {
		return err
	}
	last := w.product.KernelName(t, t.Kernels[len(t.Kernels)-1].Name())
	widest := speeds[last]
	widest.GEMM, widest.DotShare = records[0].GWeightsS, records[0].Share
	speeds[last] = widest
	return nil
}

// Matrices of more elements are measured no better, only longer.
const largeMatrix = 32 << 20

// largest is the shape to measure w at: its largest up to largeMatrix elements.
func (w *wanted) largest() (m, k int) {
	for _, s := range w.Shapes {
		if s.M*s.K > m*k && s.M <= largeMatrix/s.K {
			m, k = s.M, s.K
		}
	}
	if m*k == 0 {
		m, k = measure.Shape(measure.ModeDRAM)
		k = w.Problem.WholeK(k)
	}
	return m, k
}

// The report as JSON.
type (
	jsonReport struct {
		Package  string        `json:"package"`
		Dir      string        `json:"dir"`
		Module   string        `json:"module,omitempty"`
		Files    []string      `json:"files"`
		Products []jsonProduct `json:"products"`
		Others   []string      `json:"no_matrices,omitempty"`
		Left     []order.Left  `json:"left_out,omitempty"`
	}
	jsonProduct struct {
		Name     string        `json:"name"`
		Format   string        `json:"format"`
		Tuned    []string      `json:"tuned,omitempty"`  // targets whose schedules the lock has; others have default ones,
		Traced   []string      `json:"traced,omitempty"` // or those of a given trace
		ActGroup int           `json:"act_group"`
		Shapes   []order.Shape `json:"shapes,omitempty"`
		Kernels  []jsonKernel  `json:"kernels,omitempty"` // once they are compiled
	}
	jsonKernel struct {
		Name   string         `json:"name"`
		Target string         `json:"target"`
		Rows   int            `json:"rows"`
		Cols   int            `json:"cols"`
		Bits   float64        `json:"bits_per_weight"`        // codes
		Stored float64        `json:"stored_bits_per_weight"` // and scales
		Exact  exactness      `json:"exact"`
		Trace  schedule.Trace `json:"trace"`
		Speed  *speed         `json:"speed,omitempty"` // on this machine
	}
)

// jsonCheck is what -check -json prints.
type jsonCheck struct {
	Package     string       `json:"package"`
	Dir         string       `json:"dir"`
	Files       []string     `json:"files"`       // that the package has
	Differences []string     `json:"differences"` // files that are others there, are missing or should not be there
	Misfits     []string     `json:"misfits"`     // entries of the lock that do not fit, and what to do
	Left        []order.Left `json:"left_out,omitempty"`
}

// wrong says what makes the check fail, a line for each.
func (r jsonCheck) wrong() []string {
	if len(r.Differences) == 0 {
		return r.Misfits
	}
	files := fmt.Sprintf("%s: not what tmacc compile writes: %s: run tmacc compile, or go generate", r.Dir, strings.Join(r.Differences, ", "))
	return append([]string{files}, r.Misfits...)
}

func fileNames(files []lower.File) []string {
	names := []string{}
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

func (x *compilation) jsonReport(files []lower.File, speeds map[string]speed) jsonReport {
	r := jsonReport{Package: x.pkg, Dir: x.dir, Files: fileNames(files), Others: x.Others, Left: x.Left}
	if x.mod != nil {
		r.Module = x.mod.Path
	}
	for _, w := range x.products {
		p := jsonProduct{Name: w.product.Name, Format: w.Problem.Name(), ActGroup: w.Problem.Act.Group, Shapes: w.Shapes, Traced: w.Traced(x.targets)}
		_, atK := w.largest()
		for _, t := range w.product.Variants {
			if x.locked(w, t.Target) != nil {
				p.Tuned = append(p.Tuned, t.Target.Machine().Name)
			}
		}
		for _, t := range w.product.Variants {
			for _, k := range t.Kernels {
				s, name := k.Schedule, w.product.KernelName(&t, k.Name())
				j := jsonKernel{Name: name, Target: t.Target.Machine().Name, Rows: s.Rows, Cols: s.Cols, Bits: s.Weights.Part(format.Codes).CodeBits(),
					Stored: bench.StoredBits(s.Weights, atK), Exact: x.exact[name], Trace: s.Trace}
				if v, ok := speeds[name]; ok {
					j.Speed = &v
				}
				p.Kernels = append(p.Kernels, j)
			}
		}
		r.Products = append(r.Products, p)
	}
	return r
}

// report ends the command.
func (x *compilation) report(files []lower.File, speeds map[string]speed) error {
	r := x.jsonReport(files, speeds)
	if x.json {
		return printJSON(x.out, r)
	}
	if x.noMeasure {
		fmt.Fprintln(x.out, x.summary(r))
		x.printLeft()
		return nil
	}
	w := x.out
	t := table{head: []string{"kernel", "trace", "bits/w", "exact", "GEMV Gw/s", "of DRAM", "GEMM GMAC/s", "of peak"}, wide: 1, parts: "; "}
	for _, p := range r.Products {
		for _, k := range p.Kernels {
			row := []any{k.Name, k.Trace, fmt.Sprintf("%.2f", k.Stored), k.Exact, "-", "-", "-", "-"}
			if s := k.Speed; s != nil {
				row[4], row[5] = fmt.Sprintf("%.1f", s.GEMV), fmt.Sprintf("%.2f", s.ReadShare)
				if s.GEMM > 0 {
					row[6], row[7] = fmt.Sprintf("%.0f", s.GEMM), fmt.Sprintf("%.2f", s.DotShare)
				}
			}
			t.add(row...)
		}
	}
	fmt.Fprintf(w, "%s\n\n", x.summary(r))
	t.print(w, widthOf(w))
	if len(speeds) > 0 {
		fmt.Fprintf(w, "\nbits/w: stored bits per weight, scales included. GEMV: weights per ns out of DRAM, all columns\n"+
			"of the kernel, one thread. GEMM: %d activations. Shares: of measured read bandwidth (nominal bits\n"+
			"of the format) and of the peak of int8 dot products.\n", measure.ManyColumns)
	}
	x.printOthers()
	x.printLeft()
	return nil
}

// summary is a line for the package and one for each product.
func (x *compilation) summary(r jsonReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s in %s", r.Package, r.Dir)
	if r.Module != "" {
		fmt.Fprintf(&b, ", module %s", r.Module)
	}
	if x.tested {
		b.WriteString(": builds, vets and passes its tests")
		var elsewhere []string
		for _, t := range x.targets {
			if lacks(t) != "" {
				elsewhere = append(elsewhere, t.Machine().Name)
			}
		}
		if len(elsewhere) > 0 {
			fmt.Fprintf(&b, "; not run here: %s", strings.Join(elsewhere, ", "))
		}
	}
	for _, p := range r.Products {
		act := "one scale per row of activations"
		if strings.HasSuffix(p.Format, ir.FloatSuffix) {
			act = "rounded in the order of the definition"
		} else if p.ActGroup > 0 {
			act = fmt.Sprintf("one scale per %d activations", p.ActGroup)
		}
		fmt.Fprintf(&b, "\n%s: %s weights, %s, %s, %s stored bits per weight", p.Name, p.Format, act, p.schedules(), p.stored())
		for i, s := range p.Shapes {
			sep := ", "
			if i == 0 {
				sep = "; "
			}
			fmt.Fprintf(&b, "%s%d of %d x %d", sep, s.Count, s.M, s.K)
		}
	}
	return b.String()
}

// schedules says where those of p come from.
func (p jsonProduct) schedules() string {
	var from []string
	if p.Tuned != nil {
		from = append(from, fmt.Sprintf("schedules of %s for %s", tune.LockName, strings.Join(p.Tuned, ", ")))
	}
	if p.Traced != nil {
		from = append(from, "given schedules for "+strings.Join(p.Traced, ", "))
	}
	if from == nil {
		return "default schedules"
	}
	return strings.Join(from, ", ")
}

// stored are the bits that a weight takes with its share of scales, of the least target to the most.
func (p jsonProduct) stored() string {
	least, most := math.Inf(1), 0.0
	for _, k := range p.Kernels {
		least, most = min(least, k.Stored), max(most, k.Stored)
	}
	if least == most {
		return fmt.Sprintf("%.2f", least)
	}
	return fmt.Sprintf("%.2f to %.2f", least, most)
}

// mostLeft is how many lines say what was left out.
const mostLeft = 100

// printLeft lists what was left out, a line for each type and reason, with all of the reason, however wide the line.
func (x *compilation) printLeft() {
	if len(x.Left) == 0 || x.json {
		return
	}
	groups := grouped(x.Left)
	t := table{head: []string{"left out", "number", "type", "reason"}, wide: -1}
	for _, group := range groups[:min(mostLeft, len(groups))] {
		var names []string
		for _, l := range group {
			names = append(names, l.Name)
		}
		t.add(rolesOf(names), len(group), group[0].Type, group[0].Reason)
	}
	fmt.Fprintln(x.out)
	t.print(x.out, 0)
	if more := len(groups) - mostLeft; more > 0 {
		fmt.Fprintf(x.out, "and what has %d other reasons: -json lists all\n", more)
	}
}

// grouped is what was left out by type and reason, in the order of the first of each.
func grouped(left []order.Left) (groups [][]order.Left) {
	at := map[order.Left]int{}
	for _, l := range left {
		key := order.Left{Type: l.Type, Reason: l.Reason}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], l)
	}
	return groups
}

// noteBusy says why the figures of g may be wrong.
func (c *cli) noteBusy(g *bench.Gauge) {
	for _, line := range g.Doubts() {
		fmt.Fprintf(c.err, "tmacc: %s\n", line)
	}
}
