package beam

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
)

// code is what equal kernels become. Many decisions make no difference: one point in four has loops that another one had already.
type code struct {
	kernel *schedule.Kernel // one of them

	mu     sync.Mutex
	floor  float64 // cycles that a call takes at least by what is selected, 0: not known
	known  bool    // it was found out whether there is a kernel
	err    error
	wrong  float64 // if err is not nil
	least  float64
	cycles map[cost.Place]float64 // of places that were asked for
}

// sizes are equal for equal kernels, and quickly compared.
type sizes struct{ rows, cols, stepK, tileM, params int }

// codeOf is the code of k: that of an equal kernel, if there was one.
func (c *chooser) codeOf(k *schedule.Kernel) *code {
	of := sizes{k.Rows, k.Cols, k.StepK, k.Weights.TileM, len(k.Nest.Params)}
	for seen := 0; ; {
		c.mu.Lock()
		all := c.codes[of]
		if seen == len(all) {
			x := &code{kernel: k, cycles: map[cost.Place]float64{}}
			c.codes[of] = append(all, x)
			c.mu.Unlock()
			return x
		}
		c.mu.Unlock()
		for _, x := range all[seen:] {
			if x.of(k) {
				return x
			}
		}
		seen = len(all)
	}
}

// of says that k becomes this code, and that calls take equally long.
func (x *code) of(k *schedule.Kernel) bool {
	return x.kernel.Fill == k.Fill && reflect.DeepEqual(x.kernel.Nest, k.Nest) && reflect.DeepEqual(x.kernel.Weights, k.Weights)
}

// compiled is selected code, and what its execution units take.
type compiled struct {
	*lower.Selected
	cost.Pipeline
}

// selected selects the code, nil if there is none.
func (x *code) selected(ctx context.Context, t lower.Target) *lower.Selected {
	s, err := cost.Select(ctx, t, x.kernel.Nest, cost.MostInstrs)
	if err != nil {
		x.known, x.wrong, x.err = true, refused, err
		if long := (*lower.Long)(nil); errors.As(err, &long) {
			x.wrong = muchCode + float64(long.Instrs)
		}
		return nil
	}
	x.floor = cost.Floor(x.kernel, s)
	return s
}

// run finds out whether there is a kernel, and what it takes.
func (x *code) run(ctx context.Context, s *lower.Selected) *compiled {
	x.known, x.wrong = true, refused
	p := cost.Run(ctx, x.kernel, s)
	if p.Refused != nil {
		x.wrong, x.err = lacks(p)
		return nil
	}
	x.least = p.Cycles
	return &compiled{s, p}
}

// evaluate finds what calls of k take for some purposes, as long as its score is less than bound: it compiles no further than that takes. It holds
// x, so that equal kernels are compiled once.
func (c *chooser) evaluate(k *kernel, x *code, ps []Purpose, bound float64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var s *lower.Selected
	var m *compiled
	if !x.known {
		if k.least = x.floor; c.score(set{k}, ps) >= bound {
			return nil
		}
		if s = x.selected(c.ctx, c.target); s != nil {
			if k.least = x.floor; c.score(set{k}, ps) >= bound {
				return nil
			}
			m = x.run(c.ctx, s)
		}
	}
	if k.wrong = x.wrong; x.err != nil {
		return x.err
	}
	k.least, k.cycles = x.least, map[cost.Place]float64{}
	for _, p := range ps {
		if c.score(set{k}, ps) >= bound {
			return nil
		}
		at := p.At.Alone()
		if x.cycles[at] == 0 {
			if m == nil {
				if s = x.selected(c.ctx, c.target); s != nil {
					m = x.run(c.ctx, s)
				}
			}
			if m == nil {
				return x.err
			}
			x.cycles[at] = cost.Waiting(m.Machine.Core, x.kernel, m.Selected, m.Pipeline, at).Cycles
		}
		k.cycles[at] = x.cycles[at]
	}
	return nil
}
