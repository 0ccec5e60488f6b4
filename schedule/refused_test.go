package schedule

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// with is ready with some of its steps left out, by name, and others after it.
func with(t Trace, without string, more ...any) Trace {
	var out Trace
	for _, s := range t {
		if NameOf(s) != without {
			out = append(out, s)
		}
	}
	return append(out, trace(more...)...)
}

// unpacked is ready before its codes are packed.
func unpacked() Trace { return with(ready(), "pack") }

// pack is packed with other loops.
func pack(order string, fields ...string) Pack {
	return Pack{Tensor: "codes", Order: strings.Fields(order), Fields: fields, Map: "dense"}
}

// leading is pack with what groups share before their codes.
func leading(order string, fields ...string) Pack {
	p := pack(order, fields...)
	p.Lead = true
	return p
}

// untiled is tiles without its last three steps.
var untiled = tiles[:len(tiles)-3]

func tileOf(rows, columns string, lanes int) Tensorize {
	return Tensorize{Loop: "j", To: "tile", Rows: rows, Columns: columns, Lanes: lanes}
}

// Products by tables of one byte.
var (
	byBytes    = trace(byTable, QuantizeTable{Kind: "q8"}, Split{"k", 96, Pair{"ks", "f"}})
	byAverages = trace(byTable, QuantizeTable{Kind: "q8"}, Split{"k", 4, Pair{"ks", "f"}}, Bind{"f", "unrolled"}, HalvingAdd{"f"})
)

