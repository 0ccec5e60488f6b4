// Package ranking holds the model of costs against measured pairs of schedules.
package ranking

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

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

// Decided compiles the pairs of products that say something: a pair within the noise of measurements counts for nothing.
func Decided(ctx context.Context, all []pairs.Pair) ([]*Pair, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(p pairs.Pair) bool { return !p.Decided() || p.Operator != "" })
	out, errs := make([]*Pair, len(all)), make([]error, len(all))
	each(len(all), func(i int) { out[i], errs[i] = New(ctx, all[i]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	return out, nil
}

// each calls f for 0 to n-1, several at a time.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			f(i)
			<-free
		})
	}
	all.Wait()
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

// Score is how many pairs a model ranks right, and how clearly it ranks all, up to 1 for each.
type Score struct {
	Right, Clear float64
	Of           int
}

// equal is a logarithm of a ratio up to which a model finds two schedules equal: such a pair counts a half.
const equal = 1e-6

// With is s and a pair, by its Log.
func (s Score) With(x float64) Score {
	s.Of++
	switch {
	case math.Abs(x) < equal:
		s.Right += 0.5
	case x > 0:
		s.Right++
	}
	s.Clear += 1 / (1 + math.Exp(-x/(pairs.Noise-1))) // measured ratios are about so far off
	return s
}

// Scores are a model's by the cores that pairs were measured on, and "" by all.
type Scores map[string]Score

// Rank scores a model by pairs.
func Rank(all []*Pair, m cost.Model) Scores {
	logs := make([]float64, len(all))
	each(len(all), func(i int) { logs[i] = all[i].Log(m) })
	out := Scores{}
	for i, x := range logs { // in one order, so that sums are the same each time
		for _, name := range []string{"", all[i].Core} {
			out[name] = out[name].With(x)
		}
	}
	return out
}

// Without is the share of pairs that are ranked right, and how clearly: the mean over all cores but one.
func (s Scores) Without(core string) float64 {
	n, sum := 0.0, 0.0
	for name, x := range s {
		if name != "" && name != core {
			n++
			sum += (x.Right + x.Clear) / float64(2*x.Of)
		}
	}
	return math.Round(1e6*sum/n) / 1e6 // whatever the order of cores was
}
