package model_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// refusal opens a tiny model and returns the error.
func refusal(x *oracle.Tiny, opt model.Options) error {
	f, err := x.File()
	if err != nil {
		return err
	}
	m, err := model.New(f, model.PureGo{}, opt)
	if err == nil {
		m.Close()
	}
	return err
}

// TestRefused: each fault of a file is an error that names the thing.
func TestRefused(t *testing.T) {
	names := make([]string, 69)
	for want, spoil := range map[string]func(x *oracle.Tiny){
		`architecture "mamba": is unknown; this version runs llama, qwen2`:                  func(x *oracle.Tiny) { x.Arch = "mamba" },
		`key "general.architecture": is missing`:                                            func(x *oracle.Tiny) { x.Keys = append(x.Keys, oracle.Key{Name: "general.architecture"}) },
		`key "llama.block_count": is missing`:                                               func(x *oracle.Tiny) { x.Set("block_count", nil) },
		`key "llama.block_count": is 0; it must be 1 to`:                                    func(x *oracle.Tiny) { x.Set("block_count", uint32(0)) },
		`tensor "blk.2.attn_norm.weight": is missing; models of architecture llama need it`: func(x *oracle.Tiny) { x.Set("block_count", uint32(1<<20)) },
		`key "llama.embedding_length": is 2147483648; it must be 1 to`:                      func(x *oracle.Tiny) { x.Set("embedding_length", uint32(1<<31)) },
		`key "llama.attention.head_count": is 4294967295; it must be`:                       func(x *oracle.Tiny) { x.Set("attention.head_count", uint32(math.MaxUint32)) },
		`key "llama.attention.head_count": is 1048576: with heads of 64 elements`:           func(x *oracle.Tiny) { x.Set("attention.head_count", uint32(1<<20)) },
		`key "llama.attention.head_count_kv": is 3, which does not divide the 4 heads`:      func(x *oracle.Tiny) { x.Set("attention.head_count_kv", uint32(3)) },
		`key "llama.attention.value_length": is 32, and heads of keys have 64`:              func(x *oracle.Tiny) { x.Set("attention.value_length", uint32(32)) },
		`key "llama.attention.head_count": is 3, which does not divide the hidden state`: func(x *oracle.Tiny) {
			x.Set("attention.key_length", nil).Set("attention.head_count", uint32(3))
		},
		`key "llama.attention.layer_norm_rms_epsilon": is NaN; it must be`:                                          func(x *oracle.Tiny) { x.Set("attention.layer_norm_rms_epsilon", float32(math.NaN())) },
		`key "llama.attention.layer_norm_rms_epsilon": holds a string`:                                              func(x *oracle.Tiny) { x.Set("attention.layer_norm_rms_epsilon", "1e-5") },
		`key "llama.context_length": is 2147483648; it must be 1 to 2147483647`:                                     func(x *oracle.Tiny) { x.Set("context_length", uint32(1<<31)) },
		`key "llama.rope.scaling.type": is "su", an unknown rope type`:                                              func(x *oracle.Tiny) { x.Set("rope.scaling.type", "su") },
		`tensor "rope_factors_short.weight": is missing; a model with longrope needs it for sessions of 300 tokens`: func(x *oracle.Tiny) { x.Set("rope.scaling.type", "longrope") },
		`key "llama.rope.freq_base": is 1; it must be above 1`:                                                      func(x *oracle.Tiny) { x.Set("rope.freq_base", float32(1)) },
		`key "llama.rope.dimension_count": is 66; it must be an even number up to`:                                  func(x *oracle.Tiny) { x.Set("rope.dimension_count", uint32(66)) },
		`key "llama.rope.dimension_count": is 7; it must be an even number up to`:                                   func(x *oracle.Tiny) { x.Set("rope.dimension_count", uint32(7)) },
		`key "llama.rope.scaling.factor": is 0; it must be`:                                                         func(x *oracle.Tiny) { x.Set("rope.scaling.type", "linear").Set("rope.scaling.factor", float32(0)) },
		`key "llama.rope.scaling.yarn_log_multiplier": is not known`: func(x *oracle.Tiny) {
			x.Set("rope.scaling.type", "yarn").Set("rope.scaling.yarn_log_multiplier", float32(1))
		},
		`key "llama.attention.causal": is false; this version knows attention to earlier positions only`: func(x *oracle.Tiny) { x.Set("attention.causal", false) },
		`key "llama.attention.scale": is 0.25, which models of architecture llama do not compute with`:   func(x *oracle.Tiny) { x.Set("attention.scale", float32(0.25)) },
		`key "llama.logit_scale": is NaN`:             func(x *oracle.Tiny) { x.Set("logit_scale", float32(math.NaN())) },
		`key "llama.residual_scale": is 0.5`:          func(x *oracle.Tiny) { x.Set("residual_scale", float32(0.5)) },
		`key "llama.embedding_scale": holds a string`: func(x *oracle.Tiny) { x.Set("embedding_scale", "12") },
		`key "llama.rope.scaling.yarn_ext_factor": is 0`: func(x *oracle.Tiny) {
			x.Set("rope.scaling.type", "yarn").Set("rope.scaling.yarn_ext_factor", float32(0))
		},
		`tensor "blk.1.ffn_up.weight": is missing; models of architecture llama need it`: func(x *oracle.Tiny) { remove(x, "blk.1.ffn_up.weight") },
		`tensor "token_embd.weight": is missing`:                                         func(x *oracle.Tiny) { remove(x, "token_embd.weight") },
		`tensor "blk.0.attn_q_norm.weight": is unknown in models of architecture llama`:  func(x *oracle.Tiny) { x.AddVector("blk.0.attn_q_norm.weight", 64) },
		`tensor "blk.0.attn_k.weight": has the shape [256 256]; the hyperparameters say [256 128]`: func(x *oracle.Tiny) {
			*x.Tensor("blk.0.attn_k.weight") = rename(*x.Tensor("blk.0.attn_q.weight"), "blk.0.attn_k.weight")
		},
		`tensor "blk.0.ffn_norm.weight": has the shape [128 2]`: func(x *oracle.Tiny) { x.Tensor("blk.0.ffn_norm.weight").Shape = []uint64{128, 2} },
		`"blk.0.attn_q.weight"`:                                 func(x *oracle.Tiny) { x.Tensors = append(x.Tensors, *x.Tensor("blk.0.attn_q.weight")) },
		`key "tokenizer.ggml.tokens": has 69 tokens, and tensor "token_embd.weight" has rows for 70`: func(x *oracle.Tiny) { x.Keys = append(x.Keys, oracle.Key{Name: "tokenizer.ggml.tokens", Value: names}) },
		`key "tokenizer.ggml.tokens": is not an array of strings`:                                    func(x *oracle.Tiny) { x.Keys = append(x.Keys, oracle.Key{Name: "tokenizer.ggml.tokens", Value: "a"}) },
		`tensor "rope_freqs.weight": factor 3 of rope is 0`: func(x *oracle.Tiny) {
			x.AddVector("rope_freqs.weight", 32)
			clear(x.Tensor("rope_freqs.weight").Data[12:16])
		},
		`tensor "output_norm.weight": holds a value that is not finite`:  func(x *oracle.Tiny) { infinite(x, "output_norm.weight", 3) },
		`tensor "blk.0.ffn_up.scale": is a scale for a matrix of floats`: func(x *oracle.Tiny) { x.AddVector("blk.0.ffn_up.scale", 1) },
	} {
		x := oracle.NewTiny("llama", oracle.Same("F32"))
		spoil(x)
		if err := refusal(x, model.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestOtherKeys: keys of other architectures are taken with values that change nothing, as llama.cpp writes them.
func TestOtherKeys(t *testing.T) {
	want := bits(inPieces(t, tiny(t, oracle.NewTiny("llama", oracle.Same("F32")), model.Options{}), text(9, 1), 9))
	x := oracle.NewTiny("llama", oracle.Same("F32")).Set("attention.causal", true).Set("attention.scale", float32(0.125)).Set("attention.clamp_kqv", float32(0))
	x.Set("embedding_scale", float32(1)).Set("residual_scale", float32(0)).Set("logit_scale", float32(0)).Set("rope.scaling.yarn_ext_factor", float32(-1))
	if have := bits(inPieces(t, tiny(t, x, model.Options{}), text(9, 1), 9)); !equal(have, want) {
		t.Error("other logits")
	}
}

// TestCheck refuses by the metadata what New refuses, and nothing else.
func TestCheck(t *testing.T) {
	for want, spoil := range map[string]func(x *oracle.Tiny){
		"": func(*oracle.Tiny) {},
		`tensor "blk.0.attn_q_norm.weight": is unknown`: func(x *oracle.Tiny) { x.AddVector("blk.0.attn_q_norm.weight", 64) },
		`key "llama.context_length"`:                    func(x *oracle.Tiny) { x.Set("context_length", "a") },
	} {
		x := oracle.NewTiny("llama", oracle.Same("F32"))
		spoil(x)
		f, err := x.File()
		if err != nil {
			t.Fatal(err)
		}
		if err = model.Check(f, model.Options{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestRefusedWindows: each fault in what an architecture has of its own is an error that names it.
func TestRefusedWindows(t *testing.T) {
	for want, fault := range map[string]struct {
		arch  string
		spoil func(x *oracle.Tiny)
	}{
		`key "gemma3.attention.sliding_window": is -5; it must be 1 to 2147483647`: {"gemma3", func(x *oracle.Tiny) { x.Set("attention.sliding_window", int32(-5)) }},
		`key "gemma3.attention.sliding_window": is 4294967295; it must be`:         {"gemma3", func(x *oracle.Tiny) { x.Set("attention.sliding_window", uint32(math.MaxUint32)) }},
		`key "gemma3.attention.sliding_window": holds a float32; it should hold`:   {"gemma3", func(x *oracle.Tiny) { x.Set("attention.sliding_window", float32(5)) }},
		`key "gemma3.attention.sliding_window_pattern": has 3 elements; there are 2 layers`: {"gemma3", func(x *oracle.Tiny) {
			x.Set("attention.sliding_window_pattern", []bool{true, false, true})
		}},
		`key "gemma3.attention.sliding_window_pattern": has 0 elements; there are 2 layers`: {"gemma3", func(x *oracle.Tiny) {
			x.Set("attention.sliding_window_pattern", []bool{})
		}},
		`key "gemma3.attention.sliding_window_pattern": holds an array; it should hold`: {"gemma3", func(x *oracle.Tiny) {
			x.Set("attention.sliding_window_pattern", []string{"a", "b"})
		}},
		`key "gemma3.attention.sliding_window_pattern": is -1; it must be 1 to`:                            {"gemma3", func(x *oracle.Tiny) { x.Set("attention.sliding_window_pattern", int32(-1)) }},
		`key "gemma3.rope.freq_base_swa": is 0.5; it must be above 1`:                                      {"gemma3", func(x *oracle.Tiny) { x.Set("rope.freq_base_swa", float32(0.5)) }},
		`key "gemma3.attention.key_length_swa": is 32; this version knows 64 only, as in the other layers`: {"gemma3", func(x *oracle.Tiny) { x.Set("attention.key_length_swa", uint32(32)) }},
		`key "gemma3.rope.dimension_count_swa": is 32; this version knows 64 only`:                         {"gemma3", func(x *oracle.Tiny) { x.Set("rope.dimension_count_swa", uint32(32)) }},
		`key "gemma2.attention.head_count": is missing`:                                                    {"gemma2", func(x *oracle.Tiny) { x.Set("block_count", uint32(46)).Set("attention.head_count", nil) }},
		`key "gemma3.final_logit_softcapping": is -3; it must be`:                                          {"gemma3", func(x *oracle.Tiny) { x.Set("final_logit_softcapping", float32(-3)) }},
		`key "gemma2.attn_logit_softcapping": is NaN; it must be`:                                          {"gemma2", func(x *oracle.Tiny) { x.Set("attn_logit_softcapping", float32(math.NaN())) }},
		`key "gemma2.attn_logit_softcapping": holds a uint32; it should hold`:                              {"gemma2", func(x *oracle.Tiny) { x.Set("attn_logit_softcapping", uint32(3)) }},
		`key "mistral3.attention.temperature_scale": is -1; it must be`:                                    {"mistral3", func(x *oracle.Tiny) { x.Set("attention.temperature_scale", float32(-1)) }},
		`key "mistral3.rope.scaling.yarn_log_multiplier": is +Inf; it must be`: {"mistral3", func(x *oracle.Tiny) {
			x.Set("rope.scaling.type", "yarn").Set("rope.scaling.yarn_log_multiplier", float32(math.Inf(1)))
		}},
		`key "phi3.rope.scaling.original_context_length": is 0; it must be 1 to`: {"phi3", func(x *oracle.Tiny) { x.Set("rope.scaling.original_context_length", uint32(0)) }},
		`key "phi3.rope.scaling.attn_factor": is 0; it must be`:                  {"phi3", func(x *oracle.Tiny) { x.Set("rope.scaling.attn_factor", float32(0)) }},
		`tensor "rope_factors_short.weight": is missing; a model with longrope needs it for sessions of 300 tokens`: {"phi3", func(x *oracle.Tiny) {
			x.AddVector("rope_factors_long.weight", 32)
		}},
		`tensor "rope_factors_long.weight": is missing; a model with longrope needs it for sessions of 300 tokens`: {"phi3", func(x *oracle.Tiny) {
			x.Set("rope.scaling.original_context_length", uint32(299)).AddVector("rope_factors_short.weight", 32)
		}},
		`tensor "rope_factors_short.weight": has the shape [31]; the hyperparameters say [32]`: {"phi3", func(x *oracle.Tiny) {
			x.AddVector("rope_factors_short.weight", 31)
		}},
		`tensor "rope_factors_short.weight": is there besides tensor "rope_freqs.weight"`: {"llama", func(x *oracle.Tiny) {
			x.AddVector("rope_freqs.weight", 32)
			x.AddVector("rope_factors_short.weight", 32)
		}},
		`tensor "blk.1.attn_qkv.weight": is missing; models of architecture phi3 need it`: {"phi3", func(x *oracle.Tiny) { remove(x, "blk.1.attn_qkv.weight") }},
		`tensor "blk.0.attn_qkv.weight": has the shape [256 512]; the hyperparameters say [256 384]`: {"phi3", func(x *oracle.Tiny) {
			x.Set("attention.head_count_kv", uint32(1))
		}},
		`tensor "blk.0.ffn_gate.weight": is unknown in models of architecture phi3`: {"phi3", func(x *oracle.Tiny) {
			x.Tensors = append(x.Tensors, rename(*x.Tensor("blk.0.ffn_down.weight"), "blk.0.ffn_gate.weight"))
		}},
		`tensor "blk.0.post_ffw_norm.weight": is missing; models of architecture gemma3 need it`: {"gemma3", func(x *oracle.Tiny) { remove(x, "blk.0.post_ffw_norm.weight") }},
	} {
		x := oracle.NewTiny(fault.arch, oracle.Same("F32"))
		fault.spoil(x)
		if err := refusal(x, model.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	// Fused matrices of a type whose rows have something in common cannot be divided.
	if err := refusal(oracle.NewTiny("phi3", oracle.Same("I2_S")), model.Options{}); err == nil || !strings.Contains(err.Error(), `tensor "blk.0.attn_qkv.weight": is I2_S, whose rows do not lie apart`) {
		t.Error(err)
	}
}

// TestWindowKeys: a window of 0, or one that no sequence reaches, leaves all positions, and a pattern is a number or says it for each layer.
func TestWindowKeys(t *testing.T) {
	logits := func(window, pattern any) []uint32 {
		x := oracle.NewTiny("gemma3", oracle.Same("F32"))
		x.Set("attention.sliding_window", window).Set("attention.sliding_window_pattern", pattern).Set("rope.freq_base_swa", float32(10000))
		m := tiny(t, x, model.Options{})
		return bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(90, 1)))[0]
	}
	whole := logits(uint32(0), uint32(2))
	for _, same := range []struct {
		window, pattern any
		as              []uint32
	}{
		{nil, uint32(2), whole},
		{uint32(90), uint32(2), whole},
		{uint32(math.MaxInt32), uint32(0), whole},
		{uint32(30), uint32(1), whole},
		{uint32(30), []bool{false, false}, whole},
		{uint32(30), []bool{true, false}, logits(uint32(30), uint32(2))},
		{uint32(30), []bool{true, true}, logits(uint32(30), nil)},
		{uint32(30), uint32(0), logits(uint32(30), nil)},
	} {
		if !slices.Equal(logits(same.window, same.pattern), same.as) {
			t.Errorf("window %v, pattern %v: other bits", same.window, same.pattern)
		}
	}
	if slices.Equal(whole, logits(uint32(89), uint32(2))) || slices.Equal(logits(uint32(1), uint32(2)), logits(uint32(2), uint32(2))) {
		t.Error("windows change nothing")
	}
}

func rename(x oracle.Tensor, name string) oracle.Tensor {
	x.Name = name
	return x
}

func remove(x *oracle.Tiny, name string) {
	x.Tensors = slices.DeleteFunc(x.Tensors, func(t oracle.Tensor) bool { return t.Name == name })
}

// TestMemory: memory that does not suffice is refused before weights are read, with the numbers.
func TestMemory(t *testing.T) {
	x := oracle.NewTiny("llama", oracle.Same("F16"))
	x.Set("context_length", uint32(math.MaxInt32))
	need := tiny(t, x, model.Options{Context: 256, Chunk: 16}).Memory()
	// 2 layers, 4 pages, keys and values, 2 heads of 64 elements, f16
	if want := int64(2 * 4 * 64 * 2 * 2 * 64 * 2); need.Cache != want {
		t.Errorf("a cache of %d bytes, want %d", need.Cache, want)
	}
	if matrices := int64(2 * (256*96*2/2 + 2*(2*256*256+2*256*128+3*256*256))); need.Weights < matrices || need.Weights > matrices+1<<15 {
		t.Errorf("weights of %d bytes, want about %d", need.Weights, matrices)
	}
	read := false
	opt := model.Options{Context: 256, Chunk: 16, MemoryLimit: need.Total() - 1, Progress: func(int64, int64) { read = true }}
	if err := refusal(x, opt); err == nil || !strings.Contains(err.Error(), "memory: the model takes") || read {
		t.Errorf("%v, read %t", err, read)
	}
	if opt.MemoryLimit++; refusal(x, opt) != nil {
		t.Error(refusal(x, opt))
	}
	if err := refusal(x, model.Options{Context: math.MaxInt32, MemoryLimit: 1 << 36}); err == nil || !strings.Contains(err.Error(), "for a session of 2147483647 tokens") {
		t.Error(err)
	}
	if err := refusal(oracle.NewTiny("llama", oracle.Same("F16")), model.Options{Context: 301}); err == nil || !strings.Contains(err.Error(), "option Context: is 301; the model was made for 1 to 300") {
		t.Error(err)
	}
}

// TestProvider: what a provider says is in the error of the tensor.
func TestProvider(t *testing.T) {
	f, err := oracle.NewTiny("llama", oracle.Same("Q4_0")).File()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.New(f, none{}, model.Options{}); !errors.Is(err, errNone) || !strings.Contains(err.Error(), `tensor "token_embd.weight"`) {
		t.Error(err)
	}
}

type none struct{}

var errNone = errors.New("no kernels today")

func (none) Product(format.Weight, format.Act) (*runtime.Product, error) { return nil, errNone }

// TestRopeTypes: a model computes something else with each rope type.
func TestRopeTypes(t *testing.T) {
	logits := map[string][]uint32{}
	for _, kind := range []string{"none", "linear", "yarn"} {
		x := oracle.NewTiny("llama", oracle.Same("F32"))
		x.Set("rope.scaling.type", kind).Set("rope.scaling.factor", float32(4)).Set("rope.scaling.original_context_length", uint32(32))
		m := tiny(t, x, model.Options{})
		logits[kind] = bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(60, 1)))[0]
	}
	if slices.Equal(logits["none"], logits["linear"]) || slices.Equal(logits["linear"], logits["yarn"]) || slices.Equal(logits["none"], logits["yarn"]) {
		t.Error("two rope types have the same bits")
	}
	// A factor without a type, and the older key, are linear.
	for _, key := range []string{"rope.scaling.factor", "rope.scale_linear"} {
		m := tiny(t, oracle.NewTiny("llama", oracle.Same("F32")).Set(key, float32(4)), model.Options{})
		if have := bits(oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, text(60, 1)))[0]; !slices.Equal(have, logits["linear"]) {
			t.Errorf("%s alone is not linear", key)
		}
	}
}
