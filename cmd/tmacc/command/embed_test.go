package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const taleFile = "../tale/tale-bitnet-4m-tq2_0.gguf"

// Embeddings come as lines or as JSON, of one text or of the lines of a file, with the pooling that is asked for.
func TestEmbed(t *testing.T) {
	needMeasuring(t)
	texts := []string{"It was a cold morning.", "Ah!", "The ship sailed at noon."}
	file := filepath.Join(t.TempDir(), "texts")
	if err := os.WriteFile(file, []byte(texts[0]+"\r\n"+texts[1]+"\n"+texts[2]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var d struct {
		Model, Architecture, Pooling string
		Embeddings                   []struct {
			Text    string
			Tokens  int
			Vectors [][]float64
		}
	}
	for _, pooling := range []string{"none", "mean", "cls", "last"} {
		args := []string{"embed", taleFile, "-q", "-f", file, "-pooling", pooling}
		if err := json.Unmarshal([]byte(ok(t, append(args, "-json")...)), &d); err != nil {
			t.Fatal(err)
		}
		if d.Model != taleFile || d.Architecture != "bitnet" || d.Pooling != pooling || len(d.Embeddings) != 3 {
			t.Fatalf("%s of %s, pooling %s: %d embeddings", d.Architecture, d.Model, d.Pooling, len(d.Embeddings))
		}
		lines := 0
		for i, e := range d.Embeddings {
			if want := map[bool]int{true: e.Tokens, false: 1}[pooling == "none"]; e.Text != texts[i] || e.Tokens < 1 || len(e.Vectors) != want {
				t.Errorf("%s: %q of %d tokens has %d vectors", pooling, e.Text, e.Tokens, len(e.Vectors))
			}
			for _, v := range e.Vectors {
				if length := math.Sqrt(square(v)); math.Abs(length-1) > 1e-5 {
					t.Errorf("%s: a vector of length %v", pooling, length)
				}
			}
			lines += len(e.Vectors)
		}
		if pooling == "none" {
			lines += 3 // behind each text
		}
		if out := ok(t, args...); strings.Count(out, "\n") != lines {
			t.Errorf("%s: %d lines, want %d", pooling, strings.Count(out, "\n"), lines)
		}
	}
	all := ok(t, "embed", taleFile, "-q", "-f", file, "-pooling", "mean")
	if one := ok(t, "embed", taleFile, "-q", "-p", texts[2], "-pooling", "mean", "-threads", "1"); !strings.HasSuffix(all, "\n"+one) || len(strings.Fields(one)) != len(d.Embeddings[0].Vectors[0]) {
		t.Errorf("a text alone has another embedding")
	}
}

func square(v []float64) (sum float64) {
	for _, x := range v {
		sum += x * x
	}
	return sum
}

// Bad usage is one line that says what helps.
func TestEmbedRefusals(t *testing.T) {
	needMeasuring(t)
	for _, r := range []refusal{
		{2, "embed: want a text with -p, or a file of texts with -f", "embed " + taleFile},
		{2, "embed: want a text with -p, or a file of texts with -f", "embed " + taleFile + " -p a -f b"},
		{2, "embed: 0 arguments, want one file", "embed"},
		{2, "-pooling rank: want none, mean, cls or last", "embed " + taleFile + " -p a -pooling rank"},
		{2, "-threads -1: want 1 to", "embed " + taleFile + " -p a -threads -1"},
		{2, "nofile: no such file", "embed " + taleFile + " -f nofile"},
		{2, "text 1 of 1 has 3 tokens; want 1 to 2 (-context)", "embed " + taleFile + " -p abcd -context 2"},
		{2, "text 1 of 1 is empty, and the model has no token to begin with: leave it out", "embed " + taleFile + " -f /dev/null"},
	} {
		refused(t, r, "-q")
	}
}
