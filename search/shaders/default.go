package shaders

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/tune"
)

// columns are the numbers of columns of default schedules besides one.
var columns = []int{4, 8}

// typical are the rows and elements of K of the products that default schedules are for: matrices of language models.
var typical = [][2]int{{4096, 14336}, {14336, 4096}, {16384, 16384}}

// Default are the schedules of the space of workgroups that the model finds fastest, by the speeds that t has: a kernel for one column, and
// kernels for more that read the same packed matrix. If t has cooperative matrices, one of these is by them, if the format allows it. If products
// have many activations, ns of them, it may be the only one.
func Default(ctx context.Context, p ir.Problem, t spirv.Target, ns ...int) (uses []search.Use, err error) {
	if p.Act.Floats() {
		return nil, fmt.Errorf("%s: shaders multiply 8-bit activations: compile it for a CPU", p.Name())
	}
	sp, tiles, err := spaceFor(p, t, ns)
	if err != nil {
		return nil, err
	}
	c := &choice{ctx: ctx, on: t, known: map[string]float64{}}
	if tiles {
		c.n = slices.Min(ns)
		if x, err := c.best(sp, nil); err == nil {
			k, err := sp.Kernel(x)
			return []search.Use{{Cols: k.Cols, Trace: x.Trace()}}, err
		}
		if sp, err = space.For(p, t); err != nil {
			return nil, err
		}
	}
	c.n = 0
	one, err := c.best(sp.Spare().Spare().Columns(1), nil) // long shaders take drivers long, and their lanes many registers
	if err != nil {
		one, err = c.best(sp.Columns(1), nil)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no default schedule for %s: %w: give one with -trace", p.Name(), t.Machine().Name, err)
	}
	one, byMatrices := c.together(sp, one)
	k, err := sp.Kernel(one)
	if err != nil {
		return nil, err
	}
	first := search.Use{Cols: k.Cols, Trace: one.Trace()}
	if fused, ok := c.quantizing(sp, one); ok {
		first = fused
	}
	uses = append(uses, first)
	for _, n := range columns {
		if x, err := c.best(sp.Columns(n).Sharing(k), one); err == nil {
			uses = append(uses, search.Use{Cols: n, Trace: x.Trace()})
		}
	}
	return append(uses, byMatrices...), ctx.Err()
}

// many is a number of activations that kernels by matrices are chosen for if they have one packed matrix with kernels for one column, and
// mostLayouts how many layouts of these they are tried with.
const many, mostLayouts = 256, 4

// together is a point for one column, as fast as x or not much slower, and a kernel by cooperative matrices that reads the same packed matrix:
// the ones that are fastest together. It is x alone if there are none.
func (c *choice) together(sp *space.Space, x space.Point) (space.Point, []search.Use) {
	speeds := c.on.Speeds()
	if len(speeds.Shapes) == 0 {
		return x, nil
	}
	by := &choice{ctx: c.ctx, on: c.on, n: many, known: map[string]float64{}}
	least, best := math.Inf(1), x
	var of *space.Space
	var tile space.Point
	for _, y := range c.layouts(sp, x) {
		k, err := sp.Kernel(y)
		if err != nil {
			continue
		}
		tiles, err := space.ForTilesOf(k, c.on, speeds.Subgroup, speeds.Shapes)
		if err != nil {
			continue
		}
		var z space.Point
		if tile == nil {
			z, err = by.best(tiles, nil)
		} else {
			z, err = tiles.Near(tile)
		}
		if err != nil {
			continue
		}
		if n := c.cost(sp, y) + by.cost(tiles, z); n < least {
			least, best, of, tile = n, y, tiles, z
		}
	}
	if tile == nil {
		return x, nil
	}
	tile, err := by.best(of, tile)
	if err != nil {
		return x, nil
	}
	k, err := of.Kernel(tile)
	if err != nil {
		return x, nil
	}
	return best, []search.Use{{Cols: k.Cols, Trace: tile.Trace()}}
}

