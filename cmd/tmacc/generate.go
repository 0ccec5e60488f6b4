package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/cmd/tmacc/tale"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/runtime/model/weights"
	"github.com/tmacc/tmacc/search/kernels"
)

type generateFlags struct {
	path        string // of the model, "": the one in this program
	prompt      string
	tokens      int
	temperature float64
	seed        int64
	threads     int
	cache       string
	context     int
	lock        string
	repack      bool
	json, quiet bool
}

// The words of -cache.
const (
	cacheHalf = "f16"
	cacheFull = "f32"
)

// generate is the command run.
func (c *cli) generate() *cobra.Command {
	var x generateFlags
	cmd := &cobra.Command{
		Use: "run [MODEL.gguf]", Args: between(0, 1),
		Short: "continue a text by a language model",
		Long: `Continue a text by the language model of a GGUF file. Without a file, a small model in this program writes:
it was trained on novels of the 19th century, for a first try.

The first run compiles the kernels that a file needs, compares them with the definition, and keeps them
in tmacc/kernels of the user's cache directory (or of TMACC_CACHE). Later runs map them, and need no Go.
Where a system forbids that, a program with the kernels is built once. Without Go, pure Go multiplies,
with the same results.

The likeliest token comes next (-temp 0), or one at random. The same model, text and seed give the same
tokens on every machine, with any number of threads. At the end, standard error has tokens per second
of the given text (prefill) and of the new one (decode), and the kernels that ran.`,
		Example: `  tmacc run -p "It was a cold morning, and" -n 64
  tmacc run model.gguf -p "The capital of France is"
  tmacc run model.gguf -p - -temp 0.8 -seed 42 < letter.txt
  tmacc run model.gguf -p "Hello" -n 0 -context 8192 -cache f32 -json`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.prompt, "p", "p", "", "`text` to continue, - for standard input")
	f.IntVarP(&x.tokens, "n", "n", 128, "tokens to add at most, 0: until the context is full")
	f.Float64Var(&x.temperature, "temp", 0, fmt.Sprintf("temperature of the choice of tokens, %v to %v; 0: the likeliest", sample.LeastTemperature, sample.MostTemperature))
	f.Int64Var(&x.seed, "seed", 1, "seed of the random numbers")
	f.IntVar(&x.threads, "threads", 0, "threads, 0: all")
	f.StringVar(&x.cache, "cache", cacheHalf, "floats of the attention's cache: f16, or f32, which takes twice the memory")
	f.IntVar(&x.context, "context", 0, "most tokens of text and continuation, 0: those that the model was made for, up to 4096")
	f.StringVar(&x.lock, "lock", "", "`file` that tmacc tune has written: its schedules are used instead of the default ones")
	f.BoolVar(&x.repack, "repack", false, "pack the weights of a large file at each start, and keep no packed copy of them")
	f.BoolVar(&x.json, "json", false, "print one JSON object at the end, with the text")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress and no figures on standard error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			x.path = args[0]
		}
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.runModel(cmd.Context(), x)
	}
	return cmd
}

func (x *generateFlags) validate(f *pflag.FlagSet) error {
	_, err := sample.New(sample.Options{Temperature: x.temperature})
	switch {
	case x.path != "" && !f.Changed("p"):
		return errors.New("run: no text to continue: give one with -p, or -p - for standard input")
	case x.tokens < 0:
		return fmt.Errorf("-n %d: want 1 or more, or 0: until the context is full", x.tokens)
	case err != nil:
		return fmt.Errorf("-temp: %w", err)
	case x.seed < 0:
		return fmt.Errorf("-seed %d: want 0 or more", x.seed)
	case x.threads < 0 || x.threads > mostThreads:
		return fmt.Errorf("-threads %d: want 1 to %d, or 0: all", x.threads, mostThreads)
	case x.cache != cacheHalf && x.cache != cacheFull:
		return fmt.Errorf("-cache %s: want %s or %s", x.cache, cacheHalf, cacheFull)
	case x.context < 0 || x.context > math.MaxInt32:
		return fmt.Errorf("-context %d: want 1 or more, or 0: as the model was made for, up to 4096", x.context)
	}
	return nil
}

const mostThreads = 1 << 10

// talePrompt is what the model in this program continues unless told otherwise.
const talePrompt = "It was a cold morning, and"

// text is the text to continue.
func (c *cli) text(x generateFlags) (string, error) {
	switch {
	case x.prompt == "-":
		data, err := c.inputs().Text(x.prompt)
		return strings.TrimSuffix(string(data), "\n"), err
	case x.prompt == "" && x.path == "":
		return talePrompt, nil
	}
	return x.prompt, nil
}

// open opens the file of the model.
func (x *generateFlags) open() (*gguf.File, error) {
	if x.path == "" {
		return tale.Open()
	}
	return gguf.Open(x.path)
}

// blamed is an error about the model's file, which it names.
func (x *generateFlags) blamed(err error) error {
	if x.path == "" || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return fmt.Errorf("%s: %w", x.path, err)
}

