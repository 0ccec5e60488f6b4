package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/timing"
)

// familyFormats are compared if -format names none: formats whose codes make an index of a table.
var familyFormats = list{"w1", "ternary", "w2", "w3", "w4", "iq4nl"}

// familyPlaces are where families are compared.
var familyPlaces = []bench.Place{
	{Mode: measure.ModeL2, M: 512, K: 2048, Ns: []int{1}},
	{Mode: measure.ModeL3, M: 4096, K: 4096, Ns: []int{1}},
	{Mode: measure.ModeDRAM, M: 4096, K: 4096, Ns: []int{1, 4}},
	{Mode: measure.ModeL2, M: 512, K: 2048, Ns: []int{64}},
}

// familyColumns names the places, as the page's columns do.
func familyColumns() (out []string) {
	for _, at := range familyPlaces {
		for _, n := range at.Ns {
			name := fmt.Sprintf("%s N=%d", at.Mode, n)
			if n > measure.MaxGEMV {
				name = fmt.Sprintf("GEMM N=%d", n)
			}
			out = append(out, name)
		}
	}
	return out
}

type familiesFlags struct {
	formats, targets list
	out              string
	rounds, tables   int
	command          string // with the flags that were given
}

// families measures, for every format on every target of this machine, the schedules by dot products and by tables that are predicted
// to be the fastest. It writes families.md and families.svg after each format.
func (x *lab) families(ctx context.Context, args []string) error {
	o := familiesFlags{formats: familyFormats, targets: list{"all"}}
	f := x.flags("families")
	f.Var(&o.formats, "format", "weight formats, separated by commas")
	f.Var(&o.targets, "target", "targets, separated by commas, or all that this machine runs")
	f.StringVar(&o.out, "o", ".", "`folder` of families.md and families.svg")
	f.IntVar(&o.rounds, "rounds", 3, "rounds whose median counts")
	f.IntVar(&o.tables, "tables", 3, "layouts by tables to measure, at most; at each place the quickest counts")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	if err := errors.Join(between("rounds", o.rounds, 1, 1000), between("tables", o.tables, 1, 100)); err != nil {
		return err
	}
	o.command = "go run ./tests/lab families"
	f.Visit(func(f *flag.Flag) {
		if f.Name != "q" {
			o.command += " -" + f.Name + " " + f.Value.String()
		}
	})
	return x.compareFamilies(ctx, o)
}

// contest is one product on one target, by dot products and by several kinds of tables.
type contest struct {
	format, target string
	entrants       []*entrant // the first one is by dot products
}

// entrant is one schedule in a contest.
type entrant struct {
	bench.Subject
	tables string      // describes its tables
	speeds [][]float64 // Gweights/s, by round and place
}

func (x *lab) compareFamilies(ctx context.Context, o familiesFlags) error {
	if err := folder(o.out); err != nil { // now, not when all is measured
		return err
	}
	ts, err := targetsHere(o.targets)
	if err != nil {
		return err
	}
	if err := jit.Mappable(); err != nil {
		return err
	}
	x.step("assembling the probes of this machine")
	g, err := bench.NewGauge(timing.Options{Rounds: 5})
	if err != nil {
		return err
	}
	defer g.Close()
	var all []*contest
	var skipped []string
	for _, name := range o.formats {
		measured, refused, err := x.compareTargets(ctx, name, ts, o, g)
		if err != nil {
			return err
		}
		all, skipped = append(all, measured...), append(skipped, refused...)
		if len(all) == 0 {
			continue
		}
		if err := writeFamilies(o, all, skipped, g); err != nil {
			return err
		}
	}
	x.doubts(g)
	if len(all) == 0 {
		return fmt.Errorf("nothing to compare: %s", strings.Join(skipped, "; "))
	}
	return nil
}

