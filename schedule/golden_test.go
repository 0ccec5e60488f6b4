package schedule

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

var update = flag.Bool("update", false, "rewrite testdata and docs")

// productOf is the product of weights by name, or of levels -3 0 1 7 ("codebook");
// w4-g32/16 has activations in groups of 16.
func productOf(t testing.TB, name string) ir.Problem {
	t.Helper()
	name, group, grouped := strings.Cut(name, "/")
	if grouped {
		p := productOf(t, name)
		if _, err := fmt.Sscan(group, &p.Act.Group); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if name == "codebook" {
		return ir.Problem{Weight: format.Weight{Name: name, Bits: 2, Levels: []int{-3, 0, 1, 7}, Per: format.PerRow, Scale: format.F32}}
	}
	p, err := ir.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Loops of the examples: n and mt by the caller, rows r and lanes l, elements of
// K by ks, u, fields f and j.
var (
	dot     = Decompose{Family: "dot", Value: "affine"}
	unsign  = HoistZero{"init"}
	columns = Bind{"n", "outer"}
	lanes   = Trace{Split{"m", 16, Pair{"mt", "l"}}, Bind{"mt", "outer"}, Bind{"l", "vector"}}
	fields  = Trace{Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}, Bind{"f", "unrolled"}}
	pairs   = Trace{Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "jj"}}, Split{"jj", 2, Pair{"jo", "j"}},
		Bind{"f", "unrolled"}, Bind{"jo", "vector"}}
	fives  = Trace{Split{"k", 20, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}, Bind{"f", "unrolled"}}
	joined = Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 5, Mirror: 4}
	headed = Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 5, Head: 2}
	order  = Reorder{[]string{"n", "mt", "ks", "f", "l", "j"}}
	packed = Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "dense"}
)

// byTable looks up sums of activations.
var byTable = Decompose{Family: "table", Value: "bits", Parts: []int{4}}

// residuals is a product by bytes with residuals, whose run-time loop over K is listed.
func residuals() Trace {
	return trace(byTable, QuantizeTable{Kind: "u8"}, HoistZero{"init"}, Bind{"plane", "unrolled"}, Bind{"half", "unrolled"}, columns, lanes,
		Split{"k", 2, Pair{"ks", "u"}}, Bind{"u", "unrolled"}, Reorder{[]string{"n", "mt", "half", "ks", "u", "plane", "part", "l"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "planes", "l"}, Fields: []string{"u", "digit"}, Map: "planes"})
}

// byFloats looks up sums of f32 activations.
var byFloats = Decompose{Family: "table", Value: "signs", Parts: []int{4}}

// floats is a product by them.
func floats() Trace {
	return trace(byFloats, Bind{"plane", "unrolled"}, columns, lanes, Split{"k", 8, Pair{"ks", "u"}}, Bind{"u", "unrolled"},
		Reorder{[]string{"n", "mt", "ks", "u", "plane", "part", "half", "l"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "planes", "l", "words"}, Fields: []string{"u", "digit"}, Map: "planes"})
}

// byTrits looks up the sum of three trits among 14.
var byTrits = Decompose{Family: "table", Value: "levels", Parts: []int{3}, Mirror: true}

// byTritsOf is a product by tables of bytes, with cell indices in a cell. Their signs
// are apart.
func byTritsOf(cell int) Trace {
	return trace(byTrits, QuantizeTable{"split", 7}, columns, lanes, Split{"k", cell, Pair{"ks", "f"}},
		Bind{"f", "unrolled"}, Bind{"half", "unrolled"}, Reorder{[]string{"n", "mt", "ks", "f", "plane", "part", "half", "l"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "words", "l"}, Fields: []string{"f", "digit"}, Map: "signs", Join: 3, Mirror: 3})
}

// byNibbles is a product by tables. A vector reads four of them.
func byNibbles() Trace {
	return trace(byTable, Bind{"plane", "unrolled"}, unsign, columns, lanes, Split{"k", 8, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "q"}},
		Bind{"f", "unrolled"}, Tensorize{Loop: "q", To: "dot4"}, Reorder{[]string{"n", "mt", "ks", "f", "plane", "part", "half", "l", "q"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "planes", "l", "q"}, Fields: []string{"f", "digit"}, Map: "planes"})
}

