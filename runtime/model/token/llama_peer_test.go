//go:build peer && linux && amd64

package token

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// peerModel names, in the environment of a child process, the vocabulary that it encodes texts with by libllama.
const peerModel = "TMACC_TOKEN_PEER"

func TestMain(m *testing.M) {
	if path := os.Getenv(peerModel); path != "" {
		if err := serve(path, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// question is a text for libllama. It stands in JSON, so its bytes are in hex.
type question struct {
	Hex     string
	Special bool // parse special tokens, and add BOS as the model does
	Ends    int  // ask for the tokens that end a generation instead, of this number of tokens
}

// modelParams is llama_model_params.
type modelParams struct {
	devices, overrides      unsafe.Pointer
	layers, split           int32
	load, lazy, gpu         int32
	tensorSplit             unsafe.Pointer
	progress, data, keys    unsafe.Pointer
	vocabOnly, check, extra bool
	noHost, noAlloc, mtp    bool
}

// serve answers questions with tokens, a line each.
func serve(path string, in io.Reader, out io.Writer) error {
	libs, err := filepath.Glob(filepath.Join(os.Getenv("TMACC_GGML"), "libllama.v*.so"))
	if err != nil || len(libs) != 1 {
		return fmt.Errorf("TMACC_GGML has %d libraries libllama.v*.so: %v", len(libs), err)
	}
	lib, err := purego.Dlopen(libs[0], purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	var (
		logTo    func(callback uintptr, data unsafe.Pointer)
		defaults func() modelParams
		load     func(path string, p modelParams) unsafe.Pointer
		vocabOf  func(model unsafe.Pointer) unsafe.Pointer
		isEnd    func(vocab unsafe.Pointer, id int32) bool
		tokenize func(vocab unsafe.Pointer, text *byte, size int32, tokens *int32, most int32, addSpecial, parse bool) int32
	)
	for name, to := range map[string]any{"llama_log_set": &logTo, "llama_model_default_params": &defaults, "llama_tokenize": &tokenize,
		"llama_model_load_from_file": &load, "llama_model_get_vocab": &vocabOf, "llama_vocab_is_eog": &isEnd} {
		purego.RegisterLibFunc(to, lib, name)
	}
	logTo(purego.NewCallback(func(level int32, text, data unsafe.Pointer) {}), nil)
	p := defaults()
	p.vocabOnly = true
	model := load(path, p)
	if model == nil {
		return fmt.Errorf("libllama does not load %s", path)
	}
	vocab := vocabOf(model)
	tokens := make([]int32, 1<<16)
	answers := json.NewEncoder(out)
	for questions := json.NewDecoder(in); ; {
		var q question
		if err := questions.Decode(&q); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if q.Ends > 0 {
			if err := answers.Encode(endsOf(q.Ends, func(id int32) bool { return isEnd(vocab, id) })); err != nil {
				return err
			}
			continue
		}
		text, err := hex.DecodeString(q.Hex + "00") // which is not a part of the text
		if err != nil {
			return err
		}
		n := tokenize(vocab, &text[0], int32(len(text)-1), &tokens[0], int32(len(tokens)), q.Special, q.Special)
		if n < 0 {
			return fmt.Errorf("%s: %d tokens", q.Hex, -n)
		}
		if err := answers.Encode(tokens[:n]); err != nil {
			return err
		}
	}
}

// TestLlamaEnds: libllama has the same ends where the texts of tokens are at odds with each other.
func TestLlamaEnds(t *testing.T) {
	seed := peerSeed(t)
	for _, texts := range [][]string{
		{"<|return|>", "<|call|>", "<|end|>", "<|channel|>"}, {"<|flush|>", "<|calls|>", "<|end|>", "<|start|>"}, {"<|return|>", "<|end|>"},
		{"<|flush|>", "<|return|>", "<|end|>"}, {"</s>", "<|tool_response>"}, {"</s>", "<|eom_id|>", "[EOS]"},
		{"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_middle|>"}, {"<EOT>", "<eos>", "<turn|>", "[e~["}, {"<｜end▁of▁sentence｜>", "<|end_of_text|>"},
	} {
		m := bytePairs()
		tokens, types := m[keyTokens].([]string), m[keyKinds].([]int32)
		for i, text := range texts {
			tokens, types = append(tokens, text), append(types, int32([]kind{normal, control, userDefined}[i%3]))
		}
		m = m.with(keyTokens, tokens).with(keyKinds, types)
		compareAs(t, m, must(t, m), "gpt-2", seed, 200)
	}
}

// TestLlama encodes 5,000 random texts by each vocabulary as libllama does, and 500 of bytes that are no UTF-8. libllama may
// end the process, so it has its own.
func TestLlama(t *testing.T) {
	seed := peerSeed(t)
	for _, name := range []string{"ggml-vocab-llama-spm", "ggml-vocab-llama-bpe", "ggml-vocab-gpt-2", "2026/qwen3-q1_0", "2026/gemma3-q8_0",
		"2026/phi3-q4_k", "2026/llama3-rope-q4_0", "2026/qwen35-q2_0", "trained/tale-bitnet-4m-tq2_0"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			compareFile(t, data(t, filepath.FromSlash(name)+".gguf"), seed, 5000)
		})
	}
}

// TestLlamaPublished does so with the vocabularies that llama.cpp brings, and with fewer texts.
func TestLlamaPublished(t *testing.T) {
	seed, texts := peerSeed(t), 500
	if os.Getenv("TMACC_LONG") != "" {
		texts = 5000
	}
	for _, name := range publishedNames {
		t.Run(name, func(t *testing.T) { compareFile(t, published(t, name), seed, texts) })
	}
}

// compareFile compares random texts by the tokenizer of a file, and a tenth more that are no UTF-8.
func compareFile(t *testing.T, path string, seed uint64, texts int) {
	tok := open(t, path)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var all []string
	for i := range texts * 11 / 10 {
		s := randomText(rnd, tok)
		if i >= texts {
			s = damage(rnd, s)
		}
		all = append(all, s)
	}
	compare(t, path, tok, all)
}

// peerSeed skips the test without libllama, and returns the seed of its random texts.
func peerSeed(t *testing.T) uint64 {
	if os.Getenv("TMACC_GGML") == "" {
		t.Skip("TMACC_GGML names no folder of prebuilt libraries; CONTRIBUTING.md says where they are")
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("TMACC_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("TMACC_SEED=%d", seed)
	return seed
}

// TestLlamaPreTokenizers encodes random texts by every known pre-tokenizer. One vocabulary has tokens of all pairs of bytes,
// and merges them in a random order: a wrong split shows in every script. The other is GPT-2's.
func TestLlamaPreTokenizers(t *testing.T) {
	seed := peerSeed(t)
	m, texts := pairs(rand.New(rand.NewPCG(seed, 2))), 5000
	if os.Getenv("TMACC_LONG") == "" {
		m, texts = few(m), 300
	}
	vocabularies := map[string]metadata{"pairs": m, "gpt-2": metadataOf(t, data(t, "ggml-vocab-gpt-2.gguf"))}
	for name, m := range vocabularies {
		tok := must(t, m.with(keyPre, "gpt-2"))
		for _, row := range preTokenizerRows {
			t.Run(name+"/"+row.names[0], func(t *testing.T) { compareAs(t, m, tok, row.names[0], seed, texts) })
		}
	}
}

// TestLlamaNames: each name means the same to libllama.
func TestLlamaNames(t *testing.T) {
	seed := peerSeed(t)
	m := few(pairs(rand.New(rand.NewPCG(seed, 3))))
	tok := must(t, m.with(keyPre, "gpt-2"))
	for _, name := range slices.Sorted(maps.Keys(preTokenizers)) {
		t.Run(name, func(t *testing.T) { compareAs(t, m, tok, name, seed, 50) })
	}
}

// compareAs compares random texts by a tokenizer of byte-level BPE that has another pre-tokenizer.
func compareAs(t *testing.T, m metadata, tok *Tokenizer, pre string, seed uint64, texts int) {
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	if err := os.WriteFile(path, m.with(keyPre, pre).file(), 0o600); err != nil {
		t.Fatal(err)
	}
	other := *tok
	other.pre, other.addBOS = preTokenizers[pre], preTokenizers[pre].bos
	rnd := rand.New(rand.NewPCG(seed, 1))
	var all []string
	for range texts {
		all = append(all, randomText(rnd, &other))
	}
	compare(t, path, &other, all)
}

// pairs is a vocabulary of all bytes and all pairs of bytes, which are merged in a random order.
func pairs(rnd *rand.Rand) metadata {
	var tokens, merges []string
	for b := range 256 {
		tokens = append(tokens, visible(byte(b)))
	}
	for _, i := range rnd.Perm(256 * 256) {
		left, right := tokens[i/256], tokens[i%256]
		tokens, merges = append(tokens, left+right), append(merges, left+" "+right)
	}
	return metadata{"general.architecture": "llama", keyModel: "gpt2", keyTokens: tokens, keyKinds: slices.Repeat([]int32{int32(normal)}, len(tokens)),
		keyMerges: merges, keyBOS: uint32(0), keyEOS: uint32(1)}
}

// few is every eighth merge of a vocabulary of pairs.
func few(m metadata) metadata {
	const n = 256 * 256 / 8
	return m.with(keyTokens, m[keyTokens].([]string)[:256+n]).with(keyKinds, m[keyKinds].([]int32)[:256+n]).with(keyMerges, m[keyMerges].([]string)[:n])
}

// metadataOf reads the metadata of a file that describe its tokens.
func metadataOf(t *testing.T, path string) metadata {
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := metadata{"general.architecture": "llama"}
	for _, key := range []string{keyModel, keyTokens, keyKinds, keyMerges, keyBOS, keyEOS} {
		if m[key], err = f.Value(key); err != nil || m[key] == nil {
			t.Fatalf("%s: key %s: %v", path, key, err)
		}
	}
	return m
}

// compare asks libllama for the tokens that end a generation, and for the tokens of texts.
func compare(t *testing.T, path string, tok *Tokenizer, texts []string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), peerModel+"="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer in.Close()
		w := bufio.NewWriter(in)
		defer w.Flush()
		if json.NewEncoder(w).Encode(question{Ends: tok.Len()}) != nil {
			return
		}
		for i, s := range texts {
			if json.NewEncoder(w).Encode(question{Hex: hex.EncodeToString([]byte(s)), Special: i%2 == 0}) != nil {
				return
			}
		}
	}()
	answers := json.NewDecoder(bufio.NewReader(out))
	var ends []int32
	if err := answers.Decode(&ends); err != nil {
		t.Error(err)
	}
	same(t, "ends of generation", endsOf(tok.Len(), tok.EndOfGeneration), ends)
	wrong := 0
	for i, s := range texts {
		var want []int32
		if err := answers.Decode(&want); err != nil {
			t.Errorf("libllama ends at text %d, %q: %v", i, s, err)
			break
		}
		o := Options{BOS: BOSNever}
		if i%2 == 0 {
			o = Options{Special: true}
		}
		got := tok.Encode(s, o)
		if wrong < 5 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, special %v:\n got %v\nwant %v", s, o.Special, got, want)
			wrong++
		}
		if tok.pre == nil {
			s = strings.ReplaceAll(s, visibleSpace, " ") // the same tokens
		}
		if back := tok.Decode(got, true); wrong < 5 && utf8.ValidString(s) && !o.Special && back != s && tok.hasBytes(s) {
			t.Errorf("%q comes back as %q", s, back)
			wrong++
		}
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// hasBytes reports whether a text comes back: the vocabulary has a token for each of its bytes.
func (t *Tokenizer) hasBytes(s string) bool {
	for _, b := range []byte(s) {
		if !t.isToken(t.bytes[b]) {
			return false
		}
	}
	return true
}

// randomText is up to 60 parts of many kinds.
func randomText(rnd *rand.Rand, tok *Tokenizer) string {
	pick := func(all ...string) string { return all[rnd.IntN(len(all))] }
	var b []byte
	for range rnd.IntN(60) {
		switch rnd.IntN(13) {
		case 0:
			b = append(b, pick("'s", "'S", "'re", "'LL", "'Ve", "'d", "'", "''t", "\u2019s", "'ſ")...)
		case 1:
			b = append(b, pick(" ", "  ", "   ", "\t", "\n", "\r\n", " \n", "\n\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\v", "\x1c", "\u200b")...)
		case 2:
			b = strconv.AppendUint(b, rnd.Uint64()>>rnd.IntN(64), 10)
		case 3:
			b = append(b, pick("²", "½", "٣", "一", "Ⅷ", "𝟙", "①")...)
		case 4:
			b = append(b, pick("hello", " the", "Grüße", " naïve", "ÀÉ", "你好", "한국어", " नमस्ते", "Привет", "e\u0301", "สวัสดี", "👨\u200d👩\u200d👧", "🚀", "ﬁ")...)
		case 5:
			b = append(b, pick("!", "...", " ==", "--", "/*", "\u2581", " ,", "<", "|>", "<|", "</s>", "<0x0A>", "$+", "\x00", "\x7f")...)
		case 6:
			b = utf8.AppendRune(b, rune(rnd.IntN(0x110000))) // a surrogate becomes U+FFFD
		case 7:
			b = utf8.AppendRune(b, rune(rnd.IntN(0x3000)))
		case 8:
			b = append(b, pick("Mixed", "CAPS", "camelCase", "ÀB", "I a m", "a e\u0301 o", "\u0301", "!e", "/etc/x", "?/\n/", "    ", "<sentinel:12>", "IMGIMGABZ",
				"IMGIMGZ", "日本語カナ", "ㄅㄆ", "ㄱㅎ", "豈", "\u3001", "٣٤٥٦", "12,345", "$5", "。", "，a", "»", "ǅ", "ª", "Ａｂ")...)
		case 9:
			if list := tok.special.list; len(list) > 0 {
				b = append(b, list[rnd.IntN(len(list))].text...)
			}
		case 10:
			b = tok.AppendPiece(b, int32(rnd.IntN(tok.Len())), true)
		default:
			for range 1 + rnd.IntN(8) {
				b = append(b, byte('a'+rnd.IntN(26)))
			}
		}
	}
	return string([]rune(string(b))) // pieces may be parts of characters
}

// damage replaces and removes bytes, so that the text is no UTF-8. libllama ends the process at a character behind U+10FFFF,
// which is left out.
func damage(rnd *rand.Rand, s string) string {
	b := []byte(s)
	for range 1 + rnd.IntN(4) {
		at := rnd.IntN(len(b) + 1)
		b = append(b[:at:at], append([]byte{byte(0x80 + rnd.IntN(0x80))}, b[min(len(b), at+rnd.IntN(3)):]...)...)
	}
	for i := range b {
		if 0xf4 <= b[i] && b[i] < 0xf8 {
			b[i] = 0xf3
		}
	}
	return string(b)
}
