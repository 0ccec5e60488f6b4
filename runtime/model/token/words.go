package token

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

// split cuts a text into words.
func (w wordRule) split() split { return matches(w.word) }

// word returns the bytes of the first word of s, which is not empty.
func (w *wordRule) word(s string) int {
	if n := w.ending(s); n > 0 {
		return n
	}
	letters, others := letter, anyOther
	if w.marks {
		letters, others = letter|mark, anyOther&^mark
	}
	c, k, n := character(s)
	_, follows, _ := character(s[n:])
	if w.anyLead && follows&letters != 0 && k != digit && !isLineEnd(c) {
		return n + run(s[n:], letters, 0)
	}
	lead := 0
	if c == ' ' && (follows&(letters|others) != 0 || follows == digit && w.digits == 0) {
		lead, k = n, follows
	}
	switch {
	case k&letters != 0:
		return lead + run(s[lead:], letters, 0)
	case k == digit:
		return lead + run(s[lead:], digit, w.digits)
	case k&others != 0:
		n := lead + run(s[lead:], others, 0)
		for w.lineEnds && n < len(s) && isLineEnd(rune(s[n])) {
			n++
		}
		return n
	}
	return w.spaces(s)
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
	case w.lineEnds && lineEnd > 0:
		return lineEnd
	case count > 1 && at < len(s):
		return last // the last one belongs to the next word
	}
	return at
}
