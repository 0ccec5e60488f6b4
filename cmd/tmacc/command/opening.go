package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/cmd/tmacc/tale"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/runtime/model/weights"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/search/kernels"
)

// opening says which model a command runs, and how.
type opening struct {
	path    string // of the model, "": the one in this program
	threads int
	cache   string
	head    string
	context int
	lock    string
	repack  bool
	quiet   bool
	placing
	check func(*gguf.File) error // before kernels are made; nil: none
}

// cacheTypes are the words of -cache.
var cacheTypes = map[string]model.CacheType{"f16": model.CacheF16, "f32": model.CacheF32, "q8": model.CacheQ8}

// headTypes are the words of -head.
var headTypes = map[string]string{"": "", "q8_0": "Q8_0", "q6_k": "Q6_K"}

// mostThreads bounds -threads.
const mostThreads = 1 << 10

func (x *opening) add(f *pflag.FlagSet) {
	f.IntVar(&x.threads, "threads", 0, "threads, 0: all")
	f.StringVar(&x.cache, "cache", "f16", "type of the cached keys and values: f16, f32, which takes twice the memory, or q8, which takes half")
	f.StringVar(&x.head, "head", "", "`type` of the output head, q8_0 or q6_k: a larger head is quantized to it, and so is the embedding if it is the head, too, or of floats; without -head: as in the file")
	f.IntVar(&x.context, "context", 0, "most tokens of a text with its continuation, 0: those that the model was made for, up to 4096")
	f.StringVar(&x.lock, "lock", "", "`file` that tmacc tune has written: its schedules are used instead of the default ones")
	f.BoolVar(&x.repack, "repack", false, "pack the weights of a large file at each start, and keep no packed copy of them")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress and no figures on standard error")
	x.placing.add(f)
}

func (x *opening) validate() error {
	_, known := cacheTypes[x.cache]
	_, head := headTypes[x.head]
	switch {
	case x.threads < 0 || x.threads > mostThreads:
		return fmt.Errorf("-threads %d: want 1 to %d, or 0: all", x.threads, mostThreads)
	case !known:
		return fmt.Errorf("-cache %s: want %s", x.cache, strings.Join(slices.Sorted(maps.Keys(cacheTypes)), ", "))
	case !head:
		return fmt.Errorf("-head %s: want q8_0 or q6_k; without it the head is as in the file", x.head)
	case x.context < 0 || x.context > math.MaxInt32:
		return fmt.Errorf("-context %d: want 1 or more, or 0: as the model was made for, up to 4096", x.context)
	}
	return x.placing.validate()
}

// name is what the model is called.
func (x *opening) name() string { return cmp.Or(x.path, tale.Name) }

// threadCount is how many threads share the work.
func (x *opening) threadCount() int { return cmp.Or(x.threads, runtime.GOMAXPROCS(0)) }

// open opens the file of the model.
func (x *opening) open() (*gguf.File, error) {
	if x.path == "" {
		return tale.Open()
	}
	return gguf.Open(x.path)
}

// blamed is an error about the model's file, which it names. A fault of an option names its flag.
func (x *opening) blamed(err error) error {
	bad := (*model.Error)(nil)
	switch {
	case errors.As(err, new(*fs.PathError)):
		return plain(err)
	case errors.As(err, &bad) && bad.Thing == "option Context":
		return asFlag(err)
	case errors.As(err, &bad) && bad.Thing == "memory":
		err = errors.New(strings.NewReplacer("option Context", "-context", " or raise MemoryLimit", "").Replace(err.Error()))
	}
	if x.path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", x.path, err)
}

// asFlag names the flag of an option in err.
func asFlag(err error) error {
	if bad := (*model.Error)(nil); errors.As(err, &bad) {
		if flag := map[string]string{"option Context": "-context", "option Cache": "-cache"}[bad.Thing]; flag != "" {
			return fmt.Errorf("%s %s", flag, bad.Problem)
		}
	}
	return err
}

