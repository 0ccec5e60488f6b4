package token

import (
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"
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
		{"qwen35", "!!|\u0301"},
		{"minicpm5", "a|  |123|45| | b"},
		{"laguna", "a| |\n\n| b"},
		{"jais-2", "a|        |  | | b|  \n"},
		{"seed-coder", "!!|\n|a"},
		{"ufakzeka", "Ali|'S"},
		{"exaone-moe", "I a\u0301m b| |1| !/\n|\n"},
		{"gpt-4o", "camel|Case| HTMLPage's|'s| |123|4| ?/\n/|ÀBÉ|CD"},
		{"tekken", "camel|Case|'S| |1|2"},
		{"granite-embed-multi-97m", "!\u0301ABd|AB\u0301|C"},
		{"tiny_aya", "a'S| | |1|234|567"},
		{"kimi-k2", "一二|ab's|三|!x"},
		{"youtu", "가나|…|ㄅ|あ一| x|1"},
		{"deepseek-v3", "123|4|一| ab|.c| ..\n|\x01|\n"},
		{"spark2_5", "x| ..|\n|\n| y"},
		{"afmoe", "a|1|234| |一"},
		{"deepseek-llm", "a| b|\n|12|一|  "},
		{"deepseek-coder", "a| .|\t!|1|2|一"},
		{"falcon", " |..|123|45|`| x"},
		{"default", " |..|123|45| `| x"},
		{"viking", "a| b|,| |1|2"},
		{"superbpe", "a |1|234|567²"},
		{"chameleon", "<|sentinel|:|1|2|>|IMGIMGABZ|    |a|!|?|1"},
	} {
		want := strings.Split(x.words, "|")
		text := strings.Join(want, "")
		got := wordsOf(text, preTokenizers[x.pre].splits)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", x.pre, got, want)
		}
	}
}

// TestLongWords: a long text takes no time that grows with its square.
func TestLongWords(t *testing.T) {
	for _, row := range preTokenizerRows {
		for _, s := range []string{"a", "A", "1", "²", " ", "\n", "!", "É", "一", "\u0301", " a", "'", "<sentinel:1"} {
			text := strings.Repeat(s, 1<<15/len(s))
			start := time.Now()
			if got := strings.Join(wordsOf(text, row.splits), ""); got != text {
				t.Errorf("%s: words of %q are another text", row.names[0], s)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s: %q takes %v", row.names[0], s, took)
			}
		}
	}
}

// wordsOf are the words that splits make of a text.
func wordsOf(text string, splits []split) []string {
	words := []string{text}
	for _, split := range splits {
		var parts []string
		for _, word := range words {
			split(word, func(s string) { parts = append(parts, s) })
		}
		words = parts
	}
	return words
}
