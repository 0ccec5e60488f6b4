package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/ggml"
	"github.com/tmacc/tmacc/search/timing"
)

// race is this compiler's products and ggml's in the same rounds.
type race struct {
	lib    *ggml.Library
	gauges []*bench.Gauge // as many as threads that read at once
	flags  benchFlags
	host   string
	date   string
}

// newRace is a race that the flags ask for, with a gauge for each thread.
func newRace(lib *ggml.Library, b benchFlags) (*race, error) {
	x := &race{lib: lib, flags: b, date: today()}
	for range max(1, maxOf(b.threads)) {
		g, err := bench.NewGauge(timing.Options{})
		if err != nil {
			x.close()
			return nil, err
		}
		x.gauges = append(x.gauges, g)
	}
	x.host = x.gauges[0].Lab.Host.String()
	return x, nil
}

func (x *race) close() {
	for _, g := range x.gauges {
		g.Close()
	}
}

// entry is one product on its way to be timed.
type entry struct {
	timed measure.Timed
	out   []float32
	run   func(threads int) (timing.Work, error)
}

// rounds measures all types at all places, round after round, and tells each record as it comes. The subjects of s are
// the types of the flags, for one target after the other.
func (x *race) rounds(ctx context.Context, s *suite, bar *progress, tell func(measure.PeerRecord)) (all []measure.PeerRecord, err error) {
	for round := range x.flags.rounds {
		for i, subject := range s.subjects {
			typ := x.flags.formats[i%len(x.flags.formats)]
			for _, at := range s.places {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				bar.step("round %d of %d: %s on %s, %s", round+1, x.flags.rounds, typ, subject.Variant.Target.Machine().ShortName(), at.Mode)
				records, err := x.measure(typ, subject, at)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", typ, err)
				}
				for _, r := range records {
					tell(r)
				}
				all = append(all, records...)
			}
		}
	}
	return all, nil
}

// measure times a type of blocks at one place: a record for each number of
// activations and of threads.
func (x *race) measure(typ string, s bench.Subject, at bench.Place) ([]measure.PeerRecord, error) {
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
	copies, err := timing.NewCopies(packed, x.total(at), nil)
	if err != nil {
		return nil, err
	}
	defer copies.Close()
	var all []measure.PeerRecord
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

// total is how many bytes of copies a place cycles through.
func (x *race) total(at bench.Place) int {
	if at.Mode == measure.ModeDRAM {
		return bench.DRAMBytes(x.gauges[0].Lab.Host)
	}
	return 0
}

// cell is a product of n activations at a place.
type cell struct {
	typ     string
	subject bench.Subject
	at      bench.Place
	n       int
	blocks  []byte
	weight  format.Weight // what the blocks hold
	src     format.Source
	packed  *timing.Copies
}

// cell checks that all compute the same product, then times them.
func (x *race) cell(c cell) ([]measure.PeerRecord, error) {
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
		copies := x.total(c.at)/len(c.blocks) + 1
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

// ours prepares activations and multiplies with the next copy.
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

// theirs computes a graph of one product with the next copy.
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

// agree runs each entry once and compares it with the definition.
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
			return failed("%s, %d x %d, %d activations: %v", who, c.at.M, c.at.K, c.n, err)
		}
	}
	return nil
}

// time times entries with each number of threads, and reading beside them.
func (x *race) time(c cell, entries []*entry) ([]measure.PeerRecord, error) {
	var works []timing.Work
	reads := make([][]measure.Probe, len(x.flags.threads))
	for i, threads := range x.flags.threads {
		for _, e := range entries {
			w, err := e.run(threads)
			if err != nil {
				return nil, err
			}
			works = append(works, ready(w, c.n))
		}
		if c.at.Mode == measure.ModeDRAM && c.n <= bench.MaxSmall {
			var err error
			if reads[i], err = x.reads(threads); err != nil {
				return nil, err
			}
			for _, p := range reads[i] {
				works = append(works, ready(timing.Work{Run: p.Run}, c.n))
			}
		}
	}
	samples := timing.TimeWork(timing.Options{MinSample: bench.MinSample[c.at.Mode]}, works...)
	var all []measure.PeerRecord
	for i, threads := range x.flags.threads {
		r := measure.PeerRecord{
			Type: c.typ, Format: c.subject.Problem.Weight.Name, Target: c.subject.Variant.Target.Machine().ShortName(), Mode: c.at.Mode,
			M: c.at.M, K: c.at.K, N: c.n, Threads: threads, Tuned: c.subject.Tuned, Peer: "ggml " + x.lib.Version, Library: filepath.Base(x.lib.Path),
			Host: x.host, Date: x.date, Commit: commit(),
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

// beside is what the quickest probe reads at best, in GB/s, and how many of the weights that our product multiplied in each round, which
// took so long, there are for each byte that it read in the same time of the same round: the median of the rounds of both, 0 if there is none.
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

// ready has threads on CPUs of their own and awake when samples of w begin.
func ready(w timing.Work, n int) timing.Work {
	sleep, restore := w.After, func() {}
	w.Before = func() {
		restore = timing.Spread()
		if n <= bench.MaxSmall {
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

// commit is what this program was built from, short, with a + if files had changed;
// "" if Go did not record it.
func commit() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	id, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			id = s.Value[:min(len(s.Value), 10)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	return id + changed
}

// reads are probes of the bandwidth that so many threads read memory with.
func (x *race) reads(threads int) ([]measure.Probe, error) {
	var each [][]measure.Probe
	for _, g := range x.gauges[:threads] {
		p, err := g.Read(measure.ModeDRAM, 0)
		if err != nil {
			return nil, err
		}
		each = append(each, p)
	}
	if threads == 1 {
		return each[0], nil
	}
	var all []measure.Probe
	for i := range each[0] {
		var probes []measure.Probe
		for _, p := range each {
			probes = append(probes, p[i])
		}
		all = append(all, measure.Together(probes...))
	}
	return all, nil
}
