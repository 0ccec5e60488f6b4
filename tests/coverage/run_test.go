package coverage

import (
	"maps"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/qemu"
)

// coverCase is a product and its result by the definition.
type coverCase struct {
	*check.Case
	want []float32
}

// coverM is the rows of products, coverK their K.
const coverM = 37

func coverK(p ir.Problem) int {
	if unit := p.Unit(); unit > 1 {
		return unit * 3
	}
	return 163
}

// coverCases are products of p of odd sizes, for each use: of all kinds of inputs, or
// of many columns one with a kind for each column in turn.
func coverCases(p ir.Problem) (out [][]coverCase) {
	rng, k := rand.New(rand.NewSource(1)), coverK(p)
	for _, u := range uses {
		var all []coverCase
		if u.n > 3 {
			c := check.New(rng, p, coverM, u.n, k, check.Uniform)
			for j := range c.N {
				one := check.New(rng, p, coverM, 1, k, check.Kind(j)%(check.NotFinite+1))
				if p.Act.Floats() {
					c.X[j] = one.X[0]
				} else {
					c.Act[j], c.Scale[j] = one.Act[0], one.Scale[0]
				}
			}
			out = append(out, []coverCase{{c, c.Naive()}})
			continue
		}
		for kind := check.Uniform; kind <= check.NotFinite; kind++ {
			c := check.New(rng, p, coverM, u.n, k, kind)
			all = append(all, coverCase{c, c.Naive()})
		}
		out = append(out, all)
	}
	return out
}

// memo keeps values that several cells share.
type memo[V any] struct {
	mu sync.Mutex
	by map[string]func() V
}

// get is what make returned, which is called once for each key.
func (m *memo[V]) get(key string, make func() V) V {
	m.mu.Lock()
	if m.by == nil {
		m.by = map[string]func() V{}
	}
	once := m.by[key]
	if once == nil {
		once = sync.OnceValue(make)
		m.by[key] = once
	}
	m.mu.Unlock()
	return once()
}

// TestCoverage lists every family on every format that it applies to, on every target and in pure Go, for one column, a few
// and many, and runs one cell in coverEvery, drawn by TMACC_SEED, or all with TMACC_LONG=1: each has a kernel, which equals
// the definition bit for bit. Arm CPUs are emulated; without an emulator the others are run, and the test is skipped after
// that. coverage.json holds the number of all cells but those that fail; -update runs all and rewrites it.
func TestCoverage(t *testing.T) {
	targets := append(native.All(t), pureGo{amd64.ByName("avx512vbmi")})
	_, missing := qemu.Find()
	if missing == nil {
		targets = append(targets, native.Arms(t)...)
	}
	all := cells(t, targets)
	if testing.Short() {
		all = slices.DeleteFunc(all, func(c *cell) bool { return c.use != 1 })
	}
	r := runner{t: t}
	work := make(chan []*cell)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for batch := range work {
				r.run(batch)
			}
		})
	}
	for _, b := range batches(sampled(t, all)) {
		work <- b
	}
	close(work)
	wg.Wait()
	counted := countCells(all)
	t.Log("\n" + counted.table())
	switch {
	case missing != nil:
		t.Skip(missing)
	case !testing.Short():
		counted.compare(t)
	}
}

// batchSize is how many kernels are assembled together.
const batchSize = 100

// batches are cells of one target each.
func batches(all []*cell) (out [][]*cell) {
	by := map[string][]*cell{}
	for _, c := range all {
		by[c.target.Machine().Name] = append(by[c.target.Machine().Name], c)
	}
	for _, target := range slices.Sorted(maps.Keys(by)) {
		out = slices.AppendSeq(out, slices.Chunk(by[target], batchSize))
	}
	return out
}

// runner runs cells, several batches at once.
type runner struct {
	t        *testing.T
	cases    memo[[][]coverCase]     // by problem
	floats   memo[[][]quantizedCase] // by problem
	products memo[error]             // in pure Go, by problem, use and layout
}

func (r *runner) casesOf(c *cell) []coverCase {
	return r.cases.get(c.p.Name(), func() [][]coverCase { return coverCases(c.p) })[c.use]
}

// run compiles, assembles and runs cells of one target.
func (r *runner) run(batch []*cell) {
	target := batch[0].target
	if _, ok := target.(pureGo); ok {
		for _, c := range batch {
			r.pureGo(c)
		}
		return
	}
	var compiled []*cell
	for _, c := range batch {
		if c.compile(); c.err != nil {
			r.t.Errorf("%v: no kernel: %v", c, c.err)
		} else {
			compiled = append(compiled, c)
		}
	}
	if len(compiled) > 0 {
		r.native(target, compiled)
	}
	for _, c := range compiled {
		c.k = nil // all of them would be gigabytes
	}
}

// native runs cells on this CPU, or on one that is emulated.
func (r *runner) native(target lower.Target, batch []*cell) {
	var ks []*native.Kernel
	for _, c := range batch {
		ks = append(ks, c.k)
	}
	unload, err := native.LoadAll(target, ks)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer unload()
	for _, c := range batch {
		for i, x := range r.casesOf(c) {
			got, err := c.k.Run(x.Case)
			if err == nil {
				err = check.Equal(c.k.Kernel, got, x.want, x.M)
			}
			if c.result(r.t, i, x.Case, err); err != nil {
				break
			}
		}
	}
}

// result is what became of product number i of c.
func (c *cell) result(t *testing.T, i int, x *check.Case, err error) {
	if err != nil && c.err == nil {
		c.err = err
		t.Errorf("%v: m %d n %d k %d, inputs of kind %d: %v", c, x.M, x.N, x.K, i, err)
	}
}
