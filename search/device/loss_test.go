package device

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
)

// multiplied is a matrix of p, and its product by 3 columns in pure Go, which is in the same matrix's bits.
type multiplied struct {
	x    *runtime.Matrix
	in   []float32
	want []float32
}

const multipliedRows, multipliedK, multipliedCols = 1000, 512, 3

func multiply(t testing.TB, p *runtime.Product) *multiplied {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	src, err := timing.Random(p.Weight(), multipliedRows, multipliedK, rng)
	if err != nil {
		t.Fatal(err)
	}
	m := &multiplied{in: make([]float32, multipliedCols*multipliedK), want: make([]float32, multipliedCols*multipliedRows)}
	for i := range m.in {
		m.in[i] = timing.Normal(rng)
	}
	plain, err := p.On("purego")
	if err != nil {
		t.Fatal(err)
	}
	y, err := plain.NewMatrix(src, multipliedRows, multipliedK)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Multiply(m.want, m.in, multipliedCols, runtime.Options{}); err != nil {
		t.Fatal(err)
	}
	if m.x, err = p.NewMatrix(src, multipliedRows, multipliedK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.x.Close() })
	return m
}

// same multiplies and compares.
func (m *multiplied) same(t testing.TB) {
	t.Helper()
	got := make([]float32, len(m.want))
	if err := m.x.Multiply(got, m.in, multipliedCols, runtime.Options{}); err != nil {
		t.Error(err)
		return
	}
	for i, v := range m.want {
		if got[i] != v {
			t.Errorf("element %d is %v, pure Go has %v", i, got[i], v)
			return
		}
	}
}

// TestLost: a device that is lost in the middle loses the call. The next one opens it again, with the matrices of all products on it.
func TestLost(t *testing.T) {
	opened(t)
	var all []*multiplied
	for _, name := range []string{"w2.lanes", "w2.gemv"} {
		x := product(t, opened(t), name)
		spec := x.Spec
		spec.Variants[0].Device = device.Vulkan
		p, err := runtime.New(spec).On("spirv")
		if err != nil {
			t.Fatal(err)
		}
		m := multiply(t, p)
		m.same(t)
		all = append(all, m)
	}
	d, err := device.Shared("")
	if err != nil {
		t.Fatal(err)
	}
	d.LoseAfter(0)
	got := make([]float32, len(all[0].want))
	if err := all[0].x.Multiply(got, all[0].in, multipliedCols, runtime.Options{}); !errors.Is(err, vulkan.ErrLost) {
		t.Fatalf("a lost device: %v", err)
	}
	for range 2 {
		for i := range all { // the other product has not seen the loss, and loses no call
			all[len(all)-1-i].same(t)
		}
	}
	if again, err := device.Shared(""); err != nil || again == d {
		t.Errorf("the lost device is still the shared one, %v", err)
	}
}

