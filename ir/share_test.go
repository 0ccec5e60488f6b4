package ir

import (
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestShare: what occurs twice is one value, its parts none of their own, and the whole means the same.
func TestShare(t *testing.T) {
	x := Read{&Tensor{Name: "x", Elem: format.I32}, []Expr{I32(0)}}
	square := Binary{Mul, x, x}
	sum := Binary{Add, square, I32(3)}
	e := Binary{Sub, Binary{Mul, sum, sum}, Binary{Mul, square, I32(2)}}
	values, body := Share(e, 1)
	want := []string{"v0 = (x[0] * x[0])", "v1 = (v0[] + 3)"}
	for i, v := range values {
		if have := v.Name + " = " + v.Value.String(); i >= len(want) || have != want[i] {
			t.Errorf("value %d: %s", i, have)
		}
	}
	if len(values) != len(want) || body.String() != "((v1[] * v1[]) - (v0[] * 2))" {
		t.Errorf("%d values, and %s", len(values), body)
	}
	if values, body := Share(e, 2); len(values) != 1 || body.String() != "((v0[] * v0[]) - ((x[0] * x[0]) * 2))" {
		t.Errorf("of two operations or more: %v, and %s", values, body)
	}
}
