package schedule_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// grouped is a product in groups, by cells of two quads.
const grouped = `[{"decompose":{"family":"dot","value":%q}},{"hoist_zero":{"at":"flush"}},
{"split":{"loop":"n","by":2,"into":["nt","nc"]}},{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
{"split":{"loop":"m","by":4,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"g","by":%d,"into":["gt","gi"]}},{"bind":{"loop":"gi","to":"unrolled"}},
{"split":{"loop":"k","by":8,"into":["u","kk"]}},{"split":{"loop":"kk","by":4,"into":["f","j"]}},
{"bind":{"loop":"f","to":"unrolled"}},{"tensorize":{"loop":"j","to":"dot4"}},
{"reorder":{"order":["nt","mt","gt","gi","u","f","nc","l","j"]}},
{"pack":{"tensor":"codes","order":["mt","gt","gi","u","l","j"],"fields":["f"],"map":"dense"}},
{"stage":{"value":"w","at":"f"}},{"scale_at":{"where":"begin"}},{"prefetch":{"bytes":1024}}]`

// beside is grouped with n groups in a record, each beside what it shares.
func beside(t *testing.T, n int) schedule.Trace {
	return parse(t, strings.Replace(fmt.Sprintf(grouped, "affine", n), `["mt","gt","gi","u",`, `["mt","gt","gi","shared","u",`, 1))
}

// sideBySide is grouped with three tiles in a call, whose loop stands before loop at.
func sideBySide(t *testing.T, at string) schedule.Trace {
	text := fmt.Sprintf(grouped, "affine", 2)
	for _, x := range [][2]string{
		{`"m","by":4,"into":["mt","l"]}}`, `"m","by":12,"into":["mt","mi"]}},{"split":{"loop":"mi","by":4,"into":["side","l"]}}`},
		{`"nt","mt","gt","gi","u","f","nc"`, strings.Replace(`"nt","mt","gt","gi","u","f","nc"`, at, `"side",`+at, 1)},
		{`["mt","gt"`, `["mt","side","gt"`},
	} {
		text = strings.Replace(text, x[0], x[1], 1)
	}
	if at != `"gt"` { // else the kernel counts them
		text = strings.Replace(text, `{"tensorize"`, `{"bind":{"loop":"side","to":"unrolled"}},{"tensorize"`, 1)
	}
	return parse(t, text)
}

// inTwo is grouped with two loops over the four groups of a super-block, the outer one serial. One of them is divided.
func inTwo(t *testing.T, loop string) schedule.Trace {
	text := strings.ReplaceAll(fmt.Sprintf(grouped, "affine", 4), `"mt","gt","gi",`, `"mt","gt","go","gi",`)
	text = strings.Replace(text, `"into":["gt","gi"]}}`, `"into":["gt","go"]}},{"split":{"loop":"go","by":2,"into":["go","gi"]}}`, 1)
	return append(parse(t, text), schedule.Fission{Loop: loop})
}

// tiled is a trace with a loop over elements of a group unrolled, and weights of a group decoded once for by blocks of columns.
func tiled(t schedule.Trace, loop string, by int) schedule.Trace {
	at := slices.IndexFunc(t, func(s schedule.Step) bool { _, ok := s.(schedule.Reorder); return ok })
	return append(slices.Insert(t, at, schedule.Step(schedule.Bind{Loop: loop, To: "unrolled"})), schedule.TileColumns{By: by, Loop: "nb"})
}

// reordered is t with its loops in another order.
func reordered(t schedule.Trace, order string) schedule.Trace {
	for i, s := range t {
		if _, ok := s.(schedule.Reorder); ok {
			t[i] = schedule.Reorder{Order: strings.Fields(order)}
		}
	}
	return t
}

// filled is t with groups filled up.
func filled(t schedule.Trace, to int) schedule.Trace {
	return append(schedule.Trace{schedule.FillGroups{To: to}}, t...)
}

// groupedWords is grouped with codewords of five codes, two groups in a record.
func groupedWords(t *testing.T) schedule.Trace {
	text := fmt.Sprintf(grouped, "affine", 2)
	for _, x := range [][2]string{{`"k","by":8`, `"k","by":20`}, {`"fields":["f"],"map":"dense"`, `"fields":["f"],"map":"words","join":5`}} {
		text = strings.Replace(text, x[0], x[1], 1)
	}
	return parse(t, text)
}

