package schedule

import (
	"errors"
	"maps"
	"math"
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
		lo, hi, terms := (&Product{tables: c.tables}).entryRange(c.half, c.loops)
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
		s := &Product{tables: c.t}
		acc := accumulator{Accumulator: nest.Accumulator{Temp: &ir.Tensor{Name: "acc", Elem: c.elem}}}
		if err := s.checkEntries(acc, map[string]int{"u": c.most}); err != nil {
			t.Errorf("%s: %d lookups: %v", c.name, c.most, err)
		}
		var have *Overflow
		err := s.checkEntries(acc, map[string]int{"u": c.most + 1})
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

// TestPeak: what a digit or a level counts at most, whichever sign it has.
func TestPeak(t *testing.T) {
	for _, c := range []struct {
		alphabet []int
		want     int
	}{{[]int{-3, 1}, 3}, {[]int{-1, 2}, 2}, {[]int{2, -5, 4}, 5}} {
		s := &Product{tables: tablesWith(signsOf(4), func(t *ir.Tables) { t.Alphabet = c.alphabet })}
		if have := s.peak(); have != c.want {
			t.Errorf("digits %v: %d, want %d", c.alphabet, have, c.want)
		}
	}
	codebook := ir.Problem{Weight: format.Weight{Name: "x", Bits: 2, Levels: []int{-3, 0, 1, 7}, Per: format.PerRow, Scale: format.F32}}
	for _, c := range []struct {
		p       ir.Problem
		hoisted bool
		table   bool // levels are looked up
		lo, hi  int
		peak    int
	}{
		{productOf(t, "w2"), false, false, -2, 1, 2},
		{productOf(t, "w2"), true, false, 0, 3, 3},
		{productOf(t, "w8"), false, false, -128, 127, 128},
		{codebook, false, false, -3, 7, 7},
		{codebook, true, true, 0, 10, 10},
	} {
		st := &stage{values: map[string]ir.Expr{"w": ir.I32(0)}}
		if c.table {
			st.values["w"] = ir.Lookup{}
		}
		s := &Product{Problem: c.p, hoisted: c.hoisted, nests: nests{stages: []*stage{st}}}
		if lo, hi := s.valueRange(); lo != c.lo || hi != c.hi || s.peak() != c.peak {
			t.Errorf("%s, hoisted %v: %d to %d and %d, want %d to %d and %d", c.p.Weight, c.hoisted, lo, hi, s.peak(), c.lo, c.hi, c.peak)
		}
	}
}

// TestTerms counts products of a class of fields by hand. Six fields are 3 iterations of loop a times 2 of loop b,
// field number 2a+b. Class 0 has the fields 0, 3, 4 and 5; class 1 has 1 and 2.
func TestTerms(t *testing.T) {
	acc := &accumulator{classOf: []int{0, 1, 1, 0, 0, 0}, fields: []fieldLoop{{"a", 3, 2}, {"b", 2, 1}}}
	type loops = map[string]int
	for _, c := range []struct {
		loops loops
		want  [2]int // by class
	}{
		{loops{"a": 3, "b": 2}, [2]int{4, 2}},
		{loops{"a": 3, "b": 2, "ks": 5}, [2]int{20, 10}},
		{loops{"a": 3, "b": 2, "ks": 5, "jo": 2}, [2]int{40, 20}},
		// Of the fields of one a, class 0 has both at most and class 1 has one.
		{loops{"b": 2}, [2]int{2, 1}},
		{loops{"b": 2, "ks": 3}, [2]int{6, 3}},
		// Of the fields of one b, class 0 has two at most (b = 0: 0 and 4; b = 1: 3 and 5), class 1 has one.
		{loops{"a": 3}, [2]int{2, 1}},
		{loops{}, [2]int{1, 1}},
		{loops{"ks": 7}, [2]int{7, 7}},
	} {
		for class, want := range c.want {
			if have := acc.terms(class, c.loops); have != want {
				t.Errorf("class %d over %v: %d, want %d", class, c.loops, have, want)
			}
		}
	}
	// Of fields 1 and 4, in class 1, no two have the same a or the same b.
	acc.classOf = []int{0, 1, 0, 0, 1, 0}
	for _, l := range []loops{{"b": 2}, {"a": 3}} {
		if class0, class1 := acc.terms(0, l), acc.terms(1, l); class0 != 2 || class1 != 1 {
			t.Errorf("classes 0 and 1 over %v: %d and %d, want 2 and 1", l, class0, class1)
		}
	}
}

// TestLevelBound has the largest of classes, first, last, and between.
func TestLevelBound(t *testing.T) {
	over := func(classOf []int, shift ...int) *Product {
		acc := accumulator{shift: shift, classOf: classOf, fields: []fieldLoop{{"f", len(classOf), 1}}}
		return &Product{nests: nests{stages: []*stage{{accumulators: []accumulator{{}, acc, {}}, reduce: map[string]bool{"k": true}}}}}
	}
	plan := func(fields int) *nest.Plan {
		return &nest.Plan{
			Loops:        []nest.Loop{{Name: "ks", Root: "k", N: 10}, {Name: "f", Root: "k", N: fields}},
			Reduce:       map[string]bool{"k": true},
			Accumulators: []nest.Accumulator{{At: "ks"}, {At: "ks"}, {At: "ks"}},
		}
	}
	for _, c := range []struct {
		name         string
		s            *Product
		fields       int
		bound        int64
		shift, terms int
	}{
		{"the last class", over([]int{0, 1}, 0, 4), 2, 10 * 3 * 127 << 4, 4, 10},
		{"the first class", over([]int{0, 0, 0, 1}, 1, 2), 4, 30 * 3 * 127 << 1, 1, 30},
		{"the one between", over([]int{0, 1, 1, 2}, 0, 2, 2), 4, 20 * 3 * 127 << 2, 2, 20},
		{"equal ones: the first", over([]int{0, 0, 1}, 1, 2), 3, 20 * 3 * 127 << 1, 1, 20},
	} {
		for i := 1; i <= 2; i++ { // the level that has classes, and one below it
			bound, shift, terms := c.s.sumBound(plan(c.fields), i, 3)
			if bound != c.bound || shift != c.shift || terms != c.terms {
				t.Errorf("%s: %d by %d at 2^%d, want %d by %d at 2^%d", c.name, bound, terms, shift, c.bound, c.terms, c.shift)
			}
		}
		if bound, shift, terms := c.s.sumBound(plan(c.fields), 0, 3); bound != int64(10*c.fields*3*127) || shift != 0 || terms != 10*c.fields {
			t.Errorf("%s, above: %d by %d at 2^%d", c.name, bound, terms, shift)
		}
	}
}

// TestSummed: an element of an accumulator adds up the iterations of the loops of its reduction, from the loop where it
// begins. Loops that it or one above it keeps apart, loops over groups and loops of averages do not count.
func TestSummed(t *testing.T) {
	p := &nest.Plan{
		Loops: []nest.Loop{
			{Name: "mt", Root: "m", Coef: 16}, {Name: "gt", Root: "g"}, {Name: "ks", Root: "k", Coef: 48}, {Name: "gi", Root: "g", N: 2},
			{Name: "u", Root: "k", N: 3}, {Name: "f", Root: "k", N: 4}, {Name: "avg", Root: "k", N: 8, Kind: nest.Averaged}, {Name: "l", Root: "m", N: 16}, {Name: "j", Root: "k", N: 2},
		},
		Reduce:       map[string]bool{"k": true, "g": true},
		Accumulators: []nest.Accumulator{{At: "gt"}, {At: "ks"}, {At: "u", Keep: []nest.Keep{{Name: "f"}}}, {At: "u", Keep: []nest.Keep{{Name: "j"}}}},
	}
	all := func(ks int) map[string]int { return map[string]int{"ks": ks, "u": 3, "f": 4, "j": 2} }
	for _, c := range []struct {
		level, k int
		want     map[string]int
	}{
		{0, 96, all(2)},
		{1, 96, all(2)},
		{1, 97, all(3)}, // a part of a step is a step
		{1, 95, all(2)},
		{1, 48, all(1)},
		{2, 96, map[string]int{"u": 3, "j": 2}},
		{3, 96, map[string]int{"u": 3}}, // f is kept above
	} {
		have := (&Product{Problem: ir.Problem{MaxK: c.k}}).summed(p, c.level)
		if !maps.Equal(have, c.want) {
			t.Errorf("accumulator %d, K of %d: %v, want %v", c.level, c.k, have, c.want)
		}
	}
}

// byteTables is a product by rounded tables of 4 digits, 4 elements of K to a step, whose planes count coef.
func byteTables(low int, coef ...int) *Product {
	s := &Product{tables: tablesWith(signsOf(4), func(t *ir.Tables) { t.Elem, t.Low, t.Coef = format.I8, low, coef })}
	s.stages = []*stage{{
		loops:  []nest.Loop{{Name: "mt", Root: "m", Coef: 1}, {Name: "ks", Root: "k", Coef: 4}, {Name: "plane", Root: planeLoop, N: len(coef)}},
		reduce: map[string]bool{"k": true, planeLoop: true},
	}}
	s.Problem.Weight = format.Weight{Name: "x", Bits: 1, Levels: []int{-1, 1}, Per: format.PerRow, Scale: format.F32}
	return s
}

// TestErrorBound: each lookup is off by half of 2^low at most, and each average of two on the way by as much again.
func TestErrorBound(t *testing.T) {
	step := func(k int, more ...nest.Loop) func(*Product) {
		return func(s *Product) {
			s.main().loops[1].Coef = k
			s.main().loops = append(s.main().loops, more...)
		}
	}
	averaged := func(n int) nest.Loop { return nest.Loop{Name: "u", Root: "k", N: n, Coef: 4, Kind: nest.Averaged} }
	group := func(g int) func(*Product) {
		return func(s *Product) {
			w := &s.Problem.Weight
			w.Per, w.Group = format.PerGroup, g
			s.Problem.Act.Group = g
		}
	}
	both := func(edits ...func(*Product)) func(*Product) {
		return func(s *Product) {
			for _, e := range edits {
				e(s)
			}
		}
	}
	half := func(s *Product) { s.tables.HalfOf = 2 }
	parts := func(n ...int) func(*Product) { return func(s *Product) { s.tables.Parts = n } }
	for _, c := range []struct {
		name string
		low  int
		coef []int
		edit func(*Product)
		want Deviation
	}{
		{"a lookup", 3, []int{1}, step(4), Deviation{4, 4}},
		{"a lookup in a step of 3", 3, []int{1}, step(3), Deviation{3, 4}},
		{"two lookups", 3, []int{1}, step(8), Deviation{8, 8}},
		{"two lookups in a step of 5", 3, []int{1}, step(5), Deviation{5, 8}},
		{"planes", 3, []int{1, -2}, step(4), Deviation{4, 12}},
		{"planes of the other sign", 3, []int{-3, 2}, step(4), Deviation{4, 20}},
		{"planes, halved", 3, []int{1, 2}, both(step(4), half), Deviation{4, 7}},               // 12/2, and 1
		{"an odd number of halves, halved", 1, []int{1}, both(step(4), half), Deviation{4, 2}}, // 1/2 rounded up, and 1
		{"two parts", 3, []int{1}, both(step(8), parts(4, 4)), Deviation{8, 8}},
		{"averages of four", 3, []int{1}, step(16, averaged(4)), Deviation{16, 4 * (1 + 2) * 4}},
		{"averages of two, nothing rounded", 0, []int{1}, step(4, averaged(2)), Deviation{4, 1}}, // 1/2, rounded up
		{"exact", 0, []int{1}, step(4), Deviation{}},
		{"a group that is shorter than a step", 3, []int{1}, both(step(64), group(32)), Deviation{32, 8 * 4}},
		{"a step that is shorter than a group", 3, []int{1}, both(step(16), group(32)), Deviation{16, 4 * 4}},
		{"the shorter of two loops", 3, []int{1}, step(16, nest.Loop{Name: "kt", Root: "k", Coef: 8}), Deviation{8, 2 * 4}},
		{"the first of two loops", 3, []int{1}, step(8, nest.Loop{Name: "kt", Root: "k", Coef: 16}), Deviation{8, 2 * 4}},
	} {
		s := byteTables(c.low, c.coef...)
		c.edit(s)
		if have := s.deviation(); have != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, have, c.want)
		}
	}
	if e := (&Product{}).deviation(); e != (Deviation{}) {
		t.Errorf("without tables: %+v", e)
	}
}

