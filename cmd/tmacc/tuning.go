package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen"
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
		return dramBytes(h)
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
	if _, _, err := x.locked(); err != nil { // now, not after the search
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
		return fmt.Errorf("tune -resume: %w", err)
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
		return failed("tune: %s on %s: nothing was measured: give more -time, and -from-scratch only with much of it", x.product.Problem.Name(), x.product.Target.Machine().Name)
	}
	x.bar.done()
	x.print(out, time.Since(start))
	if err := x.draw(out.Tried); err != nil {
		x.note("no picture: %s", oneLine(err))
	}
	return x.confirm(out, logged, ctx.Err() != nil)
}

// broken is the error of a search that could not go on. What it has found until then is printed.
func (x *tuning) broken(out tune.Outcome[*tune.Candidate], why error, logged bool) error {
	x.bar.done()
	if len(out.Best) > 0 {
		best := out.Best[0]
		fmt.Fprintf(x.out, "best so far, not measured again: %.2f of the default's time, for tmacc compile -trace\n", best.Cost)
		x.printTraces(best.G.Kernels)
	}
	err := fmt.Errorf("tune: after %d candidates: %w", out.Trials, why)
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
	p, err := plotSearch(x.product.Problem.Name()+" on "+x.product.Target.Machine().Name+", "+purposesText(x.product.Purposes), tried)
	if err != nil {
		return err
	}
	return savePicture(p, x.plot)
}

// note tells a person about something that does not end the search.
func (x *tuning) note(format string, args ...any) {
	x.bar.done()
	fmt.Fprintf(x.err, "tmacc: "+format+"\n", args...)
}

// confirm measures the best and what is locked again, and locks the better.
func (x *tuning) confirm(out tune.Outcome[*tune.Candidate], logged, interrupted bool) error {
	x.bar.step("measuring the best again")
	locked, same, err := x.locked()
	if err != nil {
		return x.broken(out, err, logged)
	}
	found := slices.Clone(out.Best)
	if locked != nil {
		found = append(found, tune.Found[*tune.Candidate]{G: locked})
	}
	all, err := x.tuner.Confirm(found)
	if err != nil {
		return x.broken(out, err, logged)
	}
	if x.beyond(all[0]) { // something else ran when what the machine can do was measured
		x.bar.step("measuring what the machine can do again")
		_ = x.measureCeilings(context.Background()) // after Ctrl-C, too, like what it is compared with
	}
	x.bar.done()
	return x.settle(all, locked, same, interrupted)
}

// beyond says that c is faster than the machine was when its ceilings were measured.
func (x *tuning) beyond(c tune.Confirmed) bool {
	for i, ns := range c.Ns {
		if _, err := x.complete(i, ns, c.Kernels); err != nil {
			return true
		}
	}
	return false
}

// settle locks the best of all, unless that is the default: then what is locked goes if it is slower than that, and the search was not
// interrupted. If it stays, it has the figures of today. But what was not locked for the same purposes on such a machine stays as it is,
// if it is not beaten.
func (x *tuning) settle(all []tune.Confirmed, locked *tune.Candidate, same, interrupted bool) error {
	best := all[0]
	x.printBest(best)
	before := slices.IndexFunc(all, func(c tune.Confirmed) bool { return c.Candidate == locked })
	switch usual := best.Cost > gain || x.tuner.IsDefault(best.Candidate); {
	case before >= 0 && !same && (usual || best.Candidate == locked):
		fmt.Fprintf(x.out, "\nwhat is locked, for other purposes or on another machine, stays: %.2f of the default's time for these\n", all[before].Cost)
		return nil
	case usual && before >= 0 && all[before].Cost > loss && !interrupted:
		return x.unlock(all[before].Cost)
	case before >= 0 && (usual || best.Candidate == locked):
		if cost := all[before].Cost; cost > 1 {
			fmt.Fprintf(x.out, "\nwhat is locked stays, %.2f of the default's time: its figures are renewed\n", cost)
		} else {
			fmt.Fprintf(x.out, "\nwhat is locked is as fast: its figures are renewed\n")
		}
		return x.lock(all[before])
	case usual:
		than := "as fast"
		if best.Cost > 1/gain {
			than = "faster"
		}
		fmt.Fprintf(x.out, "\nnot locked: the default is %s\n", than)
		return nil
	}
	return x.lock(best)
}