// opened is a model that a command runs.
type opened struct {
	*cli
	how      opening
	file     *gguf.File
	needed   []ir.Problem    // products
	device   *kernels.Device // nil: this CPU
	provider *kernels.Provider
	// program, unless "", has the kernels that this one lacks: it has to run with the same arguments instead.
	program   string
	tokenizer *token.Tokenizer
	model     *model.Model // since load
	bar       *progress
}

// with calls run with a model. Before, it calls input, which reads what else the run needs: weights take longer. Where another program has
// the kernels, that runs instead, and reads the input itself.
func (c *cli) with(ctx context.Context, x opening, input func() error, run func(o *opened) error) error {
	if elsewhere, err := c.elsewhere(ctx, x.placing, x.quiet); elsewhere || err != nil {
		return err
	}
	o, err := c.begin(ctx, x)
	if err != nil {
		return err
	}
	defer o.close()
	if o.program != "" {
		return c.instead(ctx, o.program, true)
	}
	if err := input(); err != nil {
		return err
	}
	if err := o.load(); err != nil {
		return err
	}
	return run(o)
}

// begin opens the file of a model and makes the kernels that it needs. The caller closes the result.
func (c *cli) begin(ctx context.Context, x opening) (*opened, error) {
	f, err := x.open()
	if err != nil {
		return nil, x.blamed(err)
	}
	o := &opened{cli: c, how: x, file: f, bar: newProgress(c.err, x.quiet)}
	if x.check != nil {
		err = x.check(f)
	}
	if err == nil {
		err = o.read()
	}
	if err == nil {
		o.device, err = c.place(x.placing)
	}
	if err == nil {
		err = o.compile(ctx)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// read reads the tokenizer, and refuses a file that cannot be run before kernels are made for it.
func (o *opened) read() (err error) {
	if o.tokenizer, err = token.New(o.file); err == nil {
		o.needed, err = kernels.Needed(o.file, model.Options{Context: o.how.context, Head: headTypes[o.how.head]})
	}
	if err != nil {
		return o.how.blamed(err)
	}
	return nil
}

// compile makes the kernels.
func (o *opened) compile(ctx context.Context) error {
	lock, err := o.readLock(o.how.lock)
	if err != nil {
		return err
	}
	o.provider, err = kernels.New(ctx, kernels.Options{Lock: lock, Device: o.device, Say: o.heard(o.bar)})
	if err != nil {
		return err
	}
	o.provider.Expect(o.needed)
	o.program = o.provider.Program(mainPackage())
	if ctx.Err() != nil { // no program, but not for want of anything
		return failed("%w", errInterrupted)
	}
	return nil
}

func (o *opened) close() {
	o.bar.done()
	o.model.Close()
	if o.provider != nil {
		o.provider.Close()
	}
	o.file.Close()
}

// load reads the weights.
func (o *opened) load() error {
	opt := model.Options{Threads: o.how.threads, Context: o.how.context, Cache: cacheTypes[o.how.cache], Head: headTypes[o.how.head]}
	opt.Progress = func(done, total int64) {
		o.bar.part(done >= total, "reading %s: %d %% of %d MB", o.how.name(), 100*done/max(total, 1), total/1e6)
	}
	store, err := o.store(o.how, o.file)
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
		opt.Packed = store
	}
	if o.model, err = model.New(o.file, o.provider, opt); err != nil {
		return o.how.blamed(err)
	}
	o.bar.done()
	o.noteStored(o.how, store)
	if steps := o.steps(); strings.HasPrefix(steps, "-context") && !o.how.quiet {
		fmt.Fprintf(o.err, "tmacc: the steps of a session do not stay on the device: %s\n", steps)
	}
	return nil
}

// largeFile is from how many bytes on packing takes so long that the next start maps packed weights instead.
const largeFile = 64 << 20

// store is where packed weights of a file are kept, nil if they are packed at each start.
func (c *cli) store(x opening, f *gguf.File) (*weights.Store, error) {
	size := int64(0)
	for i := range f.Tensors {
		size += f.Tensors[i].Size
	}
	if x.repack || len(f.Paths) == 0 || size < largeFile {
		return nil, nil
	}
	folder, err := weights.Path()
	if err != nil {
		return nil, nil // an event has said so
	}
	store, err := weights.Open(folder)
	if errors.As(err, new(*cache.Unsafe)) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(c.err, "tmacc: packed weights are not kept: %s\n", oneLine(err))
	}
	return store, nil
}

