package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/ggml"
	"github.com/tmacc/tmacc/search/timing"
)

// peerTypes are the types of blocks that are compared if -format names none.
var peerTypes = []string{"Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q8_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"}

// validatePeer checks the flags of -peer and sets its defaults.
func (b *benchFlags) validatePeer(cmd *cobra.Command) error {
	if b.page != "" && b.peer != "" {
		return fmt.Errorf("-md prints records of earlier runs: give it without -peer")
	}
	if b.peer == "" {
		if cmd.Flags().Changed("threads") {
			return fmt.Errorf("-threads is for -peer: everything else is measured on one thread")
		}
		return nil
	}
	if name, dir, ok := strings.Cut(b.peer, "="); !ok || name != "ggml" || dir == "" {
		return fmt.Errorf("-peer %s: want ggml=FOLDER, with the folder of its libraries", b.peer)
	}
	if b.trace != "" || b.act.group != usualGroup || b.act.elem != actInt8 {
		return fmt.Errorf("-trace and -act-group are not for -peer, which measures what PackBlocks and the default schedules make of GGUF's types")
	}
	for _, n := range b.threads {
		if n < 1 || n > goruntime.NumCPU() {
			return fmt.Errorf("-threads %d: this process may use 1 to %d", n, goruntime.NumCPU())
		}
	}
	if len(b.formats) == 0 {
		b.formats = peerTypes
	}
	if !cmd.Flags().Changed("mode") {
		b.modes = []string{measure.ModeDRAM, measure.ModeL3}
	}
	if !cmd.Flags().Changed("n") {
		b.ns = []int{1, gemmN}
	}
	return nil
}

// race is this compiler's products and ggml's in the same rounds.
type race struct {
	lib    *ggml.Library
	gauges []*gauge // as many as threads that read at once
	flags  benchFlags
	host   string
	date   string
}

// loading runs this command again by a program that loads libraries, which it builds: this
// one is static.
func (c *cli) loading(ctx context.Context, quiet bool) error {
	dir, err := os.MkdirTemp("", "tmacc-peer-")
	if err != nil {
		return plain(err)
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "tmacc")
	bar := newProgress(c.err, quiet)
	defer bar.done()
	bar.step("building a tmacc that loads libraries: this one is static")
	if err := (toolchain{dir: checkout()}).run(ctx, "CGO_ENABLED=0", "build", "-tags", ggml.Tag, "-o", exe, modulePath+"/cmd/tmacc"); err != nil {
		return fmt.Errorf("%w; go install -tags %s %s/cmd/tmacc@latest: %w", ggml.ErrStatic, ggml.Tag, modulePath, err)
	}
	bar.done()
	cmd := exec.CommandContext(ctx, exe, c.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &status{code: exit.ExitCode()}
	}
	return err
}

