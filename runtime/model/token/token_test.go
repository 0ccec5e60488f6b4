package token

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// metadata are the values of a GGUF file without tensors.
type metadata map[string]any

func (m metadata) with(key string, value any) metadata {
	c := maps.Clone(m)
	if c[key] = value; value == nil {
		delete(c, key)
	}
	return c
}

func (m metadata) file() []byte {
	f := ggufgen.Header(0, uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		f.Add(key)
		switch x := m[key].(type) {
		case string:
			f.Add(uint32(8), x)
		case uint32:
			f.Add(uint32(4), x)
		case bool:
			f.Add(uint32(7), x)
		case []int32:
			f.Add(uint32(9), uint32(5), uint64(len(x)), x)
		case []float32:
			f.Add(uint32(9), uint32(6), uint64(len(x)), x)
		case []string:
			f.Add(uint32(9), uint32(8), uint64(len(x)))
			for _, s := range x {
				f.Add(s)
			}
		default:
			panic(fmt.Sprintf("BUG: %T", x))
		}
	}
	return f.Pad(0).Bytes()
}

func (m metadata) tokenizer() (*Tokenizer, error) {
	f, err := gguf.Read(m.file())
	if err != nil {
		return nil, err
	}
	return New(f)
}

func must(t testing.TB, m metadata) *Tokenizer {
	t.Helper()
	tok, err := m.tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// visible is how byte-level BPE writes a byte.
func visible(b byte) string {
	return string(rune(slices.Index(byteOf[:], int16(b))))
}

// bytePairs is a vocabulary of byte-level BPE: the bytes in their order, what the merges make, and special tokens from 270.
func bytePairs() metadata {
	var tokens []string
	for b := range 256 {
		tokens = append(tokens, visible(byte(b)))
	}
	tokens = append(tokens, "ab", "abc", "bc", "Ġa", "Ġab", "Ã©", "aa", "aaaa", "ĠĠ", "ĊĊ", "12", "12345", "ba", "re") // from 256
	tokens = append(tokens, "<|begin|>", "<|im_end|>", "<|im_end|><|begin|>", "  ", "user defined")
	types := slices.Repeat([]int32{int32(normal)}, len(tokens))
	for i := 270; i < len(types); i++ {
		types[i] = int32(control)
	}
	types[273], types[274] = int32(userDefined), int32(userDefined)
	return metadata{
		"general.architecture": "llama", keyModel: "gpt2", keyPre: "gpt-2", keyTokens: tokens, keyKinds: types, keyBOS: uint32(270), keyEOS: uint32(271),
		// "1 2 3" is no text of two symbols that plain text has; "a z" makes a text that is no token, and "az q" one from it.
		keyMerges: []string{"a b", "b c", "ab c", "Ġ a", "Ġa b", "Ã ©", "a a", "aa aa", "Ġ Ġ", "Ċ Ċ", "1 2", "r e", "1 2 3", "a z", "az q"},
	}
}

// sentencePieces is a vocabulary of SentencePiece: three special tokens, the bytes from 3, and normal tokens from 259.
func sentencePieces() metadata {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{int32(unknown), int32(control), int32(control)}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, int32(byteValue))
	}
	scores := make([]float32, len(tokens))
	for i, s := range []string{"▁", "a", "b", "c", "▁a", "ab", "bc", "▁ab", "é", "abc", "aa", "aaaa"} {
		tokens, types, scores = append(tokens, s), append(types, int32(normal)), append(scores, -float32(i))
	}
	return metadata{"general.architecture": "llama", keyModel: "llama", keyTokens: tokens, keyKinds: types, keyScores: scores}
}

