package main

import (
	"fmt"
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

// gauge measures products against what the machine can do, in the same rounds.
type gauge struct {
	lab    *measure.Lab
	opt    timing.Options
	reads  map[int][]measure.Probe    // the fastest, by bytes
	dots   map[string][]measure.Probe // the fastest, by target
	taken  int                        // samples of products
	lost   int                        // of these, those during which the core did something else
	beyond int                        // figures that are above what the machine did at best, as probes have it
}

func newGauge(opt timing.Options) (*gauge, error) {
	lab, err := measure.NewLab()
	if err != nil {
		return nil, err
	}
	return gaugeOf(lab, opt), nil
}

func gaugeOf(lab *measure.Lab, opt timing.Options) *gauge {
	return &gauge{lab: lab, opt: opt, reads: map[int][]measure.Probe{}, dots: map[string][]measure.Probe{}}
}

func (g *gauge) close() error { return g.lab.Close() }

// count adds samples of products to those that were taken.
func (g *gauge) count(samples []timing.Sample) {
	for _, s := range samples {
		for i, ns := range s.Rounds {
			if math.IsNaN(ns) {
				continue // it took no sample
			}
			if g.taken++; !s.Alone[i] {
				g.lost++
			}
		}
	}
}

// mostLost is the share of samples from which on figures are not to be trusted. (Beside a busy process on the core 17 of 39 samples were lost.)
const mostLost = 0.2

// noteBusy says if the core did something else during many samples, or while the probes ran.
func (c *cli) noteBusy(g *gauge) {
	if float64(g.lost) > mostLost*float64(g.taken) {
		fmt.Fprintf(c.err, "tmacc: this machine is busy: during %d of %d samples the core did something else, figures may be too low\n", g.lost, g.taken)
	}
	if g.beyond > 0 {
		are := "are"
		if g.beyond == 1 {
			are = "is"
		}
		fmt.Fprintf(c.err, "tmacc: %s %s above what this machine did at best: it was busy meanwhile, or the probes are wrong if that comes again\n", counted(g.beyond, "figure"), are)
	}
}

// How probes are chosen: by a short look at all.
var look = timing.Options{Rounds: 3, MinSample: 200 * time.Microsecond}

const (
	readPicks = 3
	dotPicks  = 2
)

// dramBytes is how many bytes of weights mode dram cycles through on a host. Tests, whose figures need not be good, take fewer.
var dramBytes = measure.DRAMBytes

// read probes the bandwidth of the memory that a mode reads a matrix from.
func (g *gauge) read(mode string, matrix int) ([]measure.Probe, error) {
	bytes := max(measure.WorkingSet(dramBytes(g.lab.Host), mode, matrix), 4096)
	if p, ok := g.reads[bytes]; ok {
		return p, nil
	}
	all, err := g.lab.Read(bytes)
	if err != nil {
		return nil, err
	}
	picked, err := g.lab.Pick(look, all, readPicks)
	if err == nil {
		g.reads[bytes] = picked
	}
	return picked, err
}

// dot probes the peak of a target.
func (g *gauge) dot(t lower.Target) ([]measure.Probe, error) {
	name := t.Machine().ShortName()
	if p, ok := g.dots[name]; ok {
		return p, nil
	}
	all, err := g.lab.Dot(name)
	if err != nil {
		return nil, err
	}
	picked, err := g.lab.Pick(look, all, dotPicks)
	if err == nil {
		g.dots[name] = picked
	}
	return picked, err
}

// subject is a product of one target to be measured.
type subject struct {
	problem ir.Problem
	target  variant.Variant
	product *runtime.Product
	tuned   bool // by a lock
}

// record is what a record says of x before it is measured, and what it does not say. Of a product without kernels weights
// are stored with all their bits.
func (x subject) record(mode string, m, n, k int) (measure.Record, measure.Weights) {
	w := x.problem.Weight
	r := measure.Record{Format: x.problem.Name(), BitsPerWeight: float64(w.Bits), Group: w.Group, M: m, K: k, N: n, Target: x.target.Target.Machine().ShortName(),
		Exact: !x.problem.Act.Floats() && exact(x.target.Kernels), Threads: 1, Mode: mode}
	weights := measure.Weights{NominalBits: nominalBits(w), ScaleBits: scaleBits(w, m, k)}
	if len(x.target.Kernels) > 0 {
		s := x.target.Kernels[0].Schedule
		r.Family, r.BitsPerWeight = family(s.Trace), s.Weights.Part(format.Codes).CodeBits()
		weights.NominalBits = min(weights.NominalBits, r.BitsPerWeight)
	}
	return r, weights
}

// residual says that kernels read residuals of tables where activations have some.
func (s subject) residual() bool {
	t := s.target.Kernels[0].Schedule.Tables
	return t != nil && t.Residual
}

// place is what to measure of a product: where its weights are, their shape, and
// how many activations each of the calls multiplies.
type place struct {
	mode    string
	m, k    int
	ns      []int
	extreme bool // activations are as large as the largest
}

// draw makes an activation.
func (p place) draw() func(*rand.Rand) float32 {
	if p.extreme {
		return timing.Extreme
	}
	return timing.Normal
}

// samples are so long that what the probes left in the caches does not count. The fastest of short ones out of memory is
// faster than memory is for long, which shows in what waits for memory only: w1 for one column, 4096 x 4096, took 131 us in
// the best of 11 samples of 2 ms and 139 of 10 ms, for four columns 163 in both.
var minSample = map[string]time.Duration{
	measure.ModeDRAM: 10 * time.Millisecond, measure.ModeL3: 5 * time.Millisecond, measure.ModeL2: time.Millisecond,
}

// minCalls is how many calls of a product a sample has at least, for the same reason: of 256 columns, 8 ms, one call that
// followed the probes took 4 % longer than those after it.
const minCalls = 4

// measure times a product at one place, K rounded up to whole units: a record for each number of activations.
func (g *gauge) measure(x subject, at place) ([]measure.Record, error) {
	at.k = x.problem.WholeK(at.k)
	rng := rand.New(rand.NewPCG(uint64(at.m), uint64(at.k)))
	packed, err := timing.PackRandom(x.product, at.m, at.k, rng)
	if err != nil {
		return nil, err
	}
	total := 0
	if at.mode == measure.ModeDRAM {
		total = dramBytes(g.lab.Host)
	}
	weights, err := timing.NewCopies(packed, total, nil)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	reads, err := g.read(at.mode, len(packed))
	if err != nil {
		return nil, err
	}
	dots, err := g.dot(x.target.Target)
	if err != nil {
		return nil, err
	}
	var fns []func()
	for _, n := range at.ns {
		product, prepare, err := timing.Calls(x.product, weights, at.m, n, at.k, at.draw(), rng)
		if err != nil {
			return nil, err
		}
		fns = append(fns, product, prepare)
	}
	probes := [][]measure.Probe{g.lab.Clock(), reads, dots}
	for _, list := range probes {
		for _, probe := range list {
			fns = append(fns, probe.Run)
		}
	}
	opt := g.opt
	if opt.MinSample == 0 {
		opt.MinSample, opt.MinCalls = minSample[at.mode], minCalls
	}
	samples := timing.Time(opt, fns...)
	kernels, rest := samples[:2*len(at.ns)], samples[2*len(at.ns):]
	g.count(kernels)
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
func (g *gauge) records(x subject, at place, kernels []timing.Sample, clock, best []float64) (out []measure.Record) {
	for i, n := range at.ns {
		r, weights := x.record(at.mode, at.m, n, at.k)
		r.Extreme, r.Tuned = at.extreme, x.tuned
		r.Ns, r.Cycles = kernels[2*i].Min, kernels[2*i].Cycles(clock)
		r.PrepareNs, r.PrepareCycles = kernels[2*i+1].Min, kernels[2*i+1].Cycles(clock)
		r.ClockGHz, r.CeilingGBS, r.CeilingGMACS = best[0], best[1], best[2]
		r, err := r.Complete(weights)
		if err != nil {
			g.beyond++
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

// storedBits per weight of a matrix of many rows and k columns, scales included.
func storedBits(l *format.Layout, k int) float64 {
	return 8 * float64(l.TileBytes(k)) / float64(l.TileM) / float64(k)
}

// exact says that all kernels give the bits of the definition.
func exact(kernels []variant.Kernel) bool {
	return !slices.ContainsFunc(kernels, func(k variant.Kernel) bool { return !k.Schedule.Exact() })
}

// family is the decomposition that a trace begins with.
func family(t schedule.Trace) string {
	for _, step := range t {
		if d, ok := step.(schedule.Decompose); ok {
			return d.Family
		}
	}
	return ""
}