// unlock removes the product from the lock: today's default schedules are faster.
func (x *tuning) unlock(cost float64) error {
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	err = tune.ChangeLock(path, func(l *tune.Lock) error { l.Remove(x.product.Problem, x.product.Target); return nil })
	if err != nil {
		return fmt.Errorf("%w: the lock is as it was", plain(err))
	}
	fmt.Fprintf(x.out, "\nremoved from %s: what was locked takes %.2f of the default's time\n", path, cost)
	return nil
}

// locked is what the lock has for the product, nil if nothing that still is of use, and whether it is for
// the same purposes, on such a machine.
func (x *tuning) locked() (c *tune.Candidate, same bool, err error) {
	path, err := lockPath(x.dir)
	if err != nil {
		return nil, false, err
	}
	lock, err := tune.ReadLock(path)
	if err != nil {
		return nil, false, err
	}
	e := lock.Find(x.product.Problem, x.product.Target)
	if e == nil || !e.For(x.product.Problem) {
		return nil, false, nil
	}
	if c, err = x.tuner.Locked(e); err != nil {
		return nil, false, nil // this compiler cannot make it any more
	}
	same = e.Host.CPU == x.host.CPU && slices.EqualFunc(e.Figures, x.product.Purposes, func(f tune.Figures, p tune.Purpose) bool {
		return f.Mode == p.Mode && f.M == p.M && f.N == p.N && f.K == p.K
	})
	return c, same, nil
}

// printBest prints the figures and the schedules of the best.
func (x *tuning) printBest(best tune.Confirmed) {
	fmt.Fprintf(x.out, "\nbest: %.2f of the default's time\n", best.Cost)
	t := table{head: []string{"mode", "m", "k", "n", "us", "weights/ns", "of the ceiling", "default us", "of the default"}, wide: -1}
	for i, p := range x.product.Purposes {
		r := x.record(i, best.Ns[i], best.Kernels)
		t.add(p.Mode, p.M, p.K, p.N, fmt.Sprintf("%.1f", r.Ns/1e3), fmt.Sprintf("%.1f", r.GWeightsS), fmt.Sprintf("%.2f", r.Share),
			fmt.Sprintf("%.1f", best.DefaultNs[i]/1e3), fmt.Sprintf("%.2f", best.Ns[i]/best.DefaultNs[i]))
	}
	t.print(x.out, widthOf(x.out))
	for _, k := range best.Kernels {
		fmt.Fprintf(x.out, "%s: %v\n", counted(k.Schedule.Cols, "column"), k.Schedule.Trace)
	}
}

// gain is how much faster than the default a candidate must be to be locked, loss how much slower what is locked must be to
// go: the same kernels measure a few hundredths apart from one search to the next.
const (
	gain = 0.99
	loss = 1.05
)

// lock puts c into the lock. If that cannot be written, its traces are printed.
func (x *tuning) lock(c tune.Confirmed) error {
	e, err := x.entry(c)
	if err != nil {
		return err
	}
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
		err = tune.ChangeLock(path, func(l *tune.Lock) error { l.Put(*e); return nil })
	}
	if err != nil {
		x.printTraces(c.Kernels)
		return fmt.Errorf("%w: not locked: the traces above are for tmacc compile -trace", plain(err))
	}
	fmt.Fprintf(x.out, "\nlocked in %s, %d widths\n", path, len(e.Kernels))
	widest, usual := e.Widest(), x.tuner.Default[len(x.tuner.Default)-1].Cols
	larger := func(p tune.Purpose) bool { return p.N > widest }
	if widest < usual && !slices.ContainsFunc(x.product.Purposes, larger) {
		fmt.Fprintf(x.out, "none is for more than %s, the default has some for %d: if there are larger products, tune for them too, with -n\n", counted(widest, "column"), usual)
	}
	return nil
}

