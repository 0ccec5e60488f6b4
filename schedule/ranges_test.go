package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// pairs is the sequence for CPUs that sum pairs of products in 16 bits (AVX2): n
// cells of 16 elements of K (fields f, quads) are summed before the sum is widened.
const pairs = `[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"bind":{"loop":"n","to":"outer"}},
{"split":{"loop":"m","by":2,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":$RECORD,"into":["ks","kk"]}},{"split":{"loop":"kk","by":$CELL,"into":["u","kf"]}},
{"split":{"loop":"kf","by":4,"into":["f","jj"]}},{"split":{"loop":"jj","by":2,"into":["jo","j"]}},
{"bind":{"loop":"u","to":"unrolled"}},{"bind":{"loop":"f","to":"unrolled"}},{"bind":{"loop":"jo","to":"vector"}},
{"tensorize":{"loop":"j","to":"dot2"}},{"reorder":{"order":$ORDER}},
{"pack":{"tensor":"codes","order":["mt","ks","u","l","jo","j"],"fields":["f"],"map":"dense"}},$ACCUMULATORS,
{"widen_every":{"loop":"u"}},{"accumulate":{"type":"i16"}}]`

// usual is the order of the loops of pairs in which fields are summed together.
const usual = `["n","mt","ks","u","f","l","jo","j"]`

// fieldsOutside has the fields outside the loop whose sums are widened.
const fieldsOutside = `["n","mt","ks","f","u","l","jo","j"]`

// scaled makes accumulators for fields read in place, then for the two pairs.
func scaled(below int, apart ...string) string {
	out := ""
	if below > 0 {
		out = fmt.Sprintf(`{"read_scaled":{"below":%d}},`, below)
	}
	for _, loop := range append(apart, "jo") {
		out += fmt.Sprintf(`{"rfactor":{"loop":%q}},`, loop)
	}
	return strings.TrimSuffix(out, ",")
}

// blocks sums pairs of products along a row in 16 bits: n blocks of 128 elements of K,
// four fields shifted down from each of 32 bytes, before the sum is widened.
const blocks = `[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"bind":{"loop":"n","to":"outer"}},
{"bind":{"loop":"m","to":"outer"}},{"split":{"loop":"k","by":$RECORD,"into":["ks","kk"]}},{"split":{"loop":"kk","by":128,"into":["u","ku"]}},
{"split":{"loop":"ku","by":32,"into":["f","kx"]}},{"split":{"loop":"kx","by":2,"into":["x","j"]}},
{"bind":{"loop":"f","to":"unrolled"}},{"bind":{"loop":"x","to":"vector"}},{"tensorize":{"loop":"j","to":"dot2"}},
{"pack":{"tensor":"codes","order":["m","ks","u","x","j"],"fields":["f"],"map":"dense"}},
{"rfactor":{"loop":"x"}},{"widen_every":{"loop":"u"}},{"accumulate":{"type":"i16"}}]`

func blocksTrace(t testing.TB, n int) schedule.Trace {
	return parse(t, strings.ReplaceAll(blocks, "$RECORD", fmt.Sprint(128*n)))
}

func pairsTrace(t testing.TB, bits, n int, order, accumulators string) schedule.Trace {
	cell := 4 * 8 / bits
	return parse(t, strings.NewReplacer("$RECORD", fmt.Sprint(n*cell), "$CELL", fmt.Sprint(cell), "$ORDER", order, "$ACCUMULATORS", accumulators).Replace(pairs))
}

// singlesTrace is pairsTrace with each product in a sum of 16 bits of its own (NEON).
func singlesTrace(t testing.TB, bits, n int) schedule.Trace {
	tr := slices.Clone(pairsTrace(t, bits, n, usual, scaled(0)))
	for i, step := range tr {
		switch s := step.(type) {
		case schedule.Split:
			if s.Loop == "jj" {
				s.By = 1
				tr[i] = s
			}
		case schedule.Tensorize:
			tr[i] = schedule.Tensorize{Loop: s.Loop, To: "dot1"}
		}
	}
	return tr
}

// without leaves steps of a kind out.
func without[S schedule.Step](tr schedule.Trace) schedule.Trace {
	return slices.DeleteFunc(slices.Clone(tr), func(s schedule.Step) bool { _, is := s.(S); return is })
}

