// Package bench measures products beside what the machine can do, in the same rounds.
package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// Gauge measures products against what the machine can do, in the same rounds.
type Gauge struct {
	Lab    *measure.Lab
	opt    timing.Options
	reads  map[int][]measure.Probe    // the fastest, by bytes
	dots   map[string][]measure.Probe // the fastest, by target
	Taken  int                        // samples of products
	Lost   int                        // of these, those during which the core did something else
	Beyond int                        // figures that are above what the machine did at best, as probes have it
}

// NewGauge makes a gauge of this machine.
func NewGauge(opt timing.Options) (*Gauge, error) {
	lab, err := measure.NewLab()
	if err != nil {
		return nil, err
	}
	return NewGaugeOn(lab, opt), nil
}

// NewGaugeOn makes a gauge that measures with a lab, which it closes in the end.
func NewGaugeOn(lab *measure.Lab, opt timing.Options) *Gauge {
	return &Gauge{Lab: lab, opt: opt, reads: map[int][]measure.Probe{}, dots: map[string][]measure.Probe{}}
}

// Close ends the gauge and its lab.
func (g *Gauge) Close() error { return g.Lab.Close() }

// Count counts samples of products, and those that something else disturbed.
func (g *Gauge) Count(samples []timing.Sample) {
	for _, s := range samples {
		for i, ns := range s.Rounds {
			if math.IsNaN(ns) {
				continue // it took no sample
			}
			if g.Taken++; !s.Alone[i] {
				g.Lost++
			}
		}
	}
}

// How probes are chosen: by a short look at all.
var look = timing.Options{Rounds: 3, MinSample: 200 * time.Microsecond}

const (
	readPicks = 3
	dotPicks  = 2
)

// DRAMBytes is how many bytes of weights mode dram cycles through on a host.
var DRAMBytes = measure.DRAMBytes

// Read probes the bandwidth of the memory that a mode reads a matrix from.
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

// Dot probes the peak of a target.
func (g *Gauge) Dot(t lower.Target) ([]measure.Probe, error) {
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

// Subject is a product of one target to be measured.
type Subject struct {
	Problem ir.Problem
	Variant variant.Variant
	Product *runtime.Product
	Tuned   bool // by a lock
}

// Record fills in what a record says of x before x is measured. A product without kernels
// counts as storing every bit of its weights.
func (x Subject) Record(mode string, m, n, k int) (measure.Record, measure.Weights) {
	w := x.Problem.Weight
	r := measure.Record{Format: x.Problem.Name(), BitsPerWeight: float64(w.Bits), Group: w.Group, M: m, K: k, N: n, Target: x.Variant.Target.Machine().ShortName(),
		Exact: !x.Problem.Act.Floats() && Exact(x.Variant.Kernels), Threads: 1, Mode: mode}
	weights := measure.Weights{NominalBits: nominalBits(w), ScaleBits: scaleBits(w, m, k)}
	if len(x.Variant.Kernels) > 0 {
		s := x.Variant.Kernels[0].Schedule
		r.Family, r.BitsPerWeight = Family(s.Trace), s.Weights.Part(format.Codes).CodeBits()
		weights.NominalBits = min(weights.NominalBits, r.BitsPerWeight)
	}
	return r, weights
}

// Residual says that kernels read residuals of tables where activations have some.
func (s Subject) Residual() bool {
	t := s.Variant.Kernels[0].Schedule.Tables
	return t != nil && t.Residual
}

// Place is what to measure of a product: where its weights are, their shape, and
// how many activations each of the calls multiplies.
type Place struct {
	Mode    string
	M, K    int
	Ns      []int
	Extreme bool // activations are as large as the largest
}

// Draw makes an activation.
func (p Place) Draw() func(*rand.Rand) float32 {
	if p.Extreme {
		return timing.Extreme
	}
	return timing.Normal
}

// MinSample is the least time of one sample, by mode: so long that what the probes left in the caches does not count. The fastest of short ones out of memory is
// faster than memory is for long, which shows in what waits for memory only: w1 for one column, 4096 x 4096, took 131 us in
// the best of 11 samples of 2 ms and 139 of 10 ms, for four columns 163 in both.
var MinSample = map[string]time.Duration{
	measure.ModeDRAM: 10 * time.Millisecond, measure.ModeL3: 5 * time.Millisecond, measure.ModeL2: time.Millisecond,
}

// minCalls is how many calls of a product a sample has at least, for the same reason: of 256 columns, 8 ms, one call that
// followed the probes took 4 % longer than those after it.
const minCalls = 4

// Measure times a product at one place, K rounded up to whole units: a record for each number of activations.
func (g *Gauge) Measure(x Subject, at Place) ([]measure.Record, error) {
	at.K = x.Problem.WholeK(at.K)
	rng := rand.New(rand.NewPCG(uint64(at.M), uint64(at.K)))
	packed, err := timing.PackRandom(x.Product, at.M, at.K, rng)
	if err != nil {
		return nil, err
	}
	total := 0
	if at.Mode == measure.ModeDRAM {
		total = DRAMBytes(g.Lab.Host)
	}
	weights, err := timing.NewCopies(packed, total, nil)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	reads, err := g.Read(at.Mode, len(packed))
	if err != nil {
		return nil, err
	}
	dots, err := g.Dot(x.Variant.Target)
	if err != nil {
		return nil, err
	}
	var fns []func()
	for _, n := range at.Ns {
		product, prepare, err := timing.Calls(x.Product, weights, at.M, n, at.K, at.Draw(), rng)
		if err != nil {
			return nil, err
		}
		fns = append(fns, product, prepare)
	}
	probes := [][]measure.Probe{g.Lab.Clock(), reads, dots}
	for _, list := range probes {
		for _, probe := range list {
			fns = append(fns, probe.Run)
		}
	}
	opt := g.opt
	if opt.MinSample == 0 {
		opt.MinSample, opt.MinCalls = MinSample[at.Mode], minCalls
	}
	samples := timing.Time(opt, fns...)
	kernels, rest := samples[:2*len(at.Ns)], samples[2*len(at.Ns):]
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

// records are the figures of kernels, products and preparations in turn, with the clock of each round, and the
// best clock, read bandwidth and dot product peak.
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

// nominalBits per weight: what the best packing stores, of formats that do not
// say their own bits. Codewords may take less: six levels 2.67 bits instead of 3.
func nominalBits(w format.Weight) float64 {
	if w.Bound > 0 {
		return w.Bound
	}
	return float64(w.Bits)
}

// scaleBits are those of all that weights share: scales, zero points, minimums.
func scaleBits(w format.Weight, m, k int) float64 {
	bits := 0.0
	for _, x := range w.Shared() {
		bits += float64(x.Elem.Bits()) * float64(w.Count(x, m, k))
	}
	return bits
}

// StoredBits per weight of a matrix of many rows and k columns, scales included.
func StoredBits(l *format.Layout, k int) float64 {
	return 8 * float64(l.TileBytes(k)) / float64(l.TileM) / float64(k)
}

// Exact says that all kernels give the bits of the definition.
func Exact(kernels []variant.Kernel) bool {
	return !slices.ContainsFunc(kernels, func(k variant.Kernel) bool { return !k.Schedule.Exact() })
}

// Family is the decomposition that a trace begins with.
func Family(t schedule.Trace) string {
	for _, step := range t {
		if d, ok := step.(schedule.Decompose); ok {
			return d.Family
		}
	}
	return ""
}

// Brief makes all measurements of this process short, for tests, whose figures need not be good.
func Brief() {
	look = timing.Options{Rounds: 1}
	DRAMBytes = func(timing.Host) int { return 32 << 20 }
}
