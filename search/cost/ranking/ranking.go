// Package ranking holds the model of costs against measured pairs of schedules.
package ranking

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search/cost"
)

// Pair is a pair with both kernels compiled, and what the execution units of its core take for them.
type Pair struct {
	pairs.Pair
	core  core.Core
	at    cost.Place
	sides [2]side
}

type side struct {
	kernel *schedule.Kernel
	code   *lower.Selected
	units  cost.Pipeline
}

// New compiles both kernels of a pair of a product, for the core that the pair was measured on.
func New(ctx context.Context, p pairs.Pair) (*Pair, error) {
	target, err := targetOf(p)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.Line, err)
	}
	one := &Pair{Pair: p, core: target.Machine().Core}
	if one.at, err = cost.PlaceOf(p.Mode); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.Line, err)
	}
	a, b, err := p.Kernels()
	if err != nil {
		return nil, err
	}
	for i, k := range []*schedule.Kernel{a, b} {
		code, err := cost.Select(ctx, target, k.Nest, cost.Any)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", p.Line, err)
		}
		one.sides[i] = side{k, code, cost.Run(ctx, k, code)}
	}
	return one, nil
}

// targetOf is the target of a pair on the core that it was measured on. The pair's target may be for the ordinary core, whose kernels run on others too.
func targetOf(p pairs.Pair) (lower.Target, error) {
	t := targets.ByName(p.Target)
	if t == nil {
		return nil, fmt.Errorf("no target %q", p.Target)
	}
	if t.Machine().Core.Name == p.Core {
		return t, nil
	}
	cores := targets.Cores()
	i := slices.IndexFunc(cores, func(c core.Core) bool { return c.Name == p.Core })
	if i < 0 {
		return nil, fmt.Errorf("no core %q", p.Core)
	}
	c := cores[i]
	c.Name += "-here"
	c.ISAs = []string{t.Machine().Class()}
	all, err := targets.Tuned(c)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Log is the logarithm of a model's ratio of both times, positive if it ranks them as they were measured.
func (p *Pair) Log(m cost.Model) float64 {
	var times [2]float64
	for i, s := range p.sides {
		times[i] = m.Product(p.core, s.kernel, s.code, s.units, cost.Purpose{N: p.N, At: p.at})
	}
	return math.Copysign(1, math.Log(p.Ratio)) * math.Log(times[0]/times[1])
}

// Equal is a logarithm of a ratio up to which a model finds two schedules equal: such a pair counts a half.
const Equal = 1e-6

// Right is 1 if a model ranks a pair right whose logarithm is x, a half if it finds both equal, and else 0.
func Right(x float64) float64 {
	switch {
	case math.Abs(x) < Equal:
		return 0.5
	case x > 0:
		return 1
	}
	return 0
}
