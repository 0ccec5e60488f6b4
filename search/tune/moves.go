package tune

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Space is the space of t's schedules.
func (t *Tuner) Space(ctx context.Context) Space[*Candidate] {
	return Space[*Candidate]{
		Sample:  t.sample,
		Mutate:  t.mutate,
		Near:    t.near,
		Join:    t.join,
		Point:   t.point,
		Reason:  Reason,
		Expect:  func(c *Candidate, cost float64) { c.predicted = cost },
		Measure: func(cs []*Candidate) []Result { return t.measure(ctx, cs) },
	}
}

// pointOf is the point of a gene, nil if the space has none.
func (t *Tuner) pointOf(g Gene) space.Point {
	if g.point != nil {
		return g.point
	}
	return t.places.get(g.Trace.Key(), func() space.Point {
		x, err := t.space.Parse(g.Trace)
		if err != nil {
			return nil
		}
		return x
	})
}

var errNoPoint = errors.New("tune: a schedule that the space has not")

func geneOf(x space.Point) Gene { return Gene{x.Trace(), x} }

// sample draws a point for the first width. The others have its packed matrix and, except for their columns and some mutations, its decisions.
func (t *Tuner) sample(rng *rand.Rand) *Candidate {
	ns := t.widths()
	sp := t.space.Columns(min([]int{1, 1, 1, 2, 3, 4}[rng.Intn(6)], ns[0]))
	draw := sp.Sample
	if rng.Intn(2) == 0 {
		draw = sp.SampleKind
	}
	first, err := draw(rng)
	if err != nil {
		return &Candidate{Genes: make([]Gene, len(ns))} // point says why that is none
	}
	c := &Candidate{}
	for i, n := range ns {
		x := first
		if i > 0 {
			x = t.widened(rng, first, n)
		}
		c.Genes = append(c.Genes, geneOf(x))
	}
	return c
}

// widened is x, or one like it for n activations, or for fewer columns than that.
func (t *Tuner) widened(rng *rand.Rand, x space.Point, n int) space.Point {
	sp, err := t.sharing(x)
	if err != nil {
		return x
	}
	sp = sp.Columns(t.columns(rng, n))
	y, err := sp.Near(x)
	for range 2 {
		if err == nil {
			y, err = sp.Mutate(rng, y)
		}
	}
	if err != nil {
		return x
	}
	return y
}

// blocks are the numbers of columns that are drawn: small blocks have kernels of their own most often, and large ones decode a weight once for more.
var blocks = []int{1, 2, 4, 8, 1, 2, 4, 8, 12, 14, 22}

// columns draws a number of columns for n activations.
func (t *Tuner) columns(rng *rand.Rand, n int) int {
	if rng.Intn(4) == 0 {
		return 1
	}
	return min(blocks[rng.Intn(len(blocks))], n)
}

// sharing is the space of kernels for the packed matrix and the activations of x.
func (t *Tuner) sharing(x space.Point) (*space.Space, error) {
	if x == nil {
		return nil, errNoPoint
	}
	k, err := t.space.Kernel(x)
	if err != nil {
		return nil, err
	}
	return t.space.Sharing(k), nil
}

// mutate changes one gene of a: it changes decisions, or crosses them with b's. A trace without a point begins as the space has it too, and goes on
// like b's. If decisions change that packing follows from, the other genes follow.
func (t *Tuner) mutate(rng *rand.Rand, a, b *Candidate) *Candidate {
	c := &Candidate{Genes: slices.Clone(a.Genes)}
	i := rng.Intn(len(c.Genes))
	old, other := c.Genes[i], b.Genes[i]
	x, y := t.pointOf(old), t.pointOf(other)
	if x == nil {
		if x = t.mended(old.Trace, y); x == nil {
			return c
		}
	}
	n, kept := rng.Intn(8), len(c.Genes) > 1 && rng.Intn(3) > 0
	switch sp := t.space.Within(t.widths()[i]); {
	case n >= 6 && y != nil && !kept:
		x = orElse(x)(sp.Cross(rng, x, y))
	case kept && rng.Intn(4) == 0:
		x = t.widened(rng, x, t.widths()[i])
	default:
		if near, err := t.sharing(x); kept && err == nil {
			sp = near.Within(t.widths()[i])
		}
		for range 1 + rng.Intn(3) {
			x = orElse(x)(sp.Mutate(rng, x))
		}
	}
	if c.Genes[i] = geneOf(x); !kept {
		t.follow(c, i)
	}
	return c
}

// mended is the point that begins with the decisions of a trace, as far as the space has them, and goes on like y, or like the space's first
// point if y is nil. It is nil if there is none.
func (t *Tuner) mended(trace schedule.Trace, y space.Point) space.Point {
	if y == nil {
		y, _ = t.space.First()
	}
	x, err := t.space.Mend(trace, y)
	if err != nil {
		return nil
	}
	return x
}

// orElse is a point, or x if there is an error.
func orElse(x space.Point) func(space.Point, error) space.Point {
	return func(y space.Point, err error) space.Point {
		if err != nil {
			return x
		}
		return y
	}
}

