package grammar

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Parse reads a grammar in GBNF, llama.cpp's language:
//
//	# a list of words
//	root ::= "- " word ("\n- " word){0,9}
//	word ::= [a-zA-Z]+ | "é"
//
// The rule root is the whole text. An *Error has the line and the column.
func Parse(text string) (*Grammar, error) {
	if len(text) > mostText {
		return nil, errorf(line("line 1, column 1"), "the grammar has %d bytes, at most %d are allowed", len(text), mostText)
	}
	p := &parser{builder: newBuilder(), text: text, rules: map[string]int32{}, defined: map[string]bool{}, last: lineStart{number: 1}}
	p.space(true)
	for p.err == nil && p.at < len(p.text) {
		p.rule()
	}
	if p.err == nil {
		p.complete()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.grammar(p.rules["root"], p.place(0))
}

// parser reads GBNF. After an error it reads nothing.
type parser struct {
	*builder
	text    string
	at      int
	depth   int // of parentheses
	rules   map[string]int32
	defined map[string]bool
	uses    []use     // of rules, in the order of the text
	last    lineStart // of the line of the last place
	err     error
}

// use is where a rule is used.
type use struct {
	name string
	at   int
}

// fail keeps the first error.
func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = errorf(p.place(at), format, args...)
	}
	p.at = len(p.text)
}

// place is the line and the column of a byte, which count from 1. A column is a character. Places mostly ascend.
func (p *parser) place(at int) line {
	if at < p.last.at {
		p.last = lineStart{number: 1}
	}
	for end := strings.IndexByte(p.text[p.last.at:at], '\n'); end >= 0; end = strings.IndexByte(p.text[p.last.at:at], '\n') {
		p.last = lineStart{p.last.at + end + 1, p.last.number + 1}
	}
	return line(fmt.Sprintf("line %d, column %d", p.last.number, 1+utf8.RuneCountInString(p.text[p.last.at:at])))
}

// lineStart is where a line begins.
type lineStart struct{ at, number int }

// complete is an error if a rule is missing.
func (p *parser) complete() {
	for _, u := range p.uses {
		if !p.defined[u.name] {
			p.fail(u.at, "there is no rule %s", u.name)
			return
		}
	}
	if !p.defined["root"] {
		p.fail(0, "there is no rule root, which is the whole text: write root ::= ...")
	}
}

// peek is the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// space skips blanks and comments, and line ends if they may come.
func (p *parser) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t', lines && (c == '\r' || c == '\n'):
			p.at++
		case c == '#':
			if n := strings.IndexAny(p.text[p.at:], "\r\n"); n >= 0 {
				p.at += n
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// name reads the name of a rule.
func (p *parser) name() string {
	from := p.at
	for isName(p.peek()) {
		p.at++
	}
	if p.at == from {
		p.fail(from, "want the name of a rule, not %s", p.found(from))
	}
	return p.text[from:p.at]
}

// found is the character at a place, for errors.
func (p *parser) found(at int) string {
	c, _ := utf8.DecodeRuneInString(p.text[at:])
	switch {
	case at >= len(p.text):
		return "the end"
	case c == '\n' || c == '\r':
		return "the end of the line"
	}
	return fmt.Sprintf("%q", c)
}

// used is the node of a rule, which may be defined later.
func (p *parser) used(name string) int32 {
	n, ok := p.rules[name]
	if !ok {
		n = p.builder.rule(name, line(""))
		p.rules[name] = n
	}
	return n
}

// rule reads name ::= alternatives.
func (p *parser) rule() {
	from := p.at
	name := p.name()
	p.space(false)
	if p.err == nil && !strings.HasPrefix(p.text[p.at:], "::=") {
		p.fail(p.at, "want ::= after the name of a rule, not %s", p.found(p.at))
	}
	if p.err == nil && p.defined[name] {
		p.fail(from, "there is another rule %s before", name)
	}
	if p.err != nil {
		return
	}
	n := p.used(name)
	p.nodes[n].place = p.place(from)
	p.defined[name] = true
	p.at += len("::=")
	p.space(true)
	p.define(n, p.alternatives())
	switch c := p.peek(); {
	case p.err != nil || p.at == len(p.text):
	case c == '\n' || c == '\r':
		p.space(true)
	default:
		p.fail(p.at, "want the end of the rule, not %s", p.found(p.at))
	}
}

// alternatives reads sequences with | between them.
func (p *parser) alternatives() int32 {
	kids := []int32{p.sequenceOf()}
	for p.peek() == '|' {
		p.at++
		p.space(true)
		kids = append(kids, p.sequenceOf())
	}
	return p.choice(kids...)
}

// sequenceOf reads elements with their repetitions.
func (p *parser) sequenceOf() int32 {
	var kids []int32
	for p.err == nil {
		kid, ok := p.element()
		if !ok {
			break
		}
		p.space(p.depth > 0)
		kids = append(kids, p.repeated(kid))
	}
	return p.sequence(kids...)
}

// element reads a literal, a set of characters, a rule or a group, if one of them comes.
func (p *parser) element() (int32, bool) {
	from := p.at
	switch c := p.peek(); {
	case c == '"':
		return p.literalText(), true
	case c == '[':
		return p.class(), true
	case c == '.':
		p.at++
		return p.chars(anyChar()), true
	case c == '(':
		return p.group(), true
	case isName(c):
		name := p.name()
		p.uses = append(p.uses, use{name, from})
		return p.used(name), true
	case c == '<' || c == '!':
		p.fail(from, "tokens, such as <think>, are not possible in a grammar here: give their characters in quotes")
	}
	return 0, false
}

// group reads alternatives in parentheses.
func (p *parser) group() int32 {
	from := p.at
	if p.depth++; p.depth > mostDepth {
		p.fail(from, "there are more than %d parentheses in each other", mostDepth)
	}
	p.at = min(p.at+1, len(p.text))
	p.space(true)
	n := p.alternatives()
	if p.err == nil && p.peek() != ')' {
		p.fail(p.at, "want ) for the ( of %s, not %s", p.place(from), p.found(p.at))
	}
	p.at = min(p.at+1, len(p.text))
	p.depth--
	return n
}

// repeated reads the repetitions *, +, ?, {m}, {m,} and {m,n} of an element.
func (p *parser) repeated(kid int32) int32 {
	for p.err == nil {
		least, most := int32(0), int32(-1)
		switch p.peek() {
		case '*':
		case '+':
			least = 1
		case '?':
			most = 1
		case '{':
			least, most = p.bounds()
		default:
			return kid
		}
		p.at = min(p.at+1, len(p.text))
		p.space(p.depth > 0)
		kid = p.repeat(kid, least, most)
	}
	return kid
}

// bounds reads {m}, {m,} or {m,n} up to the }.
func (p *parser) bounds() (least, most int32) {
	from := p.at
	p.at++
	p.space(p.depth > 0)
	least = p.number()
	p.space(p.depth > 0)
	most = least
	if p.peek() == ',' {
		p.at++
		p.space(p.depth > 0)
		most = -1
		if p.peek() != '}' {
			most = p.number()
			p.space(p.depth > 0)
		}
	}
	switch {
	case p.err != nil:
	case p.peek() != '}':
		p.fail(p.at, "want } for the { of %s, not %s", p.place(from), p.found(p.at))
	case most >= 0 && most < least:
		p.fail(from, "the repetition is from %d to %d: want the smaller number first", least, most)
	}
	return least, most
}

// number reads a number of repetitions.
func (p *parser) number() int32 {
	from, n := p.at, 0
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		if n = 10*n + int(c-'0'); n > mostRepeats {
			p.fail(from, "more than %d repetitions are not possible; {m,} has no upper bound", mostRepeats)
		}
		p.at = min(p.at+1, len(p.text))
	}
	if p.at == from {
		p.fail(from, "want a number of repetitions, not %s", p.found(from))
	}
	return int32(n)
}