// comparePeer measures all types at all places, round after round.
func (c *cli) comparePeer(ctx context.Context, b benchFlags) error {
	limits, err := c.peerLimits(b.check)
	if err != nil {
		return err
	}
	_, dir, _ := strings.Cut(b.peer, "=")
	lib, err := ggml.Open(dir)
	if errors.Is(err, ggml.ErrStatic) {
		return c.loading(ctx, b.quiet)
	}
	if err != nil {
		return err
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	x := &race{lib: lib, flags: b, date: time.Now().UTC().Format(time.DateOnly)}
	defer x.close()
	for range max(1, maxOf(b.threads)) {
		g, err := newGauge(timing.Options{})
		if err != nil {
			return err
		}
		x.gauges = append(x.gauges, g)
	}
	x.host = x.gauges[0].lab.Host.String()
	s := &suite{places: b.places()}
	defer s.close()
	if err := s.addTypes(ctx, c, b, bar); err != nil {
		return err
	}
	var all []measure.PeerRecord
	for round := range b.rounds {
		for i, subject := range s.subjects {
			typ := b.formats[i%len(b.formats)]
			for _, at := range s.places {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				bar.step("round %d of %d: %s on %s, %s", round+1, b.rounds, typ, shortName(subject.target.Target), at.mode)
				records, err := x.measure(typ, subject, at)
				if err != nil {
					return fmt.Errorf("%s: %w", typ, err)
				}
				for _, r := range records {
					all = append(all, r)
					if b.json {
						json.NewEncoder(c.out).Encode(r)
					}
				}
			}
		}
	}
	bar.done()
	if !b.json {
		fmt.Fprintf(c.out, "ggml %s, %s\n", lib.Version, filepath.Base(lib.Path))
		peerTable(peerMedians(all)).print(c.out, widthOf(c.out))
	}
	return c.peerVerdicts(measure.CheckPeer(limits, all), b)
}

func maxOf(ns []int) int {
	most := 0
	for _, n := range ns {
		most = max(most, n)
	}
	return most
}

func (c *cli) peerLimits(path string) ([]measure.PeerLimit, error) {
	if path == "" {
		return nil, nil
	}
	data, err := c.readText(path)
	if err != nil {
		return nil, err
	}
	limits, err := measure.ParsePeerLimits(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

// peerVerdicts prints what holds; a miss is an error.
func (c *cli) peerVerdicts(verdicts []measure.Verdict, b benchFlags) error {
	misses := 0
	for _, v := range verdicts {
		if v.Failed() {
			misses++
		}
		if !b.json {
			fmt.Fprintln(c.out, v)
		}
	}
	if misses > 0 {
		return failed("bench: %d of %d limits are missed", misses, len(verdicts))
	}
	return nil
}

// addTypes compiles the formats that types of blocks hold, all of them for each
// target.
func (s *suite) addTypes(ctx context.Context, c *cli, b benchFlags, bar *progress) error {
	targets, err := targetList(b.target)
	if err != nil {
		return err
	}
	if b.target == "all" {
		targets = hostTargets()
	}
	for _, t := range targets {
		for _, typ := range b.formats {
			block, err := blocks.Lookup(typ)
			if err != nil {
				return err
			}
			bar.step("compiling %s for %s", block.Weight, t.Machine().Name)
			if err := s.add(ctx, c, b, block.Weight, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *race) close() {
	for _, g := range x.gauges {
		g.close()
	}
}

// entry is one product on its way to be timed.
type entry struct {
	timed measure.Timed
	out   []float32
	run   func(threads int) (timing.Work, error)
}

// measure times a type of blocks at one place: a record for each number of
// activations and of threads.
func (x *race) measure(typ string, s subject, at place) ([]measure.PeerRecord, error) {
	if at.m > timing.MaxMatrix/at.k {
		return nil, fmt.Errorf("a matrix of %d rows and %d columns is too large to measure: at most %d weights", at.m, at.k, timing.MaxMatrix)
	}
	data, err := blocks.Random(rand.New(rand.NewPCG(uint64(at.m), uint64(at.k))), typ, at.m, at.k)
	if err != nil {
		return nil, err
	}
	weight, src, err := blocks.Read(typ, data, at.m, at.k)
	if err != nil {
		return nil, err
	}
	size, err := s.product.PackedSize(at.m, at.k)
	if err != nil {
		return nil, err
	}
	packed := make([]byte, size)
	if err := s.product.PackBlocks(packed, typ, data, at.m, at.k); err != nil {
		return nil, err
	}
	copies, err := timing.NewCopies(packed, x.total(at), nil)
	if err != nil {
		return nil, err
	}
	defer copies.Close()
	var all []measure.PeerRecord
	for _, n := range at.ns {
		records, err := x.cell(cell{typ: typ, subject: s, at: at, n: n, blocks: data, weight: weight, src: src, packed: copies})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			r.Bits = 8 * float64(size) / float64(at.m) / float64(at.k)
			all = append(all, r)
		}
	}
	return all, nil
}

// total is how many bytes of copies a place cycles through.
func (x *race) total(at place) int {
	if at.mode == measure.ModeDRAM {
		return measure.DRAMBytes(x.gauges[0].lab.Host)
	}
	return 0
}

// cell is a product of n activations at a place.
type cell struct {
	typ     string
	subject subject
	at      place
	n       int
	blocks  []byte
	weight  format.Weight // what the blocks hold
	src     format.Source
	packed  *timing.Copies
}

// cell checks that all compute the same product, then times them.
func (x *race) cell(c cell) ([]measure.PeerRecord, error) {
	rng := rand.New(rand.NewPCG(uint64(c.n), uint64(c.at.k)))
	act := make([]float32, c.n*c.at.k)
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
		p, err := x.lib.NewProduct(ggml.Matrix{Type: c.typ, Blocks: c.blocks, X: act, M: c.at.m, K: c.at.k, N: c.n, Copies: copies}, buffer)
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
	p, at := c.subject.product, c.at
	size, err := p.ActSize(c.n, at.k)
	if err != nil {
		return nil, err
	}
	act, out := make([]byte, size), make([]float32, c.n*at.m)
	e := &entry{out: out, timed: measure.Timed{ActGroup: c.subject.problem.Act.Group}}
	e.run = func(threads int) (timing.Work, error) {
		run := func() {
			if err := errors.Join(p.PrepareActThreads(act, x, c.n, at.k, threads), p.Gemm(out, c.packed.Next(), act, 0, at.m, runtime.Options{Threads: threads})); err != nil {
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
	ref := measure.NewReference(c.weight, c.src, x, c.at.m, c.at.k, c.n, groups...)
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
			return failed("%s, %d x %d, %d activations: %v", who, c.at.m, c.at.k, c.n, err)
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
		if c.at.mode == measure.ModeDRAM && c.n <= maxSmall {
			var err error
			if reads[i], err = x.reads(threads); err != nil {
				return nil, err
			}
			for _, p := range reads[i] {
				works = append(works, ready(timing.Work{Run: p.Run}, c.n))
			}
		}
	}
	samples := timing.TimeWork(timing.Options{MinSample: minSample[c.at.mode]}, works...)
	var all []measure.PeerRecord
	for i, threads := range x.flags.threads {
		r := measure.PeerRecord{
			Type: c.typ, Format: c.subject.problem.Weight.Name, Target: shortName(c.subject.target.Target), Mode: c.at.mode,
			M: c.at.m, K: c.at.k, N: c.n, Threads: threads, Peer: "ggml " + x.lib.Version, Library: filepath.Base(x.lib.Path),
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
		samples = samples[len(entries):]
		for j, p := range reads[i] {
			r.ReadGBS = max(r.ReadGBS, p.Rate(samples[j].Min))
		}
		samples = samples[len(reads[i]):]
		all = append(all, r.Complete())
	}
	return all, nil
}

// ready has threads on CPUs of their own and awake when samples of w begin.
func ready(w timing.Work, n int) timing.Work {
	sleep, restore := w.After, func() {}
	w.Before = func() {
		restore = timing.Spread()
		if n <= maxSmall {
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
		p, err := g.read(measure.ModeDRAM, 0)
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

// peerMedians joins the rounds of each measurement: the one whose ratio is the
// median stands for all.
func peerMedians(records []measure.PeerRecord) []measure.PeerRecord {
	type key struct {
		typ, target, mode string
		n, threads        int
	}
	return medianOf(records, func(r measure.PeerRecord) key { return key{r.Type, r.Target, r.Mode, r.N, r.Threads} },
		func(r measure.PeerRecord) float64 { return r.Ratio })
}

// peerTable is records as text.
func peerTable(records []measure.PeerRecord) *table {
	t := &table{head: []string{"type", "target", "mode", "n", "threads", "us", "Gw/s", "ggml Gw/s", "repacked", "times ggml", "read GB/s", "error", "ggml's"}, wide: -1}
	for _, r := range records {
		plain, repacked := theirSpeeds(r)
		best := r.Fastest()
		t.add(r.Type, r.Target, r.Mode, r.N, r.Threads, fmt.Sprintf("%.1f", r.Ours.Ns/1e3), fmt.Sprintf("%.1f", r.Ours.GWeightsS), plain, repacked,
			fmt.Sprintf("%.2f", r.Ratio), blank(r.ReadGBS), fmt.Sprintf("%.2g", r.Ours.Error), fmt.Sprintf("%.2g", best.Error))
	}
	return t
}

// theirSpeeds are ggml's with weights as they are in the file and, at best, repacked.
func theirSpeeds(r measure.PeerRecord) (plain, repacked string) {
	best := 0.0
	for i, t := range r.Theirs {
		if i == 0 {
			plain = blank(t.GWeightsS)
		} else {
			best = max(best, t.GWeightsS)
		}
	}
	return plain, blank(best)
}

// blank is a figure with a decimal, nothing if it is 0.
func blank(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", f)
}
