package tune

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/worker"
)

// Gene is a schedule of a candidate for one width.
type Gene struct {
	Trace schedule.Trace `json:"trace"`
	point space.Point    // of Trace, nil: not known yet, or the space has none
}

// Candidate is schedules of a product for one packed matrix.
type Candidate struct {
	Genes   []Gene           // of each width, none of what was locked
	Kernels []variant.Kernel // of those genes that have one, the narrowest first
	Hash    string           // of their assembly
	prepare *prepared
	measures
	// The expected cost: by the model of the core alone, and as the search has corrected it. 0: nothing.
	estimate, predicted float64
}

// measures are what was measured of each purpose, nil before.
type measures struct {
	ns        []float64 // the least
	ratios    []float64 // to the default's, 0: not measured
	low, high []float64 // bounds of the ratios by the rounds, 0: not known
}

func newMeasures(purposes int) measures {
	all := func() []float64 { return make([]float64, purposes) }
	return measures{all(), all(), all(), all()}
}

// Why candidates are dropped that have a kernel.
var (
	errLayout = errors.New("another layout than the narrowest")
	errWide   = errors.New("more columns than activations")
	errBounds = errors.New("bounded, not exact")
)

// Seeds returns the default schedules, and those that Layouts finds: the best of each layout that it compares, by the means that suit it.
// If it is interrupted, it leaves out the schedules that it has not found yet.
func (t *Tuner) Seeds(ctx context.Context) []*Candidate {
	out := t.From(t.Default)
	if t.layouts == nil {
		t.layouts, _ = t.Layouts(ctx, t.Problem, t.Target)
	}
	for _, uses := range t.layouts {
		out = append(out, t.From(uses)...)
	}
	return out
}

// From returns the candidates that begin with schedules for one packed matrix, the narrowest first: with several widths one, else
// each schedule.
func (t *Tuner) From(uses []search.Use) (out []*Candidate) {
	ns := t.widths()
	fit := slices.DeleteFunc(slices.Clone(uses), func(u search.Use) bool { return u.Cols > ns[len(ns)-1] })
	if len(ns) > 1 && len(fit) > 0 {
		return []*Candidate{seed(ns, fit)}
	}
	for _, u := range fit {
		out = append(out, &Candidate{Genes: []Gene{{Trace: u.Trace}}})
	}
	return out
}

// Carried returns the candidates that begin with the schedules of trials, which may be for other widths. It leaves out what this compiler
// cannot make.
func (t *Tuner) Carried(trials []Trial) (out []*Candidate) {
	for _, x := range trials {
		var uses []search.Use
		for _, g := range x.Genes {
			if k, err := schedule.Compile(t.Problem, g.Trace); err == nil {
				uses = append(uses, search.Use{Cols: k.Cols, Trace: g.Trace})
			}
		}
		slices.SortStableFunc(uses, func(a, b search.Use) int { return a.Cols - b.Cols })
		out = append(out, t.From(uses)...)
	}
	return out
}

// seed has for each width the widest schedule that fits it.
func seed(widths []int, uses []search.Use) *Candidate {
	c := &Candidate{}
	for _, n := range widths {
		best := uses[0]
		for _, u := range uses {
			if u.Cols <= n {
				best = u
			}
		}
		c.Genes = append(c.Genes, Gene{Trace: best.Trace})
	}
	return c
}

// IsDefault says that c has no kernel that the default schedules have not.
func (t *Tuner) IsDefault(c *Candidate) bool {
	for _, k := range c.Kernels {
		same := func(u search.Use) bool { return u.Trace.Key() == k.Schedule.Trace.Key() }
		if !slices.ContainsFunc(t.Default, same) {
			return false
		}
	}
	return true
}

// widthBest is the gene of a packed matrix that was fastest for the activations of a width. It has a ratio for each
// purpose of that width, 0: not measured.
type widthBest struct {
	gene   Gene
	ratios []float64 // nil: no gene was measured by itself
}

// join returns candidates made of the best gene of each width, for the packed matrices and prepared activations of cs. The
// time of one width does not depend on the kernels of other widths, unless it uses them. Genes that were better, but were
// not measured for all purposes, are in candidates of their own.
func (t *Tuner) join(cs []*Candidate) (out []*Candidate) {
	if len(t.widths()) == 1 {
		return nil
	}
	for _, c := range cs {
		if len(c.ratios) == 0 {
			continue // it was not measured now
		}
		key := c.Kernels[0].Schedule.Buffers()
		if t.widthBests[key] == nil {
			for _, g := range c.Genes {
				t.widthBests[key] = append(t.widthBests[key], widthBest{gene: g})
			}
		}
		better, hoped := t.improve(t.widthBests[key], c)
		for _, g := range [][]Gene{better, hoped} {
			if g != nil {
				out = append(out, &Candidate{Genes: g})
			}
		}
	}
	return out
}

