package command

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTokenize(t *testing.T) {
	const text = "It was a cold morning, 42 é🚀"
	ids := strings.TrimSpace(ok(t, "tokenize", "-p", text, "-ids"))
	if n := len(strings.Fields(ids)); n < 8 {
		t.Fatalf("%d tokens: %s", n, ids)
	}
	if back := ok(t, "tokenize", "-decode", ids); back != text+"\n" {
		t.Errorf("%q comes back as %q", text, back)
	}
	if back := ok(t, "tokenize", "-decode", "["+strings.ReplaceAll(ids, " ", ", ")+"]"); back != text+"\n" {
		t.Errorf("in brackets, %q", back)
	}
	if of := ok(t, "tokenize", "-f", file(t, "x.txt", text), "-ids", "../tale/tale-bitnet-4m-tq2_0.gguf"); of != ids+"\n" {
		t.Errorf("of a file %q, want %q", of, ids)
	}
	lines := strings.Split(strings.TrimSuffix(ok(t, "tokenize", "-p", text), "\n"), "\n")
	if len(lines) != len(strings.Fields(ids)) || !strings.Contains(lines[1], `  "`) {
		t.Errorf("%q", lines)
	}
	var got tokenized
	if err := json.Unmarshal([]byte(ok(t, "tokenize", "-p", text, "-json")), &got); err != nil {
		t.Fatal(err)
	}
	joined, parts := "", 0
	for _, n := range got.Tokens {
		if n.Hex == "" {
			joined += n.Piece
		} else {
			parts++
		}
	}
	if len(got.Tokens) != len(lines) || got.Text != text || !strings.Contains(joined, "It was a cold morning") || parts == 0 {
		t.Errorf("%+v", got)
	}
}

// TestTokenizeSpecial: texts of control tokens are taken for them only if asked for, and BOS as asked.
func TestTokenizeSpecial(t *testing.T) {
	count := func(args ...string) int {
		return len(strings.Fields(ok(t, append([]string{"tokenize", "-ids"}, args...)...)))
	}
	first := strings.Fields(ok(t, "tokenize", "-bos", "always", "-p", ""))
	if len(first) != 2 || count("-bos", "never", "-p", "") != 0 || count("-p", "") > 1 {
		t.Fatalf("no text: %q", first)
	}
	bos := strings.Trim(first[1], `"`)
	if plain, parsed := count("-bos", "never", "-p", bos), count("-bos", "never", "-special", "-p", bos); plain < 2 || parsed != 1 {
		t.Errorf("%s: %d tokens, with -special %d", bos, plain, parsed)
	}
	if hidden, shown := ok(t, "tokenize", "-decode", first[0]), ok(t, "tokenize", "-special", "-decode", first[0]); hidden != "\n" || shown != bos+"\n" {
		t.Errorf("%q, with -special %q", hidden, shown)
	}
}

func TestTokenizeRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, "tokenize: nothing to do: give a text with -p or -f, or ids with -decode", "tokenize"},
		{2, "tokenize: give only one of -p, -f and -decode", "tokenize -p a -f b"},
		{2, "tokenize: -bos and -ids are for a text", "tokenize -decode 1 -ids"},
		{2, "tokenize: give only one of -ids and -json", "tokenize -p a -ids -json"},
		{2, "-bos yes: want as-model, always or never", "tokenize -p a -bos yes"},
		{2, `-decode: "x": want a number`, "tokenize -decode x"},
		{2, `-decode: -1: want token ids from 0 to `, "tokenize -decode -1"},
		{2, `-decode: "99999999999999999999": is too large`, "tokenize -decode 99999999999999999999"},
		{2, "nofile.txt: no such file", "tokenize -f nofile.txt"},
		{2, "nofile.gguf: no such file", "tokenize nofile.gguf -p a"},
		{2, "tokenize: 2 arguments, want one file", "tokenize a.gguf b.gguf -p a"},
		{2, "blocks.gguf: token: key", "tokenize ../../../testdata/gguf/blocks.gguf -p a"},
	} {
		refused(t, r)
	}
}
