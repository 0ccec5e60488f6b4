package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	p("\nerrors: %d", len(x.Errors))
	for _, e := range x.Errors {
		p("  %.1000s", e)
	}
	p("seconds: %v", x.Seconds)
	return b.String()
}

func rateText(p func(string, ...any), name, unit string, r device.Rate) {
	p("%-14s %8.1f %s by %s %s", name, r.Best, unit, r.By, r.Error)
	for _, s := range r.All[:min(shownRates, len(r.All))] {
		p("    %8.1f %s: %s", s.Rate, unit, s.By)
	}
}
