package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// benchFormats are measured if -format names none.
var benchFormats = []string{"w1", "w1-f32act", "ternary", "w2", "w3", "w4", "w8", "iq4nl", "w2-g128", "w4-g128", "w4-g32"}

type benchFlags struct {
	formats, modes []string
	ns             []int
	sizeFlags
	act         actFlags
	targets     []string
	trace       string
	lock        string
	tuned       *tune.Lock // of lock, nil: none
	check       string
	peer, page  string
	threads     []int
	rounds      int
	json, quiet bool
}

func (c *cli) bench() *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use: "bench", Args: between(0, 0),
		Short: "measure kernels against what the machine can do",
		Long: `Measure products with the default schedules, on one thread, as a generated package
runs them, and in the same rounds what the machine can do: clock, read bandwidth, dot
products. -json prints one object per line. With a -lock, what it has is measured beside them.

Modes say where the weights come from: dram cycles copies of a 4096 x 4096 matrix that
total over 512 MiB, l3 reads one, l2 a 512 x 2048 tile. The share is of the read
bandwidth in dram (counting the nominal bits of the format), of the peak of int8 dot
products for more than 8 activations, else of the nearer of both. Cycles are by the clock
beside the fastest sample: it falls under load.

-check compares the medians of 5 interleaved rounds with a file of limits and exits 1
if one is missed. With a -lock that is measured instead of the default schedules, and held
against the stricter rules of tuned kernels.

-peer ggml=FOLDER measures ggml's libraries of that folder too, in the same rounds, on the
bytes of the same blocks: -format names types of GGUF. Both begin with float activations.
Each product is compared with that of exact activations first; errors that int8 does not
explain are an error. -check is of ratios then; a -lock takes the place of the default
schedules here too.`,
		Example: `  tmacc bench -format w2,w4-g32 -mode dram -n 1,4
  tmacc bench -json > bench.jsonl
  tmacc bench -check docs/limits.json
  tmacc bench -lock tmacc.lock -format w2 -rounds 5
  tmacc bench -lock tmacc.lock -check docs/limits.json
  tmacc bench -peer ggml=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64 -format Q4_0,Q4_K`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&b.formats, "format", nil, "weight formats or JSON files with one, separated by commas (default "+strings.Join(benchFormats, ",")+")")
	f.StringSliceVar(&b.modes, "mode", []string{measure.ModeDRAM, measure.ModeL3, measure.ModeL2}, "where weights are")
	f.IntSliceVarP(&b.ns, "n", "n", []int{1, 4, 256}, "activations per product; more than 8 are measured in one mode only")
	b.sizeFlags.add(f, 0, 0)
	actVar(f, &b.act)
	f.StringSliceVar(&b.targets, "target", []string{hostWord}, "targets, or all that this machine runs; may be repeated")
	f.StringVar(&b.trace, "trace", "", "JSON `file` with the schedule to measure instead of the default ones")
	f.StringVar(&b.lock, "lock", "", "`file` that tmacc tune has written: its schedules are measured beside the default ones, with -check and -peer in their place")
	f.StringVar(&b.check, "check", "", "JSON `file` with limits to hold the measurements against")
	f.StringVar(&b.peer, "peer", "", "ggml=`folder` of ggml's libraries, to measure beside ours")
	f.IntSliceVar(&b.threads, "threads", []int{1}, "with -peer: numbers of threads")
	f.StringVar(&b.page, "md", "", "print the page of a `file` that -json wrote with -peer or -check, measure nothing")
	f.IntVar(&b.rounds, "rounds", 1, "rounds over everything, with -check at least 5")
	f.BoolVar(&b.json, "json", false, "print one JSON object per line; with -check where it was measured, the median round of each measurement, and what holds")
	f.BoolVarP(&b.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.validate(cmd); err != nil {
			return err
		}
		if err := c.readLock(&b); err != nil {
			return err
		}
		if b.page != "" {
			return c.printPage(b.page, b.check)
		}
		if err := mapping("bench"); err != nil {
			return err
		}
		if b.peer != "" {
			return c.comparePeer(cmd.Context(), b)
		}
		if b.check != "" {
			return c.check(cmd.Context(), b)
		}
		return c.measureAll(cmd.Context(), b)
	}
	return cmd
}

