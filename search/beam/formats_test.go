package beam_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/tests/drawn"
)

// hard are products that take most registers, bits or code: levels that are looked up and too far apart for sums of 16 bits, of several books,
// with zero points, in groups that share the bytes of codes, and the largest groups.
func hard(t *testing.T) (all []ir.Problem) {
	t.Helper()
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
	table := format.Weight{Name: "table23", Bits: 5, Scale: format.F32}
	for c := range 23 {
		table.Levels = append(table.Levels, c*c*c%251-125)
	}
	scaled := table
	scaled.Scale, scaled.Per, scaled.Group, scaled.Super, scaled.Min = format.I8, format.PerGroup, 48, 48, true
	odd := wide(4, 9) // one scale, and a book for each 144 elements
	odd.Per, odd.Group, odd.BookGroup = format.PerTensor, 0, 144
	few, err := ir.Floats(format.Weight{Name: "few", Bits: 6, Levels: []int{-115, -114, -113}, Scale: format.BF16}) // tables are of levels only
	if err != nil {
		t.Fatal(err)
	}
	largest, err := format.Lookup("w1-g65536")
	if err != nil {
		t.Fatal(err)
	}
	return []ir.Problem{
		{Weight: zeros, Act: format.Act{Group: 16}}, {Weight: books}, {Weight: most, Act: format.Act{Group: 16}}, {Weight: least},
		{Weight: blocks, Act: format.Act{Group: 768}}, {Weight: two, Act: format.Act{Float: 2}},
		{Weight: table, Act: format.Act{Group: 48}}, {Weight: scaled, Act: format.Act{Group: 16}}, {Weight: odd}, few, {Weight: largest},
	}
}

// Every format has schedules on every target. One case in 30 runs, drawn by TMACC_SEED, or all with TMACC_LONG=1.
func TestAnyFormat(t *testing.T) {
	type cell struct {
		p  ir.Problem
		on lower.Target
	}
	var all []cell
	for _, p := range hard(t) {
		for _, on := range targets.Ordinary() {
			all = append(all, cell{p, on})
		}
	}
	for _, c := range drawn.Some(drawn.New(t), 30, all) {
		uses, err := beam.Product(t.Context(), c.p, c.on)
		if err != nil {
			t.Errorf("%+v on %s: %v", c.p, c.on.Machine().Name, err)
			continue
		}
		for _, u := range uses {
			if k := u.Kernel; k == nil || k.Code == nil || k.Schedule.Cols != u.Cols || k.Schedule.Trace.String() != u.Trace.String() {
				t.Errorf("%+v on %s: the schedule for %d columns has not kept its kernel", c.p, c.on.Machine().Name, u.Cols)
			}
		}
	}
}

// What no schedule can sum is said to overflow.
func TestOverflows(t *testing.T) {
	for _, name := range []string{"w2", "w4"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		p.MaxK = 1 << 24
		var overflow *schedule.Overflow
		if _, err := beam.Product(t.Context(), p, targets.ByName("amd64/avx2")); !errors.As(err, &overflow) || overflow.Type != "i32" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Tables and dot products are layouts of their own, and a product without tables has none.
func TestFamilies(t *testing.T) {
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("amd64/avx2")
	for by, find := range map[string]func(context.Context, ir.Problem, lower.Target) ([][]search.Use, error){"table": beam.Tables, "dot": beam.Dots} {
		all, err := find(t.Context(), p, on)
		if err != nil {
			t.Fatal(err)
		}
		for _, uses := range all {
			if have := uses[0].Trace[0].(schedule.Decompose).Family; have != by || uses[0].Cols != 1 {
				t.Errorf("by %s: %v", by, uses[0].Trace)
			}
		}
	}
	if p, err = ir.Named("w8"); err != nil {
		t.Fatal(err)
	}
	if all, err := beam.Tables(t.Context(), p, on); err == nil {
		t.Errorf("tables of 8 bits: %v", all)
	}
}

// Choosing ends after an interruption with the error of the context, and leaves no goroutine behind.
func TestInterrupted(t *testing.T) {
	p, err := ir.Named("q3_k")
	if err != nil {
		t.Fatal(err)
	}
	on, before := targets.ByName("amd64/avx512vbmi"), runtime.NumGoroutine()
	for _, after := range []time.Duration{0, 3 * time.Millisecond, 150 * time.Millisecond} {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(after, stop)
		if uses, err := beam.Product(ctx, p, on); len(uses) > 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted after %v: %d schedules, %v", after, len(uses), err)
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines are left, %d before", runtime.NumGoroutine(), before)
}
