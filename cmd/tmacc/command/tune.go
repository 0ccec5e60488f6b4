package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

type tuneFlags struct {
	formats, targets, cores []string
	modes                   []string
	ns                      []int
	sizeFlags
	act                  order.Act
	trials, patience     int
	limit                time.Duration
	seed                 int64
	dir, log             string
	resume, quiet        bool
	scratch, only, json  bool
	noRecords            bool
	records              string // folder of records to change instead of a lock
	plot                 string
	runner, runnerPrefix string
	device               string
	traces               []string // files of schedules that a search on a device begins with
}

func (c *cli) tune() *cobra.Command {
	var x tuneFlags
	cmd := &cobra.Command{
		Use: "tune", Args: between(0, 0),
		Short: "search for a faster schedule by measuring, and lock it",
		Long: `Search for the schedules that multiply matrices of a format fastest on this machine.
Candidates are drawn, varied and crossed. A cost model, fitted to the measurements of this
run, picks the most promising ones. A process of its own compares these with the definition,
and measures them beside the default schedules. The best are measured again at the end.

All purposes count: each -n in each -mode, as for tmacc bench. A candidate has one packed matrix
and a kernel for each -n. Its figure is the geometric mean of its times divided by the times of
the default schedules. The figure is larger if one of the purposes would lose.

At last the best candidate, the default schedules and the schedules locked before are measured in turn,
8 times. The best goes to ` + tune.LockName + ` in the module of the output directory, with kernels of other
widths for the same packed matrices, if it is faster beyond the noise of these measurements and
slower for no purpose. Packed matrices serve all products, so the usual purposes count here too (l2 and dram; 1, 4 and
256 activations), whatever -mode and -n name. With -only they do not count.
tmacc compile uses the lock, and never searches.

Ctrl-C ends the search; what it has found is measured again. Further searches do not begin, and
then the exit code is 1. A second Ctrl-C ends the program at once.
-resume begins with the measurements of earlier searches for the same purposes on such a machine.
-from-scratch begins without any schedules. A search otherwise begins with the default and the locked ones, and with the
fastest that the log has of other searches on such a core.

-time is for measuring candidates. It does not count what comes before, compiling the default schedules and measuring what the
machine can do, nor what comes after: the 8 best are measured again, and the decision takes 8 measurements of each purpose, of
several schedules. A candidate that is being measured is finished. So with a short -time a command takes about half a minute.
-mode l2 -n 1 -only takes a few seconds. In a second nothing may be measured: then the command fails, and the lock is as it was.

-record writes to a file of records instead, one for each core: tmacc built with it has these schedules in place of
the default ones. The best is compared with the default schedules without records, and with the record that is there.
It is recorded only if it saves ` + fmt.Sprintf("%.0f", 100*records.Margin) + ` % of the default's time beyond the noise,
and costs no purpose more than that; a record that does not any more is removed.

-target spirv searches on a device of Vulkan, which another program measures by the device's clock (tmacc bench -h). The search
begins with the default schedules, locked ones, and the files of -trace. The lock's entry names the device.

-runner measures on another machine that ssh reaches without asking: a board, from a
laptop. The worker is built here and sent; the machine needs nothing but a shell. The search waits for
connections that are cut, and for a machine that starts again.`,
		Example: `  tmacc tune -format w2 -o internal/kernels
  tmacc tune -format w4-g32 -mode l2 -n 1 -time 1m -plot search.svg
  tmacc tune -format ternary,w2 -target all -trials 2000 -seed 1
  tmacc tune -format w4 -runner ssh://pi@board -runner-exec "taskset -c 3"`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&x.formats, "format", nil, "weight formats or JSON files with one, one after the other")
	f.StringSliceVar(&x.targets, "target", []string{hostWord}, "targets that the machine runs, or all of them: each is searched for each format; may be repeated")
	coreVar(f, &x.cores)
	actVar(f, &x.act)
	x.purposeFlags(f)
	f.IntVar(&x.trials, "trials", session.UsualTrials, "candidates to measure at most")
	f.IntVar(&x.patience, "patience", session.UsualPatience, "end after this number of candidates in a row that are no better")
	f.DurationVar(&x.limit, "time", session.UsualLimit, "length of each search; what comes before and after it takes about half a minute more, longer for more purposes")
	f.Int64Var(&x.seed, "seed", 1, "seed of the random numbers")
	f.StringVarP(&x.dir, "output", "o", ".", "`directory` of the package that the schedules are for")
	f.StringVar(&x.log, "log", "", "`file` that every measurement is added to, or "+session.NoLog+" (default: see tmacc log)")
	f.BoolVar(&x.resume, "resume", false, "begin with what the log has of earlier searches")
	f.StringVar(&x.runner, "runner", "", "`ssh://user@host:port` of the machine that measures, instead of this one")
	f.StringVar(&x.runnerPrefix, "runner-exec", "", "`command` over there that starts the worker, such as \"taskset -c 3\"")
	f.BoolVar(&x.scratch, "from-scratch", false, "begin without the default schedules, or any others")
	f.BoolVar(&x.only, "only", false, "lock a schedule that is faster for the purposes of the search, even if others get slower")
	f.BoolVar(&x.json, "json", false, "print one JSON object per search at its end, and all else on standard error")
	f.StringVar(&x.plot, "plot", "", "`file` of a picture, .svg or .png: the best so far over the trials, of each family; of several searches, each has its format and target in the name")
	noRecordsVar(f, &x.noRecords)
	deviceVar(f, &x.device)
	f.StringSliceVar(&x.traces, "trace", nil, "JSON `files` of schedules that the search begins with, besides the default and the locked ones; on a CPU one for each -n, for one packed matrix")
	f.StringVar(&x.records, "record", "", "`folder` whose records get what is found, instead of a lock: search/records of a checkout of tmacc")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		on, err := shaderTargets(x.targets)
		switch {
		case err != nil:
			return err
		case len(on) > 0:
			if err := x.validateDevice(cmd.Flags()); err != nil {
				return err
			}
			return c.tuneDevice(cmd.Context(), x, on)
		case x.device != "":
			return fmt.Errorf("-device %s: is for -target spirv", quotedIfOdd(x.device))
		}
		return c.runTune(cmd.Context(), x)
	}
	return cmd
}