// TestCheckSum has the longest sums that fit 32 bits, and sums of one element more.
func TestCheckSum(t *testing.T) {
	plain := func(levels ...int) *Product {
		return &Product{Problem: ir.Problem{Weight: format.Weight{Name: "x", Bits: 8, Levels: levels, Per: format.PerRow, Scale: format.F32}}}
	}
	tables := func(halfOf int) *Product {
		s := plain(-1, 1)
		s.tables = tablesWith(signsOf(4), func(t *ir.Tables) { t.HalfOf = halfOf })
		s.stages = []*stage{{}}
		return s
	}
	for _, c := range []struct {
		name  string
		s     *Product
		most  int // elements
		bound int64
		peak  int
	}{
		{"levels up to 1", plain(0, 1), 16909320, 127 * 16909321, 1}, // 2^31 = 127 * 16909320.08
		{"levels down to -128", plain(-128, 127), 132104, 128 * 127 * 132105, 128},
		{"exact tables", tables(1), 16909320, 127 * 16909321, 1},
		{"exact tables of halves", tables(2), 8454660, 2 * 127 * 8454661, 1},
		// 15966421 * 127 and 3991606 steps that are off by 30 are 2147483647.
		{"rounded tables, 2147483647 at last", byteTables(1, 14, -16), 15966421, 15966422*127 + 3991606*30, 1},
	} {
		c.s.Problem.MaxK = c.most
		if err := c.s.checkSum(); err != nil {
			t.Errorf("%s: %d elements: %v", c.name, c.most, err)
		}
		c.s.Problem.MaxK++
		var have *Overflow
		want := Overflow{"the sum of a group", "i32", c.bound, math.MaxInt32, c.most + 1, c.peak, 0, 127}
		if err := c.s.checkSum(); !errors.As(err, &have) || *have != want {
			t.Errorf("%s: %d elements: have %+v, want %+v", c.name, c.most+1, have, want)
		}
	}
}

