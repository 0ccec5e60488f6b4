package chat

import (
	"context"
	"errors"
	"strings"

	"github.com/ardanlabs/jinja"

	"github.com/tmacc/tmacc/runtime/model/token"
)

// Tokens are the tokens of a conversation. The texts of control tokens that the template writes, such as "<|im_end|>",
// become these tokens. In messages, tools and Vars they stay text, so nobody can end a turn by writing so.
//
// Where the text does not begin with BOS, it is put before the text if the tokenizer does so.
func (t *Template) Tokens(ctx context.Context, tokens *token.Tokenizer, in Input) ([]int32, error) {
	values, size, err := t.values(in)
	if err != nil {
		return nil, err
	}
	mark, err := unusedMark(values)
	if err != nil {
		return nil, err
	}
	for name, v := range values {
		if _, given := in.Vars[name]; given || name != "bos_token" && name != "eos_token" {
			values[name] = guarded(tokens, v, mark)
		}
	}
	text, err := t.render(ctx, values, size)
	if err != nil {
		return nil, err
	}
	o := token.Options{Special: true, Mark: mark}
	if bos := t.options.BOS; bos != "" && strings.HasPrefix(text, bos) {
		o.BOS = token.BOSNever
	}
	return tokens.Encode(text, o), nil
}

// The characters that marks are chosen from. They are no characters of any script.
const (
	firstMark = '\ufdd0'
	lastMark  = '\ufdef'
)

// unusedMark is a mark that no value has.
func unusedMark(values map[string]jinja.Value) (string, error) {
	var used [lastMark - firstMark + 1]bool
	for _, v := range values {
		eachString(v, func(s string) {
			for _, c := range s {
				if firstMark <= c && c <= lastMark {
					used[c-firstMark] = true
				}
			}
		})
	}
	for i, is := range used {
		if !is {
			return string(rune(firstMark + i)), nil
		}
	}
	return "", errors.New("chat template: the conversation has all noncharacters from U+FDD0 to U+FDEF; one of them is needed")
}

// eachString calls f for the strings of a value.
func eachString(v jinja.Value, f func(s string)) {
	switch {
	case v.IsString():
		f(v.AsString())
	case v.IsList():
		for _, x := range v.AsList().Items {
			eachString(x, f)
		}
	case v.IsDict():
		for key, x := range v.AsDict().Data {
			f(key)
			eachString(x, f)
		}
	}
}

// guarded is a value with marks in the texts of control tokens.
func guarded(tokens *token.Tokenizer, v jinja.Value, mark string) jinja.Value {
	switch {
	case v.IsString():
		return jinja.NewString(tokens.Guard(v.AsString(), mark))
	case v.IsList():
		out := jinja.NewList(nil)
		for _, x := range v.AsList().Items {
			out.AsList().Append(guarded(tokens, x, mark))
		}
		return out
	case v.IsDict():
		out := jinja.NewDict()
		for _, key := range v.AsDict().Keys {
			out.AsDict().Set(tokens.Guard(key, mark), guarded(tokens, v.AsDict().Data[key], mark))
		}
		return out
	}
	return v
}