func (x *tuneFlags) validate(f *pflag.FlagSet) error {
	if err := x.validatePurposes(f); err != nil {
		return err
	}
	if err := delivery.CheckDir(x.dir); err != nil { // now, not after the search
		return err
	}
	switch {
	case len(x.formats) == 0 || len(x.targets) == 0:
		return errors.New("tune: nothing to tune: give a -format")
	case x.trials < 1:
		return fmt.Errorf("-trials %d: want at least 1", x.trials)
	case x.patience < 1:
		return fmt.Errorf("-patience %d: want at least 1", x.patience)
	case x.limit <= 0:
		return fmt.Errorf("-time %v: want more than nothing", x.limit)
	case x.plot != "" && picture.Check(x.plot) != nil:
		return picture.Check(x.plot)
	case x.plot != "" && noFolder(x.plot) != nil: // now, not after the search
		return noFolder(x.plot)
	case x.log != "" && x.log != session.NoLog && noFolder(x.log) != nil:
		return fmt.Errorf("-log %w", noFolder(x.log))
	case x.resume && x.log == session.NoLog:
		return errors.New("-resume: begins with what the log has: want none of -log none")
	case x.records != "" && x.only:
		return errors.New("-record and -only: want one of them: records are for all purposes")
	case x.records != "" && f.Changed("output"):
		return errors.New("-record and -output: want one of them: records are written instead of a lock")
	case x.records != "" && isFolder(x.records) != nil:
		return fmt.Errorf("-record %w", isFolder(x.records))
	case x.runner == "" && x.runnerPrefix != "":
		return errors.New("-runner-exec: is for a -runner")
	}
	return nil
}

// validatePurposes refuses purposes that no schedule can be measured for.
func (x *tuneFlags) validatePurposes(f *pflag.FlagSet) error {
	b := benchFlags{modes: x.modes, ns: x.ns}
	if err := b.validatePlaces(); err != nil {
		return err
	}
	if err := x.sizeFlags.check(f); err != nil {
		return err
	}
	if err := x.sizeFlags.checkCalls(x.ns); err != nil {
		return err
	}
	if x.k > ir.DefaultMaxK {
		return fmt.Errorf("-k %d: schedules are searched that are exact for K up to %d", x.k, ir.DefaultMaxK)
	}
	for _, n := range x.ns {
		if n > maxTuned {
			return fmt.Errorf("-n %d: want 1 to %d", n, maxTuned)
		}
	}
	return nil
}

