package command

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model/token"
)

type tokenizeFlags struct {
	opening
	text, file, decode string
	bos                string
	special            bool
	ids, json          bool
}

// bosModes are the words of -bos.
var bosModes = map[string]token.BOSMode{"as-model": token.BOSAsModel, "always": token.BOSAlways, "never": token.BOSNever}

// tokenize is the command of that name.
func (c *cli) tokenize() *cobra.Command {
	var x tokenizeFlags
	cmd := &cobra.Command{
		Use: "tokenize [MODEL.gguf]", Args: between(0, 1),
		Short: "print the tokens of a text, or the text of tokens",
		Long: `Print the tokens of a text by the tokenizer of a GGUF file: a line for each, with its id and the text that
it stands for, in quotes. Without a file, the small model in this program has the tokenizer. No weights are
read, and no kernels are made.`,
		Example: `  tmacc tokenize model.gguf -p "The capital of France is"
  tmacc tokenize model.gguf -f letter.txt -ids
  tmacc tokenize model.gguf -p "<|im_start|>user" -special -bos never -json
  tmacc tokenize model.gguf -decode "450 7483 310"`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.text, "p", "p", "", "`text`, - for standard input without its last line end")
	f.StringVarP(&x.file, "f", "f", "", "`file` with the text, - for standard input")
	f.StringVar(&x.decode, "decode", "", "print the text of these token `ids` instead; - takes them from standard input")
	f.StringVar(&x.bos, "bos", "as-model", "the token that begins a text: as-model, always or never")
	f.BoolVar(&x.special, "special", false, "take the texts of control tokens, such as <|im_end|>, for these tokens; with -decode, print them")
	f.BoolVar(&x.ids, "ids", false, "print the ids only, on one line")
	f.BoolVar(&x.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			x.path = args[0]
		}
		if err := x.validate(cmd.Flags()); err != nil {
			return err
		}
		return c.printTokens(x, cmd.Flags())
	}
	return cmd
}

func (x *tokenizeFlags) validate(f *pflag.FlagSet) error {
	given := 0
	for _, name := range []string{"p", "f", "decode"} {
		if f.Changed(name) {
			given++
		}
	}
	switch _, known := bosModes[x.bos]; {
	case given == 0:
		return fmt.Errorf("tokenize: nothing to do: give a text with -p or -f, or ids with -decode")
	case given > 1:
		return fmt.Errorf("tokenize: give only one of -p, -f and -decode")
	case f.Changed("decode") && (f.Changed("bos") || x.ids):
		return fmt.Errorf("tokenize: -bos and -ids are for a text, not for -decode")
	case x.ids && x.json:
		return fmt.Errorf("tokenize: give only one of -ids and -json")
	case !known:
		return fmt.Errorf("-bos %s: want as-model, always or never", message.Quoted(x.bos))
	}
	return nil
}

// printTokens prints the tokens of a text, or the text of tokens.
func (c *cli) printTokens(x tokenizeFlags, f *pflag.FlagSet) error {
	file, err := x.open()
	if err != nil {
		return x.blamed(err)
	}
	defer file.Close()
	t, err := token.New(file)
	if err != nil {
		return x.blamed(err)
	}
	if f.Changed("decode") {
		return c.printDecoded(x, t)
	}
	text, err := c.textOf(x, f.Changed("f"))
	if err != nil {
		return err
	}
	ids := t.Encode(text, token.Options{BOS: bosModes[x.bos], Special: x.special})
	switch {
	case x.json:
		return printJSON(c.out, tokenized{x.name(), text, named(t, ids)})
	case x.ids:
		return c.printIDs(ids)
	}
	for _, id := range ids {
		if _, err := fmt.Fprintf(c.out, "%7d  %q\n", id, t.AppendPiece(nil, id, true)); err != nil {
			return err
		}
	}
	return nil
}

// textOf is the text whose tokens are printed.
func (c *cli) textOf(x tokenizeFlags, file bool) (string, error) {
	switch {
	case file:
		data, err := c.inputs().Text(x.file)
		return string(data), err
	case x.text == "-":
		data, err := c.inputs().Text(x.text)
		return strings.TrimSuffix(string(data), "\n"), err
	}
	return x.text, nil
}

func (c *cli) printIDs(ids []int32) error {
	for i, id := range ids {
		gap := " "
		if i == 0 {
			gap = ""
		}
		if _, err := fmt.Fprintf(c.out, "%s%d", gap, id); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(c.out)
	return err
}

// printDecoded prints the text of tokens.
func (c *cli) printDecoded(x tokenizeFlags, t *token.Tokenizer) error {
	list := x.decode
	if list == "-" {
		data, err := c.inputs().Text(list)
		if err != nil {
			return err
		}
		list = string(data)
	}
	ids, err := parseIDs(list, t.Len())
	if err != nil {
		return err
	}
	text := t.Decode(ids, x.special)
	if x.json {
		return printJSON(c.out, tokenized{x.name(), text, named(t, ids)})
	}
	_, err = io.WriteString(c.out, text+"\n")
	return err
}

// parseIDs reads token ids between spaces, commas and line ends. A list in brackets, as JSON has it, will do, too.
func parseIDs(list string, tokens int) ([]int32, error) {
	words := strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(" \t\r\n,[]", c) })
	var ids []int32
	for _, w := range words {
		id, err := strconv.Atoi(w)
		if err != nil {
			return nil, fmt.Errorf("-decode: %s", message.NotNumber(w, err))
		}
		if id < 0 || id >= tokens {
			return nil, fmt.Errorf("-decode: %d: want token ids from 0 to %d", id, tokens-1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// tokenized is what tmacc tokenize -json prints.
type tokenized struct {
	Model  string       `json:"model"`
	Text   string       `json:"text"`
	Tokens []namedToken `json:"tokens"`
}

// namedToken is a token with its piece. A piece that has parts of characters stands in hexadecimal.
type namedToken struct {
	ID    int32  `json:"id"`
	Piece string `json:"piece"`
	Hex   string `json:"hex,omitempty"`
}

func named(t *token.Tokenizer, ids []int32) []namedToken {
	all := make([]namedToken, len(ids))
	for i, id := range ids {
		piece := t.AppendPiece(nil, id, true)
		all[i] = namedToken{ID: id, Piece: string(piece)}
		if !utf8.Valid(piece) {
			all[i].Hex = hex.EncodeToString(piece)
		}
	}
	return all
}
