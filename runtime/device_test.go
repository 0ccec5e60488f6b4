package runtime

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// fakeDevice runs the fake kernels of a variant on copies of the weights.
type fakeDevice struct {
	t      *testing.T
	none   error // why there is no device, or it does not work
	fails  error // of the next product
	loaded int   // matrices that are on the device

	differs string // floats that it computes otherwise
	opened  string // the last name
}

type fakeRunner struct {
	*fakeDevice
	v *abi.Variant
	l *format.Layout
}

type fakeLoaded struct {
	fakeRunner
	tiles     []byte
	tileBytes int
}

func (r fakeRunner) Room() (int64, error) { return 1 << 20, r.none }

func (d *fakeDevice) Open(name string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	if name == "other" {
		return nil, errors.New("no other device")
	}
	d.opened = name
	return fakeRunner{d, v, l}, d.none
}

// missing says that there is no device, or if true that somebody has named it.
type missing bool

func (missing) Error() string    { return "there is no loader: install it" }
func (m missing) NoDevice() bool { return !bool(m) }

func (r fakeRunner) String() string { return "fake card" }

func (r fakeRunner) Differs() string { return r.differs }

func (r fakeRunner) Load(tiles []byte, tileBytes int) (abi.Loaded, error) {
	if len(tiles)%tileBytes != 0 {
		r.t.Errorf("%d bytes of tiles of %d", len(tiles), tileBytes)
	}
	r.loaded++
	return &fakeLoaded{r, append([]byte(nil), tiles...), tileBytes}, nil
}

func (x *fakeLoaded) Free() { x.loaded-- }

func (x *fakeLoaded) Multiply(c *abi.DeviceCall) error {
	if err := x.fails; err != nil {
		x.fails = nil
		return err
	}
	rows := (c.To - c.From) * x.l.TileM
	column := 0
	for _, run := range c.Runs {
		k := &x.v.Kernels[run.Kernel]
		for b := range run.Blocks {
			act := c.Act[run.At+b*run.Bytes:][:run.Bytes]
			for tile := c.From; tile < c.To; tile++ {
				a := abi.GemmArgs{OutStep: int64(4 * rows), Act: unsafe.Pointer(&act[0]), Sums: unsafe.Pointer(&act[run.Sums]), ActScale: unsafe.Pointer(&act[run.Scales]),
					Tiles: 1, Count: int64(run.Count), Out: unsafe.Pointer(&c.Out[column*rows+(tile-c.From)*x.l.TileM])}
				for i, name := range format.PartNames {
					if p := x.l.Part(name); p != nil {
						a.Weights[i] = unsafe.Pointer(&x.tiles[tile*x.tileBytes+p.Offset(0, 0)])
					}
				}
				k.Fn(&a)
			}
			column += k.Cols
		}
	}
	if column*rows != len(c.Out) {
		x.t.Errorf("%d columns of %d rows, %d results", column, rows, len(c.Out))
	}
	return nil
}

// onFake is a product with a CPU's variant and one of a device, and the device.
func onFake(t *testing.T, name string, act int) (*Product, *fakeDevice) {
	if !littleEndian {
		t.Skip("there are no kernels for such a CPU")
	}
	s := fakeSpec(t, name, act, 8, 64, []int{1}, []int{3})
	d := &fakeDevice{t: t}
	s.Variants[1].Target, s.Variants[1].Device = "spirv/dot", d
	k := &s.Variants[1].Kernels[0]
	k.Scratch = 0
	k.Fn = fakeKernel(s, s.Variants[1], *k)
	return New(*s), d
}

// TestDevice: products on a device have the bits of the definition, as self-tests compare them, also those that share a call.
func TestDevice(t *testing.T) {
	for _, c := range []struct {
		format string
		act    int
	}{{"w2", 0}, {"w4-g32", 32}, {"q4_1", 32}} {
		p, d := onFake(t, c.format, c.act)
		if p.Target() != "fake/a" || p.Device() != "" || !strings.Contains(p.Info(), `spirv/dot k, 8 rows by 3 columns: skipped, On("spirv") or TMACC_CPU=spirv chooses it`) {
			t.Errorf("%s %q\n%s", p.Target(), p.Device(), p.Info())
		}
		if err := SelfTest(p, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Error(err)
		}
		g, err := p.On("spirv")
		if err != nil {
			t.Fatal(err)
		}
		if g.Device() != "fake card" || !strings.HasPrefix(g.Info(), c.format+": "+c.format) || !strings.Contains(g.Info(), "runs on spirv/dot (chosen by the caller, fake card)") {
			t.Errorf("%q\n%s", g.Device(), g.Info())
		}
		d.matrices(t, p, g)
		if d.loaded != 0 {
			t.Errorf("%d matrices stay on the device", d.loaded)
		}
	}
}