// TestCheckBlocks: a block of groups is one integer. With rounded tables their sums, and how far they are off,
// times the largest sub-scale must fit 32 bits.
func TestCheckBlocks(t *testing.T) {
	for _, c := range []struct {
		name         string
		s            *Product
		group, super int
		scale        format.DType
		blocks       int
		bound        int64
	}{
		// A group of 32 sums up to 32*127 = 4064 and is off by 8 lookups, of 6 or 7 each: times 255, 2048 of them are
		// (4064+48)*2048*255 = 2147450880, which fits, or 2151628800.
		{"2048 groups", byteTables(1, 3, -3), 32, 65536, format.U8, 2048, 0},
		{"2048 groups, off by 1 more for a lookup", byteTables(1, 3, -4), 32, 65536, format.U8, 2048, (4064 + 56) * 2048 * 255},
		// Scales down to -128 leave room for twice as much: (4064+4128)*2048*128 = 2^31 is one too many, (4064+4120)*2048*128 is not.
		{"signed scales", byteTables(1, 515), 32, 65536, format.I8, 2048, 0},
		{"signed scales, off by 1 more", byteTables(1, 516), 32, 65536, format.I8, 2048, 1 << 31},
		// One group is no block: floats scale it.
		{"one group", byteTables(8, 30), 65536, 65536, format.U8, 1, 0},
	} {
		w := &c.s.Problem.Weight
		w.Per, w.Scale, w.Group, w.Super = format.PerGroup, c.scale, c.group, c.super
		if n := c.s.Problem.Block(); n != c.blocks {
			t.Fatalf("%s: blocks of %d", c.name, n)
		}
		var have *Overflow
		err := c.s.checkSum()
		if c.bound == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		want := Overflow{"the sum of a block of groups", "i32", c.bound, math.MaxInt32, c.group * c.blocks, w.MostScale(), 0, 127}
		if !errors.As(err, &have) || *have != want {
			t.Errorf("%s: have %+v, want %+v", c.name, have, want)
		}
	}
}