func (b *benchFlags) validate(cmd *cobra.Command) error {
	if err := b.validatePlaces(); err != nil {
		return err
	}
	if err := b.sizeFlags.check(cmd.Flags()); err != nil {
		return err
	}
	if err := b.sizeFlags.checkCalls(b.ns); err != nil {
		return err
	}
	switch {
	case b.rounds < 1 || b.rounds > 1000:
		return fmt.Errorf("-rounds %d: want 1 to 1000", b.rounds)
	case b.trace != "" && b.lock != "":
		return fmt.Errorf("-trace and -lock: want one of them")
	case b.trace != "" && len(b.formats) != 1:
		return fmt.Errorf("-trace is for one format: name it with -format")
	}
	return b.validatePeer(cmd)
}

func (b *benchFlags) validatePlaces() error {
	for _, mode := range b.modes {
		if mode != measure.ModeDRAM && mode != measure.ModeL3 && mode != measure.ModeL2 {
			return fmt.Errorf("unknown mode %q: have dram, l3, l2", mode)
		}
	}
	for _, n := range b.ns {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("-n %d: want 1 to %d", n, 1<<16)
		}
	}
	if len(b.modes) == 0 || len(b.ns) == 0 {
		return fmt.Errorf("nothing to measure: give a -mode and an -n")
	}
	return nil
}

// places are what to measure of a format: small products in every mode, large
// ones in one.
func (b *benchFlags) places() []bench.Place {
	return bench.Places(b.modes, b.ns, b.m, b.k)
}

// extreme is where products that depend on activations are measured with the worst: one column
// from the second-level cache.
func (b *benchFlags) extreme() bench.Place {
	m, k := measure.Shape(measure.ModeL2)
	return bench.Place{Mode: measure.ModeL2, M: m, K: k, Ns: []int{1}, Extreme: true}
}

// benchWeight is the format of a name, those of measure.Formats included.
func (c *cli) benchWeight(name string) (format.Weight, error) {
	for _, w := range measure.Formats {
		if w.Name == name {
			return w, nil
		}
	}
	return c.weight(name)
}

// suite is products whose kernels are assembled.
type suite struct {
	subjects []bench.Subject
	places   []bench.Place
	codes    []*live.Code
}

func (s *suite) close() {
	for _, code := range s.codes {
		code.Close()
	}
}

// add compiles a product for a target that this machine runs.
func (s *suite) add(ctx context.Context, c *cli, b benchFlags, name string, t lower.Target) error {
	weight, act := b.act.of(name)
	w, err := c.benchWeight(weight)
	if err != nil {
		return err
	}
	if g, ok := measure.ActGroups[name]; ok && b.check != "" && act.group == usualGroup {
		act.group = g
	}
	p, err := act.problem(w)
	if err != nil {
		return err
	}
	if err := checkK(b.k, p, name); err != nil {
		return err
	}
	var trace schedule.Trace
	if b.trace != "" {
		if trace, err = c.trace(b.trace); err != nil {
			return err
		}
	}
	var v variant.Variant
	e := b.locked(p, t)
	if e != nil {
		v, err = buildUses(ctx, p, t, e.Uses(), p.Name())
	} else {
		v, err = buildTarget(ctx, p, t, trace, p.Name())
	}
	if err != nil {
		return err
	}
	code, err := live.Assemble(p, v)
	if err != nil {
		return err
	}
	s.codes = append(s.codes, code)
	product, err := code.Product()
	if err != nil {
		return err
	}
	s.subjects = append(s.subjects, bench.Subject{Problem: p, Variant: v, Product: product, Tuned: e != nil})
	return nil
}

// readLock reads the lock of -lock, which must be there.
func (c *cli) readLock(b *benchFlags) error {
	if b.lock == "" {
		return nil
	}
	data, err := c.readText(b.lock)
	if err != nil {
		return err
	}
	b.tuned, err = tune.ParseLock(b.lock, data)
	return err
}

// locked is the entry of -lock for a product, nil if it has none.
func (b *benchFlags) locked(p ir.Problem, t lower.Target) *tune.Entry {
	if b.tuned == nil {
		return nil
	}
	if e := b.tuned.Find(p, t); e != nil && e.For(p) {
		return e
	}
	return nil
}

