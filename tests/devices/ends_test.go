package devices

import (
	"maps"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/kernels"
)

// TestEnds: kernels of products add what they compute to the hidden state, and multiply it by the activation of the gate, of one token and of several. There is no
// dispatch of these operators besides. All steps have the CPU's bits and are one submission, once the first ones have been compared.
func TestEnds(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	var seen counts
	counting := *here
	counting.On = counted{here.On, &seen}
	target, _ := spirv.ByName("spirv")
	both(t, &kernels.Device{Here: &counting, Target: target}, func(on *kernels.Device) (all [][]float32) {
		m, s := opened(t, on)
		layers := m.Config().Layers
		want := map[abi.Ending]int{{Operator: "add", Product: "y"}: 2 * layers, {Operator: "silu", Product: "up"}: layers}
		for call, n := range []int{3, 1, 5, 1, 1} {
			before := seen
			all = append(all, forward(t, m, batch(m, model.WantLast, []*model.Session{s}, n)...)...)
			if on == nil {
				continue
			}
			if n == 1 && !maps.Equal(seen.ends, want) || seen.operators["add"]+seen.operators["silu"] > 0 || m.Resident() != nil {
				t.Errorf("call %d: products end so: %v, want %v; dispatches %v; %v", call, seen.ends, want, seen.operators, m.Resident())
			}
			if call > 2 && (seen.steps-before.steps != 1 || seen.products > before.products) {
				t.Errorf("call %d: %d submissions, %d products", call, seen.steps-before.steps, seen.products-before.products)
			}
		}
		return all
	})
}
