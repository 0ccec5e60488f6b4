package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tmacc/tmacc/cmd/tmacc/explorer"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/explore"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/tune"
)

type exploreFlags struct {
	format, kernel      string
	target, core, trace string
	device              string
	act                 order.Act
	cols                int
	modes               []string
	sizeFlags
	dir, log         string
	noRecords, only  bool
	plain, json      bool
	quiet            bool
	entry            *tune.Entry // of the lock, that -kernel names
	chosenTarget     bool        // the user gave -target
	chosenActivation bool        // the user gave -act-group
}

func (c *cli) explore() *cobra.Command {
	var x exploreFlags
	var list strings.Builder
	for _, w := range explore.Commands() {
		fmt.Fprintf(&list, "  %-26s %s\n", strings.TrimSpace(w.Name+" "+w.Args), w.About)
	}
	cmd := &cobra.Command{
		Use: "explore", Args: between(0, 0),
		Short: "see and shape a schedule, with predicted and measured times",
		Long: `Open the schedule of a product, look at it at every stage of the compiler, change it, and see at
once what became illegal and why, what the model of the core predicts, and what the machine measures.
Then put it into ` + tune.LockName + `, or export it for -trace.

It begins with the schedule of -trace, else of the lock, else of a record, else with the default one. Times are ratios to the
default schedule's: predicted ones are the model's; measured ones come from the same rounds as the default's, with their noise. Measurements run
in a process of their own: a schedule that crashes it, hangs or computes something else is listed as a problem.

On a terminal there are panes for the trace, for legal next steps, and for the stages; ? lists the keys. With -plain, commands come from standard input, a line each; # begins a comment. With -json each answer is an object on a line, with
command, and reply or error. If a command fails, the others still run, and the exit code is 1. The commands:

` + list.String() + `
Steps are numbered from 0. A step is written as it is printed (split m 32 mt mi), with field=value, or as JSON.`,
		Example: `  tmacc explore -format w2
  tmacc explore -format w2 -plain < script.txt
  echo 'steps' | tmacc explore -format w4-g32 -target avx2 -mode l2 -plain -json
  tmacc explore -kernel w2 -o internal/kernels -plain`,
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "weight format, or a JSON file with one (required, unless -kernel is given)")
	f.StringVar(&x.kernel, "kernel", "", "`product` of the lock whose schedule is explored, instead of -format")
	actVar(f, &x.act)
	f.IntVar(&x.cols, "cols", 1, "columns of activations per call of the kernel, and of the products that are measured")
	f.StringVar(&x.target, "target", hostWord, "target, see tmacc targets; one that this machine does not run is predicted only")
	oneCoreVar(f, &x.core)
	deviceVar(f, &x.device)
	f.StringSliceVar(&x.modes, "mode", session.UsualModes, "where weights are: dram, l3 or l2; more than one all count")
	x.sizeFlags.add(f, 0, 0)
	f.StringVar(&x.trace, "trace", "", "JSON `file` with the schedule to begin with")
	noRecordsVar(f, &x.noRecords)
	f.BoolVar(&x.only, "only", false, "save a schedule that is faster for -cols and -mode, even if other products get slower")
	f.StringVarP(&x.dir, "output", "o", ".", "`directory` of the package whose "+tune.LockName+" is read and changed")
	f.StringVar(&x.log, "log", "", "`file` that measurements of searches are added to, or "+session.NoLog+" (default: see tmacc log)")
	f.BoolVar(&x.plain, "plain", false, "read commands from standard input")
	f.BoolVar(&x.json, "json", false, "with -plain: print a JSON object for each command, and for each event of a search")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.runExplore(cmd.Context(), x)
	}
	return cmd
}

