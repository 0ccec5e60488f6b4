package devices

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/kernels"
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
	on := here(t)
	shared := oracle.NewTinyExperts("qwen2moe", 4, quantized("F32"))
	equal := oracle.NewTinyExperts("llama", 4, quantized("F32"))
	clear(equal.Tensor("blk.0.ffn_gate_inp.weight").Data)
	many := oracle.NewTinyExperts("qwen3moe", 70, quantized("BF16")).Set("expert_weights_norm", false).Set("expert_weights_scale", float32(1.7))
	many.Used = 5
	packed := oracle.NewTinyExperts("qwen3moe", 66, quantized("Q4_0"))
	for name, x := range map[string]*oracle.Tiny{"shared": shared, "equal": equal, "many": many, "packed router": packed} {
		t.Run(name, func(t *testing.T) { expertsOf(t, on, x) })
	}
}

func expertsOf(t *testing.T, on *kernels.Device, x *oracle.Tiny) {
	on, seen := counting(on)
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, one := openedBy(t, on, func(k model.Kernels) (*model.Model, error) {
			f, err := x.File()
			if err != nil {
				return nil, err
			}
			return model.New(f, k, model.Options{Context: 128})
		})
		sessions := []*model.Session{one, oracle.NewSession(t, m)}
		const sorting = 8 // the first call with wide blocks of an expert is computed twice, too
		for call, lengths := range [][2]int{{13, 0}, {1, 0}, {0, 2}, {1, 3}, {1, 1}, {10, 0}, {1, 0}, {1, 12}, {0, 45}, {0, 45}} {
			before := *seen
			all = append(all, forward(t, m, batch(m, []model.Want{model.WantLast, model.WantAll}[call%2], sessions, lengths[:]...)...)...)
			if err := m.Resident(); on != nil && (err != nil || call > 3 && call != sorting && (seen.steps-before.steps != 1 || seen.products > before.products)) {
				t.Errorf("call %d: %d submissions, %d products, %v", call, seen.steps-before.steps, seen.products-before.products, err)
			}
		}
		return all
	})
	// All layers of the last call have the places of 45 positions. Where they fill blocks of four columns, they are sorted by experts.
	places, sorted := 45*x.Used, 0
	most := 3 * x.Layers * places
	if x.Experts*(4-1) <= places {
		sorted, most = x.Layers, most/2
	}
	if seen.lists == 0 || seen.operators["slot"] != sorted || seen.listed > most {
		t.Errorf("%d kernels multiply by a list of matrices; %d blocks of %d places of %d layers, at most %d; they are sorted in %d, want %d",
			seen.lists, seen.listed, places, x.Layers, most, seen.operators["slot"], sorted)
	}
}