// maxTuned is the largest number of activations of a purpose: more behave like these.
const maxTuned = 1 << 12

func (c *cli) runTune(ctx context.Context, f tuneFlags) error {
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
	var problems []ir.Problem
	for _, name := range f.formats {
		p, err := c.tunedProduct(name, f.act, f.k)
		if err != nil {
			return err
		}
		problems = append(problems, p)
	}
	on, err := dial(ctx, f, bar)
	if err != nil {
		return err
	}
	if on != nil {
		defer on.Close()
	}
	ts, err := c.finder().On(on.Host(), f.targets, f.cores)
	if err != nil {
		return err
	}
	bar.done()
	c.noteLinked(on)
	usual := c.keptDefaults(f.noRecords, bar)
	defer usual.Close()
	var searches []*tuning
	for _, p := range problems {
		for _, t := range ts {
			searches = append(searches, c.tuning(f, session.Options{Problem: p, Target: t, On: on, Records: f.records, Defaults: usual}))
		}
	}
	if err := c.beginWith(f, searches); err != nil {
		return err
	}
	var failure error // of a search that found nothing; the others go on
	for i, x := range searches {
		if ctx.Err() != nil {
			bar.done()
			return failed("%w: not searched: %s", errInterrupted, strings.Join(names(searches[i:]), ", "))
		}
		x.bar = bar
		if len(searches) > 1 {
			x.plot = plotOf(f.plot, x.Options)
		}
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		err := x.tune(ctx)
		if f.json && x.result.Outcome != "" {
			if err != nil {
				x.result.Outcome, x.result.Why = session.Failed, oneLine(err)
			}
			err = errors.Join(json.NewEncoder(out).Encode(x.result), err)
		}
		if errors.As(err, new(*status)) && ctx.Err() == nil {
			bar.done()
			failure = &status{code: say(c.err, err)}
		} else if err != nil {
			return err
		}
	}
	return failure
}

// beginWith makes searches begin with the schedules of -trace, which are for one product and one target.
func (c *cli) beginWith(f tuneFlags, searches []*tuning) error {
	switch n, ns := len(f.traces), len(slices.Compact(slices.Sorted(slices.Values(f.ns)))); {
	case n == 0:
		return nil
	case n != ns:
		return fmt.Errorf("-trace: %s: want one for each of the %d -n, the fewest first", counted(n, "file"), ns)
	case len(searches) > 1:
		return fmt.Errorf("-trace: schedules are for one format and one target, and there are %d searches", len(searches))
	}
	for _, file := range f.traces {
		trace, err := c.inputs().Trace(file)
		if err != nil {
			return err
		}
		searches[0].From = append(searches[0].From, trace)
	}
	searches[0].files = f.traces
	return nil
}

// names are the products of searches.
func names(searches []*tuning) (out []string) {
	for _, x := range searches {
		out = append(out, x.Problem.Name()+" on "+x.Target.Machine().ShortName())
	}
	return out
}

// plotOf names the picture of one of several products: for "a.svg" it is "a-w2-avx2.svg".
func plotOf(plot string, x session.Options) string {
	if plot == "" {
		return ""
	}
	end := filepath.Ext(plot)
	return strings.TrimSuffix(plot, end) + "-" + x.Problem.Name() + "-" + x.Target.Machine().ShortName() + end
}

// tunedProduct is the problem of a name, of a JSON file, or of a format that only measurements know. The matrices have k columns; 0 is
// the mode's own number.
func (c *cli) tunedProduct(name string, act order.Act, k int) (ir.Problem, error) {
	weight, act := act.Of(name)
	w, err := c.benchWeight(weight)
	if err != nil {
		return ir.Problem{}, err
	}
	p, err := act.Problem(w)
	if err != nil {
		return p, err
	}
	return p, checkK(k, p, name)
}

// dial is the machine that measures, nil for this one.
func dial(ctx context.Context, f tuneFlags, bar *progress) (*session.Machine, error) {
	if f.runner == "" {
		return nil, nil
	}
	bar.step("building a worker for %s", f.runner)
	return session.Dial(ctx, session.Runner{URL: f.runner, Exec: f.runnerPrefix, Grace: time.Minute, Say: func(why string) { bar.step("%s: %s", f.runner, why) }})
}
