package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/worker"
)

// Product is what to tune: a product on a target, for one or more purposes that share one
// packed matrix.
type Product struct {
	Problem  ir.Problem
	Target   lower.Target
	Purposes []Purpose
	// Layouts finds the schedules of each layout, which a search begins with; nil: beam.Layouts.
	Layouts func(context.Context, ir.Problem, lower.Target) ([][]search.Use, error)
	// Usual chooses the default schedules, which everything is compared with; nil: the first of Layouts.
	Usual func(context.Context, ir.Problem, lower.Target) ([]search.Use, error)
}

// Purpose is a size at which a product is used: M x K weights times N activations.
type Purpose struct {
	Mode  string `json:"mode"` // where the weights are, for who reads it
	M     int    `json:"m"`
	N     int    `json:"n"`
	K     int    `json:"k"`
	Total int    `json:"total,omitempty"` // bytes of copies of the weights, used in turn: more than the caches hold, or 0
}

// PurposesText is purposes on one line: "dram 4096x4096x1, l2 512x2048x1".
func PurposesText(ps ...Purpose) string {
	var all []string
	for _, p := range ps {
		all = append(all, fmt.Sprintf("%s %dx%dx%d", p.Mode, p.M, p.K, p.N))
	}
	return strings.Join(all, ", ")
}

