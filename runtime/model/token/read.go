package token

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Keys of the metadata.
const (
	keyModel       = "tokenizer.ggml.model"
	keyPre         = "tokenizer.ggml.pre"
	keyTokens      = "tokenizer.ggml.tokens"
	keyScores      = "tokenizer.ggml.scores"
	keyKinds       = "tokenizer.ggml.token_type"
	keyMerges      = "tokenizer.ggml.merges"
	keyBOS         = "tokenizer.ggml.bos_token_id"
	keyEOS         = "tokenizer.ggml.eos_token_id"
	keyUnknown     = "tokenizer.ggml.unknown_token_id"
	keyAddBOS      = "tokenizer.ggml.add_bos_token"
	keyAddEOS      = "tokenizer.ggml.add_eos_token"
	keySpacePrefix = "tokenizer.ggml.add_space_prefix"
	keyName        = "general.name"
)

// Limits of this reader. Published vocabularies have up to 262,144 tokens of up to 1,024 bytes, and 514,906 merges.
const (
	maxTokens     = 1 << 20
	maxMerges     = 1 << 21
	maxTokenBytes = 1 << 12
)

// Error is a fault of a tokenizer's metadata, on one line.
type Error struct{ Key, Problem string }

func (e *Error) Error() string { return fmt.Sprintf("token: key %q: %s", e.Key, e.Problem) }

// reader reads a tokenizer. After an error it reads nothing.
type reader struct {
	f      *gguf.File
	err    error
	byText map[string]int32 // all tokens
}

func (r *reader) fail(key, problem string, args ...any) {
	if r.err == nil {
		r.err = &Error{key, fmt.Sprintf(problem, args...)}
	}
}

func (r *reader) tokenizer() *Tokenizer {
	t := &Tokenizer{bos: None, eos: None, eot: None, unk: None}
	kindOfModel := r.bytePairs
	switch model, _ := read[string](r, keyModel); {
	case r.err != nil:
	case model == "gpt2":
	case model == "llama":
		kindOfModel = r.sentencePieces
		t.bos, t.eos, t.unk = 1, 2, 0
		t.addBOS, t.spacePrefix = true, true
	case model == "":
		r.fail(keyModel, "is missing or empty: the file has no tokenizer")
	default:
		r.fail(keyModel, "is %q, which is not supported; gpt2 and llama are", model)
	}
	for _, part := range []func(*Tokenizer){r.vocabulary, r.roles, kindOfModel, r.complete} {
		if r.err == nil {
			part(t)
		}
	}
	return t
}

// read is the value of a key, which must be a T, and whether it is there.
func read[T any](r *reader, key string) (x T, ok bool) {
	if r.err != nil {
		return x, false
	}
	v, err := r.f.Value(key)
	if err != nil {
		r.err = err
		return x, false
	}
	if v == nil {
		return x, false
	}
	if x, ok = v.(T); !ok {
		r.fail(key, "holds %T; it should hold %T", v, x)
	}
	return x, ok
}

// perToken is an array with a value for each token, or nil if it is missing.
func perToken[T any](r *reader, key string, n int) []T {
	x, ok := read[[]T](r, key)
	if ok && len(x) != n {
		r.fail(key, "has %d values for %d tokens", len(x), n)
	}
	return x
}

// vocabulary reads the texts and the kinds of the tokens.
func (r *reader) vocabulary(t *Tokenizer) {
	t.texts, _ = read[[]string](r, keyTokens)
	n := len(t.texts)
	if r.err == nil && n == 0 {
		r.fail(keyTokens, "is missing or empty")
	}
	r.limit(keyTokens, "tokens", n, maxTokens)
	types := perToken[int32](r, keyKinds, n)
	if r.err != nil {
		return
	}
	t.kinds, r.byText = slices.Repeat([]kind{normal}, n), make(map[string]int32, n)
	for i, x := range types {
		if x < 0 || x > int32(byteValue) {
			r.fail(keyKinds, "has type %d for token %d; types are 0 to %d", x, i, byteValue)
			return
		}
		t.kinds[i] = kind(x)
	}
	for i, text := range t.texts {
		if len(text) > maxTokenBytes {
			r.fail(keyTokens, "token %d has %d bytes; the limit of this reader is %d", i, len(text), maxTokenBytes)
			return
		}
		if first, twice := r.byText[text]; twice {
			r.fail(keyTokens, "tokens %d and %d are the same, %q", first, i, shorten(text))
			return
		}
		if text != "" { // nothing becomes an empty token, and there may be several
			r.byText[text] = int32(i)
		}
	}
}