// quads is the AND trick: sums of four products in 32 bits, fields read in place.
// Fields are elements of K, or rows.
func quads(t testing.TB, bits int, rows bool, more string) schedule.Trace {
	fields := 8 / bits
	k, m := 4*fields, 2
	fold := `{"split":{"loop":"kk","by":4,"into":["f","j"]}},`
	if rows {
		k, m = 4, 2*fields
		fold = `{"split":{"loop":"mm","by":2,"into":["f","l"]}},`
	}
	names := map[bool][2]string{false: {"l", "kk"}, true: {"mm", "j"}}[rows]
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"bind":{"loop":"n","to":"outer"}},
{"split":{"loop":"m","by":%d,"into":["mt",%q]}},{"bind":{"loop":"mt","to":"outer"}},{"split":{"loop":"k","by":%d,"into":["ks",%q]}},%s
{"bind":{"loop":"l","to":"vector"}},{"bind":{"loop":"f","to":"unrolled"}},{"tensorize":{"loop":"j","to":"dot4"}},
{"reorder":{"order":["n","mt","ks","f","l","j"]}},{"pack":{"tensor":"codes","order":["mt","ks","l","j"],"fields":["f"],"map":"dense"}}%s]`,
		m, names[0], k, names[1], fold, more))
}

// wholeBytes is the product of 8-bit codes.
func wholeBytes(t testing.TB) schedule.Trace {
	return parse(t, `[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"bind":{"loop":"n","to":"outer"}},
{"split":{"loop":"m","by":2,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":4,"into":["ks","j"]}},{"tensorize":{"loop":"j","to":"dot4"}},
{"reorder":{"order":["n","mt","ks","l","j"]}},{"pack":{"tensor":"codes","order":["mt","ks","l","j"],"map":"dense"}}]`)
}

// joined is a product whose codes are in codewords of join codes, step elements of
// K to a cell.
func joined(t testing.TB, step, join, mirror int, more string) schedule.Trace {
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"dot","value":"affine"}},{"hoist_zero":{"at":"init"}},{"bind":{"loop":"n","to":"outer"}},
{"split":{"loop":"m","by":2,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":%d,"into":["ks","kk"]}},{"split":{"loop":"kk","by":4,"into":["f","j"]}},{"bind":{"loop":"f","to":"unrolled"}},
{"tensorize":{"loop":"j","to":"dot4"}},{"reorder":{"order":["n","mt","ks","f","l","j"]}},
{"pack":{"tensor":"codes","order":["mt","ks","words","l","j"],"fields":["f"],"map":"words","join":%d,"mirror":%d}}%s]`, step, join, mirror, more))
}

// headed is joined by 5. The first 2 are the head.
func headed(t testing.TB, more string) schedule.Trace {
	tr := joined(t, 20, 5, 0, more)
	for i, step := range tr {
		if p, ok := step.(schedule.Pack); ok {
			p.Head = 2
			tr[i] = p
		}
	}
	return tr
}

// atFlush hoists zero points to where the sum is scaled.
func atFlush(tr schedule.Trace) schedule.Trace {
	tr = slices.Clone(tr)
	for i, step := range tr {
		if _, ok := step.(schedule.HoistZero); ok {
			tr[i] = schedule.HoistZero{At: "flush"}
		}
	}
	return tr
}

func parse(t testing.TB, text string) schedule.Trace {
	t.Helper()
	var tr schedule.Trace
	if err := json.Unmarshal([]byte(text), &tr); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tr
}

