package tune

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	tmacc "github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
)

// Product is what to tune: a product on a target of this machine, at one size.
type Product struct {
	Problem ir.Problem
	Target  lower.Target
	Need    []string // CPU features of the target
	M, N, K int
	Total   int // bytes of copies of the weights, used in turn: more than the caches hold, or 0
}

// Candidate is a schedule of a product, for column blocks of one width.
type Candidate struct {
	Choice  search.Choice // that the trace was made of; its layout is that of Choice
	Trace   schedule.Trace
	Kernel  *schedule.Kernel
	Code    *lower.Kernel
	Hash    string  // of its assembly
	ns      float64 // the least that was measured
	prepare *gen.Prepare
}

// Tuner measures candidates against the default schedules of a product.
type Tuner struct {
	Product
	Default     []search.Use
	reference   gen.Target
	prepares    map[string]*gen.Prepare // by tables
	compiled    map[string]compiled
	mu          sync.Mutex    // of prepares and compiled
	ReferenceNs float64       // the least time of the default so far
	Log         func([]Trial) // gets what was measured, nil: nobody
}

// Why candidates are dropped that have a kernel.
var (
	errLayout = errors.New("another layout than its choice")
	errWide   = errors.New("more columns than activations")
	errBounds = errors.New("bounded, not exact")
)

// New compiles the default schedules of p, which must be exact, which everything is compared with.
func New(p Product) (*Tuner, error) {
	t := &Tuner{Product: p, prepares: map[string]*gen.Prepare{}, compiled: map[string]compiled{}}
	var err error
	if t.Default, err = search.Default(p.Problem, p.Target); err != nil {
		return nil, err
	}
	t.reference = gen.Target{Target: p.Target, Need: p.Need}
	for i, u := range t.Default {
		c := &Candidate{Choice: u.Choice, Trace: u.Trace}
		if err := t.compile(c, fmt.Sprintf("reference%d", i)); err != nil {
			return nil, err
		}
		t.reference.Kernels = append(t.reference.Kernels, gen.Kernel{Schedule: c.Kernel, Code: c.Code})
		t.reference.Prepare = c.prepare
	}
	return t, nil
}

// compile makes the kernel of c, and the preparation of its activations.
func (t *Tuner) compile(c *Candidate, name string) error {
	var err error
	if c.Kernel, err = schedule.Compile(t.Problem, c.Trace); err != nil {
		return err
	}
	if c.Code, err = lower.Build(t.Target, c.Kernel.Nest, name); err != nil {
		return err
	}
	c.prepare, err = t.prepare(c.Kernel.Tables)
	return err
}

// prepare is the kernel that makes tables, one for all candidates.
func (t *Tuner) prepare(tables *ir.Tables) (*gen.Prepare, error) {
	id := gen.RuntimeTables(tables).ID
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prepares[id]; p != nil {
		return p, nil
	}
	trace, err := search.DefaultPrepare(t.Problem, tables, t.Target)
	if err != nil {
		return nil, err
	}
	k, err := schedule.CompilePrepare(t.Problem, tables, trace)
	if err != nil {
		return nil, err
	}
	code, err := lower.Build(t.Target, k.Nest, fmt.Sprintf("prepare%d", len(t.prepares)))
	if err != nil {
		return nil, err
	}
	t.prepares[id] = &gen.Prepare{Schedule: k, Code: code}
	return t.prepares[id], nil
}

// Seeds are the default schedules, and the best ones estimated by dot products.
func (t *Tuner) Seeds() []*Candidate {
	uses := slices.Clone(t.Default)
	if more, err := search.DotUses(t.Problem, t.Target); err == nil {
		uses = append(uses, more...)
	}
	var out []*Candidate
	for _, u := range uses {
		if u.Cols <= t.N {
			out = append(out, &Candidate{Choice: u.Choice, Trace: u.Trace})
		}
	}
	return out
}

// Space is the space of t's schedules.
func (t *Tuner) Space(ctx context.Context) Space[*Candidate] {
	return Space[*Candidate]{
		Sample: func(rng *rand.Rand) *Candidate { return t.of(search.Sample(rng, t.Problem, t.Target.Machine())) },
		Mutate: t.mutate,
		Point:  t.point,
		Reason: Reason,
		Measure: func(cs []*Candidate) []Result {
			results := t.measure(ctx, cs)
			t.log(cs, results)
			return results
		},
	}
}

// of is a candidate with no more columns than there are.
func (t *Tuner) of(c search.Choice) *Candidate {
	c.Cols = min(c.Cols, t.N)
	return &Candidate{Choice: c, Trace: c.Trace(t.Problem)}
}

