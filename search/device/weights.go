package device

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/timing"
)

// Weights are a matrix that a product has packed, and copies of it on the device.
type Weights struct {
	x      *Product
	src    format.Source
	m, k   int
	packed []byte
	copies []*device.Matrix
}

// Random are random weights of m rows and k columns.
func (x *Product) Random(m, k int, rng *rand.Rand) (*Weights, error) {
	src, err := timing.Random(x.Weight(), m, k, rng)
	if err != nil {
		return nil, err
	}
	return x.Weights(src, m, k)
}

// Weights packs a matrix. A search may pack the same one for all its candidates.
func (x *Product) Weights(src format.Source, m, k int) (*Weights, error) {
	packed, err := timing.Pack(x.Product, src, m, k)
	return &Weights{x: x, src: src, m: m, k: k, packed: packed}, err
}

// Bytes is the size of a copy: what a product reads of weights.
func (w *Weights) Bytes() int { return len(w.packed) }

// Free frees the copies.
func (w *Weights) Free() {
	for _, c := range w.copies {
		c.Free()
	}
	w.copies = nil
}

// Copies makes copies on the device until they are n.
func (w *Weights) Copies(n int) error {
	tiles, tileBytes, err := w.x.Tiles(w.packed)
	for err == nil && len(w.copies) < n {
		var c *device.Matrix
		if c, err = w.x.on.Runner.LoadMatrix(tiles, tileBytes); err == nil {
			w.copies = append(w.copies, c)
		}
	}
	return err
}

// activations are n columns of a normal distribution, prepared.
func (w *Weights) activations(n int, rng *rand.Rand) (x []float32, act []byte, err error) {
	size, err := w.x.ActSize(n, w.k)
	if err != nil {
		return nil, nil, err
	}
	x, act = make([]float32, n*w.k), make([]byte, size)
	for i := range x {
		x[i] = timing.Normal(rng)
	}
	return x, act, w.x.PrepareAct(act, x, n, w.k)
}

// mostChecked bounds the multiplications that Check does in pure Go.
const mostChecked = 1 << 26

// Check compares the product by n columns with pure Go, bit for bit: all columns, and rows at the beginning, in the middle and at the
// end, which pure Go multiplies in a second or so.
func (w *Weights) Check(n int, rng *rand.Rand) error {
	in, act, err := w.activations(n, rng)
	if err != nil {
		return err
	}
	out := make([]float32, n*w.m)
	if err := w.x.Gemm(out, w.packed, act, 0, w.m, runtime.Options{}); err != nil {
		return err
	}
	if err := w.compare(out, in, n); err != nil {
		return err
	}
	if _, _, ok := w.x.DeviceFloats(in, w.m); !ok || n > 1 {
		return nil
	}
	x, err := w.x.MatrixOnHost(w.packed)
	if err == nil {
		err = x.Multiply(out, in, n, runtime.Options{})
	}
	if err == nil {
		err = w.compare(out, in, n)
	}
	if err != nil {
		return fmt.Errorf("of floats: %w", err)
	}
	return nil
}

// compare compares some rows of a product with pure Go.
func (w *Weights) compare(out, in []float32, n int) error {
	plain, err := w.x.On("purego")
	if err != nil {
		return err
	}
	rows := min(max(1, mostChecked/3/w.k/n), w.m)
	for _, lo := range slices.Compact([]int{0, (w.m - rows) / 2, w.m - rows}) {
		x, err := plain.NewMatrix(w.src.Rows(w.x.Weight(), lo, lo+rows, w.k), rows, w.k)
		if err != nil {
			return err
		}
		want := make([]float32, n*rows)
		if err := x.Multiply(want, in, n, runtime.Options{Threads: runtime.AllThreads}); err != nil {
			return err
		}
		x.Close()
		for i, v := range want {
			if got := out[i/rows*w.m+lo+i%rows]; math.Float32bits(got) != math.Float32bits(v) {
				return fmt.Errorf("%d x %d times %d columns: row %d of column %d is %v (%08x), pure Go has %v (%08x)",
					w.m, w.k, n, lo+i%rows, i/rows, got, math.Float32bits(got), v, math.Float32bits(v))
			}
		}
	}
	return nil
}

// given is what the device is given of n columns: floats of one, if a kernel takes them, else prepared activations.
func (w *Weights) given(n int, rng *rand.Rand) ([]byte, []abi.Run, error) {
	in, act, err := w.activations(n, rng)
	if err != nil {
		return nil, nil, err
	}
	if n == 1 {
		if floats, runs, ok := w.x.DeviceFloats(in, w.m); ok {
			return floats, runs, nil
		}
	}
	return w.x.DeviceActs(act)
}

// Times are how long products took by the clock of the device, each from the end of the one before to its own end.
type Times struct {
	Each  []time.Duration
	Bytes int // of weights that one reads
}

// Median is the middle one.
func (t Times) Median() time.Duration {
	s := slices.Sorted(slices.Values(t.Each))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// GBps is the bytes of weights that a product reads in a second, in 10^9, by the median.
func (t Times) GBps() float64 { return float64(t.Bytes) / float64(t.Median().Nanoseconds()) }

// Time times products by n columns. They read the copies in turn (Copies), so that none finds its weights in a cache if the copies are many.
// A sequence multiplies each copy once. It is recorded once and runs rounds times after a first time that does not count.
func (w *Weights) Time(n, rounds int, rng *rand.Rand) (Times, error) {
	times := Times{Bytes: len(w.packed)}
	if err := w.Copies(1); err != nil {
		return times, err
	}
	acts, runs, err := w.given(n, rng)
	if err != nil {
		return times, err
	}
	p, err := w.x.on.Runner.Plan(w.copies, acts, runs)
	if err != nil {
		return times, err
	}
	defer p.Free()
	for i := range rounds + 1 {
		each, err := p.Run()
		if err != nil {
			return times, err
		}
		if i > 0 {
			times.Each = append(times.Each, each...)
		}
	}
	return times, nil
}

// Open opens the device of a name, as vulkan.Options has it.
func Open(name string) (*vulkan.Device, error) { return vulkan.Open(vulkan.Options{Device: name}) }