// tables is a product by tables: digits of value, parts of parts codes, packed by
// bit map, with extra steps.
func tables(t *testing.T, value, parts, packed, extra string) schedule.Trace {
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"table","value":%q,"parts":[%s]}},{"hoist_zero":{"at":"flush"}},
{"split":{"loop":"n","by":2,"into":["nt","nc"]}},{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
{"split":{"loop":"m","by":4,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":2,"into":["ks","u"]}},{"bind":{"loop":"u","to":"unrolled"}},
{"bind":{"loop":"part","to":"unrolled"}},{"bind":{"loop":"plane","to":"unrolled"}},
{"reorder":{"order":["nt","mt","ks","plane","part","half","u","nc","l"]}},%s%s]`, value, parts, packed, extra))
}

// floatTables is a product by tables of f32 activations.
func floatTables(t *testing.T, value, parts, packed string) schedule.Trace {
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"table","value":%q,"parts":[%s]}},{"quantize_table":{"kind":"f32"}},
{"split":{"loop":"n","by":2,"into":["nt","nc"]}},{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
{"split":{"loop":"m","by":4,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":8,"into":["ks","u"]}},{"bind":{"loop":"u","to":"unrolled"}},{"bind":{"loop":"part","to":"unrolled"}},
{"reorder":{"order":["nt","mt","ks","u","part","plane","half","nc","l"]}},{"stage":{"value":"x","at":"half"}},%s]`, value, parts, packed))
}

// mirrored is a trace with tables that are stored by half.
func mirrored(t schedule.Trace) schedule.Trace {
	d := t[0].(schedule.Decompose)
	d.Mirror = true
	t[0] = d
	return t
}

// rounded is a trace with tables of bytes without their lowest low bits, 0: without as few
// as it takes.
func rounded(t schedule.Trace, low int) schedule.Trace {
	return slices.Insert(t, 1, schedule.Step(schedule.QuantizeTable{Kind: "q8", Low: low}))
}

// averaged is a trace with averages over loops, from where all of them are unrolled.
func averaged(t schedule.Trace, loops ...string) schedule.Trace {
	at := slices.IndexFunc(t, func(s schedule.Step) bool { _, ok := s.(schedule.Reorder); return ok })
	for _, l := range loops {
		t = slices.Insert(t, at, schedule.Step(schedule.HalvingAdd{Loop: l}))
	}
	return t
}

// inGroups is a trace of a product with groups: there is a loop g outside ks.
func inGroups(t schedule.Trace) schedule.Trace {
	for i, s := range t {
		outside := func(order []string) []string {
			return slices.Insert(slices.Clone(order), slices.Index(order, "ks"), "g")
		}
		switch s := s.(type) {
		case schedule.Reorder:
			s.Order = outside(s.Order)
			t[i] = s
		case schedule.Pack:
			s.Order = outside(s.Order)
			t[i] = s
		}
	}
	return t
}

// Layouts of the codes of tables.
const (
	inWords       = `{"pack":{"tensor":"codes","order":["mt","ks","u","planes","l","words"],"fields":["digit"],"map":"planes"}}`
	inBytes       = `{"pack":{"tensor":"codes","order":["mt","ks","planes","l"],"fields":["u","digit"],"map":"planes"}}`
	wholeIn2      = `{"pack":{"tensor":"codes","order":["mt","ks","l","words"],"fields":["u","digit"],"map":"dense"}}`
	inFloats      = `{"pack":{"tensor":"codes","order":["mt","ks","l","words"],"fields":["u","digit"],"map":"dense"}}`
	joinedFloats  = `{"pack":{"tensor":"codes","order":["mt","ks","l","words"],"fields":["u","digit"],"map":"words","join":3}}`
	groupedFloats = `[{"decompose":{"family":"table","value":"levels","parts":[1]}},{"bind":{"loop":"n","to":"outer"}},
{"split":{"loop":"m","by":8,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"g","by":2,"into":["gt","gi"]}},{"bind":{"loop":"gi","to":"unrolled"}},
{"split":{"loop":"k","by":8,"into":["ks","u"]}},{"bind":{"loop":"u","to":"unrolled"}},
{"reorder":{"order":["n","mt","gt","gi","ks","u","part","plane","half","l"]}},
{"pack":{"tensor":"codes","order":["mt","gt","gi","ks","l","words"],"fields":["u","digit"],"map":"dense"}},
{"stage":{"value":"super","at":"gt"}},{"scale_at":{"where":"begin"}}]`
	inSigns = `{"pack":{"tensor":"codes","order":["mt","ks","l","words"],"fields":["u","digit"],"map":"words","join":3,"mirror":3}}`
	narrow  = `,{"widen_every":{"loop":"u"}},{"accumulate":{"type":"i16"}}`
)

