package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/session"
)

// usualTuning is what tmacc tune does without flags, with a limit of its own.
func usualTuning(dir string, limit time.Duration) tuneFlags {
	return tuneFlags{modes: session.UsualModes, ns: session.UsualNs, trials: session.UsualTrials, patience: session.UsualPatience, limit: limit, seed: 1, dir: dir}
}

// purposeFlags adds the flags that say what schedules are tuned for.
func (x *tuneFlags) purposeFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&x.modes, "mode", session.UsualModes, "where weights are: dram, l3 or l2, as for tmacc bench; more than one all count")
	f.IntSliceVarP(&x.ns, "n", "n", session.UsualNs, "activations per product; more than one all count, those above 8 in one mode")
	x.sizeFlags.add(f, 0, 0)
}

// tuning is one search: its session, and where a person sees it.
type tuning struct {
	*cli
	session.Options
	dir    string   // of the package that the schedules are for
	plot   string   // file of the picture, "": none
	files  []string // of the schedules of From
	bar    *progress
	result session.Summary
}

// tuning is a search by flags. product names its problem, its target and the machine that measures.
func (c *cli) tuning(f tuneFlags, product session.Options) *tuning {
	p, host := product.Problem, product.On.Host()
	x := &tuning{cli: c, Options: product, dir: f.dir, plot: f.plot}
	x.Purposes = session.Purposes(p, host, f.modes, f.ns, f.m, f.k)
	x.Others = session.Purposes(p, host, session.UsualModes, session.UsualNs, f.m, f.k)
	x.Only, x.Log, x.Resume, x.Scratch = f.only, f.log, f.resume, f.scratch
	x.Trials, x.Patience, x.Limit, x.Seed = f.trials, f.patience, f.limit, f.seed
	x.Version, x.Probing, x.Events = gomod.Compiler(), quick, x.hear
	return x
}

// hear shows what the session reports.
func (x *tuning) hear(e session.Event) {
	switch e := e.(type) {
	case session.Step, session.Progress:
		x.bar.step("%s", e)
	case session.Note:
		if e.About == session.NotLockable {
			e.Err = plain(e.Err)
		}
		x.note(e.String())
	case session.Fault:
		x.note(e.String())
	}
}

// note tells a person about something that does not end the search.
func (x *tuning) note(text string) {
	x.bar.done()
	fmt.Fprintf(x.err, "tmacc: %s\n", oneLine(errors.New(text)))
}

// tune searches and locks what it finds.
func (x *tuning) tune(ctx context.Context) (err error) {
	if x.Lock, err = delivery.LockPath(x.dir); err != nil {
		return err
	}
	s, err := session.Open(ctx, x.Options)
	var bad *session.FromError
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("-trace %s: %w", x.files[bad.N], bad.Err)
	case err != nil:
		return err
	}
	defer s.Close()
	f, err := s.Search(ctx)
	if err != nil {
		return x.broken(err)
	}
	x.bar.done()
	x.printFound(f)
	x.result = s.Summary(f)
	if len(f.Best) == 0 {
		return x.nothing()
	}
	if err := x.draw(f); err != nil {
		x.note("no picture: " + err.Error())
	}
	if err := s.Confirm(f); err != nil {
		return x.broken(err)
	}
	d, err := s.Decide(f)
	if err != nil {
		return x.broken(err)
	}
	return x.settle(s, d)
}

// nothing is the error of a search that measured no schedule.
func (x *tuning) nothing() error {
	remedy := "give more -time"
	if x.Scratch {
		remedy += ", or leave -from-scratch out"
	}
	return failed("tune: %s on %s: nothing was measured: %s", x.Problem.Name(), x.Target.Machine().Name, remedy)
}

// broken is the error of a search that could not go on. What it has found until then is printed.
func (x *tuning) broken(err error) error {
	var broken *session.Broken
	switch {
	case errors.As(err, new(*session.ResumeError)):
		return fmt.Errorf("tune -resume: %w", err)
	case !errors.As(err, &broken):
		return err
	}
	x.bar.done()
	if f := broken.Found; len(f.Best) > 0 {
		fmt.Fprintf(x.out, "best so far, not measured again: %.2f of the default's time, for tmacc compile -trace\n", f.Best[0].Cost)
		printTraces(x, f.Traces())
	}
	return fmt.Errorf("tune: %w", err)
}