// layouts are x and points like it with other packed matrices, the fastest first.
func (c *choice) layouts(sp *space.Space, x space.Point) []space.Point {
	one := sp.Spare().Spare().Columns(1)
	var all []space.Point
	c.spent = 0
	for i, rule := range sp.Rules() {
		if !slices.Contains(moved, rule) || !sp.Layout(i) {
			continue
		}
		for _, y := range one.Options(x, i, mostOptions) {
			if c.spent > budget || c.ctx.Err() != nil {
				break
			}
			if !math.IsInf(c.cost(sp, y), 1) {
				all = append(all, y)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b space.Point) int { return cmp.Compare(c.cost(sp, a), c.cost(sp, b)) })
	out, known := []space.Point{}, map[string]bool{}
	for _, y := range append([]space.Point{x}, all...) {
		k, err := sp.Kernel(y)
		if err == nil && !known[k.Buffers()] && len(out) < mostLayouts {
			known[k.Buffers()], out = true, append(out, y)
		}
	}
	return out
}

// fewestOfTiles is the fewest activations of a product that matrices are worth a try for: a workgroup of them has at least this number.
const fewestOfTiles = 32

// spaceFor is the space of schedules of a product with ns activations, if these are known. tiles says that it is the one of cooperative
// matrices, which t has, and all products have many activations.
func spaceFor(p ir.Problem, t spirv.Target, ns []int) (sp *space.Space, tiles bool, err error) {
	if speeds := t.Speeds(); len(ns) > 0 && slices.Min(ns) >= fewestOfTiles && len(speeds.Shapes) > 0 {
		if sp, err = space.ForTiles(p, t, speeds.Subgroup, speeds.Shapes); err == nil {
			if _, err = sp.First(); err == nil {
				return sp, true, nil
			}
		}
	}
	sp, err = space.For(p, t)
	return sp, false, err
}

// choice estimates points.
type choice struct {
	ctx   context.Context
	on    spirv.Target
	n     int // activations, 0: the columns of the kernel
	known map[string]float64
	spent int // iterations that the code of estimated points spells out
}

// Of each of the decisions that moved names, mostOptions alternatives are estimated, in at most mostRounds rounds over all of them, until the
// code of the estimated points spells out more iterations than budget.
const mostOptions, mostRounds, budget = 6, 2, 4096

// moved are the decisions that say how a device is used. The others are the first offers.
var moved = []string{"columns", "column lanes", "rows", "load", "row fields", "row lanes", "lanes", "fields", "steps", "book lanes", "group lanes", "order", "scaled", "shared", "prefetch", "parts", // of matrices:
	"fold", "matrix", "column subgroups", "row subgroups", "depth", "stage", "scales"}

// best is the point of a space that the model finds fastest. It begins with the one nearest to x, or the first, and takes for one decision after
// the other the best of its alternatives, until none is better or the budget is spent.
func (c *choice) best(sp *space.Space, x space.Point) (space.Point, error) {
	at, err := c.first(sp, x)
	if err != nil {
		return nil, err
	}
	c.spent = 0
	least, rules := c.cost(sp, at), sp.Rules()
	for range mostRounds {
		before := least
		for i, rule := range rules {
			if !sp.Moves(i) || !slices.Contains(moved, rule) {
				continue
			}
			for _, y := range sp.Options(at, i, mostOptions) {
				if c.spent > budget || c.ctx.Err() != nil {
					break
				}
				if n := c.cost(sp, y); n < least {
					at, least = y, n
				}
			}
		}
		if least == before {
			break
		}
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if math.IsInf(least, 1) {
		return nil, errLong
	}
	return at, nil
}

// tried is how many samples stand in for a first point.
const tried = 16

// first is the point of a space that is nearest to x, or the first. Where first offers lead nowhere, it is the fastest of some samples.
func (c *choice) first(sp *space.Space, x space.Point) (space.Point, error) {
	if x != nil {
		return sp.Near(x)
	}
	at, err := sp.First()
	if err == nil {
		return at, nil
	}
	rng, least := rand.New(rand.NewSource(1)), math.Inf(1)
	for range tried {
		if y, failed := sp.Sample(rng); failed == nil && c.ctx.Err() == nil {
			if n := c.cost(sp, y); n < least {
				at, least, err = y, n, nil
			}
		}
	}
	return at, err
}

// spelled is how many iterations the code of a kernel spells out.
func spelled(k *schedule.Kernel) int {
	n := 1
	for _, l := range k.Nest.Loops {
		if l.Kind == nest.Unrolled || l.Kind == nest.Vector {
			n *= l.N
		}
	}
	return n
}

// cost is the mean logarithm of the times of typical products, infinite of a point that has no shader.
func (c *choice) cost(sp *space.Space, x space.Point) float64 {
	key := x.Trace().Key()
	if n, ok := c.known[key]; ok {
		return n
	}
	c.known[key] = math.Inf(1)
	k, err := sp.Kernel(x)
	if err != nil {
		return math.Inf(1)
	}
	c.spent += spelled(k)
	s, err := Select(c.ctx, c.on, k)
	if err != nil {
		return math.Inf(1)
	}
	sum := 0.0
	for _, shape := range typical {
		sum += math.Log(s.Estimate(tune.Purpose{M: shape[0], K: shape[1], N: cmp.Or(c.n, k.Cols)}))
	}
	c.known[key] = rounded(sum / float64(len(typical)))
	return c.known[key]
}

// rounded is x on a grid: hosts differ in the last bits of logarithms and roots, and all of them choose the same.
func rounded(x float64) float64 { const steps = 1 << 14; return math.Round(x*steps) / steps }

// Traces are the schedules of uses.
func Traces(uses []search.Use) []schedule.Trace {
	all := []schedule.Trace{}
	for _, u := range uses {
		all = append(all, u.Trace)
	}
	return all
}
