package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
)

type embedFlags struct {
	opening
	text    string
	file    string
	pooling string
	json    bool
}

// embed is the command embed.
func (c *cli) embed() *cobra.Command {
	var x embedFlags
	cmd := &cobra.Command{
		Use: "embed MODEL.gguf", Args: between(1, 1),
		Short: "compute embeddings of texts by a language model",
		Long: `Compute embeddings of texts by the language model of a GGUF file: the hidden states after the model's last norm,
of each token (-pooling none), or one vector for a text, of their mean, the first or the last of them. Each vector
is divided by its length. A line of output is a vector; -pooling none has an empty line behind each text.

Texts are encoded as llama-embedding does: with the tokens that the file wants around them, and with special
tokens where a text has their names.`,
		Example: `  tmacc embed model.gguf -p "Where do rivers end?"
  tmacc embed model.gguf -f questions.txt -pooling mean -json
  tmacc embed model.gguf -f - < questions.txt`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.text, "p", "p", "", "the `text`")
	f.StringVarP(&x.file, "f", "f", "", "`file` with a text on each line, - for standard input")
	f.StringVar(&x.pooling, "pooling", "", "none, mean, cls (the first token) or last (default: as the file says, none if it says nothing)")
	f.BoolVar(&x.json, "json", false, "print one JSON object, with the texts")
	x.opening.add(f)
	f.Lookup("context").Usage = "most tokens of a text, 0: those that the model was made for, up to 4096"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x.path = args[0]
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.embedTexts(cmd.Context(), x)
	}
	return cmd
}

func (x *embedFlags) validate(f *pflag.FlagSet) error {
	if f.Changed("p") == f.Changed("f") {
		return errors.New("embed: want a text with -p, or a file of texts with -f")
	}
	if x.pooling != "" {
		if _, err := model.ParsePooling(x.pooling); err != nil {
			return fmt.Errorf("-pooling %s: want none, mean, cls or last", x.pooling)
		}
	}
	return x.opening.validate()
}

// texts is the texts to embed.
func (c *cli) texts(x embedFlags) ([]string, error) {
	if x.file == "" {
		return []string{x.text}, nil
	}
	data, err := c.inputs().Text(x.file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines, nil
}

// embedTexts prints the embeddings of the texts.
func (c *cli) embedTexts(ctx context.Context, x embedFlags) error {
	var texts []string
	input := func() (err error) {
		texts, err = c.texts(x)
		return err
	}
	return c.with(ctx, x.opening, input, func(o *opened) error {
		w := &embedding{opened: o, flags: x, texts: texts}
		if err := w.encode(); err != nil {
			return err
		}
		began := time.Now()
		if err := w.print(ctx); err != nil || x.quiet {
			return err
		}
		w.note(time.Since(began))
		return nil
	})
}

// embedding is texts whose embeddings are computed.
type embedding struct {
	*opened
	flags   embedFlags
	texts   []string
	tokens  [][]int32
	pooling model.Pooling
}

// encode makes tokens of the texts.
func (w *embedding) encode() error {
	w.pooling = w.model.Config().Pooling
	if w.flags.pooling != "" {
		w.pooling, _ = model.ParsePooling(w.flags.pooling) // validate has read it
	}
	for i, text := range w.texts {
		tokens := w.tokenizer.Encode(text, token.Options{Special: true, EOS: true})
		switch n := len(tokens); {
		case n == 0:
			return fmt.Errorf("text %d of %d is empty, and the model has no token to begin with: leave it out", i+1, len(w.texts))
		case n > w.model.Context():
			return fmt.Errorf("text %d of %d has %d tokens; want 1 to %d (-context)", i+1, len(w.texts), n, w.model.Context())
		}
		w.tokens = append(w.tokens, tokens)
	}
	return nil
}

// embeddedAtOnce is how many texts are computed before they are printed.
const embeddedAtOnce = 64

// print prints the embeddings as they are computed.
func (w *embedding) print(ctx context.Context) error {
	out := bufio.NewWriter(w.out)
	if w.flags.json {
		fmt.Fprintf(out, `{"model": %s, "architecture": %q, "pooling": %q, "embeddings": [`, inJSON(w.flags.name()), w.model.Config().Architecture, w.pooling)
	}
	for first := 0; first < len(w.tokens); first += embeddedAtOnce {
		end := min(first+embeddedAtOnce, len(w.tokens))
		vectors, err := w.model.Embed(ctx, w.tokens[first:end], w.pooling)
		if ctx.Err() != nil {
			return failed("%w", errInterrupted)
		}
		if err != nil {
			return err
		}
		for i, v := range vectors {
			w.printOne(out, first+i, slices.Collect(slices.Chunk(v, w.model.Config().Embedding)))
		}
	}
	if w.flags.json {
		fmt.Fprintln(out, "\n]}")
	}
	return out.Flush()
}

// embeddedText is a text of -json: it has one vector, or one for each token.
type embeddedText struct {
	Text    string      `json:"text"`
	Tokens  int         `json:"tokens"`
	Vectors [][]float32 `json:"vectors"`
}

// printOne prints the vectors of a text.
func (w *embedding) printOne(out io.Writer, i int, vectors [][]float32) {
	if w.flags.json {
		comma := ","
		if i == 0 {
			comma = ""
		}
		fmt.Fprintf(out, "%s\n%s", comma, inJSON(embeddedText{w.texts[i], len(w.tokens[i]), vectors}))
		return
	}
	for _, v := range vectors {
		line := fmt.Sprint(v)
		fmt.Fprintln(out, line[1:len(line)-1]) // without brackets
	}
	if w.pooling == model.PoolNone {
		fmt.Fprintln(out)
	}
}

// inJSON is a value as JSON on one line. It has no type that JSON lacks.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: tmacc: " + err.Error())
	}
	return string(text)
}

// note says what was done, how fast, and by what.
func (w *embedding) note(took time.Duration) {
	n := 0
	for _, x := range w.tokens {
		n += len(x)
	}
	fmt.Fprintf(w.err, "tmacc: %s of %s, pooling %s, at %.1f tokens/s, %s\ntmacc: %s\n", message.Count(len(w.texts), "text"), message.Count(n, "token"),
		w.pooling, float64(n)/took.Seconds(), message.Count(w.flags.threadCount(), "thread"), w.ran())
}
