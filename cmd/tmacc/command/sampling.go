package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/grammar"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// sampling says how a command that writes text chooses tokens. Its flags have llama.cpp's names.
type sampling struct {
	options sample.Options
	seed    int64
	biases  []string
	stop    []string
	texts   [len(grammarFlags)]string // of the flags of grammars
	grammar *grammar.Grammar          // since read; nil: any text
}

// grammarFlags say which texts may come.
var grammarFlags = [...]struct {
	flag, usage string
	file        bool
	parse       func(string) (*grammar.Grammar, error)
}{
	{"grammar", "the text is one of this `grammar`, in llama.cpp's language GBNF", false, grammar.Parse},
	{"grammar-file", "the text is one of the grammar in this `file`, - for standard input", true, grammar.Parse},
	{"json-schema", "the text is a JSON value by this JSON `schema`; {} for any object", false, parseSchema},
	{"json-schema-file", "the text is a JSON value by the JSON schema in this `file`, - for standard input", true, parseSchema},
}

func parseSchema(text string) (*grammar.Grammar, error) { return grammar.ParseSchema([]byte(text)) }

// samplingFlags are the flags of options. A flag that is random has no effect on the choice of the likeliest token, and
// Mirostat replaces a flag that is replaced.
var samplingFlags = []struct {
	option, flag     string
	random, replaced bool
}{
	{"Temperature", "temp", false, false},
	{"TopK", "top-k", true, true},
	{"TopP", "top-p", true, true},
	{"MinP", "min-p", true, true},
	{"Typical", "typical", false, true},
	{"RepeatLast", lastFlag, false, true},
	{"Repeat", "repeat-penalty", false, true},
	{"Presence", "presence-penalty", false, true},
	{"Frequency", "frequency-penalty", false, true},
	{"Bias", "logit-bias", false, false},
	{"Mirostat", "mirostat", false, false},
	{"Tau", "mirostat-ent", false, false},
	{"Eta", "mirostat-lr", false, false},
	{"Seed", "seed", true, false},
}

// lastFlag is the flag of the number of last tokens that penalties are for.
const lastFlag = "repeat-last-n"

func (x *sampling) add(f *pflag.FlagSet) {
	o := &x.options
	f.Float64Var(&o.Temperature, "temp", 0, fmt.Sprintf("temperature of the choice of tokens, %v to %v; 0: the likeliest", sample.LeastTemperature, sample.MostTemperature))
	f.IntVar(&o.TopK, "top-k", 0, "choose among this number of the likeliest tokens, 0: all")
	f.Float64Var(&o.TopP, "top-p", 1, "choose among the likeliest tokens that have this probability together, 1: all")
	f.Float64Var(&o.MinP, "min-p", 0, "choose among tokens with this share of the likeliest one's probability, 0: all")
	f.Float64Var(&o.Typical, "typical", 1, "choose among the most typical tokens that have this probability together, 1: all")
	f.IntVar(&o.RepeatLast, lastFlag, 64, "number of last tokens that penalties are for, -1: all")
	f.Float64Var(&o.Repeat, "repeat-penalty", 1, "divide positive logits of tokens that the text has by this, and multiply negative ones")
	f.Float64Var(&o.Presence, "presence-penalty", 0, "subtract this from the logits of tokens that the text has")
	f.Float64Var(&o.Frequency, "frequency-penalty", 0, "subtract this from a logit for each time that the text has the token")
	f.StringArrayVar(&x.biases, "logit-bias", nil, "`ID+X` or ID-X: add X to the logit of a token or subtract it; -inf forbids the token; may be repeated")
	f.IntVar(&o.Mirostat, "mirostat", 0, "version of Mirostat, 1 or 2, in place of the other choices of tokens; 0: off")
	f.Float64Var(&o.Eta, "mirostat-lr", 0.1, "learning rate of Mirostat")
	f.Float64Var(&o.Tau, "mirostat-ent", 5, "surprise in bits that Mirostat aims for")
	f.Int64Var(&x.seed, "seed", 1, "seed of the random numbers")
	f.StringArrayVar(&x.stop, "stop", nil, "end the text before this `text` comes; may be repeated")
	for i, row := range grammarFlags {
		f.StringVar(&x.texts[i], row.flag, "", row.usage)
	}
}

// validate checks the flags, and sets the options that are not the flags' own values.
func (x *sampling) validate(f *pflag.FlagSet) error {
	o := &x.options
	if x.seed < 0 {
		return fmt.Errorf("-seed %d: want 0 or more", x.seed)
	}
	o.Seed = uint64(x.seed)
	for _, text := range x.stop {
		if text == "" {
			return errors.New("-stop: the text is empty")
		}
	}
	if err := x.parseBiases(); err != nil {
		return err
	}
	if err := x.needless(f); err != nil {
		return err
	}
	if err := oneGrammar(f); err != nil {
		return err
	}
	_, err := sample.New(*o)
	return flagged(err)
}