// refused are steps that do not apply to a state.
var refused = []struct {
	weight string
	before Trace
	step   Step
	want   string
}{
	{"w2", nil, SplitK{4}, `split_k k: decompose first`},
	{"w2", trace(dot), SplitK{1}, `split_k k: 1 workgroups: want 2 to 256`},
	{"w2", trace(dot), SplitK{257}, `split_k k: 257 workgroups: want 2 to 256`},
	{"w2", trace(dot, SplitK{2}), SplitK{2}, `split_k k: is split already`},
	{"w2", trace(byTable), SplitK{2}, `split_k k: the sums are floats or of tables: workgroups add up integers, of groups or of all of K`},
	{"w2", trace(dot), Split{"k", 16, Pair{"ks", "parts"}}, `split k: there is a loop or axis parts already`},
	{"w4", untiled, Tensorize{Loop: "j", To: "dot4", Rows: "i"}, `tensorize j: rows, columns and lanes are a tile's`},
	{"w4", untiled, tileOf("i", "c", 12), `tensorize j: 12 lanes: want a power of two of at most 1024`},
	{"w4", untiled, tileOf("i", "i", 8), `tensorize i: a tile wants the innermost steps of 1 along n, this is of m with stride 1`},
	{"w4", untiled, tileOf("i", "q", 8), `tensorize j: there is no loop "q" over n`},
	{"w4", untiled, tileOf("mt", "c", 8), `tensorize mt: a tile wants the innermost steps of 1 along m, this is of m with stride 8`},
	{"w4", trace(untiled, Bind{"c", "vector"}), tileOf("i", "c", 8), `tensorize c: is bound vector already`},
	{"w4", trace(dot, Split{"n", 6, Pair{"nt", "c"}}, Split{"m", 8, Pair{"mt", "i"}}), Tensorize{Loop: "k", To: "tile", Rows: "i", Columns: "c"}, `tensorize c: 6 is not a power of two of at most 64`},
	{"w4", tiles[:len(tiles)-1], Stage{Value: "a", At: "ks", Shared: true}, `stage a: is no value that lanes share so; have w, shared, and then ahead, and then by halves`},
	{"w4", tiles[:len(tiles)-1], Stage{Value: "w", At: "f", Shared: true}, `stage f: is no serial loop`},
	{"w4", tiles[:len(tiles)-1], Stage{Value: "scales", At: "ks"}, `stage ks: is no serial loop in which lanes share scales: say shared`},
	{"w4", tiles[:len(tiles)-1], Stage{Value: "scales", At: "ks", Shared: true}, `stage scales: groups have none of their own`},
	{"w4", tiles[:len(tiles)-2], Pack{Tensor: "codes", Order: []string{"mt", "ks", "j/3"}, Fields: []string{"f"}, Map: "dense"}, `pack j/3: is no part of a constant loop that is named in parts only`},
	{"w2", trace(ready()[:len(ready())-1], Pack{Tensor: "codes", Order: packed.Order, Fields: []string{"f/2", "f%2"}, Map: "dense"}), ReadScaled{Below: 4}, `read_scaled codes: a field is part of a loop`},
	{"w4", tiles[:len(tiles)-2], Pack{Tensor: "codes", Order: []string{"mt", "ks", "none/2"}, Fields: []string{"f"}, Map: "dense"}, `pack none/2: no such loop over rows or K`},
	{"w4", tiles[:len(tiles)-1], Stage{Value: "w", At: "i"}, `stage i: is tile: a value cannot be staged between lanes`},
	{"w2", ready(), dot, `decompose dot: already decomposed`},
	{"w2", trace(dot, unsign, Split{"m", 272, Pair{"mt", "mm"}}, Split{"mm", 16, Pair{"side", "l"}}, fields), pack("mt side ks l j", "f"), `pack side: 17 tiles side by side: at most 16`},
	{"w2", trace(dot, unsign, Split{"m", 32, Pair{"mt", "mm"}}, Split{"mm", 16, Pair{"side", "l"}}, fields), pack("mt l ks side j", "f"), `pack l: the second loop must be the run-time loop over K: one linear stream`},
	{"w4-g32", trace(dot), FillGroups{40}, `fill_groups groups: fill them before decompose`},
	{"q6_k", nil, FoldScales{}, `fold_scales scales: decompose first`},
	{"w4-g32", trace(dot), FoldScales{}, `fold_scales scales: no groups have integers for scales, so that a block of them is one integer`},
	{"q2_k", trace(byTable), FoldScales{}, `fold_scales scales: weights are indices of tables: they have no products with scales`},
	{"w4-g32-s256-i8-z", trace(dot), FoldScales{}, `fold_scales scales: zero points must leave the product: hoist_zero`},
	{"q6_k", trace(dot, unsign), FoldScales{}, `fold_scales scales: fold them right after decompose, while weights have a sign`},
	{"w4-g32-s256-i8", trace(FillGroups{40}, dot), FoldScales{}, `fold_scales scales: groups are filled up: a sum over several of them would count what fills them`},
	{"q6_k", trace(dot, Split{"g", 2, Pair{"gt", "gi"}}), FoldScales{}, `fold_scales scales: fold them right after decompose, while weights have a sign`},
	{"q6_k", trace(dot, FoldScales{}), FoldScales{}, `fold_scales scales: no groups have integers for scales, so that a block of them is one integer`},
	{"q6_k", trace(dot, FoldScales{}), HoistZero{"flush"}, `hoist_zero flush: weights are multiplied by the scales of their groups, sums of activations are not`},
	{"w8-g32-s256-i8", trace(dot), FoldScales{}, `fold_scales scales: products of -16256 to 16384 fit no two bytes with a sign`},
	{"w4-g32", trace(FillGroups{40}), FillGroups{60}, `fill_groups groups: already filled`},
	{"w4-g32", nil, FillGroups{32}, `fill_groups groups: 32 of a group of 32: want a multiple of 4 above that, up to its double`},
	{"w4-g32", nil, FillGroups{68}, `fill_groups groups: 68 of a group of 32: want a multiple of 4 above that, up to its double`},
	{"w4-g32", nil, FillGroups{38}, `fill_groups groups: 38 of a group of 32: want a multiple of 4 above that, up to its double`},
	{"w4-g1024-s16384-i8", nil, FillGroups{1040}, `fill_groups groups: blocks of 16 groups would be too long for one integer`},
	{"w2", nil, FillGroups{40}, `fill_groups groups: there are none to fill`},
	{"cb4x16-g32-b16", nil, FillGroups{40}, `fill_groups groups: parts of a group, of 16 elements, share something`},
	{"w1-g64-f32act", nil, FillGroups{80}, `fill_groups groups: sums of f32 take the elements as they are`},
	{"w1-g32", trace(FillGroups{40}), byTable, `decompose table: groups are filled up for dot products`},
	{"w2", trace(dot), Split{"k", 16, Pair{"ks", "k"}}, `split k: there is a loop or axis k already`},
	{"w2", trace(dot, Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}), Fuse{"f", "j", "k"}, `fuse f: there is a loop or axis k already`},
	{"w2", trace(dot), Prefetch{Bytes: 64, Tensor: "codes"}, `prefetch codes: tensors are named in operators only`},
	{"w2", nil, Decompose{Family: "lut", Value: "affine"}, `decompose lut: no such family; have dot, table`},
	{"w2", nil, Decompose{Family: "dot", Value: "table"}, `decompose table: want affine or lookup`},
	{"codebook", nil, dot, `decompose affine: the levels are not evenly spaced; use lookup`},

	{"w2", nil, Decompose{Family: "dot", Value: "affine", Parts: []int{4}}, `decompose dot: has no parts`},
	{"w1", nil, Decompose{Family: "dot", Value: "affine", Mirror: true}, `decompose dot: has no tables to mirror`},
	{"w2", nil, Decompose{Family: "table", Value: "bits", Parts: []int{4}, Mirror: true}, `decompose bits: digits that count [0 1] are not symmetric: their tables have no mirror image; use signs or levels that are`},
	{"iq4nl", nil, Decompose{Family: "table", Value: "levels", Parts: []int{2}, Mirror: true}, `decompose levels: digits that count [-127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113] are not symmetric: their tables have no mirror image; use signs or levels that are`},
	{"w2", nil, Decompose{Family: "table", Value: "signs", Parts: []int{3, 1}, Mirror: true}, `decompose signs: part 1 has 2 entries: half of them is no table; want more digits`},
	{"w1-f32act", nil, Decompose{Family: "table", Value: "signs", Parts: []int{4}, Mirror: true}, `decompose signs: entries of f32 are not negated; leave out mirror`},
	{"ternary", trace(byTrits), QuantizeTable{Kind: "split", Low: 8}, `quantize_table split: a lower half of 8 bits, negated, is no byte; want 1 to 7`},
	{"w2", nil, Decompose{Family: "table", Value: "bits", Parts: []int{60, 5}}, `decompose bits: weight w2: part 0: 60 digits of 2 values need a table of more than 65536 entries`},
	{"w2", nil, Decompose{Family: "table", Value: "bits", Parts: []int{8, 8, 8, 8, 8, 8, 8, 8, 8}}, `decompose table: an index of 72 elements of K, at most 64`},
	{"w4-g32", nil, Decompose{Family: "table", Value: "bits", Parts: []int{5}}, `decompose table: 5 elements of K to an index do not divide a group of 32`},

	{"w2", unpacked(), Pack{Tensor: "codes", Order: packed.Order, Fields: packed.Fields, Map: "dense", Word: 3}, `pack codes: words of 3 bytes: want 1, 2 or 4`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: packed.Order, Fields: packed.Fields, Map: "dense", Word: 2}, `pack codes: 1 bytes are no words of 2`},
	{"w1-f32act", nil, dot, `decompose dot: dot products are of int8 activations; these are f32: use table`},
	{"w1-f32act", nil, byTable, `decompose bits: digits of f32 activations must be the levels, with nothing to add or multiply; use codes or levels`},
	{"w1-f32act", nil, Decompose{Family: "table", Value: "codes", Parts: []int{4, 5}}, `decompose codes: parts [4 5] would add f32 activations in another order: 4 at once`},
	{"w1-f32act", trace(byFloats), QuantizeTable{Kind: "i16"}, `quantize_table i16: the activations are f32: want f32`},
	{"w1-f32act", trace(byFloats), QuantizeTable{Kind: "f32", Low: 8}, `quantize_table f32: is not split into halves`},
	{"w1-f32act", floats(), WidenEvery{"u"}, `widen_every u: would change the order of a float sum`},
	{"w1-f32act", floats(), Rfactor{"u"}, `rfactor u: would change the order of a float sum`},
	{"w1-f32act", floats(), Accumulate{"i16"}, `accumulate i16: the group's own sum is f32; add an accumulator with rfactor, read_scaled or widen_every`},

	{"w2", trace(byTable), QuantizeTable{Kind: "f32"}, `quantize_table f32: the activations are int8: want i16, split, u8 or q8`},
	{"w2", trace(dot), QuantizeTable{Kind: "q4"}, `quantize_table q4: want i16, split, u8, q8 or f32`},
	{"w2", trace(byTable), QuantizeTable{Kind: "q8", Low: 9}, `quantize_table q8: entries without their lowest 9 bits: want at most 8`},
	{"w2", trace(byTable), QuantizeTable{Kind: "q8", Low: 1}, `quantize_table q8: entries of part 0 reach 508: more than 1 bits and a byte`},
	{"w2", trace(byTable, QuantizeTable{Kind: "q8"}), QuantizeTable{Kind: "q8"}, `quantize_table q8: is rounded to bytes already`},
	{"w2", trace(Decompose{Family: "table", Value: "bits", Parts: []int{9}}), QuantizeTable{Kind: "q8"}, `quantize_table q8: part 0 has 512 entries: an index must be a byte`},
	{"w2", nil, HalvingAdd{"k"}, `halving_add k: decompose first`},
	{"w2", byBytes, HalvingAdd{"q"}, `halving_add q: no such loop`},
	{"w2", trace(byTable, Bind{"part", "unrolled"}), HalvingAdd{"part"}, `halving_add part: only tables of one byte are averaged: quantize_table q8 first`},
	{"w2", trace(byBytes, Bind{"plane", "unrolled"}), HalvingAdd{"plane"}, `halving_add plane: is not a loop over lookups that count the same`},
	{"w2", byBytes, HalvingAdd{"f"}, `halving_add f: is for: bind it unrolled`},
	{"w2", trace(byBytes, Split{"f", 3, Pair{"u", "f"}}, Bind{"f", "unrolled"}), HalvingAdd{"f"}, `halving_add f: 3 iterations: want a power of two`},
	{"w2", trace(byTable, QuantizeTable{Kind: "q8"}, Split{"k", 128, Pair{"ks", "f"}}, Split{"f", 8, Pair{"u", "v"}}, Bind{"v", "unrolled"}, Bind{"u", "unrolled"}, HalvingAdd{"u"}), HalvingAdd{"v"}, `halving_add v: 128 lookups in an average, at most 64`},
	{"w2", trace(byAverages[:4], WidenEvery{"ks"}), HalvingAdd{"f"}, `halving_add f: must come before steps that add accumulators, set their type or stage values`},
	{"w2", trace(byAverages[:4], Accumulate{"i16"}), HalvingAdd{"f"}, `halving_add f: must come before steps that add accumulators, set their type or stage values`},
	{"w2", trace(byAverages, WidenEvery{"ks"}), WidenEvery{"f"}, `widen_every f: is averaged: its iterations are one sum`},
	{"w2", byAverages, Stage{Value: "x", At: "ks"}, `stage x: differs between lookups that are averaged`},
	{"w2", trace(byTable), QuantizeTable{Kind: "i16", Low: 5}, `quantize_table i16: is not split into halves`},
	{"w2", trace(byTable), QuantizeTable{Kind: "split", Low: 9}, `quantize_table split: a lower half of 9 bits: want 1 to 8`},
	{"w2", trace(byTable), QuantizeTable{Kind: "split", Low: 1}, `quantize_table split: entries of part 0 reach 508: more than 1 bits and a byte`},
	{"w2", trace(byTable, QuantizeTable{Kind: "u8"}), QuantizeTable{Kind: "u8"}, `quantize_table u8: has residuals already`},
	{"w2", trace(byTable, HoistZero{"flush"}), QuantizeTable{Kind: "u8"}, `quantize_table u8: must come before hoist_zero`},
	{"w2-g32", trace(byTable), QuantizeTable{Kind: "u8"}, `quantize_table u8: offsets and residuals are of whole rows: sums of groups are scaled, and rounded, before residuals would be added; use split`},
	{"w1", trace(Decompose{Family: "table", Value: "signs", Parts: []int{4}}), QuantizeTable{Kind: "u8"}, `quantize_table u8: entries reach 1016, beyond a byte and a residual; use fewer digits`},
	{"w2", trace(Decompose{Family: "table", Value: "codes", Parts: []int{2}}), QuantizeTable{Kind: "u8"}, `quantize_table u8: digits of -2 to 1: entries with residuals have digits of -1, 0 and 1`},
	{"w1", trace(Decompose{Family: "table", Value: "signs", Parts: []int{2}, Mirror: true}), QuantizeTable{Kind: "u8"}, `quantize_table u8: entries with residuals have no signs, mirrored ones have`},
	{"w1", trace(Decompose{Family: "table", Value: "bits", Parts: []int{4, 4}}), QuantizeTable{Kind: "u8"}, `quantize_table u8: entries with residuals want an index of one part, not 2`},
	{"w1", trace(Decompose{Family: "table", Value: "bits", Parts: []int{3}}), QuantizeTable{Kind: "u8"}, `quantize_table u8: 3 digits of 2 values: entries with residuals have two halves of 4 values`},
	{"w2", nil, QuantizeTable{Kind: "split"}, `quantize_table split: decompose first`},
	{"w2", trace(dot), QuantizeTable{Kind: "split"}, `quantize_table split: the product has no tables`},
	{"w2", trace(byTable, QuantizeTable{Kind: "split"}), QuantizeTable{Kind: "split"}, `quantize_table split: is split already`},
	{"w2", trace(byTable, WidenEvery{"k"}), QuantizeTable{Kind: "split"}, `quantize_table split: must come before steps that add accumulators, set their type or stage values`},
	{"w2", trace(byTable, Accumulate{"i16"}), QuantizeTable{Kind: "split"}, `quantize_table split: must come before steps that add accumulators, set their type or stage values`},
	{"w2", trace(Decompose{Family: "table", Value: "bits", Parts: []int{9}}), QuantizeTable{Kind: "split"}, `quantize_table split: part 0 has 512 entries: an index must be a byte`},

	{"w2", nil, unsign, `hoist_zero init: decompose first`},
	{"w2", trace(dot), HoistZero{"end"}, `hoist_zero end: want init or flush`},
	{"w2", trace(dot, unsign), unsign, `hoist_zero init: already hoisted`},
	{"w2", trace(dot, columns, lanes, Stage{Value: "w", At: "k"}), unsign, `hoist_zero init: must come before stage w`},
	{"w1", trace(dot), unsign, `hoist_zero init: levels 2 apart cannot start the accumulator; use flush`},

	{"w2", trace(dot), Split{"q", 2, Pair{"a", "b"}}, `split q: no such loop`},
	{"w2", trace(dot), Split{"k", 0, Pair{"a", "b"}}, `split k: 0 is not between 1 and 4096`},
	{"w2", trace(dot), Split{"k", 4097, Pair{"a", "b"}}, `split k: 4097 is not between 1 and 4096`},
	{"w2", trace(dot, Split{"m", 64, Pair{"mt", "mm"}}), Split{"mm", 24, Pair{"a", "b"}}, `split mm: 24 does not divide its extent 64`},
	{"w2", trace(dot, Split{"k", 4096, Pair{"kt", "kk"}}), Split{"kt", 512, Pair{"a", "b"}}, `split kt: an iteration would advance by 2097152, at most 1048576`},
	{"w2", ready(), Split{"f", 2, Pair{"a", "b"}}, `split f: split before pack: the layout is made of the loops`},
	{"w2", unpacked(), Split{"l", 2, Pair{"a", "b"}}, `split l: it is bound vector; split first`},
	{"w2", trace(dot), Split{"k", 2, Pair{"a", "a"}}, `split k: want two different loop names of up to 16 small letters, digits, '_' and '.', a letter first; have "a" and "a"`},
	{"w2", trace(dot), Split{"k", 2, Pair{"A", ""}}, `split k: want two different loop names of up to 16 small letters, digits, '_' and '.', a letter first; have "A" and ""`},
	{"w2", trace(dot, Split{"m", 64, Pair{"mt", "mm"}}), Split{"k", 2, Pair{"mt", "b"}}, `split k: there is a loop or axis mt already`},
	{"w2", trace(dot), Split{"k", 2, Pair{"a", "g"}}, `split k: there is a loop or axis g already`},
	{"w2", trace(dot), Split{"k", 2, Pair{"scale", "b"}}, `split k: there is a loop or axis scale already`},
	{"w2", trace(dot), Split{"m", 2, Pair{"words", "b"}}, `split m: there is a loop or axis words already`},
	{"w2", trace(dot, Split{"k", 8, Pair{"ks", "kk"}}, WidenEvery{"kk"}), Split{"kk", 2, Pair{"a", "b"}}, `split kk: accumulator acc2 refers to it; split first`},
	{"w2", trace(dot, Stage{Value: "w", At: "k"}), Split{"k", 2, Pair{"a", "b"}}, `split k: staged w refers to it; split first`},

	{"w2", trace(dot), Fuse{"q", "k", "a"}, `fuse q: no such loop`},
	{"w2", trace(dot), Fuse{"n", "k", "a"}, `fuse n: loop k is not right inside it`},
	{"w2", trace(dot), Fuse{"k", "n", "a"}, `fuse k: loop n is not right inside it`},
	{"w2", trace(dot), Fuse{"m", "k", "a"}, `fuse m: k does not continue it`},
	{"w2", trace(dot, fields[:2], Reorder{[]string{"n", "m", "ks", "j", "f"}}), Fuse{"j", "f", "a"}, `fuse j: f does not continue it`},
	{"w2", trace(dot, fields), Fuse{"f", "j", "a"}, `fuse f: a bound loop cannot be fused`},
	{"w2", trace(dot, columns, lanes, fields[:2], Reorder{[]string{"n", "mt", "l", "ks", "f", "j"}}, pack("mt ks l j", "f")), Fuse{"f", "j", "a"}, `fuse f: fuse before pack: the layout is made of the loops`},
	{"w2", trace(dot, fields[:2], WidenEvery{"f"}), Fuse{"f", "j", "a"}, `fuse f: accumulator acc2 refers to it`},
	{"w2", trace(dot, fields[:2], WidenEvery{"j"}, Stage{Value: "w", At: "f"}), Fuse{"f", "j", "a"}, `fuse f: staged w refers to it`},
	{"w2", trace(dot, fields[:2], WidenEvery{"j"}), Fuse{"f", "j", "a"}, `fuse j: accumulator acc2 refers to it`},
	{"w2", trace(dot, fields[:2]), Fuse{"f", "j", "1"}, `fuse f: "1" is not a loop name`},
	{"w2", trace(dot, fields[:2]), Fuse{"f", "j", "ks"}, `fuse f: there is a loop or axis ks already`},
	{"w2", trace(dot, fields[:2]), Fuse{"f", "j", "m"}, `fuse f: there is a loop or axis m already`},

	{"w2", trace(dot), Reorder{}, `reorder order: is empty`},
	{"w2", trace(dot), Reorder{[]string{"q"}}, `reorder q: no such loop`},
	{"w2", trace(dot), Reorder{[]string{"n", "q"}}, `reorder q: no such loop in this stage`},
	{"w2", trace(dot), Reorder{[]string{"n", "m", "n"}}, `reorder n: named twice`},
	{"w2", trace(dot), Reorder{[]string{"n", "m"}}, `reorder k: is not in the order`},

	{"w2", trace(dot), Bind{"q", "outer"}, `bind q: no such loop`},
	{"w2", trace(dot), Bind{"n", "parallel"}, `bind n: cannot be bound to "parallel"; have outer, unrolled, vector, pair, group, lane`},
	{"w2", trace(dot, columns), columns, `bind n: is bound outer already`},
	{"w2", trace(dot), Bind{"n", "vector"}, `bind n: its trip count is known at run time only`},
	{"w2", trace(dot, Split{"m", 4, Pair{"mt", "e"}}), Bind{"e", "pair"}, `bind e: a pair is two rows or columns`},
	{"w2", trace(dot), Bind{"k", "outer"}, `bind k: a reduction cannot be spread over calls`},
	{"w2", trace(dot, Split{"m", 2048, Pair{"mt", "l"}}), Bind{"l", "lane"}, `bind l: 2048 lanes of a group, at most 1024`},
	{"w2", trace(dot, Split{"m", 65, Pair{"mt", "r"}}), Bind{"r", "unrolled"}, `bind r: 65 iterations are too many to unroll`},
	{"w2", trace(dot, Split{"m", 24, Pair{"mt", "l"}}), Bind{"l", "vector"}, `bind l: 24 is not a power of two of at most 64 lanes`},

	{"w2", trace(dot), Tensorize{Loop: "q", To: "dot4"}, `tensorize q: no such loop`},
	{"w2", trace(dot, fields), Tensorize{Loop: "j", To: "dot8"}, `tensorize j: no instruction "dot8"; have dot4, dot2, dot1, tile`},
	{"w2", trace(dot, fields), Tensorize{Loop: "f", To: "dot4"}, `tensorize f: is bound unroll already`},
	{"w2", trace(dot, fields), Tensorize{Loop: "j", To: "dot2"}, `tensorize j: dot2 wants the innermost 2 steps of 1 along K, this is 4 of k with stride 1`},
	{"w2", trace(dot, fields[:2]), Tensorize{Loop: "f", To: "dot4"}, `tensorize f: dot4 wants the innermost 4 steps of 1 along K, this is 4 of k with stride 4`},
	{"w2", trace(dot, Split{"m", 4, Pair{"mt", "r"}}), Tensorize{Loop: "r", To: "dot4"}, `tensorize r: dot4 wants the innermost 4 steps of 1 along K, this is 4 of m with stride 1`},
	{"w4-g32", trace(dot, Split{"g", 4, Pair{"gt", "gi"}}), Tensorize{Loop: "gi", To: "dot4"}, `tensorize gi: dot4 wants the innermost 4 steps of 1 along K, this is 4 of g with stride 1`},

	{"w2", ready(), Rfactor{"q"}, `rfactor q: no such loop`},
	{"w2", ready(), Rfactor{"l"}, `rfactor l: is not a loop of a reduction`},
	{"w2", ready(), Rfactor{"ks"}, `rfactor ks: is for; only unrolled or vector loops can have an accumulator each`},
	{"w2", ready(), Rfactor{"j"}, `rfactor j: is dot; only unrolled or vector loops can have an accumulator each`},
	{"w4-g32", trace(dot, Split{"g", 4, Pair{"gt", "gi"}}, Bind{"gi", "unrolled"}), Rfactor{"gi"}, `rfactor gi: groups have different scales`},
	{"w2", trace(ready(), Rfactor{"f"}), Rfactor{"f"}, `rfactor f: accumulator acc2 keeps it apart already`},

	{"w2", ready(), WidenEvery{"q"}, `widen_every q: no such loop`},
	{"w2", ready(), WidenEvery{"l"}, `widen_every l: is not a loop over the elements of a group`},
	{"w4-g32", grouped("init"), WidenEvery{"g"}, `widen_every g: is not a loop over the elements of a group`},
	{"w2", readyPairs(), WidenEvery{"jo"}, `widen_every jo: is vector: there is nothing to flush inside an instruction`},

	{"w2", nil, Accumulate{"i16"}, `accumulate i16: decompose first`},
	{"w2", ready(), Accumulate{"f32"}, `accumulate f32: want i8, i16 or i32`},
	{"w2", ready(), Accumulate{"i16"}, `accumulate i16: the group's own sum is i32; add an accumulator with rfactor, read_scaled or widen_every`},
	{"w2", trace(ready(), Rfactor{"f"}), Accumulate{"i32"}, `accumulate i32: it is i32 already`},
	{"w2", trace(readyPairs(), Rfactor{"jo"}, Accumulate{"i16"}, Rfactor{"f"}), Accumulate{"i32"}, `accumulate i32: acc2 above it is i16`},

	{"w2", trace(byPairs()[:len(byPairs())-4], WidenEvery{"u"}, Accumulate{"i8"}), Accumulate{"i16"}, `accumulate i16: bytes stay bytes`},
	{"w2", trace(ready(), Rfactor{"f"}), Accumulate{"i8"}, `accumulate i8: products of bytes do not fit`},

	{"w2", nil, ReadScaled{8}, `read_scaled codes: decompose first`},
	{"w2", unpacked(), ReadScaled{8}, `read_scaled codes: pack first: it reads the fields of the layout`},
	{"w2", ready(), ReadScaled{9}, `read_scaled codes: below 9: want 2 to 8`},
	{"w2", ready(), ReadScaled{1}, `read_scaled codes: below 1: want 2 to 8`},
	{"w2", with(ready(), "hoist_zero"), ReadScaled{8}, `read_scaled codes: the weight is not its code: only evenly spaced levels after hoist_zero are`},
	{"w2", trace(ready(), Stage{Value: "w", At: "ks"}), ReadScaled{8}, `read_scaled codes: must come before stage w`},
	{"w2", trace(ready(), ReadScaled{4}), ReadScaled{8}, `read_scaled codes: already read scaled`},
	{"w8", trace(with(ready(), "pack"), pack("mt ks f l j")), ReadScaled{8}, `read_scaled codes: a byte holds one field`},

	{"w2", nil, Stage{Value: "w", At: "k"}, `stage w: decompose first`},
	{"w2", ready(), Stage{Value: "scale", At: "ks"}, `stage scale: no such value; have w, a, x, super, scales, act, wide`},
	{"w2", byGroups("n mt l ks f j", "group", "lane"), Stage{Value: "act", At: "f"}, `stage f: is no serial loop`},
	{"w2", trace(byGroups("n mt l ks f j", "group", "lane"), Stage{Value: "act", At: "ks"}), Stage{Value: "act", At: "ks"}, `stage act: is staged already`},
	{"w2", ready(), Stage{Value: "super", At: "ks"}, `stage super: the scales have one level`},
	{"w4-g32-s64", trace(dot), Stage{Value: "super", At: "k"}, `stage k: is not a loop over groups`},
	{"w4-g32-s64", nil, Stage{Value: "super", At: "g"}, `stage super: decompose first`},
	{"w2", ready(), Stage{Value: "x", At: "ks"}, `stage x: is no value of this decomposition`},
	{"w2", ready(), Stage{Value: "w", At: "q"}, `stage q: no such loop`},
	{"w2", ready(), Stage{Value: "w", At: "l"}, `stage l: is vector: a value cannot be staged between lanes`},
	{"w2", ready(), Stage{Value: "w", At: "j"}, `stage j: is dot: a value cannot be staged between lanes`},
	{"w2", trace(ready(), Stage{Value: "w", At: "ks"}), Stage{Value: "w", At: "f"}, `stage w: is staged already`},
	{"w2", nil, ScaleAt{"begin"}, `scale_at begin: decompose first`},
	{"w2", trace(dot), ScaleAt{"middle"}, `scale_at middle: want begin or end`},
	{"w2", trace(dot, ScaleAt{"begin"}), ScaleAt{"begin"}, `scale_at scale: is staged already`},
	{"w2", trace(dot, ScaleAt{"begin"}), ScaleAt{"end"}, `scale_at end: is formed at the beginning already`},
	{"w4-g32", nil, TileColumns{2, "nb"}, `tile_columns nb: decompose first`},
	{"w4-g32", tiled(), TileColumns{1, "nb"}, `tile_columns nb: 1 blocks: want several`},
	{"w4-g32", tiled(), TileColumns{2, "g"}, `tile_columns g: want the name of no loop or axis, up to 16 small letters, digits, '_' and '.', a letter first`},
	{"w4-g32", tiled(), TileColumns{2, "k"}, `tile_columns k: want the name of no loop or axis, up to 16 small letters, digits, '_' and '.', a letter first`},
	{"w4-g32", tiled(), TileColumns{2, ""}, `tile_columns : want the name of no loop or axis, up to 16 small letters, digits, '_' and '.', a letter first`},
	{"w4-g32", tiled(), TileColumns{33, "nb"}, `tile_columns nb: a call would make 66 columns, at most 64`},
	{"w2", ready(), TileColumns{2, "nb"}, `tile_columns nb: all of K, or several groups, are one integer: too many weights to keep them decoded`},
	{"w4-g32-s64-m", trace(dot, columns), TileColumns{2, "nb"}, `tile_columns nb: all of K, or several groups, are one integer: too many weights to keep them decoded`},
	{"w4-g32", trace(dot), TileColumns{2, "nb"}, `tile_columns nb: wants a loop over columns that is bound outer, around the groups`},
	{"w4-g32", trace(dot, Reorder{[]string{"m", "g", "k", "n"}}, columns), TileColumns{2, "nb"}, `tile_columns nb: wants a loop over columns that is bound outer, around the groups`},
	{"w4-g32", trace(tiled(), TileColumns{2, "nb"}), TileColumns{2, "nc2"}, `tile_columns nc2: columns are tiled already`},
	{"w2", nil, Fission{"g"}, `fission g: no such loop`},
	{"w4-g32-s64-m", trace(dot, Split{"g", 2, Pair{"gt", "gi"}}, Fission{"gi"}), Split{"gi", 2, Pair{"gi", "gj"}}, `split gi: accumulator blockleast refers to it; split first`},
	{"w4-g32-s128-m", trace(dot, Split{"g", 4, Pair{"gt", "gi"}}, Split{"gi", 2, Pair{"go", "gi"}}, Reorder{[]string{"n", "m", "gt", "go", "gi", "k"}}, Fission{"gi"}), Fuse{"go", "gi", "gi"},
		`fuse gi: accumulator blockleast refers to it`},
	{"w4-g32-m", trace(dot), Fission{"g"}, `fission g: has nothing to divide: no minimums are summed by blocks of groups that are one integer`},
	{"w4-g32-s64", trace(dot, Split{"g", 2, Pair{"gt", "gi"}}), Fission{"gi"}, `fission gi: has nothing to divide: no minimums are summed by blocks of groups that are one integer`},
	{"w4-g32-s64-m", trace(dot, Split{"g", 2, Pair{"gt", "gi"}}), Fission{"gt"}, `fission gt: is not a loop over the groups of a block`},
	{"w4-g32-s64-m", trace(dot, Split{"g", 2, Pair{"gt", "gi"}}), Fission{"k"}, `fission k: is not a loop over the groups of a block`},
	{"w4-g32-s128-m", trace(dot, Split{"g", 4, Pair{"gt", "gi"}}, Split{"gi", 2, Pair{"go", "gi"}}, Fission{"go"}), Fission{"gi"}, `fission gi: minimums are summed in a loop of their own already`},

	{"w2", nil, Prefetch{Bytes: 64}, `prefetch codes: decompose first`},
	{"w2", ready(), Prefetch{Bytes: 100}, `prefetch codes: 100 bytes: want a multiple of 64 up to 1 MiB`},
	{"w2", ready(), Prefetch{Bytes: -64}, `prefetch codes: -64 bytes: want a multiple of 64 up to 1 MiB`},
	{"w2", ready(), Prefetch{}, `prefetch codes: 0 bytes: want a multiple of 64 up to 1 MiB`},
	{"w2", ready(), Prefetch{Bytes: 64, Every: true}, `prefetch codes: every line of none into the second-level cache: want a distance`},
	{"w2", ready(), Prefetch{Act: 64, Rest: true}, `prefetch codes: no lines of the rest of the tiles: want a distance`},
	{"w2", ready(), Prefetch{Bytes: 2048, Far: 2048}, `prefetch codes: 2048 bytes into the second-level cache: want 0 or a multiple of 64 above 2048 up to 1 MiB`},
	{"w2", ready(), Prefetch{Bytes: 2048, Far: 4000}, `prefetch codes: 4000 bytes into the second-level cache: want 0 or a multiple of 64 above 2048 up to 1 MiB`},
	{"w2", trace(ready(), Prefetch{Bytes: 64}), Prefetch{Bytes: 128}, `prefetch codes: already prefetched`},
	{"w2", trace(byTable), Prefetch{Bytes: 64, Act: 100}, `prefetch act: 100 bytes: want 0 or a multiple of 64 up to 1 MiB`},
	{"w2", ready(), Prefetch{Bytes: 64, In: "kt"}, `prefetch kt: no such loop`},
	{"w2", ready(), Prefetch{In: "ks"}, `prefetch ks: runs in no lanes of a workgroup`},
	{"w2", byGroups("n mt l ks f j", "group", "lane"), Prefetch{In: "ks", Act: 64}, `prefetch ks: asks for the next iteration, at no distance`},
	{"w2", byGroups("n mt l ks f j", "group", "lane"), Prefetch{In: "f"}, `prefetch f: is no serial loop of a sum`},
	{"w2", trace(byGroups("n mt l ks f j", "group", "lane"), Prefetch{In: "ks"}), Prefetch{In: "ks"}, `prefetch ks: already prefetched`},

	{"w2", nil, Quantize{Room: 64}, `quantize x: decompose first`},
	{"w2", ready(), Quantize{Room: 1 << 16}, `quantize x: room for 65536 elements: want 1 to 32768`},
	{"w2", trace(ready(), Quantize{Room: 64}), Quantize{Room: 64}, `quantize x: is quantized already`},
	{"w2", trace(byTable), Quantize{Room: 64}, `quantize x: becomes 8-bit activations: not f32 ones, tables of them or filled groups`},

	{"w2", nil, Epilogue{"add", "y"}, `epilogue add: decompose first`},
	{"w2", trace(ready(), Epilogue{"add", "y"}), Epilogue{"mul", "y"}, `epilogue mul: the product ends in an operator already`},
	{"w2", ready(), Epilogue{"plus", "y"}, `epilogue plus: no such operator`},
	{"w2", ready(), Epilogue{"rmsnorm", "x"}, `epilogue rmsnorm: does not make each f32 of one vector by itself`},
	{"w2", ready(), Epilogue{"scale", "by"}, `epilogue scale: input by has one element`},
	{"w2", ready(), Epilogue{"add", "z"}, `epilogue add: has no input "z"`},

	{"w2", nil, packed, `pack codes: decompose first`},
	{"w2", ready(), packed, `pack codes: already packed`},
	{"w2", ready(), Pack{Tensor: "scales"}, `pack scales: no such tensor; have codes, act`},
	{"w2", ready(), Pack{Tensor: "act", Chunk: 6}, `pack act: chunk 6: want a multiple of 4 up to 4096`},
	{"w2", ready(), Pack{Tensor: "act", Chunk: 8, Map: "dense"}, `pack act: takes a chunk only`},
	{"w2", ready(), Pack{Tensor: "act", Chunk: 8, Lead: true}, `pack act: takes a chunk only`},
	{"w2", with(ready(), "", Pack{Tensor: "act", Chunk: 8}), Pack{Tensor: "act", Chunk: 16}, `pack act: already packed`},
	{"w2", unpacked(), Pack{Tensor: "codes", Chunk: 8}, `pack codes: takes no chunk`},
	{"w2", unpacked(), pack("mt shared ks l j", "f"), `pack shared: pieces are iterations of loops within a record: name it behind one of them`},
	{"w2", unpacked(), pack("mt ks shared l j", "f"), `pack shared: pieces are iterations of loops within a record: name it behind one of them`},
	{"w2", unpacked(), pack("mt ks words shared l j", "f"), `pack shared: shared values lie between cells, not between their words`},
	{"w2", unpacked(), pack("mt ks l shared j", "f"), `pack shared: nothing that is shared is whole in an iteration of l`},
	{"w2", unpacked(), leading("mt ks l j", "f"), `pack codes: nothing that groups share leads a record`},
	{"w2", unpacked(), pack("mt ks l shared shared j", "f"), `pack shared: named twice`},
	{"w2", unpacked(), pack("shared mt", "f"), `pack shared: pieces are iterations of loops within a record: name it behind one of them`},
	{"w4-g32/16", trace(dot, lanes, Split{"g", 4, Pair{"gt", "gi"}}, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}), pack("mt gt gi shared u l j", "f"),
		`pack shared: nothing that is shared is whole in an iteration of gi`},
	{"w2", unpacked(), pack("mt ks l n", "f"), `pack n: no such loop over rows or K`},
	{"w2", unpacked(), pack("mt ks l q", "f"), `pack q: no such loop over rows or K`},
	{"w2", unpacked(), pack("mt ks l l", "f"), `pack l: named twice`},
	{"w2", unpacked(), pack("mt ks words l words", "f"), `pack words: named twice`},
	{"w2", unpacked(), pack("mt f l j", "ks"), `pack ks: a field loop needs a constant trip count`},
	{"w2", unpacked(), pack("mt ks", "l", "f", "j"), `pack codes: 256 fields in a cell`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "sparse"}, `pack codes: no bit map "sparse"; have dense, planes, words, signs`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "dense", Join: 2}, `pack codes: join, mirror, head and fraction are for the maps words and signs, not "dense"`},
	{"ternary", with(byTritsOf(8), "pack"), Pack{Tensor: "codes", Order: []string{"mt", "ks", "words", "l"}, Fields: []string{"f", "digit"}, Map: "signs", Join: 3}, `pack codes: the map signs is for codewords that have one: mirror some of their codes`},
	{"ternary", with(byTritsOf(4), "pack"), Pack{Tensor: "codes", Order: []string{"mt", "ks", "words", "l"}, Fields: []string{"f", "digit"}, Map: "signs", Join: 3, Mirror: 3}, `pack codes: signs lie together by 8 codewords, not 4`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 5}, `pack codes: format: codewords of 5 codes of 4 levels: there must be 2 to 8 codes, and at most 256 ways to choose them`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 4, Head: 1, Mirror: 4}, `pack codes: codewords have a head, are mirrored or are fractions: one of these`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "dense", Fraction: true}, `pack codes: join, mirror, head and fraction are for the maps words and signs, not "dense"`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 4, Fraction: true, Mirror: 4}, `pack codes: codewords have a head, are mirrored or are fractions: one of these`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 3, Head: 1}, `pack codes: format: codewords of 3 codes of 4 levels: with 1 codes at the head they would still have 6 bits, which one lookup tells apart`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "words", Join: 3}, `pack codes: 4 fields are not whole codewords of 3`},
	{"w2", unpacked(), Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "j"}, Fields: []string{"f"}, Map: "planes"}, `pack codes: bit planes have a multiple of 8 fields, not 4`},
	{"w2", unpacked(), pack("mt ks f l j"), `pack codes: format: dense map of 1 fields of 2 bits: does not fill words of 8 bits; use a multiple of 4 fields`},
	{"w2", unpacked(), pack("mt", "f"), `pack codes: the order wants a tile loop and a record loop`},
	{"w2", unpacked(), pack("mt ks l", "f"), `pack j: is not in the layout`},
	{"w2", unpacked(), pack("l ks mt j", "f"), `pack l: the first loop must be the run-time loop over rows`},
	{"w2", unpacked(), pack("mt l ks j", "f"), `pack l: the second loop must be the run-time loop over K: one linear stream`},
	{"w4-g32/16", trace(dot, lanes, Split{"g", 6, Pair{"gt", "gi"}}, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}), pack("mt gt gi u l j", "f"),
		`pack gi: straddles the weight groups of 32`},
	{"w4-g32/16", trace(dot, lanes, Split{"k", 8, Pair{"u", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}), pack("mt g u l j", "f"),
		`pack g: a record of 16 is not a whole number of weight groups of 32`},
	{"w3", trace(dot, lanes, Split{"k", 32, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}}), pack("mt ks l j", "f"), `pack codes: a cell has 3 words: say where they go in the order`},
	{"w2", trace(dot, Split{"m", 4096, Pair{"mt", "mm"}}, Split{"k", 4096, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"u", "f"}}), pack("mt ks mm u", "f"),
		`pack codes: format: layout: tile_m 4096 by record_k 4096; both must be at least 1, their product at most 1048576`},
}

