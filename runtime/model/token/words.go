package token

import (
	"unicode"
	"unicode/utf8"
)

// wordRule says where byte-level BPE splits a text into words, inside of which tokens are merged. The zero value is
// GPT-2's rule: the first of these that fits at a place is the word there.
//
//	'(s|t|m|d|re|ve|ll)     an English ending
//	 ?L+                    letters
//	 ?N+                    digits
//	 ?(not space, L, N)+    anything else
//	space+                  white space, the last of it left to a word that follows
//
// The rules of other models differ from it in these fields.
type wordRule struct {
	foldCase bool // the endings may be in capitals
	anyLead  bool // letters may follow any one character other than \r, \n and digits, instead of a space only
	marks    bool // combining marks count as letters
	lineEnds bool // line ends after anything else belong to it, and white space ends behind its last line end
	digits   int  // the most digits in a word, which takes no space then; 0: any number
}

// class is the class of a character.
type class uint8

const (
	other class = iota
	space
	letter
	digit
	none // behind the end
)

// character decodes the character at the beginning of s: its class and its bytes. Bytes of s that are no UTF-8 are
// surrogates of 3 bytes. The classes are Unicode 15.1's, as in llama.cpp: to Go's 15.0 it adds one block of letters.
func (w *wordRule) character(s string) (c rune, k class, n int) {
	if s == "" {
		return 0, none, 0
	}
	c, n = rune(s[0]), 1
	if c < utf8.RuneSelf {
		return c, ascii[c], 1
	}
	switch c, n = utf8.DecodeRuneInString(s); {
	case c == utf8.RuneError && n == 1:
		return c, other, min(3, len(s))
	case unicode.IsLetter(c), 0x2ebf0 <= c && c <= 0x2ee5d, w.marks && unicode.IsMark(c):
		return c, letter, n
	case unicode.IsNumber(c):
		return c, digit, n
	case unicode.IsSpace(c):
		return c, space, n
	}
	return c, other, n
}

// ascii has the classes of the first characters.
var ascii = func() (k [utf8.RuneSelf]class) {
	for c := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(c):
			k[c] = letter
		case unicode.IsNumber(c):
			k[c] = digit
		case unicode.IsSpace(c):
			k[c] = space
		}
	}
	return k
}()

// next returns the number of bytes of the first word of s, which is not empty.
func (w *wordRule) next(s string) int {
	if n := w.ending(s); n > 0 {
		return n
	}
	c, k, n := w.character(s)
	_, follows, _ := w.character(s[n:])
	if w.anyLead && follows == letter && k != digit && !isLineEnd(c) {
		return n + w.run(s[n:], letter, 0)
	}
	lead := 0
	if c == ' ' && (follows == letter || follows == other || follows == digit && w.digits == 0) {
		lead, k = n, follows
	}
	switch k {
	case letter:
		return lead + w.run(s[lead:], letter, 0)
	case digit:
		return lead + w.run(s[lead:], digit, w.digits)
	case other:
		n := lead + w.run(s[lead:], other, 0)
		for w.lineEnds && n < len(s) && isLineEnd(rune(s[n])) {
			n++
		}
		return n
	}
	return w.spaces(s)
}

func isLineEnd(c rune) bool { return c == '\r' || c == '\n' }

// run returns the bytes of the characters of one class that s begins with. It stops after most of them, if most is not 0.
func (w *wordRule) run(s string, of class, most int) int {
	at := 0
	for i := 0; most == 0 || i < most; i++ {
		_, k, n := w.character(s[at:])
		if k != of {
			break
		}
		at += n
	}
	return at
}

// ending returns the bytes of an English ending with its apostrophe, or 0.
func (w *wordRule) ending(s string) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	switch first := w.fold(s[1]); {
	case first == 's', first == 't', first == 'm', first == 'd':
		return 2
	case len(s) < 3:
		return 0
	default:
		second := w.fold(s[2])
		if second == 'e' && (first == 'r' || first == 'v') || second == 'l' && first == 'l' {
			return 3
		}
	}
	return 0
}

// fold is c, in lower case if the rule does not tell cases apart.
func (w *wordRule) fold(c byte) byte {
	if w.foldCase && 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// spaces returns the bytes of the white space at the beginning of s that make one word.
func (w *wordRule) spaces(s string) int {
	at, last, lineEnd, count := 0, 0, 0, 0
	for {
		c, k, n := w.character(s[at:])
		if k != space {
			break
		}
		last = at
		at += n
		count++
		if isLineEnd(c) {
			lineEnd = at
		}
	}
	switch {
	case w.lineEnds && lineEnd > 0:
		return lineEnd
	case count > 1 && at < len(s):
		return last // the last one belongs to the next word
	}
	return at
}
