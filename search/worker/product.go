package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/timing"
)

// Test compares a product with its definition, bit for bit, by runtime.SelfTest.
// Kernels of the spec's one variant are the functions of c with their names. Packed
// matrices, activations, and what a kernel writes lie between guard pages. The error
// is a *Wrong, a *Crash or a *Timeout that calls the product what, unless the request
// makes no sense on this machine.
func (c *Code) Test(what string, spec runtime.Spec, seed uint64) error {
	_, err := c.ask(context.Background(), what, request{Test: &testRequest{withoutFuncs(spec), seed}})
	return err
}

// Timed is a product to measure: M x K random weights times N random activations, the
// weights in enough copies, used in turn, to total more than Total bytes.
type Timed struct {
	Spec    runtime.Spec
	M, N, K int
	Total   int
	Keep    bool // the process keeps the weights: later requests ask for them again
}

// Time measures products in interleaved rounds, and adds to each its share of preparing the activations, which rows
// of a whole matrix have in common: how that is done depends on the schedule too. Test them before: nothing looks
// at their results here.
func (c *Code) Time(what string, opt timing.Options, products ...Timed) ([]timing.Sample, error) {
	return c.time(context.Background(), what, timeRequest{Products: products, Options: opt})
}

// Compare is Time of as and bs in turn, by short, and unless the bs take more than most times as long as the as, in the geometric mean, which it
// reports, then of each a and its b on their own by long: how fast one reads its weights out of a cache depends on what others read in
// between. Figures: docs/lab/choices.md, Compare. What activations have in common is timed by short only.
func (c *Code) Compare(what string, short, long timing.Options, most float64, as, bs []Timed) (samples []timing.Sample, more bool, err error) {
	var products []Timed
	for i := range as {
		products = append(products, as[i], bs[i])
	}
	samples, err = c.time(context.Background(), what, timeRequest{Products: products, Options: short, Longer: long, Most: most})
	return samples, err == nil && meanRatio(samples) > most, err
}

func (c *Code) time(ctx context.Context, what string, q timeRequest) ([]timing.Sample, error) {
	q.Products = slices.Clone(q.Products)
	for i := range q.Products {
		q.Products[i].Spec = withoutFuncs(q.Products[i].Spec)
	}
	r, err := c.ask(ctx, what, request{Time: &q})
	if err != nil {
		return nil, err
	}
	return r.Samples, nil
}

// withoutFuncs is spec as it can be sent: its kernels are found by their names.
func withoutFuncs(spec runtime.Spec) runtime.Spec {
	vs := make([]abi.Variant, len(spec.Variants))
	for i, v := range spec.Variants {
		v.Kernels = append([]abi.Kernel(nil), v.Kernels...)
		for j := range v.Kernels {
			v.Kernels[j].Fn = nil
		}
		if v.Prepare != nil {
			p := *v.Prepare
			p.Fn = nil
			v.Prepare = &p
		}
		v.Device = nil
		vs[i] = v
	}
	spec.Variants = vs
	return spec
}

// product is the product of a spec whose one variant runs functions of s; kernels
// are wrapped by wrap.
func (s *server) product(spec *runtime.Spec, wrap func(*abi.Kernel)) (*runtime.Product, error) {
	if len(spec.Variants) != 1 {
		return nil, fmt.Errorf("a product of %d variants, want one", len(spec.Variants))
	}
	if err := jit.Bind(&spec.Variants[0], s.function); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	for i := range spec.Variants[0].Kernels {
		wrap(&spec.Variants[0].Kernels[i])
	}
	return runtime.New(*spec).On(spec.Variants[0].Target)
}

