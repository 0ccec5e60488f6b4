package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

type tuneFlags struct {
	format, target, mode string
	n, m, k              int
	act                  actFlags
	trials, patience     int
	limit                time.Duration
	seed                 int64
	dir, log             string
	quiet                bool
}

func (c *cli) tune() *cobra.Command {
	var x tuneFlags
	cmd := &cobra.Command{
		Use: "tune", Args: between(0, 0),
		Short: "search for a faster schedule by measuring, and lock it",
		Long: `Search for the schedule that multiplies matrices of a format fastest on this machine:
schedules are drawn, varied and crossed; what a cost model, fitted to this run's own
measurements, likes best is compared with the definition and measured, in a process of
its own, beside the default schedule. The best are measured again at the end.

What is faster than the default goes to ` + tune.LockName + ` in the module of the output directory,
with kernels of other widths for the same packed matrices. tmacc compile uses it, and
never searches. Interrupted, the search ends with what it has found.`,
		Example: `  tmacc tune -format w2 -o internal/kernels
  tmacc tune -format w4-g32 -mode dram -time 5m
  tmacc tune -format ternary -target avx2 -n 64 -trials 2000 -seed 1`,
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "weight format, or a JSON file with one")
	f.StringVar(&x.target, "target", "host", "target, one that this machine runs")
	f.StringVar(&x.mode, "mode", measure.ModeL2, "where weights are: dram, l3 or l2, as for tmacc bench")
	f.IntVarP(&x.n, "n", "n", 1, "activations per product")
	f.IntVarP(&x.m, "m", "m", 0, "rows of the matrix, instead of those of the mode")
	f.IntVarP(&x.k, "k", "k", 0, "columns of the matrix, instead of those of the mode")
	actVar(f, &x.act)
	f.IntVar(&x.trials, "trials", 1000, "schedules to measure at most")
	f.IntVar(&x.patience, "patience", 400, "end after so many in a row that are no better")
	f.DurationVar(&x.limit, "time", 5*time.Minute, "end after so long")
	f.Int64Var(&x.seed, "seed", 1, "of the random numbers")
	f.StringVarP(&x.dir, "output", "o", ".", "`directory` of the package that the schedules are for")
	f.StringVar(&x.log, "log", "", "`file` that every measurement is added to, or "+noLog+" (default: see tmacc log)")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.runTune(cmd.Context(), x) }
	return cmd
}

func (x *tuneFlags) validate() error {
	if x.mode != measure.ModeDRAM && x.mode != measure.ModeL3 && x.mode != measure.ModeL2 {
		return fmt.Errorf("unknown mode %q: have dram, l3, l2", x.mode)
	}
	m, k := measure.Shape(x.mode)
	x.m, x.k = cmp.Or(x.m, m), cmp.Or(x.k, k)
	switch {
	case x.format == "":
		return errors.New("tune: nothing to tune: give a -format")
	case x.n < 1 || x.n > 1<<12:
		return fmt.Errorf("-n %d: want 1 to %d", x.n, 1<<12)
	case x.m < 1 || x.m > 1<<20 || x.k < 1 || x.k > 1<<20 || x.m > timing.MaxMatrix/x.k:
		return fmt.Errorf("-m %d -k %d: want at least 1 each, at most %d together", x.m, x.k, timing.MaxMatrix)
	case x.trials < 1 || x.patience < 1 || x.limit <= 0:
		return fmt.Errorf("-trials %d -patience %d -time %v: want more than nothing", x.trials, x.patience, x.limit)
	}
	return nil
}

// tuning is one call of tmacc tune.
type tuning struct {
	tuneFlags
	target   lower.Target
	product  tune.Product
	ceilings tune.Ceilings // zeros if they cannot be measured here
	host     measure.Host
	run      tune.Run
	add      func(...tune.Trial) // to the log
}