// byPairs is byNibbles in rows of pairs; sums of 8 units are in bytes.
func byPairs() Trace {
	return trace(byTable, QuantizeTable{"split", 5}, unsign, columns, Split{"m", 8, Pair{"mt", "mi"}}, Split{"mi", 4, Pair{"e", "l"}}, Bind{"mt", "outer"},
		Bind{"l", "vector"}, Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 8, Pair{"ki", "ku"}}, Split{"ku", 2, Pair{"u", "f"}},
		Bind{"u", "unrolled"}, Bind{"f", "unrolled"}, Bind{"plane", "unrolled"}, Bind{"half", "unrolled"},
		Reorder{[]string{"n", "mt", "ks", "ki", "u", "f", "plane", "part", "half", "l", "e"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "ki", "u", "planes", "l", "e"}, Fields: []string{"f", "digit"}, Map: "planes"},
		WidenEvery{"ki"}, Accumulate{"i16"}, WidenEvery{"u"}, Accumulate{"i8"})
}

// trace joins steps and lists of steps.
func trace(parts ...any) Trace {
	var t Trace
	for _, p := range parts {
		switch p := p.(type) {
		case Trace:
			t = append(t, p...)
		case Step:
			t = append(t, p)
		default:
			panic(fmt.Sprintf("no step: %T", p))
		}
	}
	return t
}

// ready is the product of small tiles with all its loops, and its codes packed.
func ready() Trace {
	return trace(dot, unsign, columns, lanes, fields, Tensorize{Loop: "j", To: "dot4"}, order, packed)
}

// tiles is a product by tiles of 8 rows and columns, which 8 lanes hold: tensorize, pack and stage come last.
var tiles = trace(dot, Split{"n", 8, Pair{"nt", "c"}}, Bind{"nt", "group"}, Split{"m", 8, Pair{"mt", "i"}}, Bind{"mt", "group"},
	Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 8, Pair{"f", "j"}}, Bind{"f", "unrolled"}, Reorder{[]string{"nt", "mt", "ks", "f", "i", "c", "j"}},
	Tensorize{Loop: "j", To: "tile", Rows: "i", Columns: "c", Lanes: 8}, Pack{Tensor: "codes", Order: []string{"mt", "ks", "i", "j"}, Fields: []string{"f"}, Map: "dense"},
	Stage{Value: "w", At: "ks", Shared: true, Ahead: true})

// readyPairs is ready with sums of two products.
func readyPairs() Trace {
	return trace(dot, unsign, columns, lanes, pairs, Tensorize{Loop: "j", To: "dot2"},
		Reorder{[]string{"n", "mt", "ks", "f", "l", "jo", "j"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "jo", "j"}, Fields: []string{"f"}, Map: "dense"})
}

// grouped is ready for weights in groups of 32.
func grouped(at string) Trace {
	return trace(dot, HoistZero{at}, columns, lanes, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}},
		Bind{"u", "unrolled"}, Bind{"f", "unrolled"}, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"n", "mt", "g", "u", "f", "l", "j"}})
}

// tiled is grouped, of two columns a call.
func tiled() Trace {
	return trace(dot, HoistZero{"init"}, Split{"n", 2, Pair{"nt", "nc"}}, Bind{"nt", "outer"}, Bind{"nc", "unrolled"}, lanes, Split{"k", 4, Pair{"f", "j"}},
		Bind{"f", "unrolled"}, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"nt", "mt", "g", "f", "nc", "l", "j"}})
}

// An example is a step applied to a small state; its file in testdata holds both.
type example struct {
	name, weight string
	before       Trace
	step         Step
}

// columnsInGroups is a product whose rows and columns are in workgroups.
func columnsInGroups() Trace {
	t := byGroups("n mt l ks f j", "group", "lane")
	t[slices.IndexFunc(t, func(x Step) bool { return x == columns })] = Bind{"n", "group"}
	return t
}

