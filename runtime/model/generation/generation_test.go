package generation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/grammar"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// tale is the model of tmacc run in pure Go, for a number of tokens, and its tokenizer.
func tale(t *testing.T, positions int) (*model.Model, *token.Tokenizer) {
	t.Helper()
	f, err := gguf.Open("../../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, err := token.New(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(f, model.PureGo{}, model.Options{Context: positions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, tokens
}

// goOn continues a text in a new session. It returns what was added.
func goOn(t *testing.T, ctx context.Context, m *model.Model, tokens *token.Tokenizer, text string, opt Options) (string, *Report, error) {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var added strings.Builder
	say := opt.Text
	opt.Text = func(b []byte) error {
		if !utf8.Valid(b) {
			t.Errorf("half a character: %q", b)
		}
		added.Write(b)
		if say != nil {
			return say(b)
		}
		return nil
	}
	r, err := Continue(ctx, m, s, tokens, text, opt)
	return added.String(), r, err
}

const prompt = "It was a cold morning, and"

// The likeliest tokens are the same at each call, and the number asked for; each is the likeliest after the ones before.
func TestGreedy(t *testing.T) {
	m, tokens := tale(t, 0)
	text, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 12})
	if err != nil || r.End != Enough || r.Tokens != 12 || r.Prompt != len(tokens.Encode(prompt, token.Options{})) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.PrefillSpeed() <= 0 || r.DecodeSpeed() <= 0 {
		t.Errorf("%v and %v tokens a second", r.PrefillSpeed(), r.DecodeSpeed())
	}
	if !strings.HasPrefix(text, " the ") {
		t.Errorf("%q", text)
	}
	half, _, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 6})
	if err != nil || !strings.HasPrefix(text, half) {
		t.Errorf("%q, %v", half, err)
	}
	rest, _, err := goOn(t, t.Context(), m, tokens, prompt+half, Options{Tokens: 6})
	if err != nil || half+rest != text {
		t.Errorf("%q and %q, want %q", half, rest, text)
	}
}

// The same seed gives the same text, another one another text.
func TestSeed(t *testing.T) {
	m, tokens := tale(t, 0)
	text := func(seed uint64) string {
		s, err := sample.New(sample.Options{Temperature: 0.8, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 10, Sampler: s})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if a, b, c := text(1), text(1), text(2); a != b || a == c {
		t.Errorf("%q, %q, %q", a, b, c)
	}
}

// A text ends when the context is full, when the model has nothing more to say, or when it is interrupted.
func TestEnds(t *testing.T) {
	const room = 12
	m, tokens := tale(t, room)
	_, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{})
	if err != nil || r.End != Full || r.Prompt+r.Tokens != room {
		t.Errorf("full: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	text, r, err := goOn(t, ctx, m, tokens, prompt, Options{Text: func([]byte) error { cancel(); return nil }})
	if err != nil || r.End != Interrupted || r.Tokens != 1 || text == "" {
		t.Errorf("interrupted: %+v, %q, %v", r, text, err)
	}
	if _, r, err = goOn(t, ctx, m, tokens, prompt, Options{}); err != nil || r.End != Interrupted || r.Tokens != 0 {
		t.Errorf("interrupted before: %+v, %v", r, err)
	}
	stopped, seen := tale(t, 0)
	chat := "<|im_start|>user\nHave you heard the news?<|im_end|>\n<|im_start|>assistant\n"
	s, err := stopped.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids := seen.Encode(chat, token.Options{Special: true})
	if err := stopped.Forward(t.Context(), []model.Item{{Session: s, Tokens: ids, Want: model.WantNone}}); err != nil {
		t.Fatal(err)
	}
	if r, err = Continue(t.Context(), stopped, s, seen, `"`, Options{}); err != nil || r.End != Stopped {
		t.Errorf("stopped: %+v, %v", r, err)
	}
}

// What cannot go on is an error that says what helps; so is text that cannot be handed on.
func TestRefuses(t *testing.T) {
	m, tokens := tale(t, 12)
	if _, _, err := goOn(t, t.Context(), m, tokens, "", Options{}); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
	long := strings.Repeat("cold morning ", 20)
	want := fmt.Sprintf("the text has %d tokens, and a context of 12 has room for 11 and a new one: give a shorter text or a longer context", len(tokens.Encode(long, token.Options{})))
	if _, _, err := goOn(t, t.Context(), m, tokens, long, Options{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	broken := errors.New("broken pipe")
	_, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Text: func([]byte) error { return broken }})
	if !errors.Is(err, broken) || r.Tokens != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Tokens computes only what a session lacks, and gives the text that a new session gives.
func TestTokens(t *testing.T) {
	m, tokens := tale(t, 0)
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	morning := tokens.Encode(prompt, token.Options{})
	evening := tokens.Encode("It was a cold evening, and", token.Options{})
	same := 0
	for same < min(len(morning), len(evening)) && morning[same] == evening[same] {
		same++
	}
	texts := map[string]string{}
	for i, c := range []struct {
		ids  []int32
		kept int
	}{{morning, 0}, {evening, same}, {evening, len(evening) - 1}, {morning, same}, {morning[:same], same - 1}} {
		var text strings.Builder
		r, err := Tokens(t.Context(), m, s, tokens, c.ids, Options{Tokens: 8, Text: func(b []byte) error { text.Write(b); return nil }})
		if err != nil || r.Kept != c.kept || r.Kept+r.Prompt != len(c.ids) {
			t.Errorf("%d: %+v, %v; want %d kept", i, r, err, c.kept)
		}
		key := fmt.Sprint(c.ids)
		if was, ok := texts[key]; ok && was != text.String() {
			t.Errorf("%d: %q, want %q", i, text.String(), was)
		}
		texts[key] = text.String()
	}
	if texts[fmt.Sprint(morning)] == texts[fmt.Sprint(evening)] {
		t.Error("both texts go on alike")
	}
	if _, err := Tokens(t.Context(), m, s, tokens, nil, Options{}); err == nil {
		t.Error("no tokens are taken")
	}
}

// A text ends before a stop string, also where tokens end inside of it.
func TestStop(t *testing.T) {
	m, tokens := tale(t, 0)
	all, _, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 24})
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; at < len(all)-3; at += 9 {
		stop := all[at : at+3]
		text, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 24, Stop: []string{"no such text", stop}})
		if want := all[:strings.Index(all, stop)]; err != nil || text != want || r.End != Stopped {
			t.Errorf("stop %q: %q, %+v, %v; want %q", stop, text, r, err, want)
		}
	}
	text, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: 24, Stop: []string{all[len(all)-2:] + "more"}})
	if err != nil || text != all || r.End != Enough {
		t.Errorf("%q, %+v, %v; want %q", text, r, err, all)
	}
	for _, stop := range []string{"", "\xff"} {
		if _, _, err := goOn(t, t.Context(), m, tokens, prompt, Options{Stop: []string{stop}}); err == nil {
			t.Errorf("stop string %q is taken", stop)
		}
	}
}

