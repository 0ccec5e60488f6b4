package tune

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/sparing"
)

func TestMain(m *testing.M) {
	worker.Main()
	sparing.Run(m)
}

// layoutsOf are beam.Layouts of formats, found once for all tests: a func() ([][]search.Use, error) by format.
var layoutsOf sync.Map

// tuner is one of a format on AVX2.
func tuner(t *testing.T, name string, ps ...Purpose) *Tuner {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	if !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	here := measure.Targets()
	if len(here) == 0 {
		t.Skip(measure.ErrNoTarget)
	}
	target := here[0]
	p := ir.Problem{Weight: w}
	find, _ := layoutsOf.LoadOrStore(name, sync.OnceValues(func() ([][]search.Use, error) { return beam.Layouts(context.Background(), p, target) }))
	layouts, err := find.(func() ([][]search.Use, error))()
	if err != nil {
		t.Fatal(err)
	}
	found := func(context.Context, ir.Problem, lower.Target) ([][]search.Use, error) { return layouts, nil }
	x, err := New(t.Context(), Product{Problem: p, Target: target, Purposes: ps, Layouts: found})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A search measures candidates that equal the definition, drops others by reason, and
// what it returns has kernels of other widths for the same packed matrix.
func TestTuner(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	out := Evolve(context.Background(), x.Space(context.Background()), Options{Trials: 24, Batch: 8, Propose: 2, Rng: rand.New(rand.NewSource(1))}, x.Seeds(t.Context())...)
	if len(out.Best) == 0 || out.Trials < 24 || x.ReferenceNs[0] == 0 {
		t.Fatalf("%+v", out)
	}
	for reason := range out.Dropped {
		switch reason {
		case "wrong", "timed out", "crashed SIGSEGV", "crashed SIGILL", "crashed ":
			t.Errorf("%d candidates: %s", out.Dropped[reason], reason)
		}
	}
	best, err := x.Confirm(out.Best)
	if err != nil || len(best) != len(out.Best) || best[0].DefaultNs[0] <= 0 || best[0].Ns[0] <= 0 || best[0].Cost > best[len(best)-1].Cost {
		t.Fatalf("confirmed %d of %d, %v", len(best), len(out.Best), err)
	}
	usual := x.Seeds(t.Context())[0]
	if _, err := x.point(usual); err != nil || !x.IsDefault(usual) {
		t.Fatalf("the default is not the default, %v", err)
	}
	for least, c := range []*Candidate{best[0].Candidate, usual} {
		uses, err := x.Uses(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if uses[0].Cols != 1 || len(uses) < 1+least {
			t.Errorf("%d widths, the first %d", len(uses), uses[0].Cols)
		}
	}
}

// Neighbours of a candidate do the same in other orders, and ask for other data ahead. A trace that was edited to one that the space has not
// has none.
func TestNearby(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	c := x.Seeds(t.Context())[0]
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	ahead, orders := 0, 0
	for _, y := range x.near(c) {
		if _, err := x.point(y); err == nil && !y.Kernels[0].Schedule.SharesBuffers(c.Kernels[0].Schedule) {
			t.Errorf("another layout near the default:\n%v", y.Genes[0].Trace)
		}
		if aheadOf(y.Genes[0].Trace) != aheadOf(c.Genes[0].Trace) {
			ahead++
		} else {
			orders++
		}
	}
	if ahead < 8 || ahead > 40 || orders < 5 {
		t.Errorf("%d prefetches and %d orders near the default", ahead, orders)
	}
	edited := slices.Clone(c.Genes[0].Trace)
	c.Genes[0] = Gene{Trace: append(edited, edited[len(edited)-1])}
	if n := len(x.near(c)); n != 0 {
		t.Errorf("%d neighbours of an edited trace", n)
	}
}

// aheadOf is what a trace asks for ahead.
func aheadOf(t schedule.Trace) (p schedule.Prefetch) {
	for _, x := range t {
		if y, ok := x.(schedule.Prefetch); ok {
			p = y
		}
	}
	return p
}

// asking is a trace that asks for weights some bytes ahead, and nothing else.
func asking(t schedule.Trace, bytes int) schedule.Trace {
	t = slices.DeleteFunc(slices.Clone(t), func(x schedule.Step) bool { _, ok := x.(schedule.Prefetch); return ok })
	return append(t, schedule.Prefetch{Bytes: bytes})
}

// Several purposes share a packed matrix: candidates have a kernel for each width, they are
// measured for each, and count by the mean.
func TestTunerPurposes(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 1, K: 256, Total: 1 << 20}, Purpose{M: 128, N: 9, K: 512})
	var log []Trial
	x.Log = func(r Trial) {
		log = append(log, r)
		x.checkBounds(t, r)
	}
	out, err := x.Search(t.Context(), Options{Trials: 24, Batch: 8, Propose: 2, Rng: rand.New(rand.NewSource(1))}, x.Seeds(t.Context())...)
	if err != nil || len(out.Best) == 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	wide := 0
	for _, r := range log {
		if len(r.Genes) != 2 || r.Error == "" && (len(r.Ns) != 3 || len(r.Ratios) != 3 || r.Ratios[0] <= 0 || math.Abs(CostOf(slices.DeleteFunc(slices.Clone(r.Ratios), func(x float64) bool { return x == 0 }))-r.Cost) > 1e-9) {
			t.Errorf("%d genes, measured %v, %v, %v, %s", len(r.Genes), r.Ns, r.Ratios, r.Cost, r.Error)
		}
	}
	again := tuner(t, "w4", x.Purposes...)
	known := again.Resume(log)
	for _, c := range known {
		if _, err := again.point(c); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range again.measure(t.Context(), known) {
		if r.Err == nil && (len(r.Ratios) != 3 || r.Ratios[0] <= 0 || len(known[i].ratios) > 0) {
			t.Errorf("of what was measured before the ratios are %v, now %v", r.Ratios, known[i].ratios)
		}
	}
	for _, f := range out.Best {
		first := f.G.Kernels[0].Schedule
		for _, k := range f.G.Kernels[1:] {
			if wide++; k.Schedule.Cols < 2 || k.Schedule.Cols > 9 || !first.SharesBuffers(k.Schedule) {
				t.Errorf("kernels of %d and %d columns", first.Cols, k.Schedule.Cols)
			}
		}
	}
	if wide == 0 {
		t.Error("no candidate has a wide kernel")
	}
	best, err := x.Confirm(out.Best)
	if err != nil || len(best) != len(out.Best) {
		t.Fatalf("%v: %v", err, best)
	}
	for _, c := range best {
		if len(c.DefaultNs) != 3 || len(c.Ns) != 3 || c.Cost <= 0 {
			t.Fatalf("%+v", c)
		}
		ratios := make([]float64, 3)
		for i := range ratios {
			ratios[i] = c.Ns[i] / c.DefaultNs[i]
		}
		if want := CostOf(ratios); math.Abs(c.Cost-want) > 1e-9 {
			t.Errorf("the cost is %v, of ratios %v it is %v", c.Cost, ratios, want)
		}
		if first := best[0].DefaultNs; c.DefaultNs[0] != first[0] || c.DefaultNs[2] != first[2] {
			t.Errorf("beside %v and %v: from a cache the default counts as in its best rounds", first, c.DefaultNs)
		}
	}
}

// checkBounds expects that the rounds which the tuner keeps give the bounds of a trial, just measured, however few rounds a busy machine
// has left. It leaves out trials that may have had no more than a glance.
func (x *Tuner) checkBounds(t *testing.T, r Trial) {
	if r.Error != "" || slices.Max(r.Ratios) > hopeless {
		return
	}
	c := &Candidate{Genes: r.Genes}
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	for p, ratio := range r.Ratios {
		if ratio == 0 { // not measured
			continue
		}
		m := x.times[x.uses(x.target(c, 0), p)]
		if low, high := Bounds(m.ratio, m.rounds); ratio != m.ratio || r.Low[p] != low || r.High[p] != high {
			t.Errorf("a ratio of %v has bounds %v and %v; %v has %v and %v by its %d rounds", ratio, r.Low[p], r.High[p], m.ratio, low, high, len(m.rounds))
		}
	}
}

// Genes of one packed matrix are joined that were best for the activations of their width, as far as is known; of what was not
// measured from memory it has to be measured first.
func TestJoin(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 1, K: 256, Total: 1 << 20}, Purpose{M: 64, N: 4, K: 256})
	usual := x.Seeds(t.Context())[0]
	made := func(ahead, cols [2]int, ratios ...float64) *Candidate {
		c := &Candidate{}
		for i, g := range usual.Genes {
			trace := asking(g.Trace, ahead[i])
			if cols[i] == 1 {
				trace = usual.Genes[0].Trace
			}
			c.Genes = append(c.Genes, Gene{Trace: trace})
		}
		if _, err := x.point(c); err != nil {
			t.Fatal(err)
		}
		c.ratios = ratios
		return c
	}
	measured := func(ahead [2]int, ratios ...float64) *Candidate { return made(ahead, [2]int{8, 8}, ratios...) }
	for _, step := range []struct {
		c    *Candidate
		want []int // what the genes of the joined candidate ask for ahead, nil: there is none
	}{
		{measured([2]int{128, 128}, 1, 1, 1), nil},
		{measured([2]int{512, 512}, 0.9, 0.9, 1.1), []int{512, 128}},
		{measured([2]int{1024, 1024}, 1.2, 1.2, 0.8), []int{512, 1024}},
		{measured([2]int{1536, 1536}, 0.8, 0, 2), []int{1536, 1024}}, // good for all that was measured
		{measured([2]int{1536, 1024}, 0.8, 3, 0.8), nil},             // but not from memory
		{measured([2]int{2048, 2048}, 0.85, 0.9, 1), []int{2048, 1024}},
		{measured([2]int{3072, 3072}), nil},
		{made([2]int{3072, 3072}, [2]int{8, 1}, 2, 2, 0.1), nil}, // four activations by the kernel of one column
		{measured([2]int{3072, 3072}, 2, 2, 0.7), []int{2048, 3072}},
	} {
		out := x.join([]*Candidate{step.c})
		switch {
		case step.want == nil && len(out) > 0:
			t.Errorf("%v joined to %v", step.c.ratios, out[0].Genes)
		case step.want != nil && (len(out) != 1 || aheadOf(out[0].Genes[0].Trace).Bytes != step.want[0] || aheadOf(out[0].Genes[1].Trace).Bytes != step.want[1]):
			t.Errorf("%v joined to %d, want %v", step.c.ratios, len(out), step.want)
		}
	}
	x.widthBests = map[string][]widthBest{} // a schedule not measured from memory at first may be bad there
	for _, step := range []struct {
		c    *Candidate
		want bool
	}{
		{measured([2]int{128, 128}, 0.8, 0, 1), false}, {measured([2]int{128, 512}, 0.8, 3, 1.1), false}, {measured([2]int{1024, 512}, 0.9, 1, 1), true},
	} {
		if out := x.join([]*Candidate{step.c}); len(out) > 0 != step.want {
			t.Errorf("%v joined: %v, want %v", step.c.ratios, len(out) > 0, step.want)
		}
	}
	other := measured([2]int{128, 128}, 0.1, 0.1, 0.1)
	one, err := x.space.Columns(1).First()
	if err != nil {
		t.Fatal(err)
	}
	for i := range other.Genes {
		other.Genes[i] = geneOf(one)
	}
	if _, err := x.point(other); err != nil {
		t.Fatal(err)
	}
	if out := x.join([]*Candidate{other}); len(out) > 0 {
		t.Error("genes of two packed matrices are joined")
	}
}

