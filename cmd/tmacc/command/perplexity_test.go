package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// novel is a text of about 400 tokens of the model in this program.
var novel = strings.Repeat("It was a cold morning, and the two young ladies were in the room. ", 20)

// TestPerplexity: a model is measured, saves its predictions, and is compared with them.
func TestPerplexity(t *testing.T) {
	needMeasuring(t)
	text, base := file(t, "text", novel), filepath.Join(t.TempDir(), "base")
	measure := func(args ...string) (m measured) {
		t.Helper()
		if err := json.Unmarshal([]byte(ok(t, append([]string{"perplexity", "-q", "-json"}, args...)...)), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	saved := measure("-f", text, "-context", "60", "-kl-base", base, "-save")
	r := saved.Result
	if saved.Context != 60 || r.Chunks < 4 || r.Tokens != 29*r.Chunks || !(r.Perplexity.Value > 1 && r.Perplexity.Value < 500) || !(r.Perplexity.Error > 0) || r.Base != nil || len(saved.Kernels) != 2 {
		t.Errorf("%+v, %+v", saved, r)
	}
	for _, args := range [][]string{{}, {"-f", text}, {"-threads", "1"}} {
		compared := measure(append(args, "-kl-base", base)...)
		c := compared.Result
		if compared.Context != 60 || c.Perplexity != r.Perplexity || c.Base == nil || !(c.Base.Divergence.Value < 1e-6) || c.Base.SameTop.Value != 1 {
			t.Errorf("%v: %+v, %+v", args, compared, c)
		}
	}
	if few := measure("-f", text, "-context", "60", "-chunks", "2").Result; few.Chunks != 2 {
		t.Errorf("%+v", few)
	}
	out := ok(t, "perplexity", "-q", "-kl-base", base, "-cache", "f32")
	for _, want := range []string{"perplexity ", " predicted tokens in ", " chunks of 60\n", "KL divergence ", "same top token, %", "median ", "99.9 % "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	data, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	other, cut := file(t, "other", strings.Repeat("Another text of many words. ", 200)), file(t, "cut", string(data[:len(data)-5]))
	refused(t, refusal{2, "has other tokens than the text of " + other, "perplexity"}, "-q", "-f", other, "-kl-base", base)
	refused(t, refusal{2, cut + ": base: ends too early", "perplexity"}, "-q", "-kl-base", cut)
	refused(t, refusal{2, "the model was made for 1 to 512 positions", "perplexity"}, "-q", "-f", text, "-context", "600")
	refused(t, refusal{2, "and a chunk has 512: give a longer text", "perplexity"}, "-q", "-f", text)

	kept := bytes.Clone(data)
	refused(t, refusal{2, "and a chunk has 512", "perplexity"}, "-q", "-f", text, "-kl-base", base, "-save")
	if data, err = os.ReadFile(base); err != nil || !bytes.Equal(data, kept) {
		t.Errorf("a measurement that failed changed the file: %v", err)
	}
}

// TestPerplexityRefusals: bad usage is one line that says what helps.
func TestPerplexityRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, "perplexity: no text: name its file with -f", "perplexity"},
		{2, "-save: needs the name of a file", "perplexity -f a -save"},
		{2, "-chunks -1: want 1 or more", "perplexity -f a -chunks -1"},
		{2, "-context: is for a text", "perplexity -kl-base a -context 512"},
		{2, "-context 2: chunks have 3 tokens or more", "perplexity -f a -context 2"},
		{2, "nobase: no such file", "perplexity -kl-base nobase"},
		{2, "perplexity.go: base: begins with \"package \"", "perplexity -kl-base perplexity.go"},
		{2, "nofile.gguf: no such file", "perplexity nofile.gguf -f a"},
		{2, "-cache q4: want f16, f32, q8", "perplexity -f a -cache q4"},
	} {
		refused(t, r, "-q")
	}
}
