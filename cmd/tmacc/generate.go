package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/cmd/tmacc/tale"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/tune"
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
	_, err := sample.New(x.temperature, 0)
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