// name is what the model is called.
func (x *generateFlags) name() string { return cmp.Or(x.path, tale.Name) }

// runModel continues the text.
func (c *cli) runModel(ctx context.Context, x generateFlags) error {
	f, err := x.open()
	if err != nil {
		return x.blamed(err)
	}
	defer f.Close()
	bar := newProgress(c.err, x.quiet)
	defer bar.done()
	p, err := c.provider(ctx, x, f, bar)
	if err != nil {
		return err
	}
	defer p.Close()
	if program := p.Program("./cmd/tmacc"); program != "" {
		return c.instead(ctx, program)
	}
	text, err := c.text(x)
	if err != nil {
		return err
	}
	m, t, err := c.load(x, f, p, bar)
	if err != nil {
		return err
	}
	defer m.Close()
	bar.done()
	w := &writing{cli: c, flags: x, prompt: text, provider: p}
	return w.write(ctx, m, t)
}

// provider makes the kernels that a file needs.
func (c *cli) provider(ctx context.Context, x generateFlags, f *gguf.File, bar *progress) (*kernels.Provider, error) {
	lock, err := c.readLock(x.lock)
	if err != nil {
		return nil, err
	}
	p, err := kernels.New(ctx, kernels.Options{Lock: lock, Say: c.heard(bar)})
	if err == nil {
		p.Expect(kernels.Needed(f))
	}
	return p, err
}

// instead runs another program with the same arguments, and ends as it does.
func (c *cli) instead(ctx context.Context, program string) error {
	cmd := exec.CommandContext(ctx, program, c.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return &status{code: max(exit.ExitCode(), exitFailed)}
	}
	return err
}

// load reads the model of a file, and its tokenizer.
func (c *cli) load(x generateFlags, f *gguf.File, p *kernels.Provider, bar *progress) (*model.Model, *token.Tokenizer, error) {
	t, err := token.New(f)
	if err != nil {
		return nil, nil, x.blamed(err)
	}
	opt := model.Options{Threads: x.threads, Context: x.context}
	if x.cache == cacheFull {
		opt.Cache = model.CacheF32
	}
	opt.Progress = func(done, total int64) { bar.step("reading %s: %d %%", x.name(), 100*done/max(total, 1)) }
	store, err := c.store(x, f)
	if err != nil {
		return nil, nil, err
	}
	if store != nil {
		opt.Packed = store
	}
	m, err := model.New(f, p, opt)
	if err != nil {
		return nil, nil, x.blamed(err)
	}
	bar.done()
	c.noteStored(x, store)
	return m, t, nil
}

// largeFile is from how many bytes on packing takes so long that the next start maps packed weights instead.
const largeFile = 64 << 20

// store is where packed weights of a file are kept, nil if they are packed at each start.
func (c *cli) store(x generateFlags, f *gguf.File) (*weights.Store, error) {
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
	store, err := weights.Open(folder, f)
	if errors.As(err, new(*cache.Unsafe)) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(c.err, "tmacc: packed weights are not kept: %s\n", oneLine(err))
	}
	return store, nil
}

// noteStored says where packed weights were saved, or why they were not.
func (c *cli) noteStored(x generateFlags, s *weights.Store) {
	switch {
	case s == nil:
	case s.Err() != nil:
		fmt.Fprintf(c.err, "tmacc: packed weights are not kept: %s\n", oneLine(s.Err()))
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

// writing is a text that is being continued.
type writing struct {
	*cli
	flags    generateFlags
	prompt   string
	provider *kernels.Provider
	added    strings.Builder // with -json
}

// write continues the text, and says at the end how fast, and by what.
func (w *writing) write(ctx context.Context, m *model.Model, t *token.Tokenizer) error {
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	sampler, err := sample.New(sample.Options{Temperature: w.flags.temperature, Seed: uint64(w.flags.seed)})
	if err != nil {
		return err
	}
	if err := w.say([]byte(w.prompt)); err != nil {
		return err
	}
	r, err := generation.Continue(ctx, m, s, t, w.prompt, generation.Options{Tokens: w.flags.tokens, Sampler: sampler, Text: w.add})
	if err == nil {
		err = w.end(m, r)
	}
	if err == nil && r.End == generation.Interrupted {
		return failed("%w", errInterrupted)
	}
	return err
}

// say prints text as it comes, unless all is printed at the end.
func (w *writing) say(text []byte) error {
	if w.flags.json {
		return nil
	}
	_, err := w.out.Write(text)
	return err
}

// add takes text that was added.
func (w *writing) add(text []byte) error {
	if w.flags.json {
		w.added.Write(text)
	}
	return w.say(text)
}

// end prints what was done.
func (w *writing) end(m *model.Model, r *generation.Report) error {
	if w.flags.json {
		return printJSON(w.out, w.report(m, r))
	}
	if _, err := fmt.Fprintln(w.out); err != nil || w.flags.quiet {
		return err
	}
	fmt.Fprintf(w.err, "tmacc: %s\ntmacc: %s\n", w.speed(r), w.ran(m))
	return nil
}