// noteStored says where packed weights were saved, or why they were not.
func (c *cli) noteStored(x opening, s *weights.Store) {
	switch {
	case s == nil:
	case s.Err() != nil && s.Saved() == 0:
		fmt.Fprintf(c.err, "tmacc: packed weights are not kept: %s\n", oneLine(s.Err()))
	case s.Err() != nil:
		fmt.Fprintf(c.err, "tmacc: weights are packed again: %s\n", oneLine(s.Err()))
	case s.Saved() > 0 && !x.quiet:
		fmt.Fprintf(c.err, "tmacc: %.1f GB of packed weights are kept in %s; the next start maps them\n", float64(s.Saved())/1e9, s.Folder())
	}
}

// heard shows the events of kernels: steps as progress, everything else as lines.
func (c *cli) heard(bar *progress) func(kernels.Event) {
	return func(e kernels.Event) {
		switch e.(type) {
		case kernels.Compiling, kernels.Verifying, kernels.Linking:
			bar.step("%s", e)
		case kernels.Done:
			bar.done()
		default:
			bar.done()
			fmt.Fprintf(c.err, "tmacc: %s\n", e)
		}
	}
}

// instead runs another program with the same arguments, and ends as it does. Where the system can, it takes the place of this
// process: a terminal sends Ctrl-C to all processes of a command, and a parent would send it once more. A program that does not stay
// is removed by this process.
func (c *cli) instead(ctx context.Context, program string, stays bool) error {
	if out, ok := c.out.(*output); stays && ok && out.to == os.Stdout && c.in == os.Stdin && c.err == os.Stderr {
		if err := replace(program, c.args); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("the program that has what this one lacks, %s, does not run: %w", program, err)
		}
	}
	cmd := exec.CommandContext(ctx, program, c.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return &status{code: max(exit.ExitCode(), exitFailed)}
	}
	return err
}

// ran says which kernels ran, and the type of the head: "tq2_0, q6_k on amd64/avx2 (kept); head q6_k; float operators run ...".
func (o *opened) ran() string {
	on, differs := map[string][]string{}, ""
	for _, x := range o.provider.Made() {
		differs = cmp.Or(differs, x.Product.Differs())
		how := fmt.Sprintf("%s (%s)", cmp.Or(x.Product.Device(), x.Product.Target()), x.Origin)
		if x.Origin == kernels.None {
			how = x.Product.Target()
		}
		on[how] = append(on[how], x.Problem.Name())
	}
	var parts []string
	for _, how := range slices.Sorted(maps.Keys(on)) {
		parts = append(parts, strings.Join(on[how], ", ")+" on "+how)
	}
	operators := "float operators on " + ops.Target()
	switch steps := o.steps(); steps {
	case "":
	case "device":
		stay := "steps stay on the device"
		if n := o.model.ResidentSessions(); n > 0 {
			stay += fmt.Sprintf(", except of batches of more than %s, which it has no room for: %s", message.Count(n, "session"), operators)
		}
		operators = stay
	default:
		operators += ", as " + steps
	}
	parts = append(parts, "head "+o.headType(), operators)
	if differs != "" {
		parts = append(parts, "the device may have other bits than the CPU for some floats: "+differs)
	}
	return o.model.Config().Architecture + ": " + strings.Join(parts, "; ")
}

// headType is the type of the output head's weights, as a word of -head.
func (o *opened) headType() string { return strings.ToLower(o.model.HeadType()) }
