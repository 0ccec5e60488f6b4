package tests

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostPhrases is how many of the phrases the Go files and pages may have together.
const mostPhrases = 40

// phrases finds the phrases that make a sentence hard to read, because they stand where a thing or a number should be
// named. A phrase may be split between two lines of a comment.
var phrases = func() *regexp.Regexp {
	var all []string
	for _, words := range [][]string{{"those", "of"}, {"of", "which"}, {"so", "many"}, {"as", "many"}, {"what", "is"}, {"but", "for"}} {
		all = append(all, strings.Join(words, `\s+(?://\s*)?`))
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
}()

// generatedText marks a file that a program has written.
var generatedText = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestEnglish counts the phrases in comments, strings and pages.
func TestEnglish(t *testing.T) {
	var found []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !d.Type().IsRegular() || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !generatedText.Match(text) {
			found = append(found, phrasesIn(name, string(text))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > mostPhrases {
		t.Errorf("%d phrases, at most %d may be left: name the thing or the number instead\n%s", len(found), mostPhrases, strings.Join(found, "\n"))
	}
}

// phrasesIn lists the phrases of a text with their places, as file:line: phrase.
func phrasesIn(file, text string) (out []string) {
	for _, at := range phrases.FindAllStringIndex(text, -1) {
		words := strings.Join(strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "//", "")), " ")
		out = append(out, fmt.Sprintf("%s:%d: %s", file, 1+strings.Count(text[:at[0]], "\n"), words))
	}
	return out
}

// TestPhrases finds the phrases in capitals, in strings and across lines, and nothing inside longer words.
func TestPhrases(t *testing.T) {
	of, is := "of", "is"
	text := "// What " + is + " asked, and those\n// " + of + " a lock.\n\tx = \"those  " + of + " y\" // whatis those off\n"
	want := "f:1: What " + is + "|f:1: those " + of + "|f:3: those " + of
	if got := strings.Join(phrasesIn("f", text), "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