func problem(t testing.TB, name string) ir.Problem {
	t.Helper()
	p, err := ir.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const readAll = `,{"read_scaled":{"below":8}}`

// TestRanges compares the analysis with bounds computed by hand.
func TestRanges(t *testing.T) {
	const i16, i32 = 1<<15 - 1, 1<<31 - 1
	// Per cell, fields 0 and 2 are read at bit 0, fields 1 and 3 at bit 2;
	// 16 bits hold 5 cells of 2-bit codes: 5 * 2 fields * 2 products * 3 * 127 * 4 = 30480.
	overflow := func(bound int64, terms, value, shift int) *schedule.Overflow {
		return &schedule.Overflow{What: "accumulator acc3", Type: "i16", Bound: bound, Limit: i16, Terms: terms, Value: value, Shift: shift, Act: 127}
	}
	for _, c := range []struct {
		name, weight string
		maxK         int
		trace        schedule.Trace
		want         *schedule.Overflow
	}{
		{"2 bits, 5 cells", "w2", 0, pairsTrace(t, 2, 5, usual, scaled(4)), nil},
		{"2 bits, 6 cells", "w2", 0, pairsTrace(t, 2, 6, usual, scaled(4)), overflow(36576, 24, 3, 2)},
		{"ternary, 8 cells", "ternary", 0, pairsTrace(t, 2, 8, usual, scaled(4)), nil}, // 32 * 2 * 127 * 4 = 32512
		{"ternary, 9 cells", "ternary", 0, pairsTrace(t, 2, 9, usual, scaled(4)), overflow(36576, 36, 2, 2)},
		{"1 bit, 8 cells", "w1", 0, atFlush(pairsTrace(t, 1, 8, usual, scaled(4))), nil}, // 8 * 2 fields * 2 * 127 * 8 = 32512
		{"1 bit, 9 cells", "w1", 0, atFlush(pairsTrace(t, 1, 9, usual, scaled(4))), overflow(36576, 36, 1, 3)},
		{"4 bits, 4 cells", "w4", 0, pairsTrace(t, 4, 4, usual, scaled(0)), nil}, // 4 * 2 fields * 2 * 15 * 127 = 30480
		{"4 bits, 5 cells", "w4", 0, pairsTrace(t, 4, 5, usual, scaled(0)),
			&schedule.Overflow{What: "accumulator acc2", Type: "i16", Bound: 38100, Limit: i16, Terms: 20, Value: 15, Act: 127}},
		// One product of a field for each lane: 8 cells * 2 fields * 15 * 127 = 30480, with a sign 16 * 2 * 8 * 127 = 32512.
		{"4 bits, 8 cells of single products", "w4", 0, singlesTrace(t, 4, 8), nil},
		{"4 bits, 9 cells of single products", "w4", 0, singlesTrace(t, 4, 9),
			&schedule.Overflow{What: "accumulator acc2", Type: "i16", Bound: 34290, Limit: i16, Terms: 18, Value: 15, Act: 127}},
		{"4 bits with a sign, 16 cells", "w4", 0, without[schedule.HoistZero](singlesTrace(t, 4, 16)), nil},
		{"4 bits with a sign, 17 cells", "w4", 0, without[schedule.HoistZero](singlesTrace(t, 4, 17)),
			&schedule.Overflow{What: "accumulator acc2", Type: "i16", Bound: 34544, Limit: i16, Terms: 34, Value: 8, Act: 127}},
		// A field outside the loop, or kept apart, has an accumulator to itself: 10 * 2 * 3 * 127 * 4 = 30480.
		{"fields outside, 10 cells", "w2", 0, pairsTrace(t, 2, 10, fieldsOutside, scaled(4)), nil},
		{"fields outside, 11 cells", "w2", 0, pairsTrace(t, 2, 11, fieldsOutside, scaled(4)), overflow(33528, 22, 3, 2)},
		{"fields apart, 10 cells", "w2", 0, pairsTrace(t, 2, 10, usual, scaled(4, "f")), nil},
		{"fields apart, 11 cells", "w2", 0, pairsTrace(t, 2, 11, usual, scaled(4, "f")),
			&schedule.Overflow{What: "accumulator acc4", Type: "i16", Bound: 33528, Limit: i16, Terms: 22, Value: 3, Shift: 2, Act: 127}},
		// A block adds 4 pairs of 2 * 127: 16 * 4 * 508 = 32512.
		{"16 blocks along a row", "ternary", 0, blocksTrace(t, 16), nil},
		{"32 blocks along a row", "ternary", 0, blocksTrace(t, 32),
			&schedule.Overflow{What: "accumulator acc2", Type: "i16", Bound: 65024, Limit: i16, Terms: 256, Value: 2, Act: 127}},
		// A saturating pair: 2 * 3 * 127 * 2^6 = 48768.
		{"pair", "w2", 0, pairsTrace(t, 2, 1, usual, scaled(8)),
			&schedule.Overflow{What: "a pair of products", Type: "i16", Bound: 48768, Limit: i16, Terms: 2, Value: 3, Shift: 6, Act: 127}},

		// The AND trick at K = 131072: a quarter of the products of 2-bit codes at 2^6: 799014912, half of 4-bit codes at 2^4: 1997537280.
		{"w1 in place", "w1", 0, atFlush(quads(t, 1, false, readAll)), nil},
		{"w2 in place", "w2", 0, quads(t, 2, false, readAll), nil},
		{"w4 in place", "w4", 0, quads(t, 4, false, readAll), nil},
		{"w4 in place, longer", "w4", 1 << 18, quads(t, 4, false, readAll),
			&schedule.Overflow{What: "accumulator acc2", Type: "i32", Bound: 3995074560, Limit: i32, Terms: 131072, Value: 15, Shift: 4, Act: 127}},
		{"w4 in place, fields are rows", "w4", 0, quads(t, 4, true, readAll),
			&schedule.Overflow{What: "accumulator acc2", Type: "i32", Bound: 3995074560, Limit: i32, Terms: 131072, Value: 15, Shift: 4, Act: 127}},
		// Of 5 codes of 3 levels at bits 0 2 4 6 0, a fifth at 2^6: 4*ceil(2^20/20) * 2 * 127 * 64.
		{"joined in place", "ternary", 0, joined(t, 20, 5, 4, readAll), nil},
		{"joined in place, longer", "ternary", 1 << 20, joined(t, 20, 5, 4, readAll),
			&schedule.Overflow{What: "accumulator acc2", Type: "i32", Bound: 3409143296, Limit: i32, Terms: 209716, Value: 2, Shift: 6, Act: 127}},
		{"w4 shifted, longer", "w4", 1 << 18, quads(t, 4, false, ""), nil},

		// The group's own sum: 131072 * 128 * 127 = 2130706432 fits, 132104 products are the most.
		{"w8 at 131072", "w8", 0, wholeBytes(t), nil},
		{"w8 at 132104", "w8", 132104, wholeBytes(t), nil},
		{"w8 at 132105", "w8", 132105, wholeBytes(t),
			&schedule.Overflow{What: "the sum of a group", Type: "i32", Bound: 2147498880, Limit: i32, Terms: 132105, Value: 128, Act: 127}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := problem(t, c.weight)
			p.MaxK = c.maxK
			_, err := schedule.Compile(p, c.trace)
			var got *schedule.Overflow
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, &got) || *got != *c.want {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			narrow, sum := int64(0), int64(0)
			for range got.Terms {
				product := int64(got.Value<<got.Shift) * int64(got.Act)
				sum += product
				if narrow += product; got.Type == "i16" {
					narrow = int64(int16(narrow))
				} else {
					narrow = int64(int32(narrow))
				}
			}
			if sum != got.Bound || narrow == sum {
				t.Errorf("the sum is %d, in %s %d: no overflow of %v", sum, got.Type, narrow, got)
			}
		})
	}
}

