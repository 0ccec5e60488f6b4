package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/garbage"
	"github.com/tmacc/tmacc/search/session"
)

type compileFlags struct {
	config             string
	from               order.Origins // of what config set
	names, gguf        []string      // of formats, of files
	kernels            kernelList
	on, tunedFor       []string // words of -target and of -core
	model, traceFile   string
	act                order.Act
	maxK               int
	dir, pkg, module   string
	json, quiet        bool
	noCheck, noMeasure bool
	tune               time.Duration // for each product on each target of this machine
	current, dryRun    bool
	noRecords          bool
}

func (c *cli) compile() *cobra.Command {
	var f compileFlags
	cmd := &cobra.Command{
		Use:   "compile [FILE.gguf ...]",
		Short: "write a Go package with kernels for a model, GGUF files or formats",
		Long: `Compile products for the matrices of a built-in model, of GGUF files, or for weight
formats, and write them as a Go package: kernels, pure Go, dispatch and tests. The
kernels work for any number of rows, columns and activations.

If nothing names what to compile, tmacc.yaml in this directory does. Its keys are named like
the flags ` + order.ConfigKeys() + `. Flags
on the command line replace its values. Its kernels are for all
targets unless it names some, so that every machine writes the same bytes; paths in it
are relative to it, and the package lies beside it. Speeds are not measured then, unless it says
no-measure: false.

  # kernels/tmacc.yaml; beside it a Go file with  //go:generate go tool tmacc compile
  format: [w4-g32, w2]
  target: [avx2, avx512vbmi, neon, dotprod, i8mm]
  kernel:
    - {name: Mine, format: my-format.json, act-group: 32}
    - {name: Own, format: w3, target: avx2, trace: own-avx2.json}
    - {name: Own, format: w3, target: avx512vbmi, trace: own-vbmi.json}

A kernel is for an instruction set, tuned for its most ordinary core; -core adds kernels for other
cores, which run on the CPUs that have them. -core file.json describes a core of your own, with the
fields that tmacc cores -json NAME prints. -target host is for this machine's core.

-target spirv adds shaders for devices of Vulkan, in files of their own. The package then also imports what calls
Vulkan. Its products run on the CPU, and by On("spirv") on a device, where the error says why there is none.

The trace of a kernel is for its target, which may be left out if there is only one. Entries
that differ only in target and trace are one product, with default schedules on other targets.

Every kernel that this machine runs is compared with the definition of the product, the
package is built, vetted and tested, and its speed is measured; the table at the end says
what each kernel does. That takes the go command: without it, only -no-check writes a package.

Unless its directory lies in a Go module (other than tmacc's), it becomes one. Schedules
that tmacc tune has locked in that module are used; other products have recorded schedules, which
tmacc has for some formats on some cores, or the default ones. -no-records leaves recorded schedules out.
Nothing is searched, except with -tune, which first does the work of tmacc tune.

Any part of a split model, such as NAME-00001-of-00003.gguf, stands for all its parts. Tensors of
a file that cannot be compiled are listed, and the exit code is 3. A trace that
does not compile is an error, and nothing is written.

-dry-run lists what would be compiled, and by which schedules. It compiles the traces you give, those of the
lock, and records. With default schedules a listed product may still turn out not to compile: sums could overflow for a large -max-k.`,
		Example: `  tmacc compile -model bitnet-b1.58-2b-4t -target host -o kernels
  tmacc compile model.gguf -target all -o internal/kernels
  tmacc compile model.gguf -dry-run           # which tensors, in which formats
  tmacc compile -format w4-g32 -format w2 -o kernels
  tmacc compile -format w4 -trace my.json -o kernels
  tmacc compile -kernel name=Q4,format=w4-g32,act-group=32 -o kernels
  tmacc compile -format w2 -tune 1m -o kernels
  tmacc compile -check                        # in CI: is what tmacc.yaml makes up to date?`,
		Args: cobra.ArbitraryArgs,
	}
	s := cmd.Flags()
	s.StringVar(&f.config, "config", "", "YAML `file` with what the other flags say (default tmacc.yaml, if nothing names what to compile)")
	s.StringSliceVar(&f.names, "format", nil, "weight format, or a JSON file with one; may be repeated")
	s.Var(&f.kernels, "kernel", "`key=value,...` of a kernel with a name of its own: "+order.KernelKeys()+"; may be repeated, also with one name, for traces of several targets")
	s.StringVar(&f.model, "model", "", "built-in model: "+strings.Join(order.Models(), ", "))
	s.StringSliceVar(&f.gguf, "gguf", nil, "GGUF `file`, like the arguments; may be repeated")
	s.StringSliceVar(&f.on, "target", []string{hostWord}, "targets, or all; see tmacc targets; their order means nothing; may be repeated")
	coreVar(s, &f.tunedFor)
	s.StringVar(&f.traceFile, "trace", "", "JSON `file` with the schedule of the one format, instead of the default ones")
	actVar(s, &f.act)
	s.IntVar(&f.maxK, "max-k", 0, "largest K that kernels are proven exact for (default 131072)")
	s.Lookup("max-k").DefValue = "0" // said above
	s.StringVarP(&f.dir, "output", "o", "kernels", "`directory` of the package")
	s.StringVar(&f.pkg, "package", "", "name of the package (default: that of the Go files beside it, or of the directory, if it can be one, or kernels)")
	s.StringVar(&f.module, "module", "", "`path` of a module of the package's own, or none (default: the package's name if the directory is in no module)")
	s.BoolVar(&f.json, "json", false, "print JSON instead of the table")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on standard error")
	s.BoolVar(&f.noCheck, "no-check", false, "write the package only: no comparison, no go test, no measurement")
	s.BoolVar(&f.noMeasure, "no-measure", false, "do not measure speeds (default with tmacc.yaml)")
	noRecordsVar(s, &f.noRecords)
	s.DurationVar(&f.tune, "tune", 0, "before, search so long for faster schedules of each format and target of this machine, as tmacc tune does")
	s.BoolVar(&f.current, "check", false, "write nothing; fail if the files there are not those that would be written")
	s.BoolVar(&f.dryRun, "dry-run", false, "write nothing, and compile nothing but traces, locked schedules and records; print what would be")
	cmd.MarkFlagsMutuallyExclusive("check", "dry-run", "tune")
	completeCompile(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.Changed("tune") && f.tune <= 0 {
			return fmt.Errorf("-tune %v: want more than nothing", f.tune)
		}
		asked := len(args)+len(f.names)+len(f.kernels)+len(f.gguf) > 0 || f.model != ""
		var err error
		if f.from, err = c.configure(s, f.config, asked); err != nil {
			return err
		}
		unsaid := func(key string) bool { return !s.Changed(key) && !f.from.Set(key) }
		if f.from != nil && unsaid("target") {
			f.on = []string{allWord}
		}
		f.noMeasure = f.noMeasure || f.from != nil && unsaid("no-measure")
		f.gguf = append(args, f.gguf...)
		return c.runCompile(cmd.Context(), f)
	}
	return cmd
}

