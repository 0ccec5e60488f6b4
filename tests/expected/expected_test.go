package expected

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

var update = flag.Bool("update", false, "write the expected values of the committed models again, from the folder of TMACC_DATA")

// TestCommitted: the expected values in the repository are whole and belong to their models.
func TestCommitted(t *testing.T) {
	for _, name := range Committed {
		m := Open(t, name)
		f, err := gguf.Open(m.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if arch, err := f.Text("general.architecture"); err != nil || arch != m.Architecture {
			t.Errorf("%s has architecture %q, %v; want %q", name, arch, err, m.Architecture)
		}
		if tokens, ok := f.Get("tokenizer.ggml.tokens").([]string); !ok || len(tokens) != m.Vocabulary {
			t.Errorf("%s has %d tokens; want %d", name, len(tokens), m.Vocabulary)
		}
		if len(m.Prompts) != 4 || len(m.SpecialTokens) == 0 {
			t.Errorf("%s has %d prompts and %d texts with special tokens", name, len(m.Prompts), len(m.SpecialTokens))
		}
		for _, p := range m.Prompts {
			if n := len(p.Tokens()); n == 0 || len(p.Argmax) != n || len(p.Greedy) != 16 {
				t.Errorf("%s, %s: %d tokens, %d of Argmax, %d of Greedy", name, p.Name, n, len(p.Argmax), len(p.Greedy))
			}
			if best := argmax(p.Logits); best != p.Argmax[len(p.Argmax)-1] || best != p.Greedy[0] {
				t.Errorf("%s, %s: the largest logit is of token %d, Argmax and Greedy say %d and %d", name, p.Name, best, p.Argmax[len(p.Argmax)-1], p.Greedy[0])
			}
			if best := argmax(p.LogitsF32); best != p.GreedyF32[0] {
				t.Errorf("%s, %s: the largest logit of float32 is of token %d, GreedyF32 says %d", name, p.Name, best, p.GreedyF32[0])
			}
		}
	}
}

func argmax(x []float32) (best int) {
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// TestOrigin: the expected values in the repository are those that came with the models. -update writes them again.
func TestOrigin(t *testing.T) {
	folder, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Committed {
		text, err := os.ReadFile(File(t, name+".expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want Values
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if *update {
			rewrite(t, filepath.Join(folder, name), text, want)
		}
		if m := Open(t, name); !reflect.DeepEqual(m.Values, want) {
			t.Errorf("%s has other expected values than %s: run with -update", name, os.Getenv("TMACC_DATA"))
		}
	}
}

// rewrite writes expected values for the repository: the logits compressed, all else as JSON on one line.
func rewrite(t *testing.T, path string, text []byte, want Values) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var whole map[string]any
	if err := d.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	for _, p := range whole["prompts"].([]any) {
		delete(p.(map[string]any), "logits")
		delete(p.(map[string]any), "logits_f32")
	}
	rest, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := want.packLogits()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{".expected.json": append(rest, '\n'), ".logits.gz": logits} {
		if err := os.WriteFile(path+name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackedLogits: logits survive packing, and damage is found.
func TestPackedLogits(t *testing.T) {
	x := Values{Vocabulary: 2, Prompts: []Prompt{{Name: "a", Logits: []float32{1, -2}, LogitsF32: []float32{3, 0.1}}}}
	packed, err := x.packLogits()
	if err != nil {
		t.Fatal(err)
	}
	y := Values{Vocabulary: 2, Prompts: []Prompt{{Name: "a"}}}
	if err := y.unpackLogits(packed); err != nil || !reflect.DeepEqual(x, y) {
		t.Errorf("%v, %v", y, err)
	}
	for _, other := range []Values{{Vocabulary: 3, Prompts: y.Prompts}, {Vocabulary: 1, Prompts: y.Prompts}} {
		if err := other.unpackLogits(packed); err == nil {
			t.Errorf("logits of 2 tokens are read as logits of %d", other.Vocabulary)
		}
	}
	x.Prompts[0].Logits = nil
	if _, err := x.packLogits(); err == nil {
		t.Error("missing logits are packed")
	}
}