// byteSums is a product by split tables. Bytes of pairs of rows hold sums of 2*units units, 16 bits hold bytes times
// that, and 32 bits hold all.
func byteSums(t *testing.T, low, units, bytes int) schedule.Trace {
	return sumsOf(t, "bits", low, units, bytes)
}

// signSums is byteSums of digits that count -1 and 1.
func signSums(t *testing.T, low, units, bytes int) schedule.Trace {
	return sumsOf(t, "signs", low, units, bytes)
}

func sumsOf(t *testing.T, digits string, low, units, bytes int) schedule.Trace {
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"table","value":%q,"parts":[4]}},{"quantize_table":{"kind":"split","low":%d}},{"hoist_zero":{"at":"flush"}},
{"split":{"loop":"n","by":2,"into":["nt","nc"]}},{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
{"split":{"loop":"m","by":8,"into":["mt","mi"]}},{"split":{"loop":"mi","by":4,"into":["e","l"]}},{"bind":{"loop":"mt","to":"outer"}},
{"bind":{"loop":"l","to":"vector"}},{"bind":{"loop":"e","to":"pair"}},
{"split":{"loop":"k","by":%d,"into":["ks","kk"]}},{"split":{"loop":"kk","by":%d,"into":["ki","ku"]}},{"split":{"loop":"ku","by":2,"into":["u","f"]}},
{"bind":{"loop":"u","to":"unrolled"}},{"bind":{"loop":"f","to":"unrolled"}},{"bind":{"loop":"half","to":"unrolled"}},{"bind":{"loop":"plane","to":"unrolled"}},
{"reorder":{"order":["nt","mt","ks","ki","u","f","plane","part","half","nc","l","e"]}},
{"pack":{"tensor":"codes","order":["mt","ks","ki","u","planes","l","e"],"fields":["f","digit"],"map":"planes"}},
{"widen_every":{"loop":"ki"}},{"accumulate":{"type":"i16"}},{"widen_every":{"loop":"u"}},{"accumulate":{"type":"i8"}}]`, digits, low, 2*units*bytes, 2*units))
}

// residualTables is a product by bytes with residuals, looked up in an order of loops.
func residualTables(t *testing.T, value, parts, order, packed, extra string) schedule.Trace {
	return parse(t, fmt.Sprintf(`[{"decompose":{"family":"table","value":%q,"parts":[%s]}},{"quantize_table":{"kind":"u8"}},{"hoist_zero":{"at":"init"}},
{"split":{"loop":"n","by":2,"into":["nt","nc"]}},{"bind":{"loop":"nt","to":"outer"}},{"bind":{"loop":"nc","to":"unrolled"}},
{"split":{"loop":"m","by":4,"into":["mt","l"]}},{"bind":{"loop":"mt","to":"outer"}},{"bind":{"loop":"l","to":"vector"}},
{"split":{"loop":"k","by":2,"into":["ks","u"]}},{"bind":{"loop":"u","to":"unrolled"}},
{"bind":{"loop":"half","to":"unrolled"}},{"bind":{"loop":"plane","to":"unrolled"}},
{"reorder":{"order":["nt","mt",%s,"nc","l"]}},%s%s]`, value, parts, order, packed, extra))
}

// Orders of the loops of tables with residuals.
const (
	planeInside  = `"half","ks","plane","part","u"`
	planeOutside = `"plane","half","ks","part","u"`
)

// TestProducts: the nests of complete traces give the bits of the definition, which
// is both the naive product and ir.Matmul.
func TestProducts(t *testing.T) {
	for _, c := range []struct {
		name, weight string
		act          int
		trace        schedule.Trace
	}{
		{"pairs", "w2", 0, pairsTrace(t, 2, 5, usual, scaled(4))},
		{"tiles side by side", "w4-g32", 32, sideBySide(t, `"nc"`)},
		{"tiles outside groups", "w4-g32", 32, sideBySide(t, `"gi"`)},
		{"tiles one by one", "w4-g32", 32, sideBySide(t, `"gt"`)},
		{"pairs shifted", "w4", 0, pairsTrace(t, 4, 4, usual, scaled(0))},
		{"fields outside", "w2", 0, pairsTrace(t, 2, 5, fieldsOutside, scaled(4))},
		{"fields apart", "w2", 0, pairsTrace(t, 2, 5, usual, scaled(4, "f"))},
		{"in place", "w2", 0, quads(t, 2, false, readAll)},
		{"partly in place", "w2", 0, quads(t, 2, false, `,{"read_scaled":{"below":3}}`)},
		{"in place, fields are rows", "w1", 0, atFlush(quads(t, 1, true, readAll))},
		{"apart and widened", "ternary", 0, quads(t, 2, false, `,{"rfactor":{"loop":"f"}},{"widen_every":{"loop":"f"}},{"pack":{"tensor":"act","chunk":8}}`)},
		{"activations staged", "w4", 0, quads(t, 4, true, `,{"stage":{"value":"a","at":"ks"}}`)},
		{"words", "ternary", 0, joined(t, 20, 5, 4, `,{"read_scaled":{"below":8}}`)},
		{"words with a head", "ternary", 0, headed(t, `,{"rfactor":{"loop":"f"}}`)},
		{"words across bytes", "ternary", 0, joined(t, 36, 3, 0, `,{"read_scaled":{"below":4}}`)},
		{"words shifted", "w2", 0, joined(t, 16, 4, 2, "")},
		{"bytes", "w8", 0, wholeBytes(t)},
		{"groups", "w4-g32", 0, parse(t, fmt.Sprintf(grouped, "affine", 1))},
		{"groups by two", "w4-g32-f32", 0, parse(t, fmt.Sprintf(grouped, "affine", 2))},
		{"zero points", "w4-g32-z", 32, parse(t, fmt.Sprintf(grouped, "affine", 1))},
		{"finer activations", "w4-g64", 16, parse(t, fmt.Sprintf(grouped, "affine", 4))},
		{"tables of bits", "w2", 0, tables(t, "bits", "5,5,6", inWords, narrow)},
		{"tables of signs", "w4", 0, tables(t, "signs", "4", inBytes, "")},
		{"tables of one bit", "w1-g32", 0, inGroups(tables(t, "signs", "4", inBytes, narrow))},
		{"tables of bits, zero points", "w2-g32-z", 0, inGroups(tables(t, "signs", "5,5,6", inWords, narrow))},
		{"tables, sums of bytes", "w2", 0, byteSums(t, 5, 4, 2)},
		{"tables of pairs", "ternary", 0, tables(t, "codes", "2", wholeIn2, narrow)},
		{"tables of triples", "w2", 0, tables(t, "codes", "3,3,2", wholeIn2, "")},
		{"residuals", "w1", 0, residualTables(t, "bits", "4", planeInside, inBytes, narrow)},
		{"residuals, planes", "w2", 0, residualTables(t, "bits", "4", planeInside, inBytes, "")},
		{"residuals, planes apart", "w2", 0, residualTables(t, "bits", "4", planeOutside, inBytes, "")},
		{"residuals of codes", "ternary", 0, residualTables(t, "codes", "2", planeInside, wholeIn2, "")},
		{"f32 tables", "w1-f32act", 0, floatTables(t, "signs", "4", inFloats)},
		{"f32 tables of two parts", "w2-f32act", 0, floatTables(t, "codes", "2,2", inFloats)},
		{"f32 tables, groups", "w1-g64-f32act", 0, inGroups(floatTables(t, "codes", "4", inFloats))},
		{"f32 tables, two levels", "w4-g32-s64-f32act", 0, parse(t, groupedFloats)},
		{"f32 tables, codewords", "ternary-f32act", 0, floatTables(t, "levels", "3", joinedFloats)},
		{"f32 tables, codebook", "iq4nl-f32act", 0, floatTables(t, "codes", "1", inFloats)},
		{"mirrored tables of signs", "w2", 0, mirrored(tables(t, "signs", "8", inWords, narrow))},
		{"mirrored tables, unequal parts", "w4", 0, mirrored(tables(t, "signs", "5,3", inWords, narrow))},
		{"mirrored tables in groups", "w1-g32", 0, inGroups(mirrored(tables(t, "signs", "4", inBytes, "")))},
		{"mirrored tables of trits", "ternary", 0, mirrored(tables(t, "levels", "3", inSigns, narrow))},
		{"rounded tables", "w2", 0, rounded(tables(t, "signs", "4", inBytes, narrow), 0)},
		{"rounded tables of two parts", "w4", 0, rounded(tables(t, "signs", "4,4", inWords, ""), 3)},
		{"rounded tables in groups", "w1-g32", 0, inGroups(rounded(tables(t, "signs", "4", inBytes, ""), 0))},
		{"rounded tables, zero points", "w2-g32-z", 0, inGroups(rounded(tables(t, "signs", "4", inBytes, ""), 0))},
		{"rounded mirrored tables of trits", "ternary", 0, rounded(mirrored(tables(t, "levels", "3", inSigns, narrow)), 0)},
		{"averages of two", "w2", 0, averaged(rounded(tables(t, "signs", "4", inBytes, ""), 0), "u")},
		{"averages of four", "w1", 0, averaged(rounded(tables(t, "signs", "4,4", inWords, ""), 0), "part", "u")},
		{"averages of trits with signs", "ternary", 0, averaged(rounded(mirrored(tables(t, "levels", "3", inSigns, "")), 0), "u")},
		{"mirrored tables, sums of bytes", "w2", 0, mirrored(signSums(t, 5, 3, 2))},
		{"codebook", "iq4nl-g32", 0, parse(t, fmt.Sprintf(grouped, "lookup", 1))},
		{"minimums", "w4-g32-m", 0, parse(t, fmt.Sprintf(grouped, "affine", 1))},
		{"minimums, finer activations", "w4-g32-bf16-m", 16, parse(t, fmt.Sprintf(grouped, "affine", 2))},
		{"two levels", "w4-g16-s64-i8", 0, parse(t, fmt.Sprintf(grouped, "affine", 4))},
		{"two levels of two groups", "w4-g32-s32-m", 16, parse(t, fmt.Sprintf(grouped, "affine", 2))},
		{"two levels, zero points", "w4-g32-s64-i8-z", 32, parse(t, fmt.Sprintf(grouped, "affine", 2))},
		{"two levels, staged", "w4-g32-s64-m", 0, append(parse(t, fmt.Sprintf(grouped, "affine", 2)), schedule.Stage{Value: "super", At: "gt"})},
		{"two levels, minimums in loops of their own", "w4-g32-s64-m", 0, append(parse(t, fmt.Sprintf(grouped, "affine", 2)), schedule.Fission{Loop: "gi"})},
		{"minimums in inner loops of their own", "w4-g32-s128-m", 0, inTwo(t, "gi")},
		{"minimums in two loops of their own", "w4-g32-s128-m", 0, inTwo(t, "go")},
		{"minimums in inner loops, columns around them", "w4-g32-s128-m", 0, reordered(inTwo(t, "gi"), "nt mt gt go nc gi u f l j")},
		{"minimums in inner loops, lanes around them", "w4-g32-s128-m", 0, reordered(inTwo(t, "gi"), "nt mt gt go l gi u f nc j")},
		{"minimums in two loops, columns between", "w4-g32-s128-m", 0, reordered(inTwo(t, "go"), "nt mt gt go nc gi u f l j")},
		{"two levels, staged inside", "w4-g16-s64-i8", 16, append(parse(t, fmt.Sprintf(grouped, "affine", 4)), schedule.Stage{Value: "super", At: "gi"})},
		{"two levels, groups beside their scales", "w4-g32-s128-m", 0, beside(t, 4)},
		{"groups beside their zero points, staged", "w4-g16-s64-i8-z", 0, append(beside(t, 4), schedule.Stage{Value: "super", At: "gt"})},
		{"groups filled up", "w4-g32", 0, filled(parse(t, fmt.Sprintf(grouped, "affine", 2)), 40)},
		{"two levels, filled up", "w4-g32-s128-m", 32, filled(parse(t, fmt.Sprintf(grouped, "affine", 4)), 56)},
		{"codewords, groups filled up", "ternary-g32", 0, filled(groupedWords(t), 40)},
		{"codewords, groups of activations filled up", "ternary", 48, filled(groupedWords(t), 60)},
		{"columns tiled", "w4-g32", 0, tiled(parse(t, fmt.Sprintf(grouped, "affine", 1)), "u", 2)},
		{"columns tiled, zero points", "w4-g32-z", 32, tiled(parse(t, fmt.Sprintf(grouped, "affine", 1)), "u", 3)},
		{"columns tiled, minimums", "w4-g32-m", 32, tiled(parse(t, fmt.Sprintf(grouped, "affine", 2)), "u", 2)},
		{"columns tiled, codebook", "iq4nl-g32", 0, tiled(parse(t, fmt.Sprintf(grouped, "lookup", 1)), "u", 4)},
		{"columns tiled, tables", "w1-g32", 0, tiled(inGroups(tables(t, "signs", "4", inBytes, "")), "ks", 2)},
		{"two levels, minimums", "w4-g32-s128-m", 32, parse(t, fmt.Sprintf(grouped, "affine", 4))},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := problem(t, c.weight)
			p.Act.Group = c.act
			k, err := schedule.Compile(p, c.trace)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewSource(1))
			for kind := check.Uniform; kind <= check.NotFinite; kind++ {
				m, size := max(5, 2*k.Rows+k.Weights.TileM+1), 77 // a call goes on, and tiles are missing
				if g := p.GroupK(); g > 0 {
					size = 3 * max(p.Weight.Unit(), g)
				}
				x := check.New(rng, p, m, 3, size, kind)
				want := x.Naive()
				got, err := evaluate(x, k)
				if err != nil {
					t.Fatalf("%v\n%v", err, k.Nest)
				}
				if err := check.Equal(k, got, want, m); err != nil {
					t.Fatalf("%v\n%v", err, k.Nest)
				}
				if err := check.Compare(definition(t, x, graphOf(t, k)), want, m); err != nil {
					t.Fatalf("the graph: %v", err)
				}
			}
		})
	}
}

// graphOf is the product of k as tensor expressions: by lookups if k looks up.
func graphOf(t *testing.T, k *schedule.Kernel) *ir.Graph {
	t.Helper()
	if k.Tables == nil || k.Problem.Act.Floats() {
		return ir.Matmul(k.Problem)
	}
	graph := ir.ElementLUTGraph
	if k.Tables.ByBit {
		graph = ir.BitSerialGraph
	}
	g, err := graph(k.Problem, k.Tables.Decomposition)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// definition is the product as g has it.
func definition(t *testing.T, c *check.Case, g *ir.Graph) []float32 {
	t.Helper()
	p, w := c.Problem, c.Problem.Weight
	array := func(rows, n int, value func(row, i int) int64) *ir.Array {
		a := ir.NewArray(rows, n)
		for i := range a.V {
			a.V[i] = value(i/n, i%n)
		}
		return a
	}
	span := func(block int) int { // elements of K that share one
		if block == 0 {
			return c.K
		}
		return block
	}
	in := map[string]*ir.Array{"codes": array(c.M, c.K, func(m, k int) int64 { return int64(c.Source.Codes[m*c.K+k]) })}
	if p.Act.Floats() {
		in["act"] = array(c.N, c.K, func(n, k int) int64 { return int64(math.Float32bits(c.X[n][k])) })
	} else {
		sums, ascale := span(p.GroupK()), span(p.Act.Group)
		in["act"] = array(c.N, c.K, func(n, k int) int64 { return int64(c.Act[n][k]) })
		in["sums"] = array(c.N, c.K/sums, func(n, g int) int64 {
			sum := int64(0)
			for _, a := range c.Act[n][g*sums : (g+1)*sums] {
				sum += int64(a)
			}
			return sum
		})
		in["ascale"] = array(c.N, c.K/ascale, func(n, g int) int64 { return int64(math.Float32bits(c.Scale[n][g])) })
	}
	for _, x := range w.Shared() {
		in[x.Name] = array(c.M, c.K/span(x.Span), func(m, g int) int64 {
			v := c.Source.Number(x, w.Index(x, m, g*x.Span, c.K))
			switch x.Elem {
			case format.U8, format.I8:
				return int64(v)
			case format.F16:
				return int64(format.HalfFromFloat32(v))
			case format.BF16:
				return int64(math.Float32bits(v) >> 16)
			}
			return int64(math.Float32bits(v))
		})
	}
	all, err := ir.Eval(g, map[string]int{"M": c.M, "N": c.N, "K": c.K}, in)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(all["out"].V))
	for i, v := range all["out"].V {
		out[i] = math.Float32frombits(uint32(v))
	}
	return out
}

// Preparations of activations in vectors of 4, by rows and by groups of 32.
const (
	prepareRows = `[{"split":{"loop":"amax.k","by":8,"into":["ao","auv"]}},{"split":{"loop":"auv","by":4,"into":["au","av"]}},
{"bind":{"loop":"au","to":"unrolled"}},{"bind":{"loop":"av","to":"vector"}},{"rfactor":{"loop":"av"}},{"rfactor":{"loop":"au"}},
{"split":{"loop":"act.k","by":4,"into":["co","cv"]}},{"bind":{"loop":"cv","to":"vector"}},
{"split":{"loop":"sums.k","by":16,"into":["so","svj"]}},{"split":{"loop":"svj","by":4,"into":["sv","sj"]}},
{"bind":{"loop":"sv","to":"vector"}},{"rfactor":{"loop":"sv"}},{"tensorize":{"loop":"sj","to":"dot4"}}]`
	prepareGroups = `[{"split":{"loop":"amax.k","by":4,"into":["au","av"]}},{"bind":{"loop":"au","to":"unrolled"}},{"bind":{"loop":"av","to":"vector"}},
{"rfactor":{"loop":"av"}},{"split":{"loop":"finite.g","by":4,"into":["fo","fv"]}},{"bind":{"loop":"fv","to":"vector"}},
{"split":{"loop":"inv.g","by":4,"into":["io","iv"]}},{"bind":{"loop":"iv","to":"vector"}},
{"split":{"loop":"act.k","by":8,"into":["cu","cv"]}},{"reorder":{"order":["act.g","cv","cu"]}},
{"split":{"loop":"sums.k","by":16,"into":["so","svj"]}},{"split":{"loop":"svj","by":4,"into":["sv","sj"]}},
{"bind":{"loop":"so","to":"unrolled"}},{"bind":{"loop":"sv","to":"vector"}},{"rfactor":{"loop":"sv"}},{"tensorize":{"loop":"sj","to":"dot4"}}]`
)

// prepareFloats makes tables of f32 activations in vectors of 4.
const prepareFloats = `[{"split":{"loop":"table.x","by":4,"into":["xo","xv"]}},{"bind":{"loop":"xo","to":"unrolled"}},{"bind":{"loop":"xv","to":"vector"}}]`

// TestPrepare: the nests that prepare activations give every tensor of
// ir.PrepareAct, bit for bit.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		weight string
		group  int
		trace  string
		k      int
		tables *ir.Tables
	}{
		{"w2", 0, `[]`, 37, nil}, {"w2", 0, prepareRows, 37, nil}, {"w2", 32, `[]`, 96, nil}, {"w2", 32, prepareGroups, 96, nil},
		{"w4-g32", 0, `[]`, 64, nil}, {"w4-g64", 32, prepareGroups, 128, nil}, {"w4-g160", 16, `[]`, 160, nil},
		{"w2", 0, `[]`, 37, tablesOf(t, "w2", "bits", 0, 1, 5, 5, 6)}, {"w2-g32", 0, `[]`, 64, tablesOf(t, "w2", "signs", 5, 4, 4)},
		{"iq4nl", 0, prepareRows, 37, tablesOf(t, "iq4nl", "codes", 0, 2, 1)},
		{"w1", 0, `[{"pack":{"tensor":"table","chunk":32}},{"split":{"loop":"table.u","by":8,"into":["tc","tu"]}}]`, 37, residualsOf(t, "w1", "bits", 4)},
		{"w2", 0, `[{"pack":{"tensor":"table","chunk":20}}]`, 40, halved(tablesOf(t, "w2", "signs", 0, 1, 5))},
		{"w1", 0, `[]`, 37, residualsOf(t, "w1", "bits", 4)}, {"ternary", 0, prepareRows, 39, residualsOf(t, "ternary", "codes", 2)},
		{"w1-f32act", 0, `[]`, 37, tablesOf(t, "w1-f32act", "signs", 0, 1, 4)}, {"ternary-f32act", 0, prepareFloats, 37, tablesOf(t, "ternary-f32act", "levels", 0, 1, 3, 3)},
		{"w2", 0, `[]`, 40, halved(tablesOf(t, "w2", "signs", 0, 1, 5))}, {"ternary", 0, `[]`, 45, halved(tablesOf(t, "ternary", "levels", 7, 2, 5))},
		{"w2", 0, `[]`, 40, inOneByte(tablesOf(t, "w2", "signs", 2, 1, 4))}, {"ternary", 0, `[]`, 45, inOneByte(halved(tablesOf(t, "ternary", "levels", 3, 2, 5)))},
	} {
		p := problem(t, c.weight)
		p.Act.Group = c.group
		k, err := schedule.CompilePreparation(p, c.tables, parse(t, c.trace))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewSource(1))
		for _, kind := range []string{"normal", "zero", "tiny", "huge", "inf", "nan"} {
			x := ir.NewArray(1, c.k)
			for i := range x.V {
				x.V[i] = int64(math.Float32bits(sample(rng, kind, i)))
			}
			if err := prepared(p, k, x); err != nil {
				t.Errorf("%s, groups of %d, %s: %v\n%v", c.weight, c.group, kind, err, k.Nest)
			}
		}
	}
}

func sample(rng *rand.Rand, kind string, i int) float32 {
	v := float32(rng.NormFloat64())
	switch {
	case kind == "zero":
		v = 0
	case kind == "tiny":
		v *= 1e-40
	case kind == "huge":
		v = float32(math.Copysign(math.MaxFloat32, float64(v)))
	case kind == "inf" && i == 11:
		v = float32(math.Inf(-1))
	case kind == "nan" && i == 17:
		v = float32(math.NaN())
	}
	return v
}

// tablesOf are tables of a weight's digits.
func tablesOf(t *testing.T, weight, digits string, low, together int, parts ...int) *ir.Tables {
	t.Helper()
	d, err := ir.Decompose(problem(t, weight).Weight, digits, parts...)
	if err != nil {
		t.Fatal(err)
	}
	elem := format.I16
	if p := problem(t, weight); p.Act.Floats() {
		elem = format.F32
	}
	return &ir.Tables{Decomposition: d, ByBit: digits == "bits" || digits == "signs", Elem: elem, Low: low, Together: together}
}

// halved are tables stored by half.
func halved(t *ir.Tables) *ir.Tables {
	t.Mirror = true
	return t
}

// residualsOf are tables with residuals.
func residualsOf(t *testing.T, weight, digits string, parts ...int) *ir.Tables {
	t.Helper()
	x := tablesOf(t, weight, digits, 0, 4, parts...)
	x.Elem, x.Residual = format.U8, true
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	return x
}

// inOneByte are tables of rounded entries.
func inOneByte(t *ir.Tables) *ir.Tables {
	t.Elem = format.I8
	return t
}

// prepared compares all that k makes of one row with the definition.
func prepared(p ir.Problem, k *schedule.PreparationKernel, x *ir.Array) error {
	size := x.Shape[1]
	want, err := ir.Eval(k.Graph, map[string]int{"N": 1, "K": size}, map[string]*ir.Array{"x": x})
	if err != nil {
		return err
	}
	var args []nest.Arg
	for range len(k.Nest.Params) - len(k.CountDiv) - 1 {
		args = append(args, nest.Arg{Buf: make([]byte, 1024*(size+64))}) // with room for padding
	}
	step := 0 // between the tables of chunks: with a gap
	if k.Chunk > 0 {
		step = k.Chunk/k.Tables.Digits()*k.Tables.UnitBytes() + 4
	}
	args = append(args, nest.Arg{Int: step})
	for _, div := range k.CountDiv {
		args = append(args, nest.Arg{Int: (size + div - 1) / div})
	}
	for i, v := range x.V {
		binary.LittleEndian.PutUint32(args[0].Buf[4*i:], uint32(v))
	}
	if err := nest.Eval(k.Nest, args); err != nil {
		return err
	}
	for _, s := range k.Graph.Stages {
		name := s.Out.Name
		b := k.Nest.Buffers[name]
		elem, buf := s.Out.Elem, args[slices.Index(k.Nest.Params, b.Base().Param)].Buf
		for i := range want[name].Shape[1] {
			at := i * elem.Bytes()
			if made, ok := b.(*nest.MadeTables); ok {
				p := made.Pos([]int{0, i})
				at = p.Byte + p.Steps*step
			}
			raw := int64(0)
			for j := range elem.Bytes() {
				raw |= int64(buf[at+j]) << (8 * j)
			}
			if got := ir.Wrap(elem, raw); got != want[name].At(0, i) {
				return fmt.Errorf("%s[%d] is %#x, want %#x", name, i, got, want[name].At(0, i))
			}
		}
	}
	return nil
}

// TestHalvedSums: a kernel halves twice the sum of levels less zero points; what does not fit 32 bits doubled is refused.
func TestHalvedSums(t *testing.T) {
	for _, c := range []struct {
		name  string
		legal bool
	}{{"w2-g32-z", true}, {"w4-g1024-z", true}, {"w4-g65536-z", false}, {"w8-g65536-z", false}} {
		_, err := schedule.Compile(problem(t, c.name), inGroups(tables(t, "signs", "4", inBytes, "")))
		var overflow *schedule.Overflow
		if (err == nil) != c.legal || err != nil && !errors.As(err, &overflow) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