// limit refuses an array that is too long.
func (r *reader) limit(key, what string, n, most int) {
	if n > most {
		r.fail(key, "has %d %s; the limit of this reader is %d", n, what, most)
	}
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// bytePairs reads what byte-level BPE needs.
func (r *reader) bytePairs(t *Tokenizer) {
	r.preTokenizer(t)
	if r.err != nil {
		return
	}
	t.ids = make(map[string]int32, len(t.texts))
	var b []byte
	for i, text := range t.texts {
		decoded, ok := appendBytes(b[:0], text)
		if b = decoded; string(decoded) != text {
			text = string(decoded)
		}
		if t.kinds[i] == normal {
			t.texts[i] = text
		}
		if ok && text != "" && t.kinds[i].inText() {
			t.ids[text] = int32(i)
		}
	}
	r.merges(t)
	for c := range t.bytes {
		t.bytes[c] = t.lookUp(string([]byte{byte(c)}))
	}
}

func (r *reader) preTokenizer(t *Tokenizer) {
	name, _ := read[string](r, keyPre)
	if t.pre = preTokenizers[name]; t.pre != nil {
		t.addBOS = t.pre.bos
		return
	}
	problem := fmt.Sprintf("is %q, which is none of the %d names that are supported", name, len(preTokenizers))
	if name == "" {
		problem = "is missing or empty; it names the rule by which the model's texts are split into words"
	}
	r.fail(keyPre, "%s, such as gpt-2, llama-bpe and qwen2", problem)
}

// lookUp is the symbol of a text in ids, or None.
func (t *Tokenizer) lookUp(text string) int32 {
	if id, ok := t.ids[text]; ok {
		return id
	}
	return None
}

// merges reads the merges of byte-level BPE, the first of them before the others. A merge may make something that is no
// token, which gets an id behind the tokens' and can be merged on.
func (r *reader) merges(t *Tokenizer) {
	list, ok := read[[]string](r, keyMerges)
	if r.err == nil && !ok {
		r.fail(keyMerges, "is missing")
	}
	r.limit(keyMerges, "merges", len(list), maxMerges)
	if r.err != nil {
		return
	}
	t.merges = make(map[uint64]merge, len(list))
	next := int32(len(t.texts))
	symbol := func(b []byte) int32 {
		if id, ok := t.ids[string(b)]; ok {
			return id
		}
		t.ids[string(b)] = next
		next++
		return next - 1
	}
	var b []byte
	for i, line := range list {
		gap := strings.IndexByte(line[min(1, len(line)):], ' ') + 1
		if gap == 0 || gap == len(line)-1 {
			r.fail(keyMerges, "merge %d is %q; it should be two texts with a space between them", i, shorten(line))
			return
		}
		left, inText := appendBytes(b[:0], line[:gap])
		both, inText2 := appendBytes(left, line[gap+1:])
		if b = both; !inText || !inText2 || len(both) > maxTokenBytes {
			continue // no text has it
		}
		key := pairKey(symbol(both[:len(left)]), symbol(both[len(left):]))
		if _, twice := t.merges[key]; !twice {
			t.merges[key] = merge{int32(i), symbol(both)}
		}
	}
}

// sentencePieces reads what SentencePiece needs.
func (r *reader) sentencePieces(t *Tokenizer) {
	scores := perToken[float32](r, keyScores, len(t.texts))
	if r.err == nil && scores == nil {
		r.fail(keyScores, "is missing")
	}
	if r.err != nil {
		return
	}
	for i, s := range scores {
		if s != s {
			r.fail(keyScores, "the score of token %d is not a number", i)
			return
		}
	}
	t.ranks = rankByScore(scores)
	if prefix, ok := read[bool](r, keySpacePrefix); ok {
		t.spacePrefix = prefix
	}
	t.ids = make(map[string]int32, len(t.texts))
	for i, text := range t.texts {
		if text != "" && t.kinds[i].inText() {
			t.ids[text] = int32(i)
			t.longest = max(t.longest, len(text))
		}
	}
	for c := range t.bytes {
		id, ok := r.byText[fmt.Sprintf("<0x%02X>", c)]
		if !ok {
			id = t.lookUp(string([]byte{byte(c)}))
		}
		t.bytes[c] = id
	}
}

// rankByScore returns the place of each score, 0 the highest. Equal scores share a place.
func rankByScore(scores []float32) []int32 {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	ranks := make([]int32, len(scores))
	for i, id := range order {
		if ranks[id] = int32(i); i > 0 && scores[id] == scores[order[i-1]] {
			ranks[id] = ranks[order[i-1]]
		}
	}
	return ranks
}

// complete turns byte tokens into their bytes, lists the special tokens, and looks for tokens that are needed and missing.
func (r *reader) complete(t *Tokenizer) {
	t.special = newSpecials(r.specials(t))
	if add, ok := read[bool](r, keyAddBOS); ok {
		t.addBOS = add
	}
	t.addEOS, _ = read[bool](r, keyAddEOS)
	for i, k := range t.kinds {
		if k != byteValue {
			continue
		}
		b, ok := byteText(t.texts[i])
		if !ok {
			r.fail(keyTokens, "token %d stands for a byte; it should be like \"<0x0A>\", not %q", i, shorten(t.texts[i]))
			return
		}
		t.texts[i] = string([]byte{b})
	}
	if t.addBOS && t.bos == None {
		r.fail(keyBOS, "is missing, and texts of this model begin with it")
		return
	}
	for c, id := range t.bytes {
		if !t.isToken(id) && t.needs(byte(c)) {
			r.fail(keyTokens, "has no token for byte 0x%02X", c)
			return
		}
	}
}

// needs reports whether a vocabulary must have a token for a byte. SentencePiece has the unknown token, or needs all that are in
// UTF-8. Vocabularies of byte-level BPE may lack control characters and the first bytes of characters that Unicode has not
// assigned.
func (t *Tokenizer) needs(c byte) bool {
	if t.pre == nil {
		return t.unk == None && (c < 0xc0 || 0xc2 <= c && c < 0xf5)
	}
	return c == '\n' || ' ' <= c && c <= '~' || 0x80 <= c && c < 0xc0 || 0xc2 <= c && c <= 0xf0
}

// byteText is the byte of a text like "<0x0A>".
func byteText(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(s[3:5], 16, 8)
	return byte(b), err == nil
}