// fourGroups is grouped with records of four groups.
func fourGroups(order string, more ...any) Trace {
	return trace(with(grouped("init"), "reorder"), Split{"g", 4, Pair{"gt", "gi"}}, trace(more...),
		Reorder{strings.Fields(order)}, pack("mt gt gi u l j", "f"))
}

// unfinished are traces that are legal but make no kernel.
var unfinished = []struct {
	weight string
	trace  Trace
	want   string
}{
	{"w4", tiles[:len(tiles)-1], `tile: is held by lanes that have no weights of their own: stage w, shared`},
	{"w4", trace(untiled, tileOf("i", "c", 0), tiles[len(tiles)-2:]), `stage w: needs lanes that share what they read`},
	{"w4", trace(untiled, tileOf("i", "c", 8), Reorder{[]string{"nt", "mt", "ks", "i", "c", "f", "j"}}, tiles[len(tiles)-2:]), `loop f: the loops of a tile are the innermost ones`},
	{"w4", trace(untiled, tileOf("i", "c", 8), Reorder{[]string{"nt", "mt", "ks", "f", "c", "i", "j"}}, tiles[len(tiles)-2:]), `tile: has its rows first, then its columns, then what it sums over`},
	{"w4", trace(untiled, tileOf("i", "c", 8), tiles[len(tiles)-2], Rfactor{"f"}, WidenEvery{"f"}, Accumulate{"i16"}, tiles[len(tiles)-1]), `tile: sums to 32 bits: accumulate i32`},
	{"w2", nil, `trace: has no decompose`},
	{"w2", trace(ready(), SplitK{4}), `split_k: is for targets with workgroups: bind tiles of rows, and columns, to group`},
	{"w4-g32", trace(dot, Bind{"n", "group"}, Split{"m", 16, Pair{"mt", "l"}}, Bind{"mt", "group"}, Bind{"l", "lane"}, Split{"g", 2, Pair{"gt", "gi"}}, Split{"k", 8, Pair{"u", "kk"}},
		Split{"kk", 4, Pair{"f", "j"}}, Bind{"f", "unrolled"}, Tensorize{Loop: "j", To: "dot4"}, Reorder{strings.Fields("n mt l gt gi u f j")}, pack("mt gt gi u l j", "f"), SplitK{4}),
		`loop gi: the floats of groups that workgroups share are added in order, one of each iteration and lane: bind it to lanes`},
	{"w4", trace(tiles, SplitK{4}), `split_k: is for lanes that have sums of their own, not for tiles`},
	{"w2", trace(ready(), Epilogue{"add", "y"}), `epilogue: is for targets with workgroups: bind tiles of rows to group`},
	{"w4", trace(tiles, Epilogue{"add", "y"}), `epilogue: is for lanes that have floats of their own, not for tiles that lanes hold together`},
	{"w2", trace(ready(), Quantize{Room: 64}), `quantize: is for products of one column, bound to group, in lanes`},
	{"w2", trace(inGroups(), Quantize{Room: 64}), `quantize: loop act.k of 1 elements: must make whole iterations of the product's loop over K`},
	{"w2", trace(inGroups(), Quantize{Trace{Split{"act.k", 8, Pair{"act.o", "act.l"}}, Bind{"act.l", "lane"}}, 64}),
		`quantize: lanes [8] of stage act: must be the same number as in the product`},
	{"w4-g32-m", trace(dot, Bind{"n", "group"}, Split{"m", 16, Pair{"mt", "l"}}, Bind{"mt", "group"}, Bind{"l", "lane"}, Split{"k", 8, Pair{"u", "kk"}},
		Split{"kk", 4, Pair{"f", "j"}}, Bind{"f", "unrolled"}, Tensorize{Loop: "j", To: "dot4"}, Reorder{strings.Fields("n mt l g u f j")}, pack("mt g u l j", "f"), Quantize{Room: 64}),
		`quantize: makes no sums of activations that are multiplied by their scales`},
	{"w2", unpacked(), `trace: has no pack of the codes`},
	{"w4-g32-z", with(grouped("init"), "hoist_zero", pack("mt g u l j", "f")), `zero points: need hoist_zero: level - zero does not fit a byte`},
	{"w2", with(ready(), "bind", Bind{"mt", "outer"}), `loop n: counts rows or columns at run time: bind it outer`},
	{"w2", with(ready(), "reorder", Reorder{[]string{"mt", "ks", "n", "f", "l", "j"}}), `loop n: outer loops come first`},
	{"w2", byGroups("n mt ks l f j", "group", "lane"), `loop l: lanes of rows come right after outer loops`},
	{"w2", trace(dot, Stage{Value: "act", At: "k"}, byGroups("n mt l ks f j", "group", "lane")[1:]), `stage act at k: needs a serial loop of this name`},
	{"w2", trace(byGroups("n mt ks f l j", "group", "vector"), Stage{Value: "act", At: "ks"}), `stage act: needs lanes that share what they read`},
	{"w2", byGroups("n mt l ks f j", "outer", "lane"), `groups and lanes: need the tiles of rows bound to group`},
	{"w2", with(ready(), "tensorize"), `trace: has no tensorize`},
	{"w2", trace(dot, unsign, columns, Split{"m", 16, Pair{"mt", "mi"}}, Split{"mi", 4, Pair{"s", "l"}}, Bind{"mt", "outer"}, Bind{"s", "outer"}, Bind{"l", "vector"},
		Split{"k", 4, Pair{"ks", "j"}}, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"n", "mt", "s", "ks", "l", "j"}}, pack("mt ks l j", "s")),
		`loop s: a call takes all fields of a cell`},
	{"w2", trace(ready(), Prefetch{Bytes: 64, Rest: true}), `prefetch: has no other tiles side by side than the first`},
	{"w2", readyPairs(), `dot2: sums to 16 bits: accumulate i16`},
	{"w2", trace(dot, unsign, columns, lanes, Split{"k", 16, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "jj"}}, Split{"jj", 1, Pair{"jo", "j"}},
		Bind{"f", "unrolled"}, Bind{"jo", "vector"}, Tensorize{Loop: "j", To: "dot1"}, Reorder{[]string{"n", "mt", "ks", "f", "l", "jo", "j"}},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "jo", "j"}, Fields: []string{"f"}, Map: "dense"}), `dot1: sums to 16 bits: accumulate i16`},
	{"w2", trace(ready(), Rfactor{"f"}, Accumulate{"i16"}), `dot4: sums to 32 bits: accumulate i32`},
	{"w2", trace(with(readyPairs(), "hoist_zero"), Rfactor{"jo"}, Accumulate{"i16"}), `dot2: wants unsigned weights: hoist_zero`},
	{"w4-g32", with(grouped("init"), "reorder", Reorder{[]string{"n", "mt", "u", "g", "f", "l", "j"}}, pack("mt g u l j", "f")),
		`loop g: groups enclose their elements: move it outside the loops over k`},
	{"w4-g32", trace(with(grouped("init"), "reorder"), Split{"g", 4, Pair{"gt", "gx"}}, Split{"gx", 2, Pair{"gb", "gi"}}, Bind{"gb", "lane"},
		Reorder{strings.Fields("n mt gt gb gi u f l j")}, pack("mt gt gb gi u l j", "f")), `loop gi: groups are added in order, a group of each lane: bind the innermost loop over groups to lanes`},
	{"w4-g32", fourGroups("n mt gt gi u f l j", Bind{"gi", "vector"}), `loop gi: groups are summed in order, not in lanes`},
	{"w4-g32", fourGroups("n mt gi gt u f l j"), `loop gt: groups are summed in ascending order`},
	{"w2", trace(dot, unsign, columns, Split{"m", 32, Pair{"mt", "mm"}}, Split{"mm", 2, Pair{"l", "mi"}}, Bind{"mt", "outer"}, Bind{"mi", "outer"}, Bind{"l", "vector"},
		fields, Tensorize{Loop: "j", To: "dot4"}, Reorder{[]string{"n", "mt", "mi", "ks", "f", "l", "j"}}, pack("mt ks mi l j", "f")),
		`loop mi: the rows and columns of one call must be consecutive`},
	{"w4-g32-s64", trace(with(grouped("init"), "reorder"), Split{"g", 4, Pair{"gt", "gx"}}, Split{"gx", 2, Pair{"gb", "gi"}}, Stage{Value: "super", At: "gt"},
		Reorder{strings.Fields("n mt gt gb gi u f l j")}, pack("mt gt gb gi u l j", "f")), `loop gb: leaves the super-block: stage super in it`},
	{"w4-g16-s64/32", fourGroups("n mt gt gi u f l j"), `loop gi: leaves a block of groups that are one integer: split it into whole blocks and the groups in them`},
	{"w4-g32-s128", fourGroups("n mt gt gi u f l j", Stage{Value: "super", At: "gi"}), `stage super: is needed when all groups of a block are summed: stage it outside the loops over them`},
	{"w2", with(byNibbles(), "hoist_zero"), `digits: leave a bias to the activation sums: hoist_zero`},
	{"w2", trace(byPairs()[:len(byPairs())-1], Bind{"e", "pair"}), `loop e: a pair becomes two registers of twice the width: accumulate in half the bits of the accumulator above`},
	{"w2", with(byNibbles(), "bind", Bind{"n", "outer"}, Bind{"mt", "outer"}), `loop plane: must be bound unrolled`},
	{"w2", trace(byNibbles(), Pack{Tensor: "act", Chunk: 4}), `pack act: the chunk is not whole blocks of tables`},
	{"w1-f32act", with(floats(), "reorder", Reorder{[]string{"n", "mt", "u", "ks", "plane", "part", "half", "l"}}), `loop ks: floats are summed in ascending order: move it outside the loops of shorter steps`},
	{"w1-f32act", inParts("part", "u"), `loop u: floats are summed in ascending order: move it outside the loops of shorter steps`},
	{"w1-f32act", with(floats(), "bind", Bind{"n", "outer"}, Bind{"mt", "outer"}, Bind{"l", "vector"}, Bind{"u", "vector"}), `loop u: floats are summed in order, not in lanes`},
	{"w1", with(residuals(), "reorder", Reorder{[]string{"n", "mt", "ks", "half", "u", "plane", "part", "l"}}), `loop half: belongs outside the run-time loop over K, which takes the few residuals from a list`},
	{"w2", trace(ready(), Pack{Tensor: "act", Chunk: 32}), `pack act: the chunk does not divide a record of the weights`},
}

