//go:build peer && linux && amd64

package model_test

import (
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/ggufparts"
	"github.com/tmacc/tmacc/tests/oracle"
)

// peerChild, in the environment, makes this test binary a child process that computes embeddings by libllama: it may end the process.
const peerChild = "TMACC_MODEL_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerChild) == "" {
		os.Exit(m.Run())
	}
	if err := servePeer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// peerRequest is texts to embed in each way, and the reply is the embeddings, of the first way first.
type peerRequest struct {
	Path  string
	Texts [][]int32
	Ways  []model.Pooling
}

// llamaModelParams is llama_model_params, contextParams is llama_context_params, and batch is llama_batch.
type (
	llamaModelParams struct {
		devices, overrides      unsafe.Pointer
		layers, split           int32
		load, lazy, gpu         int32
		tensorSplit             unsafe.Pointer
		progress, data, keys    unsafe.Pointer
		vocabOnly, check, extra bool
		noHost, noAlloc, mtp    bool
	}
	contextParams struct {
		context, batch, step, sequences, snapshots, outputs, outputsEach uint32
		threads, batchThreads                                            int32
		kind, ropeScaling, pooling, attention, flash                     int32
		ropeBase, ropeScale                                              float32
		yarnExtension, yarnMagnitude, yarnFast, yarnSlow                 float32
		yarnContext                                                      uint32
		defragment                                                       float32
		evaluated, evaluatedData                                         unsafe.Pointer
		keys, values                                                     int32
		abort, abortData                                                 unsafe.Pointer
		embeddings, offloadCache, noTimes, offload, fullWindows, unified bool
		samplers                                                         unsafe.Pointer
		numSamplers                                                      uint64
		other                                                            unsafe.Pointer
	}
	batch struct {
		n            int32
		tokens       *int32
		embeddings   *float32
		positions    *int32
		numSequences *int32
		sequences    **int32
		outputs      *int8
	}
)

// llama is the functions of libllama.
type llama struct {
	backends      func(folder string)
	logTo         func(callback uintptr, data unsafe.Pointer)
	modelDefaults func() llamaModelParams
	load          func(path string, p llamaModelParams) unsafe.Pointer
	width         func(model unsafe.Pointer) int32
	defaults      func() contextParams
	open          func(model unsafe.Pointer, p contextParams) unsafe.Pointer
	close         func(context unsafe.Pointer)
	one           func(tokens *int32, n int32) batch
	decode        func(context unsafe.Pointer, b batch) int32
	ofSequence    func(context unsafe.Pointer, sequence int32) unsafe.Pointer
	ofToken       func(context unsafe.Pointer, token int32) unsafe.Pointer
}

// newLlama loads libllama and its backends from the folder that TMACC_GGML names.
func newLlama() (*llama, error) {
	folder := os.Getenv("TMACC_GGML")
	x := &llama{}
	for pattern, functions := range map[string]map[string]any{
		"libllama.v*.so": {"llama_log_set": &x.logTo, "llama_model_default_params": &x.modelDefaults, "llama_model_load_from_file": &x.load,
			"llama_model_n_embd": &x.width, "llama_context_default_params": &x.defaults, "llama_init_from_model": &x.open, "llama_free": &x.close,
			"llama_batch_get_one": &x.one, "llama_decode": &x.decode, "llama_get_embeddings_seq": &x.ofSequence, "llama_get_embeddings_ith": &x.ofToken},
		"libggml.v*.so": {"ggml_backend_load_all_from_path": &x.backends},
	} {
		libs, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(libs) != 1 {
			return nil, fmt.Errorf("TMACC_GGML has %d libraries %s: %v", len(libs), pattern, err)
		}
		lib, err := purego.Dlopen(libs[0], purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, err
		}
		for name, to := range functions {
			purego.RegisterLibFunc(to, lib, name)
		}
	}
	x.logTo(purego.NewCallback(func(level int32, text, data unsafe.Pointer) {}), nil)
	x.backends(folder)
	return x, nil
}