// widths are the numbers of activations of p's purposes, ascending: a candidate has at most
// one kernel for each.
func (p *Product) widths() []int {
	var ns []int
	for _, x := range p.Purposes {
		ns = append(ns, x.N)
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// Tuner measures candidates against the default schedules of a product.
type Tuner struct {
	Product
	Default     []search.Use
	Limit       time.Duration   // of verifying or measuring a candidate
	On          *worker.Machine // that measures, nil: this one
	DefaultHash string          // of the default's assembly
	ReferenceNs []float64       // the least times of the default so far, of each purpose
	Context     context.Context // ends measurements, nil: nothing does
	Log         func(Trial)     // gets each candidate that was measured, nil: nobody
	layouts     [][]search.Use  // of Layouts, nil: not found yet
	reference   member
	prepares    map[string]*prepared // by tables
	mu          sync.Mutex           // of prepares
	space       *space.Space
	repeats     func() bool    // see again
	usual       func() float64 // see usualEstimate
	places      memory[space.Point]
	points      memory[pointed]
	genes       memory[lowered]
	known       map[string]Result
	verified    map[string]bool        // kernels, by trace and preparation
	times       map[string]took        // of purposes, by the kernels that they use
	best        float64                // cost that was measured, 0: none
	widthBests  map[string][]widthBest // of each width, by the buffers that kernels share
}

// limit is the usual one.
const limit = 20 * time.Second

// New compiles the default schedules of p, which must be exact, which everything is compared with. Interrupted, it returns
// the error of ctx.
func New(ctx context.Context, p Product) (*Tuner, error) {
	if len(p.Purposes) == 0 {
		return nil, errors.New("tune: a product without a purpose")
	}
	if p.Layouts == nil {
		p.Layouts = beam.Layouts
	}
	t := &Tuner{Product: p, Limit: limit, ReferenceNs: make([]float64, len(p.Purposes)),
		prepares: map[string]*prepared{}, known: map[string]Result{}, verified: map[string]bool{}, times: map[string]took{}, widthBests: map[string][]widthBest{}}
	var err error
	if p.Usual != nil {
		t.Default, err = p.Usual(ctx, p.Problem, p.Target)
	} else if t.layouts, err = p.Layouts(ctx, p.Problem, p.Target); err == nil {
		t.Default = t.layouts[0]
	}
	if err != nil {
		return nil, err
	}
	t.repeats, t.usual = sync.OnceValue(t.defaultRepeats), sync.OnceValue(t.defaultEstimate)
	all, err := space.For(p.Problem, p.Target)
	if err != nil {
		return nil, err
	}
	t.space = all.Exact()
	v, err := build.Variant(ctx, p.Problem, p.Target, t.Default)
	if err != nil {
		return nil, err
	}
	const prefix = "reference_"
	t.reference = member{v, prefix, &prepared{v.Prepare, prefix + variant.PrepareName}}
	t.prepares[preparation(v)] = t.reference.prepare
	f, err := p.Target.File("main", v.Functions(prefix)...)
	if err != nil {
		return nil, err
	}
	t.DefaultHash = shortHash(f.Data)
	return t, nil
}

// compile makes the kernel of a trace, which may compute values again. It takes some milliseconds and is not interrupted, because
// its result is remembered.
func (t *Tuner) compile(trace schedule.Trace) (variant.Kernel, error) {
	x := t.lower(trace, true)
	return x.k, x.err
}

// lower is compile with the code before registers are allocated. With `again` the kernel may compute values again.
func (t *Tuner) lower(trace schedule.Trace, again bool) (x lowered) {
	ctx := context.Background()
	if x.k.Schedule, x.err = schedule.Compile(t.Problem, trace); x.err != nil {
		return x
	}
	if x.selected, x.err = cost.Select(ctx, t.Target, x.k.Schedule.Nest, cost.Any); x.err != nil {
		return x
	}
	allocate := lower.AllocateOnce
	if again {
		allocate = lower.Allocate
	}
	x.k.Code, x.err = allocate(ctx, x.selected)
	return x
}

// again says that kernels that compute values again are worth a measurement: the default does.
func (t *Tuner) again() bool { return t.repeats != nil && t.repeats() }

// usualEstimate is the estimate of the default schedules, so that other estimates are predicted ratios to their time.
func (t *Tuner) usualEstimate() float64 {
	if t.usual == nil {
		return 1
	}
	return t.usual()
}

// defaultEstimate is the geometric mean of the times that the default schedules are estimated to take for the purposes.
func (t *Tuner) defaultEstimate() float64 {
	product := 1.0
	for _, purpose := range t.Purposes {
		trace := used(t.reference.Kernels, purpose.N)[0].Schedule.Trace
		x := t.lower(trace, true)
		if x.err != nil {
			return 1
		}
		x.pipeline = cost.Run(context.Background(), x.k.Schedule, x.selected)
		product *= math.Pow(t.estimate(x, purpose), 1/float64(len(t.Purposes)))
	}
	return product
}

// defaultRepeats says that a default schedule has not enough registers unless it computes values again.
func (t *Tuner) defaultRepeats() bool {
	return slices.ContainsFunc(t.Default, func(u search.Use) bool { return t.lower(u.Trace, false).err != nil })
}

// preparation names what prepares activations for x.
func preparation(x variant.Variant) string {
	return fmt.Sprint(variant.TablesABI(x.Tables()).ID, " ", x.TableChunk())
}

// prepared is a preparation of activations and its name in all files. Candidates
// whose tables are the same share one.
type prepared struct {
	*variant.Prepare
	name string
}

// prepare is the preparation of activations for kernels.
func (t *Tuner) prepare(kernels []variant.Kernel) (*prepared, error) {
	of := variant.Variant{Target: t.Target, Kernels: kernels}
	id := preparation(of)
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prepares[id]; p != nil {
		return p, nil
	}
	p, err := build.Prepare(context.Background(), t.Problem, of)
	if err != nil {
		return nil, err
	}
	t.prepares[id] = &prepared{p, fmt.Sprint(variant.PrepareName, len(t.prepares))}
	return t.prepares[id], nil
}

// Uses are the schedules of c, and companions of other widths for its packed matrix and tables. It
// leaves out companions that would take over a product that was measured with c's own kernels. A locked
// candidate already has all of them. The error is that of ctx.
func (t *Tuner) Uses(ctx context.Context, c *Candidate) (out []search.Use, err error) {
	kernels := slices.Clone(c.Kernels)
	if len(c.Genes) > 0 {
		for _, k := range t.companions(ctx, c) {
			kernels = t.beside(kernels, k)
		}
	}
	for _, k := range kernels {
		out = append(out, search.Use{Cols: k.Schedule.Cols, Trace: k.Schedule.Trace})
	}
	return out, ctx.Err()
}

// beside adds k to kernels, the narrowest first, unless one of that width is there or purposes would be cut for other kernels.
func (t *Tuner) beside(kernels []variant.Kernel, k variant.Kernel) []variant.Kernel {
	i, found := slices.BinarySearchFunc(kernels, k, func(a, b variant.Kernel) int { return a.Schedule.Cols - b.Schedule.Cols })
	if found {
		return kernels
	}
	all := slices.Insert(slices.Clone(kernels), i, k)
	for _, n := range t.widths() {
		if !slices.Equal(callsOf(all, n), callsOf(kernels, n)) {
			return kernels
		}
	}
	return all
}