// compilation is one call of tmacc compile.
type compilation struct {
	*cli
	compileFlags
	*order.Order
	targets []targets.Target // in the order in which programs try them
	shaders []spirv.Target
	made    *delivery.Package
	usual   *defaults.Chooser
	bar     *progress
}

func (c *cli) runCompile(ctx context.Context, f compileFlags) error {
	x := &compilation{cli: c, compileFlags: f, bar: newProgress(c.err, f.quiet)}
	defer x.bar.done()
	x.usual = c.keptDefaults(f.noRecords, x.bar)
	defer x.usual.Close()
	if err := x.read(); err != nil {
		return err
	}
	defer x.made.Close()
	if err := x.made.TryTraces(ctx); err != nil {
		return err
	}
	unable := x.canCheck()
	if x.dryRun {
		if unable != nil {
			fmt.Fprintf(x.err, "tmacc: %s\n", oneLine(unable))
		}
		return x.plan(ctx)
	}
	if unable != nil {
		return unable
	}
	if err := x.tuneAll(ctx); err != nil {
		return err
	}
	err := x.compileAll(ctx)
	switch {
	case errors.Is(err, delivery.ErrNothing):
		x.printLeft()
		return x.leftStatus()
	case err != nil:
		return err
	case x.current:
		return x.compare()
	}
	return x.deliver(ctx)
}

// deliver checks, writes, tests and measures what was compiled, and reports it.
func (x *compilation) deliver(ctx context.Context) error {
	for _, warning := range x.made.Warnings() {
		x.note(warning)
	}
	if !x.noCheck {
		x.noteDenied()
	}
	if err := x.made.Verify(ctx); err != nil {
		if errors.As(err, new(*delivery.Fault)) {
			return failed("%w", err)
		}
		return err
	}
	if err := x.made.Write(); err != nil {
		return err
	}
	if err := x.made.Test(ctx); err != nil {
		return x.untested(err)
	}
	if err := x.measure(ctx); err != nil {
		return err
	}
	if err := x.report(); err != nil {
		return err
	}
	return x.leftStatus()
}

