package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/device"
)

// shownRates is how many of the shaders of a ceiling the summary has.
const shownRates = 4

// text is the summary.
func (x *lab) text() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s, %s, commit %s, %s", x.Device.Name, x.Device.Driver, x.Commit, x.Date)
	p("host %s; subgroups of %d (%d to %d), shared memory %d, timestamps of %.2f ns, dot %+v", x.Host, x.Device.Subgroup.Size, x.Device.Subgroup.Min, x.Device.Subgroup.Max,
		x.Device.Limits.Shared, x.Device.Limits.Timestamp, x.Device.Dot)
	p("range %d, invocations %d, float controls of 32 bits %+v", x.Device.Limits.Range, x.Device.Limits.Invocations, x.Device.FloatControls[32])
	for _, c := range x.Device.Cooperative {
		p("  cooperative %dx%dx%d %s*%s+%s=%s scope %d saturating %v", c.M, c.N, c.K, c.A, c.B, c.C, c.Result, c.Scope, c.Saturating)
	}
	if c := x.Ceilings; c != nil {
		for _, r := range []struct {
			name, unit string
			rate       device.Rate
		}{{"copy", "GB/s", c.Copy}, {"read", "GB/s", c.Read}, {"dot", "TOPS", c.Dot}, {"multiply-add", "TOPS", c.Multiply}} {
			rateText(p, r.name, r.unit, r.rate)
		}
		for _, r := range c.Matrices {
			rateText(p, r.Kind, "TOPS", r)
		}
		for _, r := range c.Parts {
			p("parts of %4d MiB, one after the other: %6.0f GB/s by %s", r.Bytes>>20, r.GBs, r.By)
		}
		p("launch: alone %.0f ns, one after the other %.0f ns, beside each other %.0f ns", c.LaunchNs.Alone, c.LaunchNs.After, c.LaunchNs.Beside)
	}
	p("\ngoals: one column reads at %.0f %% of %.0f GB/s if weights have %d MiB or more; ggml takes %.1f or %.1f times as long; many columns by 4 bits have %.0f %% of %.0f TOPS%s",
		100*goalReading, x.readPeak(), goalBytes>>20, goalFew, goalMore, 100*goalMatrices, x.matrixPeak(), x.nominal())
	for _, line := range x.goals() {
		p("  %s", line)
	}
	p("\nbest products: problem, shape, MB of weights, ns (device), ns beside each other, ns after a pause, ns (host), GB/s, TOPS, share, checked")
	for _, t := range x.Best {
		p("%-9s %-18v %6.1f MB %9.0f ns %9.0f %9.0f %9.0f %6.0f GB/s %6.1f TOPS %5.1f %% %s, %d lanes: %s", t.Problem, t.Shape, float64(t.Bytes)/1e6, t.Ns, t.BesideNs, t.BurstNs, t.HostNs, t.GBs, t.Tops, 100*t.Share, t.Name, t.Lanes, t.Checked)
	}
	for _, t := range x.Best {
		if t.Series != nil {
			p("runs 1 2 3 5 10 20 50 100 200 300 of %s %v: %.0f ns", t.Problem, t.Shape, t.Series)
		}
	}
	for _, r := range x.Prepared {
		p("%d activations, groups of %d: quantized in %.0f ns by %d lanes, the best of %d schedules", r.K, r.Group, r.Ns, r.Lanes, r.Tried)
	}
	p("\nggml")
	for _, t := range x.Peer {
		p("%-9s %-18v %6.1f MB %9.0f ns %6.0f GB/s %6.1f TOPS %5.1f %% %s", t.Type, t.Shape, float64(t.Bytes)/1e6, t.Ns, t.GBs, t.Tops, 100*t.Share, t.Error)
	}
	p("\nall products by shape, the fastest first")
	all := slices.Clone(x.Products)
	slices.SortFunc(all, func(a, b *timed) int {
		if c := strings.Compare(a.Problem+" "+a.Shape.String(), b.Problem+" "+b.Shape.String()); c != 0 {
			return c
		}
		return cmp.Compare(a.Ns, b.Ns)
	})
	for _, t := range all {
		p("  %-9s %-18v %9.0f ns %6.0f GB/s %6.1f TOPS %5.1f %% lanes %4d compile %.2f s: %s", t.Problem, t.Shape, t.Ns, t.GBs, t.Tops, 100*t.Share, t.Lanes, t.Compile, t.Name)
	}
	p("\nrefused: %d", len(x.Refused))
	for _, r := range x.Refused {
		p("  %s %s: wrong %v: %.300s", r.Problem, r.Name, r.Wrong, r.Why)
	}
	p("seconds: %v", x.Seconds)
	if len(x.Errors) == 0 {
		p("\nall parts ran: %s", x.parts)
	} else {
		p("\nfailed: %d, the rest ran", len(x.Errors))
	}
	for _, e := range x.Errors {
		p("  %.1000s", e)
	}
	return b.String()
}

// What products shall reach: a part of the rate of reading by one column, for weights of some bytes and more; how many times as long ggml takes by 2 bits and
// fewer, and by more; a part of the rate of matrices by many columns.
const (
	goalReading        = 0.8
	goalBytes          = 64 << 20
	goalFew, goalMore  = 2.0, 1.2
	goalMatrices       = 0.6
	goalBits, goalGemm = 2, 4
)

// goals says of each problem and shape which goals its best product has reached, or that there is none.
func (x *lab) goals() (lines []string) {
	for _, s := range hardest(slices.Concat(x.shapes([]int{1}), x.shapes([]int{512}))) {
		for _, problem := range strings.Split(x.problems, ",") {
			i := slices.IndexFunc(x.Best, func(t *timed) bool { return t.Problem == problem && t.Shape == s })
			if i < 0 {
				lines = append(lines, fmt.Sprintf("%-12s %-18v not measured", problem, s))
				continue
			}
			lines = append(lines, x.reached(x.Best[i]))
		}
	}
	return lines
}

// reached is a line about a product.
func (x *lab) reached(t *timed) string {
	verdict := func(reached bool) string {
		if reached {
			return "reached"
		}
		return "missed"
	}
	line := fmt.Sprintf("%-12s %-18v %5.1f %%", t.Problem, t.Shape, 100*t.Share)
	w, err := format.Lookup(t.Problem)
	switch {
	case err != nil || t.Share == 0:
	case t.Shape.N > 1 && w.Bound == goalGemm:
		line += " " + verdict(t.Share >= goalMatrices)
	case t.Shape.N == 1 && t.Bytes >= goalBytes:
		line += " " + verdict(t.Share >= goalReading)
	}
	p, ok := x.beside(t.Problem, t.Shape)
	if !ok {
		return line + ", no product of ggml beside it"
	}
	line += fmt.Sprintf(", ggml's %s %.2f times", p.Type, p.Ns/t.Ns)
	if goal := map[bool]float64{true: goalFew, false: goalMore}[w.Bound <= goalBits]; t.Shape.N == 1 {
		line += " " + verdict(p.Ns >= goal*t.Ns)
	}
	return line
}

// nominal is the data sheet's rate of matrices, if it was given.
func (x *lab) nominal() string {
	if x.Nominal == 0 {
		return ""
	}
	return fmt.Sprintf(" (the data sheet has %.0f TOPS)", x.Nominal)
}

func rateText(p func(string, ...any), name, unit string, r device.Rate) {
	p("%-14s %8.1f %s by %s %s", name, r.Best, unit, r.By, r.Error)
	for _, s := range r.All[:min(shownRates, len(r.All))] {
		p("    %8.1f %s: %s", s.Rate, unit, s.By)
	}
}
