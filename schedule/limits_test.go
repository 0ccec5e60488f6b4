package schedule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// TestLimits has the last legal value of what steps limit, and the first illegal one with its refusal.
func TestLimits(t *testing.T) {
	const mib = 1 << 20
	bytes := trace(byTable, QuantizeTable{Kind: "q8"})
	unrolled := func(loop string, n int) Trace {
		return trace(bytes, Split{"k", 4 * n, Pair{"ks", loop}}, Bind{loop, "unrolled"})
	}
	k := func(by int) Split { return Split{"k", by, Pair{"ks", "kk"}} }
	names := func(outer, inner string) Split { return Split{"k", 16, Pair{outer, inner}} }
	index := func(parts ...int) Decompose { return Decompose{Family: "table", Value: "bits", Parts: parts} }
	cell := func(fields int) Trace {
		return trace(dot, unsign, columns, lanes, Split{"k", 4 * fields, Pair{"ks", "kk"}}, Split{"kk", 4, Pair{"f", "j"}})
	}
	tiles := func(n int) Trace {
		return trace(dot, unsign, Split{"m", 16 * n, Pair{"mt", "mm"}}, Split{"mm", 16, Pair{"side", "l"}}, fields)
	}
	words := func(n int) Pack {
		p := pack("mt ks words l j", "f")
		p.Word = n
		return p
	}
	digits := []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4} // 64 digits
	for _, c := range []struct {
		weight    string
		before    Trace
		good, bad Step
		want      string
	}{
		{"w2", ready(), Prefetch{Bytes: 64}, Prefetch{Bytes: 32}, "prefetch codes: 32 bytes: want a multiple of 64 up to 1 MiB"},
		{"w2", ready(), Prefetch{Bytes: mib}, Prefetch{Bytes: mib + 64}, "prefetch codes: 1048640 bytes: want a multiple of 64 up to 1 MiB"},
		{"w2", ready(), Prefetch{Far: 64}, Prefetch{Far: -64}, "prefetch codes: -64 bytes into the second-level cache: want 0 or a multiple of 64 above 0 up to 1 MiB"},
		{"w2", ready(), Prefetch{Far: mib}, Prefetch{Far: mib + 64}, "prefetch codes: 1048640 bytes into the second-level cache: want 0 or a multiple of 64 above 0 up to 1 MiB"},
		{"w2", ready(), Prefetch{Bytes: 64, Far: 128}, Prefetch{Bytes: 64, Far: 64}, "prefetch codes: 64 bytes into the second-level cache: want 0 or a multiple of 64 above 64 up to 1 MiB"},
		{"w2", ready(), Prefetch{Far: 128, Every: true}, Prefetch{Bytes: 128, Every: true}, "prefetch codes: every line of none into the second-level cache: want a distance"},
		{"w2", ready(), Prefetch{Far: 128, Rest: true}, Prefetch{Act: 128, Rest: true}, "prefetch codes: no lines of the rest of the tiles: want a distance"},
		{"w2", ready(), Prefetch{Bytes: 128, Rest: true}, Prefetch{Act: 128, Rest: true}, "prefetch codes: no lines of the rest of the tiles: want a distance"},
		{"w2", ready(), Prefetch{Act: 64}, Prefetch{Act: -64}, "prefetch act: -64 bytes: want 0 or a multiple of 64 up to 1 MiB"},
		{"w2", ready(), Prefetch{Act: mib}, Prefetch{Act: mib + 64}, "prefetch act: 1048640 bytes: want 0 or a multiple of 64 up to 1 MiB"},
		{"w2", ready(), Prefetch{Bytes: 64, Act: 64}, Prefetch{Bytes: 64, Act: 96}, "prefetch act: 96 bytes: want 0 or a multiple of 64 up to 1 MiB"},

		{"w2", ready(), Pack{Tensor: "act", Chunk: 4}, Pack{Tensor: "act"}, "pack act: chunk 0: want a multiple of 4 up to 4096"},
		{"w2", ready(), Pack{Tensor: "act", Chunk: 4096}, Pack{Tensor: "act", Chunk: 4100}, "pack act: chunk 4100: want a multiple of 4 up to 4096"},
		{"w2", ready(), Pack{Tensor: "act", Chunk: 8}, Pack{Tensor: "act", Chunk: 6}, "pack act: chunk 6: want a multiple of 4 up to 4096"},
		{"w2", cell(16), words(1), words(3), "pack codes: words of 3 bytes: want 1, 2 or 4"},
		{"w2", cell(16), words(4), words(8), "pack codes: words of 8 bytes: want 1, 2 or 4"},
		{"w2", tiles(16), pack("mt side ks l j", "f"), nil, ""},
		{"w2", tiles(17), nil, pack("mt side ks l j", "f"), "pack side: 17 tiles side by side: at most 16"},
		{"w2", cell(64), pack("mt ks words l j", "f"), nil, ""},
		{"w2", cell(65), nil, pack("mt ks words l j", "f"), "pack codes: 65 fields in a cell"},
		{"w2", ready(), ReadScaled{2}, ReadScaled{1}, "read_scaled codes: below 1: want 2 to 8"},
		{"w2", ready(), ReadScaled{8}, ReadScaled{9}, "read_scaled codes: below 9: want 2 to 8"},

		{"w2", trace(dot), k(1), k(0), "split k: 0 is not between 1 and 4096"},
		{"w2", trace(dot), k(4096), k(4097), "split k: 4097 is not between 1 and 4096"},
		{"w2", trace(dot, Split{"k", 256, Pair{"kt", "kk"}}), Split{"kt", 4096, Pair{"ks", "ku"}}, nil, ""},
		{"w2", trace(dot, Split{"k", 257, Pair{"kt", "kk"}}), nil, Split{"kt", 4096, Pair{"ks", "ku"}}, "split kt: an iteration would advance by 1052672, at most 1048576"},
		{"w2", trace(dot), names("abcdefghijklmnop", "b"), names("abcdefghijklmnopq", "b"), "want two different loop names of up to 16 small letters"},
		{"w2", trace(dot), names("b", "abcdefghijklmnop"), names("b", "abcdefghijklmnopq"), "want two different loop names of up to 16 small letters"},

		{"w2", trace(dot, k(64)), Bind{"kk", "unrolled"}, nil, ""},
		{"w2", trace(dot, k(65)), nil, Bind{"kk", "unrolled"}, "bind kk: 65 iterations are too many to unroll"},
		{"w2", trace(dot, k(64)), Bind{"kk", "vector"}, nil, ""},
		{"w2", trace(dot, k(128)), nil, Bind{"kk", "vector"}, "bind kk: 128 is not a power of two of at most 64 lanes"},
		{"w2", trace(dot, k(48)), nil, Bind{"kk", "vector"}, "bind kk: 48 is not a power of two of at most 64 lanes"},
		{"w2", trace(dot, Split{"m", 2, Pair{"mt", "e"}}), Bind{"e", "pair"}, nil, ""},
		{"w2", trace(dot, Split{"m", 4, Pair{"mt", "e"}}), nil, Bind{"e", "pair"}, "bind e: a pair is two rows or columns"},

		{"w2", trace(index(1)), QuantizeTable{"split", 1}, QuantizeTable{"split", -1}, "quantize_table split: a lower half of -1 bits: want 1 to 8"},
		{"w2", trace(byTable), QuantizeTable{"split", 8}, QuantizeTable{"split", 9}, "quantize_table split: a lower half of 9 bits: want 1 to 8"},
		{"w2", trace(byTable), QuantizeTable{"q8", 8}, QuantizeTable{"q8", 9}, "quantize_table q8: entries without their lowest 9 bits: want at most 8"},
		{"w2", trace(byTable), QuantizeTable{"q8", 0}, QuantizeTable{"q8", -1}, "quantize_table q8: entries without their lowest -1 bits: want at most 8"},
		{"w1", nil, index(digits...), index(append(digits, 1)...), "an index of 65 elements of K, at most 64"},

		{"w2", unrolled("u", 2), HalvingAdd{"u"}, nil, ""},
		{"w2", trace(bytes, Split{"k", 4, Pair{"ks", "u"}}, Split{"u", 1, Pair{"v", "u"}}, Bind{"u", "unrolled"}), nil, HalvingAdd{"u"}, "halving_add u: 1 iterations: want a power of two"},
		{"w2", trace(bytes, Split{"k", 64, Pair{"ks", "u"}}, Bind{"u", "unrolled"}), HalvingAdd{"u"}, nil, ""},
		{"w2", trace(bytes, Split{"k", 128, Pair{"ks", "uu"}}, Split{"uu", 64, Pair{"v", "u"}}, Bind{"u", "unrolled"}, Bind{"v", "unrolled"}, HalvingAdd{"u"}), nil, HalvingAdd{"v"}, "halving_add v: 128 lookups in an average, at most 64"},
		{"w2", trace(bytes, Split{"k", 64, Pair{"ks", "uu"}}, Split{"uu", 32, Pair{"v", "u"}}, Bind{"u", "unrolled"}, Bind{"v", "unrolled"}, HalvingAdd{"u"}), HalvingAdd{"v"}, nil, ""},
	} {
		s := start(t, c.weight, c.before)
		if c.good != nil {
			if _, err := c.good.Apply(s); err != nil {
				t.Errorf("%s %+v: %v", c.weight, c.good, err)
			}
		}
		if c.bad != nil {
			if _, err := c.bad.Apply(s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %+v: have %v, want %s", c.weight, c.bad, err, c.want)
			}
		}
	}
}