// mutate varies decisions, crosses those of two parents, or edits steps of the trace.
func (t *Tuner) mutate(rng *rand.Rand, a, b *Candidate) *Candidate {
	switch n := rng.Intn(10); {
	case n < 6:
		return t.of(search.Vary(rng, a.Choice, t.Problem, t.Target.Machine()))
	case n < 8:
		return t.of(search.Cross(rng, a.Choice, b.Choice))
	}
	return &Candidate{Choice: a.Choice, Trace: search.Mutate(rng, a.Trace, b.Trace)}
}

// compiled is what point has found out of a candidate.
type compiled struct {
	c   *Candidate
	p   Point
	err error
}

// mostCompiled is how many are kept: their kernels take memory.
const mostCompiled = 2000

// point compiles c, unless another with its trace and choice was compiled before: many
// mutations change nothing, and what was not measured is often proposed again.
func (t *Tuner) point(c *Candidate) (Point, error) {
	own := c.Choice.Trace(t.Problem)
	key := c.Trace.String() + "\n" + own.String()
	t.mu.Lock()
	known, ok := t.compiled[key]
	t.mu.Unlock()
	if ok {
		c.Kernel, c.Code, c.Hash, c.prepare = known.c.Kernel, known.c.Code, known.c.Hash, known.c.prepare
		return known.p, known.err
	}
	p, err := t.newPoint(c, own)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.compiled) >= mostCompiled {
		clear(t.compiled)
	}
	t.compiled[key] = compiled{c, p, err}
	return p, err
}

// newPoint compiles c, whose choice makes the trace own.
func (t *Tuner) newPoint(c *Candidate, own schedule.Trace) (Point, error) {
	if err := t.compile(c, "k"); err != nil {
		return Point{}, err
	}
	switch {
	case c.Kernel.Cols > t.N:
		return Point{}, errWide
	case !c.Kernel.Exact():
		return Point{}, errBounds
	}
	if c.Trace.String() != own.String() {
		k, err := schedule.Compile(t.Problem, own)
		if err != nil || k.Weights.Hash() != c.Kernel.Weights.Hash() {
			return Point{}, errLayout
		}
	}
	f, err := t.Target.Emit("main", []*lower.Kernel{c.Code})
	if err != nil {
		return Point{}, err
	}
	sum := sha256.Sum256(f.Data)
	c.Hash = hex.EncodeToString(sum[:8])
	return Point{ID: c.Hash, Estimate: search.Estimate(c.Kernel, c.Code, t.Total > 0), Features: search.Features(c.Kernel, c.Code)}, nil
}

// Reason classifies why a candidate was dropped.
func Reason(err error) string {
	var crash *worker.Crash
	var timeout *worker.Timeout
	var wrong *worker.Wrong
	switch {
	case errors.As(err, &crash):
		return "crashed " + crash.Signal
	case errors.As(err, &timeout):
		return "timed out"
	case errors.As(err, &wrong):
		return "wrong"
	case errors.Is(err, errLayout), errors.Is(err, errWide), errors.Is(err, errBounds):
		return err.Error()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "interrupted"
	}
	if class, ok := search.Refusal(err); ok {
		return class
	}
	return "other: " + err.Error()
}

// How long candidates are measured: all for a moment, and those that are not much
// slower than the default for longer. At the end the best are measured again.
var (
	glance  = timing.Options{Rounds: 3, MinSample: 20 * time.Microsecond}
	look    = timing.Options{Rounds: 11, MinSample: 50 * time.Microsecond}
	confirm = timing.Options{Rounds: 41, MinSample: 200 * time.Microsecond}
)

// hopeless is how much slower than the default a candidate is at a glance that is not
// looked at again.
const hopeless = 1.5

// limit is how long a candidate may take to be verified or measured.
const limit = 20 * time.Second

// measure compares each candidate with the definition, and then its time with that
// of the default, in the same rounds: the cost is the ratio.
func (t *Tuner) measure(ctx context.Context, cs []*Candidate) []Result {
	out := make([]Result, len(cs))
	code, err := t.load(cs)
	if err != nil && len(cs) > 1 { // one may be what cannot be assembled
		for i := range cs {
			out[i] = t.measure(ctx, cs[i:i+1])[0]
		}
		return out
	}
	if err != nil {
		return []Result{{Err: err}}
	}
	defer code.Close()
	for i, c := range cs {
		if err := ctx.Err(); err != nil {
			out[i].Err = err
			continue
		}
		out[i].Cost, out[i].Err = t.cost(code, c, i)
	}
	return out
}

