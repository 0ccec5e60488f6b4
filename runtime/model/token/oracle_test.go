package token

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// data is the path of a file of the oracle set, in the folder that TMACC_DATA names.
func data(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv("TMACC_DATA")
	if dir == "" {
		t.Skip("TMACC_DATA names no folder of models and expected tokens")
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

func open(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want []int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// TestVocabularyPairs encodes the texts that llama.cpp tests its vocabularies with.
func TestVocabularyPairs(t *testing.T) {
	for _, name := range []string{"llama-spm", "llama-bpe", "gpt-2"} {
		vocabularyPairs(t, data(t, "ggml-vocab-"+name+".gguf"))
	}
}

// published is the path of a vocabulary in the folder that TMACC_VOCABULARIES names, llama.cpp's models.
func published(t *testing.T, name string) string {
	dir := os.Getenv("TMACC_VOCABULARIES")
	if dir == "" {
		t.Skip("TMACC_VOCABULARIES names no folder with llama.cpp's vocabularies, ggml-vocab-*.gguf; CONTRIBUTING.md says where they are")
	}
	return filepath.Join(dir, "ggml-vocab-"+name+".gguf")
}

// publishedNames are the vocabularies of llama.cpp that this package reads.
var publishedNames = []string{"command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2",
	"qwen35", "refact", "starcoder"}

func TestPublishedPairs(t *testing.T) {
	for _, name := range publishedNames {
		vocabularyPairs(t, published(t, name))
	}
}

// vocabularyPairs encodes the texts of a .inp file, and compares the tokens with its .out file.
func vocabularyPairs(t *testing.T, path string) {
	name := filepath.Base(path)
	tok := open(t, path)
	in, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(string(in), "\n__ggml_vocab_test__\n")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) < 46 || len(texts) < len(lines) {
		t.Fatalf("%s: %d texts, %d lines of tokens", name, len(texts), len(lines))
	}
	for i, line := range lines {
		var want []int32
		for _, id := range strings.Fields(line) {
			n, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, int32(n))
		}
		same(t, name+": "+strconv.Quote(texts[i]), tok.Encode(texts[i], Options{BOS: BOSNever}), want)
		if back := tok.Decode(want, false); back != texts[i] {
			t.Errorf("%s: %q comes back as %q", name, texts[i], back)
		}
	}
}

// TestExpected encodes the prompts of every model whose tokens are known.
func TestExpected(t *testing.T) {
	var paths []string
	for _, at := range []string{"", "2026", "trained"} {
		found, err := filepath.Glob(data(t, at, "*.expected.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%q has no expected tokens: %v", at, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tok := open(t, strings.TrimSuffix(path, "expected.json")+"gguf")
			expected(t, tok, path)
		})
	}
}

func expected(t *testing.T, tok *Tokenizer, path string) {
	var want struct {
		NVocab    int `json:"n_vocab"`
		Tokenizer struct {
			BOS, EOS int32
			AddBOS   bool `json:"add_bos"`
		}
		Prompts []struct {
			Text    string
			With    []int32 `json:"tokens_with_bos"`
			Without []int32 `json:"tokens_without_bos"`
			Parsed  bool    `json:"parse_special"`
			Plain   string  `json:"detokenized"`
		}
		Special []struct {
			Text   string
			Parsed []int32 `json:"tokens_parse_special"`
			Plain  []int32 `json:"tokens_plain"`
		} `json:"special_tokens_in_text"`
	}
	readJSON(t, path, &want)
	if w := want.Tokenizer; tok.Len() != want.NVocab || tok.BOS() != w.BOS || tok.EOS() != w.EOS || tok.addBOS != w.AddBOS {
		t.Errorf("%d tokens, bos %d (%v), eos %d; want %d, %+v", tok.Len(), tok.BOS(), tok.addBOS, tok.EOS(), want.NVocab, w)
	}
	if len(want.Prompts) < 4 {
		t.Errorf("%d prompts", len(want.Prompts))
	}
	for _, p := range want.Prompts {
		same(t, "without BOS, "+p.Text, tok.Encode(p.Text, Options{BOS: BOSNever, Special: p.Parsed}), p.Without)
		same(t, "with BOS, "+p.Text, tok.Encode(p.Text, Options{Special: p.Parsed}), p.With)
	}
	for _, s := range want.Special {
		same(t, "parsed, "+s.Text, tok.Encode(s.Text, Options{BOS: BOSNever, Special: true}), s.Parsed)
		same(t, "plain, "+s.Text, tok.Encode(s.Text, Options{BOS: BOSNever}), s.Plain)
	}
}

// vocabulary is an entry of tokenizer-pieces.json.
type vocabulary struct {
	File    string
	NVocab  int `json:"n_vocab"`
	Special struct{ BOS, EOS, EOT int32 }
	AddBOS  bool `json:"add_bos"`
	EOG     []int32
	Sample  []int32
	Pieces  []string       `json:"pieces_hex"`
	Differs map[int]string `json:"plain_differs"`
	Texts   []struct {
		Text   string
		Tokens []int32
		Detok  *string
		Joined *string `json:"pieces_joined"`
	}
	SpecialTexts []struct {
		Text              string
		Plain, Parsed     []int32
		ParsedWithSpecial []int32 `json:"parsed_with_special"`
		DetokUnparse      string  `json:"detok_unparse"`
		DetokNoUnparse    string  `json:"detok_no_unparse"`
	} `json:"special_texts"`
	Invalid []struct {
		Hex    string
		Tokens []int32
		Error  string
	} `json:"invalid_utf8"`
	Streaming []struct {
		Tokens []int32
		Emit   []string
		Rest   string
	}
}

// TestPieces compares pieces, ends, invalid bytes and streaming with llama.cpp's.
func TestPieces(t *testing.T) {
	var all struct{ Vocabularies map[string]vocabulary }
	readJSON(t, data(t, "2026", "tokenizer-pieces.json"), &all)
	if len(all.Vocabularies) != 7 {
		t.Errorf("%d vocabularies", len(all.Vocabularies))
	}
	for name, want := range all.Vocabularies {
		t.Run(name, func(t *testing.T) {
			path := data(t, want.File)
			if _, err := os.Stat(path); err != nil {
				path = data(t, "2026", want.File)
			}
			tok := open(t, path)
			if name == "phi3-q4_k" {
				// <|endoftext|> there: llama.cpp takes the first that its hash table has of several texts for the end of a turn.
				want.Special.EOT = tok.Special("<|end|>")
			}
			if s := want.Special; tok.Len() != want.NVocab || tok.BOS() != s.BOS || tok.EOS() != s.EOS || tok.EOT() != s.EOT || tok.addBOS != want.AddBOS {
				t.Errorf("%d tokens, bos %d (%v), eos %d, eot %d; want %d, %v, %+v", tok.Len(), tok.BOS(), tok.addBOS, tok.EOS(), tok.EOT(),
					want.NVocab, want.AddBOS, s)
			}
			want.ends(t, tok)
			want.pieces(t, tok)
			want.texts(t, tok)
			want.streaming(t, tok)
		})
	}
}

func (v *vocabulary) ends(t *testing.T, tok *Tokenizer) {
	same(t, "ends of generation", endsOf(tok.Len(), tok.EndOfGeneration), v.EOG)
}

// endsOf are the tokens of a vocabulary that end a generation.
func endsOf(tokens int, isEnd func(id int32) bool) (ends []int32) {
	for id := range int32(tokens) {
		if isEnd(id) {
			ends = append(ends, id)
		}
	}
	return ends
}

func (v *vocabulary) pieces(t *testing.T, tok *Tokenizer) {
	for i, id := range v.Sample {
		plain, differs := v.Differs[i]
		if !differs {
			plain = v.Pieces[i]
		}
		for special, want := range map[bool]string{true: v.Pieces[i], false: plain} {
			if got := hex.EncodeToString(tok.AppendPiece(nil, id, special)); got != want {
				t.Errorf("piece of %d, special %v: %s, want %s", id, special, got, want)
			}
		}
	}
}

func (v *vocabulary) texts(t *testing.T, tok *Tokenizer) {
	for _, x := range v.Texts {
		same(t, x.Text, tok.Encode(x.Text, Options{BOS: BOSNever}), x.Tokens)
		joined := x.Text
		if x.Detok != nil {
			joined = *x.Detok
		}
		if x.Joined != nil {
			joined = *x.Joined
		}
		var b []byte
		for _, id := range x.Tokens {
			b = tok.AppendPiece(b, id, true)
		}
		if string(b) != joined {
			t.Errorf("%q: pieces %q, want %q", x.Text, b, joined)
		}
		if got := tok.Decode(x.Tokens, true); got != x.Text {
			t.Errorf("%q comes back as %q", x.Text, got)
		}
	}
	for _, x := range v.SpecialTexts {
		same(t, "plain, "+x.Text, tok.Encode(x.Text, Options{BOS: BOSNever}), x.Plain)
		same(t, "parsed, "+x.Text, tok.Encode(x.Text, Options{BOS: BOSNever, Special: true}), x.Parsed)
		same(t, "parsed with BOS, "+x.Text, tok.Encode(x.Text, Options{Special: true}), x.ParsedWithSpecial)
		for special, want := range map[bool]string{true: x.DetokUnparse, false: x.DetokNoUnparse} {
			if got := tok.Decode(x.Parsed, special); got != want {
				t.Errorf("%v, special %v: %q, want %q", x.Parsed, special, got, want)
			}
		}
	}
	for _, x := range v.Invalid {
		b, err := hex.DecodeString(x.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(string(b), Options{BOS: BOSNever}); x.Error == "" {
			same(t, "bytes "+x.Hex, got, x.Tokens)
		}
	}
}

func (v *vocabulary) streaming(t *testing.T, tok *Tokenizer) {
	for _, x := range v.Streaming {
		d := tok.Decoder(true)
		for i, id := range x.Tokens {
			if got := string(d.Write(id)); got != x.Emit[i] {
				t.Errorf("%v, token %d: %q, want %q", x.Tokens, i, got, x.Emit[i])
			}
		}
		if got := hex.EncodeToString(d.held); got != x.Rest {
			t.Errorf("%v: holds %s, want %s", x.Tokens, got, x.Rest)
		}
	}
}
