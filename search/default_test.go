package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
)

// known are the default schedules that tests have asked for, by problem and target.
var known sync.Map

// defaultOf is Default, which is asked once for each problem and target.
func defaultOf(p ir.Problem, on lower.Target) ([]Use, error) {
	key := fmt.Sprintf("%#v on %s", p, on.Machine().Name)
	once, _ := known.LoadOrStore(key, sync.OnceValues(func() ([]Use, error) { return Default(context.Background(), p, on) }))
	return once.(func() ([]Use, error))()
}

// Every built-in format has default schedules on the amd64 targets with the fewest
// and the most features, one of each kind of format on those between, and all
// widths share one layout. One case in three runs, drawn by TMACC_SEED, or all with TMACC_LONG=1.
func TestDefault(t *testing.T) {
	all := append(format.Names(), "w2-g32", "w2-g128", "w4-g32", "w4-g128", "w1-g16", "w3-g48", "w4-g32-z",
		"w1-f32act", "ternary-f32act", "w1-g16-f32act", "w3-g48-f32act", "iq4nl-f32act")
	some := []string{"w1", "w3", "w8", "iq4nl", "w2-g128", "w4-g32-z"}
	type onTarget struct {
		name string
		tg   lower.Target
	}
	var cases []onTarget
	for i, tg := range amd64.Targets() {
		names := all
		if i > 0 && i < len(amd64.Targets())-1 {
			names = some
		}
		for _, name := range names {
			cases = append(cases, onTarget{name, tg})
		}
	}
	for _, c := range drawn.Some(drawn.New(t), 3, cases) {
		t.Run(c.tg.Machine().Name+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			p, err := ir.Named(c.name)
			if err != nil {
				t.Fatal(err)
			}
			checkDefault(t, p, c.tg)
		})
	}
}

// checkDefault checks the layout, and that each schedule has the kernel by which it was chosen: it need not be lowered again.
func checkDefault(t *testing.T, p ir.Problem, tg lower.Target) []Use {
	t.Helper()
	start := time.Now()
	uses, err := defaultOf(p, tg)
	if err != nil {
		t.Fatal(err)
	}
	checkOneLayout(t, p, uses)
	if uses[0].Cols != 1 {
		t.Errorf("the first schedule is for %d columns", uses[0].Cols)
	}
	for _, u := range uses {
		if k := u.Kernel; k == nil || k.Code == nil || k.Schedule.Cols != u.Cols || k.Schedule.Trace.String() != u.Trace.String() {
			t.Errorf("the schedule for %d columns has not kept its kernel", u.Cols)
		}
	}
	t.Logf("%d schedules in %v", len(uses), time.Since(start))
	return uses
}

// checkOneLayout demands that all widths read the same packed matrix.
func checkOneLayout(t *testing.T, p ir.Problem, uses []Use) {
	t.Helper()
	hash := ""
	for _, u := range uses {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			t.Fatal(err)
		}
		if h := k.Weights.Hash(); hash != "" && h != hash {
			t.Errorf("%v: %v: %d columns read another layout", p.Weight, uses[0].Trace[:2], u.Cols)
		} else {
			hash = h
		}
	}
}

// Codes are joined where a table of their codewords is one instruction, levels do
// not fill their bits and groups are whole cells; elsewhere decoding costs more than
// the bytes that it saves.
func TestDefaultJoins(t *testing.T) {
	five := format.Weight{Name: "five", Bits: 3, Levels: []int{-2, -1, 0, 1, 2}, Scale: format.F32}
	three, err := format.Lookup("ternary")
	if err != nil {
		t.Fatal(err)
	}
	grouped := three // five trits fit if 4 more fill a group, 12 more of one of 128 are not worth it
	grouped.Name, grouped.Per, grouped.Group = "ternary-g256-f32", format.PerGroup, 256
	short := grouped
	short.Name, short.Group = "ternary-g128-f32", 128
	full, err := format.Lookup("w2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		weight format.Weight
		target string
		bits   float64
	}{{three, "avx512vbmi", 1.6}, {three, "avx2", 2}, {grouped, "avx512vbmi", 1.6}, {short, "avx512vbmi", 2}, {five, "avx512vbmi", 8.0 / 3}, {full, "avx512vbmi", 2}} {
		p := ir.Problem{Weight: c.weight}
		uses, err := defaultOf(p, amd64.ByName(c.target))
		if err != nil {
			t.Fatal(err)
		}
		k, err := schedule.Compile(p, uses[0].Trace)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Weights.Part(format.Codes).CodeBits(); got != c.bits || len(uses) < 3 {
			t.Errorf("%v on %s: %v bits, %d widths; want %v", c.weight, c.target, got, len(uses), c.bits)
		}
	}
}

