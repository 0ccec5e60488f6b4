package beam

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Purpose is a use of products that default schedules are chosen for: n activations by weights that are at a place. Weight is how much
// its time counts beside the times of other purposes.
type Purpose struct {
	N      int
	At     cost.Place
	Weight float64
}

// many is a number of activations that any number of columns divides well enough.
const many = 256

// Purposes are the uses of products.
var Purposes = []Purpose{
	{1, cost.DRAM, 4}, {1, cost.L2, 3},
	{2, cost.DRAM, 0.5}, {2, cost.L2, 0.5},
	{4, cost.DRAM, 1.5}, {4, cost.L2, 1.5},
	{8, cost.DRAM, 0.5}, {8, cost.L2, 0.5},
	{many, cost.L2, 3},
}

// of are the purposes of n activations.
func of(n int) (out []Purpose) {
	for _, x := range Purposes {
		if x.N == n {
			out = append(out, x)
		}
	}
	return out
}

// Use is a schedule for a number of columns.
type Use struct {
	Cols  int
	Trace schedule.Trace
}

// Product chooses the schedules of p on a target, of ascending numbers of columns and for one packed matrix. The same arguments give the
// same schedules.
func Product(ctx context.Context, p ir.Problem, t lower.Target) ([]Use, error) {
	sp, err := space.For(p, t)
	if err != nil {
		return nil, err
	}
	c := &chooser{ctx: ctx, target: t, space: sp.Exact(), kernels: map[string]*kernel{}}
	return c.uses()
}

// chooser chooses the schedules of one product.
type chooser struct {
	ctx     context.Context
	target  lower.Target
	space   *space.Space
	mu      sync.Mutex
	kernels map[string]*kernel // by trace
	tries   int
}

// kernel is the kernel of a point, and how long calls take.
type kernel struct {
	*schedule.Kernel
	err    error
	wrong  float64                // what it lacks, +Inf: nothing would help
	least  float64                // cycles of a call without any waiting
	cycles map[cost.Place]float64 // of a call with weights in a place, of places that were asked for
}

// at is the cycles of a call, or less if that was not asked for.
func (k *kernel) at(p cost.Place) float64 { return max(k.least, k.cycles[p]) }

// time is that of n activations by a row of weights at a place, in cycles for cost.TypicalK elements of K. Of several blocks of columns
// the first brings the weights near.
func (k *kernel) time(n int, at cost.Place) float64 {
	blocks := float64((n + k.Cols - 1) / k.Cols)
	return (k.at(at) + (blocks-1)*k.at(cost.L2)) / float64(k.Rows)
}

// find evaluates a point for some purposes, unless their score is no less than bound.
func (c *chooser) find(x space.Point, ps []Purpose, bound float64) *kernel {
	key := x.Trace().String()
	c.mu.Lock()
	k := c.kernels[key]
	c.mu.Unlock()
	if k == nil || k.err == nil && score([]*kernel{k}, ps) < bound && !k.knows(ps) {
		k = &kernel{}
		k.err = c.evaluate(k, x, ps, bound)
		c.mu.Lock()
		c.kernels[key] = k
		c.tries++
		c.mu.Unlock()
	}
	return k
}

// muchCode makes code that is too long more wrong than code that lacks registers.
const muchCode = 1e4

// knows says that k was evaluated for some purposes.
func (k *kernel) knows(ps []Purpose) bool {
	return !slices.ContainsFunc(ps, func(x Purpose) bool { return k.cycles[x.At] == 0 })
}

func (c *chooser) evaluate(k *kernel, x space.Point, ps []Purpose, bound float64) (err error) {
	k.wrong = math.Inf(1)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if k.Kernel, err = c.space.Kernel(x); err != nil {
		return err
	}
	s, err := cost.Select(c.ctx, c.target, k.Kernel)
	if long := (*lower.Long)(nil); errors.As(err, &long) {
		k.wrong = muchCode + float64(long.Instrs)
	}
	if err != nil {
		return err
	}
	p := cost.Run(k.Kernel, s)
	if p.Refused != nil {
		k.wrong, err = lacks(p)
		return err
	}
	k.least, k.cycles = p.Cycles, map[cost.Place]float64{}
	for _, x := range ps {
		if score([]*kernel{k}, ps) >= bound {
			return nil
		}
		if k.cycles[x.At] == 0 {
			k.cycles[x.At] = cost.Waiting(s.Machine.Core, k.Kernel, s, p, x.At).Cycles
		}
	}
	return nil
}