// literalText reads characters in quotes.
func (p *parser) literalText() int32 {
	from := p.at
	p.at++
	var b strings.Builder
	for p.err == nil && p.peek() != '"' {
		if p.at == len(p.text) {
			p.fail(from, `the " has no second one`)
			break
		}
		b.WriteRune(p.char())
	}
	p.at = min(p.at+1, len(p.text))
	return p.literal(b.String())
}

// class reads a set of characters, such as [a-z] or [^\n].
func (p *parser) class() int32 {
	from := p.at
	p.at++
	not := p.peek() == '^'
	if not {
		p.at++
	}
	var spans []span
	for p.err == nil && p.peek() != ']' {
		if p.at == len(p.text) {
			p.fail(from, "the [ has no ]")
			break
		}
		spans = append(spans, p.span())
	}
	p.at = min(p.at+1, len(p.text))
	set := newCharSet(spans...)
	if not {
		set = set.not()
	}
	if len(set) == 0 {
		p.fail(from, "the set of characters is empty")
	}
	return p.chars(set)
}

// span reads a character, or two of them with - between.
func (p *parser) span() span {
	from := p.at
	lo := p.char()
	hi := lo
	if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
		p.at++
		hi = p.char()
	}
	if hi < lo && p.err == nil {
		p.fail(from, "the range is from %q to %q: want the smaller character first", lo, hi)
	}
	return span{lo, hi}
}

// escapes are the characters after a backslash that stand for another one.
var escapes = map[byte]rune{'t': '\t', 'r': '\r', 'n': '\n', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-', '^': '^'}

// digits are the characters after a backslash that a number of hexadecimal digits follows.
var digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// char reads a character or its escape.
func (p *parser) char() rune {
	from := p.at
	c, n := utf8.DecodeRuneInString(p.text[p.at:])
	if c == utf8.RuneError && n <= 1 {
		p.fail(from, "the grammar is not UTF-8")
		return c
	}
	p.at += n
	if c != '\\' {
		return c
	}
	kind := p.peek()
	if c, ok := escapes[kind]; ok {
		p.at++
		return c
	}
	count := digits[kind]
	if count == 0 {
		p.fail(from, `there is no escape \%s: want \n, \r, \t, \\, \", \[, \], \-, \^, \xHH, \uHHHH or \UHHHHHHHH`, strings.Trim(p.found(p.at), `'`))
		return 0
	}
	p.at++
	return p.hexadecimal(from, count)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// hexadecimal reads a number of digits as a character.
func (p *parser) hexadecimal(from, count int) (c rune) {
	for range count {
		digit := strings.IndexByte("0123456789abcdef", lower(p.peek()))
		if digit < 0 {
			p.fail(p.at, "want %d hexadecimal digits, not %s", count, p.found(p.at))
			return 0
		}
		c = c<<4 | rune(digit)
		p.at++
	}
	if !utf8.ValidRune(c) {
		p.fail(from, "%s is no character", p.text[from:p.at])
	}
	return c
}
