package ir

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// codebook is a format of six levels that no table names.
func codebook() format.Weight {
	return format.Weight{Name: "six", Bits: 3, Levels: []int{-90, -31, -8, 5, 27, 101}, Scale: format.F32, Per: format.PerRow}
}

func TestBitSerial(t *testing.T) {
	for _, c := range []struct {
		w    format.Weight
		want Decomposition
	}{
		{weight(t, "w1"), Decomposition{[]int{-1, 1}, []int{1}, 0, 1, []int{4}}},
		{weight(t, "w2"), Decomposition{[]int{-1, 1}, []int{1, 2}, -1, 2, []int{4}}},
		{weight(t, "q2_0"), Decomposition{[]int{-1, 1}, []int{1, 2}, 1, 2, []int{4}}},
		{weight(t, "w4"), Decomposition{[]int{-1, 1}, []int{1, 2, 4, 8}, -1, 2, []int{4}}},
		{weight(t, "ternary"), Decomposition{[]int{-1, 1}, []int{1, 2}, 1, 2, []int{4}}},
		// Its second bit is never set.
		{format.Weight{Name: "loose", Bits: 2, Levels: []int{-3, 5}, Scale: format.F32, Per: format.PerRow},
			Decomposition{[]int{-1, 1}, []int{4, 0}, 1, 1, []int{4}}},
		// Two's complement: the last bit counts -4.
		{format.Weight{Name: "twos", Bits: 3, Levels: []int{0, 1, 2, 3, -4, -3, -2, -1}, Scale: format.F32, Per: format.PerRow},
			Decomposition{[]int{-1, 1}, []int{1, 2, -4}, -1, 2, []int{4}}},
		{format.Weight{Name: "apart", Bits: 2, Levels: []int{-9, -3, 3, 9}, Scale: format.F32, Per: format.PerRow},
			Decomposition{[]int{-1, 1}, []int{3, 6}, 0, 1, []int{4}}},
	} {
		d, err := BitSerial(c.w, 4)
		if err != nil || !reflect.DeepEqual(d, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.w.Name, d, err, c.want)
		}
	}
}

func TestElementLUT(t *testing.T) {
	d, err := ElementLUT(weight(t, "ternary"), 5, 3)
	want := Decomposition{[]int{-1, 0, 1}, []int{1}, 0, 1, []int{5, 3}}
	if err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, %v; want %+v", d, err, want)
	}
	if d.Digits() != 8 || d.Entries(0) != 243 || d.Entries(1) != 27 {
		t.Errorf("digits %d, entries %d %d", d.Digits(), d.Entries(0), d.Entries(1))
	}
}

func TestDecompositionRefusals(t *testing.T) {
	two := func(levels ...int) format.Weight {
		return format.Weight{Name: "x", Bits: 2, Levels: levels, Scale: format.F32, Per: format.PerRow}
	}
	for _, c := range []struct {
		make  func(format.Weight, ...int) (Decomposition, error)
		w     format.Weight
		parts []int
		want  string
	}{
		{BitSerial, codebook(), []int{4}, "weight six: level 5 of code 3 is not a sum over its digits; use ElementLUT"},
		{BitSerial, weight(t, "iq4nl"), []int{4}, "weight iq4nl: level -65 of code 3 is not a sum over its digits; use ElementLUT"},
		{BitSerial, two(0, 1, 2, 4), []int{4}, "weight x: level 4 of code 3 is not a sum over its digits; use ElementLUT"},
		{BitSerial, two(), []int{4}, "has 0 levels"},
		{ElementLUT, two(1), []int{4}, "has 1 levels"},
		{BitSerial, weight(t, "w4"), nil, "weight w4: an index needs at least one part"},
		{BitSerial, weight(t, "w4"), []int{4, 0}, "weight w4: part 1 has 0 digits; want at least 1"},
		{BitSerial, weight(t, "w4"), []int{17}, "weight w4: part 0: 17 digits of 2 values need a table of more than 65536 entries"},
		{BitSerial, weight(t, "w4"), []int{1 << 40}, "need a table of more than 65536 entries"},
		{ElementLUT, weight(t, "w8"), []int{2, 3}, "weight w8: part 1: 3 digits of 256 values need a table of more than 65536 entries"},
	} {
		if _, err := c.make(c.w, c.parts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v; want %q", c.w.Name, c.parts, err, c.want)
		}
	}
}