// TestEncode encodes by hand.
func TestEncode(t *testing.T) {
	never, parse := Options{BOS: BOSNever}, Options{BOS: BOSNever, Special: true}
	bpe, spm := bytePairs(), sentencePieces()
	bytesOf := func(s string, first int32) (ids []int32) {
		for _, b := range []byte(s) {
			ids = append(ids, int32(b)+first)
		}
		return ids
	}
	for _, x := range []struct {
		name string
		m    metadata
		text string
		o    Options
		want []int32
	}{
		{"first merge first", bpe, "abc bc ab", never, []int32{257, ' ', 258, ' ', 256}},
		{"leftmost first", bpe, "aaa", never, []int32{262, 'a'}},
		{"merges of merges", bpe, "aaaaaaaa", never, []int32{263, 263}},
		{"bytes of a character", bpe, "éè", never, []int32{261, 0xc3, 0xa8}},
		{"whole words", bpe.with(keyPre, "llama-bpe"), "123 12345", never, []int32{266, '3', ' ', 266, '3', '4', '5'}},
		{"whole word behind a letter", bpe.with(keyPre, "llama-bpe"), "\nba", never, []int32{'\n', 268}},
		{"merge to no token", bpe, "azq", never, []int32{'a', 'z', 'q'}},
		{"plain", bpe, "<|begin|>", never, bytesOf("<|begin|>", 0)},
		{"parsed", bpe, "ab<|begin|>ab", parse, []int32{256, 270, 256}},
		{"longest special", bpe, "<|im_end|><|begin|><|im_end|>", parse, []int32{272, 271}},
		{"user-defined tokens", bpe, "ab  user defined ", never, []int32{256, 273, 274, ' '}},
		{"user-defined, the first of them", bpe, "ab   ab", never, []int32{256, 273, ' ', 256}},
		{"BOS by default of gpt-2", bpe, "ab", Options{}, []int32{256}},
		{"BOS by default of llama-bpe", bpe.with(keyPre, "llama-bpe"), "ab", Options{}, []int32{270, 256}},
		{"BOS as the key says", bpe.with(keyPre, "llama-bpe").with(keyAddBOS, false), "ab", Options{}, []int32{256}},
		{"BOS asked for", bpe, "", Options{BOS: BOSAlways}, []int32{270}},
		{"no text", bpe, "", Options{}, nil},
		{"no UTF-8", bpe, "a\xffb", never, []int32{'a', 0xef, 0xbf, 0xbd, 'b'}},
		{"behind U+10FFFF", bpe, "\xf4\x90\x80\x80", never, []int32{0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd}},

		{"highest score first", spm, "abc", Options{}, []int32{1, 263, 265}},
		{"no prefix", spm.with(keySpacePrefix, false), "abcab", never, []int32{268, 264}},
		{"leftmost of equal scores", spm.with(keySpacePrefix, false), "aaa", never, []int32{269, 260}},
		{"byte fallback", spm.with(keySpacePrefix, false), "éè\x00", never, []int32{267, 3 + 0xc3, 3 + 0xa8, 3}},
		{"prefix behind a special", spm, "a</s>ab", parse, []int32{263, 2, 266}},
		{"special in plain text", spm.with(keySpacePrefix, false), "<s>", never, bytesOf("<s>", 3)},
	} {
		if got := must(t, x.m).Encode(x.text, x.o); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q gives %d, want %d", x.name, x.text, got, x.want)
		}
	}
}

