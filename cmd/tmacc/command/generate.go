package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/token"
)

type generateFlags struct {
	opening
	sampling
	remembering
	talking
	prompt string
	given  bool // -p was
	tokens int
	json   bool
}

// generate is the command run.
func (c *cli) generate() *cobra.Command {
	var x generateFlags
	cmd := &cobra.Command{
		Use: "run [MODEL.gguf]", Args: between(0, 1),
		Short: "chat with a language model, or continue a text by it",
		Long: `Chat with the language model of a GGUF file, or continue a text with -p. Without a file, a small model in this
program continues a text: it was trained on novels of the 19th century, for a first try.

A chat follows the template that the file has. On a terminal, /help lists its commands, and Ctrl-C stops an answer.
Elsewhere each line of standard input is a message, and each answer is printed with a line break behind it.

The first run compiles the kernels that a file needs, compares them with the definition, and keeps them
in tmacc/kernels of the user's cache directory (or of TMACC_CACHE). Later runs map them, and need no Go.
Where a system forbids that, a program with the kernels is built once. Without Go, pure Go multiplies,
with the same results.

With -target spirv the products run on a device of Vulkan, in the program tmacc-vulkan, which is built if it is
neither beside tmacc nor in PATH.

The likeliest token comes next (-temp 0), or one at random. The same model, text and seed give the same
tokens on every machine, with any number of threads. At the end, standard error has tokens per second
of the given text (prefill) and of the new one (decode), and the kernels that ran.`,
		Example: `  tmacc run model.gguf
  tmacc run model.gguf -system "Answer briefly." < questions.txt
  tmacc run -p "It was a cold morning, and" -n 64
  tmacc run model.gguf -p "The capital of France is"
  tmacc run model.gguf -target spirv -p "The capital of France is"
  tmacc run model.gguf -p - -temp 0.8 -seed 42 < letter.txt
  tmacc run model.gguf -p - -session letter.session < letter.txt
  tmacc run model.gguf -p "Hello" -n 0 -context 8192 -cache f32 -json`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.prompt, "p", "p", "", "`text` to continue, - for standard input")
	f.IntVarP(&x.tokens, "n", "n", 128, "tokens to add at most, 0: until the context is full, as in a chat without -n")
	f.BoolVar(&x.json, "json", false, "print one JSON object at the end, with the text")
	x.opening.add(f)
	x.sampling.add(f)
	x.remembering.add(f)
	x.talking.add(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			x.path = args[0]
		}
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		if x.chat {
			return c.talk(cmd.Context(), x)
		}
		return c.runModel(cmd.Context(), x)
	}
	return cmd
}

func (x *generateFlags) validate(f *pflag.FlagSet) error {
	x.given = f.Changed("p")
	if x.tokens < 0 {
		return fmt.Errorf("-n %d: want 1 or more, or 0: until the context is full", x.tokens)
	}
	if err := x.talking.validate(f, x.path); err != nil {
		return err
	}
	if x.chat && !f.Changed("n") {
		x.tokens = 0
	}
	if err := x.sampling.validate(f); err != nil {
		return err
	}
	if err := x.remembering.validate(f, x.chat); err != nil {
		return err
	}
	return x.opening.validate()
}

// talePrompt is what the model in this program continues unless told otherwise.
const talePrompt = "It was a cold morning, and"

// text is the text to continue.
func (c *cli) text(x generateFlags) (string, error) {
	switch {
	case x.prompt == "-":
		data, err := c.inputs().Text(x.prompt)
		return strings.TrimSuffix(string(data), "\n"), err
	case !x.given:
		c.noteInput()
		return talePrompt, nil
	}
	return x.prompt, nil
}

// noteInput says that standard input is not read, if there may be a text in it.
func (c *cli) noteInput() {
	f, ok := c.in.(*os.File)
	if !ok {
		return
	}
	info, err := f.Stat()
	if err == nil && (info.Mode()&fs.ModeNamedPipe != 0 || info.Mode().IsRegular() && info.Size() > 0) {
		fmt.Fprintln(c.err, "tmacc: standard input is not read without -p -, and the text of a first try is continued")
	}
}

// runModel continues the text.
func (c *cli) runModel(ctx context.Context, x generateFlags) error {
	var text string
	input := func() (err error) {
		if err = x.sampling.read(c); err == nil {
			text, err = c.text(x)
		}
		return err
	}
	return c.with(ctx, x.opening, input, func(o *opened) error {
		w := &writing{opened: o, flags: x, prompt: text}
		return w.write(ctx)
	})
}

// writing is a text that is being continued.
type writing struct {
	*opened
	flags  generateFlags
	prompt string
	added  strings.Builder // with -json
}

// write continues the text, and says at the end how fast, and by what.
func (w *writing) write(ctx context.Context) error {
	s, err := w.openSession(w.flags.session)
	if err != nil {
		return err
	}
	defer s.Close()
	sampler, err := w.flags.sampler(w.tokenizer)
	if err != nil {
		return err
	}
	ids := w.tokenizer.Encode(w.prompt, token.Options{})
	if err := w.fits(len(ids)); err != nil {
		return err
	}
	if err := w.say([]byte(w.prompt)); err != nil {
		return err
	}
	r, err := generation.Tokens(ctx, w.model, s, w.tokenizer, ids, generation.Options{
		Tokens: w.flags.tokens, Sampler: sampler, Stop: w.flags.stop, Text: w.add, Shift: w.flags.shift, Keep: w.flags.keep,
	})
	if err == nil {
		err = w.end(r)
	}
	if err == nil {
		err = w.saveSession(s, w.flags.session)
	}
	if err == nil && r.End == generation.Interrupted {
		return failed("%w", errInterrupted)
	}
	return err
}

// fits refuses a text of n tokens that cannot be continued, before it is printed.
func (w *writing) fits(n int) error {
	most := w.model.Context()
	switch {
	case n == 0:
		return errors.New("-p: the text is empty, and the model has no token to begin with: give a text")
	case n >= most:
		return fmt.Errorf("the text has %s, and -context %d has room for %d and a new one: give a shorter text or a longer -context",
			message.Count(n, "token"), most, most-1)
	}
	return nil
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
func (w *writing) end(r *generation.Report) error {
	if w.flags.json {
		return printJSON(w.out, w.report(r))
	}
	if _, err := fmt.Fprintln(w.out); err != nil {
		return err
	}
	if text := w.flags.unfinished(r.End); text != "" {
		fmt.Fprintf(w.err, "tmacc: %s\n", text)
	}
	if w.flags.quiet {
		return nil
	}
	fmt.Fprintf(w.err, "tmacc: %s\ntmacc: %s\n", w.speed(r), w.ran())
	if r.End == generation.Full {
		fmt.Fprintf(w.err, "tmacc: the context is full: -context %d, of at most %d\n", w.model.Context(), w.model.Config().Context)
	}
	return nil
}
