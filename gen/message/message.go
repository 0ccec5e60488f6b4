// Package message makes errors and texts from outside fit for one line of output: a
// file name, or a name in a file, may hold anything.
package message

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tmacc/tmacc/ir/format"
)

// plainer is an error that can be said without the name of its package.
type plainer interface {
	error
	Plain() string
}

// Plain is err without the name of a system call, and without the name of the package
// that it is from if its type has a method Plain. Other errors stay as they are.
func Plain(err error) error {
	var p *fs.PathError
	var g plainer
	switch {
	case errors.As(err, &p):
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	case errors.As(err, &g):
		return errors.New(g.Plain())
	}
	return err
}

// Inner is err without a path that the caller's message names already.
func Inner(err error, path string) error {
	var p *fs.PathError
	if errors.As(err, &p) && p.Path == path {
		return p.Err
	}
	return err
}

// longest is how many bytes of an error are kept: an error may repeat a name that has millions.
const longest = 8 << 10

// Line is the text of err without line breaks and without bytes that a terminal would act
// on. A text of more than 8 KiB is cut.
func Line(err error) string {
	text, end := err.Error(), ""
	if len(text) > longest {
		text, end = strings.ToValidUTF8(text[:longest], ""), "…"
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, Printable(strings.ReplaceAll(line, "\t", " ")))
		}
	}
	return strings.Join(lines, "; ") + end
}

// most is how many bytes of a text from outside a message repeats.
const most = 80

// Quoted is text as a message repeats it. The text is quoted if it is empty, has spaces or
// cannot be printed on one line, and cut if it has more than 80 bytes.
func Quoted(text string) string {
	short := text
	if len(short) > most {
		short = short[:most]
	}
	if short == "" || !format.OneLine(short) || strings.ContainsAny(short, " \"") {
		short = strconv.Quote(short)
	}
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", short, len(text))
	}
	return short
}

// ShellWord is a word as shells read it, for a command that a person copies.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=@%+") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Printable is text with escapes in place of what a terminal acts on instead of printing it.
func Printable(text string) string {
	if format.OneLine(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// Count is a number of things: "1 column", "2 columns".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// NotNumber says why text is no number, after strconv refused it with err.
func NotNumber(text string, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Sprintf("%q: is too large", text)
	}
	return fmt.Sprintf("%q: want a number", text)
}