// matrices compares matrices of g, which are on the device, with the matrices of p.
func (d *fakeDevice) matrices(t *testing.T, p, g *Product) {
	const m, n, k = 21, 4, 128
	rng := rand.New(rand.NewPCG(2, 2))
	src := randomWeights(p.Weight(), m, k, rng)
	x := testActivations(n, k, rng)[0]
	bias := make([]float32, m)
	for i := range bias {
		bias[i] = rng.Float32()
	}
	multiply := func(p *Product) []float32 {
		w, err := p.NewMatrix(src, m, k)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		size, _ := p.ActSize(n, k)
		act, y, z := make([]byte, size), make([]float32, n*m), make([]float32, n*m)
		if err := p.PrepareAct(act, x, n, k); err != nil {
			t.Fatal(err)
		}
		call := w.Call(z, act)
		call.Options = Options{Scale: 2, Bias: bias}
		if err := GemmAll(2, w.Call(y, act), call); err != nil {
			t.Fatal(err)
		}
		if err := w.Multiply(y, x, n, Options{Accumulate: true}); err != nil {
			t.Fatal(err)
		}
		return append(y, z...)
	}
	onDevice := multiply(g)
	for i, v := range multiply(p) {
		if onDevice[i] != v && v == v {
			t.Fatalf("element %d is %v on the device, %v on the CPU", i, onDevice[i], v)
		}
	}
	w, err := g.NewMatrix(src, m, k)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lost := errors.New("lost")
	y := make([]float32, n*m)
	for _, want := range []error{lost, nil} {
		d.fails = want
		if err := w.Multiply(y, x, n, Options{}); !errors.Is(err, want) || want != nil && !strings.HasPrefix(err.Error(), p.Name()+": ") {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// TestSelfTestOnDevice: a self-test tests the device that the product was opened on, passes over none, and fails for one that does not work.
func TestSelfTestOnDevice(t *testing.T) {
	p, d := onFake(t, "w2", 0)
	g, err := p.On("spirv@1")
	if err != nil {
		t.Fatal(err)
	}
	test := func(p *Product) error { return SelfTest(p, rand.New(rand.NewPCG(1, 1))) }
	if err := test(g); err != nil || d.opened != "1" {
		t.Errorf("device %q was tested, %v", d.opened, err)
	}
	if have := g.Targets(); len(have) != 3 || have[1] != "spirv/dot@1" {
		t.Error(have)
	}
	if err := test(p); err != nil || d.opened != "" {
		t.Errorf("device %q was tested, %v", d.opened, err)
	}
	for _, c := range []struct {
		none error
		want string
	}{{missing(false), ""}, {missing(true), "w2: there is no loader"}, {errors.New("the shader is of another package"), "w2: the shader is of another package"}} {
		d.none = c.none
		if err := test(p); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.none, err, c.want)
		}
	}
}

// TestDeviceDiffers: Info says which floats may have other bits.
func TestDeviceDiffers(t *testing.T) {
	p, d := onFake(t, "w2", 0)
	for _, d.differs = range []string{"", "very small ones"} {
		g, err := p.On("spirv")
		if err != nil {
			t.Fatal(err)
		}
		if says := strings.Contains(g.Info(), "\nfake card does not say how it computes some floats, which may have other bits than on the CPU: "+d.differs+"\n"); says != (d.differs != "") {
			t.Error(g.Info())
		}
	}
}

// TestDeviceAsked: TMACC_CPU asks for devices; where there is none, products run on the CPU and say why.
func TestDeviceAsked(t *testing.T) {
	t.Setenv(EnvCPU, "spirv")
	p, d := onFake(t, "w2", 0)
	if p.Target() != "spirv/dot" || p.Device() != "fake card" {
		t.Error(p.Target(), p.Device())
	}
	d.none = errors.New("there is no loader: install it")
	s := p.spec
	if q := New(s); q.Target() != "fake/a" || !strings.Contains(q.Info(), "there is no device: w2: there is no loader: install it") {
		t.Error(q.Target(), q.Info())
	}
	if _, err := p.On("spirv@other"); err == nil || err.Error() != "w2: no other device" {
		t.Error(err)
	}
	if have := New(s).Targets(); len(have) != 2 || have[0] != "fake/a" {
		t.Error("targets without a device:", have)
	}
}