// addBoth is add of the default schedules, and of those of the lock, if it has some.
func (s *suite) addBoth(ctx context.Context, c *cli, b benchFlags, name string, t lower.Target) error {
	usual := b
	usual.tuned = nil
	if err := s.add(ctx, c, usual, name, t); err != nil {
		return err
	}
	if b.locked(s.subjects[len(s.subjects)-1].Problem, t) == nil {
		return nil
	}
	return s.add(ctx, c, b, name, t)
}

// noteUnlocked says which products are measured by their default schedules although there is a lock.
func (c *cli) noteUnlocked(b benchFlags, s *suite) {
	var names []string
	for _, x := range s.subjects {
		tuned := slices.ContainsFunc(s.subjects, func(o bench.Subject) bool {
			return o.Tuned && o.Problem.Name() == x.Problem.Name() && o.Variant.Target == x.Variant.Target
		})
		if !tuned {
			names = append(names, x.Problem.Name()+" on "+x.Variant.Target.Machine().ShortName())
		}
	}
	if b.tuned != nil && len(names) > 0 {
		fmt.Fprintf(c.err, "tmacc: %s has nothing for these, default schedules: %s\n", b.lock, strings.Join(names, ", "))
	}
}

// rounds measures all subjects over and over, so that what disturbs the machine
// for a while hits all alike.
func (s *suite) rounds(ctx context.Context, n int, g *bench.Gauge, bar *progress, each func(measure.Record)) error {
	for round := range n {
		for _, x := range s.subjects {
			for _, at := range s.places {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if at.Extreme && !x.Residual() {
					continue // takes as long as any
				}
				bar.step("round %d of %d: %s on %s, %s", round+1, n, x.Problem.Name(), x.Variant.Target.Machine().ShortName(), at.Mode)
				records, err := g.Measure(x, at)
				if err != nil {
					return err
				}
				for _, r := range records {
					each(r)
				}
			}
		}
	}
	return nil
}

