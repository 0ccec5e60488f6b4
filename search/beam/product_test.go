package beam

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/drawn"
)

// cell is a product on a target.
type cell struct {
	p  ir.Problem
	on lower.Target
}

func cells(t *testing.T) (out []cell) {
	t.Helper()
	for _, name := range format.Names() {
		w, err := format.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range targets.Ordinary() {
			out = append(out, cell{ir.Problem{Weight: w, Act: blocks.UsualAct(w)}, on})
		}
	}
	return out
}

// Schedules of a drawn product are for ascending numbers of columns and one packed matrix, are exact, and lower. By the model they are no slower
// than the first point of the space.
func TestProduct(t *testing.T) {
	all := cells(t)
	for _, c := range drawn.Some(drawn.New(t), len(all), all) {
		uses, err := Product(t.Context(), c.p, c.on)
		if err != nil {
			t.Errorf("%s on %s: %v", c.p.Name(), c.on.Machine().Name, err)
			continue
		}
		usable(t, c, uses)
		var traces []schedule.Trace
		for _, u := range uses {
			traces = append(traces, u.Trace)
		}
		if have, first := scoreOf(t, c, traces), scoreOf(t, c, []schedule.Trace{firstOf(t, c)}); have > first {
			t.Errorf("%s on %s: %.3f worse than the first point", c.p.Name(), c.on.Machine().Name, have-first)
		}
	}
}

// firstOf is the first point of the space for one column that takes half of the registers.
func firstOf(t *testing.T, c cell) schedule.Trace {
	t.Helper()
	sp, err := space.For(c.p, c.on)
	if err != nil {
		t.Fatal(err)
	}
	x, err := sp.Columns(1).Spare().First()
	if err != nil {
		t.Fatal(err)
	}
	return x.Trace()
}

// usable demands that schedules make a variant.
func usable(t *testing.T, c cell, uses []search.Use) {
	t.Helper()
	var first *schedule.Kernel
	last := 0
	for _, u := range uses {
		k, err := schedule.Compile(c.p, u.Trace)
		if err != nil {
			t.Fatalf("%s: %v", c.p.Name(), err)
		}
		if first == nil {
			first = k
		}
		if k.Cols != u.Cols || k.Cols <= last || first.Cols != 1 || !k.SharesBuffers(first) || !k.Exact() {
			t.Errorf("%s on %s: %d columns after %d, exact: %v, %v", c.p.Name(), c.on.Machine().Name, k.Cols, last, k.Exact(), u.Trace)
		}
		last = k.Cols
		if _, err := lower.Build(t.Context(), c.on, k.Nest); err != nil {
			t.Errorf("%s on %s: %v", c.p.Name(), c.on.Machine().Name, err)
		}
	}
}

// scoreOf is what the model says of schedules, +Inf if it refuses all. Kernels that it refuses are left out.
func scoreOf(t *testing.T, x cell, traces []schedule.Trace) float64 {
	t.Helper()
	sp, err := space.For(x.p, x.on)
	if err != nil {
		t.Fatal(err)
	}
	c := newChooser(t.Context(), x.on, sp)
	var ks set
	for _, trace := range traces {
		point, err := sp.Parse(trace)
		if err != nil {
			t.Fatal(err)
		}
		if k := c.find(point, Purposes, math.Inf(1)); k.err == nil {
			ks = append(ks, k)
		}
	}
	if len(ks) == 0 {
		return math.Inf(1)
	}
	return c.score(ks, Purposes)
}

