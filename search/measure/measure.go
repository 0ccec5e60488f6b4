// Package measure is the basis of tmacc bench: it times functions on a machine
// that others use too, finds out what the machine can do at best (probes), and
// holds measured kernels against that and against the limits of docs/lab/limits.json.
//
// Probes are vector IR like any kernel: they are parsed, lowered and run in this
// process, beside what they are the ceiling of, or in a worker, on any machine. The
// formulas and the check work everywhere.
package measure

import (
	"fmt"
	"sync"

	"github.com/tmacc/tmacc/search/rig"
)

// Probe is a piece of work of known size that shows what the machine can do. The
// largest rate of several probes of one kind is called a ceiling.
type Probe struct {
	Name   string
	Unit   string  // of the rate: GB/s, GMAC/s, GHz or Gweights/s
	Amount float64 // of one Run: bytes, multiply-accumulates, cycles or weights
	Run    func()  // nil of a lab of another process
	call   rig.Call
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

func runs(probes []Probe) []func() {
	var fns []func()
	for _, p := range probes {
		fns = append(fns, p.Run)
	}
	return fns
}
