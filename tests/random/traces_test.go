package random

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
)

// batchSize is how many traces are assembled together.
const batchSize = 64

// leastShare is the share of samples that must lower on each target.
const leastShare = 0.40

// TestRandomTraces compiles random schedules of random problems, half of them
// samples of the space and half mutations of samples. Each is refused for a typed reason, or
// lowered, run, and equal to the definition; of a part, every stage in between is
// evaluated too. TMACC_SEED replays a run, TMACC_TRACES says how many to try.
func TestRandomTraces(t *testing.T) { testTraces(t, native.All(t), 1000) }

// TestRandomTracesArm does the same on emulated CPUs.
func TestRandomTracesArm(t *testing.T) { testTraces(t, native.Arms(t), 300) }

// testTraces tries n traces, or the number in TMACC_TRACES.
func testTraces(t *testing.T, targets []lower.Target, n int) {
	if testing.Short() {
		n /= 10
	}
	n = drawn.Env(t, "TMACC_TRACES", n)
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "%s: TMACC_SEED=%d TMACC_TRACES=%d; a trace whose kernel ends the process is left in %s\n", t.Name(), seed, n, os.TempDir())
	rng := rand.New(rand.NewSource(int64(seed)))
	batches := make(chan []*attempt)
	var bad failures
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for b := range batches {
				runBatch(&bad, b)
			}
		})
	}
	size := min(batchSize, max(1, n/len(targets))) // each target has its turn
	var all []*attempt
	for len(all) < n {
		target := targets[len(all)/size%len(targets)]
		var b []*attempt
		for range min(size, n-len(all)) {
			b = append(b, &attempt{target: target, seed: rng.Int63()})
		}
		all = append(all, b...)
		batches <- b
	}
	close(batches)
	wg.Wait()
	t.Log("\n" + refusals(all, targets))
	defer bad.report(t, seed) // last, where it is seen
	for _, target := range targets {
		samples, lowered, checked := counts(all, target)
		t.Logf("%s: %d of %d samples lowered (%.0f %%); every stage checked of %d", target.Machine().Name, lowered, samples, 100*float64(lowered)/float64(max(samples, 1)), checked)
		if float64(lowered) < leastShare*float64(samples) {
			t.Errorf("%s: %d of %d samples lowered; want %.0f %%", target.Machine().Name, lowered, samples, 100*leastShare)
		}
	}
}

// attempt is one trace and what became of it.
type attempt struct {
	check.Replay
	target  lower.Target
	sample  bool  // not mutated
	seed    int64 // of problem, trace and inputs
	k       *native.Kernel
	stages  []stage // what was evaluated on the way, if it is to be checked
	checked bool    // they were
	reason  string  // of its refusal
}

// stage is a kernel between trace and machine code.
type stage struct {
	name string
	call check.Call
}

// draw chooses problem and trace: half of the attempts are samples, the others
// mutations of samples. Half of the mutations avoid illegal ones if
// they can find another.
func (a *attempt) draw() {
	rng := rand.New(rand.NewSource(a.seed))
	a.Problem, a.sample = randomProblem(rng), rng.Intn(2) == 0
	a.Trace = sample(rng, a.Problem, a.target)
	if a.sample {
		return
	}
	other, tries := sample(rng, a.Problem, a.target), 1+15*rng.Intn(2)
	for range 1 + rng.Intn(5) {
		for try := range tries {
			next := mutate(rng, a.Trace, other)
			if _, err := schedule.Compile(a.Problem, next); err == nil || try == tries-1 {
				a.Trace = next
				break
			}
		}
	}
}

// sample draws a trace of the space, of any kind or of all traces. It is empty, which is refused, if there is none.
func sample(rng *rand.Rand, p ir.Problem, on lower.Target) schedule.Trace {
	sp, err := space.For(p, on)
	if err != nil {
		return nil
	}
	draw := sp.Sample
	if rng.Intn(2) == 0 {
		draw = sp.SampleKind
	}
	x, err := draw(rng)
	if err != nil {
		return nil
	}
	return x.Trace()
}

