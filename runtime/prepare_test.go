package runtime

import (
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
)

// TestPrepareTaken: rows are quantized by the assembly of a variant that has some, once each, and a row of whole steps is
// written where it belongs, without a copy.
func TestPrepareTaken(t *testing.T) {
	if !littleEndian {
		return // there are no variants
	}
	for _, c := range []struct {
		name    string
		prepare bool // the variant has assembly for it
		n, k    int
		calls   int
		direct  bool // of whole steps, which are 192 elements of K
	}{
		{"a row of whole steps", true, 1, 192, 1, true},
		{"a row of two steps", true, 1, 384, 1, true},
		{"a row of less than a step", true, 1, 191, 1, false},
		{"a row of more than a step", true, 1, 193, 1, false},
		{"rows of whole steps, which lie between each other", true, 3, 192, 3, false},
		{"no assembly", false, 3, 192, 0, false},
	} {
		s := fakeSpec(t, "w4", 0, 16, 64, []int{1, 2, 4})
		var calls []abi.PrepareArgs
		v := &s.Variants[0]
		if c.prepare {
			right := v.Prepare.Fn
			v.Prepare.Fn = func(a *abi.PrepareArgs) { calls = append(calls, *a); right(a) }
		} else {
			v.Prepare = nil
		}
		x := make([]float32, c.n*c.k)
		for i := range x {
			x[i] = float32(i%7 - 3)
		}
		act := mustPrepare(t, New(*s), x, c.n, c.k)
		if len(calls) != c.calls {
			t.Errorf("%s: %d calls of the assembly, want %d", c.name, len(calls), c.calls)
		}
		for _, a := range calls {
			at := uintptr(a.Sums) - uintptr(unsafe.Pointer(&act[0]))
			if direct := at < uintptr(len(act)); direct != c.direct {
				t.Errorf("%s: sums are written to the buffer: %v, want %v", c.name, direct, c.direct)
			}
		}
	}
}
