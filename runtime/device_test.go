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
	lacks   int    // columns of the kernel that it cannot run

	floats func(*abi.DeviceCall) *abi.DeviceCall // the call with prepared activations instead of floats
	fused  int                                   // calls with floats
	on     *Product                              // there
	k      int                                   // floats of a row
	opened string                                // the last name
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

func (r fakeRunner) Kernel(i int) (string, error) {
	if r.v.Numbered(i).Cols == r.lacks {
		return "", errors.New("fake card has no matrices")
	}
	return "in threes", nil
}

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
	if c.Runs[0].Kernel == len(x.v.Kernels) {
		x.fused++
		of := x.floats(c)
		return x.Multiply(of)
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

// TestDeviceLacks: a kernel that the device does not run is left out, and the others run; another device may run it.
func TestDeviceLacks(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 8, 64, []int{1}, []int{1, 3})
	d := &fakeDevice{t: t, lacks: 3}
	v := &s.Variants[1]
	v.Target, v.Device = "spirv/coop", d
	for i := range v.Kernels {
		k := &v.Kernels[i]
		k.Scratch, k.Name = 0, []string{"n1", "n3"}[i]
		k.Fn = fakeKernel(s, *v, *k)
	}
	g, err := New(*s).On("spirv")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"spirv/coop n1, 8 rows by 1 columns: runs for every n, in threes\n", "spirv/coop n3, 4 rows by 3 columns: skipped, fake card has no matrices\n"} {
		if !strings.Contains(g.Info(), want) {
			t.Errorf("no %q in\n%s", want, g.Info())
		}
	}
	if err := SelfTest(g, rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Error(err)
	}
	if have := g.Skipped(); len(have) != 1 || have[0] != "n3: fake card has no matrices" {
		t.Error(have)
	}
	d.lacks = 0
	if g, err = g.On("spirv"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1, 8 rows by 1 columns: runs for n = 1, and such a rest of more, in threes\n", "n3, 4 rows by 3 columns: runs for n = 2 and more, in threes\n"} {
		if !strings.Contains(g.Info(), want) {
			t.Errorf("no %q in\n%s", want, g.Info())
		}
	}
	if have := g.Skipped(); len(have) != 0 {
		t.Error(have)
	}
}

// fusedOn is a product on a device that also has a kernel for floats, which prepares them as a CPU does.
func fusedOn(t *testing.T, act int, room int) (*Product, *fakeDevice) {
	s := fakeSpec(t, "w2", act, 8, 64, []int{1}, []int{1})
	d := &fakeDevice{t: t}
	v := &s.Variants[1]
	v.Target, v.Device = "spirv/dot", d
	k := &v.Kernels[0]
	k.Scratch = 0
	k.Fn = fakeKernel(s, *v, *k)
	f := &abi.Fused{Kernel: *k, Room: room, CountDiv: []int{32, 7}, Pads: []int{96}}
	f.Name = "floats"
	v.Fused = f
	on := New(*s)
	d.floats = func(c *abi.DeviceCall) *abi.DeviceCall {
		run := c.Runs[0]
		x := unsafe.Slice((*float32)(unsafe.Pointer(&c.Act[run.At])), run.Bytes/4)
		if k := run.Counts[1]*7 - 6; len(run.Counts) != 2 || run.Counts[0] != ceilDiv(len(x[:d.k]), 32) || k > d.k || run.Bytes%(4*floatsPad) != 0 || len(x) < roundUp(d.k, 96) {
			t.Errorf("%d floats: %+v", d.k, run)
		}
		for i, v := range x[d.k:] {
			if v != 0 {
				t.Errorf("float %d is %v", d.k+i, v)
			}
		}
		size, err := on.ActSize(1, d.k)
		if err != nil {
			t.Fatal(err)
		}
		prepared := make([]byte, size)
		if err := on.PrepareAct(prepared, x[:d.k], 1, d.k); err != nil {
			t.Fatal(err)
		}
		acts, runs, err := d.on.DeviceActs(prepared)
		if err != nil {
			t.Fatal(err)
		}
		of := *c
		of.Act, of.Runs = acts, runs
		return &of
	}
	g, err := on.On("spirv")
	if err != nil {
		t.Fatal(err)
	}
	d.on = g
	return g, d
}

// TestDeviceFused: a device is given one row as floats if a kernel takes them that has room, and prepared activations otherwise. Bits are the same.
func TestDeviceFused(t *testing.T) {
	if !littleEndian {
		t.Skip("there are no kernels for such a CPU")
	}
	g, d := fusedOn(t, 0, 256)
	if want := "spirv/dot floats, 8 rows by 1 columns of up to 256 floats: runs for n = 1 in Multiply, in threes\n"; !strings.Contains(g.Info(), want) {
		t.Errorf("no %q in\n%s", want, g.Info())
	}
	plain, err := g.On("purego")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	const m = 21
	bias := make([]float32, m)
	for i := range bias {
		bias[i] = rng.Float32()
	}
	for _, c := range []struct{ n, k, fused int }{{1, 1, 1}, {1, 250, 1}, {1, 256, 1}, {1, 257, 0}, {2, 250, 0}} {
		src, x := randomWeights(g.Weight(), m, c.k, rng), testActivations(c.n, c.k, rng)[0]
		d.k, d.fused = c.k, 0
		var all [2][]float32
		for i, p := range []*Product{g, plain} {
			w, err := p.NewMatrix(src, m, c.k)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := w.SetScale(0.75); err != nil {
				t.Fatal(err)
			}
			all[i] = make([]float32, c.n*m)
			if err := w.Multiply(all[i], x, c.n, Options{Bias: bias, Scale: 3}); err != nil {
				t.Fatal(err)
			}
			if err := w.Multiply(all[i], x, c.n, Options{Bias: bias[1:]}); err == nil {
				t.Error("a bias that is too short")
			}
		}
		if d.fused != c.fused {
			t.Errorf("%+v: %d products of floats", c, d.fused)
		}
		for i, v := range all[1] {
			if all[0][i] != v && v == v {
				t.Fatalf("%+v: element %d is %v on the device, %v on the CPU", c, i, all[0][i], v)
			}
		}
	}
}
