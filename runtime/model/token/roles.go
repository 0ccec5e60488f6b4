package token

import (
	"math"
	"slices"
	"strings"
)

// role is a part that a token plays. Its key says which token it is; without the key it is the first of the texts that the
// vocabulary has. The lists of texts are llama.cpp's.
type role struct {
	key   string
	texts []string
	ends  bool // it ends a generation
}

// roles has the end of a turn first.
var roles = []role{
	{"tokenizer.ggml.eot_token_id", []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
		"<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}, true},
	{"tokenizer.ggml.eom_token_id", []string{"<|eom_id|>"}, true},
	{"tokenizer.ggml.fim_pre_token_id", []string{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
		"<|code_prefix|>", "<|prefix|>"}, false},
	{"tokenizer.ggml.fim_suf_token_id", []string{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
		"<|code_suffix|>", "<|suffix|>"}, false},
	{"tokenizer.ggml.fim_mid_token_id", []string{"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
		"<|code_middle|>", "<|middle|>"}, false},
	{"tokenizer.ggml.fim_pad_token_id", []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}, true},
	{"tokenizer.ggml.fim_rep_token_id", []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}, true},
	{"tokenizer.ggml.fim_sep_token_id", []string{"<|file_sep|>"}, true},
}

// endTexts are the texts of tokens that end a generation whatever the keys say.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
	"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
	"<｜end▁of▁sentence｜>", "[e~[",
}

// roles finds the tokens that play a part.
func (r *reader) roles(t *Tokenizer) {
	t.bos, t.eos, t.unk = r.id(t, keyBOS, t.bos), r.id(t, keyEOS, t.eos), r.id(t, keyUnknown, t.unk)
	t.ends = map[int32]bool{}
	for i, x := range roles {
		id := r.id(t, x.key, None)
		if id == None {
			if id = r.first(x.texts); id != None {
				t.setControl(id)
			}
		}
		if i == 0 {
			t.eot = id
		}
		if x.ends && id != None {
			t.ends[id] = true
		}
	}
	for _, text := range endTexts {
		if id := r.first([]string{text}); id != None {
			t.setControl(id)
			t.ends[id] = true
		}
	}
	if t.eos != None {
		t.ends[t.eos] = true
	}
	r.exceptions(t)
}

// exceptions are of vocabularies whose ends are parts of their messages, as in llama.cpp. <|end|> ends a part of a message where
// a message ends by <|return|> or <|flush|> and calls tools by <|call|> or <|calls|>; </s> is nothing beside <|tool_response>.
func (r *reader) exceptions(t *Tokenizer) {
	has := func(text string) bool { return r.first([]string{text}) != None }
	call := has("<|call|>") || has("<|calls|>")
	if end := r.first([]string{"<|end|>"}); end != None && call && (has("<|return|>") || has("<|flush|>")) {
		delete(t.ends, end)
		t.kinds[end] = userDefined
	}
	if end := r.first([]string{"</s>"}); end != None && has("<|tool_response>") {
		delete(t.ends, end)
		t.kinds[end] = normal
	}
	for _, text := range []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"} {
		if id := r.first([]string{text}); id != None {
			t.kinds[id] = userDefined // a part of the text
		}
	}
}

// setControl makes a token a control token that its type does not say to be one.
func (t *Tokenizer) setControl(id int32) { t.kinds[id] = control }

// id is the token that a key names, or otherwise the one given, if the vocabulary has it.
func (r *reader) id(t *Tokenizer, key string, otherwise int32) int32 {
	if int(otherwise) >= t.Len() {
		otherwise = None
	}
	v, err := r.f.Value(key)
	switch {
	case r.err != nil || err == nil && v == nil:
		return otherwise
	case v == any(uint32(math.MaxUint32)): // -1, which some files say for none
		return None
	}
	id, err := r.f.Int(key)
	switch {
	case err != nil:
		if r.err == nil {
			r.err = err
		}
	case id == -1:
		return None
	case id < 0 || id >= t.Len():
		r.fail(key, "is %d, and there are %d tokens", id, t.Len())
	default:
		return int32(id)
	}
	return None
}

// first is the first of the texts that is a token, or None.
func (r *reader) first(texts []string) int32 {
	for _, text := range texts {
		if id, ok := r.byText[text]; ok {
			return id
		}
	}
	return None
}

// specials lists the tokens whose texts are looked for. The Phi-3 models were trained without the white space behind most
// of theirs; only the name of the model tells.
func (r *reader) specials(t *Tokenizer) []special {
	name, _ := read[string](r, keyName)
	name = strings.ToLower(name)
	eats := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	var list []special
	for i, k := range t.kinds {
		if text := t.texts[i]; k.isSpecial() && text != "" {
			list = append(list, special{text: text, id: int32(i), hidden: k.isHidden(),
				eats: eats && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, text)})
		}
	}
	return list
}