// TestEating: the special tokens of Phi-3 take the white space behind them away, most of them.
func TestEating(t *testing.T) {
	m := bytePairs().with("general.name", "Phi-3 mini")
	m[keyTokens].([]string)[271] = "<|endoftext|>"
	got := must(t, m).Encode("<|begin|> \n\tab <|endoftext|> ab", Options{Special: true})
	if want := []int32{270, 256, ' ', 271, ' ', 256}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// TestOverlaps: of special tokens that overlap the longest is taken, wherever it begins.
func TestOverlaps(t *testing.T) {
	var list []special
	for i, text := range []string{"ab", "bcde", "a", "abab", "eab"} {
		list = append(list, special{text: text, id: int32(i), hidden: text == "eab"})
	}
	s := newSpecials(list)
	for text, want := range map[string]string{
		"abcde":   "[{0 1 2} {1 5 1}]",
		"ababab":  "[{0 4 3} {4 6 0}]",
		"aababa":  "[{0 1 2} {1 5 3} {5 6 2}]",
		"xeabx":   "[{2 4 0}]",
		"xyz":     "[]",
		"bcdeab":  "[{0 4 1} {4 6 0}]",
		"eababab": "[{1 5 3} {5 7 0}]",
	} {
		if got := fmt.Sprint(s.split(text, false)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := fmt.Sprint(s.split("xeabx", true)); got != "[{1 4 4}]" {
		t.Errorf("hidden: %s", got)
	}
}

// TestVocabulary asks for what stands in the metadata.
func TestVocabulary(t *testing.T) {
	m := bytePairs()
	tok := must(t, m)
	if tok.Len() != 275 || tok.BOS() != 270 || tok.EOS() != 271 || tok.EOT() != 271 {
		t.Errorf("%d tokens, bos %d, eos %d, eot %d", tok.Len(), tok.BOS(), tok.EOS(), tok.EOT())
	}
	if a, b, c := tok.Special("<|begin|>"), tok.Special("user defined"), tok.Special("ab"); a != 270 || b != 274 || c != None {
		t.Errorf("special tokens %d, %d, %d", a, b, c)
	}
	if tok.EndOfGeneration(270) || !tok.EndOfGeneration(271) || tok.EndOfGeneration(None) {
		t.Error("only <|im_end|> ends a generation")
	}
	m = m.with("tokenizer.ggml.eot_token_id", uint32(258)).with(keyEOS, uint32(math.MaxUint32))
	tok = must(t, m)
	if tok.EOT() != 258 || tok.EOS() != None || !tok.EndOfGeneration(258) || !tok.EndOfGeneration(271) {
		t.Errorf("eot %d, eos %d", tok.EOT(), tok.EOS())
	}
	tok = must(t, sentencePieces())
	if tok.BOS() != 1 || tok.EOS() != 2 || tok.EOT() != None || !tok.EndOfGeneration(2) {
		t.Errorf("bos %d, eos %d, eot %d", tok.BOS(), tok.EOS(), tok.EOT())
	}
}

// TestPieceKinds: control tokens have no piece unless asked for, unused and empty tokens and ids of no token have none.
func TestPieceKinds(t *testing.T) {
	m := bytePairs()
	m[keyTokens].([]string)[268] = ""
	m[keyTokens].([]string)[267] = "<0xE9>"
	m[keyKinds].([]int32)[267] = int32(byteValue)
	m[keyKinds].([]int32)[266] = int32(unused)
	tok := must(t, m)
	for id, want := range map[int32]string{260: " ab", 261: "é", 0xc3: "\xc3", 266: "", 267: "\xe9", 268: "", 270: "", 273: "  ", 274: "user defined", -1: "", 275: ""} {
		if got := string(tok.AppendPiece(nil, id, false)); got != want {
			t.Errorf("piece of %d: %q, want %q", id, got, want)
		}
	}
	if got := string(tok.AppendPiece([]byte("x"), 270, true)); got != "x<|begin|>" {
		t.Errorf("%q", got)
	}
	spm := must(t, sentencePieces())
	if got := spm.Decode([]int32{263, 259, 3 + 0xff, 1, 0}, true); got != "a \xff<s><unk>" {
		t.Errorf("%q", got)
	}
}

// TestDecoder holds back the beginning of a character.
func TestDecoder(t *testing.T) {
	tok := must(t, bytePairs())
	for in, want := range map[string]string{
		"aé🚀":                          "a||é||||🚀|",
		"\xf0\x9fx":                    "|||\ufffdx|", // one for what could have become one character
		"\xe2\x82":                     "|||\ufffd",
		"\xff\xfea":                    "|\ufffd|\ufffd|a|",
		"\xed\xa0\x80":                 "||\ufffd\ufffd|\ufffd|", // surrogates cannot
		"\xf0\x90\xc3\xa9\xf4\x90\x80": "|||\ufffd|é||\ufffd\ufffd|\ufffd|",
	} {
		d := tok.Decoder(false)
		got := ""
		for _, b := range []byte(in) {
			got += "|" + string(d.Write(int32(b)))
		}
		got += "|" + string(d.Flush())
		if strings.ReplaceAll(got, "|", "") != strings.ReplaceAll(want, "|", "") || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if rest := d.Flush(); len(rest) > 0 {
			t.Errorf("%q: %q after the end", in, rest)
		}
	}
	d := tok.Decoder(false)
	if a, b := string(d.Write(0xc3)), string(d.Write(0xa9)); a != "" || b != "é" {
		t.Errorf("half a character: %q, then %q", a, b)
	}
}

// TestRefused: each fault of the metadata has its error, which names the key.
func TestRefused(t *testing.T) {
	bpe, spm := bytePairs(), sentencePieces()
	tokens := func(m metadata, i int, text string) metadata {
		c := slices.Clone(m[keyTokens].([]string))
		c[i] = text
		return m.with(keyTokens, c)
	}
	for _, x := range []struct {
		m    metadata
		want string
	}{
		{bpe.with(keyModel, nil), `key "tokenizer.ggml.model": is missing or empty`},
		{bpe.with(keyModel, "bert"), `key "tokenizer.ggml.model": is "bert", which is not supported; gpt2 and llama are`},
		{bpe.with(keyModel, uint32(1)), `key "tokenizer.ggml.model": holds uint32; it should hold string`},
		{bpe.with(keyPre, nil), `key "tokenizer.ggml.pre": is missing or empty; it names the rule by which the model's texts are split into words, such as gpt-2,`},
		{bpe.with(keyPre, "whitespace"), `key "tokenizer.ggml.pre": is "whitespace", which is none of the`},
		{bpe.with(keyTokens, nil), `key "tokenizer.ggml.tokens": is missing or empty`},
		{bpe.with(keyTokens, []int32{1}), `key "tokenizer.ggml.tokens": holds []int32; it should hold []string`},
		{bpe.with(keyTokens, make([]string, maxTokens+1)), `has 1048577 tokens; the limit of this reader is 1048576`},
		{tokens(bpe, 5, "ab"), `key "tokenizer.ggml.tokens": tokens 5 and 256 are the same, "ab"`},
		{tokens(bpe, 256, strings.Repeat("a", 4097)), `token 256 has 4097 bytes; the limit of this reader is 4096`},
		{tokens(bpe, 'q', "qq"), `key "tokenizer.ggml.tokens": has no token for byte 0x71`},
		{tokens(spm.with(keyUnknown, uint32(math.MaxUint32)).with(keyKinds, slices.Repeat([]int32{int32(normal)}, 271)), 3, "<x>"), `has no token for byte 0x00`},
		{bpe.with(keyKinds, []int32{1}), `key "tokenizer.ggml.token_type": has 1 values for 275 tokens`},
		{bpe.with(keyKinds, slices.Repeat([]int32{7}, 275)), `has type 7 for token 0; types are 0 to 6`},
		{bpe.with(keyMerges, nil), `key "tokenizer.ggml.merges": is missing`},
		{bpe.with(keyMerges, []string{"a b", "ab"}), `merge 1 is "ab"; it should be two texts with a space between them`},
		{bpe.with(keyMerges, []string{""}), `merge 0 is ""`},
		{bpe.with(keyMerges, []string{"a "}), `merge 0 is "a "`},
		{bpe.with(keyMerges, make([]string, maxMerges+1)), `has 2097153 merges; the limit of this reader is 2097152`},
		{bpe.with(keyBOS, uint32(275)), `key "tokenizer.ggml.bos_token_id": is 275, and there are 275 tokens`},
		{bpe.with(keyEOS, "x"), `key "tokenizer.ggml.eos_token_id": holds a string; it should hold an integer`},
		{bpe.with(keyBOS, nil).with(keyAddBOS, true), `key "tokenizer.ggml.bos_token_id": is missing, and texts of this model begin with it`},
		{bpe.with(keyAddBOS, uint32(1)), `key "tokenizer.ggml.add_bos_token": holds uint32; it should hold bool`},
		{spm.with(keyScores, nil), `key "tokenizer.ggml.scores": is missing`},
		{spm.with(keyScores, []float32{1}), `key "tokenizer.ggml.scores": has 1 values for 271 tokens`},
		{spm.with(keyScores, slices.Repeat([]float32{float32(math.NaN())}, 271)), `the score of token 0 is not a number`},
		{tokens(spm, 3, "<0x0>"), `token 3 stands for a byte; it should be like "<0x0A>", not "<0x0>"`},
	} {
		if _, err := x.m.tokenizer(); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\nwant %s", err, x.want)
		}
	}
}

// TestUnknown: a byte that has no token is nothing in byte-level BPE, and the unknown token in SentencePiece.
func TestUnknown(t *testing.T) {
	m := bytePairs().with(keyUnknown, uint32(268))
	m[keyTokens].([]string)[3] = "qq"
	if got := must(t, m).Encode("a\x03b", Options{}); !slices.Equal(got, []int32{'a', 'b'}) {
		t.Errorf("%d", got)
	}
	m = sentencePieces()
	m[keyTokens].([]string)[3+'q'], m[keyKinds].([]int32)[3+'q'] = "qq", int32(normal)
	if got := must(t, m).Encode("aq", Options{}); !slices.Equal(got, []int32{1, 263, 0}) {
		t.Errorf("%d", got)
	}
}

// TestMegabyte: a megabyte takes no time that grows with its square, which would be minutes.
func TestMegabyte(t *testing.T) {
	for name, m := range map[string]metadata{"byte pairs": bytePairs(), "whole words": bytePairs().with(keyPre, "llama-bpe"), "sentence pieces": sentencePieces()} {
		tok := must(t, m)
		for _, s := range []string{"a", " ", "<|im_end|>"} {
			text := strings.Repeat(s, 1<<20/len(s))
			start := time.Now()
			ids := tok.Encode(text, Options{BOS: BOSNever, Special: true})
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: %q takes %v", name, s, took)
			}
			if back := tok.Decode(ids, true); back != text {
				t.Errorf("%s: %q comes back otherwise", name, s)
			}
		}
	}
}

// TestAtOnce encodes in several goroutines. The race detector looks on.
func TestAtOnce(t *testing.T) {
	tok := must(t, bytePairs())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if got := tok.Encode("ab  <|im_end|>abc", Options{Special: true}); !slices.Equal(got, []int32{256, 273, 271, 257}) {
					t.Errorf("%d", got)
				}
			}
		})
	}
	all.Wait()
}

