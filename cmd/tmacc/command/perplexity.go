package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model/perplexity"
	"github.com/tmacc/tmacc/runtime/model/token"
)

type perplexityFlags struct {
	opening
	text   string
	chunks int
	base   string
	save   bool
	json   bool
}

// perplexity is the command of that name.
func (c *cli) perplexity() *cobra.Command {
	var x perplexityFlags
	cmd := &cobra.Command{
		Use: "perplexity [MODEL.gguf] -f TEXT", Args: between(0, 1),
		Short: "measure how well a language model predicts a text",
		Long: `Measure how well the language model of a GGUF file predicts a text, by the procedure of llama-perplexity:
chunks of -context tokens, each alone and after the token that begins texts; the predictions of a chunk's
second half count. The perplexity is the exponential of the mean negative log-likelihood of these tokens.
Perplexities can be compared between models of one vocabulary, for one text and one -context.

-kl-base FILE -save also saves the predictions, in llama.cpp's format of --kl-divergence-base. Without
-save, the predictions of another model of the same vocabulary are compared with those in the file: the
Kullback-Leibler divergence KL(base || model), the difference of the probabilities of the tokens that come, and
the share of predictions whose likeliest token is the base's. The file has the text, too, so -f is not needed.`,
		Example: `  tmacc perplexity model.gguf -f wiki.test.raw
  tmacc perplexity model-f16.gguf -f wiki.test.raw -kl-base f16.base -save
  tmacc perplexity model-q4_0.gguf -kl-base f16.base -json`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.text, "f", "f", "", "`file` of the text, - for standard input")
	f.IntVar(&x.chunks, "chunks", 0, "chunks to compute at most, 0: all")
	f.StringVar(&x.base, "kl-base", "", "`file` of a base's predictions to compare with, or with -save to write")
	f.BoolVar(&x.save, "save", false, "save the predictions in the file of -kl-base")
	f.BoolVar(&x.json, "json", false, "print JSON")
	x.opening.add(f)
	context := f.Lookup("context")
	context.Usage, context.DefValue = "tokens of a chunk (default: 512, or the base's)", "0"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			x.path = args[0]
		}
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.measurePerplexity(cmd.Context(), x)
	}
	return cmd
}

// compares says that predictions are compared with saved ones.
func (x *perplexityFlags) compares() bool { return x.base != "" && !x.save }

func (x *perplexityFlags) validate(f *pflag.FlagSet) error {
	switch {
	case x.save && x.base == "":
		return errors.New("-save: needs the name of a file: -kl-base FILE -save")
	case x.text == "" && !x.compares():
		return errors.New("perplexity: no text: name its file with -f, or -f - for standard input")
	case x.chunks < 0:
		return fmt.Errorf("-chunks %d: want 1 or more, or 0: all", x.chunks)
	case x.compares() && f.Changed("context"):
		return errors.New("-context: is for a text; chunks of a base have the tokens that they were saved with")
	case f.Changed("context") && x.context < 3:
		return fmt.Errorf("-context %d: chunks have 3 tokens or more", x.context)
	}
	return x.opening.validate()
}

// measured is what tmacc perplexity -json prints.
type measured struct {
	Model   string             `json:"model"`
	Context int                `json:"context"`
	Threads int                `json:"threads"`
	Kernels []ranKernels       `json:"kernels"`
	Result  *perplexity.Result `json:"result"`
}

// judging is a model whose predictions are judged.
type judging struct {
	*opened
	flags perplexityFlags
	base  *perplexity.Base // or nil
	text  string           // unless it is the base's
}

// measurePerplexity measures.
func (c *cli) measurePerplexity(ctx context.Context, x perplexityFlags) error {
	j := &judging{flags: x}
	if x.context == 0 {
		j.flags.context = perplexity.UsualContext
	}
	if x.compares() {
		file, err := c.open(x.base)
		if err != nil {
			return plain(err)
		}
		defer file.Close()
		if j.base, err = perplexity.ReadBase(file); err != nil {
			return fmt.Errorf("%s: %w", x.base, err)
		}
		j.flags.context = j.base.Context
	}
	input := func() error {
		if x.text == "" {
			return nil
		}
		text, err := c.inputs().Text(x.text)
		j.text = strings.TrimSuffix(string(text), "\n")
		return err
	}
	return c.with(ctx, j.flags.opening, input, func(o *opened) error {
		j.opened = o
		return j.judge(ctx)
	})
}

