package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// The usual purposes: products with few activations out of a cache and of memory, and with many.
var (
	usualModes = []string{measure.ModeL2, measure.ModeDRAM}
	usualNs    = []int{1, 4, measure.ManyColumns}
)

// The usual ends of a search.
const (
	usualTrials   = 10000
	usualPatience = 1000
	usualTime     = 5 * time.Minute
)

// usualTuning is what tmacc tune does without flags, for so long.
func usualTuning(dir string, limit time.Duration) tuneFlags {
	return tuneFlags{modes: usualModes, ns: usualNs, trials: usualTrials, patience: usualPatience, limit: limit, seed: 1, dir: dir}
}

// purposeFlags adds the flags that say what schedules are tuned for.
func (x *tuneFlags) purposeFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&x.modes, "mode", usualModes, "where weights are: dram, l3 or l2, as for tmacc bench; more than one all count")
	f.IntSliceVarP(&x.ns, "n", "n", usualNs, "activations per product; more than one all count, those above 8 in one mode")
	x.sizeFlags.add(f, 0, 0)
}

// copies is how many bytes of weights a mode goes through.
func copies(mode string, h timing.Host) int {
	if mode == measure.ModeDRAM {
		return bench.DRAMBytes(h)
	}
	return 0
}

// tuning is one search.
type tuning struct {
	*cli
	tuneFlags
	on       *worker.Machine // that measures, nil: this one
	host     timing.Host
	product  tune.Product
	bar      *progress
	tuner    *tune.Tuner
	ceilings []tune.Ceilings // of each purpose, zeros if they cannot be measured
	journal  journal
	result   tuned
	// beside and completed are those of the tuner.
	beside    func(base, c *tune.Candidate, purposes []tune.Purpose) ([]tune.Beside, error)
	completed func(c *tune.Candidate) (*tune.Candidate, error)
}

// tune searches and locks what it finds.
func (x *tuning) tune(ctx context.Context) (err error) {
	x.bar.step("measuring what the machine can do")
	if err := x.measureCeilings(ctx); err != nil {
		return err
	}
	x.bar.step("compiling the default schedules")
	if x.tuner, err = heeding(ctx, func() (*tune.Tuner, error) { return tune.New(x.product) }); err != nil {
		return err
	}
	x.tuner.On = x.on
	x.beside, x.completed = x.tuner.Beside, x.tuner.Complete
	if _, err := x.locked(); err != nil { // now, not after the search
		return err
	}
	if path, err := lockPath(x.dir); err == nil {
		if err := tune.Writable(path); err != nil {
			x.note("%s: what is found will be printed, and not locked", oneLine(plain(err)))
		}
	}
	var seeds []*tune.Candidate
	if !x.scratch {
		if seeds, err = heeding(ctx, func() ([]*tune.Candidate, error) { return x.tuner.Seeds(), nil }); err != nil {
			return err
		}
	}
	before, err := x.begin()
	switch {
	case err != nil && x.resume:
		return fmt.Errorf("tune -resume: %w: nothing was searched, and the lock is as it was", err)
	case err != nil:
		x.note("not logged: %s", oneLine(err))
	}
	limited, stop := context.WithTimeout(ctx, x.limit)
	defer stop()
	start := time.Now()
	out, broken := x.tuner.Search(limited, tune.Options{
		Trials: x.trials, Patience: x.patience, Rng: rand.New(rand.NewSource(x.seed)),
		Progress: func(p tune.Progress) { x.bar.step("%s", x.line(p, time.Since(start))) },
	}, append(before, seeds...)...)
	if limited.Err() != nil && ctx.Err() == nil {
		out.Ended = "time"
	}
	unlogged := x.journal.end(out.Ended, out.Dropped)
	if unlogged != nil {
		x.note("not logged: %s", oneLine(unlogged))
	}
	logged := x.journal.on && unlogged == nil
	if broken != nil {
		return x.broken(out, broken, logged)
	}
	if len(out.Best) == 0 {
		x.bar.done()
		x.print(out, time.Since(start))
		x.result.search(x.product, out, time.Since(start))
		return x.nothing()
	}
	x.bar.done()
	x.print(out, time.Since(start))
	x.result.search(x.product, out, time.Since(start))
	if err := x.draw(out.Tried); err != nil {
		x.note("no picture: %s", oneLine(err))
	}
	return x.confirm(out, logged, ctx.Err() != nil)
}

// nothing is the error of a search that measured no schedule.
func (x *tuning) nothing() error {
	remedy := "give more -time"
	if x.scratch {
		remedy += ", or leave -from-scratch out"
	}
	return failed("tune: %s on %s: nothing was measured: %s", x.product.Problem.Name(), x.product.Target.Machine().Name, remedy)
}

