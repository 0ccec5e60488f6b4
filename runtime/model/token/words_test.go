package token

import (
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestClasses compares the class of every character with llama.cpp's tables, which are Unicode 15.1's. It fails when Go's
// tables become newer: classOf then has to take back what they add.
func TestClasses(t *testing.T) {
	all := make([]byte, unicode.MaxRune+1)
	for c := range rune(len(all)) {
		s := string(c)
		if !utf8.ValidRune(c) {
			s = "\xed\xa0\x80"
		}
		_, k, n := character(s + "x")
		if all[c] = byte(k); n != len(s) {
			t.Fatalf("%U has %d bytes", c, n)
		}
	}
	if sum := crc32.ChecksumIEEE(all); sum != 0xf6a76419 {
		t.Errorf("the classes' sum is %#x, want 0xf6a76419; Go's tables are of Unicode %s", sum, unicode.Version)
	}
}

// TestWords splits texts by each rule. The words stand between bars.
func TestWords(t *testing.T) {
	for _, x := range []struct{ pre, words string }{
		{"gpt-2", "I|'ll| say|'|S| it|'re|'"},
		{"gpt-2", "a|  | b|   "},
		{"gpt-2", "x|  \n| 1234567| !!|\n\n"},
		{"gpt-2", " ümlaut|²|.|\r\n"},
		{"llama-bpe", "I|'ll| say|'S| it|'RE|'"},
		{"llama-bpe", "a|  | b|   "},
		{"llama-bpe", "  \n\n|(x|  \n| |123|456|7| !!\n\n\n"},
		{"llama-bpe", ",comma| ,,|space|\tTab|\u00a0x"},
		{"qwen2", " |1|2|x|1| .\r\n"},
		{"qwen2", "e|\u0301e"},
		{"smollm", "a| |1|²|b| !!| |3"},
		{"qwen35", "e\u0301e| ...\n"},
	} {
		want := strings.Split(x.words, "|")
		text := strings.Join(want, "")
		got := []string{text}
		for _, split := range preTokenizers[x.pre].splits {
			var parts []string
			for _, part := range got {
				split(part, func(s string) { parts = append(parts, s) })
			}
			got = parts
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", x.pre, got, want)
		}
	}
}