// randomProblem draws a format by its name.
func randomProblem(rng *rand.Rand) ir.Problem {
	pick := func(xs ...string) string { return xs[rng.Intn(len(xs))] }
	name := pick("w1", "ternary", "w2", "w3", "w4", "w8", "iq4nl", "cb2x4", "cb2x16", "cb4x16")
	per := pick("tensor", "row", "g16", "g32", "g32", "g48", "g96", "g128", "g160")
	name += "-" + per + pick("-f16", "-f32", "-bf16")
	if strings.HasPrefix(per, "g") {
		name += pick("", "", "", "-z", "-z", "-m", "-m")
		if super := map[string]int{"g16": 64, "g32": 256, "g48": 96, "g128": 256}[per]; super > 0 && rng.Intn(2) == 0 {
			name = strings.NewReplacer("-f16", fmt.Sprint("-s", super), "-f32", fmt.Sprint("-i8-s", super)).Replace(name)
		}
	}
	if strings.HasPrefix(name, "cb") && (per == "g16" || per == "g48" || rng.Intn(2) == 0) {
		name += "-b16"
	}
	w, err := format.Lookup(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	p := ir.Problem{Weight: w}
	if f, ok := randomFloats(rng, w); ok {
		return f
	}
	if rng.Intn(3) > 0 {
		return p
	}
	for p.Act.Group = 16 << rng.Intn(5); p.Validate() != nil; {
		p.Act.Group /= 2
	}
	return p
}

// randomFloats makes the activations of a fifth of all problems f32, summed as usual or
// by another number, if w has sums of them.
func randomFloats(rng *rand.Rand, w format.Weight) (ir.Problem, bool) {
	if rng.Intn(5) > 0 {
		return ir.Problem{}, false
	}
	p, err := ir.Floats(w)
	if rng.Intn(3) == 0 {
		p.Act.Float = 1 + rng.Intn(5)
	}
	return p, err == nil && p.Validate() == nil
}

// complainer is told of faults: a testing.T, or failures.
type complainer interface {
	Errorf(format string, args ...any)
}

// failures are kept for the end of a test.
type failures struct {
	mu   sync.Mutex
	list []string
}

// Errorf keeps a failure.
func (f *failures) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func (f *failures) report(t *testing.T, seed int) {
	for _, s := range f.list {
		t.Error(s)
	}
	if len(f.list) > 0 {
		first, _, _ := strings.Cut(f.list[0], "\n")
		t.Errorf("TMACC_SEED=%d: %d failures, the first: %s", seed, len(f.list), first)
	}
}

// runBatch compiles all of b, assembles what lowers, and runs it.
func runBatch(t complainer, b []*attempt) {
	var ks []*native.Kernel
	for i, a := range b {
		a.draw()
		if r, err := check.ParseReplay([]byte(a.String())); err != nil || r.String() != a.String() {
			t.Errorf("%v: the printed text reads back as\n%s\nnot\n%s", err, r, a)
		}
		a.compile(t, i%8 == 0)
		if a.k != nil {
			ks = append(ks, a.k)
		}
	}
	if len(ks) == 0 {
		return
	}
	unload, err := native.LoadAll(b[0].target, ks)
	if err != nil {
		t.Errorf("assembling: %v", err)
		return
	}
	defer unload()
	for _, a := range b {
		if a.k == nil {
			continue
		}
		if err := a.run(); err != nil {
			t.Errorf("%v\n%s\n%s", err, a.target.Machine().Name, a)
		} else {
			a.checked = a.stages != nil
		}
		a.k, a.stages = nil, nil // all of them would be gigabytes
	}
}

// compile sets k, or the reason why there is none.
func (a *attempt) compile(t complainer, stages bool) {
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("panic: %v\n%s\n%s\n%s", x, debug.Stack(), a.target.Machine().Name, a)
		}
	}()
	var watch []lower.Watch
	if stages {
		watch = append(watch, func(pass string, f *vir.Func) {
			a.stages = append(a.stages, stage{"vir after " + pass, func(args []vir.Arg) error { return vir.Eval(f, args) }})
		})
	}
	var err error
	a.k, err = native.Compile(a.target, a.Problem, a.Trace, watch...)
	if err == nil {
		return
	}
	var ok bool
	if a.reason, ok = search.Refusal(err); !ok {
		t.Errorf("no typed reason: %T: %v\n%s\n%s", err, err, a.target.Machine().Name, a)
	}
}

