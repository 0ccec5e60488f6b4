package format

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine reports whether text can be printed, all of it on one line: a name from a file that cannot may end a
// comment of a program, and then be code.
func OneLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