// broken is the error of a search that could not go on. What it has found until then is printed.
func (x *tuning) broken(out tune.Outcome[*tune.Candidate], why error, logged bool) error {
	x.bar.done()
	if len(out.Best) > 0 {
		best := out.Best[0]
		fmt.Fprintf(x.out, "best so far, not measured again: %.2f of the default's time, for tmacc compile -trace\n", best.Cost)
		x.printTraces(best.G.Kernels)
	}
	err := fmt.Errorf("tune: after %d candidates: %w; the lock is as it was", out.Trials, why)
	if logged {
		err = fmt.Errorf("%w; what was measured is logged: tmacc tune -resume goes on", err)
	}
	return err
}

// draw writes the picture of -plot.
func (x *tuning) draw(tried []tune.Tried) error {
	if x.plot == "" {
		return nil
	}
	p, err := plotSearch(searchTitle(x.journal.run), searchSource(x.journal.run), tried)
	if err != nil {
		return err
	}
	return p.save(x.plot)
}

// note tells a person about something that does not end the search.
func (x *tuning) note(format string, args ...any) {
	x.bar.done()
	fmt.Fprintf(x.err, "tmacc: "+format+"\n", args...)
}

// measureCeilings finds out what binds; of several times the most counts. Without probes the shares stay unknown. The error is that of ctx, or
// one of the machine, which measures nothing.
func (x *tuning) measureCeilings(ctx context.Context) error {
	if x.ceilings == nil {
		x.ceilings = make([]tune.Ceilings, len(x.product.Purposes))
	}
	now, err := heeding(ctx, x.machineCeilings)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, n := range now {
		c := &x.ceilings[i]
		*c = tune.Ceilings{ReadGBS: max(c.ReadGBS, n.ReadGBS), DotGMACS: max(c.DotGMACS, n.DotGMACS), ClockGHz: max(c.ClockGHz, n.ClockGHz)}
	}
	if worker.IsEnvironment(err) { // nor can candidates be measured
		return err
	}
	if err != nil {
		x.note("shares of ceilings are not known: %s", oneLine(err))
	}
	return nil
}

// machineCeilings are those of the first purposes, of all but for an error, which ends it: a machine that has gone is not waited for again.
func (x *tuning) machineCeilings() (found []tune.Ceilings, _ error) {
	lab, err := measure.NewLabOn(x.on)
	if err != nil {
		return nil, err
	}
	g := bench.NewGaugeOn(lab, quick)
	defer g.Close()
	rate := func(probes []measure.Probe, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		best, err := lab.Best(quick, probes)
		return best.Rate, err
	}
	clock, err := rate(lab.Clock(), nil)
	if err != nil {
		return nil, err
	}
	dots, err := rate(g.Dot(x.product.Target))
	if err != nil {
		return nil, err
	}
	reads := map[string]float64{}
	for _, p := range x.product.Purposes {
		if _, ok := reads[p.Mode]; !ok {
			if reads[p.Mode], err = rate(g.Read(p.Mode, p.M*p.K*x.product.Problem.Weight.Bits/8)); err != nil {
				return found, err
			}
		}
		found = append(found, tune.Ceilings{ReadGBS: reads[p.Mode], DotGMACS: dots, ClockGHz: clock})
	}
	return found, nil
}

// ceilingsOf are those of a purpose. What memory can do is known for the modes of those that the search is for.
func (x *tuning) ceilingsOf(p tune.Purpose) tune.Ceilings {
	i := slices.IndexFunc(x.product.Purposes, func(o tune.Purpose) bool { return o.Mode == p.Mode })
	if i < 0 {
		c := x.ceilings[0]
		c.ReadGBS = 0
		return c
	}
	return x.ceilings[i]
}

// record is the measurement of a purpose that took ns by these kernels, or by others.
func (x *tuning) record(p tune.Purpose, ns float64, kernels []variant.Kernel) measure.Record {
	r, _ := x.complete(p, ns, kernels) // an error is noise here
	return r
}

// complete is record; the error is a *measure.ProbeError.
func (x *tuning) complete(p tune.Purpose, ns float64, kernels []variant.Kernel) (measure.Record, error) {
	c := x.ceilingsOf(p)
	r, weights := bench.Subject{Problem: x.product.Problem, Variant: variant.Variant{Target: x.product.Target, Kernels: kernels}}.Record(p.Mode, p.M, p.N, p.K)
	r.Ns, r.ClockGHz, r.CeilingGBS, r.CeilingGMACS = ns, c.ClockGHz, c.ReadGBS, c.DotGMACS
	return r.Complete(weights)
}

