package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

type compareFlags struct {
	tuneFlags
	format, target, core string
	traces               []string
	near, json           bool
}

func (c *cli) compare() *cobra.Command {
	var x compareFlags
	cmd := &cobra.Command{
		Use: "compare", Args: between(0, 0),
		Short: "measure schedules in turn with the default ones",
		Long: `Measure schedules beside the default ones, in turn, in one process: separate runs of
tmacc bench may differ by more than two kernels do. Each schedule is first compared with the definition.
Figures are ratios to the default's time in the same rounds, for each -n in each -mode, and their
geometric mean. As for tmacc tune, the mean is larger if one of them is slower. The default is also measured
beside itself: how far that ratio is from 1 is noise. Its row is called record where tmacc has a recorded
schedule for the product, and default else: -no-records compares with schedules that no search has found.

-trace files are schedules of your own, such as tmacc show -stage trace prints them. -near adds
schedules that differ from the default ones in their prefetches, or do the same in another order,
for each -n. There are some tens of them; each takes about half a second per -mode.`,
		Example: `  tmacc show -format w2 -stage trace > my.json
  tmacc compare -format w2 -trace my.json
  tmacc compare -format w4-g32 -near -mode l2,l3,dram -n 1,4 -json > near.jsonl`,
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "weight format, or a JSON file with one (required)")
	f.StringVar(&x.target, "target", "host", "target, see tmacc targets")
	oneCoreVar(f, &x.core)
	f.StringSliceVar(&x.traces, "trace", nil, "JSON `files` with a schedule each")
	noRecordsVar(f, &x.noRecords)
	f.BoolVar(&x.near, "near", false, "measure schedules near the default ones")
	actVar(f, &x.act)
	f.StringSliceVar(&x.modes, "mode", []string{measure.ModeL2, measure.ModeL3}, "where weights are: dram, l3 or l2, as for tmacc bench")
	f.IntSliceVarP(&x.ns, "n", "n", []int{1}, "activations per product, those above 8 in one mode")
	x.sizeFlags.add(f, 0, 0)
	f.BoolVar(&x.json, "json", false, "print one JSON object per schedule, as it is measured")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.runCompare(cmd.Context(), x)
	}
	return cmd
}

func (x *compareFlags) validate(f *pflag.FlagSet) error {
	switch {
	case x.format == "":
		return errors.New("compare: give a -format")
	case len(x.traces) == 0 && !x.near:
		return errors.New("compare: nothing to compare: give a -trace, or -near")
	}
	return x.validatePurposes(f)
}

func (c *cli) runCompare(ctx context.Context, f compareFlags) error {
	bar := newProgress(c.err, f.quiet)
	defer bar.done()
	p, err := c.tunedProduct(f.format, f.act, f.k)
	if err != nil {
		return err
	}
	on, err := c.finder().OneOn(timing.ThisHost(), f.target, f.core)
	if err != nil {
		return err
	}
	c.noteLinked(nil)
	usual := c.keptDefaults(f.noRecords, bar)
	defer usual.Close()
	o := session.Options{Problem: p, Target: on, Log: session.NoLog, Defaults: usual, Events: func(e session.Event) { bar.step("%s", e) }}
	o.Purposes = session.Purposes(p, o.On.Host(), f.modes, f.ns, f.m, f.k)
	s, err := session.Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := c.contenders(s, f)
	if err != nil {
		return err
	}
	var out []session.Tried
	failures := 0
	for i, x := range all {
		if ctx.Err() != nil {
			break
		}
		bar.step("%d of %d: %s", i+1, len(all), x.Name)
		r, err := s.Measure(x)
		if broken := (*tune.Unmeasured)(nil); errors.As(err, &broken) {
			return err // nor can the others be
		}
		if err != nil {
			failures++
			bar.done()
			fmt.Fprintf(c.err, "tmacc: %s: %s\n", x.Name, oneLine(err))
			continue
		}
		if out = append(out, r); f.json {
			json.NewEncoder(c.out).Encode(r)
		}
	}
	bar.done()
	if !f.json {
		compareTable(s.Purposes, out).print(c.out, widthOf(c.out))
	}
	if ctx.Err() == nil && failures > 0 {
		return failed("compare: %d of %d schedules failed", failures, len(all))
	}
	return ctx.Err()
}

// contenders are the default schedules, schedules of files, and schedules near the default ones.
func (c *cli) contenders(s *session.Session, f compareFlags) ([]session.Contender, error) {
	usual, err := s.Usual()
	if err != nil {
		return nil, err
	}
	all := []session.Contender{usual}
	for _, path := range f.traces {
		trace, err := c.inputs().Trace(path)
		if err != nil {
			return nil, err
		}
		x, err := s.Contender(path, trace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, x)
	}
	if f.near {
		near, err := s.Near()
		if err != nil {
			return nil, fmt.Errorf("compare -near: %w, with -no-records", err)
		}
		all = append(all, near...)
	}
	return all, nil
}

// compareTable is the default and what it was compared with, the fastest first.
func compareTable(purposes []tune.Purpose, all []session.Tried) *table {
	t := &table{head: []string{"of the default"}, wide: len(purposes) + 1}
	for _, p := range purposes {
		t.head = append(t.head, fmt.Sprintf("%s n=%d", p.Mode, p.N))
	}
	t.head = append(t.head, "schedule")
	slices.SortStableFunc(all, func(a, b session.Tried) int { return cmp.Compare(a.Cost, b.Cost) })
	for _, r := range all {
		row := []any{fmt.Sprintf("%.3f", r.Cost)}
		for _, f := range r.Figures {
			row = append(row, fmt.Sprintf("%.3f", f.Ns/f.DefaultNs))
		}
		t.add(append(row, r.Schedule)...)
	}
	return t
}
