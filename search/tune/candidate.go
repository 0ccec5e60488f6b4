package tune

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/worker"
)

// Gene is a schedule of a candidate for one width.
type Gene struct {
	Choice search.Choice  `json:"choice"` // its layout is that of Trace
	Trace  schedule.Trace `json:"trace"`
}

// Candidate is schedules of a product for one packed matrix.
type Candidate struct {
	Genes   []Gene           // of each width, none of what was locked
	Kernels []variant.Kernel // of those genes that have one, the narrowest first
	Hash    string           // of their assembly
	prepare *prepared
	ns      []float64 // the least that was measured, of each purpose
	ratios  []float64 // to the default's, 0: not measured
}

// Why candidates are dropped that have a kernel.
var (
	errLayout = errors.New("another layout than its choice")
	errWide   = errors.New("more columns than activations")
	errBounds = errors.New("bounded, not exact")
)

// Seeds returns the default schedules and the dot-product schedules with the best estimates, also with rows that share
// bytes. If it is interrupted, it leaves out the schedules that it has not found yet.
func (t *Tuner) Seeds(ctx context.Context) []*Candidate {
	var all [][]search.Use
	finds := []func(context.Context, ir.Problem, lower.Target) ([]search.Use, error){search.DotUses, search.RowFieldUses}
	if t.chosen() {
		all = append(all, t.Default)
	} else {
		finds = slices.Insert(finds, 0, search.Default)
	}
	for _, find := range finds {
		if more, err := find(ctx, t.Problem, t.Target); err == nil {
			all = append(all, more)
		}
	}
	ns := t.widths()
	var out []*Candidate
	for _, uses := range all {
		fit := slices.DeleteFunc(slices.Clone(uses), func(u search.Use) bool { return u.Cols > ns[len(ns)-1] })
		if len(ns) > 1 {
			out = append(out, seed(ns, fit))
			continue
		}
		for _, u := range fit {
			out = append(out, &Candidate{Genes: []Gene{{u.Choice, u.Trace}}})
		}
	}
	return out
}

// chosen says that the default schedules have the choices that they were made of. Those of a record are traces alone.
func (t *Tuner) chosen() bool { return len(t.Default) > 0 && t.Default[0].Choice.Cols > 0 }

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
		c.Genes = append(c.Genes, Gene{best.Choice, best.Trace})
	}
	return c
}

// IsDefault says that c has no kernel that the default schedules have not.
func (t *Tuner) IsDefault(c *Candidate) bool {
	for _, k := range c.Kernels {
		same := func(u search.Use) bool { return u.Trace.String() == k.Schedule.Trace.String() }
		if !slices.ContainsFunc(t.Default, same) {
			return false
		}
	}
	return true
}

// Space is the space of t's schedules.
func (t *Tuner) Space(ctx context.Context) Space[*Candidate] {
	return Space[*Candidate]{
		Sample:  t.sample,
		Mutate:  t.mutate,
		Near:    t.near,
		Join:    t.join,
		Point:   t.point,
		Reason:  Reason,
		Measure: func(cs []*Candidate) []Result { return t.measure(ctx, cs) },
	}
}

// sample draws a choice for each width, all with the layout of the first.
func (t *Tuner) sample(rng *rand.Rand) *Candidate {
	c := &Candidate{}
	for i := range t.widths() {
		x := search.Sample(rng, t.Problem, t.Target.Machine())
		if i > 0 {
			if x.Cols = 1; rng.Intn(4) > 0 {
				x.Cols = search.Widths[rng.Intn(len(search.Widths))]
			}
			x = search.Relayout(x, c.Genes[0].Choice)
		}
		c.Genes = append(c.Genes, t.gene(x, i))
	}
	return c
}

// gene is a choice for the width of an index, with no more columns than that.
func (t *Tuner) gene(c search.Choice, width int) Gene {
	c.Cols = min(c.Cols, t.widths()[width])
	return Gene{c, c.Trace(t.Problem)}
}

// mutate changes one gene of a: it varies decisions, crosses them with b's, or edits steps
// of the trace. One of the others or all of them then take its layout, or it takes theirs.
func (t *Tuner) mutate(rng *rand.Rand, a, b *Candidate) *Candidate {
	c := &Candidate{Genes: slices.Clone(a.Genes)}
	i := rng.Intn(len(c.Genes))
	old, x := c.Genes[i], search.Choice{}
	switch n := rng.Intn(10); {
	case n < 6:
		x = search.Vary(rng, old.Choice, t.Problem, t.Target.Machine())
	case n < 8:
		x = search.Cross(rng, old.Choice, b.Genes[i].Choice)
	default:
		c.Genes[i].Trace = search.Mutate(rng, old.Trace, b.Genes[i].Trace)
		return c
	}
	if len(c.Genes) > 1 && rng.Intn(3) > 0 {
		c.Genes[i] = t.gene(search.Relayout(x, old.Choice), i)
		return c
	}
	c.Genes[i] = t.gene(x, i)
	for j, g := range c.Genes {
		if j != i {
			c.Genes[j] = t.gene(search.Relayout(g.Choice, x), j)
		}
	}
	return c
}

