package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
)

// limits prints the page of a file that tmacc bench -check -json has written.
func (x *lab) limits(_ context.Context, args []string) error {
	f := x.flags("limits")
	if err := x.parse(f, args, 1); err != nil {
		return err
	}
	data, err := os.ReadFile(f.Arg(0))
	if err != nil {
		return err
	}
	c, err := bench.ParseChecked(data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Arg(0), err)
	}
	_, err = io.WriteString(x.out, checked{c}.page(filepath.Base(f.Arg(0))))
	return err
}

// checked is the outcome of a check, which pages show.
type checked struct{ bench.Checked }

// limitsHead is the page of limits above its table.
const limitsHead = `# What %[1]s reach

Written by %[2]sgo run ./tests/lab limits %[3]s%[2]s from the file of that name beside this page. The file is the output of
%[2]stmacc bench -json -check %[4]s%[2]s.
`

// limitsAsked is the page of limits between its table and the verdicts.
const limitsAsked = `
## Required limits

Limits are the figures of hand-written kernels (%s). A limit in cycles is scaled to another machine: by the speed of its mix of
instructions there, and by what the caches there send. The limit or its scaled value counts, whichever is easier to keep.

%s

`

// page is docs/lab/limits.md, from records in a file of that name.
func (x checked) page(records string) string {
	limits := home + "/" + x.About.Limits
	var b strings.Builder
	fmt.Fprintf(&b, limitsHead, x.schedules(), "`", records, limits)
	fmt.Fprintf(&b, "%s\n\n%s", x.how(), x.table(func(measure.Record) bool { return true }))
	fmt.Fprintf(&b, limitsAsked, limits, x.holding())
	b.WriteString("```\n")
	for _, v := range x.Verdicts {
		fmt.Fprintln(&b, v)
	}
	b.WriteString("```\n")
	return b.String()
}

// schedules names the schedules that were measured.
func (x checked) schedules() string {
	if slices.ContainsFunc(x.Records, func(r measure.Record) bool { return r.Tuned }) {
		return "tuned schedules"
	}
	return "default schedules"
}

// summary is the table of docs/benchmarks.md: all formats of the first record's target, which is the best one of its machine, and of other targets the
// formats that all targets are compared by.
func (x checked) summary() string {
	return x.how() + "\n\n" + x.table(func(r measure.Record) bool {
		return r.Target == x.Records[0].Target || slices.Contains([]string{"w1", "w2", "w4"}, r.Format)
	}) + "\n" + x.holding() + "\n"
}

// how says where and how the figures were measured.
func (x checked) how() string {
	rounds := 0
	for _, v := range x.Verdicts {
		rounds = max(rounds, v.Rounds)
	}
	best := x.Records[0].Target
	return fmt.Sprintf(`One thread, one packed buffer for every N, through the runtime's %[1]sGemm%[1]s. Figures are medians of %[2]d interleaved rounds, of the best of 11 samples each. They were measured on
%[3]s; %[4]s, tmacc %[5]s.

Ceilings of the same run: %[6]s GB/s read from memory, %[7]s G int8 products/s (%[8]s), %[9]s GHz. *dram* is GEMV, 4096 x 4096, with weights out of memory; its share of the read bandwidth counts
nominal bits (1.6 for ternary). *l2* is a 512 x 2048 tile. *GEMM* is N = %[10]d, 4096 x 4096, with activations prepared before; its share is of the int8 peak of the row's target.`, "`", rounds, x.About.Host, x.About.Date, x.About.Commit,
		x.span("%.0f", func(r measure.Record) (float64, bool) { return r.CeilingGBS, r.Mode == measure.ModeDRAM }),
		x.span("%.0f", func(r measure.Record) (float64, bool) { return r.CeilingGMACS, r.Target == best }), best,
		x.span("%.1f", func(r measure.Record) (float64, bool) { return r.ClockGHz, true }), measure.ManyColumns)
}

// span is the range of a figure, over the records that count: "39 to 41".
func (x checked) span(format string, of func(measure.Record) (figure float64, counts bool)) string {
	var all []float64
	for _, r := range x.Records {
		if f, ok := of(r); ok {
			all = append(all, f)
		}
	}
	if all == nil {
		return "?"
	}
	return fmt.Sprintf(format+" to "+format, slices.Min(all), slices.Max(all))
}

// table has a line for each format and target of the wanted records.
func (x checked) table(want func(measure.Record) bool) string {
	var b strings.Builder
	b.WriteString("| format | target | bits/weight | dram Gweights/s | dram share | l2 weights/cycle | GEMM GMAC/s | GEMM share |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	type row struct{ format, target string }
	cells := map[row][3]string{}
	var order []row
	for _, r := range x.Records {
		id := row{r.Format, r.Target}
		c, ok := cells[id]
		if !want(r) || r.Extreme {
			continue
		}
		if !ok {
			c = [3]string{fmt.Sprintf("%.4g |  | ", r.BitsPerWeight), "", " | "}
			order = append(order, id)
		}
		switch {
		case r.N == 1 && r.Mode == measure.ModeDRAM:
			c[0] = fmt.Sprintf("%.4g | %.0f | %.2f", r.BitsPerWeight, r.GWeightsS, r.Share)
		case r.N == 1 && r.Mode == measure.ModeL2:
			c[1] = fmt.Sprintf("%.0f", r.WeightsPerCycle)
		case r.N == measure.ManyColumns:
			c[2] = fmt.Sprintf("%.0f | %.2f", r.GWeightsS, r.Share)
		}
		cells[id] = c
	}
	for _, id := range order {
		c := cells[id]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", id.format, id.target, c[0], c[1], c[2])
	}
	return b.String()
}

// holding counts the limits that hold, and names those that hold only after scaling.
func (x checked) holding() string {
	asked, missed := 0, 0
	var scaled []string
	for _, v := range x.Verdicts {
		switch raw := v.Factor * v.Limit; {
		case v.Skipped:
			continue
		case v.Failed():
			missed++
		case v.AtMost && v.Have > raw, !v.AtMost && v.Have < raw:
			scaled = append(scaled, fmt.Sprintf("%s %s %s", v.Target, v.Format, v.Rule))
		}
		asked++
	}
	text := hold(asked-missed, asked, "limits")
	switch len(scaled) {
	case 0:
		return text + "."
	case 1:
		return text + "; one (" + scaled[0] + ") holds only after scaling to this machine."
	}
	return fmt.Sprintf("%s; %d of them hold only after scaling to this machine: %s.", text, len(scaled), strings.Join(scaled, "; "))
}

// hold says how many of all things hold: "All 46 limits hold".
func hold(n, all int, things string) string {
	if n == all {
		return fmt.Sprintf("All %d %s hold", all, things)
	}
	return fmt.Sprintf("%d of %d %s hold", n, all, things)
}