// TestCheckPairs: two products of one field are 2 * 127 * code at 2^shift.
func TestCheckPairs(t *testing.T) {
	with := func(hi int, shifts ...int) *Product {
		levels := []accumulator{{}}
		for _, sh := range shifts {
			levels = append(levels, accumulator{shift: []int{0, sh, 1}})
		}
		p := ir.Problem{Weight: format.Weight{Name: "x", Bits: 8, Levels: []int{0, hi}, Per: format.PerRow, Scale: format.F32}}
		return &Product{Problem: p, nests: nests{stages: []*stage{{accumulators: levels}}}}
	}
	for _, c := range []struct {
		s     *Product
		bound int64
		hi    int
		shift int
	}{
		{with(127), 0, 0, 0}, // 32258
		{with(129), 0, 0, 0}, // 32766
		{with(130), 33020, 130, 0},
		{with(16, 3), 0, 0, 0}, // 32512
		{with(17, 3), 34544, 17, 3},
		{with(1, 7), 0, 0, 0}, // 32512
		{with(1, 8), 65024, 1, 8},
		{with(17, 3, 2), 34544, 17, 3},
		{with(17, 2, 3), 34544, 17, 3},
	} {
		var have *Overflow
		err := c.s.checkPairs()
		if c.bound == 0 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		want := Overflow{"a pair of products", "i16", c.bound, 32767, 2, c.hi, c.shift, 127}
		if !errors.As(err, &have) || *have != want {
			t.Errorf("have %+v, want %+v", have, want)
		}
	}
}
