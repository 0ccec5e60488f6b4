package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
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
}

func (c *cli) compile() *cobra.Command {
	var f compileFlags
	cmd := &cobra.Command{
		Use:   "compile [FILE.gguf ...]",
		Short: "write a Go package with kernels for a model, GGUF files or formats",
		Long: `Compile products for the matrices of a built-in model, of GGUF files, or for weight
formats, and write them as a Go package: kernels, pure Go, dispatch and tests. The
kernels work for any number of rows, columns and activations.

If nothing names what to compile, tmacc.yaml in this directory does: its keys are those of
the flags below that are called ` + order.ConfigKeys() + `;
flags on the command line count before it. Its kernels are for all
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

The trace of a kernel is for its target, which may be left out if there is but one; entries
that differ in target and trace only are one product, with default schedules on other targets.

Every kernel that this machine runs is compared with the definition of the product, the
package is built, vetted and tested, and its speed is measured; the table at the end says
what each kernel does. That takes the go command: without it, only -no-check writes a package.

Unless its directory lies in a Go module (other than tmacc's), it becomes one. Schedules
that tmacc tune has locked in that module are used, for others the default ones; nothing is
searched, but for -tune: it does what tmacc tune does first.

Any part of a split model, such as NAME-00001-of-00003.gguf, stands for all its parts. Tensors of
a file that cannot be compiled are listed; then the exit code is 3. A trace that
does not compile is an error, and nothing is written. Of all this -dry-run does only what
takes no time: it compiles no schedule but given traces, so that what it lists may be left
out for all that, because sums could overflow for so large a -max-k.`,
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
	s.DurationVar(&f.tune, "tune", 0, "before, search so long for faster schedules of each format and target of this machine, as tmacc tune does")
	s.BoolVar(&f.current, "check", false, "write nothing; fail if the files there are not those that would be written")
	s.BoolVar(&f.dryRun, "dry-run", false, "write nothing, and compile nothing but given traces; print what would be")
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
	products []*wanted      // those of Order that are compiled
	targets  []lower.Target // as programs try them
	lock     *tune.Lock     // of the output's module
	bar      *progress
	codes    map[*variant.Variant]*live.Code // of targets that this machine runs
	unmapped error                           // why kernels that this machine runs have no code
	exact    map[string]exactness            // by name of the kernel
	tested   bool                            // the package passed its tests
	mod      *gomod.Module
}

// wanted is a product of an order and what became of it.
type wanted struct {
	*order.Product
	tried   map[string]*variant.Variant // kernels of its given traces, by the name of the target
	product gen.Product                 // once it is compiled
}

func (c *cli) runCompile(ctx context.Context, f compileFlags) error {
	x := &compilation{cli: c, compileFlags: f, codes: map[*variant.Variant]*live.Code{}, exact: map[string]exactness{}}
	x.bar = newProgress(c.err, f.quiet)
	defer x.bar.done()
	defer x.closeCodes()
	if err := x.read(); err != nil {
		return err
	}
	if err := x.tryTraces(ctx); err != nil {
		return err
	}
	unable := x.canCheck()
	if x.dryRun {
		if unable != nil {
			fmt.Fprintf(x.err, "tmacc: %s\n", oneLine(unable))
		}
		return x.plan()
	}
	if unable != nil {
		return unable
	}
	if err := x.tuneAll(ctx); err != nil {
		return err
	}
	if !x.current {
		if err := gen.Complete(x.dir); err != nil { // what a call that was killed had left to do
			return plain(err)
		}
	}
	if err := x.compileAll(ctx); err != nil {
		return err
	}
	if x.current {
		return x.compare()
	}
	for _, warning := range slices.Concat(x.astray(), x.misfits(), x.otherCores(), x.narrow()) {
		x.bar.done()
		fmt.Fprintf(x.err, "tmacc: %s\n", warning)
	}
	if err := x.verifyAll(ctx); err != nil {
		return err
	}
	files, err := x.write()
	if err != nil {
		return err
	}
	if err := x.test(ctx); err != nil {
		return err
	}
	speeds := map[string]speed{}
	switch {
	case x.noMeasure || x.noCheck:
	case len(x.codes) == 0 && x.unmapped != nil:
		if forbidden() == nil { // which noteDenied has said
			err = x.unmapped
		}
	default:
		speeds, err = x.measureAll(ctx)
	}
	x.bar.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // the package is none the worse for it
		fmt.Fprintf(c.err, "tmacc: not measured: %s\n", oneLine(err))
	}
	if err := x.report(files, speeds); err != nil {
		return err
	}
	return x.leftStatus()
}

