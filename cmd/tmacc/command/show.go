package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/shaders"
)

type showFlags struct {
	format, op          string
	target, core, trace string
	lock                string
	noRecords           bool
	act                 order.Act
	cols                int
	stages              []string
	prepare             bool
	cost                bool
	why                 whyFlags
	json                bool // for why and cost
}

func (c *cli) show() *cobra.Command {
	var x showFlags
	cmd := &cobra.Command{
		Use: "show", Args: between(0, 0),
		Short: "print every stage of a kernel as text",
		Long: `Print what a kernel is at each stage of the compiler:

  problem   weights and activations, as JSON
  expr      the definition of the product
  origin    where the schedule comes from: trace, lock, record or default
  trace     the schedule: one line, then JSON; -trace reads both
  nest      loops
  layout    where the packed weights lie
  vir       vector operations, the text that tmacc lower reads
  passes    vir after each pass that changed it
  machine   machine operations with registers
  asm       assembly
  cost      the cycles that search expects it to take

-cost says where the cycles of a call go, by the model of the core: what bounds the code of each loop, and
what it waits for if weights come from the second-level cache (l2), the third (l3) or memory (dram). Of a shader it
says where the time of products goes, with weights in memory, by the speeds of the device that -core names.

-why says what each rule of the schedule space decided, and the times that the model predicts for alternatives, over the
schedule's own: of n activations with the weights in each place, or of shaders for each of some shapes. It takes any
schedule that the rules can make. -json prints either as one object.

A float operator of language models, -op, has no problem, no origin, no layout and no cost. Attention is several operators.
A shader, -target spirv, has no stages machine and cost.`,
		Example: `  tmacc show -format w2 -stage trace,nest
  tmacc show -format w4-g32 -cols 8 -target avx2 -stage asm
  tmacc show -format w4 -stage vir > w4.vir && tmacc lower w4.vir -target avx512vbmi
  tmacc show -format w4 -cost
  tmacc show -format w4 -why -mode dram
  tmacc show -op softmax -target neon -stage expr,nest`,
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "weight format, or a JSON file with one (required, unless -op is given)")
	f.StringVar(&x.op, "op", "", "float operator: attention, or one that package ir/operator defines, such as rmsnorm")
	actVar(f, &x.act)
	f.IntVar(&x.cols, "cols", 1, "columns of activations per call of the kernel")
	f.StringVar(&x.target, "target", "host", "target, see tmacc targets")
	oneCoreVar(f, &x.core)
	f.StringVar(&x.trace, "trace", "", "JSON `file` with the schedule to show instead of the default")
	f.StringVar(&x.lock, "lock", "", "`file` that tmacc tune has written: its schedule is shown, if it has the product")
	noRecordsVar(f, &x.noRecords)
	f.StringSliceVar(&x.stages, "stage", []string{allWord}, "what to print; may be repeated")
	f.BoolVar(&x.prepare, "prepare", false, "show the kernel that prepares activations for the schedule")
	f.BoolVar(&x.cost, "cost", false, "show where the cycles go, or the time of a shader, instead of the stages")
	f.BoolVar(&x.json, "json", false, "with -why or -cost: print one JSON object")
	whyVar(f, &x.why)
	cmd.MarkFlagsMutuallyExclusive("cost", "why", "stage")
	cmd.MarkFlagsMutuallyExclusive("cost", "why", "prepare")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range whyOnly {
			if !x.why.asked && cmd.Flags().Changed(name) {
				return fmt.Errorf("show: -%s is for -why", name)
			}
		}
		if x.json && !x.why.asked && !x.cost {
			return errors.New("show: -json is for -why and -cost")
		}
		if x.trace != "" && cmd.Flags().Changed("cols") {
			return errors.New("show: -cols: the schedule of -trace has columns of its own: leave it out")
		}
		x.why.placed = cmd.Flags().Changed("mode")
		if x.op == "" {
			return c.runShow(cmd.Context(), x)
		}
		for _, name := range []string{"format", "act", "act-group", "cols", "prepare", "cost", "why", "lock", "no-records"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("show: -%s is for products: leave it out with -op", name)
			}
		}
		return c.showOperator(x)
	}
	return cmd
}