// Activations are multiplied by the widest kernel, and the rest by narrower ones, as the runtime cuts them.
func TestUsed(t *testing.T) {
	var kernels []variant.Kernel
	for _, cols := range []int{1, 2, 4, 8} {
		kernels = append(kernels, variant.Kernel{Schedule: &schedule.Kernel{Cols: cols}})
	}
	for n, want := range map[int][]int{1: {1}, 2: {2}, 3: {4}, 4: {4}, 5: {4, 1}, 7: {8}, 8: {8}, 9: {8, 1}, 11: {8, 4}, 16: {8}} {
		var cols []int
		for _, k := range used(kernels, n) {
			cols = append(cols, k.Schedule.Cols)
		}
		if !slices.Equal(cols, want) {
			t.Errorf("%d activations by kernels of %v columns, want %v", n, cols, want)
		}
	}
}

// No kernel is put beside those that were measured that would be used for what these were measured for.
func TestBeside(t *testing.T) {
	for _, c := range []struct{ have, ns, want []int }{
		{[]int{1}, []int{1}, []int{1, 2, 4, 8}},
		{[]int{1, 4}, []int{1, 4}, []int{1, 2, 4, 8}},
		{[]int{1, 8}, []int{1, 4}, []int{1, 8}},      // 4 would do four, and so would 2, twice
		{[]int{1, 2}, []int{1, 4}, []int{1, 2, 8}},   // 2 does four
		{[]int{1, 4}, []int{1, 256}, []int{1, 2, 4}}, // 8 would do 256
		{[]int{1, 8}, []int{1, 11}, []int{1, 8}},     // 8 and 3: 4 would do three, and so would 2 and 1
		{[]int{4}, []int{3}, []int{1, 2, 4, 8}},
	} {
		x := &Tuner{}
		for _, n := range c.ns {
			x.Purposes = append(x.Purposes, Purpose{N: n})
		}
		kernel := func(cols int) variant.Kernel { return variant.Kernel{Schedule: &schedule.Kernel{Cols: cols}} }
		var kernels []variant.Kernel
		for _, cols := range c.have {
			kernels = append(kernels, kernel(cols))
		}
		for _, cols := range []int{1, 2, 4, 8} {
			kernels = x.beside(kernels, kernel(cols))
		}
		var got []int
		for _, k := range kernels {
			got = append(got, k.Schedule.Cols)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("beside %v for %v: %v, want %v", c.have, c.ns, got, c.want)
		}
	}
}

