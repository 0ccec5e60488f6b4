package model_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// undecided is a tiny model of four experts whose scores are all 0, so that the first two are chosen.
func undecided() *oracle.Tiny {
	x := oracle.NewTinyExperts("qwen3moe", 4, oracle.Same("F32"))
	for i := range x.Layers {
		clear(x.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", i)).Data)
	}
	return x
}

// spoil makes the weights of one expert of layer 1 infinite.
func spoil(x *oracle.Tiny, expert int) *oracle.Tiny {
	data := x.Tensor("blk.1.ffn_down_exps.weight").Data
	for at := expert * len(data) / x.Experts; at < (expert+1)*len(data)/x.Experts; at += 4 {
		binary.LittleEndian.PutUint32(data[at:], math.Float32bits(float32(math.Inf(1))))
	}
	return x
}

// TestChosenExperts: of equal scores the lower index is chosen, and what the others have is not computed with.
func TestChosenExperts(t *testing.T) {
	want := bits(inPieces(t, tiny(t, undecided(), model.Options{}), text(20, 1), 20))
	for expert := range 4 {
		m := tiny(t, spoil(undecided(), expert), model.Options{})
		if expert > 1 {
			if have := bits(inPieces(t, m, text(20, 1), 20)); !equal(have, want) {
				t.Errorf("expert %d, which is not chosen, changes the logits", expert)
			}
			continue
		}
		err := m.Forward(context.Background(), []model.Item{{Session: oracle.NewSession(t, m), Tokens: text(1, 1)}})
		if err == nil || !strings.Contains(err.Error(), "the feed-forward part of layer 1") {
			t.Errorf("expert %d: %v", expert, err)
		}
	}
}

// TestExpertWeights: of four equal experts two have the weight 1/2 each, or 1/4 each where weights are not normalized, times a scale.
func TestExpertWeights(t *testing.T) {
	logits := func(x *oracle.Tiny) []uint32 {
		return bits(oracle.Feed(t, oracle.NewSession(t, tiny(t, x, model.Options{})), model.WantLast, text(20, 1)))[0]
	}
	half, quarter := logits(undecided()), logits(undecided().Set("expert_weights_norm", false))
	if slices.Equal(half, quarter) {
		t.Error("expert_weights_norm changes nothing")
	}
	if x := undecided().Set("expert_weights_norm", false).Set("expert_weights_scale", float32(2)); !slices.Equal(logits(x), half) {
		t.Error("twice a quarter is not a half")
	}
}

// TestRefusedExperts: each fault of what a file says about experts is an error that names it.
func TestRefusedExperts(t *testing.T) {
	for want, spoil := range map[string]func(x *oracle.Tiny){
		`key "qwen3moe.expert_count": is missing`:                                   func(x *oracle.Tiny) { x.Set("expert_count", nil) },
		`key "qwen3moe.expert_count": is 0; it must be 1 to 1024`:                   func(x *oracle.Tiny) { x.Set("expert_count", uint32(0)) },
		`key "qwen3moe.expert_count": is 4294967295; it must be`:                    func(x *oracle.Tiny) { x.Set("expert_count", uint32(math.MaxUint32)) },
		`tensor "blk.0.ffn_gate_inp.weight": has the shape [256 4]; the hyperparam`: func(x *oracle.Tiny) { x.Set("expert_count", uint32(1024)) },
		`key "qwen3moe.expert_used_count": is 5; there are 4 experts`:               func(x *oracle.Tiny) { x.Set("expert_used_count", uint32(5)) },
		`key "qwen3moe.expert_used_count": is 65; it must be 1 to 64`:               func(x *oracle.Tiny) { x.Set("expert_used_count", uint32(65)) },
		`key "qwen3moe.expert_feed_forward_length": is missing`:                     func(x *oracle.Tiny) { x.Set("expert_feed_forward_length", nil) },
		`key "qwen3moe.expert_gating_func": is 2; this version knows 1 only, the s`: func(x *oracle.Tiny) { x.Set("expert_gating_func", uint32(2)) },
		`key "qwen3moe.expert_group_count": is 8; this version knows 1 only, one`:   func(x *oracle.Tiny) { x.Set("expert_group_count", uint32(8)) },
		`key "qwen3moe.expert_weights_norm": is not a truth value`:                  func(x *oracle.Tiny) { x.Set("expert_weights_norm", uint32(1)) },
		`key "qwen3moe.expert_weights_scale": is -1; it must be a finite number`:    func(x *oracle.Tiny) { x.Set("expert_weights_scale", float32(-1)) },
		`tensor "blk.1.ffn_up_exps.weight": is missing; models of architecture qwe`: func(x *oracle.Tiny) { remove(x, "blk.1.ffn_up_exps.weight") },
		`tensor "blk.0.ffn_up_exps.weight": has the shape [256 1024]`: func(x *oracle.Tiny) {
			x.Tensor("blk.0.ffn_up_exps.weight").Shape = []uint64{256, 1024}
		},
		`tensor "blk.0.ffn_up.weight": is unknown in models of architecture qwen3moe`: func(x *oracle.Tiny) { x.AddVector("blk.0.ffn_up.weight", 8) },
	} {
		x := oracle.NewTinyExperts("qwen3moe", 4, oracle.Same("F32"))
		spoil(x)
		if err := refusal(x, model.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	shared := oracle.NewTinyExperts("qwen2moe", 4, oracle.Same("F32"))
	remove(shared, "blk.1.ffn_gate_inp_shexp.weight")
	if err := refusal(shared, model.Options{}); err == nil || !strings.Contains(err.Error(), `tensor "blk.1.ffn_gate_inp_shexp.weight": is missing`) {
		t.Error(err)
	}
	x := oracle.NewTiny("bitnet", oracle.Same("F32")).Set("expert_count", uint32(4))
	if err := refusal(x, model.Options{}); err == nil || !strings.Contains(err.Error(), `key "bitnet.expert_count": is there, and models of architecture bitnet have no experts`) {
		t.Error(err)
	}
	if err := refusal(oracle.NewTiny("llama", oracle.Same("F32")).Set("expert_count", uint32(0)), model.Options{}); err != nil {
		t.Error(err)
	}
}

// TestMemoryOfExperts: a model takes memory for all experts, and buffers for the chosen ones.
func TestMemoryOfExperts(t *testing.T) {
	memory := func(experts int) model.Memory {
		return tiny(t, oracle.NewTinyExperts("llama", experts, oracle.Same("F16")), model.Options{}).Memory()
	}
	few, many := memory(2), memory(8)
	if have, want := many.Weights-few.Weights, int64(2*6*3*256*256*2); have != want { // layers, experts, matrices
		t.Errorf("6 experts more take %d bytes, want %d", have, want)
	}
	if have := many.Buffers - few.Buffers; have != 512*6*4 {
		t.Errorf("buffers of 6 experts more take %d bytes, want what 512 rows of scores take", have)
	}
}
