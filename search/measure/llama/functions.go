package llama

import (
	"fmt"

	"github.com/tmacc/tmacc/search/measure/library"
)

// pointer points to something of the library's.
type pointer = library.Pointer

// modelParams is llama_model_params of Version.
type modelParams struct {
	devices, overrides               pointer
	layers, split                    int32
	load, lazy, gpu                  int32
	tensorSplit                      pointer
	progress, data, keys             pointer
	vocabOnly, check, extra          bool
	noHost, noAlloc, multiPrediction bool
}

// contextParams is llama_context_params of Version.
type contextParams struct {
	context, batch, part, sequences    uint32
	snapshots, outputs, outputsEach    uint32
	threads, threadsBatch              int32
	kind, scaling, pooling             int32
	attention, flash                   int32
	ropeBase, ropeScale                float32
	yarnExt, yarnAttn                  float32
	yarnFast, yarnSlow                 float32
	yarnContext                        uint32
	defragment                         float32
	eval, evalData                     pointer
	typeK, typeV                       int32
	abort, abortData                   pointer
	embeddings, offload, noTimes       bool
	offloadOps, fullWindow, oneBuffers bool
	samplers                           pointer
	numSamplers                        uint64
	other                              pointer
}

// The parameters that the library of Version gives when it is asked for its defaults. Other ones come from another layout.
var (
	usualModel   = modelParams{layers: -1, split: 1, load: -1, lazy: 1, extra: true}
	usualContext = contextParams{
		context: 512, batch: 2048, part: 512, sequences: 1, outputsEach: 1, threads: 4, threadsBatch: 4,
		scaling: -1, pooling: -1, attention: -1, flash: -1, yarnExt: -1, yarnAttn: -1, yarnFast: -1, yarnSlow: -1, defragment: -1,
		typeK: 1, typeV: 1, offload: true, noTimes: true, offloadOps: true, fullWindow: true,
	}
)

// batch is llama_batch: tokens that follow those in the context. Only the last one gets logits.
type batch struct {
	n                                            int32
	token                                        *int32
	embd, positions, sequences, sequence, logits pointer
}

// poolParams is ggml_threadpool_params, or more: the library fills it in.
type poolParams [1024]byte

// functions are the functions of libllama, and of the libraries that it loads, that this package calls.
type functions struct {
	version      func() string
	logTo        func(callback uintptr, data pointer)
	backends     func(dir string)
	modelUsual   func() modelParams
	contextUsual func() contextParams
	modelLoad    func(path string, p modelParams) pointer
	modelVocab   func(model pointer) pointer
	vocabSize    func(vocab pointer) int32
	contextNew   func(model pointer, p contextParams) pointer
	batch        func(ctx pointer) uint32 // most tokens of one
	memory       func(ctx pointer) pointer
	clear        func(memory pointer, data bool)
	remove       func(memory pointer, sequence, from, to int32) bool
	last         func(memory pointer, sequence int32) int32
	setThreads   func(ctx pointer, one, many int32)
	attach       func(ctx, one, many pointer)
	decode       func(ctx pointer, b batch) int32
	wait         func(ctx pointer)
	logits       func(ctx pointer, i int32) *float32
	width        func(model pointer) int32
	pooling      func(ctx pointer) int32
	embedding    func(ctx pointer, i int32) *float32
	embeddingOf  func(ctx pointer, sequence int32) *float32
	stateSize    func(ctx pointer, sequence int32) uint64
	stateGet     func(ctx pointer, to *byte, size uint64, sequence int32) uint64
	stateSet     func(ctx pointer, from *byte, size uint64, sequence int32) uint64
	poolInit     func(params *poolParams, n int32)
	poolNew      func(params *poolParams) pointer
	poolPause    func(pool pointer)
}

// name is a function to look up.
type name struct {
	name string
	to   any
}

// find looks up the version first, then all functions of libllama and of the libraries that it depends on.
func (f *functions) find(lib uintptr) error {
	if err := bind(lib, []name{{"llama_version", &f.version}}); err != nil {
		return err
	}
	if have := f.version(); !isVersion(have) {
		return fmt.Errorf("is version %s of llama.cpp; this tmacc drives version %s: %s", have, Version, library.Remedy)
	}
	if err := bind(lib, []name{
		{"llama_log_set", &f.logTo},
		{"ggml_backend_load_all_from_path", &f.backends},
		{"llama_model_default_params", &f.modelUsual},
		{"llama_context_default_params", &f.contextUsual},
		{"llama_model_load_from_file", &f.modelLoad},
		{"llama_model_get_vocab", &f.modelVocab},
		{"llama_vocab_n_tokens", &f.vocabSize},
		{"llama_init_from_model", &f.contextNew},
		{"llama_n_batch", &f.batch},
		{"llama_get_memory", &f.memory},
		{"llama_memory_clear", &f.clear},
		{"llama_memory_seq_rm", &f.remove},
		{"llama_memory_seq_pos_max", &f.last},
		{"llama_set_n_threads", &f.setThreads},
		{"llama_attach_threadpool", &f.attach},
		{"llama_decode", &f.decode},
		{"llama_synchronize", &f.wait},
		{"llama_get_logits_ith", &f.logits},
		{"llama_model_n_embd_out", &f.width},
		{"llama_pooling_type", &f.pooling},
		{"llama_get_embeddings_ith", &f.embedding},
		{"llama_get_embeddings_seq", &f.embeddingOf},
		{"llama_state_seq_get_size", &f.stateSize},
		{"llama_state_seq_get_data", &f.stateGet},
		{"llama_state_seq_set_data", &f.stateSet},
		{"ggml_threadpool_params_init", &f.poolInit},
	}); err != nil {
		return err
	}
	if m, c := f.modelUsual(), f.contextUsual(); m != usualModel || c != usualContext {
		return fmt.Errorf("has other parameters than version %s of llama.cpp, whose name it has: %s", Version, library.Remedy)
	}
	return nil
}

// findPool looks up the functions of thread pools, which the CPU backend has.
func (f *functions) findPool(backend uintptr) error {
	return bind(backend, []name{
		{"ggml_threadpool_new", &f.poolNew},
		{"ggml_threadpool_pause", &f.poolPause},
	})
}

// bind looks functions up in a library.
func bind(lib uintptr, names []name) error {
	for _, x := range names {
		if err := library.Bind(lib, x.name, x.to); err != nil {
			return fmt.Errorf("lacks %s, which version %s of llama.cpp has: %s", x.name, Version, library.Remedy)
		}
	}
	return nil
}
