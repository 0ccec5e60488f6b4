package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is the characters of a string that match a regular expression of ECMA-262, with literals, sets, groups, | and
// repetitions, and with ^ and $ at the ends of its alternatives alone.
func (s *schema) pattern(v value) (int32, error) {
	p := &expression{schema: s, text: v.text, path: v.path}
	n := p.alternatives(true)
	switch {
	case p.err != nil || p.at == len(p.text):
	case p.has(")"):
		p.refuse(p.at-1, "there is no ( for the )")
	default:
		p.refuse(p.at-1, "$ is possible at the end alone")
	}
	return n, p.err
}

// expression reads a regular expression. After an error it reads nothing.
type expression struct {
	*schema
	text  string
	at    int
	depth int
	path  *path
	err   error
}

// refuse keeps the first error.
func (p *expression) refuse(at int, format string, args ...any) {
	if p.err == nil {
		p.err = errorf(p.path, "the pattern %q, character %d: %s", p.text, 1+utf8.RuneCountInString(p.text[:at]), fmt.Sprintf(format, args...))
	}
	p.at = len(p.text)
}

// has takes a text, if it comes next.
func (p *expression) has(text string) bool {
	ok := strings.HasPrefix(p.text[p.at:], text)
	if ok {
		p.at += len(text)
	}
	return ok
}

// take takes a character.
func (p *expression) take() rune {
	c, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return c
}

// alternatives reads sequences with | between them. In the outermost ones anything may come before, unless they begin with ^,
// and after, unless they end with $.
func (p *expression) alternatives(outer bool) int32 {
	if p.depth++; p.depth > mostDepth {
		p.refuse(p.at, "there are more than %d groups in each other", mostDepth)
	}
	defer func() { p.depth-- }()
	var kids []int32
	for {
		var parts []int32
		if outer && !p.has("^") {
			parts = append(parts, p.repeat(p.schema.char(), 0, -1))
		}
		parts = append(parts, p.terms())
		if outer && !p.has("$") {
			parts = append(parts, p.repeat(p.schema.char(), 0, -1))
		}
		if kids = append(kids, p.sequence(parts...)); !p.has("|") {
			return p.choice(kids...)
		}
	}
}

// terms reads atoms with their repetitions.
func (p *expression) terms() int32 {
	var kids []int32
	for p.err == nil && p.at < len(p.text) && !strings.ContainsRune("|)$", rune(p.text[p.at])) {
		if len(p.nodes) > mostNodes {
			p.refuse(p.at, "the pattern is too large")
		}
		kids = append(kids, p.repeated(p.atom()))
	}
	return p.sequence(kids...)
}

// atom reads a character, a set of characters or a group.
func (p *expression) atom() int32 {
	from := p.at
	switch c := p.take(); c {
	case '(':
		return p.group(from)
	case '[':
		return p.class(from)
	case '.':
		return p.charOf(from, newCharSet(span{'\n', '\n'}, span{'\r', '\r'}, span{0x2028, 0x2029}).not())
	case '\\':
		set, _ := p.escape(from, false)
		return p.charOf(from, set)
	case '^':
		p.refuse(from, "^ is possible at the beginning alone")
	case '*', '+', '?', '{', '}', ']':
		p.refuse(from, "nothing comes before %c: for the character write \\%c", c, c)
	default:
		return p.charOf(from, newCharSet(span{c, c}))
	}
	return 0
}

// charOf is a character of a set.
func (p *expression) charOf(from int, set charSet) int32 {
	n := p.schema.charOf(set)
	if n == impossible {
		p.refuse(from, "no character that JSON can write is in the set")
		return 0
	}
	return n
}

// group reads the alternatives of a group.
func (p *expression) group(from int) int32 {
	if !p.has("?:") && p.has("?") {
		p.refuse(from, "groups that begin with (?%s are not possible", string(p.take()))
	}
	n := p.alternatives(false)
	switch {
	case p.err != nil || p.has(")"):
	case p.has("$"):
		p.refuse(p.at-1, "$ is possible at the end alone")
	default:
		p.refuse(from, "the ( has no )")
	}
	return n
}

// repeated reads the repetitions of an atom. Lazy ones match the same strings.
func (p *expression) repeated(kid int32) int32 {
	from := p.at
	least, most := int32(0), int32(-1)
	switch {
	case p.has("*"):
	case p.has("+"):
		least = 1
	case p.has("?"):
		most = 1
	case p.has("{"):
		least, most = p.bounds(from)
	default:
		return kid
	}
	p.has("?")
	return p.repeat(kid, least, most)
}

