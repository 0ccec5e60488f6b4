package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

// beam writes the schedules that a beam search by the machine model chooses, as export of defaults writes the default ones.
func (x *lab) beam(ctx context.Context, args []string) error {
	f := x.flags("beam")
	format := f.String("format", "usual", "products, as for export")
	words := list{"all"}
	f.Var(&words, "target", "targets, separated by commas")
	only := f.String("only", "", "only products and targets that match a regular `expression`, such as '^q4_0 .*avx2$'")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	products, err := defaults.Products([]string{*format})
	if err != nil {
		return fmt.Errorf("-format: %w", err)
	}
	on, err := targetsHere(words)
	if err != nil {
		return err
	}
	for _, p := range products {
		for _, t := range on {
			if !match.MatchString(defaults.Name(p, t.Machine().Name)) {
				continue
			}
			r, err := beamRow(ctx, p, t)
			if err == nil {
				err = defaults.Write(x.out, r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func beamRow(ctx context.Context, p ir.Problem, t targets.Target) (defaults.Row, error) {
	r, err := defaults.By(ctx, p, t, func() (uses []search.Use, err error) {
		found, err := beam.Product(ctx, p, t)
		for _, u := range found {
			uses = append(uses, search.Use{Cols: u.Cols, Trace: u.Trace})
		}
		return uses, err
	})
	r.CPU, r.Date, r.Commit = timing.ThisHost().CPU, bench.Today(), "beam of "+bench.Commit()
	return r, err
}
