package ir

import (
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestMirror: an index and the side it is on find every entry of a table that is stored by half,
// whole or by its bytes.
func TestMirror(t *testing.T) {
	for _, c := range []struct {
		weight, digits string
		parts          []int
		looked         []int
	}{
		{"w1", DigitSigns, []int{5, 2}, []int{16, 2}},
		{"w2", DigitSigns, []int{8}, []int{128}},
		{"ternary", DigitLevels, []int{3, 5}, []int{14, 122}},
		{"ternary", DigitLevels, []int{1}, []int{2}},
	} {
		d, err := Decompose(weight(t, c.weight), c.digits, c.parts...)
		if err != nil {
			t.Fatal(err)
		}
		whole, half := Tables{Decomposition: d, Elem: format.I16}, Tables{Decomposition: d, Elem: format.I16, Mirror: true}
		split := half
		split.Low = 7
		if err := split.Check(); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewSource(1))
		for try := range 100 {
			act := make([]int, d.Digits())
			for i := range act {
				act[i] = rng.Intn(255) - 127
				if try < 4 {
					act[i] = []int{-127, 127}[(try+i*(try/2))%2]
				}
			}
			for part := range c.parts {
				n := whole.Entries(part)
				if half.Looked(part) != c.looked[part] || half.Entries(part) != n {
					t.Fatalf("%s %v: %d of %d entries", c.weight, c.parts, half.Looked(part), n)
				}
				for e := range n {
					x, sign := e, 1
					if image := n - 1 - e; e > image {
						x, sign = image, -1
					}
					at := func(i int) int { return act[i] }
					want, have := whole.Entry(part, e, at), half.Entry(part, x, at)
					low, high := split.Halves(have)
					if want != sign*have || want != sign*low+sign*high<<split.Low {
						t.Fatalf("%s %v: entry %d of part %d is %d, have %d, %d + %d*2^7", c.weight, c.parts, e, part, want, sign*have, sign*low, sign*high)
					}
					checkHalf(t, &split, 0, part, sign*low)
					checkHalf(t, &split, 1, part, sign*high)
				}
			}
		}
	}
}

// checkHalf holds half of an entry to its range and to that of bytes.
func checkHalf(t *testing.T, tables *Tables, half, part, v int) {
	t.Helper()
	if lo, hi := tables.HalfRange(half, tables.Bound(part)); v < lo || v > hi || int(int8(v)) != v {
		t.Fatalf("half %d is %d, of %d to %d", half, v, lo, hi)
	}
}