// inParts is a product by f32 tables of two parts, in the order of some loops.
func inParts(order ...string) Trace {
	return trace(Decompose{Family: "table", Value: "codes", Parts: []int{4, 4}}, columns, lanes, Split{"k", 4, Pair{"ks", "u"}}, Bind{"u", "unrolled"}, Bind{"part", "unrolled"},
		Reorder{append(append([]string{"n", "mt", "ks"}, order...), "plane", "half", "l")},
		Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "words"}, Fields: []string{"u", "digit"}, Map: "dense"})
}

// TestRefused: each of them is refused, for its reason.
// byGroups is a schedule whose tiles of rows are bound to something, and the rows in them to something else.
func byGroups(order, tiles, rows string) Trace {
	return trace(dot, unsign, columns, Split{"m", 16, Pair{"mt", "l"}}, Bind{"mt", tiles}, Bind{"l", rows}, fields, Tensorize{Loop: "j", To: "dot4"},
		Reorder{strings.Fields(order)}, pack("mt ks l j", "f"))
}

// inGroups is a product of one column in groups of 16 rows, a lane each.
func inGroups() Trace {
	return trace(dot, unsign, Bind{"n", "group"}, Split{"m", 16, Pair{"mt", "l"}}, Bind{"mt", "group"}, Bind{"l", "lane"}, fields, Tensorize{Loop: "j", To: "dot4"},
		Reorder{strings.Fields("n mt l ks f j")}, pack("mt ks l j", "f"))
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		s := start(t, c.weight, c.before)
		_, err := c.step.Apply(s)
		var illegal *Illegal
		if !errors.As(err, &illegal) || err.Error() != c.want {
			t.Errorf("%s: %s; %s\ngot  %v\nwant %s", c.weight, c.before, Trace{c.step}, err, c.want)
		}
	}
}

