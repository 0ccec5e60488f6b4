package lower

import (
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// TestBalanced adds floats on units that shifts leave free. This happens only in a loop that runs often, only if shifts
// keep the units of the first row busier than the average of all units, and only by rows that cost no more.
func TestBalanced(t *testing.T) {
	f32x4, u32x4 := vir.Type{Elem: format.F32, Lanes: 4}, vir.Type{Elem: format.U32, Lanes: 4}
	machine := func(cost int) toy {
		m := newToy(toyAll)
		for i := range m.rows {
			switch r := &m.rows[i]; {
			case r.Op == vir.OpAdd && r.Dst == f32x4:
				r.Busy = []int{3, 5}
			case r.Op == vir.OpShrU && r.Dst == u32x4:
				r.Busy = []int{3, 5}
			case r.Op == vir.OpXor && r.Dst == u32x4:
				r.Busy = []int{5}
			}
		}
		m.add(Row{Op: vir.OpAdd, Dst: f32x4, Args: []vir.Type{f32x4, f32x4}, Asm: "other", Cost: cost, Busy: []int{3, 0, 5}, Tied: 1})
		return m
	}
	const (
		shift = "\tv2:u32x4 = shru v2 1\n"
		mask  = "\tv2:u32x4 = xor v2 v1\n"
		add   = "\tv3:f32x4 = add v3 v0\n"
	)
	kernel := func(before, inside string) string {
		return "func f(x ptr, out ptr)\nv0:f32x4 = load x+0\nv1:u32x4 = load x+16\nv2:u32x4 = load x+32\nv3:f32x4 = load x+48\n" + before +
			"loop l0 8 carry v2 v3\n" + inside + "end\nstore out+0 v2\nstore out+16 v3\n"
	}
	for _, c := range []struct {
		name, text, want string
		cost             int
	}{
		{"shifts are busiest", kernel("", shift+add), "other", 5},
		{"for more", kernel("", shift+add), "add", 6},
		{"no shifts", kernel("", add), "add", 5},
		{"all are busiest", kernel("", shift+add+mask+mask), "add", 5},
		{"few shifts, once", kernel("v4:u32x4 = shru v2 1\nstore out+32 v4\n", mask+add), "add", 5},
	} {
		k, err := Compile(machine(c.cost), parse(t, c.text))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		adds := 0
		for _, op := range k.Ops {
			if op.Kind == MInstr && op.In.Op == vir.OpAdd {
				adds++
				if op.Row.Asm != c.want {
					t.Errorf("%s: by %s, want %s", c.name, op.Row.Asm, c.want)
				}
			}
		}
		if adds == 0 {
			t.Errorf("%s: no addition is left", c.name)
		}
	}
}