// Stop strings that overlap, in pieces of every size: the earliest begins the end.
func TestStops(t *testing.T) {
	const text = "aabaabaaabxyz"
	for _, stop := range [][]string{{"aabaaa"}, {"baaab", "aabx"}, {"xyzz"}, {"xyz", "yz"}, {"a"}, {"q", "zz"}} {
		want := len(text)
		for _, x := range stop {
			if i := strings.Index(text, x); i >= 0 {
				want = min(want, i)
			}
		}
		for size := 1; size <= len(text); size++ {
			s, err := newStops(stop)
			if err != nil {
				t.Fatal(err)
			}
			got, found := "", false
			for at := 0; at < len(text) && !found; at += size {
				var sure []byte
				sure, found = s.write([]byte(text[at:min(at+size, len(text))]))
				got += string(sure)
			}
			if !found {
				got += string(s.held)
			}
			if got != text[:want] || found != (want < len(text)) {
				t.Errorf("%q in pieces of %d: %q, %t; want %q", stop, size, got, found, text[:want])
			}
		}
	}
}

// A grammar ends a text within the limit of tokens, and the reason is not the limit; where no text is short enough, it is.
func TestMasked(t *testing.T) {
	m, tokens := tale(t, 0)
	g, err := grammar.Parse(`root ::= " I " [a-z ]{24,} "!"`)
	if err != nil {
		t.Fatal(err)
	}
	words := grammar.NewVocabulary(tokens)
	for limit, want := range map[int]End{3: Enough, 14: Stopped} {
		s, err := sample.New(sample.Options{Temperature: 1, Seed: 3, Mask: grammar.NewMask(g, words)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a sampler begins each text anew
			text, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: limit, Sampler: s})
			if err != nil || r.End != want || r.Tokens > limit || !strings.HasPrefix(text, " I ") || strings.HasSuffix(text, "!") != (want == Stopped) {
				t.Errorf("limit %d: %q, %+v, %v", limit, text, r, err)
			}
		}
	}
	if g, err = grammar.Parse(`root ::= "\uFFFF" [\uFFF0-\uFFFF]`); err != nil {
		t.Fatal(err)
	}
	s, err := sample.New(sample.Options{Mask: grammar.NewMask(g, grammar.NewVocabulary(few{tokens}))})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := goOn(t, t.Context(), m, tokens, prompt, Options{Sampler: s}); err == nil || !strings.Contains(err.Error(), "no token of the vocabulary continues the text") {
		t.Error(err)
	}
}

// few are the tokens without the ones of bytes above 0x7f.
type few struct{ *token.Tokenizer }

func (f few) AppendPiece(dst []byte, id int32, special bool) []byte {
	piece := f.Tokenizer.AppendPiece(nil, id, special)
	for _, b := range piece {
		if b >= 0x80 {
			return dst
		}
	}
	return append(dst, piece...)
}
