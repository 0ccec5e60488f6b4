package coverage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// pureGo is multiplication without assembly, of weights packed as a kernel of the target would read them.
type pureGo struct{ lower.Target }

func (p pureGo) Machine() lower.Machine {
	m := p.Target.Machine()
	m.Name = "purego"
	return m
}

// pureGo multiplies in each of the layouts that c's schedules pack weights in.
func (r *runner) pureGo(c *cell) {
	layouts, err := c.layouts()
	for key, l := range layouts {
		key = fmt.Sprint(c.p.Name(), " ", c.use, " ", key)
		err = errors.Join(err, r.products.get(key, func() error { return r.multiply(c, l) }))
	}
	if c.err = err; err != nil {
		r.t.Errorf("%v: %v", c, err)
	}
}

// layouts returns the layouts of c's schedules by their text, at least one. Columns do not count.
func (c *cell) layouts() (map[string]*format.Layout, error) {
	out := map[string]*format.Layout{}
	narrow := *c
	narrow.use = 0
	var refused error
	for _, x := range narrow.choices() {
		k, err := schedule.Compile(c.p, x.Trace(c.p))
		if err != nil {
			refused = err
			continue
		}
		key, err := json.Marshal(k.Weights)
		if err != nil {
			return nil, err
		}
		out[string(key)] = k.Weights
	}
	if len(out) == 0 {
		return nil, refused
	}
	return out, nil
}

// multiply compares products of weights in a layout with the definition.
func (r *runner) multiply(c *cell, l *format.Layout) error {
	spec := runtime.Spec{Name: c.p.Name(), Weight: c.p.Weight, Act: c.p.Act, LimitK: c.p.LimitK(), Layouts: []*format.Layout{l}}
	if err := spec.Validate(); err != nil {
		return err
	}
	product := runtime.New(spec)
	for _, x := range r.floats.get(c.p.Name(), func() [][]quantizedCase { return quantizedCases(c.p) })[c.use] {
		got, err := x.Multiply(product)
		if err == nil {
			err = check.Compare(got, x.want, x.M)
		}
		if err != nil {
			return fmt.Errorf("m %d n %d k %d, %s: %w", x.M, x.N, x.K, x.name, err)
		}
	}
	return nil
}

// quantizedCase is a product of float32 and its result by the definition.
type quantizedCase struct {
	*check.Quantized
	name string
	want []float32
}

// quantizedCases are the cases of coverCases, starting from float32.
func quantizedCases(p ir.Problem) (out [][]quantizedCase) {
	rng := rand.New(rand.NewSource(1))
	for _, u := range uses {
		var all []quantizedCase
		add := func(name string, fill func(*rand.Rand, []float32, int)) {
			c := check.Quantize(rng, p, coverM, u.n, coverK(p), fill)
			all = append(all, quantizedCase{c, name, c.Naive()})
		}
		if u.n > 3 {
			add("all kinds of inputs", func(rng *rand.Rand, x []float32, j int) {
				check.Inputs[j%len(check.Inputs)].Fill(rng, x, j/len(check.Inputs))
			})
		} else {
			for _, in := range check.Inputs {
				add(in.Name, in.Fill)
			}
		}
		out = append(out, all)
	}
	return out
}