// The addresses of what the largest groups share are looked at within 32 bits.
func TestDefaultOfLargestGroup(t *testing.T) {
	w, err := format.Lookup("w1-g65536")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := defaultOf(ir.Problem{Weight: w}, amd64.ByName("avx512vbmi")); err != nil {
		t.Error(err)
	}
}

// defaultUses are the default schedules of a format, with activations in groups of its own.
func defaultUses(t *testing.T, name, target string) (ir.Problem, []Use) {
	t.Helper()
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w, Act: format.Act{Group: w.Group}}
	uses, err := defaultOf(p, amd64.ByName(target))
	if err != nil {
		t.Fatal(err)
	}
	return p, uses
}

// Tiles are as small as small blocks take whole, unless one column takes much longer
// in them: sums of two row vectors wait for each other where a group has two of each.
func TestDefaultTile(t *testing.T) {
	for _, c := range []struct {
		target, format string
		one, small     int // rows
	}{
		{"avx512vbmi", "w4", 64, 64}, {"avx512vbmi", "w2-g128", 32, 32}, {"avx512vbmi", "w4-g128", 64, 32},
		{"avx512vbmi", "w2", 32, 32}, {"zen5", "w2", 32, 32}, {"zen5", "w4", 64, 64}, {"zen5", "w4-g64", 32, 32}, {"zen5", "mxfp4", 32, 32},
	} {
		p, uses := defaultUses(t, c.format, c.target)
		rows := map[int]int{}
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			rows[u.Cols] = min(k.Rows, k.Weights.TileM) // of one tile
		}
		if rows[1] != c.one || rows[small] != c.small {
			t.Errorf("%s on %s: %d rows of one column and %d of %d, want %d and %d", c.format, c.target, rows[1], rows[small], small, c.one, c.small)
		}
	}
}

// Where the strides of loads matter, no iteration of an innermost loop reads more weights of whole bytes
// of a tile than it may (and half as much besides, activations and scales), and no width is left out that a wider one would be
// taken for.
func TestDefaultStride(t *testing.T) {
	tg := amd64.ByName("zen5")
	for _, name := range []string{"w1", "w2", "w3", "w4", "w8", "w2-g128", "w4-g64", "w4-g128", "w4-g256"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		uses, err := defaultOf(p, tg)
		if err != nil {
			t.Fatal(err)
		}
		widths := map[int]bool{}
		for _, u := range uses {
			widths[u.Cols] = true
			if u.Cols > 1 {
				continue
			}
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			m, err := lower.Build(t.Context(), tg, k.Nest)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range lower.Cost(m) {
				if most := tg.Machine().Stride * k.Rows / k.Weights.TileM; c.Bytes > most+most/2 {
					t.Errorf("%s: an iteration reads %d bytes, of weights at most %d", name, c.Bytes, most)
				}
			}
		}
		for i, cols := range Widths[:len(Widths)-1] {
			if wider := Widths[i+1]; widths[wider] && !widths[cols] {
				t.Errorf("%s: widths %v: %d columns would take the kernel for %d", name, widths, cols, wider)
			}
		}
		if (widths[Wider[0]] || widths[Wider[1]]) && !widths[8] {
			t.Errorf("%s: widths %v: 8 columns would take a wider kernel", name, widths)
		}
	}
}

// Formats whose unrolled schedules need too many registers have default schedules
// too.
func TestDefaultOfWideTables(t *testing.T) {
	w := format.Weight{Name: "table23", Bits: 5, Scale: format.F32}
	for c := range 23 {
		w.Levels = append(w.Levels, c*c*c%251-125)
	}
	scaled := w
	scaled.Scale, scaled.Per, scaled.Group, scaled.Super, scaled.Min = format.I8, format.PerGroup, 48, 48, true
	for _, p := range []ir.Problem{{Weight: w, Act: format.Act{Group: 48}}, {Weight: scaled, Act: format.Act{Group: 16}}} {
		for _, tg := range native.Targets(t) {
			if _, err := defaultOf(p, tg); err != nil {
				t.Error(err)
			}
		}
	}
}