// untested is the error of a package that the go command refused. The output of the go command is printed.
func (x *compilation) untested(err error) error {
	var failure *delivery.TestError
	if !errors.As(err, &failure) {
		return err
	}
	x.bar.done()
	fmt.Fprintf(x.err, "%s\n", failure.Output)
	return failed("%s: %v: its output is above, the package is in %s%s", failure.Command, failure.Err, x.dir, gomod.Remedy(failure.Output))
}

// measure measures the kernels. If that fails, the package is none the worse for it, and only an interrupt is an error.
func (x *compilation) measure(ctx context.Context) error {
	if x.noMeasure || x.noCheck {
		return ctx.Err()
	}
	err := x.made.Measure(ctx)
	x.bar.done()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(x.err, "tmacc: not measured: %s\n", oneLine(err))
	}
	return ctx.Err()
}

// hear shows what the package reports.
func (x *compilation) hear(e delivery.Event) {
	if text, ok := e.(delivery.Note); ok {
		x.note(string(text))
		return
	}
	x.bar.step("%s", e)
}

// note tells a person about something that does not end the command.
func (x *compilation) note(text string) {
	x.bar.done()
	fmt.Fprintf(x.err, "tmacc: %s\n", text)
}

// canCheck is an error if the package is to be checked and the go command, which does it, is not there.
func (x *compilation) canCheck() error {
	if x.noCheck || x.current || gomod.Available() {
		return nil
	}
	return errors.New("compile: the go command is not in PATH, and nothing can be compared, built or tested without it: install Go, or give -no-check for a package that is not checked")
}

// leftStatus is the exit code of a compilation that left something out, or all of it.
func (x *compilation) leftStatus() error {
	if x.made.Empty() && len(x.Floats) > 0 && len(x.Left) == 0 {
		x.note("nothing to compile: all matrices are of floats, which package runtime/ops multiplies")
		return nil
	}
	if x.made.Empty() {
		return &status{exitUnsupported, fmt.Errorf("compile: %w", delivery.ErrNothing)}
	}
	rest := "the package has the rest"
	if x.dryRun {
		rest = "the package would have the rest"
	}
	if n := len(x.Left); n > 0 {
		return &status{exitUnsupported, fmt.Errorf("%d left out, listed above: %s", n, rest)}
	}
	return nil
}