// evaluate computes a product with nest.Eval.
func evaluate(c *check.Case, k *schedule.Kernel) ([]float32, error) {
	return c.Run(k, func(args []vir.Arg) error {
		var na []nest.Arg
		for _, a := range args {
			na = append(na, nest.Arg{Buf: a.Buf, Int: int(a.Int)})
		}
		return nest.Eval(k.Nest, na)
	})
}

// worst is the largest code times 127 everywhere, one row, one column.
func worst(p ir.Problem, k int) *check.Case {
	c := check.New(rand.New(rand.NewSource(1)), p, 1, 1, k, check.Extreme)
	for i := range c.Source.Codes {
		c.Source.Codes[i] = byte(len(p.Weight.Levels) - 1)
	}
	return c
}

// TestLimit runs kernels at the edge of their ranges: an accepted one is exact, and
// a refused one, compiled as if weights were smaller, is not, for the inputs that the
// refusal has.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name, weight string
		trace        schedule.Trace
		fits         bool
	}{
		{"5 cells", "w2", pairsTrace(t, 2, 5, usual, scaled(4)), true},
		{"6 cells", "w2", pairsTrace(t, 2, 6, usual, scaled(4)), false},
		{"10 cells, fields outside", "w2", pairsTrace(t, 2, 10, fieldsOutside, scaled(4)), true},
		{"11 cells, fields outside", "w2", pairsTrace(t, 2, 11, fieldsOutside, scaled(4)), false},
		{"10 cells, fields apart", "w2", pairsTrace(t, 2, 10, usual, scaled(4, "f")), true},
		{"11 cells, fields apart", "w2", pairsTrace(t, 2, 11, usual, scaled(4, "f")), false},
		{"8 cells of single products", "w4", singlesTrace(t, 4, 8), true},
		{"9 cells of single products", "w4", singlesTrace(t, 4, 9), false},
		{"16 blocks", "ternary", blocksTrace(t, 16), true},
		{"32 blocks", "ternary", blocksTrace(t, 32), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := problem(t, c.weight)
			least := p.Weight.Levels[0]
			smaller := ir.Problem{Weight: format.Weight{Name: "smaller", Bits: p.Weight.Bits, Levels: []int{least, least + 1}, Per: format.PerRow, Scale: format.F32}}
			k, err := schedule.Compile(smaller, c.trace)
			if err != nil {
				t.Fatal(err)
			}
			_, err = schedule.Compile(p, c.trace)
			var over *schedule.Overflow
			if errors.As(err, &over) == c.fits || (err == nil) != c.fits {
				t.Fatal(err)
			}
			x := worst(p, 4096)
			if over != nil {
				top := x.Source.Codes[0]
				if over.Value != p.Weight.Levels[top]-least || over.Act != 127 {
					t.Fatalf("%v: the largest weight is %d", over, p.Weight.Levels[top]-least)
				}
			}
			got, err := evaluate(x, k)
			if err != nil {
				t.Fatal(err)
			}
			if err := check.Compare(got, x.Naive(), 1); (err == nil) != c.fits {
				t.Errorf("difference: %v", err)
			}
		})
	}
}

