package devices

import (
	"maps"
	"testing"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/tests/oracle"
)

// TestEnds: kernels of products add what they compute to the hidden state, multiply it by the activation of the gate, and add biases, of one token and of several. There
// is no dispatch of these operators besides. All steps have the CPU's bits and are one submission, once the first ones have been compared.
func TestEnds(t *testing.T) {
	end := func(operator, product string) abi.Ending { return abi.Ending{Operator: operator, Product: product} }
	t.Run("residual and gate", func(t *testing.T) {
		endsOf(t, opened, map[abi.Ending]int{end("add", "y"): 2, end("silu", "up"): 1})
	})
	t.Run("biases", func(t *testing.T) {
		x := oracle.NewTiny("qwen2", oracle.Same("Q8_0"))
		endsOf(t, func(t *testing.T, on *kernels.Device) (*model.Model, *model.Session) {
			return openedBy(t, on, func(k model.Kernels) (*model.Model, error) {
				f, err := x.File()
				if err != nil {
					return nil, err
				}
				return model.New(f, k, model.Options{Context: 64})
			})
		}, map[abi.Ending]int{end("add", "y"): 2, end("silu", "up"): 1, end("add", "x"): 3})
	})
}

// endsOf runs a model on a device and on the CPU. A token ends so many products of each layer in operators.
func endsOf(t *testing.T, opened func(*testing.T, *kernels.Device) (*model.Model, *model.Session), each map[abi.Ending]int) {
	on, seen := counting(here(t))
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, s := opened(t, on)
		want := map[abi.Ending]int{}
		for end, n := range each {
			want[end] = n * m.Config().Layers
		}
		for call, n := range []int{3, 1, 5, 1, 1} {
			before := *seen
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
