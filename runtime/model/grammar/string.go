package grammar

import "unicode/utf8"

// text is a string that the facts demand.
func (s *schema) text(f *facts) (int32, error) {
	least, most := int32(f.minLength), int32(min(f.maxLength, mostRepeats))
	bounded := least > 0 || most >= 0
	switch {
	case f.pattern != nil && (bounded || f.format != nil):
		return 0, errorf(f.pattern, "pattern is not possible beside minLength, maxLength or format: give the length in the pattern")
	case f.format != nil && bounded:
		return 0, errorf(f.format, "format is not possible beside minLength or maxLength")
	case f.pattern != nil:
		n, err := s.pattern(*f.pattern)
		return s.quoted(n), err
	case f.format != nil:
		n, err := s.format(*f.format)
		return s.quoted(n), err
	case most >= 0 && least > most:
		return impossible, nil
	}
	return s.quoted(s.repeat(s.char(), least, most)), nil
}

// quoted is characters in quotes.
func (s *schema) quoted(n int32) int32 { return s.sequence(s.literal(`"`), n, s.literal(`"`)) }

// plainChars are the characters that may stand for themselves in strings.
var plainChars = newCharSet(span{' ', utf8.MaxRune}).without(newCharSet(span{'"', '"'}, span{'\\', '\\'}, span{0x7f, 0x7f}))

// plain is a character that stands for itself.
func (s *schema) plain() int32 {
	return once(&s.shared.plain, func() int32 { return s.chars(plainChars) })
}

// shortEscapes are the characters that have an escape of one letter.
var shortEscapes = map[rune]byte{'"': '"', '\\': '\\', '/': '/', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// char is a character of a string, for itself or as an escape. An escape is one character: there is none for half of one.
func (s *schema) char() int32 {
	return once(&s.shared.char, func() int32 {
		letters := byteSet{}
		for _, c := range shortEscapes {
			letters = letters.or(newByteSet(c, c))
		}
		digits := newByteSet('0', '9').or(newByteSet('a', 'f')).or(newByteSet('A', 'F'))
		d := newByteSet('d', 'd').or(newByteSet('D', 'D'))
		digit, below8 := s.oneByte(digits), s.oneByte(newByteSet('0', '7'))
		code := s.choice(s.sequence(s.oneByte(digits.without(d)), s.repeat(digit, 3, 3)), s.sequence(s.oneByte(d), below8, digit, digit))
		escape := s.choice(s.oneByte(letters), s.sequence(s.literal("u"), code))
		return s.choice(s.plain(), s.sequence(s.literal(`\`), escape))
	})
}

// charOf is a character of a set, for itself or as an escape of one letter, or impossible.
func (s *schema) charOf(set charSet) int32 {
	var kids []int32
	if plain := set.and(plainChars); len(plain) > 0 {
		kids = append(kids, s.chars(plain))
	}
	letters := byteSet{}
	for c, letter := range shortEscapes {
		if set.has(c) && !plainChars.has(c) {
			letters = letters.or(newByteSet(letter, letter))
		}
	}
	if letters != (byteSet{}) {
		kids = append(kids, s.sequence(s.literal(`\`), s.oneByte(letters)))
	}
	return s.any(kids)
}

// The parts of dates and times. A month has the days that it has in each year.
const (
	dateFormat = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))`
	timeFormat = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
)

// formats are the patterns of the formats.
var formats = map[string]string{
	"date": dateFormat, "time": timeFormat, "date-time": dateFormat + "T" + timeFormat,
	"uuid": `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
}

// format is the characters of a format.
func (s *schema) format(v value) (int32, error) {
	pattern, ok := formats[v.text]
	if !ok {
		return 0, errorf(v, "the format %s is not possible, only date, time, date-time and uuid: give a pattern, or leave it out", v.text)
	}
	v.text = "^(" + pattern + ")$"
	return s.pattern(v)
}