// line is the progress: of the first purpose, and the best of all.
func (x *tuning) line(p tune.Progress, took time.Duration) string {
	best := ""
	if x.tuner.ReferenceNs[0] > 0 { // all else was measured by an earlier search
		r := x.record(x.product.Purposes[0], p.Best*x.tuner.ReferenceNs[0], nil)
		best = fmt.Sprintf("%.1f us, %.1f weights/ns, %.2f of the ceiling, ", r.Ns/1e3, r.GWeightsS, r.Share)
	}
	return fmt.Sprintf("%s on %s: %d of %d measured in %s of %s, %d dropped; best %s%.2f of the default's time",
		x.product.Problem.Weight, x.product.Target.Machine().ShortName(), p.Trials, x.trials, took.Round(time.Second), x.limit, p.Dropped, best, p.Best)
}

// print prints what became of how many candidates.
func (x *tuning) print(out tune.Outcome[*tune.Candidate], took time.Duration) {
	fmt.Fprintf(x.out, "%s on %s", x.product.Problem.Weight, x.product.Target.Machine().Name)
	for _, p := range x.product.Purposes {
		fmt.Fprintf(x.out, ", %d x %d times %d, weights in %s", p.M, p.K, p.N, p.Mode)
	}
	fmt.Fprintf(x.out, ": %d candidates measured in %s (%.0f a minute), ended by %s\n",
		out.Trials, took.Round(time.Second), float64(out.Trials)/took.Minutes(), out.Ended)
	t := table{head: []string{"dropped", "because"}, wide: -1}
	for _, reason := range slices.SortedFunc(maps.Keys(out.Dropped), func(a, b string) int {
		return cmp.Or(out.Dropped[b]-out.Dropped[a], cmp.Compare(a, b))
	}) {
		t.add(out.Dropped[reason], reason)
	}
	t.print(x.out, widthOf(x.out))
}

// journal adds what a search measures to the log. Without one, and after an error, the search goes on: its
// result does not depend on the log.
type journal struct {
	log     tune.Log
	run     tune.Run
	on      bool
	pending []tune.Trial // that could not be added yet
	failed  error        // the last time
	writing chan bool    // closed after what has been added last was written
}

// begin makes the tuner log. With -resume it returns what the log has, to begin with.
func (x *tuning) begin() (before []*tune.Candidate, err error) {
	p, j := x.product, &x.journal
	j.run = tune.Run{Start: time.Now(), Cost: tune.CostVersion, Default: x.tuner.DefaultHash, Product: p.Problem.Name(), ActGroup: p.Problem.Act.Group, Target: p.Target.Machine().Name,
		Problem: tune.ProblemHash(p.Problem), Purposes: p.Purposes, Seed: x.seed, CPU: x.host.CPU, Compiler: gomod.Compiler()}
	x.tuner.Log = func(t tune.Trial) {
		if t.Fault != "" {
			x.note("BUG, please report: %s", oneLine(errors.New(t.Fault)))
		}
		j.add(t)
	}
	if x.tuneFlags.log == noLog {
		return nil, nil
	}
	if j.log, err = tuningLog(x.tuneFlags.log); err != nil {
		return nil, err
	}
	if x.resume {
		trials, err := j.log.Before(&j.run)
		x.bar.done()
		if err = x.noteUnread(err); err != nil {
			return nil, err
		}
		before = x.tuner.Resume(trials)
	}
	if err = j.log.Begin(&j.run); err != nil {
		return nil, err
	}
	j.on = true
	return before, nil
}

// add adds trials, and those that could not be added before, while the next one is measured: it waits for
// the writing before only.
func (j *journal) add(ts ...tune.Trial) {
	if !j.on {
		return
	}
	j.wait()
	j.pending = append(j.pending, ts...)
	done := make(chan bool)
	j.writing = done
	go func() {
		defer close(done)
		if j.failed = j.log.Add(&j.run, j.pending...); j.failed == nil {
			j.pending = nil
		}
	}()
}

// wait waits until everything is written, or cannot be.
func (j *journal) wait() {
	if j.writing != nil {
		<-j.writing
	}
}

// end says why the search ended. The error is of the last writing.
func (j *journal) end(reason string, dropped map[string]int) error {
	j.wait()
	j.run.Ended, j.run.Dropped = reason, dropped
	j.add()
	j.wait()
	if len(j.pending) > 0 {
		return fmt.Errorf("%d candidates: %w", len(j.pending), j.failed)
	}
	return j.failed
}
