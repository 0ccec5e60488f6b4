package token

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// split cuts a text into parts, which it gives to a function in their order.
type split func(text string, part func(string))

// matcher returns the bytes of what it matches at the beginning of a text, or 0.
type matcher func(s string) int

// matches cuts at each match. The text between two matches is a part, too.
func matches(match matcher) split {
	return func(text string, part func(string)) {
		begin, at := 0, 0
		for at < len(text) {
			n := match(text[at:])
			if n == 0 {
				at += characterBytes(text[at])
				continue
			}
			if begin < at {
				part(text[begin:at])
			}
			part(text[at : at+n])
			at += n
			begin = at
		}
		if begin < len(text) {
			part(text[begin:])
		}
	}
}

// digits matches digits, at most a number of them; 0: any number.
func digits(most int) matcher {
	return func(s string) int { return run(s, digit, most) }
}

// set is characters: the ones of some classes, and single ones. White space beyond ASCII counts by its class only, as in
// llama.cpp.
type set struct {
	classes class
	but     *unicode.RangeTable // without these
	chars   *unicode.RangeTable
}

func (x *set) has(c rune, k class) bool {
	if k&x.classes != 0 {
		return x.but == nil || !unicode.Is(x.but, c)
	}
	return x.chars != nil && (k != space || c < utf8.RuneSelf) && unicode.Is(x.chars, c)
}

// chars has the characters of a text. A hyphen between two characters stands for all between them.
func chars(text string) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	all := []rune(text)
	for i := 0; i < len(all); i++ {
		first, last := all[i], all[i]
		if i+2 < len(all) && all[i+1] == '-' {
			last = all[i+2]
			i += 2
		}
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(first), Hi: uint32(last), Stride: 1})
	}
	slices.SortFunc(t.R32, func(a, b unicode.Range32) int { return cmp.Compare(a.Lo, b.Lo) })
	t.R32 = joined(t.R32)
	return t
}