var examples = []example{
	{"decompose_affine", "w2", nil, dot},
	{"decompose_lookup", "codebook", nil, Decompose{Family: "dot", Value: "lookup"}},
	{"decompose_table", "w2", nil, byTable},
	{"decompose_floats", "w1-f32act", nil, byFloats},
	{"quantize_table_u8", "w1", trace(byTable), QuantizeTable{Kind: "u8"}},
	{"pack_residuals", "w1", with(residuals(), "pack"), residuals()[len(residuals())-1]},
	{"quantize_table_f32", "w1-f32act", trace(byFloats), QuantizeTable{Kind: "f32"}},
	{"pack_floats", "w1-f32act", with(floats(), "pack"), floats()[len(floats())-1]},
	{"decompose_mirror", "w2", nil, Decompose{Family: "table", Value: "signs", Parts: []int{4}, Mirror: true}},
	{"quantize_table_mirror", "ternary", trace(byTrits), QuantizeTable{Kind: "split"}},
	{"quantize_table_q8", "w2", trace(byTable), QuantizeTable{Kind: "q8"}},
	{"quantize", "w2", byGroups("n mt l ks f j", "group", "lane"), Quantize{Trace{Split{"act.k", 16, Pair{"act.o", "act.l"}}, Bind{"act.l", "lane"}}, 4096}},
	{"split_k", "w2", columnsInGroups(), SplitK{4}},
	{"epilogue", "w2", columnsInGroups(), Epilogue{"add", "y"}},
	{"halving_add", "w2", trace(byTable, QuantizeTable{Kind: "q8"}, Split{"k", 4, Pair{"ks", "f"}}, Bind{"f", "unrolled"}), HalvingAdd{"f"}},
	{"pack_signs", "ternary", with(byTritsOf(8), "pack"), byTritsOf(8)[len(byTritsOf(8))-1]},
	{"pack_wide_words", "w3", trace(Decompose{Family: "table", Value: "codes", Parts: []int{1}}, columns, lanes, Split{"k", 32, Pair{"ks", "u"}}, Bind{"u", "unrolled"}),
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "words", "l"}, Fields: []string{"u", "digit"}, Map: "dense", Word: 4}},
	{"quantize_table", "w2", trace(byTable), QuantizeTable{Kind: "split"}},
	{"pack_table", "w2", with(byNibbles(), "pack"), byNibbles()[len(byNibbles())-1]},
	{"pack_shared", "w4-g32-s128-m", trace(dot, HoistZero{"flush"}, lanes, Split{"g", 4, Pair{"gt", "gi"}}, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}),
		pack("mt gt gi shared u l j", "f")},
	{"pack_lead", "w4-g32-s128-m", trace(dot, HoistZero{"flush"}, lanes, Split{"g", 4, Pair{"gt", "gi"}}, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}),
		leading("mt gt gi shared u l j", "f")},
	{"pack_side", "w2", trace(dot, unsign, Split{"m", 48, Pair{"mt", "mm"}}, Split{"mm", 16, Pair{"side", "l"}}, Bind{"side", "unrolled"}, fields), pack("mt side ks l j", "f")},
	{"fill_groups", "ternary-g64", nil, FillGroups{80}},
	{"pack_filled", "ternary-g64", trace(FillGroups{80}, dot, HoistZero{"flush"}, lanes, Split{"g", 2, Pair{"gt", "gi"}}, Split{"k", 20, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}),
		Pack{Tensor: "codes", Order: strings.Fields("mt gt gi u l j"), Fields: []string{"f"}, Map: "words", Join: 5}},
	{"split", "w2", trace(dot, Split{"m", 64, Pair{"mt", "mm"}}), Split{"mm", 32, Pair{"mo", "mi"}}},
	{"split_runtime", "w2", trace(dot), Split{"k", 16, Pair{"ko", "ki"}}},
	{"fuse", "w2", trace(dot, Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"ko", "ki"}}), Fuse{"ko", "ki", "kk"}},
	{"reorder", "w2", trace(dot, Split{"m", 4, Pair{"mt", "r"}}, Bind{"r", "unrolled"}), Reorder{[]string{"n", "mt", "k", "r"}}},
	{"bind_vector", "w2", trace(dot, columns, Split{"m", 16, Pair{"mt", "l"}}, Reorder{[]string{"n", "mt", "k", "l"}}), Bind{"l", "vector"}},
	{"bind_unrolled", "w2", trace(dot, columns, fields[:2]), Bind{"f", "unrolled"}},
	{"bind_pair", "w2", byPairs(), Bind{"e", "pair"}},
	{"bind_outer", "w2", trace(dot), Bind{"n", "outer"}},
	{"tensorize_dot4", "w2", trace(dot, columns, lanes, Split{"k", 4, Pair{"ks", "j"}}, Reorder{[]string{"n", "mt", "ks", "l", "j"}}), Tensorize{Loop: "j", To: "dot4"}},
	{"tensorize_dot2", "w2", trace(dot, columns, lanes, Split{"k", 2, Pair{"ks", "j"}}, Reorder{[]string{"n", "mt", "ks", "l", "j"}}), Tensorize{Loop: "j", To: "dot2"}},
	{"tensorize_dot1", "w2", trace(dot, columns, lanes, Split{"k", 1, Pair{"ks", "j"}}, Reorder{[]string{"n", "mt", "ks", "l", "j"}}), Tensorize{Loop: "j", To: "dot1"}},
	{"tensorize_tile", "w4", tiles[:len(tiles)-3], tiles[len(tiles)-3]},
	{"stage_shared", "w4", tiles[:len(tiles)-1], tiles[len(tiles)-1]},
	{"rfactor", "w2", trace(dot, columns, lanes, Split{"k", 4, Pair{"ks", "f"}}, Bind{"f", "unrolled"}, Reorder{[]string{"n", "mt", "ks", "f", "l"}}), Rfactor{"f"}},
	{"read_scaled_all", "w2", ready(), ReadScaled{8}},
	{"read_scaled_below_4", "w2", ready(), ReadScaled{4}},
	{"read_scaled_words", "ternary", trace(dot, unsign, columns, lanes, fives, Tensorize{Loop: "j", To: "dot4"}, order, joined), ReadScaled{8}},
	{"stage_w", "w2", trace(dot, unsign, Split{"n", 2, Pair{"nt", "nc"}}, Bind{"nt", "outer"}, Bind{"nc", "unrolled"}, lanes,
		Split{"k", 4, Pair{"ks", "j"}}, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"nt", "mt", "ks", "nc", "l", "j"}}), Stage{Value: "w", At: "ks"}},
	{"stage_a", "w2", trace(dot, unsign, columns, Split{"m", 32, Pair{"mt", "mi"}}, Split{"mi", 16, Pair{"r", "l"}}, Bind{"mt", "outer"}, Bind{"r", "unrolled"},
		Bind{"l", "vector"}, Split{"k", 4, Pair{"ks", "j"}}, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"n", "mt", "ks", "r", "l", "j"}}), Stage{Value: "a", At: "ks"}},
	{"stage_super", "w4-g32-s64-m", trace(with(grouped("init"), "reorder"), Split{"g", 2, Pair{"gt", "gi"}}, Reorder{[]string{"n", "mt", "gt", "gi", "u", "f", "l", "j"}}),
		Stage{Value: "super", At: "gt"}},
	{"pack_dense", "w2", trace(dot, unsign, columns, lanes, fields, order), packed},
	{"pack_planes", "w3", trace(dot, unsign, columns, lanes, Split{"k", 32, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}, Bind{"f", "unrolled"}, order),
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "words", "l", "j"}, Fields: []string{"f"}, Map: "planes"}},
	{"pack_words", "ternary", trace(dot, unsign, columns, lanes, fives, Tensorize{Loop: "j", To: "dot4"}, order), joined},
	{"pack_head", "ternary", trace(dot, unsign, columns, lanes, fives, Tensorize{Loop: "j", To: "dot4"}, order), headed},
	{"pack_groups", "w4-g32-z", grouped("flush"), Pack{Tensor: "codes", Order: []string{"mt", "g", "u", "l", "j"}, Fields: []string{"f"}, Map: "dense"}},
	{"pack_act", "w2", ready(), Pack{Tensor: "act", Chunk: 16}},
	{"widen_every", "w2", trace(dot, columns, lanes, Split{"k", 16, Pair{"ko", "ki"}}, Reorder{[]string{"n", "mt", "ko", "ki", "l"}}), WidenEvery{"ki"}},
	{"accumulate", "w2", trace(readyPairs(), Rfactor{"jo"}, WidenEvery{"f"}), Accumulate{"i16"}},
	{"accumulate_bytes", "w2", byPairs()[:len(byPairs())-1], Accumulate{"i8"}},
	{"hoist_zero_init", "w4", trace(dot), HoistZero{"init"}},
	{"hoist_zero_flush", "w1", trace(dot), HoistZero{"flush"}},
	{"fold_scales", "q6_k", trace(dot), FoldScales{}},
	{"fold_scales_minimums", "q2_k", trace(dot), FoldScales{}},
	{"hoist_zero_points", "w4-g32-z", trace(dot), HoistZero{"init"}},
	{"hoist_zero_lookup", "codebook", trace(Decompose{Family: "dot", Value: "lookup"}), HoistZero{"flush"}},
	{"scale_at", "w4-g32", grouped("init"), ScaleAt{"begin"}},
	{"fission", "w4-g32-s64-m", trace(with(grouped("init"), "reorder"), Split{"g", 2, Pair{"gt", "gi"}}, Reorder{[]string{"n", "mt", "gt", "gi", "u", "f", "l", "j"}}),
		Fission{"gi"}},
	{"tile_columns", "w4-g32", tiled(), TileColumns{4, "nb"}},
	{"prefetch", "w2", ready(), Prefetch{Bytes: 4096, Far: 16384}},
	{"prefetch_rest", "w2", trace(dot, unsign, Split{"m", 48, Pair{"mt", "mm"}}, Split{"mm", 16, Pair{"side", "l"}}, Bind{"side", "unrolled"}, fields, pack("mt side ks l j", "f")), Prefetch{Bytes: 2048, Rest: true}},
	{"prefetch_every", "w4-g32-z", trace(grouped("flush"), Pack{Tensor: "codes", Order: []string{"mt", "g", "u", "l", "j"}, Fields: []string{"f"}, Map: "dense"}), Prefetch{Far: 8192, Every: true}},
}

