// Package bench measures products beside what the machine can do, in the same rounds: one product at one place (Gauge), a suite
// of products round after round (Suite), and a suite against limits (Check). Package peer below it does the same beside ggml.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// Gauge measures products, and in the same rounds the clock, the read bandwidth and the dot product peak of the machine.
type Gauge struct {
	Lab    *measure.Lab
	opt    timing.Options
	reads  map[int][]measure.Probe    // the fastest probes, by bytes
	dots   map[string][]measure.Probe // the fastest probes, by target
	Taken  int                        // samples of products
	Lost   int                        // samples of products during which the core did something else
	Beyond int                        // figures above the machine's best, as its probes show it
}

// NewGauge makes a gauge of this machine. A zero MinSample in opt stands for MinSample's time of the mode.
func NewGauge(opt timing.Options) (*Gauge, error) {
	lab, err := measure.NewLab()
	if err != nil {
		return nil, err
	}
	return NewGaugeOn(lab, opt), nil
}

// NewGaugeOn makes a gauge that measures with a lab. Close closes the lab too.
func NewGaugeOn(lab *measure.Lab, opt timing.Options) *Gauge {
	return &Gauge{Lab: lab, opt: opt, reads: map[int][]measure.Probe{}, dots: map[string][]measure.Probe{}}
}

// Close ends the gauge and its lab.
func (g *Gauge) Close() error { return g.Lab.Close() }

// Count adds samples of products to Taken and Lost.
func (g *Gauge) Count(samples []timing.Sample) {
	for _, s := range samples {
		for i, ns := range s.Rounds {
			if math.IsNaN(ns) {
				continue // there was no sample in this round
			}
			if g.Taken++; !s.Alone[i] {
				g.Lost++
			}
		}
	}
}

// mostLost is the share of lost samples from which on figures are not to be trusted. Beside a busy process on the same core,
// 17 of 39 samples were lost.
const mostLost = 0.2

// Doubts says why the figures that the gauge measured may be wrong, a line for each reason: none of a quiet machine.
func (g *Gauge) Doubts() (lines []string) {
	if float64(g.Lost) > mostLost*float64(g.Taken) {
		lines = append(lines, fmt.Sprintf("this machine is busy: during %d of %d samples the core did something else, figures may be too low", g.Lost, g.Taken))
	}
	const remedy = "above what this machine did at best: it was busy meanwhile, or the probes are wrong if that comes again"
	switch {
	case g.Beyond == 1:
		lines = append(lines, "1 figure is "+remedy)
	case g.Beyond > 1:
		lines = append(lines, fmt.Sprintf("%d figures are %s", g.Beyond, remedy))
	}
	return lines
}

// How the fastest probes are found: by a short look at all of them.
var look = timing.Options{Rounds: 3, MinSample: 200 * time.Microsecond}

// The numbers of fast probes that are timed beside products.
const (
	readPicks = 3
	dotPicks  = 2
)

var dramBytes = measure.DRAMBytes

// DRAMBytes is the number of bytes of weights that mode dram cycles through on h.
func DRAMBytes(h timing.Host) int { return dramBytes(h) }

// Brief makes all measurements of this process short and their figures worthless. It is for tests that look at everything else.
func Brief() {
	look = timing.Options{Rounds: 1}
	dramBytes = func(timing.Host) int { return 32 << 20 }
}

// Read returns the fastest probes of read bandwidth, from the memory that a mode reads a matrix from. The size of the matrix is in bytes.
func (g *Gauge) Read(mode string, matrix int) ([]measure.Probe, error) {
	bytes := max(measure.WorkingSet(DRAMBytes(g.Lab.Host), mode, matrix), 4096)
	if p, ok := g.reads[bytes]; ok {
		return p, nil
	}
	all, err := g.Lab.Read(bytes)
	if err != nil {
		return nil, err
	}
	picked, err := g.Lab.Pick(look, all, readPicks)
	if err == nil {
		g.reads[bytes] = picked
	}
	return picked, err
}