// joined makes one of ranges that overlap. They are sorted.
func joined(ranges []unicode.Range32) []unicode.Range32 {
	out := ranges[:1]
	for _, r := range ranges[1:] {
		if last := &out[len(out)-1]; r.Lo <= last.Hi {
			last.Hi = max(last.Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// series matches characters of a set, one behind the other.
type series struct {
	of          set
	lead        set // one of these may stand before them
	least, most int // how many: at least 1, and at most any number if most is 0
}

func (x series) match(s string) int {
	c, k, n := character(s)
	if n > 0 && x.lead.has(c, k) {
		if behind := x.length(s[n:]); behind > 0 {
			return n + behind
		}
	}
	return x.length(s)
}

// afterSpace cuts at each series of characters of a set, with a white space before them.
func afterSpace(of set) split { return matches(series{lead: set{classes: space}, of: of}.match) }

// length returns the bytes of the characters that s begins with, or 0 if they are too few.
func (x *series) length(s string) int {
	at, count := 0, 0
	for x.most == 0 || count < x.most {
		c, k, n := character(s[at:])
		if n == 0 || !x.of.has(c, k) {
			break
		}
		at += n
		count++
	}
	if count < x.least {
		return 0
	}
	return at
}

// firstOf matches what the first of several matchers does that matches anything.
func firstOf(all ...matcher) matcher {
	return func(s string) int {
		for _, match := range all {
			if n := match(s); n > 0 {
				return n
			}
		}
		return 0
	}
}

// lines cuts before and after runs of \n.
func lines(text string, part func(string)) {
	for text != "" {
		n := strings.IndexByte(text, '\n')
		if n == 0 {
			n = len(text) - len(strings.TrimLeft(text, "\n"))
		} else if n < 0 {
			n = len(text)
		}
		part(text[:n])
		text = text[n:]
	}
}

// whiteEnd cuts off the white space at the end of a text.
func whiteEnd(text string, part func(string)) {
	n := len(strings.TrimRightFunc(text, unicode.IsSpace))
	if n > 0 {
		part(text[:n])
	}
	if n < len(text) {
		part(text[n:])
	}
}

// thousands cuts behind every group of digits: groups are of three, and the first of a number may be shorter. The text before
// a number stays with its first group.
func thousands(text string, part func(string)) {
	begin := 0
	for at := 0; at < len(text); {
		_, k, n := character(text[at:])
		if k != digit {
			at += n
			continue
		}
		end := at + run(text[at:], digit, 0)
		for group := firstGroup(utf8.RuneCountInString(text[at:end])); at < end; group = 3 {
			at += run(text[at:], digit, group)
			part(text[begin:at])
			begin = at
		}
	}
	if begin < len(text) {
		part(text[begin:])
	}
}

// firstGroup is the number of digits before the first mark of thousands in a number of some digits.
func firstGroup(digits int) int { return (digits-1)%3 + 1 }

// beforeThousands cuts before every three, six, nine and so on of the last digits of a number. Its digits are 0 to 9.
func beforeThousands(text string, part func(string)) {
	begin := 0
	for at := 0; at < len(text); at++ {
		end := at
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		for cut := at + (end-at)%3; cut < end; cut += 3 {
			if begin < cut {
				part(text[begin:cut])
			}
			begin = cut
		}
		at = end
	}
	if begin < len(text) {
		part(text[begin:])
	}
}

// halves cuts a part of white space without line ends into powers of two, the largest first, of up to 512 characters.
func halves(text string, part func(string)) {
	if run(text, space, 0) < len(text) || strings.ContainsAny(text, "\r\n") {
		part(text)
		return
	}
	left := utf8.RuneCountInString(text)
	for size := 512; text != ""; left -= size {
		for size > left {
			size /= 2
		}
		n := run(text, space, size)
		part(text[:n])
		text = text[n:]
	}
}

// signRule is DeepSeek-V3's rule for text without digits: the first of these that fits at a place is a word.
//
//	ASCII's P or S, then ASCII letters
//	(not \r, \n, L, P, S)?(L or M)+     letters and combining marks
//	 ?(P or S)+                         punctuation and symbols
//	space+                              as in wordRule
type signRule struct {
	// lineEnds: line ends after punctuation belong to it, and white space ends behind its last line end. Otherwise a line
	// end is a word of its own.
	lineEnds bool
}

func (r signRule) match(s string) int {
	c, k, n := character(s)
	if c < utf8.RuneSelf && k&(punctuation|sign) != 0 {
		if m := asciiLetters(s[n:]); m > 0 {
			return n + m
		}
	}
	if k&(letter|punctuation|sign) == 0 && !isLineEnd(c) {
		if m := run(s[n:], letter|mark, 0); m > 0 {
			return n + m
		}
	}
	if m := run(s, letter|mark, 0); m > 0 {
		return m
	}
	lead := 0
	if c == ' ' {
		lead = n
	}
	if m := run(s[lead:], punctuation|sign, 0); m > 0 {
		n = lead + m
		for r.lineEnds && n < len(s) && isLineEnd(rune(s[n])) {
			n++
		}
		return n
	}
	if !r.lineEnds && isLineEnd(c) {
		return n
	}
	return white(s, r.lineEnds)
}

func asciiLetters(s string) int {
	return len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
}

// sentinel, image and gap match what only Chameleon's pre-tokenizer keeps together: names of its special tokens, and white
// space of four characters, two or one.
func sentinel(s string) int {
	const begin = "<sentinel:"
	rest, ok := strings.CutPrefix(s, begin)
	if !ok {
		return 0
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits == 0 || !strings.HasPrefix(rest[digits:], ">") {
		return 0
	}
	return len(begin) + digits + 1
}

func image(s string) int {
	const begin = "IMGIMG"
	rest, ok := strings.CutPrefix(s, begin)
	name := 0
	for name < min(len(rest), 4) && 'A' <= rest[name] && rest[name] <= 'I' {
		name++
	}
	if !ok || name == 0 || !strings.HasPrefix(rest[name:], "Z") {
		return 0
	}
	return len(begin) + name + 1
}

func gap(s string) int {
	for _, blank := range []string{"\t", "\n", "    ", "  "} {
		if strings.HasPrefix(s, blank) {
			return len(blank)
		}
	}
	return 0
}