// log passes on what was measured.
func (t *Tuner) log(cs []*Candidate, results []Result) {
	if t.Log == nil {
		return
	}
	var trials []Trial
	for i, c := range cs {
		x := Trial{Trace: c.Trace, Hash: c.Hash, Ratio: results[i].Cost, Ns: c.ns}
		if err := results[i].Err; err != nil {
			x.Error = Reason(err)
		}
		trials = append(trials, x)
	}
	t.Log(trials)
}

// load assembles the default and candidates, with names by their indices.
func (t *Tuner) load(cs []*Candidate) (*worker.Code, error) {
	ks := live.Kernels(gen.Target{Kernels: t.reference.Kernels})
	prepares := []*gen.Prepare{t.reference.Prepare}
	for i, c := range cs {
		ks = append(ks, t.named(c, i).Code)
		if !slices.Contains(prepares, c.prepare) {
			prepares = append(prepares, c.prepare)
		}
	}
	for _, p := range prepares {
		ks = append(ks, p.Code)
	}
	f, err := t.Target.Emit("main", ks)
	if err != nil {
		return nil, err
	}
	return worker.Load(worker.Options{Limit: limit}, f)
}

// named is the kernel of c with a name by its index in a batch.
func (t *Tuner) named(c *Candidate, i int) gen.Kernel {
	f, m := *c.Code.Func, *c.Code
	f.Name = fmt.Sprintf("k%d", i)
	m.Func = &f
	return gen.Kernel{Schedule: c.Kernel, Code: &m}
}

func (t *Tuner) spec(c *Candidate, i int) tmacc.Spec {
	return live.Spec(t.Problem, gen.Target{Target: t.Target, Need: t.Need, Kernels: []gen.Kernel{t.named(c, i)}, Prepare: c.prepare})
}

func (t *Tuner) timed(s tmacc.Spec) worker.Timed {
	return worker.Timed{Spec: s, M: t.M, N: t.N, K: t.K, Total: t.Total}
}

func (t *Tuner) cost(code *worker.Code, c *Candidate, i int) (float64, error) {
	what, spec := fmt.Sprint(c.Trace), t.spec(c, i)
	if err := code.Test(what, spec, 1); err != nil {
		return 0, err
	}
	s, err := code.Compare(what, []timing.Options{glance, look}, hopeless, t.timed(live.Spec(t.Problem, t.reference)), t.timed(spec))
	if err != nil {
		return 0, err
	}
	t.sawReference(s[0].Min)
	c.ns = s[1].Min
	return s[1].Min / s[0].Min, nil
}

func (t *Tuner) sawReference(ns float64) {
	if t.ReferenceNs == 0 || ns < t.ReferenceNs {
		t.ReferenceNs = ns
	}
}

// Confirmed is a candidate measured again.
type Confirmed struct {
	*Candidate
	Ns float64
}

// Confirm measures candidates and the default again, all in the same rounds, and
// returns them, the fastest first, with the time of the default.
func (t *Tuner) Confirm(found []Found[*Candidate]) (out []Confirmed, reference float64, err error) {
	var cs []*Candidate
	for _, f := range found {
		cs = append(cs, f.G)
	}
	code, err := t.load(cs)
	if err != nil {
		return nil, 0, err
	}
	defer code.Close()
	all := []worker.Timed{t.timed(live.Spec(t.Problem, t.reference))}
	for i, c := range cs {
		all = append(all, t.timed(t.spec(c, i)))
	}
	s, err := code.Time("the best", confirm, all...)
	if err != nil {
		return nil, 0, err
	}
	for i, c := range cs {
		out = append(out, Confirmed{c, s[i+1].Min})
	}
	slices.SortStableFunc(out, func(a, b Confirmed) int {
		if a.Ns < b.Ns {
			return -1
		}
		return 1
	})
	return out, s[0].Min, nil
}

// Uses are c and schedules of other widths for its packed layout and its tables.
func (t *Tuner) Uses(c *Candidate) []search.Use {
	out := []search.Use{{Cols: c.Kernel.Cols, Trace: c.Trace, Choice: c.Choice}}
	for _, u := range search.Companions(t.Problem, t.Target, c.Choice) {
		k, err := schedule.Compile(t.Problem, u.Trace)
		same := err == nil && k.Weights.Hash() == c.Kernel.Weights.Hash() && gen.RuntimeTables(k.Tables) == gen.RuntimeTables(c.Kernel.Tables)
		if same && u.Cols != c.Kernel.Cols {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b search.Use) int { return a.Cols - b.Cols })
	return out
}