// improve puts a gene of c into bs if it was better than the one there for every purpose that the latter was measured for.
// `better` is the best genes of all widths if any changed. `hoped` also has genes that were not measured for every purpose. Each is nil if
// there is none.
func (t *Tuner) improve(bs []widthBest, c *Candidate) (better, hoped []Gene) {
	changed, hopes := false, map[int]Gene{}
	for i, n := range t.widths() {
		g := c.Genes[i]
		if by := used(c.Kernels, n); len(by) != 1 || by[0].Schedule.Trace.Key() != g.Trace.Key() {
			continue // others' kernels did it
		}
		switch bs[i].meet(g, t.ratiosFor(c, n)) {
		case surpassed:
			changed = true
		case promising:
			hopes[i] = g
		}
	}
	var genes []Gene
	for _, b := range bs {
		genes = append(genes, b.gene)
	}
	if changed {
		better = slices.Clone(genes)
	}
	if len(hopes) > 0 {
		for i, g := range hopes {
			genes[i] = g
		}
		hoped = genes
	}
	return better, hoped
}

// verdict is what a gene is beside the best of its width.
type verdict int

const (
	noBetter  verdict = iota // or the same, or the first
	surpassed                // better for all that the best was measured for, and now the best
	promising                // better for what both were measured for, which is not all
)

// meet compares g, by its ratios, with the best, and replaces the best if g is better.
func (b *widthBest) meet(g Gene, ratios []float64) verdict {
	if b.ratios == nil {
		b.gene, b.ratios = g, ratios
		return noBetter
	}
	if b.gene.Trace.Key() == g.Trace.Key() {
		for p, r := range ratios { // what was measured last is more often measured
			if r > 0 {
				b.ratios[p] = r
			}
		}
		return noBetter
	}
	var its, bests []float64 // of what both were measured for
	whole := true            // g was for all that the best was
	for p, r := range b.ratios {
		if r > 0 && ratios[p] > 0 {
			its, bests = append(its, ratios[p]), append(bests, r)
		}
		whole = whole && (r == 0 || ratios[p] > 0)
	}
	switch {
	case len(its) == 0 || CostOf(its) >= CostOf(bests):
		return noBetter
	case whole:
		b.gene, b.ratios = g, ratios
		return surpassed
	}
	return promising
}

// ratiosFor returns the ratios of c for the purposes of n activations.
func (t *Tuner) ratiosFor(c *Candidate, n int) (out []float64) {
	for p, x := range t.Purposes {
		if x.N == n {
			out = append(out, c.ratios[p])
		}
	}
	return out
}

// memory is what was found out of things by their keys, by several goroutines.
type memory[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

// mostKnown is how many are kept: kernels take memory.
const mostKnown = 2000

// get returns the value known by key, else the value that find finds out.
func (m *memory[T]) get(key string, find func() T) T {
	m.mu.Lock()
	x, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return x
	}
	x = find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= mostKnown {
		m.known = map[string]T{}
	}
	m.known[key] = x
	return x
}

// pointed and lowered are the memories of a candidate and of a gene.
type (
	pointed struct {
		c   *Candidate
		p   Point
		err error
	}
	lowered struct {
		k        variant.Kernel
		selected *lower.Selected
		pipeline cost.Pipeline
		err      error
	}
)

// point compiles c, unless another with its traces was compiled before: many mutations change nothing, and what was not measured is
// often proposed again.
func (t *Tuner) point(c *Candidate) (Point, error) {
	var key strings.Builder
	for _, g := range c.Genes {
		key.WriteString(g.Trace.Key())
	}
	x := t.points.get(key.String(), func() pointed {
		p, err := t.newPoint(c)
		return pointed{c, p, err}
	})
	c.estimate = x.p.Estimate
	if x.c != c {
		c.Kernels, c.Hash, c.prepare = x.c.Kernels, x.c.Hash, x.c.prepare
	}
	return x.p, x.err
}