// test runs the self-test of a product, what callers give it between guard pages. The memory
// that preparation works in is the runtime's, of the heap.
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
	product := func() (*runtime.Product, error) {
		return s.product(&q.Spec, func(k *abi.Kernel) { guardOut(k, q.Spec.Layouts[q.Spec.Variants[0].Layout].TileM, alloc, &r.Wrong) })
	}
	failed := func() error { return nil }
	if onDevice(&q.Spec) {
		var free func()
		q.Spec.Variants[0].Device, failed, free = vulkan.Device()
		defer free()
		product = func() (*runtime.Product, error) { return shaded(&q.Spec) }
	}
	p, err := product()
	if err != nil {
		return err
	}
	r.Skipped = p.Skipped()
	high := func(n int) []byte { return alloc(n, false) }
	err = runtime.SelfTestIn(p, rand.New(rand.NewPCG(1, q.Seed)), high)
	out = errors.Join(out, failed())
	if err != nil && out == nil && r.Wrong == "" {
		r.Wrong = err.Error()
	}
	return out
}

// untouched is in every byte that a kernel may write, and in some between its columns.
const untouched = 0xa5

// guardOut makes k write between guard pages, columns apart: in turn to memory that begins and that
// ends at one. What it stores between columns is wrong.
func guardOut(k *abi.Kernel, tileM int, alloc func(n int, low bool) []byte, wrong *string) {
	const most = 3 // tiles a call
	room := func(tiles int) (column, step, size int) {
		column = 4 * k.Rows * tiles
		return column, column + 12, (k.Cols-1)*(column+12) + column
	}
	var bufs [2][most + 1][]byte
	for tiles := 1; tiles <= most; tiles++ {
		_, _, size := room(tiles)
		bufs[0][tiles], bufs[1][tiles] = alloc(size, true), alloc(size, false)
	}
	scratch := [2][]byte{alloc(k.Scratch, true), alloc(k.Scratch, false)}
	rows, sides := min(k.Rows, tileM), max(k.Rows/tileM, 1) // rows of a side
	fn, next := k.Fn, 0
	call := func(a *abi.GemmArgs, tiles int) {
		b, buf := *a, bufs[next][tiles]
		column, step, _ := room(tiles)
		for i := range buf {
			buf[i] = untouched
		}
		side := 4 * rows * tiles
		b.Out, b.OutStep, b.SideOut, b.Tiles = unsafe.Pointer(unsafe.SliceData(buf)), int64(step), int64(side), int64(tiles)
		if k.Scratch > 0 {
			b.Scratch = unsafe.Pointer(unsafe.SliceData(scratch[next]))
		}
		fn(&b)
		for c := range k.Cols {
			for i := range sides {
				out := unsafe.Add(a.Out, int64(c)*a.OutStep+int64(i)*a.SideOut)
				copy(unsafe.Slice((*byte)(out), side), buf[c*step+i*side:])
			}
			if gap := buf[c*step:][column:min(step, len(buf)-c*step)]; bytes.Count(gap, []byte{untouched}) != len(gap) {
				*wrong = fmt.Sprintf("kernel %s stores behind the %d rows of column %d", k.Name, column/4, c)
			}
		}
		next = 1 - next
	}
	k.Fn = func(a *abi.GemmArgs) {
		left := int(a.Tiles)
		for ; left > most; left -= most { // nothing is moved behind its end
			call(a, most)
			a.Out = unsafe.Add(a.Out, most*a.OutBytes)
			for i, p := range a.Weights {
				if p != nil {
					a.Weights[i] = unsafe.Add(p, most*a.TileBytes)
				}
			}
		}
		call(a, left)
	}
}

func (s *server) time(q *timeRequest, r *reply) error {
	if len(q.Products) > 0 && onDevice(&q.Products[0].Spec) {
		return s.timeShaders(q, r)
	}
	s.round++
	defer s.forget()
	var calls, prepares []func()
	for i := range q.Products {
		call, prepare, err := s.timed(&q.Products[i])
		if err != nil {
			return err
		}
		calls, prepares = append(calls, call), append(prepares, prepare)
	}
	r.Samples = timing.Time(q.Options, calls...)
	if q.Most > 0 && meanRatio(r.Samples) <= q.Most {
		for i := 0; i < len(calls); i += 2 {
			copy(r.Samples[i:], timing.Time(q.Longer, calls[i:i+2]...))
		}
	}
	for i, p := range timing.Time(q.Options, prepares...) {
		share := min(1, float64(q.Products[i].M)/preparedRows) * p.Min
		r.Samples[i].Min += share
		for j := range r.Samples[i].Rounds {
			r.Samples[i].Rounds[j] += share
		}
	}
	return nil
}

