//go:build peer && linux && amd64

package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/perplexity"
	"github.com/tmacc/tmacc/tests/drawn"
)

// envQuantize, in the environment, makes this test binary a child that writes a file of another type by libllama: its value is
// a row of perplexity.json.
const envQuantize = "TMACC_TEST_QUANTIZE"

// quantizes writes that file, if it is asked to.
func quantizes() (asked bool) {
	text := os.Getenv(envQuantize)
	if text == "" {
		return false
	}
	var q quantization
	err := json.Unmarshal([]byte(text), &q)
	if err == nil {
		err = q.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// quantization is a row of perplexity.json: how llama.cpp quantized tale-4m-f16, and what it measured then.
type quantization struct {
	Type     string
	FileType int32 `json:"ftype"`
	Imatrix  int   // 1: of ones
	Pure     int
	PPL      float64
	KL       float64 `json:"kl_mean"`

	From, To string // files
	Tensors  []weights
}

// weights is a tensor whose columns count alike.
type weights struct {
	Name    string
	Columns int
}

// quantizeParams is llama_model_quantize_params of llama.cpp v0.5.0.
type quantizeParams struct {
	threads, fileType, output, embedding int32
	again, quantizeOutput, copies        bool
	pure, split, dry                     bool
	imatrix                              *imatrixData
	overrides, types, layers             unsafe.Pointer
	most                                 uint64
}

// imatrixData is llama_model_imatrix_data.
type imatrixData struct {
	name *byte
	data *float32
	size uint64
}

// write writes the file by libllama.
func (q *quantization) write() error {
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
		backends func(folder string)
		defaults func() quantizeParams
		quantize func(from, to string, p *quantizeParams) uint32
	)
	for name, to := range map[string]any{"llama_log_set": &logTo, "ggml_backend_load_all_from_path": &backends,
		"llama_model_quantize_default_params": &defaults, "llama_model_quantize": &quantize} {
		purego.RegisterLibFunc(to, lib, name)
	}
	logTo(purego.NewCallback(func(level int32, text, data unsafe.Pointer) {}), nil)
	backends(os.Getenv("TMACC_GGML"))
	p := defaults()
	p.fileType, p.pure = q.FileType, q.Pure == 1
	if q.Imatrix == 1 {
		p.imatrix = q.ones()
	}
	if code := quantize(q.From, q.To, &p); code != 0 {
		return fmt.Errorf("llama_model_quantize of %s: %d", q.Type, code)
	}
	return nil
}

// ones is a list, which ends with an empty name, of importances that are all 1.
func (q *quantization) ones() *imatrixData {
	var list []imatrixData
	for _, x := range q.Tensors {
		name, data := append([]byte(x.Name), 0), make([]float32, x.Columns)
		for i := range data {
			data[i] = 1
		}
		list = append(list, imatrixData{&name[0], &data[0], uint64(len(data))})
	}
	return &append(list, imatrixData{})[0]
}

// TestQuantized compares perplexities and divergences of all types that llama.cpp quantized a model to, and whose products are known, with what
// it measured. libllama quantizes the model again, in a child process.
func TestQuantized(t *testing.T) {
	if !drawn.New(t).Long() {
		t.Skip("takes minutes; TMACC_LONG=1 runs it")
	}
	if os.Getenv("TMACC_GGML") == "" {
		t.Skip("TMACC_GGML names no folder of prebuilt libraries; CONTRIBUTING.md says where they are")
	}
	from := filepath.Join(trainedFolder(t), "tale-4m-f16.gguf")
	rows, tensors := quantizations(t, filepath.Dir(from)), tensorsOf(t, from)
	folder, base := t.TempDir(), &bytes.Buffer{}
	m, tokens := heldOut(t, from, folder, model.CacheF32)
	judge(t, m, tokens, perplexity.Options{}, base, nil)
	for _, q := range rows {
		t.Run(q.Type, func(t *testing.T) {
			q.From, q.To, q.Tensors = from, filepath.Join(t.TempDir(), "model.gguf"), tensors
			quantize(t, q)
			m, tokens := heldOut(t, q.To, folder, model.CacheF32)
			r := judge(t, m, tokens, perplexity.Options{}, nil, base)
			within(t, "perplexity", r.Perplexity.Value, q.PPL, 0.005)
			if kl := r.Base.Divergence.Value; kl < 0.9*q.KL {
				finer(t, kl, q, base)
				return
			}
			within(t, "divergence", r.Base.Divergence.Value, q.KL, 0.1)
		})
	}
}

// finer is for types whose activations have a scale for fewer elements here than in llama.cpp: the divergence is less, but no less than
// that of the weights alone.
func finer(t *testing.T, kl float64, q quantization, base *bytes.Buffer) {
	t.Helper()
	f, err := gguf.Open(q.To)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := model.New(f, model.PureGo{}, model.Options{Cache: model.CacheF32, Float: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	weights := judge(t, m, nil, perplexity.Options{}, nil, base).Base.Divergence.Value
	t.Logf("divergence %.6f, llama.cpp %.6f, weights alone %.6f", kl, q.KL, weights)
	if !(kl >= 0.98*weights) {
		t.Errorf("the divergence %v is less than the %v of the weights alone", kl, weights)
	}
}

// quantizations reads the rows of model A.
func quantizations(t *testing.T, folder string) []quantization {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "perplexity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ A []quantization }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.A) < 20 {
		t.Fatalf("perplexity.json has %d rows", len(file.A))
	}
	return file.A
}

// tensorsOf are the matrices of a file.
func tensorsOf(t *testing.T, path string) (out []weights) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range f.Tensors {
		if x := &f.Tensors[i]; len(x.Shape) == 2 {
			out = append(out, weights{x.Name, x.Shape[0]})
		}
	}
	return out
}

// quantize lets a child process write a file.
func quantize(t *testing.T, q quantization) {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envQuantize+"="+string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strconv.Quote(q.Type), err, out)
	}
}
