package schedule

import (
	"errors"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// signsOf are tables of digits that count -1 and 1. Activations are at most 127, so that an entry of 3
// digits is -381 to 381, and one of 4 is -508 to 508.
func signsOf(parts ...int) ir.Tables {
	return ir.Tables{Decomposition: ir.Decomposition{Alphabet: []int{-1, 1}, Coef: []int{1}, HalfOf: 1, Parts: parts}, ByBit: true, Elem: format.I16, Together: 1}
}

func tablesWith(t ir.Tables, edit func(*ir.Tables)) *ir.Tables {
	edit(&t)
	return &t
}

// TestEntryRange compares ranges of sums of entries with those computed by hand.
func TestEntryRange(t *testing.T) {
	whole := func(*ir.Tables) {}
	split := func(low int) func(*ir.Tables) { return func(t *ir.Tables) { t.Low = low } }
	mirrored := func(low int) func(*ir.Tables) { return func(t *ir.Tables) { t.Low, t.Mirror = low, true } }
	rounded := func(low int) func(*ir.Tables) { return func(t *ir.Tables) { t.Low, t.Elem = low, format.I8 } }
	residual := func(t *ir.Tables) { t.Alphabet, t.Elem, t.Residual = []int{0, 1}, format.U8, true }
	type loops = map[string]int
	for _, c := range []struct {
		name   string
		tables *ir.Tables
		half   int
		loops  loops
		lo, hi int64
		terms  int
	}{
		{"an entry", tablesWith(signsOf(4), whole), 0, loops{}, -508, 508, 4},
		{"two lookups", tablesWith(signsOf(4), whole), 0, loops{"u": 2}, -1016, 1016, 8},
		{"two loops", tablesWith(signsOf(4), whole), 0, loops{"u": 2, "ks": 3}, -3048, 3048, 24},
		// The sum over one part or the other: the larger of both.
		{"the second part is larger", tablesWith(signsOf(3, 4), whole), 0, loops{"u": 2}, -1016, 1016, 8},
		{"the first part is larger", tablesWith(signsOf(4, 3), whole), 0, loops{"u": 2}, -1016, 1016, 8},
		{"both parts", tablesWith(signsOf(3, 4), whole), 0, loops{"u": 2, partLoop: 2}, -1778, 1778, 14},
		{"halves of whole entries", tablesWith(signsOf(4), whole), 0, loops{"u": 2, halfLoop: 1}, -1016, 1016, 8},
		// -508 = -16*32 + 4 and 508 = 15*32 + 28; -381 = -12*32 + 3 and 381 = 11*32 + 29.
		{"lower halves", tablesWith(signsOf(3, 4), split(5)), 0, loops{"u": 2}, 0, 62, 8},
		{"upper halves", tablesWith(signsOf(3, 4), split(5)), 1, loops{"u": 2}, -32, 30, 8},
		{"upper halves, the first part is larger", tablesWith(signsOf(4, 3), split(5)), 1, loops{"u": 2}, -32, 30, 8},
		{"lower halves of both parts", tablesWith(signsOf(3, 4), split(5)), 0, loops{"u": 2, partLoop: 2}, 0, 124, 14},
		{"upper halves of both parts", tablesWith(signsOf(3, 4), split(5)), 1, loops{"u": 2, partLoop: 2}, -56, 52, 14},
		// Mirrored, halves are rounded: 508 = 16*32 - 4, 381 = 12*32 - 3.
		{"mirrored lower halves", tablesWith(signsOf(3, 4), mirrored(5)), 0, loops{"u": 2}, -32, 32, 8},
		{"mirrored upper halves", tablesWith(signsOf(3, 4), mirrored(5)), 1, loops{"u": 2}, -32, 32, 8},
		{"mirrored upper halves of both parts", tablesWith(signsOf(3, 4), mirrored(5)), 1, loops{"u": 2, partLoop: 2}, -56, 56, 14},
		// Rounded to multiples of 8, halves upward: 508/8 = 63.5, -508/8 = -63.5.
		{"rounded", tablesWith(signsOf(4), rounded(3)), 0, loops{"u": 2}, -126, 128, 8},
		// 4 digits of 0 or 1 sum up to 508: 255 in a byte and 253 above.
		{"bytes with residuals", tablesWith(signsOf(4), residual), 0, loops{"u": 2}, 0, 510, 8},
		{"residuals", tablesWith(signsOf(4), residual), 1, loops{"u": 2}, 0, 506, 8},
		{"both", tablesWith(signsOf(4), residual), 0, loops{"u": 2, halfLoop: 2}, 0, 1016, 8},
	} {
		lo, hi, terms := (&State{tables: c.tables}).entryRange(c.half, c.loops)
		if lo != c.lo || hi != c.hi || terms != c.terms {
			t.Errorf("%s: %d to %d by %d activations, want %d to %d by %d", c.name, lo, hi, terms, c.lo, c.hi, c.terms)
		}
	}
}

// TestCheckEntries has sums that just fit their accumulator, and those with one lookup more.
func TestCheckEntries(t *testing.T) {
	type kind struct {
		name string
		elem format.DType
		t    *ir.Tables
	}
	one := func(low int) *ir.Tables { return tablesWith(signsOf(1), func(t *ir.Tables) { t.Low = low }) }
	i8 := func(name string, t *ir.Tables) kind { return kind{name, format.I8, t} }
	i16 := func(name string, t *ir.Tables) kind { return kind{name, format.I16, t} }
	residual := tablesWith(signsOf(4), func(t *ir.Tables) { t.Alphabet, t.Elem, t.Residual = []int{0, 1}, format.U8, true })
	mirrored := tablesWith(signsOf(1), func(t *ir.Tables) { t.Low, t.Mirror = 1, true })
	for _, c := range []struct {
		kind
		most         int // lookups that fit
		bound, limit int64
		terms        int
	}{
		{i8("upper halves -8 to 7, -128 at last", one(4)), 16, 136, 127, 17},
		{i8("lower halves up to 255, without a sign", one(8)), 1, 510, 255, 2},
		{i16("lower halves up to 31, 32767 at last", one(5)), 1057, 32798, 32767, 1058},
		{i16("entries up to 127", one(0)), 258, 32893, 32767, 259},
		{i8("entries up to 127", one(0)), 1, 254, 127, 2},
		{i8("mirrored lower halves -1 to 1, upper ones -64 to 64", mirrored), 1, 128, 127, 2},
		{i8("bytes with residuals", residual), 1, 510, 255, 8},
		{i16("bytes with residuals", residual), 128, 32895, 32767, 516},
		{kind{"32 bits hold anything", format.I32, one(0)}, 1 << 40, 0, 0, 0},
		{kind{"so do floats", format.F32, one(0)}, 1 << 40, 0, 0, 0},
	} {
		s := &State{tables: c.t}
		lv := level{Level: nest.Level{Temp: &ir.Tensor{Name: "acc", Elem: c.elem}}}
		if err := s.checkEntries(lv, map[string]int{"u": c.most}); err != nil {
			t.Errorf("%s: %d lookups: %v", c.name, c.most, err)
		}
		var have *Overflow
		err := s.checkEntries(lv, map[string]int{"u": c.most + 1})
		if c.bound == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		want := Overflow{"accumulator acc", c.elem.String(), c.bound, c.limit, c.terms, 1, 0, 127}
		if !errors.As(err, &have) || *have != want {
			t.Errorf("%s: %d lookups: have %+v, want %+v", c.name, c.most+1, have, want)
		}
	}
}
