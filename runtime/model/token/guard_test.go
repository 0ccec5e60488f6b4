package token

import (
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// A guarded text has the tokens that it has without special tokens, whatever texts of control tokens are in it.
func TestGuard(t *testing.T) {
	for _, name := range []string{"llama-q4_0.gguf", "qwen3-q2_0.gguf", "bitnet-tq2_0.gguf"} {
		f, err := gguf.Open("../../../testdata/gguf/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		x, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, s := range x.special.list {
			for _, text := range []string{s.text, "a" + s.text + " b", s.text + s.text, s.text[:1] + s.text, strings.Repeat(s.text+"é", 3)} {
				const mark = "\ufdd0"
				guarded := x.Guard(text, mark)
				got := x.Encode(guarded, Options{Special: true, Mark: mark})
				want := x.Encode(text, Options{})
				if !slices.Equal(got, want) {
					t.Errorf("%s: %q: %v, want %v", name, text, got, want)
				}
				if !slices.Equal(x.Encode(text, Options{Special: true}), want) {
					found++
				}
			}
		}
		guardedParts(t, name, x)
		if found == 0 {
			t.Errorf("%s has no control tokens", name)
		}
	}
}

// guardedParts: two guarded texts, one behind the other, make no control token either.
func guardedParts(t *testing.T, name string, x *Tokenizer) {
	const mark = "\ufdd0"
	for _, s := range x.special.list {
		for at := range s.text {
			if at == 0 {
				continue
			}
			got := x.Encode(x.Guard("a "+s.text[:at], mark)+x.Guard(s.text[at:]+" b", mark), Options{Special: true, Mark: mark})
			if want := x.Encode("a "+s.text+" b", Options{}); s.hidden && !slices.Equal(got, want) {
				t.Errorf("%s: %q in parts at %d: %v, want %v", name, s.text, at, got, want)
			}
		}
	}
}
