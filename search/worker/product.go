package worker

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/timing"
)

// Test compares a product with its definition, bit for bit, by runtime.SelfTest.
// Kernels of the spec's one variant are the functions of c with their names. Packed
// matrices, activations, and what a kernel writes lie between guard pages. The error
// is a *Wrong, a *Crash or a *Timeout that calls the product what, unless the request
// makes no sense on this machine.
func (c *Code) Test(what string, spec runtime.Spec, seed uint64) error {
	_, err := c.ask(what, request{Test: &testRequest{withoutFuncs(spec), seed}})
	return err
}

// Timed is a product to measure: M x K random weights times N random activations, the
// weights in so many copies, used in turn, that they total more than Total bytes.
type Timed struct {
	Spec    runtime.Spec
	M, N, K int
	Total   int
}

// Time measures products in interleaved rounds. Test them before: nothing looks at
// their results here.
func (c *Code) Time(what string, opt timing.Options, products ...Timed) ([]timing.Sample, error) {
	return c.time(what, timeRequest{Products: products, Options: []timing.Options{opt}})
}

// Compare is Time of two products, by the first options, and then by the next ones
// unless the second product took more than most times as long as the first.
func (c *Code) Compare(what string, opts []timing.Options, most float64, a, b Timed) ([]timing.Sample, error) {
	return c.time(what, timeRequest{Products: []Timed{a, b}, Options: opts, Most: most})
}

func (c *Code) time(what string, q timeRequest) ([]timing.Sample, error) {
	q.Products = slices.Clone(q.Products)
	for i := range q.Products {
		q.Products[i].Spec = withoutFuncs(q.Products[i].Spec)
	}
	r, err := c.ask(what, request{Time: &q})
	if err != nil {
		return nil, err
	}
	return r.Samples, nil
}

// withoutFuncs is spec as it can be sent: its kernels are found by their names.
func withoutFuncs(spec runtime.Spec) runtime.Spec {
	vs := make([]runtime.Variant, len(spec.Variants))
	for i, v := range spec.Variants {
		v.Kernels = append([]runtime.Kernel(nil), v.Kernels...)
		for j := range v.Kernels {
			v.Kernels[j].Fn = nil
		}
		if v.Prepare != nil {
			p := *v.Prepare
			p.Fn = nil
			v.Prepare = &p
		}
		vs[i] = v
	}
	spec.Variants = vs
	return spec
}

// product is the product of a spec whose one variant runs functions of s; kernels
// are wrapped by wrap.
func (s *server) product(spec *runtime.Spec, wrap func(*runtime.Kernel)) (*runtime.Product, error) {
	if len(spec.Variants) != 1 {
		return nil, fmt.Errorf("a product of %d variants, want one", len(spec.Variants))
	}
	if err := jit.Bind(&spec.Variants[0], s.function); err != nil {
		return nil, err
	}
	for i := range spec.Variants[0].Kernels {
		wrap(&spec.Variants[0].Kernels[i])
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return runtime.New(*spec).On(spec.Variants[0].Target)
}

// test runs the self-test of a product, all of its memory between guard pages.
func (s *server) test(q *testRequest, r *reply) error {
	var held []guarded
	defer func() {
		for _, g := range held {
			g.free()
		}
	}()
	var out error // of memory
	alloc := func(n int, low bool) []byte {
		g, err := guard(n, low)
		if err != nil {
			out = errors.Join(out, err)
			return make([]byte, n)
		}
		held = append(held, g)
		return g.buf
	}
	p, err := s.product(&q.Spec, func(k *runtime.Kernel) { guardOut(k, alloc) })
	if err != nil {
		return err
	}
	high := func(n int) []byte { return alloc(n, false) }
	if err := runtime.SelfTestIn(p, rand.New(rand.NewPCG(1, q.Seed)), high); err != nil && out == nil {
		r.Wrong = err.Error()
	}
	return out
}

// guardOut makes k write between guard pages: in turn to memory that begins and that
// ends at one.
func guardOut(k *runtime.Kernel, alloc func(n int, low bool) []byte) {
	fn, size := k.Fn, 4*k.Rows*k.Cols
	bufs, next := [2][]byte{alloc(size, true), alloc(size, false)}, 0
	k.Fn = func(a *runtime.GemmArgs) {
		b := *a
		b.Out = unsafe.Pointer(unsafe.SliceData(bufs[next]))
		fn(&b)
		copy(unsafe.Slice((*byte)(a.Out), size), bufs[next])
		next = 1 - next
	}
}

func (s *server) time(q *timeRequest, r *reply) error {
	var fns []func()
	for i := range q.Products {
		fn, done, err := s.timed(&q.Products[i], i == 0)
		if err != nil {
			return err
		}
		defer done()
		fns = append(fns, fn)
	}
	for _, opt := range q.Options {
		r.Samples = timing.Time(opt, fns...)
		if n := len(fns) - 1; q.Most > 0 && r.Samples[n].Min > q.Most*r.Samples[0].Min {
			break
		}
	}
	return nil
}

// kept is the call of a product that was measured, with its matrices, for the next
// request: what others are compared with is the same each time.
type kept struct {
	id   string
	call func()
	free func()
}

func (s *server) forget() {
	if s.first.free != nil {
		s.first.free()
	}
	s.first = kept{}
}

// timed is the call of a product with the next copy of its weights. That of the first
// product of a request is kept.
func (s *server) timed(t *Timed, first bool) (call, done func(), err error) {
	id := ""
	if first {
		var text bytes.Buffer
		if err := gob.NewEncoder(&text).Encode(t); err != nil {
			return nil, nil, err
		}
		if id = text.String(); s.first.id == id {
			return s.first.call, func() {}, nil
		}
		s.forget()
	}
	p, err := s.product(&t.Spec, func(*runtime.Kernel) {})
	if err != nil {
		return nil, nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(t.M), uint64(t.K)))
	packed, err := timing.PackRandom(p, t.M, t.K, rng)
	if err != nil {
		return nil, nil, err
	}
	weights, err := timing.NewCopies(packed, t.Total)
	if err != nil {
		return nil, nil, err
	}
	call, _, err = timing.Calls(p, weights, t.M, t.N, t.K, rng)
	if err != nil || !first {
		return call, func() { weights.Close() }, err
	}
	s.first = kept{id, call, func() { weights.Close() }}
	return call, func() {}, nil
}
