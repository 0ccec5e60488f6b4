package vir_test

import (
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

// Map shares bodies in which nothing changes, and copies the loops around a change only.
func TestMapShares(t *testing.T) {
	a, b := &vir.Instr{Op: vir.OpSplat, Dst: 0}, &vir.Instr{Op: vir.OpSplat, Dst: 1}
	left, right := &vir.Loop{ID: 0, Body: []vir.Node{a}}, &vir.Loop{ID: 1, Body: []vir.Node{b}}
	body := []vir.Node{left, right}
	if same := vir.Map(body, func(*vir.Instr) []*vir.Instr { return vir.Kept }); !vir.SameBody(same, body) {
		t.Error("nothing has changed, but the body is another")
	}
	c := *b
	got := vir.Map(body, func(in *vir.Instr) []*vir.Instr {
		if in == b {
			return []*vir.Instr{&c}
		}
		return []*vir.Instr{in}
	})
	if got[0] != left || got[1] == right || got[1].(*vir.Loop).Body[0] != &c || right.Body[0] != b {
		t.Errorf("one of two loops has changed: %v, %v", got[0] == left, got[1] == right)
	}
	if none := vir.Map(body, func(*vir.Instr) []*vir.Instr { return nil }); len(none[0].(*vir.Loop).Body) != 0 || len(left.Body) != 1 {
		t.Error("no instruction is left, but a loop has one, or the old one has lost its own")
	}
}
