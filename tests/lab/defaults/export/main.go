// Command export writes the default schedules that this checkout of tmacc chooses on this machine, one product and target a line:
//
//	go build -o export ./tests/lab/defaults/export && ./export -o new.jsonl
//
// go run ./tests/lab compare OLD NEW measures two such files, of two commits, beside one another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	recorded "github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "export: %v\n", err)
		os.Exit(2)
	}
}

// exporter says which rows are written.
type exporter struct {
	formats, targets, only, path, commit string
	records                              bool           // recorded schedules go before the beam search's
	known                                []defaults.Row // in the file
}

// run exports what arguments say. Rows that are in the file already are not made again.
func run(ctx context.Context, args []string, out io.Writer) error {
	var x exporter
	f := flag.NewFlagSet("export", flag.ContinueOnError)
	f.StringVar(&x.formats, "format", "usual", "products, separated by commas: usual (all built-in formats and GGUF types), untuned (five formats that nobody tuned), study (the formats of lab study), or names")
	f.StringVar(&x.targets, "target", "here", "targets, separated by commas: here (all that this machine runs), or names")
	f.StringVar(&x.only, "only", "", "only rows whose product and target match a regular `expression`, such as '^q4_0 .*avx2$'")
	f.StringVar(&x.path, "o", "", "`file` that rows are appended to; those that it has are not made again (default standard output)")
	f.BoolVar(&x.records, "records", false, "write recorded schedules where the core of a target has some, as programs take them, instead of the beam search's")
	f.StringVar(&x.commit, "commit", bench.Commit(), "what rows call the checkout")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%d arguments, want none: see -h", f.NArg())
	}
	if x.path == "" {
		return x.export(ctx, out)
	}
	file, err := x.open()
	if err != nil {
		return err
	}
	return errors.Join(x.export(ctx, file), file.Close())
}

// open opens the file for more rows, and reads those that it has.
func (x *exporter) open() (*os.File, error) {
	if err := defaults.Appendable(x.path); err != nil {
		return nil, fmt.Errorf("-o %w: without -o, rows go to standard output", err)
	}
	switch before, err := os.Open(x.path); {
	case err == nil:
		x.known, err = defaults.Read(before)
		before.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return os.OpenFile(x.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
}

func (x *exporter) export(ctx context.Context, to io.Writer) error {
	only, err := regexp.Compile(x.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	products, err := defaults.Products(strings.Split(x.formats, ","))
	if err != nil {
		return fmt.Errorf("-format: %w", err)
	}
	on, err := targetsOf(strings.Split(x.targets, ","))
	if err != nil {
		return err
	}
	for _, p := range products {
		for _, t := range on {
			if only.MatchString(defaults.Name(p, t.Machine().Name)) {
				if err := x.row(ctx, to, p, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// row writes the row of a product on a target, unless it is known.
func (x *exporter) row(ctx context.Context, to io.Writer, p ir.Problem, t targets.Target) error {
	name := defaults.Name(p, t.Machine().Name)
	if i := slices.IndexFunc(x.known, func(r defaults.Row) bool { return r.Name() == name }); i >= 0 {
		if x.known[i].Commit != x.commit {
			return fmt.Errorf("%s has rows of commit %q, and this is %q: give another file, or -commit", x.path, x.known[i].Commit, x.commit)
		}
		return nil
	}
	r, err := x.choose(ctx, p, t)
	if err != nil {
		return err
	}
	r.CPU, r.Date, r.Commit = timing.ThisHost().CPU, bench.Today(), x.commit
	return defaults.Write(to, r)
}

// choose chooses the schedules of p on t.
func (x *exporter) choose(ctx context.Context, p ir.Problem, t targets.Target) (defaults.Row, error) {
	if !x.records {
		return defaults.Choose(ctx, p, t)
	}
	return defaults.By(ctx, p, t, func() ([]search.Use, error) { return (*recorded.Chooser)(nil).Uses(ctx, p, t) })
}

func targetsOf(words []string) (all []targets.Target, err error) {
	for _, word := range words {
		if word == "here" {
			all = append(all, measure.TargetsOn(timing.ThisHost())...)
			continue
		}
		t := targets.ByName(word)
		if t == nil {
			return nil, fmt.Errorf("-target: unknown target %.80q: see tmacc targets", word)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, measure.ErrNoTarget
	}
	return all, nil
}