// flagged is an error about an option with the name of its flag.
func flagged(err error) error {
	bad := (*sample.Error)(nil)
	if !errors.As(err, &bad) {
		return err
	}
	for _, row := range samplingFlags {
		if row.option == bad.Option {
			return fmt.Errorf("-%s %v: want %s", row.flag, bad.Value, bad.Want)
		}
	}
	return err
}

// needless is an error if a flag was given that has no effect beside the others, or 0, which Options take for the default.
func (x *sampling) needless(f *pflag.FlagSet) error {
	o := &x.options
	for _, row := range samplingFlags {
		if !f.Changed(row.flag) {
			continue
		}
		switch value := f.Lookup(row.flag).Value.String(); {
		case row.random && o.Temperature == 0:
			return fmt.Errorf("-%s %s: has no effect on -temp 0, which takes the likeliest token: give -temp, such as -temp 0.8", row.flag, value)
		case row.replaced && o.Mirostat != 0:
			return fmt.Errorf("-%s %s: has no effect beside -mirostat %d", row.flag, value, o.Mirostat)
		case strings.HasPrefix(row.flag, "mirostat-") && o.Mirostat == 0:
			return fmt.Errorf("-%s %s: has no effect without -mirostat", row.flag, value)
		case row.flag == lastFlag && o.RepeatLast >= -1 && o.Repeat == 1 && o.Presence == 0 && o.Frequency == 0:
			return fmt.Errorf("-%s %s: has no effect without a penalty, such as -repeat-penalty 1.1", row.flag, value)
		case row.flag == lastFlag && o.RepeatLast == 0:
			return fmt.Errorf("-%s 0: penalties have no effect then: leave them out", row.flag)
		}
	}
	for flag, value := range map[string]float64{"top-p": o.TopP, "typical": o.Typical, "repeat-penalty": o.Repeat, "mirostat-ent": o.Tau, "mirostat-lr": o.Eta} {
		if value == 0 {
			return fmt.Errorf("-%s 0: want more than 0", flag)
		}
	}
	return nil
}

// parseBiases reads -logit-bias.
func (x *sampling) parseBiases() error {
	for _, text := range x.biases {
		id, value, err := parseBias(text)
		if err != nil {
			return fmt.Errorf("-logit-bias %s: want the id of a token, + or -, and a number, such as 15043+1.5 or 15043-inf", text)
		}
		if x.options.Bias == nil {
			x.options.Bias = map[int32]float32{}
		}
		x.options.Bias[id] += value
	}
	return nil
}

// parseBias reads the id of a token, and a number with its sign.
func parseBias(text string) (int32, float32, error) {
	at := max(0, strings.IndexAny(text, "+-"))
	id, err := strconv.ParseUint(text[:at], 10, 31)
	if err != nil {
		return 0, 0, err
	}
	value, err := strconv.ParseFloat(text[at:], 32)
	return int32(id), float32(value), err
}

// oneGrammar is an error if two flags give a grammar, or one an empty text.
func oneGrammar(f *pflag.FlagSet) error {
	first := ""
	for _, row := range grammarFlags {
		switch given := f.Changed(row.flag); {
		case given && f.Lookup(row.flag).Value.String() == "":
			return fmt.Errorf("-%s: the text is empty", row.flag)
		case given && first != "":
			return fmt.Errorf("-%s and -%s: only one of them can say which texts may come", first, row.flag)
		case given:
			first = row.flag
		}
	}
	return nil
}

// read reads the grammar, if there is one.
func (x *sampling) read(c *cli) error {
	for i, row := range grammarFlags {
		text, name := x.texts[i], "-"+row.flag
		if text == "" {
			continue
		}
		if row.file {
			name = text
			data, err := c.inputs().Text(text)
			if err != nil {
				return err
			}
			text = string(data)
		}
		g, err := row.parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		x.grammar = g
	}
	return nil
}

// sampler makes the sampler of a model with this tokenizer.
func (x *sampling) sampler(t *token.Tokenizer) (*sample.Sampler, error) {
	for id := range x.options.Bias {
		if int(id) >= t.Len() {
			return nil, fmt.Errorf("-logit-bias: there is no token %d: the model has %d", id, t.Len())
		}
	}
	o := x.options
	if x.grammar != nil {
		o.Mask = grammar.NewMask(x.grammar, grammar.NewVocabulary(t))
	}
	s, err := sample.New(o)
	return s, flagged(err)
}

// unfinished says that a text is none of the grammar, if it ended for such a reason.
func (x *sampling) unfinished(end generation.End) string {
	if x.grammar == nil || end != generation.Enough && end != generation.Full {
		return ""
	}
	return "the text is not complete by its grammar: no short enough text of it is known: allow more tokens by -n, or a longer -context"
}