func (c *cli) measureAll(ctx context.Context, b benchFlags) error {
	ts, err := targetsHere(b.targets)
	if err != nil {
		return err
	}
	if len(b.formats) == 0 {
		b.formats = benchFormats
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	s := &suite{places: b.places()}
	defer s.close()
	for _, t := range ts {
		for _, name := range b.formats {
			bar.step("compiling %s for %s", name, t.Machine().Name)
			if err := s.addBoth(ctx, c, b, name, t); err != nil {
				return err
			}
		}
	}
	bar.step("assembling what shows what this machine can do")
	g, err := bench.NewGauge(timing.Options{})
	if err != nil {
		return err
	}
	defer g.Close()
	var all []measure.Record
	err = s.rounds(ctx, b.rounds, g, bar, func(r measure.Record) {
		all = append(all, r)
		if b.json {
			r.Host, r.Date, r.Commit = g.Lab.Host.String(), today(), commit()
			json.NewEncoder(c.out).Encode(r)
		}
	})
	bar.done()
	c.noteBusy(g)
	if err != nil || b.json {
		return err
	}
	benchTable(medians(all)).print(c.out, widthOf(c.out))
	return nil
}

// measurement is what records are of.
type measurement struct {
	format, target, mode string
	n                    int
	tuned, extreme       bool
}

func measurementOf(r measure.Record) measurement {
	return measurement{r.Format, r.Target, r.Mode, r.N, r.Tuned, r.Extreme}
}

// medians joins the rounds of each measurement.
func medians(records []measure.Record) []measure.Record {
	return medianOf(records, measurementOf, func(r measure.Record) float64 { return r.Ns })
}

// medianOf is of the records of each key, in the order of their first, the one
// whose figure is the median.
func medianOf[R any, K comparable](records []R, key func(R) K, figure func(R) float64) []R {
	var order []K
	rounds := map[K][]R{}
	for _, r := range records {
		k := key(r)
		if rounds[k] == nil {
			order = append(order, k)
		}
		rounds[k] = append(rounds[k], r)
	}
	var out []R
	for _, k := range order {
		list := rounds[k]
		slices.SortFunc(list, func(a, b R) int { return cmp.Compare(figure(a), figure(b)) })
		out = append(out, list[len(list)/2])
	}
	return out
}

// benchTable is records as text; tuned ones come behind those of the default schedules, by whose times theirs are divided.
func benchTable(records []measure.Record) *table {
	t := &table{head: []string{"format", "target", "mode", "m", "k", "n", "us", "Gw/s", "w/cycle", "GB/s", "of", "share", "prepare us", "of the default"}, wide: -1}
	usual := map[measurement]float64{}
	for _, r := range records {
		of, unit := r.CeilingGBS, "GB/s"
		if r.Share != r.ReadShare {
			of, unit = r.CeilingGMACS, "GMAC/s"
		}
		id, ratio := measurementOf(r), ""
		if id.tuned = false; r.Tuned {
			ratio = fmt.Sprintf("%.2f", r.Ns/usual[id])
		} else {
			usual[id] = r.Ns
		}
		t.add(r.Format, r.Target, r.Mode, r.M, r.K, r.N, fmt.Sprintf("%.1f", r.Ns/1e3), fmt.Sprintf("%.1f", r.GWeightsS),
			fmt.Sprintf("%.1f", r.WeightsPerCycle), fmt.Sprintf("%.1f", r.GBS), fmt.Sprintf("%.1f %s", of, unit),
			fmt.Sprintf("%.2f", r.Share), fmt.Sprintf("%.1f", r.PrepareNs/1e3), ratio)
	}
	return t
}

// check holds the measurements that the limits ask for against them.
func (c *cli) check(ctx context.Context, b benchFlags) error {
	data, err := c.readJSON(b.check, "limits, such as docs/limits.json")
	if err != nil {
		return err
	}
	limits, err := measure.ParseLimits(data)
	if err != nil {
		return fmt.Errorf("%s: %w", b.check, err)
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	g, err := bench.NewGauge(timing.Options{})
	if err != nil {
		return err
	}
	defer g.Close()
	bar.step("measuring what this machine can do")
	host, err := g.Lab.Ceilings(timing.Options{})
	if err != nil {
		return err
	}
	b.modes, b.ns = measure.Asked(b.tuned != nil)
	b.m, b.k, b.trace = 0, 0, ""
	s := &suite{places: append(b.places(), b.extreme())}
	defer s.close()
	asked := func(records []measure.Record) []measure.Verdict {
		return slices.DeleteFunc(measure.Check(limits, records, host, b.tuned != nil), func(v measure.Verdict) bool {
			return len(b.formats) > 0 && !slices.Contains(b.formats, v.Format)
		})
	}
	wanted := asked(nil)
	if len(wanted) == 0 {
		return fmt.Errorf("-check %s: has no limit for %s", b.check, strings.Join(b.formats, ", "))
	}
	seen := map[[2]string]bool{}
	for _, v := range wanted {
		if id := [2]string{v.Target, v.Format}; !v.Skipped && !seen[id] {
			seen[id] = true
			t, err := bestOf(v.Target)
			if err != nil {
				return err
			}
			bar.step("compiling %s for %s", v.Format, v.Target)
			if err := s.add(ctx, c, b, v.Format, t); err != nil {
				return err
			}
		}
	}
	bar.done()
	c.noteUnlocked(b, s)
	var all []measure.Record
	err = s.rounds(ctx, max(b.rounds, measure.Rounds), g, bar, func(r measure.Record) { all = append(all, r) })
	if err != nil {
		return err
	}
	bar.done()
	c.noteBusy(g)
	x := limitCheck{about: aboutHere(b.check), records: medians(all), verdicts: asked(all)}
	if b.json {
		x.encode(c.out)
	} else {
		for _, v := range x.verdicts {
			fmt.Fprintln(c.out, v)
		}
	}
	return missed(x.verdicts)
}

// missed is an error if rules are.
func missed(verdicts []measure.Verdict) error {
	misses := 0
	for _, v := range verdicts {
		if v.Failed() {
			misses++
		}
	}
	if misses > 0 {
		return failed("bench: %d of %d limits are missed", misses, len(verdicts))
	}
	return nil
}