// TestSteps200: a trace read from a file has 200 steps at most.
func TestSteps200(t *testing.T) {
	for _, n := range []int{200, 201} {
		var tr Trace
		text := "[" + strings.TrimSuffix(strings.Repeat(`{"bind":{"loop":"n","to":"outer"}},`, n), ",") + "]"
		err := json.Unmarshal([]byte(text), &tr)
		if n == 200 && (err != nil || len(tr) != n) || n == 201 && (err == nil || err.Error() != "trace: 201 steps, at most 200") {
			t.Errorf("%d steps: %d, %v", n, len(tr), err)
		}
	}
}

// TestPadLimit: rows are padded to a multiple of 2^20 elements at most, here 4 of a table times 4096 times 64.
func TestPadLimit(t *testing.T) {
	p := productOf(t, "w2")
	tables := &ir.Tables{Elem: format.I16, Together: 1}
	var err error
	if tables.Decomposition, err = ir.Decompose(p.Weight, ir.DigitBits, 4); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[int]string{64: "<nil>", 128: "stage table: loop b: pads rows to a multiple of more than 1048576"} {
		_, err := CompilePreparation(p, tables, Trace{Split{"table.u", 4096, Pair{"a", "c"}}, Split{"a", by, Pair{"b", "d"}}})
		if fmt.Sprint(err) != want {
			t.Errorf("%d times 4096: %v, want %s", by, err, want)
		}
	}
}

// TestStageAtFirst: a value can be staged at the outermost loop.
func TestStageAtFirst(t *testing.T) {
	s := start(t, "w2", trace(dot))
	first := s.main().loops[0].Name
	c, err := Stage{Value: "w", At: first}.Apply(s)
	if err != nil {
		t.Fatal(err)
	}
	if staged := c.main().staged; len(staged) != 1 || staged[0].At != first {
		t.Errorf("%+v", staged)
	}
}
