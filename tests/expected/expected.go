// Package expected has the values that models must give: tokens, logits and greedy continuations, mostly llama.cpp's. A few
// models and their values are in the repository, in testdata/gguf. Others come from the folder that TMACC_DATA names.
package expected

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Committed are the models in the repository.
var Committed = []string{"bitnet-tq2_0", "llama-q4_0", "qwen3-q2_0"}

// Model is a model file and its expected values.
type Model struct {
	Path string // of the GGUF file
	Values
}

// Values are the ones that a model must give.
type Values struct {
	Architecture  string        `json:"architecture"`
	Vocabulary    int           `json:"n_vocab"`
	Tokenizer     Tokenizer     `json:"tokenizer"`
	Prompts       []Prompt      `json:"prompts"`
	SpecialTokens []SpecialText `json:"special_tokens_in_text"`
}

// Tokenizer is the kind of a vocabulary, and its special tokens.
type Tokenizer struct {
	Model  string `json:"model"`
	Pre    string `json:"pre"`
	BOS    int    `json:"bos"`
	EOS    int    `json:"eos"`
	AddBOS bool   `json:"add_bos"`
}

// Prompt is a text, its tokens, and the values after them. Names with F32 are of the same weights, dequantized to float32,
// and float activations. Names with F64 are of a double precision evaluation, where llama.cpp does not run the model.
type Prompt struct {
	Name            string    `json:"name"`
	Text            string    `json:"text"`
	WithBOS         []int     `json:"tokens_with_bos"`
	WithoutBOS      []int     `json:"tokens_without_bos"`
	Input           string    `json:"input_tokens"` // the name of the tokens that were evaluated
	Detokenized     string    `json:"detokenized"`
	Greedy          []int     `json:"greedy"` // tokens by arg max after the input
	GreedyMargin    []float64 `json:"greedy_margin"`
	GreedyF32       []int     `json:"greedy_f32"`
	GreedyMarginF32 []float64 `json:"greedy_f32_margin"`
	GreedyF64       []int     `json:"greedy_f64"`
	GreedyMarginF64 []float64 `json:"greedy_f64_margin"`
	Argmax          []int     `json:"argmax"` // of the logits at each position of the input
	ArgmaxF32       []int     `json:"argmax_f32"`
	MeanNLL         float64   `json:"mean_nll"`
	MeanNLLF32      float64   `json:"mean_nll_f32"`
	Logits          []float32 `json:"logits"` // at the last position of the input
	LogitsF32       []float32 `json:"logits_f32"`
	LogitsF64       []float32 `json:"logits_f64"`
}

// Tokens are the tokens that were evaluated.
func (p Prompt) Tokens() []int {
	if p.Input == "tokens_with_bos" {
		return p.WithBOS
	}
	return p.WithoutBOS
}

// SpecialText is a text with special tokens: its tokens if they are parsed as such, and if they are plain text.
type SpecialText struct {
	Text  string `json:"text"`
	Parse []int  `json:"tokens_parse_special"`
	Plain []int  `json:"tokens_plain"`
}

// Open returns a model by its name, such as "llama-q4_0", from the repository or from the folder of TMACC_DATA. It skips the
// test if neither has it.
func Open(t testing.TB, name string) Model {
	t.Helper()
	for _, committed := range Committed {
		if name == committed {
			m, err := readCommitted(name)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	m := Model{Path: File(t, name+".gguf")}
	text, err := os.ReadFile(File(t, name+".expected.json"))
	if err == nil {
		err = json.Unmarshal(text, &m.Values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// File returns the path of a file in the folder of TMACC_DATA or in one of its subfolders. It skips the test if TMACC_DATA
// is not set, and fails it if the folder has no such file.
func File(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("TMACC_DATA")
	if root == "" {
		t.Skip(name + ": TMACC_DATA names no folder")
	}
	for _, pattern := range []string{name, "*/" + name} {
		if found, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern))); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s has no %s", root, name)
	return ""
}

// Folder returns the folder of the models in the repository, from any folder in it.
func Folder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if folder := filepath.Join(dir, "testdata", "gguf"); exists(filepath.Join(folder, Committed[0]+".gguf")) {
			return folder, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no folder above this one has testdata/gguf/%s.gguf", Committed[0])
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readCommitted reads a model of the repository. Its logits are in a file of their own.
func readCommitted(name string) (m Model, err error) {
	folder, err := Folder()
	if err != nil {
		return m, err
	}
	m.Path = filepath.Join(folder, name+".gguf")
	text, err := os.ReadFile(filepath.Join(folder, name+".expected.json"))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m.Values); err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	packed, err := os.ReadFile(filepath.Join(folder, name+".logits.gz"))
	if err != nil {
		return m, err
	}
	return m, m.unpackLogits(packed)
}

// unpackLogits reads the logits of all prompts: of each the Logits, then the LogitsF32, as little-endian float32.
func (x *Values) unpackLogits(packed []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	for i := range x.Prompts {
		p := &x.Prompts[i]
		p.Logits, p.LogitsF32 = make([]float32, x.Vocabulary), make([]float32, x.Vocabulary)
		for _, logits := range [][]float32{p.Logits, p.LogitsF32} {
			if err := binary.Read(r, binary.LittleEndian, logits); err != nil {
				return fmt.Errorf("logits of %s: %w", p.Name, err)
			}
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("logits are left over: %w", err)
	}
	return nil
}

// packLogits is the inverse of unpackLogits.
func (x *Values) packLogits() ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	for _, p := range x.Prompts {
		for _, logits := range [][]float32{p.Logits, p.LogitsF32} {
			if len(logits) != x.Vocabulary {
				return nil, fmt.Errorf("%s has %d logits, the vocabulary %d tokens", p.Name, len(logits), x.Vocabulary)
			}
			if err := binary.Write(w, binary.LittleEndian, logits); err != nil {
				return nil, err
			}
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