// Formats that take most registers have default schedules on every target: levels that
// are looked up and too far apart for sums of 16 bits, of several books, with zero points,
// in groups that share the bytes of codes. On AVX2 some fit only if values are computed
// again, and then without a kernel's first choice of tile.
func TestDefaultOfAnyFormat(t *testing.T) {
	wide := func(bits, books int) format.Weight {
		w := format.Weight{Name: "wide", Bits: bits, Scale: format.F16, Per: format.PerGroup, Group: 128}
		for i := range max(books, 1) << bits {
			w.Levels = append(w.Levels, i*i*89%256-128)
		}
		if books > 0 {
			w.Books, w.BookGroup = books, 64
		}
		return w
	}
	zeros, books, most, least := wide(1, 16), wide(4, 16), wide(8, 0), wide(7, 0)
	zeros.Scale, zeros.Super, zeros.Zero = format.I8, 1024, true
	books.Group, books.BookGroup, books.Zero = 16, 16, true
	most.Scale, most.Super, most.Zero = format.U8, 256, true
	least.Group, least.Min = 48, true
	blocks := wide(3, 11) // two super-blocks of four groups to a group of activations
	blocks.Scale, blocks.Group, blocks.BookGroup, blocks.Super, blocks.Zero = format.I8, 96, 48, 384, true
	two := format.Weight{Name: "two", Bits: 2, Levels: []int{-1, 1}, Per: format.PerGroup, Scale: format.F16, Group: 16} // joined, 16 codes end within a word
	avx2 := amd64.ByName("avx2")
	for _, c := range []struct {
		p     ir.Problem
		on    lower.Target
		again bool
	}{
		{ir.Problem{Weight: zeros, Act: format.Act{Group: 16}}, avx2, true},
		{ir.Problem{Weight: zeros, Act: format.Act{Group: 16}}, amd64.ByName("avxvnni"), false},
		{ir.Problem{Weight: zeros, Act: format.Act{Group: 16}}, arm64.ByName("dotprod"), false},
		{ir.Problem{Weight: books}, avx2, false},
		{ir.Problem{Weight: most, Act: format.Act{Group: 16}}, avx2, false},
		{ir.Problem{Weight: least}, avx2, false},
		{ir.Problem{Weight: blocks, Act: format.Act{Group: 768}}, avx2, true},
		{ir.Problem{Weight: two, Act: format.Act{Float: 2}}, avx2, false},
	} {
		t.Run(fmt.Sprint(c.p.Weight.Bits, c.on.Machine().Name), func(t *testing.T) {
			t.Parallel()
			if got := checkDefault(t, c.p, c.on)[0].Choice.Again; got != c.again {
				t.Errorf("values are computed again: %v, want %v", got, c.again)
			}
		})
	}
}

