package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/tune"
)

type logFlags struct {
	path        string
	json, pairs bool
	prune       time.Duration
}

func (c *cli) log() *cobra.Command {
	var x logFlags
	cmd := &cobra.Command{
		Use: "log", Args: between(0, 0),
		Short: "list, export or prune the measurements of tmacc tune",
		Long: `List the searches of tmacc tune, the oldest first. -json prints every schedule that was
measured, one object per line, with the search that it belongs to. -pairs prints, for each
purpose of a search, the fastest schedule beside the default one and the ratio of their times,
one object per line: pairs by which models of cost are judged. -prune removes searches that
began longer ago than the given time.`,
		Example: `  tmacc log
  tmacc log -json > trials.jsonl
  tmacc log -pairs > pairs.jsonl
  tmacc log -prune 720h`,
	}
	f := cmd.Flags()
	f.StringVar(&x.path, "log", "", "`file` of the log (default: tmacc/tuning.db in the user's cache directory)")
	f.BoolVar(&x.json, "json", false, "print one JSON object per line, for each schedule")
	f.BoolVar(&x.pairs, "pairs", false, "print one JSON object per line, for each schedule that took less time than the default usually did, by more than 4 %")
	f.DurationVar(&x.prune, "prune", 0, "remove searches that began longer ago than this")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := c.logAt(x.path)
		if err != nil {
			return err
		}
		switch {
		case cmd.Flags().Changed("prune") && x.prune <= 0:
			return fmt.Errorf("-prune %v: want a time that has passed", x.prune)
		case x.prune > 0 && x.json:
			return errors.New("-prune and -json: want one of them")
		case x.pairs && (x.json || x.prune > 0):
			return errors.New("-pairs: want it without -json and -prune")
		case x.prune > 0:
			n, err := l.Prune(time.Now().Add(-x.prune))
			if err = c.noteUnread(err); err == nil {
				fmt.Fprintf(c.out, "removed %d searches from %s\n", n, l.Path)
			}
			return err
		case x.json:
			return c.exportLog(l)
		case x.pairs:
			return c.exportPairs(cmd.Context(), l)
		}
		return c.listLog(l)
	}
	return cmd
}

func (c *cli) exportLog(l tune.Log) error {
	enc := json.NewEncoder(c.out)
	return c.noteUnread(l.Each(true, func(r tune.Run, t *tune.Trial) error {
		return enc.Encode(struct {
			tune.Run
			Trial *tune.Trial `json:"trial"`
		}{r, t})
	}))
}

// exportPairs prints the pairs of all searches. A search that has none, because it is of a format in a file, or this tmacc makes other kernels of its
// default schedules, is named on standard error.
func (c *cli) exportPairs(ctx context.Context, l tune.Log) error {
	var runs []tune.Run
	trials := map[string][]tune.Trial{}
	if err := c.noteUnread(l.Each(true, func(r tune.Run, t *tune.Trial) error {
		if trials[r.ID] == nil {
			runs = append(runs, r)
		}
		trials[r.ID] = append(trials[r.ID], *t)
		return nil
	})); err != nil {
		return err
	}
	bar := newProgress(c.err, false)
	defer bar.done()
	usual := c.keptDefaults(true, bar)
	defer usual.Close()
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	for i, r := range runs {
		bar.step("search %d of %d: the default schedules of %s on %s", i+1, len(runs), r.Product, r.Target)
		all, err := pairsOf(ctx, r, trials[r.ID], usual)
		bar.done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(c.err, "tmacc: search %s of %s: %s\n", r.ID, r.Product, oneLine(err))
		}
		for _, p := range all {
			if err := enc.Encode(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairsOf are the pairs of one search, which must be of a built-in format on a built-in core.
func pairsOf(ctx context.Context, r tune.Run, trials []tune.Trial, usual *defaults.Chooser) ([]pairs.Pair, error) {
	p, err := r.Definition()
	if err != nil {
		return nil, err
	}
	on := targets.ByName(r.Target)
	if on == nil {
		return nil, fmt.Errorf("target %s: want a built-in one", r.Target)
	}
	product := tune.Product{Problem: p, Target: on, Layouts: usual.Layouts, Purposes: r.Purposes}
	switch before, err := r.DefaultUses(p); {
	case err != nil:
		return nil, err
	case before != nil:
		product.Usual = func(context.Context, ir.Problem, targets.Target) ([]search.Use, error) { return before, nil }
	}
	t, err := tune.New(ctx, product)
	if err != nil {
		return nil, err
	}
	return t.Pairs(r, trials)
}

// noteUnread prints an error that says which part of a log could not be read, and returns every other error.
func (c *cli) noteUnread(err error) error {
	if unread := (*tune.Unread)(nil); errors.As(err, &unread) {
		fmt.Fprintf(c.err, "tmacc: %s\n", oneLine(err))
		return nil
	}
	return err
}

func (c *cli) listLog(l tune.Log) error {
	t := table{head: []string{"began", "product", "target", "for", "measured", "best/default", "ended by"}, wide: 3}
	err := l.Each(false, func(r tune.Run, _ *tune.Trial) error {
		best := "-"
		if r.Best > 0 {
			best = fmt.Sprintf("%.3f", r.Best)
		}
		t.add(r.Start.Local().Format("2006-01-02 15:04:05"), r.Product, r.Target, tune.PurposesText(r.Purposes...), r.Trials, best, r.Ended)
		return nil
	})
	if err := c.noteUnread(err); err != nil {
		return err
	}
	fmt.Fprintln(c.out, l.Path)
	t.print(c.out, widthOf(c.out))
	return nil
}
