package main

import (
	"context"
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

type heldoutFlags struct {
	log, target, core string
	only              string
	formats           list
	modes, ns         list
	time              time.Duration
	trials            int
	minutes           float64
	report            bool
	columns           []int
}

// heldout measures how much faster a minute of tuning makes the default schedules of products, and prints the median. Products that are in the log
// are not tuned again, unless their default schedules have changed.
func (x *lab) heldout(ctx context.Context, args []string) error {
	o := heldoutFlags{formats: list{"usual", "untuned"}, modes: session.UsualModes}
	for _, n := range session.UsualNs {
		o.ns = append(o.ns, fmt.Sprint(n))
	}
	f := x.flags("heldout")
	f.StringVar(&o.log, "o", "", "`file` that results are appended to; those that it has are not measured again")
	f.Var(&o.formats, "format", "products, separated by commas: usual, untuned (five formats that nobody tuned), or names")
	f.StringVar(&o.only, "only", "", "only products whose name and target match a regular `expression`")
	f.StringVar(&o.target, "target", targeting.Host, "target")
	f.StringVar(&o.core, "core", "", "processor core, or a JSON `file` with one: what defaults know of the machine")
	f.Var(&o.modes, "mode", "where weights are, separated by commas; all count")
	f.Var(&o.ns, "n", "numbers of activations, separated by commas; all count")
	f.DurationVar(&o.time, "time", time.Minute, "length of each search")
	f.IntVar(&o.trials, "trials", session.UsualTrials, "candidates that a search measures at most")
	f.Float64Var(&o.minutes, "minutes", 0, "`minutes` after which no search begins, 0: no limit")
	f.BoolVar(&o.report, "report", false, "measure nothing")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	if err := between("trials", o.trials, 1, 1<<20); err != nil {
		return err
	}
	if o.time <= 0 || !(o.minutes >= 0) {
		return fmt.Errorf("-time %v -minutes %v: want more than nothing, and no negative number", o.time, o.minutes)
	}
	var err error
	if o.columns, err = columns(o.ns); err == nil {
		err = modes(o.modes)
	}
	if err != nil {
		return err
	}
	return x.runHeldout(ctx, o)
}

// heldoutRun is the result of tuning a product.
type heldoutRun struct {
	Name     string         `json:"name"`
	Default  string         `json:"default"` // hash of the machine code of the default schedules
	Purposes []tune.Purpose `json:"purposes"`
	Limit    float64        `json:"limit"` // seconds of the search
	Trials   int            `json:"trials"`
	Ratio    tune.Ratio     `json:"ratio"` // of the default's time to the time of the best schedules, 1 if those are the default
	CPU      string         `json:"cpu"`
	Date     string         `json:"date"`
}

// same says that a run measures what another one does.
func (r *heldoutRun) same(o heldoutRun) bool {
	return r.Name == o.Name && r.Default == o.Default && r.Limit == o.Limit && slices.Equal(r.Purposes, o.Purposes)
}

func (x *lab) runHeldout(ctx context.Context, o heldoutFlags) error {
	products, err := defaults.Products(o.formats)
	if err != nil {
		return fmt.Errorf("-format: %w", err)
	}
	t, err := (targeting.Finder{ReadCore: order.Inputs{}.Core}).One(o.target, o.core)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	products = slices.DeleteFunc(products, func(p ir.Problem) bool { return !only.MatchString(defaults.Name(p, t.Machine().Name)) })
	known, err := readLines[heldoutRun](o.log)
	if err != nil {
		return err
	}
	var runs []heldoutRun
	missing := 0
	for begun, i := time.Now(), 0; i < len(products); i++ {
		late := o.minutes > 0 && time.Since(begun).Minutes() >= o.minutes
		r, err := x.holdOut(ctx, o, products[i], t, known, late)
		switch {
		case ctx.Err() != nil:
			i = len(products) // what was measured is printed
		case err != nil:
			return err
		case r == nil:
			missing++
		default:
			runs = append(runs, *r)
		}
	}
	return x.printHeldout(runs, missing)
}

// holdOut tunes a product, unless that is known. It returns nil if it is neither known nor to be measured.
func (x *lab) holdOut(ctx context.Context, o heldoutFlags, p ir.Problem, t targets.Target, known []heldoutRun, late bool) (*heldoutRun, error) {
	r := heldoutRun{Name: defaults.Name(p, t.Machine().Name), Limit: o.time.Seconds(), CPU: timing.ThisHost().CPU, Date: bench.Today()}
	for _, purpose := range session.Purposes(p, timing.ThisHost(), o.modes, o.columns, 0, 0) {
		r.Purposes = append(r.Purposes, purpose)
	}
	tuner, err := tune.New(ctx, tune.Product{Problem: p, Target: t, Layouts: layouts, Purposes: r.Purposes})
	if err != nil {
		return nil, err
	}
	r.Default = tuner.DefaultHash
	if i := slices.IndexFunc(known, r.same); i >= 0 {
		return &known[i], nil
	}
	if o.report || late {
		return nil, nil
	}
	x.step("%s", r.Name)
	if err := r.tune(ctx, tuner, o.trials); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return &r, appendLine(o.log, r)
}

// tune searches, and measures the best schedules beside the default ones.
func (r *heldoutRun) tune(ctx context.Context, t *tune.Tuner, trials int) error {
	limited, stop := context.WithTimeout(ctx, time.Duration(r.Limit*float64(time.Second)))
	defer stop()
	out, err := t.Search(limited, tune.Options{Trials: trials, Rng: rand.New(rand.NewSource(1))}, t.Seeds(limited)...)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if len(out.Best) == 0 {
		return fmt.Errorf("nothing was measured in %v s: give more -time, on a machine that is not so busy", r.Limit)
	}
	r.Trials, r.Ratio = out.Trials, tune.Ratio{Median: 1, Low: 1, High: 1}
	found, err := t.Confirm(out.Best)
	if err != nil {
		return err
	}
	for _, c := range found {
		if c.Cost >= 1 || t.IsDefault(c.Candidate) {
			continue
		}
		figures, err := t.Beside(nil, c.Candidate, t.Purposes)
		if err != nil {
			return err
		}
		if all := tune.Together(figures); all.Median < 1 {
			r.Ratio = tune.Ratio{Median: 1 / all.Median, Low: 1 / all.High, High: 1 / all.Low}
		}
		return nil
	}
	return nil
}

func (x *lab) printHeldout(runs []heldoutRun, missing int) error {
	var all []float64
	fmt.Fprintf(x.out, "| product | default over tuned | trials |\n| --- | ---: | ---: |\n")
	for _, r := range runs {
		fmt.Fprintf(x.out, "| %s | %v | %d |\n", r.Name, r.Ratio, r.Trials)
		all = append(all, r.Ratio.Median)
	}
	if len(all) > 0 {
		fmt.Fprintf(x.out, "\nmedian %.3f, largest %.3f, of %d products; %d not measured\n", timing.Median(all), slices.Max(all), len(all), missing)
	}
	return nil
}

// columns reads numbers of activations.
func columns(words []string) (ns []int, err error) {
	for _, word := range words {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 1<<12 {
			return nil, fmt.Errorf("-n %s: want 1 to %d", word, 1<<12)
		}
		ns = append(ns, n)
	}
	return ns, nil
}