// begin makes measurements go to the log. Without one, and after an error, the search
// goes on: its result does not depend on the log.
func (x *tuning) begin(t *tune.Tuner) error {
	p := x.product
	x.run = tune.Run{Start: time.Now(), Product: p.Problem.Name(), ActGroup: p.Problem.Act.Group, Target: p.Target.Machine().Name,
		Mode: x.mode, M: p.M, N: p.N, K: p.K, Seed: x.seed, CPU: x.host.CPU, Compiler: version()}
	x.add = func(...tune.Trial) {}
	if x.log == noLog {
		return nil
	}
	l, err := tuningLog(x.log)
	if err == nil {
		err = l.Begin(&x.run)
	}
	if err == nil {
		x.add = func(ts ...tune.Trial) { l.Add(&x.run, ts...) }
	}
	t.Log = func(ts []tune.Trial) { x.add(ts...) }
	return err
}

func (c *cli) runTune(ctx context.Context, f tuneFlags) error {
	if err := f.validate(); err != nil {
		return err
	}
	bar := newProgress(c.err, f.quiet)
	defer bar.done()
	x, err := c.tuning(f)
	if err != nil {
		return err
	}
	bar.step("measuring what this machine can do")
	x.measureCeilings()
	bar.step("compiling the default schedules")
	tuner, err := tune.New(x.product)
	if err != nil {
		return err
	}
	if err := x.begin(tuner); err != nil {
		fmt.Fprintf(c.err, "tmacc: not logged: %s\n", oneLine(err))
	}
	limited, stop := context.WithTimeout(ctx, x.limit)
	defer stop()
	start := time.Now()
	out := tune.Evolve(limited, tuner.Space(limited), tune.Options{
		Trials: x.trials, Patience: x.patience, Rng: rand.New(rand.NewSource(x.seed)),
		Progress: func(p tune.Progress) { bar.step("%s", x.line(tuner, p, time.Since(start))) },
	}, tuner.Seeds()...)
	if x.run.Ended, x.run.Dropped = out.Ended, out.Dropped; limited.Err() != nil && ctx.Err() == nil {
		x.run.Ended, out.Ended = "time", "time"
	}
	x.add()
	bar.step("measuring the best again")
	if len(out.Best) == 0 {
		return failed("tune: none of %d schedules could be measured: %v", out.Trials, out.Dropped)
	}
	best, reference, err := tuner.Confirm(out.Best)
	if err != nil {
		return err
	}
	bar.done()
	c.tuned(x, out, time.Since(start))
	return c.lockBest(x, tuner, best[0], reference)
}

// tuning reads the flags.
func (c *cli) tuning(f tuneFlags) (*tuning, error) {
	p, err := c.product(f.format, f.act)
	if err != nil {
		return nil, err
	}
	w := p.Weight
	t, err := oneTarget(f.target)
	if err != nil {
		return nil, err
	}
	if missing := lacks(t); missing != "" {
		return nil, fmt.Errorf("target %s: this machine lacks %s: tune another", t.Machine().Name, missing)
	}
	unit := w.Unit()
	f.k = (f.k + unit - 1) / unit * unit
	x := &tuning{tuneFlags: f, target: t, host: measure.ThisHost()}
	x.product = tune.Product{Problem: p, Target: t, Need: features(t), M: f.m, N: f.n, K: f.k}
	if f.mode == measure.ModeDRAM {
		x.product.Total = measure.DRAMBytes(x.host)
	}
	return x, nil
}

// measureCeilings finds out what binds. Without probes the share stays unknown.
func (x *tuning) measureCeilings() {
	g, err := newGauge(quick)
	if err != nil {
		return
	}
	defer g.close()
	w := x.product.Problem.Weight
	reads, err := g.read(x.mode, x.m*x.k*w.Bits/8)
	if err != nil {
		return
	}
	dots, err := g.dot(x.target)
	if err != nil {
		return
	}
	rate := func(probes []measure.Probe) float64 { return measure.Best(quick, probes).Rate }
	x.ceilings = tune.Ceilings{ReadGBS: rate(reads), DotGMACS: rate(dots), ClockGHz: rate(g.lab.Clock())}
}

