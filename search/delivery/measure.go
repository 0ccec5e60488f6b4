package delivery

import (
	"context"
	"time"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// Quick measures in a few seconds.
var Quick = timing.Options{Rounds: 9, MinSample: time.Millisecond}

// Speed is what a kernel reached on this machine, on one thread.
type Speed struct {
	GEMV      float64 `json:"gweights_s"`           // weights per ns out of DRAM, with one activation for each column of the kernel
	ReadShare float64 `json:"dram_share"`           // of the measured read bandwidth
	GEMM      float64 `json:"gmac_s,omitempty"`     // multiplications per ns with 256 activations; only the widest kernel has it
	DotShare  float64 `json:"peak_share,omitempty"` // of the peak of int8 dot products
}

// Measure measures the verified kernels. An error does the package no harm, and the speeds before it are kept. It is no
// error if a policy of this machine lets no kernel be mapped: see live.Forbidden.
func (x *Package) Measure(ctx context.Context) error {
	if len(x.codes) == 0 {
		if live.Forbidden() != nil {
			return nil
		}
		return x.unmapped
	}
	x.say(Probing{})
	g, err := bench.NewGauge(x.Probing)
	if err != nil {
		return err
	}
	defer g.Close()
	for _, w := range x.products {
		for i := range w.compiled.Variants {
			v := &w.compiled.Variants[i]
			if x.codes[v] == nil {
				continue
			}
			if err := x.measure(ctx, g, w, v); err != nil {
				return err
			}
		}
	}
	for _, doubt := range g.Doubts() {
		x.say(Note(doubt))
	}
	return nil
}

// measure keeps the speeds of the kernels of one target.
func (x *Package) measure(ctx context.Context, g *bench.Gauge, w *product, v *variant.Variant) error {
	product, err := x.codes[v].Product()
	if err != nil {
		return err
	}
	s := bench.Subject{Problem: w.Problem, Variant: *v, Product: product}
	m, k := w.largest()
	at := func(mode string, ns ...int) ([]measure.Record, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x.say(Measuring{w.Problem, v.Target, ns[len(ns)-1]})
		return g.Measure(ctx, s, bench.Place{Mode: mode, M: m, K: k, Ns: ns})
	}
	var ns []int
	for _, k := range v.Kernels {
		ns = append(ns, k.Schedule.Cols)
	}
	records, err := at(measure.ModeDRAM, ns...)
	if err != nil {
		return err
	}
	for i, k := range v.Kernels {
		r := records[i]
		x.speeds[w.compiled.KernelName(v, k.Name())] = Speed{GEMV: r.GWeightsS / float64(r.N), ReadShare: r.ReadShare}
	}
	if records, err = at(measure.ModeL3, measure.ManyColumns); err != nil {
		return err
	}
	last := w.compiled.KernelName(v, v.Kernels[len(v.Kernels)-1].Name())
	widest := x.speeds[last]
	widest.GEMM, widest.DotShare = records[0].GWeightsS, records[0].Share
	x.speeds[last] = widest
	return nil
}

// Matrices of more elements are measured no better, only longer.
const largeMatrix = 32 << 20

// largest is the shape to measure w at: its largest up to largeMatrix elements.
func (w *product) largest() (m, k int) {
	for _, s := range w.Shapes {
		if s.M*s.K > m*k && s.M <= largeMatrix/s.K {
			m, k = s.M, s.K
		}
	}
	if m*k == 0 {
		m, k = measure.Shape(measure.ModeDRAM)
		k = w.Problem.WholeK(k)
	}
	return m, k
}
