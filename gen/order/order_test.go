package order

import (
	"fmt"
	"testing"

	"github.com/tmacc/tmacc/ir"
)

func newOrder(t *testing.T, options Options) *Order {
	t.Helper()
	o, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The largest K of a product is blamed on the tensor that has it.
func TestLargestKIsBlamed(t *testing.T) {
	o := newOrder(t, Options{Act: UsualAct()})
	p, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{4096, 1 << 24, 1 << 18} {
		if err := o.want(p, fmt.Sprintf("of%d", k), 1, k, 1); err != nil {
			t.Fatal(err)
		}
	}
	if w := o.Products[0]; w.asks != "tensor of16777216 asks" || w.Problem.LimitK() != 1<<24 {
		t.Errorf("%s, for %d", w.asks, w.Problem.LimitK())
	}
}
