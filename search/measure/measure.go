// Package measure is the basis of tmacc bench: it times functions on a machine
// that others use too, finds out what the machine can do at best (probes), and
// holds measured kernels against that and against the limits of docs/limits.json.
//
// Probes are vector IR like any kernel: they are parsed, lowered and run in this
// process. Where package jit cannot run kernels, neither can this package; the
// formulas and the check work everywhere.
package measure

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/search/timing"
)

// Probe is a piece of work of known size that shows what the machine can do. The
// largest rate of several probes of one kind is called a ceiling.
type Probe struct {
	Name   string
	Unit   string  // of the rate: GB/s, GMAC/s, GHz or Gweights/s
	Amount float64 // of one Run: bytes, multiply-accumulates, cycles or weights
	Run    func()
}

// Rate is in units of Unit when a Run takes ns nanoseconds.
func (p Probe) Rate(ns float64) float64 { return p.Amount / ns }

// togetherRuns is how often each probe runs in one Run of Together: so often that
// waking threads does not count.
const togetherRuns = 32

// Together runs probes of one kind at once, on a thread each: its rate is theirs
// added up. They must not share memory that they write to.
func Together(probes ...Probe) Probe {
	p := Probe{Name: fmt.Sprintf("%d times %s", len(probes), probes[0].Name), Unit: probes[0].Unit}
	for _, each := range probes {
		p.Amount += togetherRuns * each.Amount
	}
	p.Run = func() {
		var others sync.WaitGroup
		for _, each := range probes[1:] {
			others.Go(func() {
				for range togetherRuns {
					each.Run()
				}
			})
		}
		for range togetherRuns {
			probes[0].Run()
		}
		others.Wait()
	}
	return p
}

// Ceiling is the best rate of several probes and the probe that reached it.
type Ceiling struct {
	Probe    string  `json:"probe"`
	Unit     string  `json:"unit"`
	Rate     float64 `json:"rate"`
	PerCycle float64 `json:"per_cycle,omitempty"` // by the clock beside it, where that was measured
}

// Best times probes in interleaved rounds and returns what the fastest reached.
// Without probes it is the zero Ceiling.
func Best(opt timing.Options, probes []Probe) Ceiling {
	return fastest(probes, timing.Time(opt, runs(probes)...), nil)
}

// Pick times probes briefly and returns the n fastest, the best first: few enough
// to be timed between the samples of a kernel.
func Pick(opt timing.Options, probes []Probe, n int) []Probe {
	type timed struct {
		probe Probe
		rate  float64
	}
	var all []timed
	for i, s := range timing.Time(opt, runs(probes)...) {
		all = append(all, timed{probes[i], probes[i].Rate(s.Min)})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(b.rate, a.rate) })
	var best []Probe
	for _, t := range all[:min(n, len(all))] {
		best = append(best, t.probe)
	}
	return best
}

func runs(probes []Probe) []func() {
	var fns []func()
	for _, p := range probes {
		fns = append(fns, p.Run)
	}
	return fns
}
