package space

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	table "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/tests/drawn"
)

// problems are products of all built-in formats, some more group lengths, and f32 activations.
func problems(t *testing.T) (out []ir.Problem) {
	t.Helper()
	for _, name := range append(format.Names(), "w2-g32", "w2-g128", "w4-g128", "w1-g16", "w3-g48", "w4-g32-z",
		"w1-f32act", "ternary-f32act", "w1-g16-f32act", "w3-g48-f32act", "iq4nl-f32act") {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
		if grouped := p; p.Weight.Group > 0 && !p.Act.Floats() {
			if grouped.Act.Group = min(p.Weight.Group, 32); grouped.Validate() == nil {
				out = append(out, grouped)
			}
		}
	}
	return out
}

func spaceOf(t *testing.T, p ir.Problem, on lower.Target) *Space {
	t.Helper()
	sp, err := For(p, on)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

// cell is a product on a target.
type cell struct {
	p  ir.Problem
	on lower.Target
}

func (c cell) String() string {
	return fmt.Sprintf("%s, activations by %d, on %s", c.p.Name(), c.p.Act.Group, c.on.Machine().Name)
}

func cellsOf(t *testing.T, on []lower.Target) (out []cell) {
	t.Helper()
	for _, tg := range on {
		for _, p := range problems(t) {
			out = append(out, cell{p, tg})
		}
	}
	return out
}

// member demands that a trace is a point whose states are worth a try.
func member(t *testing.T, c cell, trace schedule.Trace) {
	t.Helper()
	sp := spaceOf(t, c.p, c.on)
	x, err := sp.Parse(trace)
	if err != nil {
		t.Errorf("%v: %v", c, err)
		return
	}
	if x.Trace().String() != trace.String() {
		t.Errorf("%v: %v\nwas read from\n%v", c, x.Trace(), trace)
	}
	s := sp.start
	for i, offer := range x {
		if s, err = sp.decide(i, s, offer); err != nil {
			t.Errorf("%v: %s: %v", c, sp.rules[i].Name, err)
			return
		}
	}
}

// Both schedules of every measured pair of products are points.
func TestPairsAreMembers(t *testing.T) {
	f, err := os.Open("../../docs/lab/pairs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := table.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(p table.Pair) bool { return p.Operator != "" })
	for _, p := range drawn.Some(drawn.New(t), 25, all) {
		q, err := p.Problem()
		if err != nil {
			t.Fatal(err)
		}
		member(t, cell{q, targets.ByName(p.Target)}, p.A)
		member(t, cell{q, targets.ByName(p.Target)}, p.B)
	}
}

// The first point of every product is a kernel on every target.
func TestFirst(t *testing.T) {
	for _, c := range drawn.Some(drawn.New(t), 8, cellsOf(t, targets.Ordinary())) {
		sp := spaceOf(t, c.p, c.on)
		x, err := sp.First()
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		k, err := sp.Kernel(x)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lower.Build(t.Context(), c.on, k.Nest); err != nil {
			t.Errorf("%v: %v\n%v", c, err, x.Trace())
		}
	}
}

// leastShare of the samples lower, on each target.
const leastShare = 0.40

// enough says that of n samples no fewer lower than chance explains: two standard deviations below leastShare.
func enough(lowered, n int) bool {
	return float64(lowered) >= leastShare*float64(n)-2*math.Sqrt(leastShare*(1-leastShare)*float64(n))
}

func TestSamplesLower(t *testing.T) {
	draw := drawn.New(t)
	n := 20
	if draw.Long() {
		n = 500
	}
	for _, tg := range targets.Ordinary() {
		rng, all, lowered := rand.New(rand.NewSource(1)), problems(t), 0
		for range n {
			sp := spaceOf(t, all[rng.Intn(len(all))], tg)
			x, err := sp.Sample(rng)
			if err != nil {
				continue
			}
			k, err := sp.Kernel(x)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lower.Build(t.Context(), tg, k.Nest); err == nil {
				lowered++
			}
		}
		t.Logf("%s: %d of %d samples lower", tg.Machine().Name, lowered, n)
		if !enough(lowered, n) {
			t.Errorf("%s: %d of %d samples lower, want %.0f %%", tg.Machine().Name, lowered, n, 100*leastShare)
		}
	}
}

// The same seed draws the same points; mutations and crossings are legal, and most are new; neighbours differ from a point.
func TestMoves(t *testing.T) {
	for i, c := range drawn.Some(drawn.New(t), 80, cellsOf(t, targets.Ordinary())) {
		sp := spaceOf(t, c.p, c.on)
		draw := func() (points []Point) {
			rng := rand.New(rand.NewSource(int64(i)))
			for range 3 {
				for _, move := range []func() (Point, error){
					func() (Point, error) { return sp.Sample(rng) },
					func() (Point, error) { return sp.Mutate(rng, points[len(points)-1]) },
					func() (Point, error) { return sp.Cross(rng, points[0], points[len(points)-1]) },
				} {
					if x, err := move(); err == nil {
						points = append(points, x)
					} else if len(points) == 0 {
						t.Fatalf("%v: %v", c, err)
					}
				}
			}
			return points
		}
		points := draw()
		if again := draw(); !reflect.DeepEqual(points, again) {
			t.Errorf("%v: the same seed draws other points", c)
		}
		seen := map[string]bool{}
		for _, x := range points {
			k, err := schedule.Compile(c.p, x.Trace())
			if err != nil {
				t.Fatalf("%v: %v\n%v", c, err, x.Trace())
			}
			seen[k.Trace.String()] = true
		}
		if len(seen) < len(points)/2 {
			t.Errorf("%v: %d of %d points differ", c, len(seen), len(points))
		}
		neighbours(t, c, sp, points[0])
	}
}

// neighbours demands that what differs from x in one decision compiles, differs from it, and is there for many rules.
func neighbours(t *testing.T, c cell, sp *Space, x Point) {
	t.Helper()
	n, rules := 0, map[string]bool{}
	err := sp.Neighbours(x, func(rule string, y Point) bool {
		n, rules[rule] = n+1, true
		if y.Trace().String() == x.Trace().String() {
			t.Errorf("%v: %s: a neighbour is the point itself", c, rule)
		}
		if n%20 == 0 {
			if _, err := schedule.Compile(c.p, y.Trace()); err != nil {
				t.Errorf("%v: %s: %v", c, rule, err)
			}
		}
		return true
	})
	if err != nil || n < 20 || len(rules) < 5 {
		t.Errorf("%v: %d neighbours by %d rules, %v", c, n, len(rules), err)
	}
}

// Points of other numbers of columns share the buffers of the first point, and so do their mutations.
func TestSharing(t *testing.T) {
	for _, c := range drawn.Some(drawn.New(t), 20, cellsOf(t, targets.Ordinary())) {
		sp := spaceOf(t, c.p, c.on)
		one, err := sp.Columns(1).First()
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		k, err := sp.Kernel(one)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewSource(1))
		for _, n := range []int{2, 4} { // for 8 the registers of some targets are too few
			shared := sp.Sharing(k).Columns(n)
			x, err := shared.Near(one)
			if err != nil {
				t.Errorf("%v: %d columns: %v", c, n, err)
				continue
			}
			for range 3 {
				y, err := sp.Kernel(x)
				if err != nil {
					t.Fatal(err)
				}
				if y.Cols != n || !y.SharesBuffers(k) {
					t.Errorf("%v: %d columns, want %d; the buffers of %v are others than of %v", c, y.Cols, n, y.Trace, k.Trace)
				}
				if x, err = shared.Mutate(rng, x); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A problem that no kernel computes has no points, which is an error of all that draws them: no table has an entry for each five codes of three bits.
func TestNoPoint(t *testing.T) {
	w, err := format.Lookup("w3")
	if err != nil {
		t.Fatal(err)
	}
	sp := spaceOf(t, ir.Problem{Weight: w, Act: format.Act{Float: 5}}, targets.Ordinary()[0])
	rng := rand.New(rand.NewSource(1))
	_, first := sp.First()
	_, sample := sp.Sample(rng)
	_, kind := sp.SampleKind(rng)
	for _, err := range []error{first, sample, kind} {
		if err == nil || err.Error() != "decompose: no decision left" {
			t.Errorf("%v", err)
		}
	}
}

// A kind of step that no rule makes has one before the last rule.
func TestOthers(t *testing.T) {
	rules := slices.DeleteFunc(slices.Clone(products), func(r Rule) bool { return r.Name == "scale" })
	kinds := slices.DeleteFunc(slices.Clone(placed), func(x schedule.Step) bool { return schedule.NameOf(x) == "scale_at" })
	names := (&Space{rules: withOthers(rules, kinds)}).Rules()
	all := (&Space{rules: withOthers(products, placed)}).Rules()
	if n := len(names); n != len(all) || !slices.Contains(names[len(rules)-1:], "scale_at") || names[n-1] != "prefetch" {
		t.Errorf("the rules are %v", names)
	}
	if names := (&Space{rules: withOthers(products, placed)}).Rules(); slices.Contains(names, "inline") {
		t.Errorf("a step of operators is among the rules of products: %v", names)
	}
}

// docs/schedule.md lists the rules of products.
func TestRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/schedule.md")
	if err != nil {
		t.Fatal(err)
	}
	sp := spaceOf(t, problems(t)[0], targets.Ordinary()[0])
	if list := "<!-- rules -->\n" + strings.Join(sp.Rules(), ", ") + "\n"; !strings.Contains(string(page), list) {
		t.Errorf("docs/schedule.md lacks\n%s", list)
	}
}

// Mutations begin with decisions of some rules, kernels have no more columns than they may, and a point with the packing of another one
// has its buffers.
func TestRestricted(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, c := range drawn.Some(drawn.New(t), 6, cellsOf(t, targets.Ordinary())) {
		sp := spaceOf(t, c.p, c.on)
		one, err := sp.Columns(1).First()
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		err = sp.Within(2).Moving("columns", "prefetch").Neighbours(one, func(rule string, y Point) bool {
			if k, err := sp.Kernel(y); err != nil || k.Cols > 2 || rule != "columns" && rule != "prefetch" {
				t.Errorf("%v: %s: %v, %d columns", c, rule, err, k.Cols)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if y, err := sp.Moving().Mutate(rng, one); err != nil || !reflect.DeepEqual(y, one) {
			t.Errorf("%v: %v, a mutation of no rule", c, err)
		}
		other, err := sp.Columns(1).SampleKind(rng)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		k, err := sp.Kernel(other)
		if err != nil {
			t.Fatal(err)
		}
		if y, err := sp.Sharing(k).Relaid(one, other); err == nil {
			if again, err := sp.Kernel(y); err != nil || !again.SharesBuffers(k) {
				t.Errorf("%v: %v, the buffers of %v are others than of %v", c, err, y.Trace(), k.Trace)
			}
		}
	}
}

// Samples by kind are of tables as often as there are kinds of tables, whose decisions are many.
func TestSampleKind(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	sp := spaceOf(t, p, targets.ByName("avx512vbmi"))
	rng, kinds := rand.New(rand.NewSource(1)), map[string]int{}
	for range 60 {
		x, err := sp.SampleKind(rng)
		if err != nil {
			t.Fatal(err)
		}
		kinds[namesIn(slices.Concat(x[:3]...))]++
	}
	if len(kinds) < 8 || kinds["table bits u8 "] == 0 {
		t.Errorf("kinds %v", kinds)
	}
}

// Smaller points take the fewest bits that codes of a format can be joined to, each by another map; groups are filled up where codewords
// do not divide them. Where codes fill their bits there are none.
func TestSmaller(t *testing.T) {
	for _, c := range []struct {
		name       string
		bits, fill int
	}{{"ternary", 16, 0}, {"tq2_0", 16, 260}, {"w2", 0, 0}} {
		p, err := ir.Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		sp := spaceOf(t, p, targets.ByName("amd64/avx512vbmi")).ByTables(false).Columns(1)
		x, err := sp.First()
		if err != nil {
			t.Fatal(err)
		}
		all := sp.Smaller(x)
		if (len(all) > 1) != (c.bits > 0) {
			t.Errorf("%s: %d smaller points", c.name, len(all))
		}
		maps := map[string]bool{}
		for _, y := range all {
			k, err := sp.Kernel(y)
			if err != nil {
				t.Fatal(err)
			}
			codes := k.Weights.Part(format.Codes)
			if got := codes.CodeBits(); got != float64(c.bits)/10 || k.Fill != c.fill {
				t.Errorf("%s: %v bits, groups filled to %d, want %d tenths and %d", c.name, got, k.Fill, c.bits, c.fill)
			}
			maps[fmt.Sprint(codes.Map, codes.Codewords)] = true
		}
		if len(maps) != len(all) {
			t.Errorf("%s: %d maps of %d points", c.name, len(maps), len(all))
		}
	}
}

// The first table of each kind is the largest one that an instruction looks up in.
func TestKinds(t *testing.T) {
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]int{"amd64/avx2": 16, "amd64/avx512vbmi": 64} {
		sp := spaceOf(t, p, targets.ByName(name)).Columns(1)
		x, err := sp.First()
		if err != nil {
			t.Fatal(err)
		}
		tables := 0
		for _, y := range sp.Spare().Kinds(x, 1) {
			states, err := sp.states(y)
			if err != nil {
				t.Fatal(err)
			}
			if n := states[len(states)-1].(*schedule.Product).Looked(); len(n) > 0 {
				if tables++; len(n) > 1 || n[0] > most || 4*n[0] < most {
					t.Errorf("%s: %v: tables of %v entries, want one of about %d", name, y[:3], n, most)
				}
			}
		}
		if tables == 0 {
			t.Errorf("%s: no kind has tables", name)
		}
	}
}

// Other kinds have another decision by which a point is of its kind, and equal means.
func TestOtherKinds(t *testing.T) {
	p, err := ir.Named("w4")
	if err != nil {
		t.Fatal(err)
	}
	sp := spaceOf(t, p, targets.ByName("amd64/avx512vbmi")).Columns(1)
	x, err := sp.First()
	if err != nil {
		t.Fatal(err)
	}
	all := sp.OtherKinds(x, 2)
	for _, y := range all {
		if sp.Means(y) != sp.Means(x) || y[:3].Trace().Key() == x[:3].Trace().Key() {
			t.Errorf("%v is of no other kind than %v, or by other means", y, x)
		}
	}
	if len(all) == 0 {
		t.Error("levels that are computed have none that are looked up beside them")
	}
}
