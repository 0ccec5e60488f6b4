package command

import (
	"fmt"
	"math"
	"strings"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// quick measures in a few seconds; tests are quicker.
var quick = delivery.Quick

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

// report prints what was made.
func (x *compilation) report() error {
	x.bar.done()
	r := x.made.Report()
	if x.json {
		return printJSON(x.out, r)
	}
	if x.noMeasure {
		fmt.Fprintln(x.out, summary(r))
		x.printLeft()
		return nil
	}
	fmt.Fprintf(x.out, "%s\n\n", summary(r))
	x.printKernels(r)
	x.printOthers()
	x.printLeft()
	return nil
}

// printKernels prints a table of all kernels, with their speeds if they were measured.
func (x *compilation) printKernels(r delivery.Report) {
	measured := false
	t := table{head: []string{"kernel", "trace", "bits/w", "exact", "GEMV Gw/s", "of DRAM", "GEMM GMAC/s", "of peak"}, wide: 1, parts: "; "}
	for _, p := range r.Products {
		for _, k := range p.Kernels {
			row := []any{k.Name, k.Trace, fmt.Sprintf("%.2f", k.Stored), k.Exact, "-", "-", "-", "-"}
			if s := k.Speed; s != nil {
				measured = true
				row[4], row[5] = fmt.Sprintf("%.1f", s.GEMV), fmt.Sprintf("%.2f", s.ReadShare)
				if s.GEMM > 0 {
					row[6], row[7] = fmt.Sprintf("%.0f", s.GEMM), fmt.Sprintf("%.2f", s.DotShare)
				}
			}
			t.add(row...)
		}
	}
	t.print(x.out, widthOf(x.out))
	if measured {
		fmt.Fprintf(x.out, "\nbits/w: stored bits per weight, scales included. GEMV: weights per ns out of DRAM, all columns\n"+
			"of the kernel, one thread. GEMM: %d activations. Shares: of measured read bandwidth (nominal bits\n"+
			"of the format) and of the peak of int8 dot products.\n", measure.ManyColumns)
	}
}

// summary is a line for the package and one for each product.
func summary(r delivery.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s in %s", r.Package, r.Dir)
	if r.Module != "" {
		fmt.Fprintf(&b, ", module %s", r.Module)
	}
	if r.Tested {
		b.WriteString(": builds, vets and passes its tests")
		if len(r.NotHere) > 0 {
			fmt.Fprintf(&b, "; not run here: %s", strings.Join(r.NotHere, ", "))
		}
	}
	for _, p := range r.Products {
		act := "one scale per row of activations"
		if strings.HasSuffix(p.Format, ir.FloatSuffix) {
			act = "rounded in the order of the definition"
		} else if p.ActGroup > 0 {
			act = fmt.Sprintf("one scale per %d activations", p.ActGroup)
		}
		fmt.Fprintf(&b, "\n%s: %s weights, %s, %s, %s stored bits per weight", p.Name, p.Format, act, schedules(p), stored(p))
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

// schedules says where the schedules of p come from.
func schedules(p delivery.Product) string {
	var from []string
	if p.Tuned != nil {
		from = append(from, fmt.Sprintf("schedules of %s for %s", tune.LockName, strings.Join(p.Tuned, ", ")))
	}
	if p.Traced != nil {
		from = append(from, "given schedules for "+strings.Join(p.Traced, ", "))
	}
	if p.Recorded != nil {
		from = append(from, "recorded schedules for "+strings.Join(p.Recorded, ", "))
	}
	if from == nil {
		return "default schedules"
	}
	return strings.Join(from, ", ")
}

// stored is the bits that a weight takes with its share of scales, from the target with the least to the one with the most.
func stored(p delivery.Product) string {
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