func TestLUTGraphRefusals(t *testing.T) {
	serial := func(name string, parts ...int) Decomposition {
		d, err := BitSerial(weight(t, name), parts...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	trits, err := ElementLUT(weight(t, "ternary"), 5)
	if err != nil {
		t.Fatal(err)
	}
	half := serial("w2", 4)
	half.HalfOf = 3
	for _, c := range []struct {
		graph func(Problem, Decomposition) (*Graph, error)
		p     Problem
		d     Decomposition
		want  string
	}{
		{BitSerialGraph, Problem{Weight: weight(t, "w4"), MaxK: -1}, serial("w4", 4), "max_k -1"},
		{BitSerialGraph, Problem{Weight: weight(t, "w2")}, serial("w4", 4), "weight w2: level -2 of code 0 is not a sum over its digits"},
		{ElementLUTGraph, Problem{Weight: weight(t, "q2_0")}, trits, "weight q2_0: code 3 has digit 3; the alphabet has 3"},
		{BitSerialGraph, Problem{Weight: weight(t, "w2")}, half, "weight w2: half_of is 3; want 1 or 2"},
		{BitSerialGraph, Problem{Weight: weight(t, "w8")}, serial("w8", 4), "weight w8: 2 times a sum over 131072 elements does not fit 32 bits; lower max_k or use ElementLUT"},
	} {
		if _, err := c.graph(c.p, c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.p.Weight.Name, err, c.want)
		}
	}
	if _, err := BitSerialGraph(Problem{Weight: weight(t, "w8"), MaxK: 65536}, serial("w8", 4)); err != nil {
		t.Error(err)
	}
}

// TestLUTGraphs compares lookups with the definition: unequal parts, sizes and
// groups that are not whole indices, zero points.
func TestLUTGraphs(t *testing.T) {
	for _, c := range []struct {
		w      format.Weight
		act    int
		serial bool
		parts  []int
	}{
		{weight(t, "w1"), 0, true, []int{4}},
		{weight(t, "w1"), 0, true, []int{5, 5, 6}},
		{weight(t, "w1-g48"), 16, true, []int{5, 5, 6}},
		{weight(t, "w2"), 0, true, []int{4, 4}},
		{weight(t, "w2-g16-z"), 0, true, []int{3}},
		{weight(t, "w3"), 48, true, []int{4}},
		{weight(t, "w3-g96"), 0, true, []int{5, 5, 6}},
		{weight(t, "w4"), 0, true, []int{4}},
		{weight(t, "w4-g16"), 0, true, []int{7, 2}},
		{weight(t, "w4-g48-f32-z"), 16, true, []int{4}},
		{weight(t, "w8-g16"), 0, true, []int{4}},
		{weight(t, "ternary"), 0, true, []int{4}},
		{weight(t, "ternary-g48-z"), 16, true, []int{5, 5, 6}},
		{weight(t, "ternary"), 0, false, []int{2}},
		{weight(t, "ternary"), 0, false, []int{3}},
		{weight(t, "ternary"), 0, false, []int{5}},
		{weight(t, "ternary"), 0, false, []int{3, 2, 1}},
		{weight(t, "ternary-g16-z"), 0, false, []int{5}},
		{weight(t, "ternary-g96"), 32, false, []int{3, 5}},
		{weight(t, "w2"), 0, false, []int{2}},
		{weight(t, "w2-g48-z"), 16, false, []int{3}},
		{weight(t, "w8"), 0, false, []int{1}},
		{codebook(), 0, false, []int{2}},
		{codebook(), 48, false, []int{3, 2}},
	} {
		p := Problem{Weight: c.w, Act: format.Act{Group: c.act}}
		t.Run(fmt.Sprintf("%s/a%d/%v/%v", c.w.Name, c.act, c.serial, c.parts), func(t *testing.T) {
			rng := rand.New(rand.NewSource(5))
			decompose, graph := ElementLUT, ElementLUTGraph
			if c.serial {
				decompose, graph = BitSerial, BitSerialGraph
			}
			d, err := decompose(c.w, c.parts...)
			if err != nil {
				t.Fatal(err)
			}
			g, err := graph(p, d)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range shapes(rng, p) {
				x := randomProduct(rng, p, s[0], s[1], s[2])
				x.check(t, g)
				x.check(t, Matmul(p))
			}
		})
	}
}

// Any level a weight can have is fine: random formats, derived decompositions.
func TestRandomDecompositions(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	for i := range 60 {
		w := format.Weight{Name: "random", Bits: 1 + rng.Intn(4), Scale: format.F32, Per: format.PerRow}
		base, linear := rng.Intn(20)-10, rng.Intn(2) == 0
		steps := []int{rng.Intn(25) - 12, rng.Intn(25) - 12, rng.Intn(25) - 12, rng.Intn(25) - 12}
		for code := range 1 << w.Bits {
			level := base
			for p := range w.Bits {
				level += steps[p] * (code >> p & 1)
			}
			if !linear {
				level = rng.Intn(256) - 128
			}
			w.Levels = append(w.Levels, level)
		}
		p := Problem{Weight: w, MaxK: 4096}
		c := randomProduct(rng, p, 1+rng.Intn(3), 1+rng.Intn(2), 1+rng.Intn(40))
		parts := []int{1 + rng.Intn(2), 1 + rng.Intn(2)}
		if d, err := BitSerial(w, parts...); err == nil {
			g, err := BitSerialGraph(p, d)
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			c.check(t, g)
		} else if linear {
			t.Fatalf("%d: %v", i, err)
		}
		d, err := ElementLUT(w, parts...)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		g, err := ElementLUTGraph(p, d)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		c.check(t, g)
	}
}