// bounds reads m}, m,} or m,n}.
func (p *expression) bounds(from int) (int32, int32) {
	inside, _, ok := strings.Cut(p.text[p.at:], "}")
	first, last, two := strings.Cut(inside, ",")
	least, err := strconv.ParseUint(first, 10, 31)
	most := least
	if two && last != "" && err == nil {
		most, err = strconv.ParseUint(last, 10, 31)
	}
	if !ok || err != nil || most < least || most > mostRepeats {
		p.refuse(from, "want {m}, {m,} or {m,n}, with numbers up to %d", mostRepeats)
		return 0, 0
	}
	p.at += len(inside) + 1
	if two && last == "" {
		return int32(least), -1
	}
	return int32(least), int32(most)
}

// The sets of the escapes in lower case. White space is the one that all dialects agree on, or the one of ECMA-262.
var (
	digitChars = newCharSet(span{'0', '9'})
	wordChars  = newCharSet(span{'0', '9'}, span{'a', 'z'}, span{'A', 'Z'}, span{'_', '_'})
	someBlanks = newCharSet(span{'\t', '\n'}, span{'\f', '\r'}, span{' ', ' '})
	allBlanks  = newCharSet(span{'\t', '\r'}, span{' ', ' '}, span{0xa0, 0xa0}, span{0x1680, 0x1680}, span{0x2000, 0x200a},
		span{0x2028, 0x2029}, span{0x202f, 0x202f}, span{0x205f, 0x205f}, span{0x3000, 0x3000}, span{0xfeff, 0xfeff})
)

// escape reads the character after a backslash. It returns the set of characters, and whether it is of one. In a negated class
// a set has all characters that may belong to it.
func (p *expression) escape(from int, negated bool) (charSet, bool) {
	blanks, others := someBlanks, allBlanks
	if negated {
		blanks, others = allBlanks, someBlanks
	}
	switch c := p.take(); c {
	case 'd':
		return digitChars, false
	case 'D':
		return digitChars.not(), false
	case 'w':
		return wordChars, false
	case 'W':
		return wordChars.not(), false
	case 's':
		return blanks, false
	case 'S':
		return others.not(), false
	case 'x':
		return p.code(from, 2), true
	case 'u':
		return p.code(from, 4), true
	default:
		if letter := strings.IndexRune("nrtfv", c); letter >= 0 {
			c = rune("\n\r\t\f\v"[letter])
		} else if c < ' ' || wordChars.has(c) || c == utf8.RuneError {
			p.refuse(from, "the escape \\%c is not possible", c)
		}
		return newCharSet(span{c, c}), true
	}
}

// code reads hexadecimal digits of a character.
func (p *expression) code(from, count int) charSet {
	text := p.text[p.at:min(p.at+count, len(p.text))]
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) < count || !utf8.ValidRune(rune(n)) {
		p.refuse(from, "want %d hexadecimal digits of a character", count)
		return nil
	}
	p.at += count
	return newCharSet(span{rune(n), rune(n)})
}

// class reads a set of characters up to the ].
func (p *expression) class(from int) int32 {
	negated := p.has("^")
	var spans []span
	for p.err == nil && !p.has("]") {
		if p.at == len(p.text) {
			p.refuse(from, "the [ has no ]")
			break
		}
		set, one := p.member(negated)
		if one && strings.HasPrefix(p.text[p.at:], "-") && !strings.HasPrefix(p.text[p.at:], "-]") {
			at := p.at
			p.at++
			last, one := p.member(negated)
			if p.err == nil && (!one || last[0].lo < set[0].lo) {
				p.refuse(at, "want the larger character after -")
			}
			if p.err == nil {
				set = newCharSet(span{set[0].lo, last[0].lo})
			}
		}
		spans = append(spans, set...)
	}
	set := newCharSet(spans...)
	if negated {
		set = set.not()
	}
	return p.charOf(from, set)
}

// member reads a character or an escape in a class.
func (p *expression) member(negated bool) (charSet, bool) {
	from := p.at
	c := p.take()
	if c == '\\' {
		return p.escape(from, negated)
	}
	return newCharSet(span{c, c}), true
}
