package beam

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
)

// code is what equal kernels become. Many decisions make no difference: one point in four has loops that another one had already, and of
// the others one in six has the vector IR of another one.
type code struct {
	kernel *schedule.Kernel // one of them

	mu     sync.Mutex
	found  bool    // the vector IR is known
	same   *code   // that has the same one and was found earlier, nil: none
	floor  float64 // cycles that a call takes at least by what is selected, 0: not known
	known  bool    // it was found out whether there is a kernel
	err    error
	wrong  float64 // if err is not nil
	least  float64
	cycles map[cost.Place]float64 // of places that were asked for
}

// sizes are equal for equal kernels, and quickly compared.
type sizes struct{ rows, cols, stepK, tileM, params int }

func sizesOf(k *schedule.Kernel) sizes {
	return sizes{k.Rows, k.Cols, k.StepK, k.Weights.TileM, len(k.Nest.Params)}
}

// codeOf is the code of k: that of an equal kernel, if there was one.
func (c *chooser) codeOf(k *schedule.Kernel) *code {
	of := sizesOf(k)
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
	return reflect.DeepEqual(x.kernel.Nest, k.Nest) && x.besideCode(k)
}

// besideCode says that k has what x has that code does not show, and that decides how long calls take.
func (x *code) besideCode(k *schedule.Kernel) bool {
	return sizesOf(x.kernel) == sizesOf(k) && x.kernel.Fill == k.Fill && reflect.DeepEqual(x.kernel.Weights, k.Weights) && reflect.DeepEqual(x.kernel.Tables, k.Tables)
}

// earlier is the code with vector IR f that was found before x, nil if there is none.
func (c *chooser) earlier(x *code, f *vir.Func) *code {
	digest := f.Digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, y := range c.vectors[digest] {
		if y.besideCode(x.kernel) {
			return y
		}
	}
	c.vectors[digest] = append(c.vectors[digest], x)
	return nil
}

// compiled is selected code, and what its execution units take.
type compiled struct {
	*lower.Selected
	cost.Pipeline
}

// selected selects the code of x, nil if there is none, or if an earlier one is the same.
func (c *chooser) selected(x *code) *lower.Selected {
	f, err := lower.VectorizeShort(x.kernel.Nest, x.kernel.Nest.Name, cost.MostInstrs)
	if err == nil && !x.found {
		if x.found, x.same = true, c.earlier(x, f); x.same != nil {
			return nil
		}
	}
	var s *lower.Selected
	if err == nil {
		s, err = lower.SelectShort(c.ctx, c.target, f, cost.MostInstrs)
	}
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
	var m *compiled
	if !x.known && x.same == nil {
		if k.least = x.floor; c.score(set{k}, ps) >= bound {
			return nil
		}
		if s := c.selected(x); s != nil {
			if k.least = x.floor; c.score(set{k}, ps) >= bound {
				return nil
			}
			m = x.run(c.ctx, s)
		}
	}
	if x.same != nil {
		return c.evaluate(k, x.same, ps, bound)
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
				if s := c.selected(x); s != nil {
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