// canCheck is an error if the package is to be checked and the go command, which does it, is not there.
func (x *compilation) canCheck() error {
	if x.noCheck || x.current || gomod.Available() {
		return nil
	}
	return errors.New("compile: the go command is not in PATH, and nothing can be compared, built or tested without it: install Go, or give -no-check for a package that is not checked")
}

// runsHere says that this machine runs a target of the package.
func (x *compilation) runsHere() bool {
	return slices.ContainsFunc(x.targets, func(t lower.Target) bool { return lacks(t) == "" })
}

// leftStatus is the exit code of a compilation that left something out, or all of it.
func (x *compilation) leftStatus() error {
	if len(x.products) == 0 {
		return &status{exitUnsupported, errors.New("compile: nothing of this can be compiled")}
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

func (x *compilation) closeCodes() {
	for _, code := range x.codes {
		code.Close()
	}
}

// read finds out what to compile, for what, and where the package goes.
func (x *compilation) read() error {
	for _, step := range []func() error{x.begin, x.readModels, x.readFormats, x.readKernels, x.readTrace, x.readPlace} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range x.Products {
		x.products = append(x.products, &wanted{Product: p, tried: map[string]*variant.Variant{}})
	}
	return x.checkNames()
}

// begin begins an order, and refuses flags that no product can be made by.
func (x *compilation) begin() (err error) {
	if x.model == "" && len(x.names)+len(x.gguf)+len(x.kernels) == 0 {
		return errors.New("compile: nothing to compile: give a GGUF file, a -model, a -format or a tmacc.yaml")
	}
	if x.targets, err = x.targetList(); err != nil {
		return err
	}
	x.Order, err = order.New(order.Options{Act: x.act, MaxK: x.maxK, Targets: x.targets, Find: oneTarget, Inputs: x.inputs()})
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
func (x *compilation) readPlace() error {
	if err := canBeFolder(x.dir); err != nil {
		return x.from.At("output", "", err)
	}
	asked := x.pkg
	var err error
	if x.pkg, err = packageFor(x.dir, asked); err != nil {
		return x.from.At("package", asked, err)
	}
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	if x.lock, err = tune.ReadLock(path); err != nil {
		return err
	}
	key := "output"
	if x.module != "" {
		key = "module"
	}
	x.mod, err = gomod.New(x.dir, x.module, x.pkg)
	if err == nil && x.mod == nil && !x.noCheck && !x.current && !gomod.Within(x.dir) {
		err = fmt.Errorf("-module %s: %s is in no module, where the go command builds nothing: leave -module out, or give -no-check", x.module, x.dir)
	}
	return x.from.At(key, "", err)
}

// targetList is what -target and -core, or the file, name.
func (x *compilation) targetList() ([]lower.Target, error) {
	for _, word := range x.on {
		if _, err := x.cli.targetList([]string{word}, nil); err != nil {
			return nil, x.from.At("target", word, err)
		}
	}
	for _, word := range x.tunedFor {
		if _, err := x.cli.targetList(x.on, []string{word}); err != nil {
			return nil, x.from.At("core", word, err)
		}
	}
	return x.cli.targetList(x.on, x.tunedFor)
}

// readTrace reads the schedule of -trace.
func (x *compilation) readTrace() error {
	if x.traceFile == "" {
		return nil
	}
	return x.SetTrace(x.traceFile)
}

// checkNames is an error if Go cannot build the package for the names in it, or a file by somebody else has the name of
// one of its files.
func (x *compilation) checkNames() error {
	if len(x.products) == 0 {
		return nil // leftStatus says why
	}
	s := x.spec()
	if err := x.Check(s); err != nil || x.current { // -check compares the files
		return err
	}
	return plain(gen.Vacant(x.dir, gen.FileNames(x.pkg, x.targets, len(s.Tensors) > 0)...))
}

// tryTraces compiles each trace that was given: one that does not is the caller's fault, not a combination to leave
// out, and is found before anything is written.
func (x *compilation) tryTraces(ctx context.Context) error {
	for _, w := range x.products {
		for _, t := range x.targets {
			g, ok := w.Traces[t.Machine().Name]
			if !ok {
				continue
			}
			v, err := buildTarget(ctx, w.Problem, t, g.Trace)
			if err != nil {
				return fmt.Errorf("trace %s of %s: %w", g.Path, w.Name(), w.Blamed(err))
			}
			w.tried[t.Machine().Name] = &v
		}
	}
	return nil
}

// tuneAll searches for schedules of what a lock can have and this machine runs, and reads the lock again. What
// it says goes to where progress goes: the output is that of compile.
func (x *compilation) tuneAll(ctx context.Context) error {
	if x.compileFlags.tune == 0 {
		return nil
	}
	aside := *x.cli
	aside.out = x.err
	x.noteLinked(nil)
	for _, note := range x.notTuned() {
		x.bar.done()
		fmt.Fprintf(x.err, "tmacc: %s\n", note)
	}
	for _, w := range x.products {
		for _, t := range x.targets {
			if x.untunable(w, t) != "" {
				continue
			}
			s := aside.tuning(usualTuning(x.dir, x.compileFlags.tune), session.Options{Problem: w.Problem, Target: t})
			s.bar = x.bar
			if err := errors.Join(s.tune(ctx), ctx.Err()); err != nil {
				return err
			}
		}
	}
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	x.lock, err = tune.ReadLock(path)
	return err
}

// notTuned says of products for which targets nothing is searched, and why.
func (x *compilation) notTuned() (out []string) {
	for _, w := range x.products {
		var on []string
		for _, t := range x.targets {
			if why := x.untunable(w, t); why != "" {
				on = append(on, fmt.Sprintf("%s (%s)", t.Machine().Name, why))
			}
		}
		if on != nil {
			out = append(out, fmt.Sprintf("%s is not tuned for %s", w.Label(), strings.Join(on, ", ")))
		}
	}
	return out
}

// untunable says why no schedule of w is searched for t, "" if one is.
func (x *compilation) untunable(w *wanted, t lower.Target) string {
	e := x.lock.Find(w.Problem, t)
	switch missing := targeting.LacksCore(t, timing.ThisHost()); {
	case w.Trace(t) != nil:
		return "a trace is given"
	case missing != "":
		return "this machine lacks " + missing
	case e != nil && e.For(w.Problem) && unproven(e, w.Problem) != nil:
		return "what is locked is for smaller K, and would be lost"
	}
	return ""
}

// sparingGC is the GOGC to compile with: kernels that are tried are garbage soon. (Four formats for one target take 0.7 to 0.8 of the time that they take by 100, and 81 MB
// instead of 36. tune, once for 30 s, measured 503 candidates a minute by it and 559 without, and took 651 MB instead of 286.)
const sparingGC = 400

// compileAll compiles every product for every target, on all cores. What no
// target can compile is left out; with one target only, that is an error.
func (x *compilation) compileAll(ctx context.Context) error {
	type job struct {
		w     *wanted
		on    lower.Target
		built variant.Variant
		err   error
	}
	var jobs []*job
	for _, w := range x.products {
		w.product = w.Uncompiled()
		for _, t := range x.targets {
			jobs = append(jobs, &job{w: w, on: t})
		}
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(sparingGC))
	}
	err := onAllCores(ctx, len(jobs), func(i int) {
		j := jobs[i]
		x.bar.step("compiling %s for %s (%d of %d)", j.w.Problem.Name(), j.on.Machine().Name, i+1, len(jobs))
		j.built, j.err = x.buildTarget(ctx, j.w, j.on)
		j.err = j.w.Blamed(j.err)
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.err == nil {
			j.w.product.Variants = append(j.w.product.Variants, j.built)
			continue
		}
		var bad *tune.LockError
		if len(jobs) == 1 || errors.As(j.err, &bad) {
			return j.err
		}
		x.Left = append(x.Left, order.Left{Name: j.w.Label(), Type: j.on.Machine().Name, Reason: oneLine(j.err)})
	}
	x.products = slices.DeleteFunc(x.products, func(w *wanted) bool { return len(w.product.Variants) == 0 })
	if len(x.products) == 0 {
		x.printLeft()
		return x.leftStatus()
	}
	return nil
}

// buildTarget compiles w for t: by the trace that was given, else by the lock, else by
// the default schedules. It never searches.
func (x *compilation) buildTarget(ctx context.Context, w *wanted, t lower.Target) (variant.Variant, error) {
	if v := w.tried[t.Machine().Name]; v != nil {
		return *v, nil
	}
	e := x.locked(w, t)
	if e == nil {
		return buildTarget(ctx, w.Problem, t, nil)
	}
	v, err := build.Variant(ctx, w.Problem, t, e.Uses())
	if err != nil {
		return v, &tune.LockError{Path: tune.LockName, Problem: oneLine(err)}
	}
	return v, nil
}

// verifyAll compares all kernels that this machine runs with the definition.
func (x *compilation) verifyAll(ctx context.Context) error {
	if !x.noCheck {
		x.noteDenied()
	}
	for _, w := range x.products {
		for i := range w.product.Variants {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t := &w.product.Variants[i]
			state := notRun
			switch {
			case x.noCheck:
			case lacks(t.Target) != "":
				state = notHere
			default:
				x.bar.step("checking %s on %s against the definition", w.Problem.Weight, t.Target.Machine().Name)
				var err error
				if state, err = x.verify(w, t); err != nil {
					return err
				}
			}
			for _, k := range t.Kernels {
				x.exact[w.product.KernelName(t, k.Name())] = state.of(k.Schedule)
			}
		}
	}
	return nil
}

// exactness is the column "exact" of the table.
type exactness string

// of is what that says of a kernel: of one that is bounded by how much.
func (e exactness) of(k *schedule.Kernel) exactness {
	switch {
	case k.Exact():
		return e
	case e == checked:
		return exactness(fmt.Sprintf("no: within %d for each %d of K", k.Deviation.Most, k.Deviation.Span))
	}
	return "no, " + e
}

const (
	checked exactness = "yes"          // proven, and compared with the definition
	bounded exactness = "no: bounded"  // compared with the definition, which rounds: format.Act.FloatError
	notHere exactness = "not run here" // proven
	notRun  exactness = "not checked"  // proven
)

// verify compares the kernels of a target with the definition and, where they can be
// mapped, keeps them to be measured.
func (x *compilation) verify(w *wanted, t *variant.Variant) (exactness, error) {
	code, err := live.Assemble(w.Problem, *t)
	switch {
	case err == nil:
		x.codes[t] = code
		return w.checked(), nil
	case errors.Is(err, jit.ErrPlatform):
		x.unmapped = err
		return w.checked(), nil
	case errors.Is(err, worker.ErrNoSource):
		x.unmapped = err
		return notHere, nil // unless go test runs them
	case worker.IsFault(err):
		return "", failed("%v on %s: %v; nothing was written; please report it with this trace", w.Problem.Weight, t.Target.Machine().Name, err)
	}
	return "", err
}

// checked is what a comparison with the definition shows.
func (w *wanted) checked() exactness {
	if w.Problem.Act.Floats() {
		return bounded
	}
	return checked
}

// files makes the files of the package.
func (x *compilation) files() ([]lower.File, error) {
	s := x.spec()
	for _, w := range x.products {
		s.Products = append(s.Products, w.product)
	}
	return gen.Package(s)
}

// spec is the package without its products.
func (x *compilation) spec() gen.Spec {
	var products []*order.Product
	for _, w := range x.products {
		products = append(products, w.Product)
	}
	return gen.Spec{Package: x.pkg, Version: gomod.Version(), Module: x.mod, Tensors: x.Tensors(products)}
}

// write writes the package and returns its files.
func (x *compilation) write() ([]lower.File, error) {
	files, err := x.files()
	if err != nil {
		return nil, err
	}
	return files, plain(gen.Write(x.dir, files))
}

// compare is an error unless the files in the directory are those of the package, and
// the kernels those that were locked.
func (x *compilation) compare() error {
	files, err := x.files()
	if err != nil {
		return err
	}
	names, err := gen.Differences(x.dir, files)
	x.bar.done()
	if err != nil {
		return plain(err)
	}
	r := jsonCheck{Package: x.pkg, Dir: x.dir, Files: fileNames(files), Differences: append([]string{}, names...), Misfits: append([]string{}, x.misfits()...), Left: x.Left}
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
		fmt.Fprintf(x.out, "package %s in %s is up to date, %d files\n", x.pkg, x.dir, len(files))
	}
	return x.leftStatus()
}

// test builds, vets and tests the package with the go command.
func (x *compilation) test(ctx context.Context) error {
	if !gomod.Available() { // and canCheck has let it pass
		if x.mod != nil {
			x.bar.done()
			fmt.Fprintf(x.err, "tmacc: the go command is not in PATH: %s is not complete: run go mod tidy there\n", filepath.Join(x.dir, "go.mod"))
		}
		return nil
	}
	for _, step := range x.steps(ctx) {
		err := step()
		var failure *gomod.CommandError
		if errors.As(err, &failure) && ctx.Err() == nil {
			x.bar.done()
			fmt.Fprintf(x.err, "%s\n", failure.Output)
			return failed("%s: %v: its output is above, the package is in %s%s", failure.Command, failure.Err, x.dir, gomod.Remedy(failure.Output))
		}
		if err != nil {
			return err
		}
	}
	if x.noCheck {
		return nil
	}
	x.tested = true
	assembly, err := gomod.Toolchain{Dir: x.dir, Env: x.goEnv()}.Output(ctx, "list", "-f", "{{.SFiles}}", ".")
	switch {
	case err != nil:
		return err
	case strings.Contains(string(assembly), x.pkg+"_"):
		x.testsPassed()
	case x.runsHere():
		x.bar.done()
		fmt.Fprintln(x.err, "tmacc: go test ran the package in pure Go: build tags, of GOFLAGS perhaps, leave out the assembly")
	}
	return nil
}

// goEnv is what the environment of the go command has besides, in the directory of the package.
func (x *compilation) goEnv() []string {
	if x.mod == nil {
		return nil
	}
	return []string{"GOWORK=off"}
}

// steps are what test runs: with -no-check, only what completes a new module.
func (x *compilation) steps(ctx context.Context) []func() error {
	t := gomod.Toolchain{Dir: x.dir, Env: x.goEnv()}
	var steps []func() error
	if x.mod != nil {
		steps = append(steps, func() error { return t.Complete(ctx, x.mod) })
	}
	if x.noCheck {
		return steps
	}
	for _, args := range [][]string{{"build", "."}, {"vet", "."}, {"test", "."}} {
		steps = append(steps, func() error {
			x.bar.step("go %s of the package in %s", args[0], x.dir)
			return t.Run(ctx, "", args...)
		})
	}
	for _, a := range x.otherArches() {
		steps = append(steps, func() error { return t.Run(ctx, "GOARCH="+a, "vet", ".") })
	}
	return steps
}

// testsPassed notes that the tests of the package ran all kernels that run here.
func (x *compilation) testsPassed() {
	for _, w := range x.products {
		for _, t := range w.product.Variants {
			for _, k := range t.Kernels {
				if lacks(t.Target) == "" {
					x.exact[w.product.KernelName(&t, k.Name())] = w.checked().of(k.Schedule)
				}
			}
		}
	}
}

// otherArches are the architectures of targets other than this machine's.
func (x *compilation) otherArches() []string {
	var out []string
	for _, t := range x.targets {
		if a := t.Machine().Arch(); a != runtime.GOARCH && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