// Super-scales are kept in registers within each super-block, whatever else a record counts.
func TestSuperOfRecord(t *testing.T) {
	for _, c := range []struct {
		group, super, act int
		at                string
	}{{16, 128, 0, "gt"}, {16, 128, 16, "gt"}, {16, 128, 512, "gb"}, {16, 128, 64, "gt"}, {32, 32, 256, "gi"}} {
		p, err := ir.Named(fmt.Sprintf("w4-g%d-s%d", c.group, c.super))
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = c.act
		choice := layoutChoice(p, amd64.ByName("avx512").Machine(), coding{})
		choice.Cols, choice.Block, choice.AtGroup, choice.Super = 1, choice.Rows, true, true
		trace := choice.Trace(p)
		if !slices.Contains(trace, schedule.Step(schedule.Stage{Value: "super", At: c.at})) {
			t.Errorf("%+v: super-scales are not staged in %s:\n%v", c, c.at, trace)
		}
		if _, err := schedule.Compile(p, trace); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Activations are tables where codes of one bit have no 4-way dot product, or only
// narrow ones, or where bytes with residuals have a lookup of four tables at
// once, and at no more than one bit; with residuals where no group has a scale.
func TestDefaultFamily(t *testing.T) {
	for _, c := range []struct {
		name, target string
		tables       bool
	}{{"w1", "avx2", true}, {"w1-g128", "avxvnni", true}, {"w1", "avxvnni", true}, {"w1", "avx512vbmi", true}, {"w1", "avx512", false}, {"ternary", "avx2", false}, {"w2", "avx2", false}} {
		w, err := format.Lookup(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p := ir.Problem{Weight: w}
		uses, err := defaultOf(p, amd64.ByName(c.target))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			if residual := c.tables && p.GroupK() == 0; (k.Tables != nil) != c.tables || c.tables && k.Tables.Residual != residual {
				t.Errorf("%s on %s, %d columns: tables %v, want %v", c.name, c.target, u.Cols, k.Tables, c.tables)
			}
		}
	}
}

// Two tiles that cost more than one tile read activations once for both, though the estimate of the other order is lower.
// Super-blocks may take the other order, because it needs fewer registers.
func TestTilesOrder(t *testing.T) {
	for _, c := range []struct {
		format       string
		group        int // of activations
		tiles, order int
	}{{"q1_0", 32, 2, 1}, {"w3-g128", 0, 2, 1}, {"q6_k", 16, 2, 0}} {
		p, err := ir.Named(c.format)
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = c.group
		uses, err := DotUses(t.Context(), p, amd64.ByName("zen2")) // q1_0's default is by tables
		if err != nil {
			t.Fatal(err)
		}
		if got := uses[0].Choice; got.Tiles != c.tiles || got.Order != c.order {
			t.Errorf("%s: %d tiles in order %d, want %d in %d", c.format, got.Tiles, got.Order, c.tiles, c.order)
		}
		for _, u := range uses {
			if s, want := u.Choice.Streams, amd64.ByName("zen2").Machine().Scattered; p.Weight.Super > 0 && (s.Far != want.Far || s.Every != want.Every) {
				t.Errorf("%s: %d columns of super-blocks are asked for by %v", c.format, u.Cols, s)
			}
		}
	}
}

// A trace is lowered once, however many choices have it and whether it has a kernel. Each answer names the choice that asked.
func TestKnownTraces(t *testing.T) {
	p, err := ir.Named("w4")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx2")
	d := newDefaults(t.Context(), p, target)
	c := layoutChoice(p, target.Machine(), coding{})
	c.Cols, c.Block, c.Dot, c.Flush = 1, c.Rows, 2, c.Cells
	other := c
	other.Super = true // of super-blocks, which w4 has none of
	wide := c
	wide.Cols = 40 // whose sums no registers hold
	for _, c := range []Choice{c, wide} {
		s, err := d.build(c)
		if fails := c.Cols == wide.Cols; (err != nil) != fails || !fails && s.cost <= 0 {
			t.Fatalf("%d columns: %+v, %v", c.Cols, s, err)
		}
	}
	const mark = 12345 // which no kernel costs: what was lowered again would have its own
	for _, b := range d.known {
		b.work.total = mark
	}
	if s, err := d.build(other); err != nil || s.cost != mark || s.choice != other {
		t.Errorf("lowered again, or told of another choice: %+v, %v", s, err)
	}
	if s, err := d.build(wide); err == nil {
		t.Errorf("what failed does not when it is asked again: %+v", s)
	}
	if s, err := d.cheapest([]Choice{wide, other, c, other}); err != nil || s.cost != mark || s.choice != other { // at once, the first of those that cost least
		t.Errorf("%+v, %v", s, err)
	}
	if len(d.known) != 2 {
		t.Errorf("%d traces are known, want 2", len(d.known))
	}
}

// Where the machine wants tiles side by side, one column has kernels for them if registers hold their sums, two if they cost less, all
// for one packed buffer; others and elsewhere none has, unless the machine has smaller tiles where registers do not.
func TestDefaultTiles(t *testing.T) {
	for _, c := range []struct {
		target, format string
		one, two, few  int // tiles
	}{
		{"zen5", "w4", 2, 1, 1}, {"zen5", "w8", 2, 2, 1}, {"zen5", "w1", 2, 2, 1}, {"zen5", "w4-g32", 2, 1, 1}, {"zen5", "mxfp4", 2, 2, 1}, {"zen5", "w2", 2, 2, 2},
		{"zen4", "w4", 2, 1, 1}, {"zen4", "iq4_nl", 2, 2, 1}, {"zen4", "w3-g64", 2, 1, 1}, {"zen4", "w4-g32-s256-m", 2, 1, 1}, {"avx512vbmi", "w4", 1, 1, 1}, {"avx2", "w4", 1, 1, 1},
		{"zen2", "w4-g32-s256-m", 2, 1, 1}, {"zen5", "w4-g32-s256-m", 1, 1, 1}, // by sums of registers
		{"zen2", "w4", 2, 2, 1}, {"zen2", "w2", 2, 1, 1}, {"zen2", "w4-g32", 2, 2, 1}, {"zen2", "w3", 2, 1, 1}, {"zen2", "cb4x16", 1, 1, 1}, {"zen4", "w2", 1, 1, 1}, {"zen4", "w2-g64", 2, 1, 1}, {"zen2", "w1", 2, 1, 0}, {"avxvnni", "w1", 2, 1, 0}, // by tables of bytes with residuals everywhere; four columns have no kernel
	} {
		p, uses := defaultUses(t, c.format, c.target)
		tiles, layout := map[int]int{}, ""
		super := amd64.ByName(c.target).Machine().SuperTiles
		if got := uses[0].Choice.Streams; p.Weight.Super > 0 && c.one > 1 && super != (nest.Streams{}) && got != super {
			t.Errorf("%s on %s: tiles of super-blocks are asked for by %v", c.format, c.target, got)
		}
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			tiles[u.Cols] = max(k.Rows/k.Weights.TileM, 1)
			if layout != "" && layout != k.Weights.Hash() {
				t.Errorf("%s on %s: %d columns have another layout", c.format, c.target, u.Cols)
			}
			layout = k.Weights.Hash()
		}
		if tiles[1] != c.one || tiles[2] != c.two || tiles[small] != c.few {
			t.Errorf("%s on %s: %d tiles of one column, %d of two and %d of %d, want %d, %d and %d", c.format, c.target, tiles[1], tiles[2], tiles[small], small, c.one, c.two, c.few)
		}
		if last := uses[len(uses)-1]; last.Cols > small && tiles[last.Cols] != 1 {
			t.Errorf("%s on %s: %d columns have %d tiles", c.format, c.target, last.Cols, tiles[last.Cols])
		}
	}
}

// Where the machine wants it, what several groups share leads their record in the layout of all columns, and one column asks for it as for a stream unless it is slow.
func TestDefaultLeads(t *testing.T) {
	for _, c := range []struct {
		target, format string
		leads          bool
		part           string // that would
	}{
		{"zen4", "w4-g32-s256-m", true, "supers"}, {"zen5", "w4-g32-s256-m", false, "supers"}, {"zen4", "q6_k", true, "scales"}, {"zen4", "w4-g32", false, "scales"},
	} {
		p, uses := defaultUses(t, c.format, c.target)
		m := amd64.ByName(c.target).Machine()
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			part := slices.IndexFunc(k.Weights.Parts, func(x format.Part) bool { return x.Name == c.part })
			if part < 0 || (k.Weights.Parts[part].Base == 0) != c.leads {
				t.Errorf("%s on %s, %d columns: leads %v, want %v: %+v", c.format, c.target, u.Cols, !c.leads, c.leads, k.Weights.Parts)
			}
			if one := u.Cols == 1; c.leads && (u.Choice.Streams == m.Alone) != one {
				t.Errorf("%s on %s, %d columns: asked for by %v", c.format, c.target, u.Cols, u.Choice.Streams)
			}
		}
	}
	p, uses := defaultUses(t, "w2-g16-i8-s256-m", "zen4")
	if got, far := uses[0].Choice.Streams, amd64.ByName("zen4").Machine().Slow; got.Every != far.Every || !uses[0].Choice.Lead {
		t.Errorf("%v: what takes long is asked for by %v", p.Weight, got)
	}
}