// draw writes the picture of -plot.
func (x *tuning) draw(f *session.Found) error {
	if x.plot == "" {
		return nil
	}
	p, err := picture.Search(searchTitle(f.Run), searchSource(f.Run), f.Tried)
	if err != nil {
		return err
	}
	return savePicture(x.plot, p)
}

// printFound prints how many candidates were measured, and why others were dropped.
func (x *tuning) printFound(f *session.Found) {
	fmt.Fprintf(x.out, "%s on %s", x.Problem.Weight, x.Target.Machine().Name)
	for _, p := range x.Purposes {
		fmt.Fprintf(x.out, ", %d x %d times %d, weights in %s", p.M, p.K, p.N, p.Mode)
	}
	fmt.Fprintf(x.out, ": %d candidates measured in %s (%.0f a minute), ended by %s\n",
		f.Trials, f.Took.Round(time.Second), float64(f.Trials)/f.Took.Minutes(), f.Ended)
	if len(f.Dropped) == 0 {
		return
	}
	t := table{head: []string{"dropped", "because"}, wide: -1}
	for _, reason := range slices.SortedFunc(maps.Keys(f.Dropped), func(a, b string) int {
		return cmp.Or(f.Dropped[b]-f.Dropped[a], cmp.Compare(a, b))
	}) {
		t.add(f.Dropped[reason], reason)
	}
	t.print(x.out, widthOf(x.out))
}

// settle prints what was decided, and does it.
func (x *tuning) settle(s *session.Session, d *session.Decision) error {
	x.bar.done()
	if text := d.String(); text != "" {
		fmt.Fprintf(x.out, "\n%s\n", text)
	}
	if d.Found() {
		x.printBest(s, d)
	}
	s.Conclude(&x.result, d)
	saved, err := s.Save(d)
	if err != nil {
		return x.unsaved(err)
	}
	x.result.Lock = saved.Lock
	fmt.Fprintf(x.out, "\n%v\n", saved)
	return nil
}

// unsaved is the error of a lock that could not be changed. What was to be locked is printed.
func (x *tuning) unsaved(err error) error {
	var failed *session.SaveError
	switch {
	case !errors.As(err, &failed):
		return err
	case len(failed.Traces) == 0:
		return fmt.Errorf("%w: the lock is as it was", plain(failed.Err))
	}
	printTraces(x, failed.Traces)
	return fmt.Errorf("%w: not locked: the traces above are for tmacc compile -trace", plain(failed.Err))
}

// printBest prints the figures and the schedules of a decision.
func (x *tuning) printBest(s *session.Session, d *session.Decision) {
	t := table{head: []string{"mode", "m", "k", "n", "us", "weights/ns", "of the ceiling", "default us", "of the default"}, wide: -1}
	for _, f := range s.Figures(d) {
		share := "-" // what the machine can do is measured for the purposes of the search only
		if f.Share > 0 {
			share = fmt.Sprintf("%.2f", f.Share)
		}
		t.add(f.Mode, f.M, f.K, f.N, fmt.Sprintf("%.1f", f.Ns/1e3), fmt.Sprintf("%.1f", f.GWeightsS), share, fmt.Sprintf("%.1f", f.DefaultNs/1e3), f.Ratio)
	}
	t.print(x.out, widthOf(x.out))
	traces := d.Traces()
	for i, cols := range d.Cols() {
		fmt.Fprintf(x.out, "%s: %v\n", counted(cols, "column"), traces[i])
	}
}

// printTraces prints schedules as files of traces have them.
func printTraces[T any](x *tuning, traces []T) {
	for _, t := range traces {
		data, err := json.Marshal(t)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		fmt.Fprintf(x.out, "%s\n", data)
	}
}