// TestWrap: the unsigned sum of 8-bit weights at the longest K leaves 32 bits and is
// exact all the same, as is the AND trick of 4 bits.
func TestWrap(t *testing.T) {
	for weight, tr := range map[string]schedule.Trace{"w8": wholeBytes(t), "w4": quads(t, 4, false, readAll)} {
		p := problem(t, weight)
		k, err := schedule.Compile(p, tr)
		if err != nil {
			t.Fatal(err)
		}
		x := worst(p, ir.DefaultMaxK)
		got, err := evaluate(x, k)
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Compare(got, x.Naive(), 1); err != nil {
			t.Errorf("%s: %v", weight, err)
		}
	}
}

// TestEntryRanges compares the analysis of sums of entries, which are at most 4 * 127 =
// 508 and at least -508, with bounds computed by hand. Of mirrored tables, lower halves are -2^(low-1) to 2^(low-1), and upper ones 508/2^low rounded.
func TestEntryRanges(t *testing.T) {
	for _, c := range []struct {
		low, units, bytes int
		mirror            bool
		want              string
	}{
		{5, 3, 2, true, ""},   // 6 * 16 = 96
		{5, 3, 341, true, ""}, // 341 * 6 * 16 = 32736
		{5, 3, 342, true, "accumulator acc2: i16 holds 32767, 8208 activations reach 32832"},
		{5, 4, 2, true, "accumulator acc3: i8 holds 127, 32 activations reach 128"},
		{7, 1, 2, true, "accumulator acc3: i8 holds 127, 8 activations reach 128"},
		{4, 1, 2, true, ""}, // 2 * 32 = 64
		{4, 2, 2, true, "accumulator acc3: i8 holds 127, 16 activations reach 128"},
		{5, 4, 2, false, ""},   // 8 * 31 = 248, 8 * -16 = -128
		{5, 4, 132, false, ""}, // 132 * 248 = 32736
		{5, 4, 133, false, "accumulator acc2: i16 holds 32767, 4256 activations reach 32984"},
		{5, 5, 2, false, "accumulator acc3: i8 holds 255, 40 activations reach 310"},
		{6, 2, 2, false, ""}, // 4 * 63 = 252, 4 * -8 = -32
		{6, 3, 2, false, "accumulator acc3: i8 holds 255, 24 activations reach 378"},
		{4, 2, 2, false, ""}, // 4 * 15 = 60, 4 * -32 = -128
		{4, 3, 2, false, "accumulator acc3: i8 holds 127, 24 activations reach 192"},
	} {
		trace := byteSums(t, c.low, c.units, c.bytes)
		if c.mirror {
			trace = mirrored(signSums(t, c.low, c.units, c.bytes))
		}
		_, err := schedule.Compile(problem(t, "w2"), trace)
		got := ""
		var o *schedule.Overflow
		if errors.As(err, &o) {
			got = fmt.Sprintf("%s: %s holds %d, %d activations reach %d", o.What, o.Type, o.Limit, o.Terms, o.Bound)
		} else if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%d low bits, %d units, %d sums of bytes: %q, want %q", c.low, 2*c.units, c.bytes, got, c.want)
		}
	}
}