// Slow weights of four columns and more are asked for as a machine says for those, if it does; w8's are slow from eight columns on.
func TestSlowFew(t *testing.T) {
	for _, c := range []struct {
		target, format string
		from           int // columns, 0: never
	}{{"zen4", "w3", small}, {"zen4", "w1", small}, {"zen4", "w8", 2 * small}, {"zen2", "w3", 0}} {
		_, uses := defaultUses(t, c.format, c.target)
		m := amd64.ByName(c.target).Machine()
		for _, u := range uses {
			got := u.Choice.Streams
			if want := c.from > 0 && u.Cols >= c.from; (got.Ahead == m.SlowFew.Ahead && got.Far == m.SlowFew.Far && got.Every && got.Ahead > 0) != want {
				t.Errorf("%s on %s, %d columns: asked for by %v", c.format, c.target, u.Cols, got)
			}
		}
	}
}

// Two tiles of tables of groups are asked for as a machine says for those.
func TestGroupLookups(t *testing.T) {
	want := ofEach(amd64.ByName("zen4").Machine().GroupLookups, 2)
	for format, groups := range map[string]bool{"q1_0": true, "w1-g128": true, "w1": false, "w4-g128": false} {
		_, uses := defaultUses(t, format, "zen4")
		for _, u := range uses {
			if got := u.Choice.Streams == want; got != (groups && u.Cols == 1) {
				t.Errorf("%s, %d columns: asked for by %v", format, u.Cols, u.Choice.Streams)
			}
		}
	}
}