func start(t testing.TB, weight string, tr Trace) *Product {
	t.Helper()
	s, err := NewProduct(productOf(t, weight))
	if err == nil {
		s, err = tr.Replay(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSteps compares what each example does with its file, and sees that a step
// leaves its argument alone.
func TestSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range examples {
		seen[NameOf(x.step)] = true
		t.Run(x.name, func(t *testing.T) {
			s := start(t, x.weight, x.before)
			before := picture(s)
			after, err := x.step.Apply(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := picture(s); got != before {
				t.Errorf("Apply changed its argument to\n%s", got)
			}
			step, err := json.Marshal(Trace{x.step})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s: %s\n\n%s\n%s\n\n%s", x.weight, x.before, before, step, picture(after))
			compare(t, "testdata/"+x.name+".golden", got)
		})
	}
	for _, x := range operatorExamples {
		seen[NameOf(x.step)] = true
	}
	for _, name := range StepNames() {
		if !seen[name] {
			t.Errorf("no example of %s", name)
		}
	}
}

// compare holds a file to text, or with -update writes it.
func compare(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("got\n%s\nwant (%s; go test ./schedule -update rewrites it)\n%s", text, path, want)
	}
}

// picture is all that steps decide.
func picture(s *Product) string {
	var b strings.Builder
	if s.fill != nil {
		fmt.Fprintf(&b, "groups of %d elements of K are filled up to %d\n", s.fill.group, s.fill.to)
	}
	if s.quantized != nil {
		fmt.Fprintf(&b, "activations of up to %d elements are quantized here: %v\n", s.quantized.Room, s.quantized.Trace)
	}
	if len(s.stages) == 0 {
		return b.String() + s.Graph.String()
	}
	if x, err := s.splitK(); err == nil {
		s = x
	} else {
		fmt.Fprintln(&b, err)
	}
	for _, st := range s.stages {
		plan, err := st.plan()
		if err != nil {
			return err.Error()
		}
		n := &nest.Nest{Name: st.name, Loops: append(slices.Clone(st.loops), keepLoops(plan)...)}
		if n.Body, err = nest.Build(plan); err != nil {
			for _, l := range st.loops {
				fmt.Fprintf(&b, "  %v\n", l)
			}
			fmt.Fprintf(&b, "  not yet: %v\n", err)
			continue
		}
		_, text, _ := strings.Cut(n.String(), "\n")
		b.WriteString(text)
	}
	if s.weights != nil {
		b.WriteString(layoutText(s.fill.stored(s.weights)))
	}
	if s.sumBy != 0 {
		fmt.Fprintf(&b, "activation sums come multiplied by %d\n", s.sumBy)
	}
	if _, scaled := s.scaledSums(); scaled {
		b.WriteString("activation sums come in f32, times their scale\n")
	}
	if s.chunk != 0 {
		fmt.Fprintf(&b, "activations of a column lie together by %d\n", s.chunk)
	}
	if s.streams.Ahead != 0 {
		fmt.Fprintf(&b, "codes are prefetched %d bytes ahead\n", s.streams.Ahead)
	}
	if s.streams.Far != 0 {
		fmt.Fprintf(&b, "codes are prefetched into the second-level cache %d bytes ahead\n", s.streams.Far)
	}
	if s.streams.Every {
		b.WriteString("every line of all parts is\n")
	}
	if s.streams.Rest {
		b.WriteString("of tiles side by side the first is not\n")
	}
	if s.streams.Act != 0 {
		fmt.Fprintf(&b, "activations are prefetched %d bytes ahead\n", s.streams.Act)
	}
	return b.String()
}

// layoutText is a layout by its formulas.
func layoutText(l *format.Layout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tile of %d rows: %d bytes, then %d bytes per %d of K\n", l.TileM, l.HeaderBytes, l.RecordBytes, l.RecordK)
	for _, p := range l.Parts {
		fmt.Fprintf(&b, "  %s at %d", p.Name, p.Base)
		for _, d := range p.Digits {
			fmt.Fprintf(&b, " + %d*(%v)", d.Stride, d)
		}
		for _, d := range p.Fields {
			fmt.Fprintf(&b, ", field %d*(%v)", d.Stride, d)
		}
		what := "field"
		if c := p.Codewords; c != nil {
			what = "codeword"
			fmt.Fprintf(&b, "\n    codewords of %d codes below %d: %d", c.Join, c.Levels, c.Table)
		}
		for f, bits := range p.Map {
			fmt.Fprintf(&b, "\n    %s %d:", what, f)
			for _, at := range bits {
				fmt.Fprintf(&b, " %d.%d", at.Word*p.WordStride, at.Bit)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestJSON: every step survives JSON, all of its fields set.
func TestJSON(t *testing.T) {
	for _, name := range StepNames() {
		v := reflect.New(reflect.TypeOf(steps[name])).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); f.Interface().(type) {
			case string:
				f.SetString("x\"" + fmt.Sprint(i))
			case int:
				f.SetInt(int64(i + 7))
			case bool:
				f.SetBool(true)
			case []string:
				f.Set(reflect.ValueOf([]string{"p", "q"}))
			case []int:
				f.Set(reflect.ValueOf([]int{5, 6}))
			case Pair:
				f.Set(reflect.ValueOf(Pair{"p", "q"}))
			case Trace:
				f.Set(reflect.ValueOf(Trace{Bind{"p", "q"}}))
			default:
				t.Fatalf("%s: no value for a %v", name, f.Type())
			}
		}
		want := Trace{v.Interface().(Step)}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Trace
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s becomes %#v", data, got)
		}
		if strings.ToLower(string(data)) != string(data) {
			t.Errorf("%s: a name is not in lower case", data)
		}
	}
}

func TestBadJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, `trace: json: cannot unmarshal object into Go value of type []json.RawMessage`},
		{`[7]`, `trace: step 0 is no object`},
		{`[{"split":{"loop":"m","by":2,"into":["a","b"],"to":"x"}}]`, `trace: step 0: split: unknown field "to"; there are loop, by, into`},
		{`[{"tensorize":{"loop":"j","TO":"dot2"}}]`, `trace: step 0: tensorize: unknown field "TO"; there are loop, to, rows, columns, lanes`},
		{`[{"split":{"by":8,"BY":16}}]`, `trace: step 0: split: unknown field "BY"; there are loop, by, into`},
		{`[{"split":{"by":8,"by":16}}]`, `trace: step 0: split: field "by" is there twice`},
		{`[{"bind":{}},{"prefetch":{"bytes":4096},"prefetch":{"bytes":64}}]`, `trace: step 1 names 2 transforms, want 1`},
		{`[{"prefetch":{"bytes":64}},{"tile":{}}]`, `trace: step 1: no transform "tile" (have ` + strings.Join(StepNames(), ", ") + `)`},
		{`[{}]`, `trace: step 0 names 0 transforms, want 1`},
		{`[{"bind":{},"fuse":{}}]`, `trace: step 0 names 2 transforms, want 1`},
		{`[{"split":{"loop":"m","by":"2"}}]`, `trace: step 0: split: by is JSON string; want an integer`},
		{`[{"split":{"into":["a","b","c"]}}]`, `trace: step 0: split: 3 loop names, want 2`},
		{`[{"split":{"into":["a"]}}]`, `trace: step 0: split: 1 loop names, want 2`},
		{`[` + strings.Repeat(`{"bind":{}},`, 200) + `{"bind":{}}]`, `trace: 201 steps, at most 200`},
		{`[{"quantize":{"trace":[{"quantize":{"trace":[{"bind":{"loop":"[]\"[["}}]}}]}}]`, `trace: lists and objects are 9 deep, at most 7`},
		{`[{"quantize":{"trace":[{"split":{"loop":"[[[\"","into":["a"]}}]}}]`, `trace: step 0: quantize: trace: step 0: split: 1 loop names, want 2`},
	} {
		var tr Trace
		if err := json.Unmarshal([]byte(c.text), &tr); err == nil || err.Error() != c.want {
			t.Errorf("%.100s\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestTraceString(t *testing.T) {
	got := trace(readyPairs(), ReadScaled{4}, Rfactor{"jo"}, WidenEvery{"f"}, Accumulate{"i16"}, Fuse{"a", "b", "c"}, Stage{Value: "w", At: "ks"}, ScaleAt{"end"}, Prefetch{Bytes: 4096}).String()
	const want = "decompose dot affine; hoist_zero init; bind n outer; split m 16 mt l; bind mt outer; bind l vector; split k 16 ks kk; " +
		"split kk 4 f jj; split jj 2 jo j; bind f unrolled; bind jo vector; tensorize j dot2; reorder n mt ks f l jo j; " +
		"pack codes mt ks l jo j f dense; read_scaled 4; rfactor jo; widen_every f; accumulate i16; fuse a b c; stage w ks; scale_at end; prefetch 4096"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	far, act := (Trace{Prefetch{Bytes: 64, Far: 128}}).String(), (Trace{Prefetch{Bytes: 64, Act: 128}}).String()
	if far != "prefetch 64 128" || act != "prefetch 64 0 128" {
		t.Errorf("%q and %q", far, act)
	}
}