func (x *exploreFlags) validate(f *pflag.FlagSet) error {
	x.chosenTarget, x.chosenActivation = f.Changed("target"), f.Changed("act-group")
	switch {
	case (x.format == "") == (x.kernel == ""):
		return errors.New("explore: give a -format, or a -kernel of the lock")
	case x.cols < 1 || x.cols > maxTuned:
		return fmt.Errorf("-cols %d: want 1 to %d", x.cols, maxTuned)
	case x.kernel != "" && x.trace != "":
		return errors.New("-kernel and -trace: want one of them")
	case x.json && !x.plain:
		return errors.New("-json: is for -plain")
	case x.device != "" && x.kernel == "" && !isShaders(x.target):
		return errors.New("-device: is for -target spirv")
	}
	for _, flag := range []string{"no-records", "only"} {
		if isShaders(x.target) && f.Changed(flag) {
			return fmt.Errorf("-%s: is not for devices: leave it out with -target spirv", flag)
		}
	}
	if err := delivery.CheckDir(x.dir); err != nil {
		return err
	}
	if x.log != "" && x.log != session.NoLog && noFolder(x.log) != nil {
		return fmt.Errorf("-log %w", noFolder(x.log))
	}
	t := tuneFlags{modes: x.modes, ns: []int{x.cols}, sizeFlags: x.sizeFlags}
	return t.validatePurposes(f)
}

func (c *cli) runExplore(ctx context.Context, x exploreFlags) error {
	if !x.plain && !c.onTerminal() {
		return errors.New("explore: standard input and output are no terminal: give -plain, and commands on standard input")
	}
	if !x.plain && os.Getenv("TERM") == "dumb" {
		return errors.New("explore: a terminal with TERM=dumb shows no panes: give -plain, and commands on standard input")
	}
	ctx, release := hangingUp(ctx)
	defer release()
	bar := newProgress(c.err, x.quiet)
	defer bar.done()
	d := c.keptDefaults(x.noRecords, bar)
	defer d.Close()
	o, err := c.exploring(x, d)
	if err != nil {
		return err
	}
	chosen := bar.steady("choosing the default schedules")
	e, err := explore.Open(ctx, o)
	chosen()
	if err != nil {
		return fmt.Errorf("explore: %w", err)
	}
	defer closed(e)
	bar.done()
	if !x.plain {
		err := explorer.Run(ctx, e, c.in.(*os.File), terminal(c.out))
		switch {
		case errors.Is(err, explorer.ErrUnread): // nor would it be read
			return &status{exitFailed, nil}
		case errors.Is(err, context.Canceled):
			return failed("%w", errInterrupted)
		case errors.Is(err, explorer.ErrGone):
			return failed("explore: %w", err)
		}
		return err
	}
	p := plainExplorer{e, c.out, c.err, bar, x.json, 0}
	return p.run(ctx, c.in)
}

// closed ends what still runs, and waits a moment for that. Workers end with this process.
func closed(e *explore.Explorer) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Close()
	}()
	select {
	case <-ended:
	case <-time.After(300 * time.Millisecond):
	}
}

