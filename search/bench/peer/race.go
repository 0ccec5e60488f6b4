// Package peer measures products beside ggml's, in the same rounds and on the bytes of the same blocks. Both begin with float
// activations and end with float products.
package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/ggml"
	"github.com/tmacc/tmacc/search/timing"
)

// Race measures products of this compiler and of ggml in the same rounds.
type Race struct {
	lib     *ggml.Library
	threads []int
	gauges  []*bench.Gauge // one for each thread that reads at the same time
	host    string
	date    string
}

// New prepares a race with each of these numbers of threads.
func New(lib *ggml.Library, threads []int) (*Race, error) {
	x := &Race{lib: lib, threads: threads, date: bench.Today()}
	var err error
	if x.gauges, err = bench.NewGauges(max(1, slices.Max(threads))); err != nil {
		return nil, err
	}
	x.host = x.gauges[0].Lab.Host.String()
	return x, nil
}

// Close ends the race's gauges. The library stays loaded.
func (x *Race) Close() error { return bench.CloseGauges(x.gauges) }

// Run measures all subjects of s at all places, round after round. Subject i multiplies blocks of a type of GGUF: types[i]. It
// calls begin before each measurement and tell with each record. Before they are timed, products are compared with the definition:
// the error is a *Disagreement if one differs. When ctx ends, Run returns the error of ctx after the measurement that it is at.
func (x *Race) Run(ctx context.Context, s *bench.Suite, types []string, rounds int, begin func(bench.Step), tell func(measure.PeerRecord)) (all []measure.PeerRecord, err error) {
	for round := range rounds {
		for i, subject := range s.Subjects {
			for _, at := range s.Places {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				begin(bench.Step{Round: round + 1, Rounds: rounds, Product: types[i], Target: subject.Target(), Mode: at.Mode})
				records, err := x.measure(types[i], subject, at)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", types[i], err)
				}
				for _, r := range records {
					tell(r)
				}
				all = append(all, records...)
			}
		}
	}
	return all, ctx.Err()
}

// measure times a type of blocks at one place. It returns a record for each number of activations and of threads.
func (x *Race) measure(typ string, s bench.Subject, at bench.Place) (all []measure.PeerRecord, err error) {
	if at.M > timing.MaxMatrix/at.K {
		return nil, fmt.Errorf("a matrix of %d rows and %d columns is too large to measure: at most %d weights", at.M, at.K, timing.MaxMatrix)
	}
	data, err := blocks.Random(rand.New(rand.NewPCG(uint64(at.M), uint64(at.K))), typ, at.M, at.K)
	if err != nil {
		return nil, err
	}
	weight, src, err := blocks.Read(typ, data, at.M, at.K)
	if err != nil {
		return nil, err
	}
	size, err := s.Product.PackedSize(at.M, at.K)
	if err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	if err := s.Product.PackBlocks(packed, typ, data, at.M, at.K); err != nil {
		return nil, err
	}
	copies, err := timing.NewCopies(packed, x.cycled(at), nil)
	if err != nil {
		return nil, err
	}
	defer copies.Close()
	for _, n := range at.Ns {
		records, err := x.cell(cell{typ: typ, subject: s, at: at, n: n, blocks: data, weight: weight, src: src, packed: copies})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			r.Bits = 8 * float64(size) / float64(at.M) / float64(at.K)
			all = append(all, r)
		}
	}
	return all, nil
}

// cycled returns the bytes of copies that a place cycles through.
func (x *Race) cycled(at bench.Place) int { return at.Cycled(x.gauges[0].Lab.Host) }

// cell is a product of n activations at a place.
type cell struct {
	typ     string
	subject bench.Subject
	at      bench.Place
	n       int
	blocks  []byte
	weight  format.Weight // of the blocks
	src     format.Source
	packed  *timing.Copies
}

// entry is one product on its way to be timed.
type entry struct {
	timed measure.Timed
	out   []float32
	run   func(threads int) (timing.Work, error)
}