// judge measures the perplexity, and prints it.
func (j *judging) judge(ctx context.Context) error {
	tokens := j.tokenizer.Encode(j.text, token.Options{})
	begin := perplexity.Begin(j.tokenizer)
	opt := perplexity.Options{Context: j.flags.context, Chunks: j.flags.chunks, Threads: j.flags.threads, Progress: j.progress}
	var r *perplexity.Result
	measure := func() (err error) {
		r, err = perplexity.Measure(ctx, j.model, tokens, begin, opt)
		return err
	}
	var err error
	switch {
	case j.base != nil:
		if j.flags.text != "" && !j.same(tokens) {
			return fmt.Errorf("%s: has other tokens than the text of %s: leave -f out to measure the text that was saved", j.flags.base, j.flags.text)
		}
		r, err = perplexity.Compare(ctx, j.model, j.base, begin, opt)
	case j.flags.save:
		err = gen.WriteFileBy(j.flags.base, func(w io.Writer) error {
			buffered := bufio.NewWriterSize(w, 1<<20)
			opt.Save = buffered
			return errors.Join(measure(), buffered.Flush())
		})
	default:
		err = measure()
	}
	j.bar.done()
	if errors.As(err, new(*perplexity.BaseError)) {
		return fmt.Errorf("%s: %w", j.flags.base, err)
	}
	if err != nil {
		return err
	}
	return j.print(r)
}

// same says that a text is the base's.
func (j *judging) same(tokens []int32) bool {
	n := len(j.base.Tokens)
	return len(tokens) >= n && slices.Equal(tokens[:n], j.base.Tokens)
}

func (j *judging) progress(r *perplexity.Result, chunks int) {
	text := fmt.Sprintf("chunk %d of %d: perplexity %.4f +- %.4f", r.Chunks, chunks, r.Perplexity.Value, r.Perplexity.Error)
	if b := r.Base; b != nil {
		text += fmt.Sprintf(", KL divergence %.5f +- %.5f", b.Divergence.Value, b.Divergence.Error)
	}
	j.bar.step("%s", text)
}

// print prints what was measured.
func (j *judging) print(r *perplexity.Result) error {
	if j.flags.json {
		return printJSON(j.out, measured{j.flags.name(), j.flags.context, j.flags.threadCount(), j.ranKernels(), r})
	}
	fmt.Fprintf(j.out, "perplexity %.4f +- %.5f, of %s in %s of %d\n", r.Perplexity.Value, r.Perplexity.Error,
		message.Count(r.Tokens, "predicted token"), message.Count(r.Chunks, "chunk"), j.flags.context)
	if r.Base != nil {
		fmt.Fprintln(j.out)
		j.compared(r.Base)
	}
	if !j.flags.quiet {
		fmt.Fprintf(j.err, "tmacc: %s\n", j.ran())
	}
	return nil
}

// compared prints what was measured beside a base.
func (j *judging) compared(c *perplexity.Comparison) {
	figures := table{head: []string{"beside the base", "value", "+-"}, wide: -1}
	add := func(what, format string, e perplexity.Estimate) {
		figures.add(what, fmt.Sprintf(format, e.Value), fmt.Sprintf(format, e.Error))
	}
	percent := func(e perplexity.Estimate) perplexity.Estimate {
		return perplexity.Estimate{Value: 100 * e.Value, Error: 100 * e.Error}
	}
	add("perplexity of the base", "%.6f", c.Perplexity)
	add("ratio of perplexities", "%.6f", c.Ratio)
	add("ln of the ratio", "%.6f", c.LogRatio)
	add("difference of perplexities", "%.6f", c.Difference)
	figures.add("correlation of ln perplexity, %", fmt.Sprintf("%.2f", 100*c.Correlation), "")
	add("KL divergence", "%.6f", c.Divergence)
	add("delta p, %", "%.3f", percent(c.Delta))
	add("RMS of delta p, %", "%.3f", percent(c.DeltaRMS))
	add("same top token, %", "%.3f", percent(c.SameTop))
	figures.print(j.out, 0)
	fmt.Fprintln(j.out)
	shares := table{head: []string{"share of predictions", "KL divergence up to", "delta p up to, %"}, wide: -1}
	kl, delta := c.Divergences, c.Deltas
	for _, s := range []struct {
		share     string
		kl, delta float64
	}{
		{"minimum", kl.Minimum, delta.Minimum}, {"0.1 %", kl.P001, delta.P001}, {"1 %", kl.P01, delta.P01}, {"5 %", kl.P05, delta.P05},
		{"10 %", kl.P10, delta.P10}, {"25 %", kl.P25, delta.P25}, {"median", kl.Median, delta.Median}, {"75 %", kl.P75, delta.P75},
		{"90 %", kl.P90, delta.P90}, {"95 %", kl.P95, delta.P95}, {"99 %", kl.P99, delta.P99}, {"99.9 %", kl.P999, delta.P999}, {"maximum", kl.Maximum, delta.Maximum},
	} {
		shares.add(s.share, fmt.Sprintf("%.6f", s.kl), fmt.Sprintf("%.3f", 100*s.delta))
	}
	shares.print(j.out, 0)
}
