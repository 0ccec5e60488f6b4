package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a symbol of a template's source.
type kind uint8

const (
	ending   kind = iota // of the source
	data                 // text outside of tags
	opening              // {{ or {%
	closing              // }} or %}
	word                 // a name or a keyword
	quoted               // a string, decoded
	integer              // digits, without underscores
	floating             // the same
	operator
)

// symbol is a piece of a template's source.
type symbol struct {
	kind     kind
	text     string
	from, to int // bytes of the source
}

// lexer cuts a source into symbols as jinja2 does with trim_blocks and lstrip_blocks: a block tag takes the line break
// behind it, and the white space before it from the beginning of its line.
type lexer struct {
	src       string
	at        int
	lineStart bool // the last tag ended with a line break, or there was none
	out       []symbol
}

// lex returns the symbols of a source, and ending behind them.
func lex(src string) ([]symbol, *Error) {
	l := &lexer{src: src, lineStart: true}
	for l.at < len(src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.add(ending, "", len(src))
	return l.out, nil
}

func (l *lexer) add(k kind, text string, from int) {
	l.out = append(l.out, symbol{k, text, from, l.at})
}

func (l *lexer) fail(at int, format string, args ...any) *Error {
	return &Error{Line: lineOf(l.src, at), Construct: excerpt(l.src[at:]), Message: fmt.Sprintf(format, args...)}
}

// next takes text and the tag behind it.
func (l *lexer) next() *Error {
	begin, rest := l.at, l.src[l.at:]
	n := tagIn(rest)
	if n < 0 {
		l.at = len(l.src)
		l.add(data, rest, begin)
		return nil
	}
	tag := begin + n
	sign, body := byte(0), tag+2
	if body < len(l.src) && strings.IndexByte("+-", l.src[body]) >= 0 {
		sign = l.src[body]
		body++
	}
	if text := l.before(rest[:n], sign, l.src[tag+1] != '{'); text != "" {
		l.out = append(l.out, symbol{data, text, begin, tag})
	}
	l.at = body
	var err *Error
	switch l.src[tag+1] {
	case '#':
		err = l.comment(tag)
	case '%':
		if raw, ok := rawTag(l.src[body:], "raw"); ok {
			err = l.raw(tag, body+raw)
		} else {
			err = l.tag(tag, "%}")
		}
	default:
		err = l.tag(tag, "}}")
	}
	l.lineStart = l.src[l.at-1] == '\n'
	return err
}

// tagIn is where the first tag begins, or -1.
func tagIn(s string) int {
	for at := 0; ; at++ {
		n := strings.IndexByte(s[at:], '{')
		if n < 0 || at+n+1 == len(s) {
			return -1
		}
		if at += n; strings.IndexByte("{%#", s[at+1]) >= 0 {
			return at
		}
	}
}

// before is the text before a tag without the white space that the tag takes.
func (l *lexer) before(text string, sign byte, block bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isSpace)
	case sign == '+' || !block:
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || l.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

// after takes the white space that the end of a tag takes. sign is that before the end, block that the tag is one.
func (l *lexer) after(sign byte, block bool) {
	switch rest := l.src[l.at:]; {
	case sign == '-':
		l.at = len(l.src) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign == 0 && block && strings.HasPrefix(rest, "\n"):
		l.at++
	}
}

func (l *lexer) comment(tag int) *Error {
	n := strings.Index(l.src[l.at:], "#}")
	if n < 0 {
		return l.fail(tag, "the comment has no end")
	}
	sign := byte(0)
	if last := l.at + n - 1; n > 0 && strings.IndexByte("+-", l.src[last]) >= 0 {
		sign = l.src[last]
	}
	l.at += n + 2
	l.after(sign, true)
	return nil
}

// rawTag is the length of the rest of the tag raw or endraw, if that is one.
func rawTag(s, name string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(s, isSpace), name)
	rest = strings.TrimLeftFunc(rest, isSpace)
	if !ok {
		return 0, false
	}
	for _, end := range []string{"%}", "-%}", "+%}"} {
		if strings.HasPrefix(rest, end) && (name != "raw" || end[0] != '+') {
			return len(s) - len(rest) + len(end), true
		}
	}
	return 0, false
}

