package token

import (
	"strings"
	"unicode/utf8"
)

// encoder makes the tokens of one text.
type encoder struct {
	t   *Tokenizer
	out []int32
	m   merger
}

// fragment encodes text between special tokens.
func (e *encoder) fragment(text string, afterSpecial bool) {
	if e.t.pre == nil {
		e.sentencePiece(text, afterSpecial)
		return
	}
	e.words(wellFormed(text), e.t.pre.splits)
}

// words encodes the words that splits make of a text.
func (e *encoder) words(text string, splits []split) {
	if len(splits) == 0 {
		e.word(text)
		return
	}
	splits[0](text, func(part string) { e.words(part, splits[1:]) })
}

// word encodes a word by byte-level BPE.
func (e *encoder) word(word string) {
	t := e.t
	if t.pre.wholeWords {
		if id := t.lookUp(word); t.isToken(id) {
			e.out = append(e.out, id)
			return
		}
	}
	e.m.reset()
	for i := range len(word) {
		e.m.add(i, i+1, t.bytes[word[i]])
	}
	e.m.join(func(left, right *symbol) (merge, bool) {
		to, ok := t.merges[pairKey(left.id, right.id)]
		return to, ok
	})
	e.emit(word)
}

// pairKey is the key of two symbols in Tokenizer.merges.
func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// sentencePiece encodes text by SentencePiece's merges: of all neighbours that make a token together, the highest score
// is joined first.
func (e *encoder) sentencePiece(text string, afterSpecial bool) {
	t := e.t
	if t.spacePrefix && afterSpecial {
		text = " " + text
	}
	text = strings.ReplaceAll(text, " ", visibleSpace)
	e.m.reset()
	for at := 0; at < len(text); {
		end := min(at+characterBytes(text[at]), len(text))
		e.m.add(at, end, t.lookUp(text[at:end]))
		at = end
	}
	e.m.join(func(left, right *symbol) (merge, bool) {
		if right.end-left.start > t.longest {
			return merge{}, false
		}
		id := t.lookUp(text[left.start:right.end])
		if id == None {
			return merge{}, false
		}
		return merge{t.ranks[id], id}, true
	})
	e.emit(text)
}

// emit appends the tokens of the merged symbols of a text. A symbol that is no token becomes the tokens of its bytes.
func (e *encoder) emit(text string) {
	for _, s := range e.m.symbols {
		switch {
		case s.id == absorbed:
		case e.t.isToken(s.id):
			e.out = append(e.out, s.id)
		default:
			e.byBytes(text[s.start:s.end])
		}
	}
}

func (e *encoder) byBytes(s string) {
	for i := range len(s) {
		switch id := e.t.bytes[s[i]]; {
		case e.t.isToken(id):
			e.out = append(e.out, id)
		case e.t.pre == nil:
			e.out = append(e.out, e.t.unk)
		}
	}
}

// characterBytes is the length of a character of UTF-8 that begins with b. A byte that begins none is alone.
func characterBytes(b byte) int {
	switch {
	case b >= 0xf0:
		return 4
	case b >= 0xe0:
		return 3
	case b >= 0xc0:
		return 2
	}
	return 1
}

// wellFormed returns s with U+FFFD for each byte that begins no character. As in llama.cpp, a character of more bytes
// than it needs counts as that character, and a surrogate stays one.
func wellFormed(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for s != "" {
		c, n := loose(s)
		if 0xd800 <= c && c <= 0xdfff {
			b = append(b, 0xe0|byte(c>>12), 0x80|byte(c>>6&0x3f), 0x80|byte(c&0x3f))
		} else {
			b = utf8.AppendRune(b, c)
		}
		s = s[n:]
	}
	return string(b)
}

// loose decodes the first character of s by the marks of its bytes alone. A byte that begins none is U+FFFD.
func loose(s string) (c rune, n int) {
	switch n = characterBytes(s[0]); {
	case s[0] < utf8.RuneSelf:
		return rune(s[0]), 1
	case n == 1 || n > len(s) || s[0] >= 0xf8:
		return utf8.RuneError, 1
	}
	c = rune(s[0]) & (0x7f >> n)
	for _, b := range []byte(s[1:n]) {
		if b&0xc0 != 0x80 {
			return utf8.RuneError, 1
		}
		c = c<<6 | rune(b&0x3f)
	}
	if c > utf8.MaxRune {
		return utf8.RuneError, 1
	}
	return c, n
}