// cell checks that all products of a cell are the same, then times them.
func (x *Race) cell(c cell) ([]measure.PeerRecord, error) {
	rng := rand.New(rand.NewPCG(uint64(c.n), uint64(c.at.K)))
	act := make([]float32, c.n*c.at.K)
	for i := range act {
		act[i] = float32(rng.NormFloat64())
	}
	ours, err := c.ours(act)
	if err != nil {
		return nil, err
	}
	entries := []*entry{ours}
	for _, buffer := range x.lib.Buffers() {
		copies := x.cycled(c.at)/len(c.blocks) + 1
		p, err := x.lib.NewProduct(ggml.Matrix{Type: c.typ, Blocks: c.blocks, X: act, M: c.at.M, K: c.at.K, N: c.n, Copies: copies}, buffer)
		if errors.Is(err, ggml.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer p.Close()
		entries = append(entries, theirs(p, buffer))
	}
	if len(entries) == 1 {
		return nil, fmt.Errorf("ggml %s does not multiply it", x.lib.Version)
	}
	if err := c.agree(act, entries); err != nil {
		return nil, err
	}
	return x.time(c, entries)
}

// ours returns this compiler's product: it prepares activations and multiplies with the next copy.
func (c cell) ours(x []float32) (*entry, error) {
	p, at := c.subject.Product, c.at
	size, err := p.ActSize(c.n, at.K)
	if err != nil {
		return nil, err
	}
	act, out := make([]byte, size), make([]float32, c.n*at.M)
	e := &entry{out: out, timed: measure.Timed{ActGroup: c.subject.Problem.Act.Group}}
	e.run = func(threads int) (timing.Work, error) {
		run := func() {
			if err := errors.Join(p.PrepareActThreads(act, x, c.n, at.K, threads), p.Gemm(out, c.packed.Next(), act, 0, at.M, runtime.Options{Threads: threads})); err != nil {
				panic("BUG: " + err.Error())
			}
		}
		return timing.Work{Run: run}, nil
	}
	return e, nil
}

// theirs returns ggml's product: it computes a graph of one product with the next copy.
func theirs(p *ggml.Product, buffer string) *entry {
	e := &entry{out: p.Out, timed: measure.Timed{Buffer: buffer, ActGroup: p.ActGroup}}
	e.run = func(threads int) (timing.Work, error) {
		on, err := p.On(threads)
		if err != nil {
			return timing.Work{}, err
		}
		return timing.Work{Run: on.Run, After: on.Sleep}, nil
	}
	return e
}

// Disagreement is the error of a product that differs from the definition by more than rounding activations explains.
type Disagreement struct {
	Who     string // "tmacc", or ggml's type of buffer
	M, K, N int
	Err     error
}

func (e *Disagreement) Error() string {
	return fmt.Sprintf("%s, %d x %d, %d activations: %v", e.Who, e.M, e.K, e.N, e.Err)
}

// Unwrap returns what measure says of the product.
func (e *Disagreement) Unwrap() error { return e.Err }

// agree runs each entry once and compares it with the definition. The error is a *Disagreement if one differs.
func (c cell) agree(x []float32, entries []*entry) error {
	var groups []int
	for _, e := range entries {
		groups = append(groups, e.timed.ActGroup)
	}
	ref := measure.NewReference(c.weight, c.src, x, c.at.M, c.at.K, c.n, groups...)
	for _, e := range entries {
		w, err := e.run(1)
		if err != nil {
			return err
		}
		w.Run()
		if w.After != nil {
			w.After()
		}
		if e.timed.Error, err = ref.Agree(e.out, e.timed.ActGroup); err != nil {
			who := "tmacc"
			if e.timed.Buffer != "" {
				who = "ggml, buffer type " + e.timed.Buffer
			}
			return &Disagreement{who, c.at.M, c.at.K, c.n, err}
		}
	}
	return nil
}

// time times entries with each number of threads. Where weights come from memory, it times reading beside them.
func (x *Race) time(c cell, entries []*entry) ([]measure.PeerRecord, error) {
	var works []timing.Work
	reads := make([][]measure.Probe, len(x.threads))
	for i, threads := range x.threads {
		for _, e := range entries {
			w, err := e.run(threads)
			if err != nil {
				return nil, err
			}
			works = append(works, ready(w, c.n))
		}
		if c.at.Mode != measure.ModeDRAM || c.n > measure.MaxGEMV {
			continue
		}
		var err error
		if reads[i], err = bench.ReadTogether(x.gauges[:threads], measure.ModeDRAM); err != nil {
			return nil, err
		}
		for _, p := range reads[i] {
			works = append(works, ready(timing.Work{Run: p.Run}, c.n))
		}
	}
	samples := timing.TimeWork(timing.Options{MinSample: bench.MinSample[c.at.Mode]}, works...)
	var all []measure.PeerRecord
	for i, threads := range x.threads {
		r := x.record(c, threads, entries, samples)
		ours := samples[0].Rounds
		samples = samples[len(entries):]
		if len(reads[i]) > 0 {
			r.ReadGBS, r.PerByte = beside(float64(c.at.M*c.at.K*c.n), ours, reads[i], samples)
		}
		samples = samples[len(reads[i]):]
		all = append(all, r.Complete())
	}
	return all, nil
}

// record returns the record of entries, whose samples are the first ones.
func (x *Race) record(c cell, threads int, entries []*entry, samples []timing.Sample) measure.PeerRecord {
	r := measure.PeerRecord{
		Type: c.typ, Format: c.subject.Problem.Weight.Name, Target: c.subject.Target(), Mode: c.at.Mode,
		M: c.at.M, K: c.at.K, N: c.n, Threads: threads, Tuned: c.subject.Tuned, Peer: "ggml " + x.lib.Version, Library: filepath.Base(x.lib.Path),
		Host: x.host, Date: x.date, Commit: bench.Commit(),
	}
	for j, e := range entries {
		t := e.timed
		t.Ns = samples[j].Min
		if j == 0 {
			r.Ours = t
		} else {
			r.Theirs = append(r.Theirs, t)
		}
	}
	return r
}

// beside compares our product with reading. It returns the best rate of the quickest probe in GB/s, and the weights that our
// product multiplied for each byte that the probe read in the same time: the median of the rounds that have both times,
// or 0 if no round has both. ours has the time of each round in ns.
func beside(weights float64, ours []float64, probes []measure.Probe, samples []timing.Sample) (best, perByte float64) {
	quickest := 0
	for j, p := range probes {
		if rate := p.Rate(samples[j].Min); rate > best {
			best, quickest = rate, j
		}
	}
	var ratios []float64
	for i, read := range samples[quickest].Rounds {
		if ns := ours[i]; ns > 0 && read > 0 {
			ratios = append(ratios, weights/ns/probes[quickest].Rate(read))
		}
	}
	if len(ratios) == 0 {
		return best, 0
	}
	return best, timing.Median(ratios)
}

// ready makes work whose threads are awake, and on CPUs of their own, when its samples begin.
func ready(w timing.Work, n int) timing.Work {
	sleep, restore := w.After, func() {}
	w.Before = func() {
		restore = timing.Spread()
		if n <= measure.MaxGEMV {
			w.Run()
		}
	}
	w.After = func() {
		restore()
		if sleep != nil {
			sleep()
		}
	}
	return w
}
