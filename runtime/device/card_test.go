package device

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// open is a device, and a variant whose kernels are the shader of runtime/vulkan's tests.
func open(t *testing.T, o vulkan.Options) (*vulkan.Device, *abi.Variant) {
	t.Helper()
	t.Setenv("TMACC_CACHE", t.TempDir())
	d, err := vulkan.Open(o)
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	code, err := os.ReadFile("../vulkan/testdata/add.spv")
	if err != nil {
		t.Fatal(err)
	}
	s := abi.Shader{Code: code, Params: []int{0, 1}, Buffers: []int{0, 1}}
	return d, &abi.Variant{Kernels: []abi.Kernel{{Rows: 4, Cols: 1}, {Rows: 4, Cols: 2}}, Shaders: [][]abi.Shader{{s}, {s}}}
}

// TestShared: products on a device share pipelines, also those that are opened at once, and Free frees them.
func TestShared(t *testing.T) {
	d, v := open(t, vulkan.Options{})
	one := &One{Device: d}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := one.Open("", v, &format.Layout{TileM: 4}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	k := one.Runner.last.kernels
	if len(one.card.pipelines) != 1 || k[0].pipeline != k[1].pipeline {
		t.Errorf("%d pipelines of one shader", len(one.card.pipelines))
	}
	one.Free()
	if len(one.card.pipelines) != 0 {
		t.Errorf("%d pipelines are left", len(one.card.pipelines))
	}
	_, err := d.Record([]vulkan.Command{&vulkan.Dispatch{Pipeline: k[0].pipeline}}, vulkan.RecordOptions{})
	if err == nil || err.Error() != "vulkan: command 0: its pipeline was freed" {
		t.Error(err)
	}
	if _, err := one.Open("", v, &format.Layout{TileM: 4}); err != nil || len(one.card.pipelines) != 1 {
		t.Errorf("after Free: %d pipelines, %v", len(one.card.pipelines), err)
	}
	v.Shaders[0][0].Code = v.Shaders[0][0].Code[:24]
	if _, err := one.Open("", v, &format.Layout{TileM: 4}); err == nil || len(one.card.pipelines) != 1 {
		t.Errorf("no shader: %d pipelines, %v", len(one.card.pipelines), err)
	}
}

// TestDiffers: what the device lacks for float operators counts, if it computes them.
func TestDiffers(t *testing.T) {
	d, v := open(t, vulkan.Options{})
	d.FloatControls = nil
	for _, v.Quantizers = range [][][]abi.Operator{nil, {nil}} {
		one := &One{Device: d}
		if _, err := one.Open("", v, &format.Layout{TileM: 4}); err != nil {
			t.Fatal(err)
		}
		if differs := one.Runner.Differs(); (differs != "") != (v.Quantizers != nil) {
			t.Errorf("operators %t: %q", v.Quantizers != nil, differs)
		}
	}
}

// TestLent: calls one after the other use the same buffers, calls at once others.
func TestLent(t *testing.T) {
	d, _ := open(t, vulkan.Options{})
	c := newCard(d)
	a, b := c.lend(), c.lend()
	if a == b {
		t.Error("two calls have the same buffers")
	}
	if err := c.grow(&a.out, 100); err != nil {
		t.Fatal(err)
	}
	c.giveBack(a)
	if c.lend() != a {
		t.Error("the next call has other buffers")
	}
	c.giveBack(a)
	c.free()
	if err := a.out.Upload(0, []byte{1}); err == nil {
		t.Error("a buffer was not freed")
	}
}

// TestMemory: buffers that no call has borrowed make room for other calls, and for matrices.
func TestMemory(t *testing.T) {
	d, _ := open(t, vulkan.Options{MemoryLimit: 1 << 20})
	c := newCard(d)
	for range 2 {
		s, other := c.lend(), c.lend()
		if err := c.grow(&s.out, 600<<10); err != nil {
			t.Fatal(err)
		}
		c.giveBack(s)
		if err := c.grow(&other.out, 700<<10); err != nil {
			t.Fatal(err)
		}
		c.giveBack(other)
		if err := c.fits(800 << 10); err != nil {
			t.Error(err)
		}
	}
	if err := c.fits(2 << 20); err == nil {
		t.Error("more than the limit fits")
	}
}

// TestPieces: a piece of a matrix begins where tiles do that a kernel takes at once, so that only the last one has rows behind its own.
func TestPieces(t *testing.T) {
	d, v := open(t, vulkan.Options{})
	one := &One{Device: d}
	if _, err := one.Open("", v, &format.Layout{TileM: 2}); err != nil {
		t.Fatal(err)
	}
	d.Limits.Range = 6*64 + behind
	x, err := one.Runner.LoadMatrix(make([]byte, 64*11), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Free()
	var all [][2]int
	for _, p := range x.pieces {
		all = append(all, [2]int{p.from, p.to})
	}
	if want := [][2]int{{0, 4}, {4, 8}, {8, 11}}; !slices.Equal(all, want) {
		t.Errorf("pieces of tiles %v, want %v", all, want)
	}
}

// TestRoomForMemory: memory of sequences takes the place of buffers that calls might borrow. A lack of memory may pass.
func TestRoomForMemory(t *testing.T) {
	d, v := open(t, vulkan.Options{MemoryLimit: 1 << 20})
	one := &One{Device: d}
	if _, err := one.Open("", v, &format.Layout{TileM: 4}); err != nil {
		t.Fatal(err)
	}
	s := one.card.lend()
	if err := one.card.grow(&s.out, 600<<10); err != nil {
		t.Fatal(err)
	}
	one.card.giveBack(s)
	m, err := one.Runner.Memory(700 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Runner.Memory(700 << 10); !one.Runner.Passing(err) || one.Runner.Passing(errors.New("another")) {
		t.Errorf("%v is an error for ever", err)
	}
	if m.Lost() {
		t.Error("the device was lost")
	}
	m.Free()
}