// Trials of a log without a cost or schedules say nothing about candidates: one that takes no time would stay the best.
func TestResumeOdd(t *testing.T) {
	x := &Tuner{Product: Product{Purposes: []Purpose{{M: 64, N: 1, K: 256}}}, known: map[string]Result{}}
	one := make([]Gene, 1)
	got := x.Resume([]Trial{{Genes: one, Hash: "free"}, {Genes: one, Hash: "measured", Cost: 0.9}, {Hash: "nothing", Cost: 0.1}, {Genes: one, Hash: "failed", Error: "wrong"}})
	if len(got) != 1 || len(x.known) != 2 || x.known["measured"].Cost != 0.9 || x.known["failed"].Err == nil {
		t.Errorf("%d candidates, of %v", len(got), x.known)
	}
}

// A search that goes on measures nothing twice, and begins with what was best.
func TestResume(t *testing.T) {
	var log []Trial
	search := func(before []Trial, trials int) (Outcome[*Candidate], []Trial) {
		x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
		log = nil
		x.Log = func(r Trial) { log = append(log, r) }
		out, err := x.Search(t.Context(), Options{Trials: trials, Batch: 8, Propose: 2, Rng: rand.New(rand.NewSource(1))}, append(x.Resume(before), x.Seeds(t.Context())...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out, log
	}
	first, before := search(nil, 16)
	unlucky := before[0]
	unlucky.Cost *= 2
	before = append(before, unlucky, Trial{Genes: unlucky.Genes, Hash: "failed", Error: "timed out"})
	data, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	before = nil
	if err := json.Unmarshal(data, &before); err != nil {
		t.Fatal(err)
	}
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	again := x.Resume(before)
	good := map[string]float64{} // the worst of each
	for _, r := range before {
		if r.Error == "" {
			good[r.Hash] = max(good[r.Hash], r.Cost)
		}
	}
	least := slices.Min(slices.Collect(maps.Values(good)))
	if len(again) != len(good) || x.known[unlucky.Hash].Cost != unlucky.Cost || good[again[0].hash(t, x)] != least {
		t.Errorf("%d candidates of %d trials, want %d; one that is there twice counts %v of %v; the first has cost %v, want %v", len(again), len(before), len(good), x.known[unlucky.Hash].Cost, unlucky.Cost, good[again[0].Hash], least)
	}
	if x.measure(t.Context(), again[:1]); x.best != least {
		t.Errorf("the best that is known has cost %v, want %v", x.best, least)
	}
	out, after := search(before, 8)
	if out.Trials != 8 || len(after) != 8 || len(out.Tried) != 8+len(good) || out.Best[0].Cost > first.Best[0].Cost && first.Best[0].G.Hash != unlucky.Hash {
		t.Errorf("%d trials after %d, %d are logged, %d tried, %d good; best %v after %v", out.Trials, first.Trials, len(after), len(out.Tried), len(good), out.Best[0].Cost, first.Best[0].Cost)
	}
	for _, r := range after {
		if slices.ContainsFunc(before, func(o Trial) bool { return o.Hash == r.Hash }) {
			t.Errorf("%s is measured twice", r.Hash)
		}
	}
}

// hash is that of c once it is compiled.
func (c *Candidate) hash(t *testing.T, x *Tuner) string {
	t.Helper()
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	return c.Hash
}

// Schedules that round are no candidates, and neither are those for more columns than
// there are activations.
func TestTunerRefuses(t *testing.T) {
	w, err := format.Lookup("w1")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx2")
	p := ir.Problem{Weight: w}
	x := &Tuner{Product: Product{Problem: p, Target: target, Purposes: []Purpose{{M: 64, N: 1, K: 256}}}, prepares: map[string]*prepared{}}
	if x.space, err = space.For(p, target); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	found := map[error]bool{}
	for range 5000 {
		c, err := x.space.Within(2).Sample(rng)
		if err != nil {
			continue
		}
		k, err := schedule.Compile(p, c.Trace())
		if err != nil || found[errBounds] && k.Exact() || found[errWide] && k.Cols > 1 {
			continue
		}
		want := error(nil)
		switch {
		case k.Cols > 1:
			want = errWide
		case !k.Exact():
			want = errBounds
		default:
			continue
		}
		var pressure *lower.Pressure
		var refused *nest.Refused
		if _, err := x.point(&Candidate{Genes: []Gene{geneOf(c)}}); errors.As(err, &pressure) || errors.As(err, &refused) {
			continue
		} else if err != want {
			t.Fatalf("%v: %v, want %v", c.Trace(), err, want)
		}
		if found[want] = true; len(found) == 2 {
			return
		}
	}
	t.Errorf("found only %v", found)
}

// What would be the best is measured again and again: luck does not count.
func TestBelieved(t *testing.T) {
	x := &Tuner{}
	for _, c := range []struct {
		costs []float64 // by what was measured once, twice ...
		want  float64
	}{{[]float64{2, 3, 3, 3}, 3}, {[]float64{4}, 4}, {[]float64{1, 5}, 5}, {[]float64{2.5, 2.6, 2.7, 3.1}, 3.1}, {[]float64{2.5, 2.6, 2.7, 2.8}, 2.8}, {[]float64{2.9}, 2.9}} {
		asked := 0
		got, err := x.believed(func(times int) (float64, error) { asked = times; return c.costs[times-1], nil })
		if err != nil || got != c.want || asked != len(c.costs) {
			t.Errorf("%v: %v, %v, asked %d times; want %v", c.costs, got, err, asked, c.want)
		}
	}
}