// search is a search for what is best for some purposes.
func (c *chooser) search(ps []Purpose, width, most, passes, budget int) *Search {
	return &Search{Width: width, Most: most, Passes: passes, Budget: budget, Strict: true, Cost: func(_ context.Context, x space.Point, bound float64) (float64, error) {
		k := c.find(x, ps, bound)
		if k.err != nil {
			return k.wrong, k.err
		}
		return score([]*kernel{k}, ps), nil
	}}
}

// score is the weighted mean of the logarithms of the times of some purposes by kernels, the narrowest first.
func score(ks []*kernel, ps []Purpose) float64 {
	sum, all := 0.0, 0.0
	for _, x := range ps {
		sum += x.Weight * math.Log(product(ks, x.N, x.At))
		all += x.Weight
	}
	return sum / all
}

// product is the time of n activations by kernels, as the runtime cuts them into blocks.
func product(ks []*kernel, n int, at cost.Place) (time float64) {
	full, tail := abi.Blocks(len(ks), func(i int) int { return ks[i].Cols }, n)
	if full > 0 {
		k := ks[len(ks)-1]
		time, at = k.time(full*k.Cols, at), cost.L2
	}
	if tail >= 0 {
		time += ks[tail].time(1, at)
	}
	return time
}

// layouts is how many ways to pack are followed to the end.
var layouts = 2

func (c *chooser) uses() (uses []Use, err error) {
	one := c.space.Columns(1)
	starts, err := c.families(one)
	if err != nil {
		return nil, err
	}
	var best []*Found
	for _, f := range starts {
		found, err := c.search(of(1), 1, 5, 1, 50).Improve(c.ctx, one, f)
		if err != nil {
			return nil, err
		}
		best = append(best, found[0])
	}
	slices.SortStableFunc(best, func(a, b *Found) int { return cmp.Compare(a.Cost, b.Cost) })
	best, err = c.search(of(1), layouts, 6, 2, 80).Improve(c.ctx, one, points(best)...)
	if err != nil {
		return nil, err
	}
	least := math.Inf(1)
	for _, l := range best {
		if found := c.widths(l.Point); score(found, Purposes) < least {
			least, uses = score(found, Purposes), nil
			for _, k := range found {
				uses = append(uses, Use{k.Cols, k.Trace})
			}
		}
	}
	return uses, nil
}

func points(fs []*Found) (out []space.Point) {
	for _, f := range fs {
		out = append(out, f.Point)
	}
	return out
}

// families are starts: of each kind of decomposition the first one, if it is among the best.
func (c *chooser) families(one *space.Space) ([]space.Point, error) {
	first, err := one.First()
	if err != nil {
		return nil, err
	}
	last := len(one.Rules()) - 1
	s := c.search(of(1), 1, 12, 1, 30)
	found, err := s.Improve(c.ctx, one, append(one.Options(first, last, 12), first)...)
	if err != nil {
		return nil, err
	}
	starts := []space.Point{found[0].Point}
	for i := range 3 {
		starts = append(starts, one.Options(starts[0], i, 12)...)
	}
	found, err = c.search(of(1), 2, 0, 0, 100).Improve(c.ctx, one, starts...)
	return points(found), err
}

// widths finds kernels for more columns that share the layout of one.
func (c *chooser) widths(one space.Point) []*kernel {
	first := c.find(one, Purposes, math.Inf(1))
	sp := c.space.Sharing(first.Kernel)
	bases := []space.Point{one}
	tile := slices.Index(sp.Rules(), "tile")
	bases = append(bases, sp.Columns(1).Options(one, tile, 12)...)
	all := []*kernel{first}
	for _, n := range []int{4, 2, 8, many} {
		at := sp
		if n < many {
			at = sp.Columns(n)
		}
		var starts []space.Point
		for _, b := range bases {
			y, err := at.Near(b)
			if err != nil {
				continue
			}
			if starts = append(starts, y); n == many {
				starts = append(starts, at.Options(y, slices.Index(at.Rules(), "columns"), 24)...)
			}
		}
		found, err := c.search(of(n), 1, 5, 1, 30).Improve(c.ctx, at, starts...)
		if err != nil {
			continue
		}
		all = append(all, c.find(found[0].Point, Purposes, math.Inf(1)))
		bases = append([]space.Point{found[0].Point}, bases...)
	}
	return c.worth(all)
}

// worth drops kernels that are worth nothing.
func (c *chooser) worth(all []*kernel) []*kernel {
	slices.SortStableFunc(all, func(a, b *kernel) int { return cmp.Compare(a.Cols, b.Cols) })
	all = slices.CompactFunc(all, func(a, b *kernel) bool { return a.Cols == b.Cols })
	for i := len(all) - 1; i > 0; i-- {
		without := slices.Delete(slices.Clone(all), i, i+1)
		if score(without, Purposes) <= score(all, Purposes) {
			all = without
		}
	}
	return all
}