// raw takes text that is no template, from the end of the tag raw to the tag endraw.
func (l *lexer) raw(tag, begin int) *Error {
	l.at = begin
	if l.src[begin-3] == '-' {
		l.after('-', true)
	}
	begin = l.at
	for at := begin; ; at += 2 {
		n := strings.Index(l.src[at:], "{%")
		if n < 0 {
			return l.fail(tag, "the block raw has no end")
		}
		at += n
		body, sign := at+2, byte(0)
		if body < len(l.src) && strings.IndexByte("+-", l.src[body]) >= 0 {
			sign = l.src[body]
			body++
		}
		if end, ok := rawTag(l.src[body:], "endraw"); ok {
			l.lineStart = false
			text := l.before(l.src[begin:at], sign, true)
			l.at = body + end
			l.add(data, text, begin)
			sign = l.src[l.at-3]
			if strings.IndexByte("+-", sign) < 0 {
				sign = 0
			}
			l.after(sign, true)
			return nil
		}
	}
}

// tag takes the symbols of a tag up to its end.
func (l *lexer) tag(tag int, end string) *Error {
	l.out = append(l.out, symbol{opening, l.src[tag : tag+2], tag, l.at})
	var open []byte // brackets, as what closes them
	for {
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace))
		rest := l.src[l.at:]
		if rest == "" {
			return l.fail(tag, "the tag has no end %s", end)
		}
		if len(open) == 0 && l.closed(end) {
			return nil
		}
		n, err := l.symbol(rest)
		if err != nil {
			return err
		}
		switch c := rest[0]; {
		case n > 1:
		case strings.IndexByte("([{", c) >= 0:
			open = append(open, map[byte]byte{'(': ')', '[': ']', '{': '}'}[c])
		case strings.IndexByte(")]}", c) >= 0:
			if len(open) == 0 || open[len(open)-1] != c {
				return l.fail(tag, "%c closes nothing", c)
			}
			open = open[:len(open)-1]
		}
	}
}

// closed takes the end of a tag, if it is here.
func (l *lexer) closed(end string) bool {
	begin, rest := l.at, l.src[l.at:]
	sign, block := byte(0), end == "%}"
	if rest[0] == '-' || rest[0] == '+' && block {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, end) {
		return false
	}
	l.at = len(l.src) - len(rest) + 2
	l.add(closing, end, begin)
	l.after(sign, block)
	return true
}

// symbol takes the symbol of a tag that rest begins with, and returns its length.
func (l *lexer) symbol(rest string) (n int, err *Error) {
	begin := l.at
	c, _ := utf8.DecodeRuneInString(rest)
	k, text := operator, ""
	switch {
	case c == '\'' || c == '"':
		k = quoted
		text, n = unquoted(rest)
	case '0' <= c && c <= '9':
		if k, n = numeral(rest); begin > 0 && l.src[begin-1] == '.' {
			k, n = integer, digits(rest, "0123456789") // of x.1.0
		}
		text = strings.ReplaceAll(rest[:n], "_", "")
	case isLetter(c):
		k, n = word, len(rest)
		if i := strings.IndexFunc(rest, func(c rune) bool { return !isLetter(c) && !unicode.IsDigit(c) }); i >= 0 {
			n = i
		}
		text = rest[:n]
	default:
		n = operatorIn(rest)
		text = rest[:n]
	}
	if n == 0 {
		return 0, l.fail(begin, "%q is no part of an expression", c)
	}
	l.at += n
	l.add(k, text, begin)
	return n, nil
}

func isLetter(c rune) bool { return c == '_' || unicode.IsLetter(c) }

