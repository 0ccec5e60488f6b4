package vulkan

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// unavailable wants an *Unavailable with texts in it.
func unavailable(t *testing.T, err error, texts ...string) {
	t.Helper()
	var no *Unavailable
	if !errors.As(err, &no) {
		t.Fatalf("%v is no *Unavailable", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

func TestNoLoader(t *testing.T) {
	if vk.Supported != "" {
		_, err := Open(Options{})
		unavailable(t, err, runtime.GOOS)
		return
	}
	t.Setenv(EnvLoader, filepath.Join(t.TempDir(), "none.so"))
	_, err := Open(Options{})
	unavailable(t, err, "vulkan: there is no loader (", "none.so", "): install it (", "or name its file in TMACC_VULKAN")
	_, err = Devices()
	unavailable(t, err, "there is no loader")
}

func TestNoDriver(t *testing.T) {
	if _, err := loader(); err != nil {
		t.Skip(err)
	}
	none := filepath.Join(t.TempDir(), "none.json")
	t.Setenv("VK_DRIVER_FILES", none)
	t.Setenv("VK_ICD_FILENAMES", none)
	_, err := Open(Options{})
	unavailable(t, err, "vulkan: the loader finds no driver: install the driver of your GPU", "mesa-vulkan-drivers", "VK_DRIVER_FILES")
}

func TestTooOld(t *testing.T) {
	unavailable(t, tooOld("libvulkan.so.1", vk.Version(1, 1, 7)), "the loader libvulkan.so.1 is of Vulkan 1.1.7, tmacc needs 1.3", "install a newer one")
	for _, v := range []uint32{vk.Version(1, 3, 0), vk.Version(1, 4, 2), vk.Version(2, 0, 0)} {
		if err := tooOld("x", v); err != nil {
			t.Error(err)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []Info{
		{Name: "llvmpipe", Type: Software}, {Name: "Card 500", Type: Discrete, Problem: "it has Vulkan 1.1.0, tmacc needs 1.3"},
		{Name: "Chip", Type: Integrated}, {Name: "Card 600", Type: Discrete}, {Name: "Card 600", Type: Discrete},
	}
	for i := range all {
		all[i].Index = i
	}
	for _, c := range []struct {
		from  []Info
		want  string
		index int
		err   string
	}{
		{all, "", 3, ""},
		{all[:3], "", 2, ""},
		{all[:2], "", 0, ""},
		{all[1:2], "", 0, "vulkan: no device will do: the best is Card 500, but it has Vulkan 1.1.0, tmacc needs 1.3"},
		{all, "4", 4, ""},
		{all, "chip", 2, ""},
		{all, "PIPE", 0, ""},
		{all, "500", 0, "vulkan: Card 500 will not do: it has Vulkan 1.1.0"},
		{all, "card 6", 0, `2 devices are named "card 6": choose one of`},
		{all, "9", 0, `no device is named "9": choose one of 0: llvmpipe (software device, `},
		{all, "none", 0, "; 2: Chip (integrated GPU, "},
	} {
		got, err := choose(c.from, c.want)
		if c.err != "" {
			unavailable(t, err, c.err)
		} else if err != nil || got.Index != c.index {
			t.Errorf("%q: device %d, %v, want %d", c.want, got.Index, err, c.index)
		}
	}
}

func TestDevices(t *testing.T) {
	all, err := Devices()
	if err != nil {
		t.Skip(err)
	}
	for i, d := range all {
		t.Logf("%v\n%+v\n%+v\n%+v\n%+v\n%+v\n%+v", d, d.Features, d.Dot, d.Subgroup, d.FloatControls, d.Cooperative, d.Limits)
		l, s := d.Limits, d.Subgroup
		switch {
		case d.Index != i || d.Name == "" || d.Driver == "" || !strings.HasPrefix(d.Version, "1."):
			t.Errorf("%+v", d)
		case d.Problem != "":
		case strings.HasPrefix(d.Name, "llvmpipe") && d.Type != Software:
			t.Errorf("%s is a %s", d.Name, d.Type)
		case s.Size < s.Min || s.Size > s.Max || s.Min < 1 || s.MostPerGroup < 1:
			t.Errorf("%s: subgroups %+v", d.Name, s)
		// The least that Vulkan asks for, by its table of required limits.
		case l.Range < 1<<27 || l.Allocation < 1<<30 || l.Push < 128 || l.Buffers < 4 || l.Invocations < 128 || l.Shared < 16384 || l.RangeAlignment > 256:
			t.Errorf("%s: limits %+v", d.Name, l)
		case slices.Min(l.Groups[:]) < 65535 || l.Local[0] < 128 || len(d.FloatControls) != 3 || !d.Features.IntegerDot:
			t.Errorf("%s: %+v", d.Name, d)
		case !slices.ContainsFunc(d.Heaps, func(h Heap) bool { return h.Device && h.Bytes > 0 && h.Free <= h.Bytes }):
			t.Errorf("%s: heaps %+v", d.Name, d.Heaps)
		}
	}
}

// TestEnvironment: TMACC_DEVICE chooses, unless the options do.
func TestEnvironment(t *testing.T) {
	name := open(t, Options{}).Name
	t.Setenv(EnvDevice, "no such device")
	_, err := Open(Options{})
	unavailable(t, err, `no device is named "no such device"`, name)
	if d := open(t, Options{Device: name}); d.Name != name {
		t.Errorf("%s, want %s", d.Name, name)
	}
}

func TestTwoDevices(t *testing.T) {
	a, b := open(t, Options{}), open(t, Options{})
	pa, pb := adder(t, a), adder(t, b)
	xa, xb := filled(t, a, count(100, 1)...), filled(t, b, count(100, 5)...)
	var wait sync.WaitGroup
	var errs [2]error
	wait.Go(func() { errs[0] = a.Run(pa, [3]int{2}, []*Buffer{xa, filled(t, a, count(100, 2)...)}, bytesOf(100, 1)) })
	wait.Go(func() { errs[1] = b.Run(pb, [3]int{2}, []*Buffer{xb, xb}, bytesOf(0, 1)) })
	wait.Wait()
	ok(t, errors.Join(errs[:]...))
	ok(t, a.Close())
	if got := contents(t, xb); !slices.Equal(got, count(100, 5)) {
		t.Errorf("after the other was closed: %d", got)
	}
	if err := b.Run(pa, [3]int{1}, []*Buffer{xb, xb}, bytesOf(1, 1)); err == nil || !strings.Contains(err.Error(), "no pipeline of this device") {
		t.Errorf("a pipeline of the other: %v", err)
	}
	if err := b.Run(pb, [3]int{1}, []*Buffer{xb, xa}, bytesOf(1, 1)); err == nil || !strings.Contains(err.Error(), "buffer 1: no buffer of this device") {
		t.Errorf("a buffer of the other: %v", err)
	}
}

func TestClosed(t *testing.T) {
	d := open(t, Options{})
	p, x := adder(t, d), filled(t, d, 1, 2)
	s := must[*Sequence](t)(d.Record([]Command{add(p, x.All(), x.All(), 1, 1)}, RecordOptions{}))
	ok(t, d.Close())
	ok(t, d.Close())
	_, one := d.Buffer(4)
	_, two := d.Pipeline(shader(t, "add"), Layout{Buffers: 2, PushBytes: 8})
	_, three := d.Record(nil, RecordOptions{})
	_, four := s.Times()
	for i, err := range []error{one, two, three, four, s.Start(), s.Wait(), x.Upload(0, []byte{1}), x.Download(0, []byte{1}), d.Wait(), d.Fits(1)} {
		if err == nil || !strings.HasSuffix(err.Error(), " is closed") {
			t.Errorf("call %d of a closed device: %v", i, err)
		}
	}
	p.Free()
	x.Free()
	s.Free()
}

// TestLost: after a loss all calls fail, other devices do not, and the device can be opened again.
func TestLost(t *testing.T) {
	for _, o := range ways {
		other, d := open(t, Options{}), open(t, o)
		p, x, y := adder(t, d), filled(t, d, 1, 2, 3), filled(t, d, 0, 0, 0)
		s := must[*Sequence](t)(d.Record([]Command{add(p, x.All(), y.All(), 3, 1)}, RecordOptions{}))
		d.LoseAfter(2)
		ok(t, s.Run())
		ok(t, s.Start())
		if err := s.Run(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), d.Name) {
			t.Fatalf("the third start: %v", err)
		}
		_, one := d.Buffer(4)
		_, two := d.Record(nil, RecordOptions{})
		for i, err := range []error{one, two, s.Start(), s.Wait(), x.Upload(0, []byte{1}), x.Download(0, []byte{1}), d.Wait()} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("call %d of a lost device: %v", i, err)
			}
		}
		x.Free()
		ok(t, d.Close())
		if err := s.Start(); !errors.Is(err, ErrLost) || d.Lost() == nil {
			t.Errorf("a device that was lost and closed: %v", err)
		}
		again := open(t, o)
		for _, d := range []*Device{other, again} {
			x := filled(t, d, 4)
			ok(t, d.Run(adder(t, d), [3]int{1}, []*Buffer{filled(t, d, 3), x}, bytesOf(1, 2)))
			if got := contents(t, x)[0]; got != 10 {
				t.Errorf("%d, want 10", got)
			}
		}
	}
}

// TestLostCopying: a device that is lost in the middle of a copy.
func TestLostCopying(t *testing.T) {
	d := open(t, Options{slotBytes: piece})
	x := must[*Buffer](t)(d.Buffer(5 * piece))
	d.LoseAfter(7)
	ok(t, x.Upload(0, make([]byte, 5*piece)))
	if err := x.Download(0, make([]byte, 5*piece)); !errors.Is(err, ErrLost) {
		t.Errorf("a download: %v", err)
	}
	if len(d.staging) != slots {
		t.Errorf("%d of %d slots were returned", len(d.staging), slots)
	}
}

func TestTimeout(t *testing.T) {
	d := open(t, Options{Timeout: 2 * time.Millisecond})
	p := must[*Pipeline](t)(d.Pipeline(shader(t, "spin"), Layout{Buffers: 1, PushBytes: 4}))
	x := filled(t, d, 0)
	began := time.Now()
	groups := [3]int{65535, 64}
	if d.Type == Software {
		groups = [3]int{10000} // a second
	}
	var err error
	for try := 0; try < 5 && err == nil; try++ { // a busy machine may let the device be done before anybody waits
		err = d.Run(p, groups, []*Buffer{x}, bytesOf(60000))
	}
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "it did not finish in 2ms, which Options.Timeout sets") {
		t.Fatalf("%v", err)
	}
	x.Free()
	if err := d.Close(); !errors.Is(err, ErrLost) {
		t.Errorf("Close of a device that hangs: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestValidation: what the layer finds wrong with a call is the call's error, once.
func TestValidation(t *testing.T) {
	d := open(t, Options{})
	if d.instance.messages == nil {
		t.Skip("the validation layer is not installed (Debian: vulkan-validationlayers)")
	}
	p, x, y := adder(t, d), filled(t, d, 1, 2, 3, 4), filled(t, d, 1, 2, 3, 4)
	last := &Copy{To: x.All(), From: y.All(), Beside: true}
	commands := []Command{add(p, x.All(), y.All(), 4, 1), &Copy{To: y.All(), From: x.All()}, last}
	_, err := d.Record(commands, RecordOptions{})
	var invalid *Invalid
	if !errors.As(err, &invalid) || !strings.Contains(strings.ReplaceAll(err.Error(), "-", "_"), "READ_AFTER_WRITE") {
		t.Errorf("a missing barrier: %v", err)
	}
	last.Beside = false
	must[*Sequence](t)(d.Record(commands, RecordOptions{}))
	var leaked vk.Buffer
	d.vk.CreateBuffer(d.handle, &vk.BufferCreateInfo{SType: vk.StructureTypeBufferCreateInfo, Size: 16, Usage: vk.BufferUsageStorageBufferBit}, nil, &leaked)
	if err := d.Close(); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "VUID-vkDestroyDevice-device-") {
		t.Errorf("a buffer that nobody freed: %v", err)
	}
}