func (c *cli) runShow(ctx context.Context, x showFlags) error {
	if x.format == "" {
		return fmt.Errorf("show: no format: give one with -format, see tmacc formats")
	}
	p, err := c.inputs().Problem(x.format, x.act)
	if err != nil {
		return err
	}
	selector, err := c.selector(x.target, x.core)
	if err != nil {
		return err
	}
	names, err := stageList(x.stages, showStages())
	if err != nil {
		return err
	}
	if x.trace != "" && x.lock != "" {
		return errors.New("show: -trace and -lock: want one of them")
	}
	if err := x.why.check(selector); err != nil {
		return err
	}
	bar := newProgress(c.err, false)
	defer bar.done()
	bar.step("compiling %s for %s", x.format, selector.Machine().Name)
	var all []build.Stage
	t, onCPU := selector.(targets.Target)
	switch {
	case onCPU:
		all, err = c.stagesOf(ctx, x, p, t, bar)
	default:
		all, err = c.shaderStages(ctx, x, p, selector.(spirv.Target))
	}
	if err != nil {
		return err
	}
	if x.why.asked {
		bar.step("predicting alternatives")
		reasons, err := x.why.reasons(ctx, p, all, selector)
		bar.done()
		if err != nil {
			return fmt.Errorf("show: %w", ofTrace(x.trace, err))
		}
		return c.printAs(x.json, reasons)
	}
	bar.done()
	if x.cost {
		report, err := costReport(ctx, p, all, selector)
		if err != nil {
			return fmt.Errorf("show: %w", ofTrace(x.trace, err))
		}
		return c.printAs(x.json, report)
	}
	last := &all[len(all)-1]
	last.Err = ofTrace(x.trace, last.Err)
	return printStages(c.out, all, names)
}

// ofTrace is err about the schedule in the file of -trace; without a file it is err.
func ofTrace(path string, err error) error {
	if path == "" || err == nil {
		return err
	}
	return fmt.Errorf("-trace %s: %w", path, err)
}

// printAs prints x as JSON or as text.
func (c *cli) printAs(asJSON bool, x fmt.Stringer) error {
	if asJSON {
		return printJSON(c.out, x)
	}
	_, err := fmt.Fprint(c.out, x)
	return err
}

// costReport says where the time of the kernel among stages goes.
func costReport(ctx context.Context, p ir.Problem, stages []build.Stage, on targets.Selector) (fmt.Stringer, error) {
	if t, ok := on.(spirv.Target); ok {
		r, err := shaders.CostReport(ctx, p, stages, t)
		r.Origin = originOf(stages)
		return r, err
	}
	r, err := build.CostReport(ctx, p, stages, on.(targets.Target))
	r.Origin = originOf(stages)
	return r, err
}

// originOf is the origin of the schedule among stages.
func originOf(stages []build.Stage) string {
	for _, s := range stages {
		if s.Name == originStage {
			return s.Text
		}
	}
	return ""
}

// originStage is the stage that says where a schedule comes from.
const originStage = "origin"

// showStages are the stages of a product.
func showStages() []string {
	names := build.StageNames()
	return slices.Insert(names, slices.Index(names, build.TraceStage), originStage)
}

// stagesOf are the stages of a product by the schedule that the flags ask for.
func (c *cli) stagesOf(ctx context.Context, x showFlags, p ir.Problem, t targets.Target, bar *progress) (all []build.Stage, err error) {
	var uses []search.Use
	var origin string
	use := search.Use{Cols: x.cols}
	if x.trace != "" {
		use.Trace, err = c.inputs().Trace(x.trace)
		origin = fmt.Sprintf("%s: %s", defaults.Trace, x.trace)
	}
	if err == nil && (x.trace == "" || x.prepare) { // a preparation's trace is for the tables of these
		var from string
		if uses, from, err = c.shown(ctx, x, p, t, bar); origin == "" {
			origin = from
		}
	}
	if err == nil && use.Trace == nil {
		use.Trace, err = build.TraceFor(p, t, uses, use.Cols)
	}
	if err != nil {
		return nil, err
	}
	if x.prepare {
		all = build.PrepareStages(p, use.Trace, t, uses)
	} else {
		all = build.Stages(p, use.Trace, t)
	}
	return slices.Insert(all, 0, build.Stage{Name: originStage, Text: origin}), nil
}

// shaderStages are the stages of a shader.
func (c *cli) shaderStages(ctx context.Context, x showFlags, p ir.Problem, t spirv.Target) ([]build.Stage, error) {
	if x.prepare {
		return nil, errors.New("show: -prepare: the CPU prepares activations for devices: give its -target")
	}
	lock, err := c.readLock(x.lock)
	if err != nil {
		return nil, err
	}
	uses, by, err := c.shaderUses(ctx, p, t, x.trace, lock)
	if err != nil {
		return nil, err
	}
	trace := uses[0].Trace
	if by != defaults.Trace {
		if trace, err = build.TraceFor(p, t, uses, x.cols); err != nil {
			return nil, err
		}
	}
	origin := string(by)
	if file := x.trace + x.lock; file != "" && by != defaults.Default {
		origin += ": " + file
	}
	return slices.Insert(build.Stages(p, trace, t), 0, build.Stage{Name: originStage, Text: origin}), nil
}

