package token

import (
	"strings"
	"unicode/utf8"
)

// visibleSpace stands for a space in the tokens of SentencePiece.
const visibleSpace = "\u2581"

// AppendPiece appends the bytes that a token stands for, which may be a part of a character. Control tokens such as
// BOS have none unless special is true: then they have their text. An id that is no token has none.
func (t *Tokenizer) AppendPiece(dst []byte, id int32, special bool) []byte {
	if !t.isToken(id) {
		return dst
	}
	k, text := t.kinds[id], t.texts[id]
	switch {
	case k.isHidden() && !special, k == unused, k == undefined:
		return dst
	case k != normal || t.pre != nil:
		return append(dst, text...)
	}
	for {
		before, after, found := strings.Cut(text, visibleSpace)
		dst = append(dst, before...)
		if !found {
			return dst
		}
		dst, text = append(dst, ' '), after
	}
}

// Decode joins the pieces of tokens to a text. The space that SentencePiece's Encode puts before a text is taken away
// again. Pieces that do not end in whole characters stay as they are: for text as it comes, use a Decoder.
func (t *Tokenizer) Decode(ids []int32, special bool) string {
	var b []byte
	for i, id := range ids {
		n := len(b)
		b = t.AppendPiece(b, id, special)
		if i == 0 && t.spacePrefix && len(b) > n && b[n] == ' ' {
			b = b[:copy(b, b[1:])]
		}
	}
	return string(b)
}

// Decoder makes text of tokens as they come. Its text is always UTF-8 and has no half characters.
type Decoder struct {
	t       *Tokenizer
	special bool
	held    []byte // the beginning of a character
	out     []byte
}

// Decoder returns one that begins a text. Control tokens have a text if special is true.
func (t *Tokenizer) Decoder(special bool) *Decoder { return &Decoder{t: t, special: special} }

// Write takes the next token and returns the text that is complete now, possibly nothing. Bytes that can never become a
// character are U+FFFD. The result is valid until the next call.
func (d *Decoder) Write(id int32) []byte {
	d.held = d.t.AppendPiece(d.held, id, d.special)
	d.out = d.out[:0]
	rest := d.held
	for len(rest) > 0 && utf8.FullRune(rest) {
		c, n := utf8.DecodeRune(rest)
		if c == utf8.RuneError && n == 1 {
			n = max(1, begun(rest))
		}
		d.out = utf8.AppendRune(d.out, c)
		rest = rest[n:]
	}
	d.held = d.held[:copy(d.held, rest)]
	return d.out
}

// Flush ends the text: a character that was only begun is U+FFFD. The Decoder can begin another text then.
func (d *Decoder) Flush() []byte {
	d.out = d.out[:0]
	if len(d.held) > 0 {
		d.out = utf8.AppendRune(d.out, utf8.RuneError)
		d.held = d.held[:0]
	}
	return d.out
}

// begun is the number of bytes at the beginning of b that could have become a character.
func begun(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
