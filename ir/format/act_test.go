package format

import "testing"

// TestBlockGroup: what of a super-block shares a scale of activations is one integer, if that
// fits 32 bits for all codes and scales.
func TestBlockGroup(t *testing.T) {
	for _, c := range []struct {
		weight         string
		act            Act
		group, largest int
	}{
		{"w4", Act{}, 0, 0}, {"w4", Act{Group: 32}, 32, 32}, {"w4-g32", Act{}, 32, 32}, {"w4-g32", Act{Group: 128}, 32, 32},
		{"w4-g32-s256", Act{}, 32, 256}, {"w4-g32-s256", Act{Group: 16}, 16, 16}, {"w4-g32-s256", Act{Group: 32}, 32, 32},
		{"w4-g32-s256", Act{Group: 64}, 32, 64}, {"w4-g32-s256", Act{Group: 1024}, 32, 256}, {"w4-g32-s32-m", Act{}, 32, 32},
		{"w8-g16-s512", Act{}, 16, 512},             // 512 * 128 * 127 * 255 = 2122383360
		{"w8-g16-s528", Act{}, 16, 16},              // 528 of them do not fit
		{"w8-g16-s1024-i8", Act{}, 16, 1024},        // 1024 * 128 * 127 * 128 = 2130706432
		{"w8-g16-s1040-i8", Act{}, 16, 16},          // 1040 of them do not
		{"w8-g16-s512-z", Act{}, 16, 16},            // levels to 255
		{"w8-g16-s256-z", Act{Group: 512}, 16, 256}, // 256 * 255 * 127 * 255 = 2114092800
		{"w2-g32-s64", Act{Float: 2}, 32, 32},
	} {
		w, err := Lookup(c.weight)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.act.Fits(w); err != nil {
			t.Fatal(err)
		}
		if g, b := c.act.SumGroup(w), c.act.BlockGroup(w); g != c.group || b != c.largest {
			t.Errorf("%s, %+v: groups of %d in blocks of %d, want %d in %d", c.weight, c.act, g, b, c.group, c.largest)
		}
	}
}
