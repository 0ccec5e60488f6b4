package message_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/message"
)

// own is an error of a package that can be said without the package's name.
type own struct{}

func (own) Error() string { return "pkg: thing: is wrong" }
func (own) Plain() string { return "thing: is wrong" }

func TestPlain(t *testing.T) {
	_, missing := os.ReadFile("none")
	for want, err := range map[string]error{
		"thing: is wrong": fmt.Errorf("outer: %w", own{}),
		"as it is":        errors.New("as it is"),
	} {
		if got := message.Plain(err); got.Error() != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if err := message.Plain(missing); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "none: ") {
		t.Errorf("%v is not an error about a missing file", err)
	}
	if message.Plain(nil) != nil {
		t.Error("no error became one")
	}
}

func TestNotNumber(t *testing.T) {
	for text, want := range map[string]string{"x": `"x": want a number`, "99999999999999999999": `"99999999999999999999": is too large`} {
		_, err := strconv.Atoi(text)
		if got := message.NotNumber(text, err); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-1.json": "a/b-1.json", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := message.ShellWord(word); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestInner(t *testing.T) {
	_, missing := os.Open("none")
	if got := message.Inner(missing, "none"); strings.Contains(got.Error(), "none") || !errors.Is(got, fs.ErrNotExist) {
		t.Error(got)
	}
	if got := message.Inner(missing, "other"); got != missing {
		t.Error(got)
	}
}

// What a terminal would act on is written as an escape, and an error is one line of bounded length.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\n\tb\tc\n": "a; b c",
		"\x1b[31mred":   `\x1b[31mred`,
		"\xff":          `\xff`,
		"é":             "é",
	} {
		if got := message.Line(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := message.Line(errors.New(strings.Repeat("é", 1<<20))); len(got) > 9<<10 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes that end in %q", len(got), got[len(got)-6:])
	}
}

func Example() {
	fmt.Println(message.Quoted("w2.json"), message.Quoted("two words"), message.Quoted("a\nb"))
	fmt.Println(message.Count(1, "column"), message.Count(2, "column"))
	// Output:
	// w2.json "two words" "a\nb"
	// 1 column 2 columns
}
