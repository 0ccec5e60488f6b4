package token

import (
	"unicode"
	"unicode/utf8"
)

// class is the class of a character. Classes can be joined: letter|mark is one of both.
type class uint8

const (
	other class = 1 << iota // controls and what Unicode has not assigned
	space
	letter
	digit
	mark
	punctuation
	sign // a symbol of Unicode, such as + and $
)

// anyOther is the class of all but white space, letters and digits.
const anyOther = other | mark | punctuation | sign

// character decodes the character at the beginning of s: its class and its bytes. Behind the end of a text it has no class
// and no bytes. Bytes of s that are no UTF-8 are surrogates of 3 bytes.
func character(s string) (c rune, k class, n int) {
	if s == "" {
		return 0, 0, 0
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), ascii[s[0]], 1
	}
	if c, n = utf8.DecodeRuneInString(s); c == utf8.RuneError && n == 1 {
		return c, other, min(3, len(s))
	}
	return c, classOf(c), n
}

// ascii has the classes of the first characters.
var ascii = func() (k [utf8.RuneSelf]class) {
	for c := range k {
		k[c] = classOf(rune(c))
	}
	return k
}()

// classOf is the class of a character by Unicode 15.1, as in llama.cpp: to Go's 15.0 it adds a block of letters and five
// symbols.
func classOf(c rune) class {
	switch {
	case unicode.IsLetter(c), 0x2ebf0 <= c && c <= 0x2ee5d:
		return letter
	case unicode.IsNumber(c):
		return digit
	case unicode.IsSpace(c):
		return space
	case unicode.IsMark(c):
		return mark
	case unicode.IsPunct(c):
		return punctuation
	case unicode.IsSymbol(c), 0x2ffc <= c && c <= 0x2fff, c == 0x31ef:
		return sign
	}
	return other
}

func isLineEnd(c rune) bool { return c == '\r' || c == '\n' }