// record is the measurement of a product that took ns.
func (x *tuning) record(ns float64) measure.Record {
	w := x.product.Problem.Weight
	r, _ := measure.Record{ // an error is noise here
		Format: w.Name, BitsPerWeight: float64(w.Bits), Group: w.Group, M: x.m, K: x.k, N: x.n, Target: shortName(x.target), Family: "dot", Exact: true, Threads: 1,
		Mode: x.mode, Ns: ns, ClockGHz: x.ceilings.ClockGHz, CeilingGBS: x.ceilings.ReadGBS, CeilingGMACS: x.ceilings.DotGMACS,
	}.Complete(measure.Weights{NominalBits: nominalBits(w), ScaleBits: scaleBits(w, x.m, x.k)})
	return r
}

// line is the progress.
func (x *tuning) line(t *tune.Tuner, p tune.Progress, took time.Duration) string {
	r := x.record(p.Best * t.ReferenceNs)
	return fmt.Sprintf("%s on %s: %d of %d measured in %s, %d dropped; best %.1f us, %.1f weights/ns, %.2f of the ceiling, %.2f of the default's time",
		x.product.Problem.Weight, shortName(x.target), p.Trials, x.trials, took.Round(time.Second), p.Dropped, r.Ns/1e3, r.GWeightsS, r.Share, p.Best)
}

// tuned prints what became of how many schedules.
func (c *cli) tuned(x *tuning, out tune.Outcome[*tune.Candidate], took time.Duration) {
	fmt.Fprintf(c.out, "%s on %s, %d x %d times %d, weights in %s: %d schedules measured in %s (%.0f a minute), ended by %s\n",
		x.product.Problem.Weight, x.target.Machine().Name, x.m, x.k, x.n, x.mode, out.Trials, took.Round(time.Second), float64(out.Trials)/took.Minutes(), out.Ended)
	t := table{head: []string{"dropped", "because"}, wide: 1}
	for _, reason := range slices.SortedFunc(maps.Keys(out.Dropped), func(a, b string) int {
		return cmp.Or(out.Dropped[b]-out.Dropped[a], cmp.Compare(a, b))
	}) {
		t.add(out.Dropped[reason], reason)
	}
	t.print(c.out, widthOf(c.out))
}

// gain is how much faster than the default a schedule must be to be locked.
const gain = 0.99

// lockBest writes the lock if the best schedule is worth it.
func (c *cli) lockBest(x *tuning, t *tune.Tuner, best tune.Confirmed, reference float64) error {
	r := x.record(best.Ns)
	fmt.Fprintf(c.out, "\nbest: %.1f us, %.1f weights/ns, %.2f of the ceiling; the default takes %.1f us (%.2f)\n%v\n",
		best.Ns/1e3, r.GWeightsS, r.Share, reference/1e3, best.Ns/reference, best.Trace)
	if best.Ns > gain*reference {
		fmt.Fprintf(c.out, "\nnot locked: the default is as fast\n")
		return nil
	}
	uses := t.Uses(best.Candidate)
	v, err := buildUses(context.Background(), x.product.Problem, x.target, uses, "k")
	if err != nil {
		return err
	}
	e := tune.Entry{Product: x.product.Problem.Name(), ActGroup: x.product.Problem.Act.Group, Target: x.target.Machine().Name,
		Figures:  tune.Figures{Mode: x.mode, M: x.m, N: x.n, K: x.k, Ns: best.Ns, DefaultNs: reference, Share: r.Share},
		Ceilings: x.ceilings, Host: x.host, Compiler: version()}
	if e.Hash, err = kernelHash(v); err != nil {
		return err
	}
	for _, u := range uses {
		e.Kernels = append(e.Kernels, tune.Kernel{Cols: u.Cols, Trace: u.Trace})
	}
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	lock, err := tune.ReadLock(path)
	if err != nil {
		return err
	}
	lock.Put(e)
	if err := lock.Write(path); err != nil {
		return plain(err)
	}
	fmt.Fprintf(c.out, "\nlocked in %s, %d widths\n", path, len(uses))
	return nil
}

// lockPath is where the module that a package in dir belongs to has its lock: at its
// root, or in dir if that is in no module but perhaps that of tmacc.
func lockPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if root := above(abs, func(string) bool { return true }); root != "" && moduleAt(root) != modulePath {
		abs = root
	}
	return filepath.Join(abs, tune.LockName), nil
}