// What a candidate reads side by side leaves no other width without a kernel.
func TestCompanionsOfTiles(t *testing.T) {
	p, uses := defaultUses(t, "w4", "zen5")
	c := uses[0].Choice
	if c.Tiles != 2 {
		t.Fatalf("one column has %d tiles", c.Tiles)
	}
	have, err := Companions(t.Context(), p, amd64.ByName("zen5"), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(uses) {
		t.Errorf("%d widths, want %d", len(have), len(uses))
	}
	for i := range min(len(have), len(uses)) {
		if have[i].Cols != uses[i].Cols {
			t.Errorf("width %d, want %d", have[i].Cols, uses[i].Cols)
		}
	}
}

// This is about four columns without a 4-way dot product. A 16-bit sum counts a whole group if it can hold that.
// Else it counts the most that it can hold and that registers allow. Without groups it counts one record.
func TestDefaultWidens(t *testing.T) {
	for _, c := range []struct {
		format string
		each   int // elements, 0: all of a group
	}{
		{"w4", 32}, {"w4-g32", 0}, {"mxfp4", 16}, {"tq2_0", 0}, {"w2-g128", 0}, {"w4-g64", 32}, {"w4-g128", 32},
	} {
		p, uses := defaultUses(t, c.format, "zen2")
		i := slices.IndexFunc(uses, func(u Use) bool { return u.Cols == small })
		if i < 0 {
			t.Errorf("%s: no kernel of %d columns", c.format, small)
			continue
		}
		widens := slices.ContainsFunc(uses[i].Trace, func(s schedule.Step) bool { _, ok := s.(schedule.WidenEvery); return ok })
		u, each := uses[i].Choice, 0
		if widens {
			each = u.Flush * u.cellK(p.Weight)
		}
		if u.Dot != 2 || each != c.each {
			t.Errorf("%s: %d products each, widened after %d elements, want %d (0: all)", c.format, u.Dot, each, c.each)
		}
	}
}

// With 16 registers super-scales have some of their own unless that makes more instructions; with 32 always.
func TestDefaultSpares(t *testing.T) {
	for _, c := range []struct {
		format, target string
		own            bool
	}{{"q3_k", "zen2", false}, {"q4_k", "zen2", true}, {"q3_k", "zen5", true}} {
		_, uses := defaultUses(t, c.format, c.target)
		own := slices.ContainsFunc(uses[0].Trace, func(s schedule.Step) bool { x, ok := s.(schedule.Stage); return ok && x.Value == "super" })
		if own != c.own || own != uses[0].Choice.Super {
			t.Errorf("%s on %s: registers for super-scales: %v, want %v", c.format, c.target, own, c.own)
		}
	}
}

// What no schedule can sum is said to overflow, not what the last of those tried left out.
func TestDefaultOverflows(t *testing.T) {
	for _, name := range []string{"w2", "w3", "w4"} {
		for _, target := range []string{"avx2", "avx512"} {
			_, err := Default(t.Context(), ir.Problem{Weight: lookup(t, name), MaxK: 1 << 24}, amd64.ByName(target))
			var overflow *schedule.Overflow
			if !errors.As(err, &overflow) || overflow.Type != "i32" || overflow.Terms != 1<<24 {
				t.Errorf("%s on %s: %v", name, target, err)
			}
		}
	}
}
