// Command lab makes the measurements and the pages of docs that only maintainers of tmacc need.
//
//	go run ./tests/lab study -o docs/lab                  compare the search with random search
//	go run ./tests/lab families -o docs/lab              compare lookups in tables with dot products
//	go run ./tests/lab threads -format w2               measure how threads share products
//	go run ./tests/lab compare OLD NEW                  measure two commits' default schedules beside one another
//	go run ./tests/lab choosing OLD NEW                 measure how long two commits take to choose default schedules
//	go run ./tests/lab heldout                          measure how much faster a minute of tuning makes default schedules
//	go run ./tests/lab searches OLD NEW                 compare the searches of two commits
//	go run ./tests/lab limits RECORDS                   print the page of tmacc bench -check -json
//	go run ./tests/lab peer -check RATIOS RECORDS       print the page of tmacc bench -peer -json
//	go run ./tests/lab models FOLDER                    print the page of tmacc bench -model -peer -o json
//	go run ./tests/lab fit -o docs/lab/fit.jsonl           fit the numbers of the model of costs to the measured pairs
//
// An error is one line. The exit code is then 2.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
)

// home is the folder of the pages and their records, from the root of the checkout.
const home = "docs/lab"

func main() {
	worker.Main()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// lab is one run of the command.
type lab struct {
	in       io.Reader
	out, err io.Writer
	quiet    bool
	shown    time.Time // when step showed a line
}

// command is a subcommand.
type command struct {
	name, args, does string
	run              func(x *lab, ctx context.Context, args []string) error
}

// commands lists the subcommands; one without a description is not for people.
var commands = []command{
	{"study", "", "compare tmacc tune's search with random search", (*lab).study},
	{"families", "", "measure where lookups in tables win, and where dot products do", (*lab).families},
	{"threads", "", "measure how threads share products, also beside busy processes", (*lab).threads},
	{"compare", "OLD NEW", "measure two commits' default schedules beside one another", (*lab).compare},
	{"choosing", "OLD NEW", "measure how long two commits' programs of export take", (*lab).choosing},
	{"heldout", "", "measure how much faster a minute of tuning makes default schedules", (*lab).heldout},
	{"searches", "OLD NEW", "compare the searches that study made of two commits", (*lab).searches},
	{"limits", "RECORDS", "print the page of what tmacc bench -check -json printed", (*lab).limits},
	{"peer", "RECORDS", "print the page of what tmacc bench -peer -json printed", (*lab).peer},
	{"models", "FOLDER", "print the page of what tmacc bench -model -peer -o json printed", (*lab).models},
	{"fit", "", "fit the numbers of the model of costs to the measured pairs, also without each core in turn", (*lab).fit},
	{"busy", "", "", (*lab).busy},
}

// run executes a subcommand and returns the exit code.
func run(args []string, in io.Reader, out, err io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	x := &lab{in: in, out: out, err: err}
	i := -1
	if len(args) > 0 {
		i = slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	}
	if i < 0 {
		x.usage()
		return 2
	}
	switch fail := commands[i].run(x, ctx, args[1:]); {
	case errors.Is(fail, flag.ErrHelp):
	case fail != nil:
		fmt.Fprintf(err, "lab: %v\n", fail)
		return 2
	}
	return 0
}

func (x *lab) usage() {
	fmt.Fprintln(x.err, "usage: go run ./tests/lab COMMAND [flags]; COMMAND -h lists the flags")
	for _, c := range commands {
		if c.does != "" {
			fmt.Fprintf(x.err, "  %-9s %s\n", c.name, c.does)
		}
	}
}

// flags returns the flags of a subcommand, with the one that all have. Parse them with parse.
func (x *lab) flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	f.BoolVar(&x.quiet, "q", false, "no progress on standard error")
	return f
}

// parse parses flags; most is the number of arguments that may follow them.
func (x *lab) parse(f *flag.FlagSet, args []string, most int) error {
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(x.err)
		f.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name(), err)
	case f.NArg() != most:
		return fmt.Errorf("%s: %d arguments, want %d", f.Name(), f.NArg(), most)
	}
	return nil
}

// list is a flag of words, separated by commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

// step says what begins now, if nothing was said for a while.
func (x *lab) step(format string, args ...any) {
	if x.quiet || time.Since(x.shown) < 2*time.Second {
		return
	}
	x.shown = time.Now()
	fmt.Fprintf(x.err, format+"\n", args...)
}

// between returns an error if the value of a flag is out of range.
func between(flag string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("-%s %d: want %d to %d", flag, value, least, most)
	}
	return nil
}

// problem returns the product of a format, with its usual activations.
func problem(name string) (ir.Problem, error) {
	w, err := measure.Lookup(name)
	if err != nil {
		return ir.Problem{}, err
	}
	return problemOf(w)
}

func problemOf(w format.Weight) (ir.Problem, error) {
	p := ir.Problem{Weight: w, Act: blocks.UsualAct(w)}
	return p, p.Validate()
}

// targetHere returns the target of a name, or of "host", which this machine must run.
func targetHere(name string) (targets.Target, error) {
	best := measure.BestOn(timing.ThisHost(), "")
	if best == nil {
		return nil, measure.ErrNoTarget
	}
	if name == "host" {
		return best, nil
	}
	t := targets.ByName(name)
	if t == nil || !contains(measure.TargetsOn(timing.ThisHost()), t) {
		return nil, fmt.Errorf("target %s: this machine does not run it", name)
	}
	return t, nil
}

func contains(ts []targets.Target, t targets.Target) bool {
	return slices.ContainsFunc(ts, func(o targets.Target) bool { return o.Machine().Name == t.Machine().Name })
}

// targetsHere returns the targets of names, each once, in the order of targets.All. "all" stands for all that this machine runs.
func targetsHere(names []string) (out []targets.Target, err error) {
	here := measure.TargetsOn(timing.ThisHost())
	var wanted []targets.Target
	for _, name := range names {
		if name == "all" {
			wanted = append(wanted, here...)
			continue
		}
		t, err := targetHere(name)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, t)
	}
	for _, t := range here {
		if contains(wanted, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, measure.ErrNoTarget
	}
	return out, nil
}

// folder makes the folder that -o names.
func folder(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return fmt.Errorf("-o %w", err)
	}
	return nil
}

// savePicture writes a picture as SVG.
func savePicture(path string, p *picture.Picture) error {
	data, err := p.Encode(".svg")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, data, 0o666)
}

// doubts says why the figures of g may be wrong.
func (x *lab) doubts(g *bench.Gauge) {
	for _, line := range g.Doubts() {
		fmt.Fprintf(x.err, "lab: %s\n", line)
	}
}