// FuzzTokenizer makes vocabularies of any tokens, types, scores and merges. One that can be read encodes any text to its tokens.
func FuzzTokenizer(f *testing.F) {
	for _, text := range []string{"ab abc 12345\n\n  'S <|im_end|> é", "</s>\xf0\x9f\xff x"} {
		f.Add(uint8(0), "ab\nabc\n<|im_end|>\n  ", "\x01\x01\x03\x04", "a b\nab c\nc d\ncd cd", text)
		f.Add(uint8(1), "ab\nab\n\n", "\x00", "a b\n\xff \xff", text)
		f.Add(uint8(2), "ab\nabc\n</s>\nx\u2581", "\x01\x01\x03\x05", "", text)
		f.Add(uint8(3), "<0x00>\n<0x41>\na", "\x06\x06\x02", "", text)
	}
	f.Fuzz(func(t *testing.T, base uint8, tokens, kinds, merges, text string) {
		m := []metadata{bytePairs(), {keyModel: "gpt2", keyPre: "qwen2", keyKinds: []int32{}}, sentencePieces(), {keyModel: "llama", keyKinds: []int32{}}}[base%4]
		m["general.name"] = "phi3"
		all, _ := m[keyTokens].([]string)
		types := m[keyKinds].([]int32)
		for i, token := range strings.Split(tokens, "\n") {
			all = append(all, token)
			if len(kinds) > 0 {
				types = append(types, int32(kinds[i%len(kinds)]))
			}
		}
		m[keyTokens], m[keyKinds], m[keyMerges] = all, types, strings.Split(merges, "\n")
		m[keyScores] = make([]float32, len(all))
		for i := range all {
			m[keyScores].([]float32)[i] = float32(int8(base)) * float32(i%7)
		}
		tok, err := m.tokenizer()
		if err != nil {
			return
		}
		d := tok.Decoder(true)
		for _, o := range []Options{{}, {BOS: BOSAlways, Special: true}} {
			for _, id := range tok.Encode(text, o) {
				if id < 0 || int(id) >= tok.Len() {
					t.Fatalf("token %d of %d", id, tok.Len())
				}
				if s := d.Write(id); !utf8.Valid(s) {
					t.Fatalf("%q", s)
				}
			}
		}
	})
}

// EOS stands behind a text if the caller asks for it, and the model's metadata say so.
func TestAddedEOS(t *testing.T) {
	m := bytePairs()
	text := must(t, m).Encode("ab", Options{})
	for _, add := range []bool{true, false} {
		tok := must(t, m.with(keyAddEOS, add))
		want := text
		if add {
			want = append(slices.Clone(text), tok.EOS())
		}
		if have := tok.Encode("ab", Options{EOS: true}); !slices.Equal(have, want) {
			t.Errorf("%v: %v, want %v", add, have, want)
		}
		if have := tok.Encode("ab", Options{}); !slices.Equal(have, text) {
			t.Errorf("%v: without being asked for %v, want %v", add, have, text)
		}
	}
	if have := must(t, m).Encode("ab", Options{EOS: true}); !slices.Equal(have, text) {
		t.Errorf("without the key %v, want %v", have, text)
	}
}
