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
	known  bool
	err    error
	wrong  float64 // if err is not nil
	least  float64
	share  float64
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

// compile selects the code, and finds out whether there is a kernel.
func (x *code) compile(ctx context.Context, t lower.Target) *compiled {
	x.known, x.wrong = true, refused
	var s *lower.Selected
	if s, x.err = cost.Select(ctx, t, x.kernel.Nest, cost.MostInstrs); x.err != nil {
		if long := (*lower.Long)(nil); errors.As(x.err, &long) {
			x.wrong = muchCode + float64(long.Instrs)
		}
		return nil
	}
	p := cost.Run(ctx, x.kernel, s)
	if p.Refused != nil {
		x.wrong, x.err = lacks(p)
		return nil
	}
	x.least, x.share = p.Cycles, cost.Brought(s.Machine.Core, x.kernel)
	return &compiled{s, p}
}

// evaluate finds what calls of k take for some purposes, as long as its score is less than bound. It holds x, so that equal kernels are
// compiled once.
func (c *chooser) evaluate(k *kernel, x *code, ps []Purpose, bound float64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var m *compiled
	if !x.known {
		m = x.compile(c.ctx, c.target)
	}
	if k.wrong = x.wrong; x.err != nil {
		return x.err
	}
	k.least, k.share, k.cycles = x.least, x.share, map[cost.Place]float64{}
	for _, p := range ps {
		if c.score(set{k}, ps) >= bound {
			return nil
		}
		at := p.At.Alone()
		if x.cycles[at] == 0 {
			if m == nil {
				m = x.compile(c.ctx, c.target)
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