// printTraces prints schedules as files of traces have them.
func (x *tuning) printTraces(kernels []gen.Kernel) {
	for _, k := range kernels {
		data, err := json.Marshal(k.Schedule.Trace)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		fmt.Fprintf(x.out, "%s\n", data)
	}
}

// entry is c for the lock, with kernels of other widths.
func (x *tuning) entry(c tune.Confirmed) (*tune.Entry, error) {
	p := x.product
	e := &tune.Entry{Product: p.Problem.Name(), ActGroup: p.Problem.Act.Group, Target: p.Target.Machine().Name,
		Problem: tune.ProblemHash(p.Problem), Host: x.host, Compiler: compiler()}
	for i, at := range p.Purposes {
		e.Figures = append(e.Figures, tune.Figures{Mode: at.Mode, M: at.M, N: at.N, K: at.K, Ns: c.Ns[i], DefaultNs: c.DefaultNs[i],
			Share: x.record(i, c.Ns[i], c.Kernels).Share, Ceilings: x.ceilings[i]})
	}
	v, err := buildUses(context.Background(), p.Problem, p.Target, x.tuner.Uses(c.Candidate), "k")
	if err != nil {
		return nil, err
	}
	for _, k := range v.Kernels {
		hash, err := tune.KernelHash(p.Target, k.Code)
		if err != nil {
			return nil, err
		}
		e.Kernels = append(e.Kernels, tune.Kernel{Cols: k.Schedule.Cols, Hash: hash, Trace: k.Schedule.Trace})
	}
	return e, nil
}

// measureCeilings finds out what binds; of several times the most counts. Without probes the shares stay unknown. The error is that of ctx.
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
	g := gaugeOf(lab, quick)
	defer g.close()
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
	dots, err := rate(g.dot(x.product.Target))
	if err != nil {
		return nil, err
	}
	reads := map[string]float64{}
	for _, p := range x.product.Purposes {
		if _, ok := reads[p.Mode]; !ok {
			if reads[p.Mode], err = rate(g.read(p.Mode, p.M*p.K*x.product.Problem.Weight.Bits/8)); err != nil {
				return found, err
			}
		}
		found = append(found, tune.Ceilings{ReadGBS: reads[p.Mode], DotGMACS: dots, ClockGHz: clock})
	}
	return found, nil
}

// record is the measurement of a purpose that took ns by these kernels, or by others.
func (x *tuning) record(i int, ns float64, kernels []gen.Kernel) measure.Record {
	r, _ := x.complete(i, ns, kernels) // an error is noise here
	return r
}

// complete is record; the error is a *measure.ProbeError.
func (x *tuning) complete(i int, ns float64, kernels []gen.Kernel) (measure.Record, error) {
	p, c := x.product.Purposes[i], x.ceilings[i]
	r, weights := subject{problem: x.product.Problem, target: gen.Target{Target: x.product.Target, Kernels: kernels}}.record(p.Mode, p.M, p.N, p.K)
	r.Ns, r.ClockGHz, r.CeilingGBS, r.CeilingGMACS = ns, c.ClockGHz, c.ReadGBS, c.DotGMACS
	return r.Complete(weights)
}

// line is the progress: of the first purpose, and the best of all.
func (x *tuning) line(p tune.Progress, took time.Duration) string {
	best := ""
	if x.tuner.ReferenceNs[0] > 0 { // all else was measured by an earlier search
		r := x.record(0, p.Best*x.tuner.ReferenceNs[0], nil)
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
		Problem: tune.ProblemHash(p.Problem), Purposes: p.Purposes, Seed: x.seed, CPU: x.host.CPU, Compiler: compiler()}
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