// near returns candidates that differ from c in the kernel of one width. That kernel has other prefetches, or does the
// same in another order. The order changes only in kernels whose trace was not edited.
func (t *Tuner) near(c *Candidate) (out []*Candidate) {
	with := func(i int, g Gene) {
		n := &Candidate{Genes: slices.Clone(c.Genes)}
		n.Genes[i] = g
		out = append(out, n)
	}
	for i, g := range c.Genes {
		if g.Trace.String() == g.Choice.Trace(t.Problem).String() {
			for _, x := range search.Orders(g.Choice) {
				with(i, t.gene(x, i))
			}
		}
		for _, x := range search.Near(g.Choice) {
			with(i, Gene{x, search.Prefetching(g.Trace, x.Trace(t.Problem))})
		}
	}
	return out
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
		if by := used(c.Kernels, n); len(by) != 1 || by[0].Schedule.Trace.String() != g.Trace.String() {
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
	if b.gene.Trace.String() == g.Trace.String() {
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
	case len(its) == 0 || costOf(its) >= costOf(bests):
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
		k   variant.Kernel
		err error
	}
)

// point compiles c, unless another with its traces and choices was compiled before: many
// mutations change nothing, and what was not measured is often proposed again.
func (t *Tuner) point(c *Candidate) (Point, error) {
	var key strings.Builder
	for _, g := range c.Genes {
		key.WriteString(t.key(g))
	}
	x := t.points.get(key.String(), func() pointed {
		p, err := t.newPoint(c)
		return pointed{c, p, err}
	})
	if x.c != c {
		c.Kernels, c.Hash, c.prepare = x.c.Kernels, x.c.Hash, x.c.prepare
	}
	return x.p, x.err
}

func (t *Tuner) key(g Gene) string {
	return fmt.Sprintf("%v\n%v\n", g.Trace, g.Choice.Trace(t.Problem))
}

// newPoint compiles c. Its first gene, for the fewest activations, has a kernel; others that have
// none, or one for another packed matrix, are left out: products are cut in blocks of the others.
func (t *Tuner) newPoint(c *Candidate) (Point, error) {
	c.Kernels = nil
	for i, g := range c.Genes {
		x := t.genes.get(fmt.Sprint(i, t.key(g)), func() (x lowered) {
			x.k, x.err = t.compileGene(g, i)
			return x
		})
		k, err := x.k, x.err
		if err == nil && i > 0 && !k.Schedule.SharesBuffers(c.Kernels[0].Schedule) {
			err = errLayout
		}
		switch known := func(o variant.Kernel) bool { return o.Schedule.Cols == k.Schedule.Cols }; {
		case err != nil && i == 0:
			return Point{}, err
		case err == nil && !slices.ContainsFunc(c.Kernels, known):
			c.Kernels = append(c.Kernels, k)
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
	return t.describe(c), nil
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
func (t *Tuner) compileGene(g Gene, width int) (variant.Kernel, error) {
	k, err := t.compile(g.Trace, t.again())
	if err != nil {
		return k, err
	}
	switch {
	case k.Schedule.Cols > t.widths()[width]:
		return k, errWide
	case !k.Schedule.Exact():
		return k, errBounds
	}
	if own := g.Choice.Trace(t.Problem); g.Trace.String() != own.String() {
		x, err := schedule.Compile(t.Problem, own)
		if err != nil || x.Weights.Hash() != k.Schedule.Weights.Hash() {
			return k, errLayout
		}
	}
	return k, nil
}

// describe returns the facts about c for a cost model. For each purpose they are the features of the widest kernel that
// it uses. All purposes of a width share one set of features.
func (t *Tuner) describe(c *Candidate) Point {
	p := Point{ID: c.Hash, Family: search.Family(c.Kernels[0].Schedule.Trace), Estimate: 1}
	for i, x := range t.Purposes {
		k := used(c.Kernels, x.N)[0]
		p.Estimate *= math.Pow(search.Estimate(k.Schedule, k.Code, x.Total > 0), 1/float64(len(t.Purposes)))
		if !slices.ContainsFunc(t.Purposes[:i], func(o Purpose) bool { return o.N == x.N }) {
			p.Features = append(p.Features, search.Features(k.Schedule, k.Code)...)
		}
	}
	return p
}

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