// newPoint compiles c. Its first gene, for the fewest activations, has a kernel; others that have
// none, or one for another packed matrix, are left out: products are cut in blocks of the others.
func (t *Tuner) newPoint(c *Candidate) (Point, error) {
	made := map[*schedule.Kernel]lowered{}
	c.Kernels = nil
	for i, g := range c.Genes {
		x := t.genes.get(fmt.Sprint(i, g.Trace.Key()), func() lowered { return t.compileGene(g, i) })
		k, err := x.k, x.err
		if err == nil && i > 0 && !k.Schedule.SharesBuffers(c.Kernels[0].Schedule) {
			err = errLayout
		}
		switch known := func(o variant.Kernel) bool { return o.Schedule.Cols == k.Schedule.Cols }; {
		case err != nil && i == 0:
			return Point{}, err
		case err == nil && !slices.ContainsFunc(c.Kernels, known):
			c.Kernels = append(c.Kernels, k)
			made[k.Schedule] = x
		}
	}
	slices.SortFunc(c.Kernels, func(a, b variant.Kernel) int { return a.Schedule.Cols - b.Schedule.Cols })
	var err error
	if c.prepare, err = t.prepare(c.Kernels); err != nil {
		return Point{}, err
	}
	var fs []lower.Named
	for j, k := range c.Kernels {
		fs = append(fs, lower.Named{Name: fmt.Sprintf("k0_%d", j), Function: t.Target.Print(k.Code)})
	}
	f, err := t.Target.File("main", fs...)
	if err != nil {
		return Point{}, err
	}
	sum := sha256.Sum256(f.Data)
	c.Hash = hex.EncodeToString(sum[:8])
	return t.describe(c, made), nil
}

// Locked is the candidate of what a lock has.
func (t *Tuner) Locked(e *Entry) (*Candidate, error) {
	var traces []schedule.Trace
	for _, x := range e.Kernels {
		traces = append(traces, x.Trace)
	}
	return t.Given(traces...)
}

// compileGene makes the kernel of a gene, if it can be one for its width.
func (t *Tuner) compileGene(g Gene, width int) (x lowered) {
	if x = t.lower(g.Trace, t.again()); x.err != nil {
		return x
	}
	switch k := x.k.Schedule; {
	case k.Cols > t.widths()[width]:
		x.err = errWide
	case !k.Exact():
		x.err = errBounds
	default:
		x.pipeline = cost.Run(context.Background(), k, x.selected)
	}
	return x
}

// describe returns the facts about c for a cost model. For each purpose they are the estimated time by the widest kernel that it uses. All
// purposes of a width share the features of that kernel.
func (t *Tuner) describe(c *Candidate, made map[*schedule.Kernel]lowered) Point {
	p := Point{ID: c.Hash, Family: search.Family(c.Kernels[0].Schedule.Trace), Estimate: 1 / t.usualEstimate()}
	for i, purpose := range t.Purposes {
		x := made[used(c.Kernels, purpose.N)[0].Schedule]
		time := t.estimate(x, purpose)
		p.Estimate *= math.Pow(time, 1/float64(len(t.Purposes)))
		p.Features = append(p.Features, math.Log(time))
		if !slices.ContainsFunc(t.Purposes[:i], func(o Purpose) bool { return o.N == purpose.N }) {
			p.Features = append(p.Features, cost.Features(x.k.Schedule, x.k.Code, x.pipeline)...)
		}
	}
	return p
}

// estimate is the time for a purpose by a kernel in cycles, for each product of a weight and an activation. Kernels without an
// estimate take as long as a slow one.
func (t *Tuner) estimate(x lowered, p Purpose) float64 {
	at, err := cost.PlaceOf(p.Mode)
	if err != nil {
		at = cost.L2
	}
	if x.pipeline.Refused != nil {
		return slow
	}
	return cost.Product(t.Target.Machine().Core, x.k.Schedule, x.selected, x.pipeline, cost.Purpose{N: p.N, At: at})
}

// slow is more cycles for a product than kernels of products take that are worth a measurement.
const slow = 10

// member is a variant in a file with others. The names of its kernels begin with its
// prefix, its preparation has a name that others know too.
type member struct {
	variant.Variant
	prefix  string
	prepare *prepared
}

// target is c as number i of a batch.
func (t *Tuner) target(c *Candidate, i int) member {
	v := variant.Variant{Target: t.Target, Need: t.reference.Need, Kernels: c.Kernels, Prepare: c.prepare.Prepare}
	return member{v, fmt.Sprintf("k%d_", i), c.prepare}
}

// spec describes m to the runtime, with the kernels of the given indices, or all kernels if there are none.
func (m member) spec(p ir.Problem, kernels ...int) runtime.Spec {
	s := live.Spec(p, m.Variant, kernels...)
	v := &s.Variants[0]
	for i := range v.Kernels {
		v.Kernels[i].Name = m.prefix + v.Kernels[i].Name
	}
	v.Prepare.Name = m.prepare.name
	return s
}

// what names c in errors: by its traces.
func (c *Candidate) what() string {
	var all []string
	for _, k := range c.Kernels {
		all = append(all, k.Schedule.Trace.String())
	}
	return strings.Join(all, "; ")
}

// Reason classifies why a candidate was dropped.
func Reason(err error) string {
	var crash *worker.Crash
	var timeout *worker.Timeout
	var wrong *worker.Wrong
	switch {
	case errors.As(err, &crash):
		return strings.TrimSpace("crashed " + crash.Signal)
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