// TestTwoDevices: two logical devices multiply at once in one process.
func TestTwoDevices(t *testing.T) {
	opened(t)
	var wg sync.WaitGroup
	for range 2 {
		d, err := vulkan.Open(vulkan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m := multiply(t, product(t, d, "w2.lanes").Product)
		wg.Go(func() {
			for range 5 {
				m.same(t)
			}
		})
	}
	wg.Wait()
}

// TestParts: a product whose weights, activations or results are larger than a buffer is computed in parts.
func TestParts(t *testing.T) {
	opened(t)
	d, err := vulkan.Open(vulkan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, d.Limits.Allocation = range []int64{9 << 10, 3 * 4 * multipliedRows, 1 << 20} {
		multiply(t, product(t, d, "w2.lanes").Product).same(t)
	}
}

// TestRanges: weights and results that are larger than what a shader sees at once are in several buffers, and take several dispatches. So are
// activations, which begin where a range may begin.
func TestRanges(t *testing.T) {
	opened(t)
	for _, name := range []string{"w2.lanes", "w2.gemm", "w4-g32.lanes"} {
		d, err := vulkan.Open(vulkan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.Limits.Range = 16 << 10
		d.Limits.Groups[0] = 7
		multiply(t, product(t, d, name).Product).same(t)
		d.Limits.RangeAlignment = 256
		for d.Limits.Range = 10 << 10; d.Limits.Range < 11<<10; d.Limits.Range += 128 {
			if err := product(t, d, name).Check(100, 40, multipliedK, 1); err != nil {
				t.Error(err)
			}
		}
		d.Limits.Range = 64
		if _, err := product(t, d, name).NewMatrix(mustSource(t, product(t, d, name).Product), 8, multipliedK); err == nil {
			t.Error("a tile that is larger than a range was accepted")
		}
	}
}

func mustSource(t testing.TB, p *runtime.Product) format.Source {
	t.Helper()
	src, err := timing.Random(p.Weight(), 8, multipliedK, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestNothingLeft: a worker that has measured a candidate, or compared it with the definition, has nothing of it on the device, also if it could not be
// measured.
func TestNothingLeft(t *testing.T) {
	x := product(t, opened(t), "w2.lanes")
	s := &Server{}
	if _, err := s.Open(""); err != nil {
		t.Fatal(err)
	}
	defer s.d.Close()
	src := mustSource(t, x.Product)
	at := worker.Timed{Spec: x.Spec, M: 8, N: 2, K: multipliedK}
	one := func() {
		t.Helper()
		run, free, err := s.Timed(x.Spec, src, at)
		if err == nil {
			_, err = run()
			free()
		}
		if err != nil {
			t.Error(err)
		}
		if n := s.d.Held(); n != 0 {
			t.Errorf("%d things are left on the device", n)
		}
	}
	one()
	whole := s.d.Limits.Range
	s.d.Limits.Range = 64
	if _, _, err := s.Timed(x.Spec, src, at); err == nil || s.d.Held() != 0 {
		t.Errorf("%v, %d things are left on the device", err, s.d.Held())
	}
	s.d.Limits.Range = whole
	one()
	on, failed, free := s.Device()
	spec := x.Spec
	spec.Variants[0].Device = on
	p, err := runtime.New(spec).On("spirv")
	if err != nil {
		t.Fatal(err)
	}
	multiply(t, p).x.Close()
	free()
	if n := s.d.Held(); n != 0 || failed() != nil {
		t.Errorf("%d things are left on the device, %v", n, failed())
	}
	if s.d.LoseAfter(0); s.Lost() {
		t.Error("it is lost already")
	}
	run, release, err := s.Timed(x.Spec, src, at)
	if err == nil { // nothing was submitted yet
		_, err = run()
		release()
	}
	if !errors.Is(err, vulkan.ErrLost) || !s.Lost() {
		t.Errorf("a device that is lost: %v", err)
	}
}

// TestIdentity: products that differ in anything are told apart, also where the format has the same name.
func TestIdentity(t *testing.T) {
	spec := product(t, opened(t), "w2.lanes").Spec
	at := worker.Timed{M: 8, N: 2, K: multipliedK}
	seen := map[string]bool{}
	for range 2 {
		for _, change := range []func(s *runtime.Spec, t *worker.Timed){
			func(*runtime.Spec, *worker.Timed) {},
			func(s *runtime.Spec, _ *worker.Timed) { s.Weight.Levels = []int{-3, -1, 1, 3} },
			func(s *runtime.Spec, _ *worker.Timed) { s.Act.Group = 32 },
			func(s *runtime.Spec, _ *worker.Timed) {
				l := *s.Layouts[0]
				l.TileM *= 2
				s.Layouts = []*format.Layout{&l}
			},
			func(s *runtime.Spec, _ *worker.Timed) {
				s.Variants = slices.Clone(s.Variants)
				s.Variants[0].Kernels = slices.Clone(s.Variants[0].Kernels)
				s.Variants[0].Kernels[0].SumBy++
			},
			func(_ *runtime.Spec, t *worker.Timed) { t.Total = 1 },
		} {
			s, q := spec, at
			change(&s, &q)
			id, err := identity(s, q)
			if err != nil {
				t.Fatal(err)
			}
			seen[id] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d identities of 6 products", len(seen))
	}
}

// TestLarge: a matrix of 4096 x 14336, and one whose packed bytes are more than the device shows a shader at once, without a limit that a test sets.
func TestLarge(t *testing.T) {
	const k, most = 14336, 1 << 16
	d := opened(t)
	beyond := int(d.Limits.Range/k) + 77
	if beyond > most {
		t.Skipf("%v sees %d bytes at once", d, d.Limits.Range)
	}
	x := product(t, d, "w8.lanes")
	for _, m := range []int{4096, beyond} {
		w, err := x.Random(m, k, rand.New(rand.NewPCG(3, 3)))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Free()
		if m == beyond && int64(w.Bytes()) <= d.Limits.Range {
			t.Errorf("%d rows take %d bytes, %v sees %d", m, w.Bytes(), d, d.Limits.Range)
		}
		if err := w.Check(1, rand.New(rand.NewPCG(4, 4))); err != nil {
			t.Error(err)
		}
	}
}
