// Package token turns text into the tokens of a language model and back, as the metadata of a GGUF file describe them:
// byte-level BPE (tokenizer.ggml.model is gpt2) and SentencePiece (llama).
//
// Tokens are equal to llama.cpp's for valid UTF-8. A text in other bytes is encoded, too: byte-level BPE takes U+FFFD for
// each wrong byte, SentencePiece has tokens for bytes. Pieces are llama.cpp's; its clean-up of spaces, which loses some,
// is left out.
package token

import (
	"strings"
	"unicode/utf8"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// None is the id of a token that a vocabulary lacks.
const None int32 = -1

// Tokenizer has the vocabulary of one model. It does not change, and any number of goroutines may use it.
type Tokenizer struct {
	kinds []kind
	// texts has the bytes that a token stands for, except that SentencePiece writes spaces as U+2581 in normal tokens.
	texts []string
	// ids finds a token by its bytes, or in SentencePiece by its text. Tokens that plain text cannot be are left out.
	ids     map[string]int32
	bytes   [256]int32 // the token of each byte, or None
	longest int        // bytes of the longest key of ids

	pre    *preTokenizer    // nil: SentencePiece
	merges map[uint64]merge // byte-level BPE: by left symbol << 32 | right symbol
	ranks  []int32          // SentencePiece: the place of a token's score, the highest is 0

	addBOS      bool
	addEOS      bool
	spacePrefix bool // SentencePiece: text that begins, or follows a special token, gets a space
	bos, eos    int32
	eot, unk    int32
	ends        map[int32]bool // the tokens that end a generation
	special     specials
}

// merge is what two symbols become.
type merge struct{ rank, symbol int32 }

// kind is the type of a token, tokenizer.ggml.token_type.
type kind uint8

const (
	undefined kind = iota
	normal
	unknown
	control
	userDefined
	unused
	byteValue
)

// inText reports whether plain text can become a token of this kind other than by a match of its whole text.
func (k kind) inText() bool { return k != unknown && k != control && k != byteValue }

// isSpecial reports whether the text of such a token is looked for before all else.
func (k kind) isSpecial() bool { return k == unknown || k == control || k == userDefined }

// isHidden reports whether such a token has no piece unless special tokens are asked for.
func (k kind) isHidden() bool { return k == unknown || k == control }

// Len is the number of tokens. Ids go from 0 to Len - 1.
func (t *Tokenizer) Len() int { return len(t.texts) }

func (t *Tokenizer) isToken(id int32) bool { return id >= 0 && int(id) < len(t.texts) }

// BOS is the token that begins a text, or None.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS is the token that ends a text, or None.
func (t *Tokenizer) EOS() int32 { return t.eos }

// EOT is the token that ends a turn of a dialog, or None.
func (t *Tokenizer) EOT() int32 { return t.eot }

// EndOfGeneration reports whether a model that produces this token has nothing more to say: it ends the text or the turn.
func (t *Tokenizer) EndOfGeneration(id int32) bool { return t.ends[id] }

// Special is the control or user-defined token with exactly this text, such as "<|im_start|>", or None.
func (t *Tokenizer) Special(text string) int32 { return t.special.find(text) }

// BOSMode says whether Encode puts the BOS token before the text, also before a text that begins with it.
type BOSMode uint8

const (
	BOSAsModel BOSMode = iota // if the model's metadata or its pre-tokenizer say so
	BOSAlways                 // if the model has one
	BOSNever
)

// Options say how a text is encoded.
type Options struct {
	BOS BOSMode
	// Special takes the texts of control tokens, such as "<|im_start|>", for these tokens. A text from elsewhere must be
	// encoded without it. User-defined tokens are always found.
	Special bool
	// Mark, unless it is "", is taken out of the text after special tokens were found: Guard puts it into text from elsewhere.
	Mark string
	// EOS puts the EOS token behind the text, if the model's metadata say so. Models for embeddings want that.
	EOS bool
}

// Encode returns the tokens of a text. It takes time in proportion to n log n of the text's n bytes. A byte for which the
// vocabulary has no token becomes the unknown token in SentencePiece, and nothing in byte-level BPE, as in llama.cpp.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	e := encoder{t: t}
	if t.bos != None && (o.BOS == BOSAlways || o.BOS == BOSAsModel && t.addBOS) {
		e.out = append(e.out, t.bos)
	}
	at, afterSpecial := 0, true
	for _, m := range t.special.split(text, o.Special) {
		if m.start > at {
			e.fragment(unmarked(text[at:m.start], o.Mark), afterSpecial)
		}
		e.out = append(e.out, m.id)
		at, afterSpecial = m.end, true
	}
	if at < len(text) {
		e.fragment(unmarked(text[at:], o.Mark), afterSpecial)
	}
	if o.EOS && t.addEOS && t.eos != None {
		e.out = append(e.out, t.eos)
	}
	return e.out
}

func unmarked(text, mark string) string {
	if mark == "" {
		return text
	}
	return strings.ReplaceAll(text, mark, "")
}

// Guard puts mark into each text of a control token that it finds, behind the first character, and into the beginning of one at the
// end, which another text might complete. Encode with Special and the same mark then gives the tokens that text has without Special. So
// parts of a text cannot be taken for control tokens.
func (t *Tokenizer) Guard(text, mark string) string {
	var b strings.Builder
	at := 0
	for i := range len(text) {
		if t.special.begins[1][text[i]] && (t.special.hiddenAt(text[i:]) || t.special.hiddenBegins(text[i:])) {
			_, n := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[at:i+n] + mark)
			at = i + n
		}
	}
	return b.String() + text[at:]
}

// New reads the tokenizer of a model. It needs f no longer than it runs. An error names the key at fault: it is an *Error,
// or a *gguf.Error for a value that cannot be read.
func New(f *gguf.File) (*Tokenizer, error) {
	r := reader{f: f}
	t := r.tokenizer()
	if r.err != nil {
		return nil, r.err
	}
	return t, nil
}