func TestUnfinished(t *testing.T) {
	for _, c := range unfinished {
		_, err := Compile(productOf(t, c.weight), c.trace)
		var unfinished *Unfinished
		if !errors.As(err, &unfinished) || err.Error() != c.want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", c.weight, c.trace, err, c.want)
		}
	}
}

// gone is what CompilePreparation says where a loop that was named later is split.
const gone = "prefetch in act.k: the loop is no serial loop any more"

// TestPreparing: steps for products refuse to prepare activations.
func TestPreparing(t *testing.T) {
	s, err := NewPreparation(productOf(t, "w2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []Step{dot, unsign, packed, ReadScaled{8}, Accumulate{"i16"}, Stage{Value: "w", At: "amax.k"}, ScaleAt{"begin"}, Prefetch{Bytes: 64}, WidenEvery{"amax.k"}, Fission{"amax.k"}, TileColumns{2, "nb"}, HalvingAdd{"amax.k"}, FillGroups{64}, QuantizeTable{Kind: "i16"}} {
		_, err := Trace{step}.ReplayPreparation(s)
		var illegal *Illegal
		if !errors.As(err, &illegal) || illegal.Reason != "is for products; activations are prepared by loops alone" {
			t.Errorf("%s: %v", Trace{step}, err)
		}
	}
	ahead := Prefetch{In: "act.k"}
	again, err := ahead.ApplyPreparation(s)
	if err != nil {
		t.Fatal(err)
	}
	bound := s
	for _, x := range []PreparationStep{Split{"act.k", 4, Pair{"act.o", "act.i"}}, Bind{"act.i", "unrolled"}} {
		if bound, err = x.ApplyPreparation(bound); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CompilePreparation(productOf(t, "w2"), nil, Trace{ahead, Split{"act.k", 4, Pair{"act.o", "act.i"}}}); fmt.Sprint(err) != gone {
		t.Errorf("%v, want %s", err, gone)
	}
	for _, c := range []struct {
		s    *Preparation
		x    Prefetch
		want string
	}{
		{again, ahead, "already prefetched"},
		{s, Prefetch{In: "act.q"}, "no such loop"},
		{s, Prefetch{Bytes: 64, In: "act.k"}, "asks for the next row, at no distance"},
		{s, Prefetch{Far: 64, In: "act.k"}, "asks for the next row, at no distance"},
		{s, Prefetch{Every: true, In: "act.k"}, "asks for the next row, at no distance"},
		{s, Prefetch{Rest: true, In: "act.k"}, "asks for the next row, at no distance"},
		{s, Prefetch{Tensor: "x", In: "act.k"}, "asks for the next row, at no distance"},
		{s, Prefetch{Act: 64, In: "act.k"}, "asks for the next row, at no distance"},
		{bound, Prefetch{In: "act.i"}, "is no serial loop"},
	} {
		if _, err := c.x.ApplyPreparation(c.s); err == nil || err.Error() != "prefetch "+c.x.In+": "+c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	_, err = Pack{Tensor: "table", Chunk: 4}.ApplyPreparation(s)
	if err == nil || err.Error() != `pack table: this preparation makes no tables` {
		t.Error(err)
	}
	d, err := ir.Decompose(productOf(t, "w2").Weight, ir.DigitBits, 5)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = NewPreparation(productOf(t, "w2"), &ir.Tables{Decomposition: d, ByBit: true, Elem: format.I16, Together: 2}); err != nil {
		t.Fatal(err)
	}
	_, err = Pack{Tensor: "table", Chunk: 16}.ApplyPreparation(s)
	if err == nil || err.Error() != "pack table: chunk 16: want a multiple of 10 up to 4096" {
		t.Error(err)
	}
	for at, want := range map[string]string{"act.k": "stage act.k: is not the innermost loop over tables", "table.x": "stage table.x: is not the innermost loop over tables",
		"q": "stage q: is not the innermost loop over tables", "table.u": "<nil>"} {
		if c, err := (Stage{Value: "wide", At: at}).ApplyPreparation(s); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		} else if err == nil {
			_, err = Stage{Value: "wide", At: at}.ApplyPreparation(c)
			if err == nil || err.Error() != "stage wide: no table is made of wide activations here" {
				t.Error(err)
			}
		}
	}
}

// TestNothingToPrepare: f32 activations are no work without tables.
func TestNothingToPrepare(t *testing.T) {
	const want = "activations: are f32 and read as they are, unless kernels have tables"
	if _, err := NewPreparation(productOf(t, "w1-f32act"), nil); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestGroupRoom: a kernel must not write far beyond the last group.
func TestGroupRoom(t *testing.T) {
	p := productOf(t, "w4-g32")
	p.Act.Group = 32
	for by, want := range map[int]string{64: "<nil>", 128: "stage inv: loop gt: makes more groups at once than callers have room for"} {
		_, err := CompilePreparation(p, nil, Trace{Split{"inv.g", by, Pair{"gt", "gi"}}})
		if fmt.Sprint(err) != want {
			t.Errorf("by %d: %v, want %s", by, err, want)
		}
	}
}

// TestTableChunks: rows are padded within reason, and tables made chunk by chunk.
func TestTableChunks(t *testing.T) {
	p := productOf(t, "w2")
	tables := &ir.Tables{Elem: format.I16, Together: 1}
	var err error
	if tables.Decomposition, err = ir.Decompose(p.Weight, ir.DigitBits, 4); err != nil {
		t.Fatal(err)
	}
	for want, trace := range map[string]Trace{
		"stage table: loop c: pads rows to a multiple of more than 1048576":           {Split{"table.u", 4096, Pair{"a", "b"}}, Split{"a", 256, Pair{"c", "d"}}},
		"stage table: loop a: a workgroup prepares a row of activations":              {Split{"table.u", 8, Pair{"a", "b"}}, Bind{"a", "group"}},
		"stage table: loop a: makes tables of more elements at once than a chunk has": {Pack{Tensor: "table", Chunk: 16}, Split{"table.u", 8, Pair{"a", "b"}}},
	} {
		if _, err := CompilePreparation(p, tables, trace); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFloatSum: no step reaches a state whose lowest sum is a float's, but one
// would not be split up.
func TestFloatSum(t *testing.T) {
	s := start(t, "w2", ready())
	s.main().accumulators = s.main().accumulators[:1]
	_, err := Rfactor{"f"}.Apply(s)
	if err == nil || err.Error() != "rfactor f: would change the order of a float sum" {
		t.Error(err)
	}
}

// TestEveryRule: each reason in this package's source is in a test.
func TestEveryRule(t *testing.T) {
	var tested []string
	for _, c := range refused {
		tested = append(tested, c.want)
	}
	for _, c := range unfinished {
		tested = append(tested, c.want)
	}
	tested = append(tested, "is for products; activations are prepared by loops alone", "would change the order of a float sum",
		"makes more groups at once than callers have room for", "are f32 and read as they are, unless kernels have tables", // TestNothingToPrepare
		"pads rows to a multiple of more than 1048576", "makes tables of more elements at once than a chunk has", "a workgroup prepares a row of activations", "this preparation makes no tables",
		"asks for the next row, at no distance", "is no serial loop", gone, "is not the innermost loop over tables", "no table is made of wide activations here") // TestPreparing, TestFloatSum, TestGroupRoom, TestTableChunks
	for _, c := range refusedOperators {
		tested = append(tested, c.want)
	}
	for _, c := range unfinishedOperators {
		tested = append(tested, c.want)
	}
	tested = append(tested, "is for operators", "is read by 2 stages: a sum ends in one, which sums nothing itself", "is read elsewhere than at the element at hand") // TestRefusedOperators, TestInlineSum
	tested = append(tested, "is not where the group is: each group has elements of its own", "moves activations by no whole chunks",
		"is more than each device lets a workgroup share", "is not indexed by its axes") // TestUnfinishedGroups, TestQuantizer
	for _, reason := range reasons(t) {
		if reason == "%v" {
			continue // the reason is another package's
		}
		rule := regexp.MustCompile(regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(reason), ".*") + "$")
		if !slices.ContainsFunc(tested, rule.MatchString) {
			t.Errorf("no test of %q", reason)
		}
	}
}

// reasons are the last strings of all calls of illegal and of Unfinished literals.
func reasons(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok {
			t.Fatalf("a reason is no literal: %v", e)
		}
		s, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "illegal" {
					add(n.Args[2])
				}
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Unfinished" {
					add(n.Elts[1])
				}
			}
			return true
		})
	}
	if len(out) < 60 {
		t.Errorf("%d reasons found", len(out))
	}
	return out
}

// TestReplayNamesTheStep counts from 0.
func TestReplayNamesTheStep(t *testing.T) {
	_, err := Compile(productOf(t, "w2"), trace(ready(), packed))
	if want := "step 12: pack codes: already packed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var illegal *Illegal
	if !errors.As(err, &illegal) || illegal.Step != "pack" || illegal.Thing != "codes" {
		t.Errorf("%#v", illegal)
	}
	_, err = CompilePreparation(productOf(t, "w2"), nil, trace(Bind{"amax.k", "vector"}))
	if want := "step 0: bind amax.k: its trip count is known at run time only"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