// TestError compares the bound of rounded tables with figures computed by hand, and one of
// them with inputs that reach it.
func TestError(t *testing.T) {
	for _, c := range []struct {
		name, weight string
		trace        schedule.Trace
		want         schedule.Deviation
	}{
		{"exact", "w2", tables(t, "signs", "4", inBytes, ""), schedule.Deviation{}},
		{"a lookup of 4 for 4", "w1", rounded(tables(t, "signs", "4", inBytes, ""), 0), schedule.Deviation{Span: 8, Most: 2 * 2}},           // 2 lookups, 2^2/2
		{"planes that count 1 and 2, halved", "w2", rounded(tables(t, "signs", "4", inBytes, ""), 0), schedule.Deviation{Span: 8, Most: 7}}, // 2 * (1+2) * 2 / 2, 1 more
		{"planes that count 1 to 8", "w4", rounded(tables(t, "bits", "4", inBytes, ""), 3), schedule.Deviation{Span: 8, Most: 2 * 15 * 4}},
		{"two parts", "w1", rounded(tables(t, "signs", "4,4", inWords, ""), 0), schedule.Deviation{Span: 16, Most: 2 * 2 * 2}},
		{"a group of 8 lookups", "w1-g32", inGroups(rounded(tables(t, "signs", "4", inBytes, ""), 4)), schedule.Deviation{Span: 32, Most: 8 * 8}},
		{"averages of two", "w1", averaged(rounded(tables(t, "signs", "4", inBytes, ""), 0), "u"), schedule.Deviation{Span: 8, Most: 2 * 2 * 2}},             // (1 + 1) * 2
		{"averages of four", "w1", averaged(rounded(tables(t, "signs", "4,4", inWords, ""), 0), "part", "u"), schedule.Deviation{Span: 16, Most: 4 * 3 * 2}}, // (1 + 2) * 2
	} {
		k, err := schedule.Compile(problem(t, c.weight), c.trace)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if k.Deviation != c.want || k.Exact() != (c.want == schedule.Deviation{}) {
			t.Errorf("%s: %+v, want %+v", c.name, k.Deviation, c.want)
		}
	}
	p := problem(t, "w1")
	k, err := schedule.Compile(p, rounded(tables(t, "signs", "4", inBytes, ""), 0))
	if err != nil {
		t.Fatal(err)
	}
	x := worst(p, 64)
	for i := range x.Act[0] {
		x.Act[0][i] = int8(1 - i/2%2) // each four add up to 2, which is rounded to 4
	}
	x.Source.Scales[0], x.Scale[0][0] = 1, 1
	got, err := evaluate(x, k)
	if err != nil {
		t.Fatal(err)
	}
	if want := x.Naive()[0]; float64(got[0]-want) != float64(k.Deviation.Of(64)) || k.Deviation.Of(64) != 32 || k.Deviation.Of(65) != 36 {
		t.Errorf("%v instead of %v: the bound is %d", got[0], want, k.Deviation.Of(64))
	}
	k.Deviation.Most--
	if _, err := evaluate(x, k); err == nil || !strings.Contains(err.Error(), "is 32 away from 32; at most 24.0") {
		t.Errorf("off by more than the bound: %v", err)
	}
}