// preparedRows is the number of rows of a usual matrix: they share the preparation of their activations.
const preparedRows = 4096

// keepFor is for how many requests weights are kept that none of them uses.
const keepFor = 100

// forget frees weights that need not be kept. It keeps the memory of one matrix.
func (s *server) forget() {
	for id, w := range s.weights {
		if w.keep && s.round-w.used <= keepFor {
			continue
		}
		delete(s.weights, id)
		if w.copies.Lent() {
			w.copies.Close()
			continue
		}
		if s.spare != nil {
			s.spare.Close()
		}
		s.spare = w.copies
	}
}

// meanRatio is the geometric mean of the ratios of each odd sample's time to the even sample's before it.
func meanRatio(s []timing.Sample) float64 {
	sum := 0.0
	for i := 0; i+1 < len(s); i += 2 {
		sum += math.Log(s[i+1].Min / s[i].Min)
	}
	return math.Exp(sum / float64(len(s)/2))
}

// weights are the packed copies of a matrix.
type weights struct {
	copies *timing.Copies
	total  int // of spaced copies: where parts of memory are slower than others, products that are compared should read the same ones
	keep   bool
	used   int // the last request
}

// timed is the call of a product with the next copy of its weights: those that another product of this
// request has, which differs in N, or that were kept. They outlive the functions of the product, which
// are loaded again and again.
func (s *server) timed(t *Timed) (call, prepare func(), err error) {
	p, err := s.product(&t.Spec, func(*abi.Kernel) {})
	if err != nil {
		return nil, nil, err
	}
	var id bytes.Buffer
	if err := gob.NewEncoder(&id).Encode(struct {
		Weight      format.Weight
		Layouts     []*format.Layout
		M, K, Total int
	}{t.Spec.Weight, t.Spec.Layouts, t.M, t.K, t.Total}); err != nil {
		return nil, nil, err
	}
	w := s.weights[id.String()]
	if w == nil {
		if w, err = s.newWeights(p, t, timedRng(t)); err != nil {
			return nil, nil, err
		}
		s.weights[id.String()] = w
	}
	w.keep, w.used = (w.keep || t.Keep) && !w.copies.Lent(), s.round
	return timing.Calls(p, w.copies, t.M, t.N, t.K, timing.Normal)
}

// timedRng draws the weights of t.
func timedRng(t *Timed) *rand.Rand { return rand.New(rand.NewPCG(uint64(t.M), uint64(t.K))) }

func (s *server) newWeights(p *runtime.Product, t *Timed, rng *rand.Rand) (*weights, error) {
	src, err := s.source(t, rng)
	if err != nil {
		return nil, err
	}
	packed, err := timing.Pack(p, src, t.M, t.K)
	if err != nil {
		return nil, err
	}
	if t.Keep && t.Total > 0 {
		copies, err := timing.NewSpacedCopies(packed, t.Total, s.spare)
		return &weights{total: t.Total, copies: copies}, err
	}
	for _, w := range s.weights {
		if w.total == t.Total && t.Total > 0 {
			if copies := w.copies.Beside(packed); copies != nil {
				return &weights{copies: copies}, nil
			}
		}
	}
	copies, err := timing.NewCopies(packed, t.Total, s.spare)
	return &weights{copies: copies}, err
}

// matrix is random codes that products are packed of.
type matrix struct {
	of   Timed // whose weight, M and K they are
	data format.Source
}

// mostMatrices is how many are kept: one for each shape of a search.
const mostMatrices = 4

// source is the matrix of t, made once for all candidates.
func (s *server) source(t *Timed, rng *rand.Rand) (format.Source, error) {
	for _, x := range s.matrices {
		if x.of.M == t.M && x.of.K == t.K && reflect.DeepEqual(x.of.Spec.Weight, t.Spec.Weight) {
			return x.data, nil
		}
	}
	data, err := timing.Random(t.Spec.Weight, t.M, t.K, rng)
	if err == nil {
		s.matrices = append(s.matrices[max(0, len(s.matrices)+1-mostMatrices):], matrix{*t, data})
	}
	return data, err
}
