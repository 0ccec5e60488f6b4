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
	point  space.Point
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
	if k == nil || k.err == nil && score(set{k}, ps) < bound && !k.knows(ps) {
		k = &kernel{point: x}
		k.err = c.evaluate(k, x, ps, bound)
		c.mu.Lock()
		c.kernels[key] = k
		c.tries++ // TODO
		c.mu.Unlock()
	}
	return k
}

// Code that is too long is more wrong than code that lacks registers, and less wrong than no code.
const (
	muchCode = 1e4
	noKernel = 1e6
)

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
	k.wrong = noKernel
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
		if score(set{k}, ps) >= bound {
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
	return &Search{Width: width, Most: most, Passes: passes, Budget: budget, Backward: true,
		Cost: func(_ context.Context, x space.Point, bound float64) (float64, error) {
			k := c.find(x, ps, bound)
			if k.err != nil {
				return k.wrong, k.err
			}
			return score(set{k}, ps), nil
		},
		Skip: func(rule string, best *Found) bool {
			if rule != "prefetch" {
				return rule == "chunk"
			}
			if best.err != nil {
				return true
			}
			k := *c.find(best.Point, ps, math.Inf(1))
			waits := score(set{&k}, ps)
			k.cycles = nil
			return waits-score(set{&k}, ps) < worthPrefetching
		}}
}

func (c *chooser) strict(s *Search) *Search { s.Strict = true; return s }

// worthPrefetching is a part of the time: kernels that wait less for memory have no other prefetches.
const worthPrefetching = 0.01

// score is the weighted mean of the logarithms of the times of some purposes by kernels, the narrowest first.
func score(ks set, ps []Purpose) float64 {
	sum, all := 0.0, 0.0
	for _, x := range ps {
		sum += x.Weight * math.Log(product(ks, x.N, x.At))
		all += x.Weight
	}
	return sum / all
}

// product is the time of n activations by kernels, as the runtime cuts them into blocks.
func product(ks set, n int, at cost.Place) (time float64) {
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

// What is followed: layouts that are not much worse than the best one for one column, and of these the best ones for few columns too.
const (
	mostLayouts  = 3
	notMuchWorse = 0.15
)

func (c *chooser) uses() (uses []Use, err error) {
	one := c.space.Columns(1)
	starts, err := c.families(one)
	if err != nil {
		return nil, err
	}
	var found []*Found
	for _, f := range starts {
		forward := c.strict(c.search(of(1), 1, 8, 1, 50))
		forward.Backward = false
		some, err := forward.Improve(c.ctx, one, f)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	if _, err = c.strict(c.search(of(1), 2, 5, 2, 70)).Improve(c.ctx, one, points(found)...); err != nil {
		return nil, err
	}
	ones := c.layouts()
	if len(ones) == 0 {
		return nil, errors.New("TODO")
	}
	var sets []set
	for _, k := range ones {
		sets = append(sets, c.widths(set{k}, 6, 4))
	}
	ps := append(of(1), of(4)...)
	best := slices.MinFunc(sets, func(a, b set) int { return cmp.Compare(score(a, ps), score(b, ps)) })
	for _, k := range worth(c.widths(best[:1], 20, 4, 2, 8, many)) {
		uses = append(uses, Use{k.Cols, k.Trace})
	}
	return uses, nil
}

// set is kernels of one layout, the narrowest first.
type set []*kernel

// layouts are kernels of one column that are the best of their layouts.
func (c *chooser) layouts() (out []*kernel) {
	var all []*kernel
	for _, k := range c.kernels {
		if k.err == nil && k.Cols == 1 && k.knows(of(1)) {
			all = append(all, k)
		}
	}
	worse := func(k *kernel) float64 { return score(set{k}, of(1)) }
	slices.SortFunc(all, func(a, b *kernel) int {
		return cmp.Or(cmp.Compare(worse(a), worse(b)), cmp.Compare(a.Trace.String(), b.Trace.String()))
	})
	for _, k := range all {
		same := func(o *kernel) bool { return o.SharesBuffers(k.Kernel) }
		if len(out) == mostLayouts || len(out) > 0 && worse(k) > worse(out[0])+notMuchWorse {
			break
		}
		if !slices.ContainsFunc(out, same) && c.allocates(k) {
			out = append(out, k)
		}
	}
	return out
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
	s := c.strict(c.search(of(1), 1, 8, 0, 30))
	found, err := s.Improve(c.ctx, one, append(one.Options(first, last, 8), first)...)
	if err != nil {
		return nil, err
	}
	starts := []space.Point{found[0].Point}
	for i := range 3 {
		starts = append(starts, one.Options(starts[0], i, 8)...)
	}
	found, err = c.search(of(1), 2, 0, 0, 100).Improve(c.ctx, one, starts...)
	return points(found), err
}

// allocates says that the registers of k suffice, which was an estimate.
func (c *chooser) allocates(k *kernel) bool {
	_, k.err = lower.BuildOnce(c.ctx, c.target, k.Nest)
	return k.err == nil
}

// widths adds kernels for some numbers of activations to kernels of a layout.
func (c *chooser) widths(ks set, budget int, ns ...int) set {
	sp := c.space.Sharing(ks[0].Kernel)
	for _, n := range ns {
		at := sp
		if n < many {
			at = sp.Columns(n)
		}
		from := slices.MinFunc(ks, func(a, b *kernel) int { return cmp.Compare(score(set{a}, of(n)), score(set{b}, of(n))) })
		starts := c.blocks(at.Around(from.point, "columns", "tile", "call"), n)
		if n < many {
			starts = append(starts, c.blocks(at.Anew(from.point, "columns", "tile", "call"), n)...)
		}
		s := c.search(of(n), 1, 4, 1, budget+len(starts))
		if n == 2 || n == 8 {
			s.Budget = 7 + len(starts)
		}
		found, err := s.Improve(c.ctx, at, starts...)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(found, func(f *Found) bool { return c.allocates(c.find(f.Point, Purposes, math.Inf(1))) })
		if i < 0 {
			continue
		}
		k := c.find(found[i].Point, Purposes, math.Inf(1))
		at0, has := slices.BinarySearchFunc(ks, k.Cols, func(o *kernel, n int) int { return cmp.Compare(o.Cols, n) })
		if !has {
			ks = slices.Insert(slices.Clone(ks), at0, k)
		}
	}
	return ks
}

// blocks are the first points of each size of blocks of rows and columns. For many activations the block is as large as it can be, of
// one tile.
func (c *chooser) blocks(xs []space.Point, n int) (out []space.Point) {
	var sizes [][2]int
	most := 0
	for _, x := range xs {
		size := [2]int{}
		if k, err := c.space.Kernel(x); err == nil && (n < many || k.Rows <= k.Weights.TileM) {
			size = [2]int{k.Rows, k.Cols}
		}
		sizes, most = append(sizes, size), max(most, size[0]*size[1])
	}
	for i, x := range xs {
		size := sizes[i][0] * sizes[i][1]
		if size > 0 && (n < many || 2*size >= most) && slices.Index(sizes, sizes[i]) == i {
			out = append(out, x)
		}
	}
	return out
}

// worth is the kernels of ks that are worth having: the best of all choices, and of equally good ones the one of the fewest.
func worth(ks set) (best set) {
	for choice := range 1 << (len(ks) - 1) {
		some := set{ks[0]}
		for i, k := range ks[1:] {
			if choice>>i&1 != 0 {
				some = append(some, k)
			}
		}
		if better := len(best) == 0 || score(some, Purposes) < score(best, Purposes); better {
			best = some
		}
	}
	return best
}