// hangingUp is ctx, which also ends when the terminal hangs up, unless that is to be ignored (nohup).
func hangingUp(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// fullName is that of a target of shaders, "spirv/dot" of "dot" and "spirv", and any other word as it is.
func fullName(word string) string {
	if t, ok := spirv.ByName(word); ok {
		return t.Machine().Name
	}
	return word
}

// isShaders says that a word is a target of shaders.
func isShaders(word string) bool { _, ok := spirv.ByName(word); return ok }

// exploring is what the flags ask for.
func (c *cli) exploring(x exploreFlags, d *defaults.Chooser) (o explore.Options, err error) {
	o = explore.Options{Columns: x.cols, Modes: x.modes, M: x.m, K: x.k, Only: x.only, Log: x.log, Defaults: d, Version: gomod.Compiler(), Probing: quick}
	if o.Lock, err = delivery.LockPath(x.dir); err != nil {
		return o, err
	}
	if x.kernel != "" {
		if err := x.fromLock(o.Lock); err != nil {
			return o, err
		}
	}
	if o.Problem, err = c.tunedProduct(x.format, x.act, x.k); err != nil {
		return o, err
	}
	if x.entry != nil && !x.entry.For(o.Problem) {
		return o, fmt.Errorf("-kernel %s: %s has the schedule of another format of this name: run tmacc tune, or give a -format", quotedIfOdd(x.kernel), o.Lock)
	}
	if err := c.exploredTarget(&o, x); err != nil {
		return o, err
	}
	if x.trace != "" {
		o.Origin = x.trace
		if o.Trace, err = c.inputs().Trace(x.trace); err != nil {
			return o, err
		}
	}
	o.Flags = x.reproducing(o)
	return o, nil
}

// exploredTarget is the target of the flags, and what opens its device.
func (c *cli) exploredTarget(o *explore.Options, x exploreFlags) error {
	s, ok := spirv.ByName(x.target)
	if !ok {
		t, err := c.finder().One(x.target, x.core)
		if err == nil {
			o.Target, o.Lacks = t, lacks(t)
		}
		return err
	}
	var cores []string
	if x.core != "" {
		cores = []string{x.core}
	}
	chosen, err := c.chosenSpeeds(cores)
	if err != nil {
		return err
	}
	o.Target = withSpeeds([]spirv.Target{s}, chosen, s.Speeds())[0]
	o.Device = func(ctx context.Context, say func(string)) (*shaders.Lab, error) {
		lab, err := openLab(ctx, x.device, newProgress(io.Discard, true))
		if err == nil {
			for _, what := range lab.Device().Cautions() {
				say(what)
			}
		}
		return lab, err
	}
	return nil
}

// fromLock takes the format, the target and the activations of the entry that -kernel names.
func (x *exploreFlags) fromLock(path string) error {
	lock, err := tune.ReadLock(path)
	if err != nil {
		return err
	}
	var have []string
	var fits []tune.Entry
	for _, e := range lock.Entries {
		short := e.Target // of shaders
		if t := targets.ByName(e.Target); t != nil {
			short = t.Machine().ShortName()
		} else if !isShaders(e.Target) {
			have = append(have, e.Product+" on "+e.Target+", which cannot be explored")
			continue
		}
		name := e.Product + " on " + short
		if e.ActGroup > 0 {
			name += " with -act-group " + strconv.Itoa(e.ActGroup)
		}
		have = append(have, name)
		if e.Product == x.kernel && (!x.chosenTarget || x.target == short || fullName(x.target) == e.Target) && (!x.chosenActivation || x.act.Group == e.ActGroup) {
			fits = append(fits, e)
		}
	}
	of, list := "-kernel "+quotedIfOdd(x.kernel), strings.Join(have, ", ")
	switch {
	case len(have) == 0:
		return fmt.Errorf("%s: %s has no schedule: run tmacc tune, or give a -format", of, path)
	case len(fits) == 0:
		return fmt.Errorf("%s: %s has %s", of, path, list)
	case len(fits) > 1:
		return fmt.Errorf("%s: %s has %s: choose one by -target, or by -act-group", of, path, list)
	}
	return x.take(&fits[0], of, path)
}

// take begins with an entry of a lock.
func (x *exploreFlags) take(e *tune.Entry, of, path string) error {
	var have []string
	for _, k := range e.Kernels {
		have = append(have, strconv.Itoa(k.Cols))
	}
	switch {
	case !slices.Contains(have, strconv.Itoa(x.cols)):
		return fmt.Errorf("%s: %s has kernels of %s columns: choose one by -cols", of, path, strings.Join(have, ", "))
	case !known(e.Product):
		return fmt.Errorf("%s: its format is in a file: give that as -format, with -target %s: tmacc explore begins with the schedule of the lock then, too", of, e.Target)
	}
	x.entry, x.format, x.target, x.act.Group = e, e.Product, e.Target, e.ActGroup
	return nil
}

// known says that a product is of a built-in format.
func known(product string) bool {
	_, err := ir.Named(product)
	return err == nil
}

// reproducing are flags of tmacc compare that measure the same, or of tmacc bench on a device.
func (x *exploreFlags) reproducing(o explore.Options) []string {
	m := o.Target.Machine()
	out := []string{"-format", x.format, "-target", m.ShortName()}
	switch {
	case isShaders(x.target):
		out[3] = x.target
		if x.core != "" {
			out = append(out, "-core", x.core)
		}
		if x.device != "" {
			out = append(out, "-device", x.device)
		}
	case x.core != "":
		out = append(out[:3], targeting.ISAName(m), "-core", x.core)
	case !m.Ordinary():
		out = append(out[:3], targeting.ISAName(m), "-core", m.Core.Name)
	}
	if x.act.Elem != order.Int8 {
		out = append(out, "-act", x.act.Elem)
	}
	if x.chosenActivation || x.kernel != "" {
		out = append(out, "-act-group", strconv.Itoa(x.act.Group))
	}
	out = append(out, "-mode", strings.Join(x.modes, ","), "-n", strconv.Itoa(x.cols))
	for _, size := range []struct {
		flag string
		n    int
	}{{"-m", x.m}, {"-k", x.k}} {
		if size.n > 0 {
			out = append(out, size.flag, strconv.Itoa(size.n))
		}
	}
	if x.noRecords {
		out = append(out, "-no-records")
	}
	return out
}

// plainExplorer explores by lines of text.
type plainExplorer struct {
	*explore.Explorer
	out, err io.Writer
	bar      *progress
	json     bool
	line     int // of standard input
}

// answer is a line of -plain -json: the answer to a command, or an event while it runs.
type answer struct {
	Line    int           `json:"line"` // of standard input, from 1
	Command string        `json:"command"`
	Event   string        `json:"event,omitempty"`
	Reply   explore.Reply `json:"reply,omitempty"`
	Text    string        `json:"text,omitempty"` // of an event, and of a reply that is a text alone
	Error   string        `json:"error,omitempty"`
}

// run does what the lines of a text say. The error says how many commands failed, or that a line cannot be read.
func (p *plainExplorer) run(ctx context.Context, in io.Reader) error {
	failures := 0
	for line, err := range linesOf(ctx, in) {
		if p.line++; err != nil {
			return fmt.Errorf("explore: standard input, line %d, whose rest is not done: %w", p.line, err)
		}
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		line = strings.TrimSpace(line)
		r, err := p.Do(ctx, line, func(e session.Event) { p.event(line, e) })
		p.bar.done()
		if ctx.Err() != nil || err == explore.ErrQuit {
			break
		}
		if p.answer(line, r, err) != nil {
			failures++
		}
	}
	if ctx.Err() == nil && failures > 0 {
		return failed("explore: %s failed", counted(failures, "command"))
	}
	return ctx.Err()
}

// event shows what happens while a command runs.
func (p *plainExplorer) event(line string, e session.Event) {
	kind := ""
	switch e := e.(type) {
	case session.Better:
		kind = "better"
		if !p.json {
			fmt.Fprintln(p.out, e)
		}
	case session.Progress:
		kind = "progress"
	case session.Note, session.Fault:
		kind = "note"
	}
	if kind != "better" {
		p.bar.step("%s", e)
	}
	if p.json && kind != "" {
		p.object(answer{Command: line, Event: kind, Text: e.String()})
	}
}

// object prints an answer, or else the error that says why it is no JSON.
func (p *plainExplorer) object(a answer) error {
	a.Line = p.line
	data, err := json.Marshal(a)
	if err != nil {
		data, _ = json.Marshal(answer{Line: a.Line, Command: a.Command, Event: a.Event, Error: "the answer is no JSON: " + oneLine(err)})
	}
	p.out.Write(append(data, '\n'))
	return err
}

// answer prints what a command has answered. The error is that of the command, or of its answer.
func (p *plainExplorer) answer(line string, r explore.Reply, err error) error {
	text, isText := r.(explore.Text)
	switch {
	case p.json && err != nil:
		p.object(answer{Command: line, Error: oneLine(err)})
	case p.json && isText:
		return p.object(answer{Command: line, Text: string(text)})
	case p.json:
		return p.object(answer{Command: line, Reply: r})
	case err != nil:
		fmt.Fprintf(p.err, "tmacc: line %d: %s\n", p.line, oneLine(err))
	default:
		fmt.Fprintf(p.out, "%v\n", r)
	}
	return err
}

// mostLine bounds a line of commands: a trace of many steps is one.
const mostLine = 1 << 20

// linesOf are the lines of in, until ctx ends. An error of reading comes last.
func linesOf(ctx context.Context, in io.Reader) iter.Seq2[string, error] {
	type read struct {
		line string
		err  error
	}
	all := make(chan read)
	go func() {
		defer close(all)
		send := func(r read) bool {
			select {
			case all <- r:
				return true
			case <-ctx.Done():
				return false
			}
		}
		s := bufio.NewScanner(in)
		s.Buffer(nil, mostLine)
		for s.Scan() {
			if !send(read{line: s.Text()}) {
				return
			}
		}
		if s.Err() != nil {
			send(read{err: s.Err()})
		}
	}()
	return func(yield func(string, error) bool) {
		for {
			select {
			case r, more := <-all:
				if !more || !yield(r.line, r.err) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// terminal is the file that w writes to, nil if it is no terminal.
func terminal(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// onTerminal says that a person types, and sees the output.
func (c *cli) onTerminal() bool {
	in, ok := c.in.(*os.File)
	return ok && term.IsTerminal(int(in.Fd())) && terminal(c.out) != nil
}
