package token

import (
	"strings"
	"unicode"
)

// wordRule says where byte-level BPE splits a text into words. Tokens are merged inside them. The zero value is GPT-2's rule:
// the first of these that fits at a place is the word there.
//
//	'(s|t|m|d|re|ve|ll)     an English ending
//	 ?L+                    letters
//	 ?N+                    digits
//	 ?(not space, L, N)+    anything else
//	space+                  white space, the last of it left to a word that follows
//
// The rules of other models differ from it in these fields.
type wordRule struct {
	endings  endings             // where English endings are words
	anyLead  bool                // letters may follow any one character other than \r, \n and digits, instead of a space only
	letters  class               // the characters of words of letters; 0: letter
	except   *unicode.RangeTable // letters that are in no word of letters
	cases    bool                // capitals of ASCII are in words of letters only before its small letters
	phrases  bool                // single spaces and combining marks between letters belong to them
	others   class               // the characters of words of anything else; 0: anyOther
	tail     string              // characters of ASCII behind anything else that belong to it
	tailMost int                 // how many; 0: any number
	lineEnds bool                // white space ends behind its last line end
	digits   int                 // the most digits in a word, which takes no space then; 0: any number
}

// endings says how English endings are found.
type endings uint8

const (
	smallEndings  endings = iota
	anyEndings            // in capitals, too
	joinedEndings         // in capitals, too, and a part of the word of letters before them
	noEndings
)

// split cuts a text into words.
func (w wordRule) split() split { return matches(w.match()) }

func (w wordRule) match() matcher {
	if w.letters == 0 {
		w.letters = letter
	}
	if w.others == 0 {
		w.others = anyOther
	}
	return w.word
}

// word returns the bytes of the first word of s, which is not empty.
func (w *wordRule) word(s string) int {
	if w.endings <= anyEndings {
		if n := ending(s, w.endings == anyEndings); n > 0 {
			return n
		}
	}
	if n := w.ledLetters(s); n > 0 {
		if w.endings == joinedEndings {
			n += ending(s[n:], true)
		}
		return n
	}
	c, k, n := character(s)
	lead := 0
	if _, follows, _ := character(s[n:]); c == ' ' && (follows&w.others != 0 || follows == digit && w.digits == 0) {
		lead, k = n, follows
	}
	switch {
	case k == digit:
		return lead + run(s[lead:], digit, w.digits)
	case k&w.others != 0:
		n := lead + run(s[lead:], w.others, 0)
		for i := 0; n < len(s) && (w.tailMost == 0 || i < w.tailMost) && strings.IndexByte(w.tail, s[n]) >= 0; i++ {
			n++
		}
		return n
	}
	return white(s, w.lineEnds)
}

// ledLetters returns the bytes of letters, with a character that may stand before them, or 0.
func (w *wordRule) ledLetters(s string) int {
	c, k, n := character(s)
	if w.anyLead && (k&(letter|digit) != 0 || isLineEnd(c)) || !w.anyLead && c != ' ' {
		n = 0
	}
	small, capital := w.lettersOf(s[n:])
	switch {
	case small > 0:
		return n + small
	case n > 0: // what stands before letters may be one of them
		alone, aloneCapital := w.lettersOf(s)
		if alone > 0 {
			return alone
		}
		if capital == 0 {
			return aloneCapital
		}
	}
	if capital > 0 {
		return n + capital
	}
	return 0
}

// lettersOf returns the bytes of letters that s begins with. If the rule has cases, small is the bytes of capitals and then at
// least one small letter, and capital the bytes of capitals alone. A letter beyond ASCII is both.
func (w *wordRule) lettersOf(s string) (small, capital int) {
	if !w.cases {
		return w.run(s, 0, 0), 0
	}
	capital = w.run(s, 'a', 'z')
	if behind := w.run(s[capital:], 'A', 'Z'); behind > 0 {
		return capital + behind, capital
	}
	return len(strings.TrimRight(s[:capital], "ABCDEFGHIJKLMNOPQRSTUVWXYZ")), capital
}

// run returns the bytes of the letters that s begins with, up to one from first to last.
func (w *wordRule) run(s string, first, last rune) int {
	for at := 0; ; {
		c, k, n := character(s[at:])
		in := k&w.letters != 0 && (c < first || c > last) && (w.except == nil || !unicode.Is(w.except, c))
		if w.phrases && at > 0 && !in {
			_, follows, _ := character(s[at+n:])
			in = k == mark || c == ' ' && follows&w.letters != 0
		}
		if !in {
			return at
		}
		at += n
	}
}

// run returns the bytes of the characters of a class that s begins with. It stops after most of them, if most is not 0.
func run(s string, of class, most int) int {
	at := 0
	for i := 0; most == 0 || i < most; i++ {
		_, k, n := character(s[at:])
		if k&of == 0 {
			break
		}
		at += n
	}
	return at
}

// ending returns the bytes of an English ending with its apostrophe, or 0. It may be in capitals if fold is true.
func ending(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lower := func(c byte) byte {
		if fold && 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}
	switch first := lower(s[1]); {
	case first == 's', first == 't', first == 'm', first == 'd':
		return 2
	case len(s) < 3:
		return 0
	default:
		second := lower(s[2])
		if second == 'e' && (first == 'r' || first == 'v') || second == 'l' && first == 'l' {
			return 3
		}
	}
	return 0
}

// white returns the bytes of the white space at the beginning of s that make one word, or 0. It may end behind its last line
// end.
func white(s string, lineEnds bool) int {
	at, last, lineEnd, count := 0, 0, 0, 0
	for {
		c, k, n := character(s[at:])
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
	case lineEnds && lineEnd > 0:
		return lineEnd
	case count > 1 && at < len(s):
		return last // the last one belongs to the next word
	}
	return at
}
