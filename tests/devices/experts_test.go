package devices

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/oracle"
)

// quantized is the types of a tiny model: routers of floats, other matrices of 4 bits.
func quantized(router string) func(string) string {
	return func(name string) string {
		if strings.Contains(name, "_inp") {
			return router
		}
		return "Q4_0"
	}
}

// TestExperts: models with experts have steps on the device, with the CPU's bits: prompts, tokens, and batches of sessions. Weights of experts are normalized or not, scaled or not, their
// scores are in one block or in several, some are equal, and an expert that all positions have is there or not.
func TestExperts(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	shared := oracle.NewTinyExperts("qwen2moe", 4, quantized("F32"))
	equal := oracle.NewTinyExperts("llama", 4, quantized("F32"))
	clear(equal.Tensor("blk.0.ffn_gate_inp.weight").Data)
	many := oracle.NewTinyExperts("qwen3moe", 70, quantized("BF16")).Set("expert_weights_norm", false).Set("expert_weights_scale", float32(1.7))
	many.Used = 5
	packed := oracle.NewTinyExperts("qwen3moe", 66, quantized("Q4_0"))
	for name, x := range map[string]*oracle.Tiny{"shared": shared, "equal": equal, "many": many, "packed router": packed} {
		t.Run(name, func(t *testing.T) { expertsOf(t, here, x) })
	}
}

func expertsOf(t *testing.T, here *worker.Here, x *oracle.Tiny) {
	target, _ := spirv.ByName("spirv")
	var seen counts
	counting := *here
	counting.On = counted{here.On, &seen}
	var all [][]float32
	for _, on := range []*kernels.Device{nil, {Here: &counting, Target: target}} {
		f, err := x.File()
		if err != nil {
			t.Fatal(err)
		}
		p, err := kernels.New(context.Background(), kernels.Options{Device: on})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		m, err := model.New(f, p, model.Options{Context: 128})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		one, other := oracle.NewSession(t, m), oracle.NewSession(t, m)
		for call, lengths := range [][2]int{{13, 0}, {1, 0}, {0, 2}, {1, 3}, {1, 1}, {10, 0}, {1, 0}, {1, 12}} {
			var items []model.Item
			for i, s := range []*model.Session{one, other} {
				var tokens []int32
				for j := range lengths[i] {
					tokens = append(tokens, int32(1+(s.Len()+j+i)*37%(m.Config().Vocabulary-1)))
				}
				if len(tokens) > 0 {
					items = append(items, model.Item{Session: s, Tokens: tokens, Want: []model.Want{model.WantLast, model.WantAll}[call%2]})
				}
			}
			before := seen
			if err := m.Forward(context.Background(), items); err != nil {
				t.Fatal(err)
			}
			if err := m.Resident(); on != nil && (err != nil || call > 3 && (seen.steps-before.steps != 1 || seen.products > before.products)) {
				t.Errorf("call %d: %d submissions, %d products, %v", call, seen.steps-before.steps, seen.products-before.products, err)
			}
			for _, item := range items {
				all = append(all, slices.Clone(item.Logits))
			}
		}
	}
	for i := range len(all) / 2 {
		if !slices.Equal(all[i], all[len(all)/2+i]) {
			t.Errorf("other logits of item %d", i)
		}
	}
}