// shown is the schedules of a product by the lock, else by a record or the default ones, and where they come from.
func (c *cli) shown(ctx context.Context, x showFlags, p ir.Problem, t targets.Target, bar *progress) ([]search.Use, string, error) {
	lock, err := c.readLock(x.lock)
	if err != nil {
		return nil, "", err
	}
	if lock != nil {
		if e := lock.Find(p, t); e != nil && e.For(p) {
			origin := fmt.Sprintf("%s: %s, %s", defaults.Lock, x.lock, e.Measured())
			if v, err := build.Variant(ctx, p, t, e.Uses()); err == nil { // else a stage says why
				if others := e.Others(t, v.Kernels); others != "" {
					origin += fmt.Sprintf("; it has %s: measure again: %s %s", others, delivery.TuneCommand(e, p), besideLock(x.lock))
				}
			}
			return e.Uses(), origin, nil
		}
	}
	d := c.keptDefaults(x.noRecords, bar)
	defer d.Close()
	chosen, err := d.Choose(ctx, p, t)
	if e := chosen.Record; err == nil && e != nil {
		origin := fmt.Sprintf("%s: %s, %s", defaults.Record, t.Machine().Core.Name, e.Measured())
		var kernels []variant.Kernel
		for _, u := range chosen.Uses {
			kernels = append(kernels, *u.Kernel)
		}
		if others := e.Others(t, kernels); others != "" {
			command := delivery.TuneCommand(e, p)
			origin += fmt.Sprintf("; it has %s: measure again, in a checkout of tmacc, on a CPU of %s: %s -record search/records; elsewhere: give -no-records, or %s -o DIR",
				others, t.Machine().Core.Name, command, command)
		}
		return chosen.Uses, origin, nil
	}
	how := "chosen now"
	if chosen.Kept {
		how = "kept from an earlier choice"
	}
	return chosen.Uses, fmt.Sprintf("%s: %s", defaults.Default, how), err
}

// besideLock is the flag by which tmacc tune writes a lock beside the one at path. If that is another file, it says so.
func besideLock(path string) string {
	dir := filepath.Dir(path)
	flag := "-o " + message.ShellWord(dir)
	abs, err := filepath.Abs(path)
	if written, fail := delivery.LockPath(dir); err == nil && fail == nil && written != abs {
		return flag + ", which writes " + message.ShellWord(written)
	}
	return flag
}

// showOperator prints the stages of a float operator, or of all that attention is.
func (c *cli) showOperator(x showFlags) error {
	ops, err := operatorsNamed(x.op)
	if err != nil {
		return err
	}
	t, err := c.selector(x.target, x.core)
	if err != nil {
		return err
	}
	names, err := stageList(x.stages, build.OperatorStageNames())
	if err != nil {
		return err
	}
	var use search.Use // with no schedule: the one of package runtime/ops
	switch {
	case x.trace != "" && len(ops) > 1:
		return fmt.Errorf("show: a schedule is for one operator, and %s is %d: name one of them", x.op, len(ops))
	case x.trace != "":
		if use.Trace, err = c.inputs().Trace(x.trace); err != nil {
			return err
		}
	}
	for i, o := range ops {
		if len(ops) > 1 {
			fmt.Fprintf(c.out, "%s= %s: %s\n\n", strings.Repeat("\n", min(i, 1)), o.Name, o.About)
		}
		all := build.OperatorStages(o, use.Trace, t)
		last := &all[len(all)-1]
		last.Err = ofTrace(x.trace, last.Err)
		if err := printStages(c.out, all, names); err != nil {
			return err
		}
	}
	return nil
}

// attentionWord names all operators of attention.
const attentionWord = "attention"

// operatorsNamed are the operators that a word stands for.
func operatorsNamed(word string) ([]operator.Operator, error) {
	if word == attentionWord {
		return operator.Attention(), nil
	}
	if o := operator.Find(word); o != nil {
		return []operator.Operator{*o}, nil
	}
	names := []string{attentionWord}
	for _, o := range append(operator.All(), operator.OnDevices()...) {
		names = append(names, o.Name)
	}
	return nil, fmt.Errorf("show: unknown operator %.80q: have %s", word, strings.Join(names, ", "))
}

// stageList are the stages that words name, "all" among them.
func stageList(words, stages []string) ([]string, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("-stage: names no stage: have %s, %s", strings.Join(stages, ", "), allWord)
	}
	for _, word := range words {
		if word != allWord && !slices.Contains(stages, word) {
			return nil, fmt.Errorf("unknown stage %q: have %s, %s", word, strings.Join(stages, ", "), allWord)
		}
	}
	if slices.Contains(words, allWord) {
		return stages, nil
	}
	return words, nil
}

// printStages prints the named stages; with several names, each under its own. If a stage failed, those before it are printed, and the
// error is returned. It is also an error if the kernel has none of them.
func printStages(w io.Writer, all []build.Stage, names []string) error {
	last, printed := all[len(all)-1], false
	for i, name := range names {
		at := slices.IndexFunc(all, func(s build.Stage) bool { return s.Name == name && s.Err == nil })
		if at < 0 {
			continue
		}
		if len(names) > 1 {
			fmt.Fprintf(w, "%s== %s\n", strings.Repeat("\n", min(i, 1)), name)
		}
		fmt.Fprintln(w, strings.TrimRight(all[at].Text, "\n"))
		printed = true
	}
	if !printed && last.Err == nil {
		return fmt.Errorf("show: this kernel has no stage %s", strings.Join(names, ", "))
	}
	return last.Err
}
