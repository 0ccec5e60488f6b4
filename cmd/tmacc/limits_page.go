package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// limitCheck is what bench -check measured: the median round of each measurement, and what the rules say of all rounds.
type limitCheck struct {
	about    about
	records  []measure.Record
	verdicts []measure.Verdict
}

// about says where and by what it was measured.
type about struct {
	Limits string `json:"limits"` // the name of their file
	Host   string `json:"host"`
	Date   string `json:"date"`
	Commit string `json:"commit"` // of tmacc
}

func aboutHere(limits string) about {
	return about{filepath.Base(limits), timing.ThisHost().String(), today(), commit()}
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

// encode writes x as lines of JSON, which parseLimitCheck reads.
func (x limitCheck) encode(to io.Writer) {
	e := json.NewEncoder(to)
	e.Encode(x.about)
	for _, r := range x.records {
		e.Encode(r)
	}
	for _, v := range x.verdicts {
		e.Encode(v)
	}
}

// parseLimitCheck reads what encode writes; ok says whether it begins as that does.
func parseLimitCheck(data []byte) (x limitCheck, ok bool, err error) {
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if format.UnmarshalStrict(lines[0], &x.about) != nil || x.about.Limits == "" {
		return x, false, nil
	}
	for i, line := range lines[1:] {
		var r measure.Record
		var v measure.Verdict
		switch {
		case format.UnmarshalStrict(line, &r) == nil && r.Ns > 0:
			x.records = append(x.records, r)
		case format.UnmarshalStrict(line, &v) == nil && v.Rule != "":
			x.verdicts = append(x.verdicts, v)
		default:
			return x, true, fmt.Errorf("line %d: not one of bench -check -json", i+2)
		}
	}
	if len(x.records) == 0 || len(x.verdicts) == 0 {
		return x, true, fmt.Errorf("no records and verdicts")
	}
	return x, true, nil
}

// page is docs/lab/limits.md.
func (x limitCheck) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What %[6]s reach

Written by %[1]stmacc bench -md limits.jsonl%[1]s from the file of that name beside this page, which is what %[1]stmacc bench -json -check docs/lab/%[2]s%[1]s printed.
%[3]s

%[4]s
## What is asked

Limits are those of hand-written kernels (docs/lab/%[2]s); figures in cycles are scaled to other machines by what the mix of their instructions reaches there and its caches send, and the one easier to keep
counts. %[5]s

`, "`", x.about.Limits, x.how(), x.table(func(measure.Record) bool { return true }), x.holding(), x.schedules())
	b.WriteString("```\n")
	for _, v := range x.verdicts {
		fmt.Fprintln(&b, v)
	}
	b.WriteString("```\n")
	return b.String()
}

// schedules are those that were measured.
func (x limitCheck) schedules() string {
	if slices.ContainsFunc(x.records, func(r measure.Record) bool { return r.Tuned }) {
		return "tuned schedules"
	}
	return "default schedules"
}

// summary is the table of docs/benchmarks.md: all of the target of the first record, which is the best one here, and of others
// what every target is compared by.
func (x limitCheck) summary() string {
	return x.how() + "\n\n" + x.table(func(r measure.Record) bool {
		return r.Target == x.records[0].Target || slices.Contains([]string{"w1", "w2", "w4"}, r.Format)
	}) + "\n" + x.holding() + "\n"
}

// how says what was measured where.
func (x limitCheck) how() string {
	rounds := 0
	for _, v := range x.verdicts {
		rounds = max(rounds, v.Rounds)
	}
	span := func(format string, of func(measure.Record) (figure float64, counts bool)) string {
		var all []float64
		for _, r := range x.records {
			if f, ok := of(r); ok {
				all = append(all, f)
			}
		}
		if all == nil {
			return "?"
		}
		return fmt.Sprintf(format+" to "+format, slices.Min(all), slices.Max(all))
	}
	best := x.records[0].Target
	return fmt.Sprintf(`One thread, one packed buffer for every N, through the runtime's %[1]sGemm%[1]s; medians of %[2]d interleaved rounds, of each the best of 11 samples. %[3]s; %[4]s, tmacc %[5]s. Ceilings of the same run:
%[6]s GB/s read from memory, %[7]s G int8 products/s (%[8]s), %[9]s GHz. *dram*: GEMV 4096 x 4096 with weights out of memory, the share of that bandwidth counts nominal bits (1.6 for ternary). *l2*: a 512 x 2048 tile.
*GEMM*: N = %[10]d, 4096 x 4096, share of the int8 peak of the row's target; activations are prepared before.`, "`", rounds, x.about.Host, x.about.Date, x.about.Commit,
		span("%.0f", func(r measure.Record) (float64, bool) { return r.CeilingGBS, r.Mode == measure.ModeDRAM }),
		span("%.0f", func(r measure.Record) (float64, bool) { return r.CeilingGMACS, r.Target == best }), best,
		span("%.1f", func(r measure.Record) (float64, bool) { return r.ClockGHz, true }), measure.ManyColumns)
}

// table has a line for each format and target of the records that are wanted.
func (x limitCheck) table(want func(measure.Record) bool) string {
	var b strings.Builder
	b.WriteString("| format | target | bits/weight | dram Gweights/s | dram share | l2 weights/cycle | GEMM GMAC/s | GEMM share |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	type row struct{ format, target string }
	cells := map[row][3]string{}
	var order []row
	for _, r := range x.records {
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

// holding counts what is asked and holds, and names what does only as scaled.
func (x limitCheck) holding() string {
	asked, missed := 0, 0
	var scaled []string
	for _, v := range x.verdicts {
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
	text := fmt.Sprintf("%d of %d limits hold", asked-missed, asked)
	if len(scaled) > 0 {
		text += ", only as scaled to this machine: " + strings.Join(scaled, "; ")
	}
	return text + "."
}