// run compares the kernel, on odd shapes, with the definition.
func (a *attempt) run() error {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("tmacc-running-%d.json", a.seed))
	if err := os.WriteFile(path, []byte(a.String()), 0o666); err != nil {
		return err
	}
	defer os.Remove(path)
	rng := rand.New(rand.NewSource(a.seed))
	for _, kind := range []check.Kind{check.Extreme, check.Kind(rng.Intn(int(check.NotFinite) + 1))} {
		c := a.shape(rng, kind)
		want := c.Naive()
		got, err := a.k.Run(c)
		if err != nil {
			return err
		}
		if err := check.Equal(a.k.Kernel, got, want, c.M); err != nil {
			return fmt.Errorf("m %d n %d k %d, inputs of kind %d: %w", c.M, c.N, c.K, kind, err)
		}
	}
	return a.checkStages(rng)
}

// mostProducts bounds the work of the definition.
const mostProducts = 200_000

// shape draws a product of odd sizes: up to two calls and two column blocks.
func (a *attempt) shape(rng *rand.Rand, kind check.Kind) *check.Case {
	unit := a.Problem.Unit()
	n := 1 + rng.Intn(2*a.k.Cols)
	m := 1 + rng.Intn(2*max(a.k.Weights.TileM, a.k.Rows))
	k := unit * (1 + rng.Intn(2*a.k.StepK/unit+3))
	for m*n*k > mostProducts {
		switch {
		case n > a.k.Cols:
			n -= a.k.Cols
		case k > 2*unit && k > m:
			k = k / unit / 2 * unit
		case m > 1:
			m /= 2
		default:
			n--
		}
	}
	return check.New(rng, a.Problem, m, n, k, kind)
}

// evalMost bounds the work of evaluating a stage.
const evalMost = 20_000

// checkStages evaluates what led to the kernel on a small product.
func (a *attempt) checkStages(rng *rand.Rand) error {
	if a.k.Rows*a.k.Cols*a.k.StepK > evalMost {
		a.stages = nil
	}
	if a.stages == nil {
		return nil
	}
	k := 2 * a.Problem.Unit()
	for k < a.k.StepK/2 {
		k *= 2
	}
	c := check.New(rng, a.Problem, a.k.Rows, a.k.Cols, k, check.Uniform)
	want := c.Naive()
	f, err := lower.Vectorize(a.k.Nest, "k")
	if err != nil {
		return err
	}
	first := []stage{{"nest", nestCall(a.k.Nest)}, {"vir", func(args []vir.Arg) error { return vir.Eval(f, args) }}}
	for _, s := range append(first, a.stages...) {
		got, err := c.Run(a.k.Kernel, s.call)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if s.name == "nest" && !a.k.Exact() {
			want = got // all stages give the same bits
		}
		if err := check.Compare(got, want, c.M); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// nestCall evaluates a loop nest as a kernel.
func nestCall(n *nest.Nest) check.Call {
	return func(args []vir.Arg) error {
		var in []nest.Arg
		for _, x := range args {
			in = append(in, nest.Arg{Buf: x.Buf, Int: int(x.Int)})
		}
		return nest.Eval(n, in)
	}
}

// counts are the samples for target, those that lowered, and the traces whose
// stages were checked.
func counts(all []*attempt, target lower.Target) (samples, lowered, checked int) {
	for _, a := range all {
		if a.target.Machine().Name != target.Machine().Name {
			continue
		}
		if a.sample {
			samples++
			if a.reason == "" {
				lowered++
			}
		}
		if a.checked {
			checked++
		}
	}
	return samples, lowered, checked
}

// refusals is a table: what became of how many samples and mutations, by target.
func refusals(all []*attempt, targets []lower.Target) string {
	type column struct {
		target string
		sample bool
	}
	n := map[string]map[column]int{}
	total := map[string]int{}
	for _, a := range all {
		what := cmp.Or(a.reason, "(lowered)")
		if n[what] == nil {
			n[what] = map[column]int{}
		}
		n[what][column{a.target.Machine().Name, a.sample}]++
		total[what]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-48s", "")
	for _, t := range targets {
		fmt.Fprintf(&b, " %26s", t.Machine().Name)
	}
	fmt.Fprintf(&b, "\n%-48s%s\n", "reason", strings.Repeat("      samples    mutations", len(targets)))
	for _, what := range slices.SortedFunc(maps.Keys(n), func(x, y string) int {
		return cmp.Or(cmp.Compare(total[y], total[x]), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(&b, "%-48s", what)
		for _, t := range targets {
			fmt.Fprintf(&b, " %13d %12d", n[what][column{t.Machine().Name, true}], n[what][column{t.Machine().Name, false}])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
