package shaders

import (
	"context"
	"math"
	"slices"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/tune"
)

// preparation is the predicted times of the kernel of a device that prepares a row of activations.
type preparation struct {
	ctx   context.Context
	p     ir.Problem
	to    schedule.Prepared
	on    spirv.Speeds
	known map[int]float64
}

// time is how long a row of k activations takes, in ns, if products wait for it: by a dispatch of one workgroup. It is infinite if there is no such kernel.
func (x *preparation) time(k int) float64 {
	if ns, ok := x.known[k]; ok {
		return ns
	}
	ns, err := x.predict(k)
	if err != nil {
		ns = math.Inf(1)
	}
	x.known[k] = ns
	return ns
}

func (x *preparation) predict(k int) (float64, error) {
	of, err := build.Quantizer(x.p, x.to, build.QuantizerLength(x.p, k))
	if err != nil {
		return 0, err
	}
	f, err := lower.Vectorize(of.Nest, of.Of.Name)
	if err != nil {
		return 0, err
	}
	s, err := lower.SelectShort(x.ctx, operators.ShaderTarget(), f, mostInstrs)
	if err != nil {
		return 0, err
	}
	w := spirv.WorkOf(s, func(param int) int { return ceil(k, max(1, of.Params[param].Div)) }, x.on.Subgroup)
	w.Iterations = w.Turns
	lanes := float64(ceil(w.Lanes, x.on.Subgroup) * x.on.Subgroup)
	t := Times{Launch: x.on.Launch, Start: x.on.Start}
	t.share(x.on, w, lanes/busy(1/float64(x.on.Processors), resident(x.on, wordsOf(w), lanes)), 1)
	return t.Total(), nil
}

// single is a kernel for one column and what prepares its activations: a dispatch before it, or for some products its workgroups.
type single struct {
	plain   *Selected
	prepare *preparation
	floats  *Selected // plain, with the step quantize; nil: there is none
}

// newSingle is the product of k, which may end with the step quantize.
func newSingle(ctx context.Context, t spirv.Target, k *schedule.Kernel) (x *single, err error) {
	x = &single{}
	if k.Quantized != nil {
		if x.floats, err = Select(ctx, t, k); err != nil {
			return nil, err
		}
		if k, err = schedule.Compile(k.Problem, schedule.Unquantized(k.Trace)); err != nil {
			return nil, err
		}
	}
	x.plain, err = Select(ctx, t, k)
	x.prepare = &preparation{ctx, k.Problem, k.Wants(), t.Speeds(), map[int]float64{}}
	return x, err
}

// fused is how long a product of some rows and k elements takes if each workgroup prepares its activations, in ns: without room for them it never ends.
func (x *single) fused(rows, k int) float64 {
	if x.floats == nil || k > x.floats.Room {
		return math.Inf(1)
	}
	return x.floats.Estimate(tune.Purpose{M: rows, K: k, N: 1})
}

// separate is how long it takes by a dispatch that prepares activations and one that multiplies.
func (x *single) separate(rows, k int) float64 {
	return x.prepare.time(k) + x.plain.Estimate(tune.Purpose{M: rows, K: k, N: 1})
}

// time is the shorter of both.
func (x *single) time(rows, k int) float64 { return min(x.fused(rows, k), x.separate(rows, k)) }

// The table of the products that are worth it has these lengths of rows and more, by powers of two, up to mostRows rows of weights.
const shortest, mostRows = 1 << 10, 1 << 20

// worth says for how many rows of weights it is faster if each workgroup prepares activations. Matrices that share them count together: their products lie side by
// side, and one preparation would do.
func (x *single) worth() (out []abi.FusedRows) {
	for k := shortest; k <= x.floats.Room; k *= 2 {
		rows := 0
		for next := x.floats.Rows; next <= mostRows && x.fused(next, k) < x.separate(next, k); next *= 2 {
			rows = next
		}
		out = append(out, abi.FusedRows{K: k, Rows: rows})
	}
	return out
}

// decoded are rows and elements of K of the products of one activation in language models: typical ones, and smaller ones, which are the more often worth it.
var decoded = append([][2]int{{1024, 1024}, {4096, 4096}, {1024, 4096}}, typical...)

// quantizing is the schedule of x, a kernel for one column, with the step quantize, and for what products it is worth it. ok says that it is for one of decoded.
func (c *choice) quantizing(sp *space.Space, x space.Point) (use search.Use, ok bool) {
	rule := ruleOf(sp)
	of, err := sp.Kernel(x)
	if rule < 0 || err != nil {
		return use, false
	}
	one, err := newSingle(c.ctx, c.on, of)
	if err != nil {
		return use, false
	}
	least, best := math.Inf(1), (*Selected)(nil)
	for _, y := range sp.Options(x, rule, math.MaxInt32) {
		k, err := sp.Kernel(y)
		if err != nil || k.Quantized == nil {
			continue
		}
		if one.floats, err = Select(c.ctx, c.on, k); err != nil {
			continue
		}
		sum := 0.0
		for _, shape := range decoded {
			sum += math.Log(one.time(shape[0], shape[1]))
		}
		if sum = rounded(sum); sum < least {
			least, best = sum, one.floats
		}
	}
	if best == nil {
		return use, false
	}
	one.floats = best
	f := abi.Fused{Most: one.worth()}
	return search.Use{Cols: 1, Trace: best.Trace, Most: f.Most}, slices.ContainsFunc(decoded, func(shape [2]int) bool { return f.Worth(shape[0], shape[1]) })
}

// ruleOf is the number of the rule that decides whether workgroups prepare activations, -1: there is none.
func ruleOf(sp *space.Space) int { return slices.Index(sp.Rules(), "quantize") }
