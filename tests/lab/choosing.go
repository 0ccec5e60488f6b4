package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

type choosingFlags struct {
	format, only string
	rounds       int
	minutes      float64
}

// choosing measures how long two commits take to choose default schedules: it runs their programs of tests/lab/defaults/export in turn,
// each with an empty cache, and the new one with the cache that it has filled, too. Times are of all threads, the least of some rounds.
func (x *lab) choosing(ctx context.Context, args []string) error {
	var o choosingFlags
	f := x.flags("choosing")
	f.StringVar(&o.format, "format", "usual", "products, as for export")
	f.StringVar(&o.only, "only", "", "only products and targets that match a regular `expression`, such as '^q4_0 .*avx2$'")
	f.IntVar(&o.rounds, "rounds", 3, "how often each program runs")
	f.Float64Var(&o.minutes, "minutes", 0, "`minutes` after which no product begins, 0: no limit")
	if err := x.parse(f, args, 2); err != nil {
		return err
	}
	if _, err := regexp.Compile(o.only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if err := between("rounds", o.rounds, 1, 100); err != nil {
		return err
	}
	return x.runChoosing(ctx, o, f.Arg(0), f.Arg(1))
}

// chosen is how long a product took, in seconds.
type chosen struct {
	name             string
	old, cold, again float64 // by the old commit, by the new one, and by the new one with its cache
}

func (x *lab) runChoosing(ctx context.Context, o choosingFlags, old, now string) error {
	products, err := defaults.Products([]string{o.format})
	if err != nil {
		return fmt.Errorf("-format: %w", err)
	}
	on, err := targetsHere([]string{"all"})
	if err != nil {
		return err
	}
	only := regexp.MustCompile(o.only)
	var all []chosen
	begun := time.Now()
	for _, p := range products {
		for _, t := range on {
			name := defaults.Name(p, t.Machine().Name)
			if !only.MatchString(name) || o.minutes > 0 && time.Since(begun).Minutes() >= o.minutes {
				continue
			}
			x.step("%s", name)
			c := chosen{name, math.Inf(1), math.Inf(1), math.Inf(1)}
			if err := c.measure(ctx, o, old, now); err != nil {
				return err
			}
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("choosing: no product and target matches -only %s", o.only)
	}
	x.printChoosing(all)
	return nil
}

// measure runs both programs in turn.
func (c *chosen) measure(ctx context.Context, o choosingFlags, old, now string) error {
	for range o.rounds {
		for _, x := range []struct {
			program     string
			cold, again *float64
		}{{old, &c.old, nil}, {now, &c.cold, &c.again}} {
			home, err := os.MkdirTemp("", "choosing")
			if err != nil {
				return err
			}
			defer os.RemoveAll(home)
			for _, least := range []*float64{x.cold, x.again} {
				if least == nil {
					continue
				}
				seconds, err := choose(ctx, x.program, o.format, c.name, home)
				if err != nil {
					return err
				}
				*least = min(*least, seconds)
			}
		}
	}
	return nil
}

// choose runs a program for one product and target, with a cache in a folder, and returns the CPU time that it took to choose.
func choose(ctx context.Context, program, format, name, home string) (float64, error) {
	cmd := exec.CommandContext(ctx, program, "-format", format, "-only", "^"+regexp.QuoteMeta(name)+"$")
	cmd.Env = append(os.Environ(), cache.EnvFolder+"="+home)
	var out, why bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &why
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", cmp.Or(strings.TrimSpace(why.String()), program), err)
	}
	rows, err := defaults.Read(&out)
	if err != nil || len(rows) != 1 {
		return 0, fmt.Errorf("%s: %d rows of %s, want one: %v", program, len(rows), name, err)
	}
	return rows[0].Seconds, nil
}

func (x *lab) printChoosing(all []chosen) {
	fmt.Fprintf(x.out, "| product | old, ms | new, ms | new over old | with its cache, ms | with over without |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	var slower, kept []float64
	slices.SortStableFunc(all, func(a, b chosen) int { return cmp.Compare(b.cold/b.old, a.cold/a.old) })
	for _, c := range all {
		fmt.Fprintf(x.out, "| %s | %.0f | %.0f | %.2f | %.0f | %.3f |\n", c.name, 1e3*c.old, 1e3*c.cold, c.cold/c.old, 1e3*c.again, c.again/c.cold)
		slower, kept = append(slower, c.cold/c.old), append(kept, c.again/c.cold)
	}
	old, cold, again := 0.0, 0.0, 0.0
	for _, c := range all {
		old, cold, again = old+c.old, cold+c.cold, again+c.again
	}
	fmt.Fprintf(x.out, "\nnew over old: median %.2f, largest %.2f, all together %.2f; with the cache over without: median %.3f, largest %.3f, all together %.3f\n",
		timing.Median(slower), slices.Max(slower), cold/old, timing.Median(kept), slices.Max(kept), again/cold)
}