// read finds out what to compile, for which targets, and where the package goes.
func (x *compilation) read() error {
	for _, step := range []func() error{x.begin, x.readModels, x.readFormats, x.readKernels, x.readTrace, x.readPlace} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// begin begins an order, and refuses flags that no product can be made by.
func (x *compilation) begin() (err error) {
	if x.model == "" && len(x.names)+len(x.gguf)+len(x.kernels) == 0 {
		return errors.New("compile: nothing to compile: give a GGUF file, a -model, a -format or a tmacc.yaml")
	}
	if x.targets, err = x.targetList(); err != nil {
		return err
	}
	var ofShaders []targets.Selector
	for _, t := range x.shaders {
		ofShaders = append(ofShaders, t)
	}
	x.Order, err = order.New(order.Options{Act: x.act, MaxK: x.maxK, Targets: x.targets, Shaders: ofShaders, Find: oneTarget, Inputs: x.inputs()})
	var bad *order.OptionError
	if errors.As(err, &bad) {
		return x.from.At(bad.Key, "", err)
	}
	return err
}

// readModels reads what the built-in model and the GGUF files have.
func (x *compilation) readModels() error {
	if x.model != "" {
		if err := x.AddModel(x.model); err != nil {
			return x.from.At("model", x.model, err)
		}
	}
	for _, path := range x.gguf {
		if err := x.AddFile(path); err != nil {
			return x.from.At("gguf", path, err)
		}
	}
	return nil
}

// readFormats adds the products of -format.
func (x *compilation) readFormats() error {
	for _, name := range x.names {
		if err := x.AddFormat(name); err != nil {
			return x.from.At("format", name, err)
		}
	}
	return nil
}

// readKernels adds the products of -kernel.
func (x *compilation) readKernels() error {
	for _, k := range x.kernels {
		if err := x.AddKernel(k); err != nil {
			return x.from.At("kernel", k.Text, err)
		}
	}
	return nil
}

// readPlace finds out about the directory of the package: its name there, the lock, and the module.
func (x *compilation) readPlace() (err error) {
	x.made, err = delivery.New(delivery.Options{Order: x.Order, Targets: x.targets, Shaders: x.shaders, Dir: x.dir, Name: x.pkg, Module: x.module,
		Unchecked: x.noCheck, ReadOnly: x.current, Probing: quick, Events: x.hear, Defaults: x.usual})
	var bad *delivery.OptionError
	if errors.As(err, &bad) {
		return x.from.At(bad.Key, "", err)
	}
	return err
}

// targetList is what -target and -core, or the file, name.
func (x *compilation) targetList() ([]targets.Target, error) {
	var ofCPUs []string
	for _, word := range x.on {
		if t, ok := spirv.ByName(word); ok {
			if !slices.ContainsFunc(x.shaders, func(o spirv.Target) bool { return o.Machine().Name == t.Machine().Name }) {
				x.shaders = append(x.shaders, t)
			}
			continue
		}
		ofCPUs = append(ofCPUs, word)
		if _, err := x.cli.targetList([]string{word}, nil); err != nil {
			return nil, x.from.At("target", word, err)
		}
	}
	if err := x.shadersFor(len(ofCPUs) == 0); err != nil {
		return nil, err
	}
	for _, word := range x.tunedFor {
		if _, err := x.cli.targetList(ofCPUs, []string{word}); err != nil {
			return nil, x.from.At("core", word, err)
		}
	}
	if len(ofCPUs)+len(x.tunedFor) == 0 && len(x.shaders) > 0 {
		return nil, nil
	}
	return x.cli.targetList(ofCPUs, x.tunedFor)
}

// shadersFor takes the speeds of a device out of the words of -core: shaders are for them, and without any for general ones. Without
// targets of CPUs, no word can stand for a core.
func (x *compilation) shadersFor(alone bool) (err error) {
	var devices, cores []string
	for _, word := range x.tunedFor {
		_, ok, err := x.speedsOf(word)
		switch {
		case ok && err == nil && len(x.shaders) == 0:
			err = fmt.Errorf("-core %s: %w", quotedIfOdd(word), errNotDevice)
		case ok:
			devices = append(devices, word)
		case alone && len(x.shaders) > 0:
			_, err = x.deviceCalled(word)
		default: // whose error targetList says
			cores, err = append(cores, word), nil
		}
		if err != nil {
			return x.from.At("core", word, err)
		}
	}
	x.tunedFor = cores
	chosen, err := x.chosenSpeeds(devices)
	x.shaders = withSpeeds(x.shaders, chosen, spirv.Target{}.Speeds())
	return err
}

// readTrace reads the schedule of -trace.
func (x *compilation) readTrace() error {
	if x.traceFile == "" {
		return nil
	}
	return x.SetTrace(x.traceFile)
}

// tuneAll searches for schedules that a lock can have and that this machine runs, and reads the lock again. Standard output
// belongs to compile, so what the searches print goes to standard error.
func (x *compilation) tuneAll(ctx context.Context) error {
	if x.compileFlags.tune == 0 {
		return nil
	}
	aside := *x.cli
	aside.out = x.err
	x.noteLinked(nil)
	for _, w := range x.Products {
		if _, why := x.made.Tunable(w); why != nil {
			x.note(fmt.Sprintf("%s is not tuned for %s", w.Label(), strings.Join(why, ", ")))
		}
	}
	for _, w := range x.Products {
		on, _ := x.made.Tunable(w)
		for _, t := range on {
			s := aside.tuning(usualTuning(x.dir, x.compileFlags.tune), session.Options{Problem: w.Problem, Target: t, Defaults: x.usual})
			s.bar = x.bar
			if err := errors.Join(s.tune(ctx), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return x.made.ReadLock()
}

// compileAll compiles every product for every target.
func (x *compilation) compileAll(ctx context.Context) error {
	defer garbage.Spare()()
	return x.made.Compile(ctx)
}

// compare is an error unless the directory has the files of the package, and they have the locked kernels.
func (x *compilation) compare() error {
	names, err := x.made.Differences()
	x.bar.done()
	if err != nil {
		return err
	}
	misfits := x.made.Misfits()
	for _, warning := range x.made.Warnings() {
		if !slices.Contains(misfits, warning) {
			x.note(warning)
		}
	}
	made := x.made.Report()
	r := jsonCheck{Package: made.Package, Dir: x.dir, Files: made.Files, Differences: append([]string{}, names...), Misfits: append([]string{}, misfits...), Left: x.Left}
	switch wrong := r.wrong(); {
	case x.json:
		if err := printJSON(x.out, r); err != nil {
			return err
		}
		if len(wrong) > 0 {
			return &status{code: exitFailed}
		}
	case len(wrong) > 0:
		return failed("%s", strings.Join(wrong, "\n"))
	default:
		fmt.Fprintf(x.out, "package %s in %s is up to date, %d files\n", r.Package, x.dir, len(r.Files))
	}
	return x.leftStatus()
}