// isSpace reports whether Python counts a character as white space.
func isSpace(c rune) bool { return unicode.IsSpace(c) || 0x1c <= c && c <= 0x1f }

// operatorIn is the length of the operator that s begins with, 0 if there is none.
func operatorIn(s string) int {
	for _, x := range []string{"//", "**", "==", "!=", ">=", "<="} {
		if strings.HasPrefix(s, x) {
			return 2
		}
	}
	if strings.IndexByte("+-/*%~[](){}<>=.:|,", s[0]) >= 0 {
		return 1
	}
	return 0
}

// numeral is the kind and the length of the number that s begins with.
func numeral(s string) (k kind, n int) {
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		return integer, 2 + digits(s[2:], "0123456789abcdefABCDEF")
	}
	const decimal = "0123456789"
	k, n = integer, digits(s, decimal)
	if n+1 < len(s) && s[n] == '.' && strings.IndexByte(decimal, s[n+1]) >= 0 {
		k, n = floating, n+1+digits(s[n+1:], decimal)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		exponent := n + 1
		if exponent < len(s) && strings.IndexByte("+-", s[exponent]) >= 0 {
			exponent++
		}
		if more := digits(s[exponent:], decimal); more > 0 {
			k, n = floating, exponent+more
		}
	}
	return k, n
}

// digits is how many bytes at the beginning of s are digits, with single underscores between them.
func digits(s, of string) (n int) {
	for n < len(s) && (strings.IndexByte(of, s[n]) >= 0 || n > 0 && s[n] == '_' && s[n-1] != '_') {
		n++
	}
	if n > 0 && s[n-1] == '_' {
		n--
	}
	return n
}

// unquoted decodes the string that s begins with. n is the length of its source, 0 if it has no end.
func unquoted(s string) (text string, n int) {
	var b strings.Builder
	for at := 1; at < len(s); {
		switch c := s[at]; {
		case c == s[0]:
			return b.String(), at + 1
		case c == '\\' && at+1 < len(s):
			at += escape(&b, s[at:])
		default:
			b.WriteByte(c)
			at++
		}
	}
	return "", 0
}

// simple are the escapes of one character.
var simple = map[byte]string{
	'\\': "\\", '\'': "'", '"': "\"", 'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': "",
}

// escape writes the character that an escape stands for, and returns the length of the escape. Python keeps an unknown
// one as it is.
func escape(b *strings.Builder, s string) int {
	if text, ok := simple[s[1]]; ok {
		b.WriteString(text)
		return 2
	}
	first, most, base := 2, 0, rune(16)
	switch c := s[1]; {
	case c == 'x':
		most = 2
	case c == 'u':
		most = 4
	case c == 'U':
		most = 8
	case '0' <= c && c <= '7':
		first, most, base = 1, 3, 8
	}
	code, n := rune(0), 0
	for n < most && first+n < len(s) {
		digit := strings.IndexByte("0123456789abcdef", s[first+n]|0x20)
		if '0' <= s[first+n] && s[first+n] <= '9' {
			digit = int(s[first+n] - '0')
		}
		if digit < 0 || digit >= int(base) || code > unicode.MaxRune {
			break
		}
		code = code*base + rune(digit)
		n++
	}
	if n == 0 || base == 16 && n < most {
		b.WriteByte('\\')
		return 1
	}
	b.WriteRune(code)
	return first + n
}

// lineOf is the line of a place, from 1.
func lineOf(src string, at int) int { return 1 + strings.Count(src[:at], "\n") }

// excerpt is the beginning of a construct for messages, on one line.
func excerpt(s string) string {
	s = strings.TrimSpace(s)
	line, _, more := strings.Cut(s, "\n")
	const most = 60
	if len(line) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(line[cut]) {
			cut--
		}
		line, more = line[:cut], true
	}
	if more {
		return strings.TrimSpace(line) + " ..."
	}
	return line
}