// servePeer answers one request.
func servePeer(in io.Reader, out io.Writer) error {
	var q peerRequest
	if err := gob.NewDecoder(in).Decode(&q); err != nil {
		return err
	}
	x, err := newLlama()
	if err != nil {
		return err
	}
	m := x.load(q.Path, x.modelDefaults())
	if m == nil {
		return fmt.Errorf("libllama does not load %s", q.Path)
	}
	var all [][]float32
	for _, p := range q.Ways {
		for _, text := range q.Texts {
			e, err := x.embed(m, text, p)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
	}
	return gob.NewEncoder(out).Encode(all)
}

// embed is the embeddings of a text, not divided by their lengths.
func (x *llama) embed(m unsafe.Pointer, text []int32, p model.Pooling) ([]float32, error) {
	how := x.defaults()
	how.context, how.batch, how.step, how.threads, how.batchThreads = 512, 512, 512, 1, 1
	how.embeddings, how.pooling, how.flash = true, int32(p), 0
	how.keys, how.values = 0, 0 // F32
	c := x.open(m, how)
	if c == nil {
		return nil, fmt.Errorf("libllama makes no context")
	}
	defer x.close(c)
	if status := x.decode(c, x.one(&text[0], int32(len(text)))); status != 0 {
		return nil, fmt.Errorf("llama_decode: %d", status)
	}
	width := int(x.width(m))
	row := func(at unsafe.Pointer) []float32 { return unsafe.Slice((*float32)(at), width) }
	if p != model.PoolNone {
		return append([]float32(nil), row(x.ofSequence(c, 0))...), nil
	}
	var all []float32
	for i := range text {
		all = append(all, row(x.ofToken(c, int32(i)))...)
	}
	return all, nil
}

// floats is the file of a model with all matrices as F32.
func floats(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(expected.Open(t, name).Path)
	if err != nil {
		t.Fatal(err)
	}
	p := ggufparts.Take(data)
	for i := range p.Tensors {
		x := &p.Tensors[i]
		if typeName := gguf.Type(x.Type).String(); len(x.Shape) > 1 && typeName != "F32" {
			x.Data, x.Type = dequantized(t, typeName, x), 0
		}
	}
	path := filepath.Join(t.TempDir(), name+"-f32.gguf")
	if err := os.WriteFile(path, p.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dequantized is a tensor as F32.
func dequantized(t *testing.T, typeName string, x *ggufparts.Tensor) (out []byte) {
	t.Helper()
	w, a, err := blocks.Product(typeName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := runtime.PureGo(w, a)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, x.Shape[0])
	m, err := p.NewMatrixOfBlocks(typeName, x.Data, rowsOf(x), len(row))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for r := range rowsOf(x) {
		if err := m.Row(row, r); err != nil {
			t.Fatal(err)
		}
		for _, v := range row {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

// rowsOf is the rows of all matrices of a tensor.
func rowsOf(x *ggufparts.Tensor) int {
	n := uint64(1)
	for _, extent := range x.Shape[1:] {
		n *= extent
	}
	return int(n)
}

// TestEmbedLlama compares embeddings, in each way of pooling, with the ones of libllama, of the models in the repository. Their
// weights are floats here.
func TestEmbedLlama(t *testing.T) {
	needPeer(t)
	for _, name := range expected.Committed {
		t.Run(name, func(t *testing.T) {
			var texts [][]int32
			for _, p := range expected.Open(t, name).Prompts {
				var tokens []int32
				for _, token := range p.Tokens() {
					tokens = append(tokens, int32(token))
				}
				texts = append(texts, tokens)
			}
			compareWithPeer(t, floats(t, name), texts, model.PoolNone, model.PoolMean, model.PoolCLS, model.PoolLast)
		})
	}
}

// TestTinyLlama compares the hidden states of tiny models with the ones of libllama: of architectures without a model in the repository.
func TestTinyLlama(t *testing.T) {
	needPeer(t)
	for _, of := range tinyModels {
		if of.experts == 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", of.arch, of.experts), func(t *testing.T) {
			x := oracle.NewTinyExperts(of.arch, of.experts, oracle.Same("F32"))
			x.AddHead()
			x.Keys = append(x.Keys, oracle.Key{Name: "tokenizer.ggml.model", Value: "none"})
			x.Set("vocab_size", uint32(x.Vocabulary))
			path := filepath.Join(t.TempDir(), "tiny.gguf")
			if err := os.WriteFile(path, x.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			compareWithPeer(t, path, [][]int32{text(40, 1), text(3, 2)}, model.PoolNone)
		})
	}
}

// needPeer skips a test without libllama.
func needPeer(t *testing.T) {
	t.Helper()
	if os.Getenv("TMACC_GGML") == "" {
		t.Skip("TMACC_GGML names no folder of prebuilt libraries; CONTRIBUTING.md says where they are")
	}
}

// compareWithPeer compares embeddings of texts by a model of floats.
func compareWithPeer(t *testing.T, path string, texts [][]int32, ways ...model.Pooling) {
	t.Helper()
	want := askPeer(t, peerRequest{path, texts, ways})
	m := open(t, path, model.Options{Cache: model.CacheF32})
	worst := 0.0
	for _, p := range ways {
		for i, have := range embed(t, m, texts, p) {
			unit(want[0], m.Config().Embedding)
			e := oracle.RelativeRMS(have, want[0])
			if worst = max(worst, e); !(e < 1e-4) {
				t.Errorf("text %d, %s: off by %.1e", i, p, e)
			}
			want = want[1:]
		}
	}
	t.Logf("off by at most %.1e", worst)
}

// askPeer asks a child process.
func askPeer(t *testing.T, q peerRequest) (out [][]float32) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, w := io.Pipe()
	go func() { w.CloseWithError(gob.NewEncoder(w).Encode(q)) }()
	var text strings.Builder
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), peerChild+"=1"), in, &text, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(strings.NewReader(text.String())).Decode(&out); err != nil {
		t.Fatal(err)
	}
	if len(out) != len(q.Texts)*len(q.Ways) {
		t.Fatalf("%d embeddings of %d texts in %d ways", len(out), len(q.Texts), len(q.Ways))
	}
	return out
}

// unit divides each row of n elements by its length.
func unit(x []float32, n int) {
	for ; len(x) > 0; x = x[n:] {
		square := 0.0
		for _, v := range x[:n] {
			square += float64(v) * float64(v)
		}
		for i := range n {
			x[i] = float32(float64(x[i]) / math.Sqrt(square))
		}
	}
}
