package beam

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Preparation chooses the schedule that prepares activations of p on a target, also tables if there are any. The tables of `chunk`
// elements of K lie together, 0: of all elements. This is how a column's tables lie in a block of several columns.
// Figures: docs/lab/choices.md, Preparations.
func Preparation(ctx context.Context, p ir.Problem, tables *ir.Tables, chunk int, t lower.Target) (schedule.Trace, error) {
	trace, _, err := preparation(ctx, p, tables, chunk, t)
	return trace, err
}

// preparation is Preparation, and the cycles of a row of cost.TypicalK activations.
func preparation(ctx context.Context, p ir.Problem, tables *ir.Tables, chunk int, t lower.Target) (schedule.Trace, float64, error) {
	sp, err := space.ForPreparation(p, tables, chunk, t)
	if err != nil {
		return nil, 0, err
	}
	var x space.Point
	for _, part := range sp.Parts() {
		best, err := partOf(ctx, part, t)
		if err != nil {
			return nil, 0, err
		}
		x = append(x, best...)
	}
	return ahead(ctx, sp, x, t)
}

// batch is about how many rows a preparation is called for, one after the other.
const batch = 8

// parts are the chosen points of parts of preparations, which many products have in common, by the text of the part and the target.
var parts sync.Map

// partOf chooses a point of a part of a preparation.
func partOf(ctx context.Context, sp *space.Space, t lower.Target) (space.Point, error) {
	first, err := sp.First()
	if err != nil {
		return nil, err
	}
	k, err := sp.Preparation(first)
	if err != nil {
		return nil, err
	}
	m := t.Machine()
	key := fmt.Sprintf("%s %+v\n%v\n%s", m.ISA.Name, m.Core, k.Nest, first.Trace().Key())
	if tables := k.Nest.Loops[0].Root; strings.HasPrefix(tables, "table.") || strings.HasPrefix(tables, "wide.") {
		key += fmt.Sprintf("%+v", *k.Tables)
	}
	if x, ok := parts.Load(key); ok {
		return x.(space.Point), nil
	}
	var x space.Point
	for _, most := range []int{cost.MostInstrs / 4, cost.MostInstrs} { // long code is rarely the best
		if x, err = choose(ctx, sp, (&partCost{Space: sp, Target: t, most: most}).of); err == nil {
			parts.Store(key, x)
			break
		}
	}
	return x, err
}

// partCost predicts how long points of a part of a preparation take, with code of at most `most` instructions.
type partCost struct {
	*space.Space
	lower.Target
	most  int
	known sync.Map // predictions
}

// vectors are equal for kernels that take equally long: of equal vector IR, whose loops run equally often.
type vectors struct {
	vir.Digest
	counts string
}

// prediction is what kernels cost that have equal vector IR. It is made once.
type prediction struct {
	once sync.Once
	cost float64
	err  error
}

// of is the logarithm of the cycles of a row in steps of `alike`.
func (c *partCost) of(ctx context.Context, x space.Point) (float64, error) {
	k, err := c.Preparation(x)
	if err != nil {
		return math.Inf(1), err
	}
	f, err := lower.VectorizeShort(k.Nest, k.Nest.Name, c.most)
	if err != nil {
		return refused, err
	}
	known, _ := c.known.LoadOrStore(vectors{f.Digest(), fmt.Sprint(k.CountDiv)}, new(prediction))
	p := known.(*prediction)
	p.once.Do(func() { p.cost, p.err = c.predict(ctx, k, f) })
	return p.cost, p.err
}

// predict is of for a kernel of vector IR f.
func (c *partCost) predict(ctx context.Context, k *schedule.PreparationKernel, f *vir.Func) (float64, error) {
	s, p, wrong, err := pipeline(ctx, k, f, c.Target, c.most)
	if err != nil {
		return wrong, err
	}
	return math.Round(logarithm(p.Cycles+around(s, p, trips(k), 1./batch)) / alike), nil
}

// alike are predictions of times: the logarithms of two that are this close say nothing, and the sensible decision stays.
const alike = 0.02

// refused is how wrong a schedule is that does not lower: more than one that lacks registers.
const refused = 1e6

// pipeline is the code of k, whose vector IR is f, of at most `most` instructions, and what its execution units take for a row. With an
// error, the last result but one says how wrong k is.
func pipeline(ctx context.Context, k *schedule.PreparationKernel, f *vir.Func, t lower.Target, most int) (*lower.Selected, cost.Pipeline, float64, error) {
	s, err := lower.SelectShort(ctx, t, f, most)
	if err != nil {
		return nil, cost.Pipeline{}, refused, err
	}
	p := cost.Code(ctx, s, trips(k))
	if p.Refused == nil {
		return s, p, 0, nil
	}
	wrong, err := lacks(p)
	return nil, p, wrong, err
}

// trips says how often loops of k run for cost.TypicalK activations.
func trips(k *schedule.PreparationKernel) func(count vir.Extent, listed bool) float64 {
	counts := len(k.Nest.Params) - len(k.CountDiv)
	return func(count vir.Extent, _ bool) float64 {
		if count.Param < 0 {
			return float64(count.Const)
		}
		div := k.CountDiv[count.Param-counts]
		return float64((cost.TypicalK + div - 1) / div)
	}
}

// ahead is the schedule x of a whole preparation, and the loop that asks for the next row, if one makes up for it: rows of a batch come from
// the third-level cache, while the loop runs that asks for them, or else the first one that reads them. The cycles are of a row.
func ahead(ctx context.Context, sp *space.Space, x space.Point, t lower.Target) (schedule.Trace, float64, error) {
	least, best := math.Inf(1), schedule.Trace(nil)
	var fail error
	none := append(x, nil)
	for _, y := range append([]space.Point{none}, sp.Options(none, len(x), math.MaxInt32)...) {
		k, err := sp.Preparation(y)
		if err != nil {
			return nil, 0, err
		}
		f, err := lower.Vectorize(k.Nest, k.Nest.Name)
		if err != nil {
			fail = err
			continue
		}
		s, p, _, err := pipeline(ctx, k, f, t, cost.MostInstrs*len(sp.Parts()))
		if err != nil {
			fail = err
			continue
		}
		brought := float64(4 * cost.TypicalK / 64 * s.Machine.Core.Hierarchy.Line[cost.L3])
		if c := p.Cycles + max(0, brought-meanwhile(s, p)); c < least {
			least, best = c, y.Trace()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if best == nil {
		return nil, 0, fail
	}
	return best, least, nil
}

// meanwhile is the cycles of the first loop that asks for activations ahead, or if there is none, of the first one that reads them.
func meanwhile(s *lower.Selected, p cost.Pipeline) (cycles float64) {
	var asks, reads *vir.Loop
	vir.Walk(s.Func.Body, func(in *vir.Instr, around []*vir.Loop) {
		switch {
		case len(around) == 0 || !in.HasMem():
		case asks == nil && in.Op == vir.OpPrefetch:
			asks = around[len(around)-1]
		case reads == nil && s.Func.Params[in.Mem.Buf].Name == "x":
			reads = around[len(around)-1]
		}
	})
	if asks == nil {
		asks = reads
	}
	for _, x := range p.Stretches {
		if asks != nil && x.Loop != nil && x.Loop.ID == asks.ID {
			cycles += float64(x.Cycles * x.Times)
		}
	}
	return cycles
}
