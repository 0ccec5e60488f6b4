package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// validateDevice refuses flags that mean nothing on a device.
func (x *tuneFlags) validateDevice(f *pflag.FlagSet) error {
	for _, flag := range []string{"runner", "runner-exec", "record", "no-records", "plot", "resume", "only"} {
		if f.Changed(flag) {
			return fmt.Errorf("-%s: is not for devices: leave it out with -target spirv", flag)
		}
	}
	return nil
}

// deviceTuning is a search on a device.
type deviceTuning struct {
	*cli
	f      tuneFlags
	lab    *shaders.Lab
	bar    *progress
	p      ir.Problem
	t      spirv.Target
	lock   string
	log    tune.Log
	result session.Summary
}

// tuneDevice searches for schedules of all formats on a device.
func (c *cli) tuneDevice(ctx context.Context, f tuneFlags, ts []spirv.Target) error {
	out := c.out
	if f.json {
		aside := *c
		if aside.out = c.err; f.quiet {
			aside.out = io.Discard
		}
		c = &aside
	}
	bar := newProgress(c.err, f.quiet)
	defer bar.done()
	chosen, err := c.chosenSpeeds(f.cores)
	if err != nil {
		return err
	}
	var problems []ir.Problem
	for _, name := range f.formats {
		p, err := c.tunedProduct(name, f.act, f.k)
		if err != nil {
			return err
		}
		problems = append(problems, p)
	}
	lock, err := delivery.LockPath(f.dir)
	if err != nil {
		return err
	}
	log, err := session.LogAt(f.log)
	if err != nil && f.log != session.NoLog {
		return err
	}
	lab, err := c.openDevice(ctx, f.device, bar)
	if err != nil {
		return err
	}
	defer lab.Close()
	ts = withSpeeds(ts, chosen, lab.Speeds())
	for _, p := range problems {
		for _, t := range ts {
			if ctx.Err() != nil {
				return failed("%w: not searched: %s on %s", errInterrupted, p.Name(), t.Machine().Name)
			}
			x := &deviceTuning{cli: c, f: f, lab: lab, bar: bar, p: p, t: t, lock: lock, log: log}
			err := x.tune(ctx)
			if f.json && err == nil {
				err = json.NewEncoder(out).Encode(x.result)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// purposes are the products that count.
func (x *deviceTuning) purposes() (all []tune.Purpose) {
	for _, at := range devicePlaces(x.f.modes, x.f.ns, x.f.m, x.f.k) {
		for _, n := range at.Ns {
			all = append(all, purposeOn(x.lab, at, n, x.p))
		}
	}
	return all
}

// search is the search by flags.
func (x *deviceTuning) search(ctx context.Context) (*shaders.Search, error) {
	s := &shaders.Search{Problem: x.p, Target: x.t, Purposes: x.purposes(), Say: func(what string) { x.bar.step("%s", what) }}
	s.Options = tune.Options{Trials: x.f.trials, Patience: x.f.patience, Batch: 4, Rng: rand.New(rand.NewSource(x.f.seed)), Progress: func(p tune.Progress) {
		best := ""
		if !math.IsInf(p.Best, 1) {
			best = fmt.Sprintf(", best %.2f of the default's time", p.Best)
		}
		x.bar.step("%s on %s: %d candidates%s", x.p.Name(), x.t.Machine().Name, p.Trials, best)
	}}
	var err error
	if s.Default, err = shaders.Default(ctx, x.p, x.t, x.f.ns...); err != nil {
		return nil, err
	}
	for _, file := range x.f.traces {
		trace, err := x.inputs().Trace(file)
		if err != nil {
			return nil, err
		}
		use := search.Use{Trace: trace}
		if _, err := x.lab.Compile(ctx, x.p, x.t, use); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.Seeds = append(s.Seeds, []search.Use{use})
	}
	return s, s.SeedLocked(ctx, x.lab, x.lock)
}

// logged makes a search write to the log.
func (x *deviceTuning) logged(s *shaders.Search) (end func(string, map[string]int) error, err error) {
	if x.f.log == session.NoLog {
		return func(string, map[string]int) error { return nil }, nil
	}
	return s.LogTo(x.log, x.lab, x.f.seed, gomod.Compiler(), func(err error) {
		x.bar.done()
		fmt.Fprintf(x.err, "tmacc: not logged: %s\n", oneLine(err))
	})
}

// tune searches, measures the best again and locks it.
func (x *deviceTuning) tune(ctx context.Context) error {
	x.bar.step("compiling the default schedules")
	s, err := x.search(ctx)
	if err != nil {
		return err
	}
	end, err := x.logged(s)
	if err != nil {
		return err
	}
	limited, stop := context.WithTimeout(ctx, x.f.limit)
	defer stop()
	began := time.Now()
	out, err := x.lab.Search(limited, s)
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	if limited.Err() != nil && ctx.Err() == nil {
		out.Ended = "time"
	}
	if err := end(out.Ended, out.Dropped); err != nil {
		return err
	}
	x.result = session.Summary{Product: x.p.Name(), ActGroup: x.p.Act.Group, Target: x.t.Machine().Name, Measured: out.Trials, Seconds: time.Since(began).Seconds(),
		Ended: out.Ended, Dropped: out.Dropped, Outcome: session.None, Figures: []session.Figure{}, Traces: shaders.Traces(nil)}
	x.bar.done()
	fmt.Fprintf(x.out, "%s on %v: %d candidates measured in %s, ended by %s\n", x.p.Weight, x.lab.Device(), out.Trials, time.Since(began).Round(time.Second), out.Ended)
	if len(out.Best) == 0 {
		return failed("tune: %s on %s: nothing was measured: give more -time", x.p.Name(), x.t.Machine().Name)
	}
	x.bar.step("measuring the best and the default in turn")
	best, figures, err := s.Best(context.WithoutCancel(ctx), out) // after the first Ctrl-C, too; a second one ends the process
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	x.bar.done()
	if best == nil {
		x.result.Why = "nothing was found but the default schedules: give traces to begin with (-trace)"
		fmt.Fprintf(x.out, "not locked: %s\n", x.result.Why)
		return nil
	}
	return x.settle(ctx, s, best, figures)
}

// settle locks schedules that are faster beyond the noise of their measurements, and slower for no purpose.
func (x *deviceTuning) settle(ctx context.Context, s *shaders.Search, best *shaders.Candidate, figures []tune.Beside) error {
	ratio := tune.Together(figures)
	x.result.Ratio, x.result.Traces = &ratio, shaders.Traces(best.Uses)
	t := table{head: []string{"mode", "m", "k", "n", "us", "default us", "of the default"}, wide: -1}
	for _, b := range figures {
		ns, base := timing.Median(b.Ns), timing.Median(b.BaseNs)
		x.result.Figures = append(x.result.Figures, session.Figure{Purpose: b.Purpose, Ns: ns, DefaultNs: base, Ratio: b.Ratio()})
		t.add(b.Mode, b.M, b.K, b.N, fmt.Sprintf("%.1f", ns/1e3), fmt.Sprintf("%.1f", base/1e3), b.Ratio())
	}
	fmt.Fprintf(x.out, "\nbest: %v of the default's time\n", ratio)
	t.print(x.out, widthOf(x.out))
	for _, trace := range x.result.Traces {
		fmt.Fprintf(x.out, "%v\n", trace)
	}
	if !ratio.Less() || len(tune.Losses(figures)) > 0 {
		x.result.Why = "the schedule found is not faster beyond the noise, or slower for a purpose: more -time may find something faster"
		fmt.Fprintf(x.out, "\nnot locked: %s\n", x.result.Why)
		return nil
	}
	e, err := s.Entry(ctx, best, figures, gomod.Compiler())
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(x.lock), 0o777); err == nil {
		err = tune.ChangeLock(x.lock, func(l *tune.Lock) error { l.Put(e); return nil })
	}
	if err != nil {
		return fmt.Errorf("%w: not locked", plain(err))
	}
	x.result.Outcome, x.result.Lock = session.Locked, x.lock
	fmt.Fprintf(x.out, "\nlocked in %s, %d widths\n", x.lock, len(e.Kernels))
	return nil
}