// follow gives the other genes of c the packed matrix of gene i, as far as they can have it.
func (t *Tuner) follow(c *Candidate, i int) {
	if len(c.Genes) == 1 {
		return
	}
	x := c.Genes[i].point
	sp, err := t.sharing(x)
	if err != nil {
		return
	}
	for j, g := range c.Genes {
		if y := t.pointOf(g); j != i && y != nil {
			if z, err := sp.Within(t.widths()[j]).Relaid(y, x); err == nil {
				c.Genes[j] = geneOf(z)
			}
		}
	}
}

// nearby are the rules whose other decisions do the same in another order, or ask for other data ahead. What they are worth depends on what a
// core does by itself, and estimates hardly know it.
var nearby = []string{"order", "stage", "prefetch"}

// near returns candidates that differ from c in the kernel of one width, by one decision of nearby. Prefetches differ in one number.
func (t *Tuner) near(c *Candidate) (out []*Candidate) {
	for i, g := range c.Genes {
		x := t.pointOf(g)
		sp, err := t.sharing(x)
		if err != nil {
			continue
		}
		_ = sp.Moving(nearby...).Neighbours(x, func(rule string, y space.Point) bool {
			if last := len(x) - 1; rule != "prefetch" || numbers(x[last], y[last]) <= 1 {
				n := &Candidate{Genes: slices.Clone(c.Genes)}
				n.Genes[i] = geneOf(y)
				out = append(out, n)
			}
			return true
		})
	}
	return out
}

// numbers is how many numbers differ of two lists of at most one step; no step is one of zeros.
func numbers(a, b schedule.Trace) (n int) {
	if len(a) == 0 && len(b) == 0 {
		return 0
	}
	zero := reflect.Zero(reflect.TypeOf(slices.Concat(a, b)[0]))
	value := func(t schedule.Trace) reflect.Value {
		if len(t) == 0 {
			return zero
		}
		return reflect.ValueOf(t[0])
	}
	x, y := value(a), value(b)
	for i := range x.NumField() {
		if x.Field(i).CanInt() && x.Field(i).Int() != y.Field(i).Int() {
			n++
		}
	}
	return n
}

// within are the rules whose decisions a companion is improved by.
var within = []string{"call", "runs in a call", "steps spelled out", "cells spelled out", "order", "scaled", "apart", "sums", "stage", "scale"}

// companions are kernels of the default schedules' widths that c lacks, for its packed matrix and its activations: of each width
// the one that is estimated to take least. Without points there are none.
func (t *Tuner) companions(ctx context.Context, c *Candidate) (out []variant.Kernel) {
	for _, u := range t.Default {
		known := func(k variant.Kernel) bool { return k.Schedule.Cols == u.Cols }
		if ctx.Err() != nil || slices.ContainsFunc(c.Kernels, known) {
			continue
		}
		if k := t.companion(ctx, c, u); k.Schedule != nil {
			out = append(out, k)
		}
	}
	return out
}

// companion is a kernel for the packed matrix of c, of the columns of a default schedule. It has the decisions of a gene or of the default, and
// then the best of all that differ from them in one decision.
func (t *Tuner) companion(ctx context.Context, c *Candidate, u search.Use) variant.Kernel {
	x := t.pointOf(Gene{Trace: c.Kernels[0].Schedule.Trace})
	sp, err := t.sharing(x)
	if err != nil {
		return variant.Kernel{}
	}
	sp = sp.Columns(u.Cols)
	var begin []space.Point
	if y, err := sp.Near(x); err == nil {
		begin = append(begin, y)
	}
	if y := t.pointOf(Gene{Trace: u.Trace}); y != nil {
		if z, err := sp.Relaid(y, x); err == nil {
			begin = append(begin, z)
		}
	}
	best := t.cheapest(ctx, begin)
	if y := t.pointOf(Gene{Trace: best.Trace()}); y != nil {
		begin = []space.Point{y}
	}
	var others []space.Point
	for _, y := range begin {
		_ = sp.Moving(within...).Neighbours(y, func(_ string, z space.Point) bool {
			others = append(others, z)
			return true
		})
	}
	if other := t.cheapest(ctx, others); other.cost < best.cost {
		best = other
	}
	return best.Kernel
}

// estimated is a kernel and its estimate.
type estimated struct {
	variant.Kernel
	cost float64
}

// Trace is the kernel's, nil if there is none.
func (x estimated) Trace() schedule.Trace {
	if x.Schedule == nil {
		return nil
	}
	return x.Schedule.Trace
}

// cheapest is the kernel of some points that is estimated to take least, of weights in the second-level cache. Interrupted, it leaves out
// points.
func (t *Tuner) cheapest(ctx context.Context, xs []space.Point) estimated {
	all := make([]estimated, len(xs))
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, x := range xs {
		all[i].cost = math.Inf(1)
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			made := t.lower(x.Trace(), t.again())
			if made.err != nil || !made.k.Schedule.Exact() {
				return
			}
			made.pipeline = cost.Run(ctx, made.k.Schedule, made.selected)
			all[i] = estimated{made.k, t.estimate(made, Purpose{N: made.k.Schedule.Cols})}
		})
	}
	wg.Wait()
	best := estimated{cost: math.Inf(1)}
	for _, x := range all {
		if x.cost < best.cost {
			best = x
		}
	}
	return best
}