// Any number of threads chooses the same, and an interrupt ends a choice.
func TestProductRepeats(t *testing.T) {
	p, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("amd64/avx512vbmi")
	have, err := Product(t.Context(), p, on)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again, err := Product(t.Context(), p, on); err != nil || !reflect.DeepEqual(have, again) {
		t.Errorf("%v, %v; with several threads %v", again, err, have)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Product(ctx, p, on); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// kernelOf is a kernel of some columns and 16 rows, and its cycles near and far.
func kernelOf(cols int, near, far float64) *kernel {
	return &kernel{Kernel: &schedule.Kernel{Rows: 16, Cols: cols}, least: 1, cycles: map[cost.Place]float64{cost.L2: near, cost.DRAM: far}}
}

// Sets are timed as the runtime cuts activations into blocks, and lose the kernels that are worth nothing.
func TestWorth(t *testing.T) {
	one, four, eight := kernelOf(1, 160, 320), kernelOf(4, 320, 400), kernelOf(8, 1600, 1600)
	ks := set{one, four, eight}
	for _, x := range []struct {
		n         int
		near, far float64
	}{{1, 10, 20}, {2, 20, 30}, {4, 20, 25}, {8, 100, 100}, {9, 110, 110}, {16, 200, 200}} {
		if near, far := ks.time(x.n, cost.L2), ks.time(x.n, cost.DRAM); near != x.near || far != x.far {
			t.Errorf("%d activations take %v and %v, want %v and %v", x.n, near, far, x.near, x.far)
		}
	}
	if best := new(chooser).worth(ks); !reflect.DeepEqual(best, set{one, four}) {
		t.Errorf("%d kernels are worth having", len(best))
	}
}

// A search without hope ends after a third of its budget, every other one at its end.
func TestHopeless(t *testing.T) {
	for _, x := range []struct {
		calls          int
		cost, hopeless float64
		want           bool
	}{{9, 1, 1, false}, {10, 1, 1, true}, {10, 0.9, 1, false}, {10, 1, 0, false}, {30, 0.9, 1, true}} {
		s := &Search{Budget: 30, Hopeless: x.hopeless, calls: x.calls}
		if s.spent([]*Found{{Cost: x.cost}}) != x.want {
			t.Errorf("after %d calls of 30, at %v where %v is hopeless: want spent %v", x.calls, x.cost, x.hopeless, x.want)
		}
	}
}

// Equal loops and layouts are one code; other loops or another layout are not, unless other loops of one layout have equal vector IR.
func TestCodeOf(t *testing.T) {
	of := func(loops string, recordK int) *schedule.Kernel {
		return &schedule.Kernel{Rows: 16, Cols: 1, StepK: 4, Nest: &nest.Nest{Name: loops}, Weights: &format.Layout{TileM: 16, RecordK: recordK}}
	}
	c := newChooser(t.Context(), nil, nil)
	first, other, layout := c.codeOf(of("a", 4)), c.codeOf(of("b", 4)), c.codeOf(of("a", 8))
	if c.codeOf(of("a", 4)) != first || other == first || layout == first {
		t.Error("kernels have the code of other ones, or equal ones have not")
	}
	f := &vir.Func{Name: "f"}
	if c.earlier(first, f) != nil || c.earlier(other, f) != first || c.earlier(layout, f) != nil || c.earlier(c.codeOf(of("c", 4)), &vir.Func{Name: "g"}) != nil {
		t.Error("kernels share what other ones take, or do not with equal vector IR")
	}
}

// What is larger than a size that does not fit is not tried, and of what fits the best one is found. What the search would not keep beside it is left out.
func TestFitting(t *testing.T) {
	p, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := space.For(p, targets.ByName("amd64/avx2"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := sp.Columns(4).First()
	if err != nil {
		t.Fatal(err)
	}
	xs := sp.Columns(4).Around(x, false, "columns", "tile", "call")
	for _, most := range []int{1 << 30, 32, 0} { // rows of what fits
		c := &chooser{ctx: t.Context(), space: sp}
		tried, larger := 0, 0
		cost := func(_ context.Context, x space.Point, _ float64) (float64, error) {
			tried++
			size := c.sizeOf(x)
			if size.rows > most {
				larger++
				return 1, errors.New("too large")
			}
			return 1 / float64(size.rows), nil
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		out, best := c.fitting(&Search{Cost: cost, Width: len(xs), bound: math.Inf(1)}, xs)
		rows := 0
		for _, x := range out {
			if n := c.sizeOf(x).rows; n <= most {
				rows = max(rows, n)
			}
		}
		if tried != len(out) || larger > atOnce || most > 1<<20 && tried != len(xs) || (best == nil) != (rows == 0) || best != nil && c.sizeOf(best).rows != rows {
			t.Errorf("up to %d rows: %d of %d tried, %d of them too large, the best of %d rows has %d", most, tried, len(xs), larger, rows, c.sizeOf(best).rows)
		}
		left, _ := c.fitting(&Search{Cost: cost, Width: 1, bound: math.Inf(1)}, xs)
		for _, x := range left {
			if n := c.sizeOf(x).rows; n < rows {
				t.Errorf("up to %d rows: %d rows are left beside %d", most, n, rows)
			}
		}
	}
}

// Where the code of one column is too long for many, decisions that packing does not depend on begin anew. Vectors of a book are then looked up once for
// all columns.
func TestWiderAnew(t *testing.T) {
	p, err := ir.Named("cb2x16")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("amd64/avx2")
	sp, err := space.For(p, on)
	if err != nil {
		t.Fatal(err)
	}
	c := newChooser(t.Context(), on, sp.Exact())
	x, err := c.space.Columns(1).First()
	if err != nil {
		t.Fatal(err)
	}
	one := c.find(x, of(1), math.Inf(1))
	if one.err != nil {
		t.Fatal(one.err)
	}
	if all := c.wider(set{one}, many, 0); len(all) != 2 || all[1].Cols < 8 {
		t.Errorf("%d kernels, the last one of %d columns, want 2 and at least 8", len(all), all[len(all)-1].Cols)
	}
}

// Levels that are made in another way are tried with the sums that they allow: of w3, neither decision alone gains anything. What Product chooses gains nothing more by it.
func TestOtherwise(t *testing.T) {
	for _, name := range []string{"w3", "q2_0"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		p.Act = blocks.UsualAct(p.Weight)
		on := targets.ByName("amd64/avx512vbmi")
		uses, err := Product(t.Context(), p, on)
		if err != nil {
			t.Fatal(err)
		}
		sp, err := space.For(p, on)
		if err != nil {
			t.Fatal(err)
		}
		c := newChooser(t.Context(), on, sp.Exact())
		var ks set
		for _, u := range uses {
			x, err := sp.Parse(u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			ks = append(ks, c.find(x, Purposes, math.Inf(1)))
		}
		c.leastOf(Purposes, []set{ks})
		for i, k := range ks {
			if again := c.otherwise(ks, i); again[i] != k {
				t.Errorf("%s, %d columns: %.4f better by %v", name, k.Cols, c.score(ks, Purposes)-c.score(again, Purposes), again[i].Trace)
			}
		}
		if name != "w3" {
			continue
		}
		worse := 0
		for _, y := range sp.Columns(1).Sharing(ks[0].Kernel).OtherKinds(ks[0].point, otherKinds) {
			was := slices.Clone(ks)
			was[0] = c.find(y, Purposes, math.Inf(1))
			if was[0].err != nil || c.score(was, Purposes) <= c.score(ks, Purposes) {
				continue
			}
			worse++
			now := c.otherwise(was, 0)
			if c.score(now, Purposes) > c.score(ks, Purposes)+0.01 || !now[0].SharesBuffers(ks[0].Kernel) || now[0].code == nil {
				t.Errorf("%s: %.4f worse than the choice, by %v", name, c.score(now, Purposes)-c.score(ks, Purposes), now[0].Trace)
			}
		}
		if worse == 0 {
			t.Errorf("%s: no other way is worse", name)
		}
	}
}