// compareTargets measures one format on all targets, whose rounds alternate. It says which targets have nothing to compare, and
// why.
func (x *lab) compareTargets(ctx context.Context, name string, ts []targets.Target, o familiesFlags, g *bench.Gauge) (all []*contest, skipped []string, _ error) {
	for _, t := range ts {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		x.step("compiling %s for %s", name, t.Machine().ShortName())
		s := &bench.Suite{}
		defer s.Close()
		k, err := newContest(ctx, s, name, t, o.tables)
		if none := (*noSchedule)(nil); errors.As(err, &none) {
			skipped = append(skipped, err.Error())
			continue
		}
		if err != nil { // a wrong kernel, or one that this machine cannot run now, is no reason to leave it out
			return nil, nil, err
		}
		all = append(all, k)
	}
	for round := range o.rounds {
		for _, k := range all {
			x.step("round %d of %d: %s on %s", round+1, o.rounds, k.format, k.target)
			if err := k.run(ctx, g); err != nil {
				return nil, nil, err
			}
		}
	}
	return all, skipped, nil
}

// noSchedule says that a family has no schedule for a product: there is nothing to compare.
type noSchedule struct{ error }

func (e *noSchedule) Unwrap() error { return e.error }

// newContest compiles both families, with up to n schedules by tables, and adds them to s. The error is a *noSchedule if one
// of them has none.
func newContest(ctx context.Context, s *bench.Suite, name string, t targets.Target, n int) (*contest, error) {
	p, err := problem(name)
	if err != nil {
		return nil, err
	}
	tables, err := beam.Tables(ctx, p, t)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &noSchedule{err}
	}
	dots, err := beam.Dots(ctx, p, t)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &noSchedule{err}
	}
	k := &contest{format: name, target: t.Machine().ShortName()}
	for i, uses := range append(dots[:1:1], tables[:min(n, len(tables))]...) {
		e, err := newEntrant(ctx, s, p, t, uses)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			e.tables = tableName(uses[0].Trace)
		}
		k.entrants = append(k.entrants, e)
	}
	return k, nil
}

func newEntrant(ctx context.Context, s *bench.Suite, p ir.Problem, t targets.Target, uses []search.Use) (*entrant, error) {
	err := s.Add(ctx, p, t, uses, false)
	if _, refused := search.Refusal(err); refused {
		return nil, &noSchedule{err}
	}
	if err != nil {
		return nil, err
	}
	return &entrant{Subject: s.Subjects[len(s.Subjects)-1]}, nil
}

// tableName says how a trace makes indices and what entries are: "signs 5 5 6 i16".
func tableName(t schedule.Trace) string {
	d, q := t[0].(schedule.Decompose), t[1].(schedule.QuantizeTable)
	text := fmt.Sprint(d.Value, " ", strings.Trim(fmt.Sprint(d.Parts), "[]"), " ", q.Kind)
	if d.Mirror {
		text += " mirrored"
	}
	return text
}

// run measures all entrants at every place.
func (k *contest) run(ctx context.Context, g *bench.Gauge) error {
	for _, e := range k.entrants {
		var row []float64
		for _, at := range familyPlaces {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			records, err := g.Measure(ctx, e.Subject, at)
			if err != nil {
				return err
			}
			for _, r := range records {
				row = append(row, r.GWeightsS)
			}
		}
		e.speeds = append(e.speeds, row)
	}
	return nil
}

func writeFamilies(o familiesFlags, all []*contest, skipped []string, g *bench.Gauge) error {
	var from picture.Source
	from.Add(g.Lab.Host.CPU, bench.Today(), bench.Commit())
	if err := os.WriteFile(filepath.Join(o.out, "families.md"), []byte(familiesPage(o.command, all, skipped, from)), 0o666); err != nil {
		return err
	}
	p, err := familiesPicture(familyColumns(), familyRows(all), from)
	if err != nil {
		return err
	}
	return savePicture(filepath.Join(o.out, "families.svg"), p)
}