// Dot returns the fastest probes of the dot product peak of a target.
func (g *Gauge) Dot(t targets.Target) ([]measure.Probe, error) {
	name := t.Machine().ShortName()
	if p, ok := g.dots[name]; ok {
		return p, nil
	}
	all, err := g.Lab.Dot(name)
	if err != nil {
		return nil, err
	}
	picked, err := g.Lab.Pick(look, all, dotPicks)
	if err == nil {
		g.dots[name] = picked
	}
	return picked, err
}

// MinSample is the least time of one sample, by mode. It is long enough that data left in the caches by the probes does not
// count: short samples out of memory are faster than memory is for long. That shows in products that wait for memory only.
// A product of w1, 4096 x 4096, with one column took 131 us in the best of 11 samples of 2 ms, and 139 us with samples of
// 10 ms. With four columns it took 163 us in both.
var MinSample = map[string]time.Duration{
	measure.ModeDRAM: 10 * time.Millisecond, measure.ModeL3: 5 * time.Millisecond, measure.ModeL2: time.Millisecond,
}

// minCalls is the least number of calls of a product in a sample, for the same reason: for 256 columns (8 ms), a call that
// followed the probes took 4 % longer than the calls after it.
const minCalls = 4

// Measure times a product at one place and returns a record for each number of activations. It rounds K up to whole units.
func (g *Gauge) Measure(ctx context.Context, x Subject, at Place) ([]measure.Record, error) {
	at.K = x.Problem.WholeK(at.K)
	packed, err := timing.PackRandom(x.Product, at.M, at.K, rand.New(rand.NewPCG(uint64(at.M), uint64(at.K))))
	if err != nil {
		return nil, err
	}
	weights, err := timing.NewCopies(packed, at.Cycled(g.Lab.Host), nil)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	probes := [][]measure.Probe{g.Lab.Clock(), nil, nil}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if probes[1], err = g.Read(at.Mode, len(packed)); err != nil {
		return nil, err
	}
	if probes[2], err = g.Dot(x.Variant.Target); err != nil {
		return nil, err
	}
	var fns []func()
	for _, n := range at.Ns {
		product, prepare, err := timing.Calls(x.Product, weights, at.M, n, at.K, at.Draw())
		if err != nil {
			return nil, err
		}
		fns = append(fns, product, prepare)
	}
	kernels, rest := g.time(ctx, at.Mode, fns, probes)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.Count(kernels)
	clock := measure.RatesByRound(probes[0], rest)
	best := make([]float64, len(probes))
	for i, list := range probes {
		for j, probe := range list {
			best[i] = max(best[i], probe.Rate(rest[j].Min))
		}
		rest = rest[len(list):]
	}
	return g.records(x, at, kernels, clock, best), nil
}

// time times calls of products and probes in the same rounds; interrupted, it returns nil.
func (g *Gauge) time(ctx context.Context, mode string, calls []func(), probes [][]measure.Probe) (products, rest []timing.Sample) {
	all := calls
	for _, list := range probes {
		for _, probe := range list {
			all = append(all, probe.Run)
		}
	}
	opt := g.opt
	if opt.MinSample == 0 {
		opt.MinSample, opt.MinCalls = MinSample[mode], minCalls
	}
	opt.Stop = ctx.Done()
	samples := timing.Time(opt, all...)
	if samples == nil {
		return nil, nil
	}
	return samples[:len(calls)], samples[len(calls):]
}

// records returns the figures of the samples of products and preparations, which alternate. clock has the clock of each
// round in GHz; best has the best clock, read bandwidth and dot product peak.
func (g *Gauge) records(x Subject, at Place, kernels []timing.Sample, clock, best []float64) (out []measure.Record) {
	for i, n := range at.Ns {
		r, weights := x.Record(at.Mode, at.M, n, at.K)
		r.Extreme, r.Tuned = at.Extreme, x.Tuned
		r.Ns, r.Cycles = kernels[2*i].Min, kernels[2*i].Cycles(clock)
		r.PrepareNs, r.PrepareCycles = kernels[2*i+1].Min, kernels[2*i+1].Cycles(clock)
		r.ClockGHz, r.CeilingGBS, r.CeilingGMACS = best[0], best[1], best[2]
		r, err := r.Complete(weights)
		if err != nil {
			g.Beyond++
		}
		out = append(out, r)
	}
	return out
}
