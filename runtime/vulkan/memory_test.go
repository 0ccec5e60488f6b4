package vulkan

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// TestCopies: lengths and offsets around the sizes of words and slots.
func TestCopies(t *testing.T) {
	for _, o := range ways {
		d := open(t, o)
		const size = 3*piece + 1000
		b := must[*Buffer](t)(d.Buffer(size))
		want := make([]byte, size)
		ok(t, b.Upload(0, want))
		r := rand.New(rand.NewPCG(3, 4))
		got := make([]byte, size)
		for _, c := range []struct{ offset, n int }{{0, 1}, {3, 1}, {5, 0}, {size, 0}, {size - 1, 1}, {1, piece}, {77, piece + 1}, {9, 2*piece - 1}, {0, size}, {501, 1000}} {
			for i := range c.n {
				want[c.offset+i] = byte(r.Uint32())
			}
			ok(t, b.Upload(int64(c.offset), want[c.offset:c.offset+c.n]))
			clear(got)
			ok(t, b.Download(int64(c.offset), got[c.offset:c.offset+c.n]))
			if !bytes.Equal(got[c.offset:c.offset+c.n], want[c.offset:c.offset+c.n]) {
				t.Errorf("%+v: %d bytes at %d came back changed", o, c.n, c.offset)
			}
		}
		ok(t, d.Wait())
		ok(t, b.Download(0, got))
		if !bytes.Equal(got, want) {
			t.Errorf("%+v: bytes beside what was copied changed", o)
		}
	}
}

// TestCopyOrder: a copy waits for what started before, and what starts later waits for it.
func TestCopyOrder(t *testing.T) {
	for _, o := range ways {
		d := open(t, o)
		spin := must[*Pipeline](t)(d.Pipeline(shader(t, "spin"), Layout{Buffers: 1, PushBytes: 4}))
		x, y := filled(t, d, 0), filled(t, d, 1)
		p := adder(t, d)
		long := must[*Sequence](t)(d.Record([]Command{&Dispatch{Pipeline: spin, Groups: [3]int{50}, Buffers: []Range{x.All()}, Push: bytesOf(60000)}}, RecordOptions{}))
		sum := must[*Sequence](t)(d.Record([]Command{add(p, x.All(), y.All(), 1, 1)}, RecordOptions{}))
		ok(t, long.Start())
		ok(t, x.Upload(0, bytesOf(41))) // after long, which would overwrite it
		ok(t, sum.Start())
		ok(t, x.Upload(0, bytesOf(1000))) // after sum, which would read it
		if got := contents(t, y)[0]; got != 42 {
			t.Errorf("%+v: %d, want 42", o, got)
		}
	}
}

// TestOverlap: an upload returns while the device still works.
func TestOverlap(t *testing.T) {
	d := open(t, Options{slotBytes: piece})
	p := must[*Pipeline](t)(d.Pipeline(shader(t, "spin"), Layout{Buffers: 1, PushBytes: 4}))
	x, y := filled(t, d, 0), must[*Buffer](t)(d.Buffer(slots*piece))
	s := must[*Sequence](t)(d.Record([]Command{&Dispatch{Pipeline: p, Groups: [3]int{1000}, Buffers: []Range{x.All()}, Push: bytesOf(60000)}}, RecordOptions{}))
	data := bytes.Repeat([]byte{7}, slots*piece)
	var r vk.Result
	for try := 0; try < 5 && r != vk.Timeout; try++ { // a busy machine may let the device be done first
		ok(t, d.Wait())
		ok(t, s.Start())
		ok(t, y.Upload(0, data))
		end := s.lastUse()
		r = d.vk.WaitSemaphores(d.handle, &vk.SemaphoreWaitInfo{SType: vk.StructureTypeSemaphoreWaitInfo, SemaphoreCount: 1,
			PSemaphores: &end.q.timeline, PValues: &end.value}, 0)
	}
	if d.Type == Software && r != vk.Timeout {
		t.Errorf("the upload waited for the device: %v", r)
	}
	got := make([]byte, len(data))
	ok(t, y.Download(0, got))
	if !bytes.Equal(got, data) {
		t.Error("the upload came back changed")
	}
}

func TestCopyRefused(t *testing.T) {
	d := open(t, Options{})
	b := filled(t, d, 1, 2)
	for offset, n := range map[int64]int{-1: 1, 0: 9, 8: 1, 9: 0, 1 << 62: 1} {
		for what, err := range map[string]error{"upload": b.Upload(offset, make([]byte, n)), "download": b.Download(offset, make([]byte, n))} {
			if err == nil || !strings.HasPrefix(err.Error(), "vulkan: "+what+" of ") || !strings.HasSuffix(err.Error(), "of a buffer of 8") {
				t.Errorf("%s of %d bytes at %d: %v", what, n, offset, err)
			}
		}
	}
	b.Free()
	b.Free()
	if err := b.Upload(0, []byte{1}); err == nil || !strings.Contains(err.Error(), "freed") {
		t.Errorf("%v", err)
	}
	for _, size := range []int64{0, -5, d.Limits.Allocation + 1} {
		if _, err := d.Buffer(size); err == nil || !strings.Contains(err.Error(), "divide it") {
			t.Errorf("a buffer of %d bytes: %v", size, err)
		}
	}
}

func TestHostBuffer(t *testing.T) {
	d := open(t, Options{slotBytes: piece})
	x, y := must[*Buffer](t)(d.HostBuffer(400)), must[*Buffer](t)(d.HostBuffer(400))
	own := must[*Buffer](t)(d.Buffer(400))
	if own.Bytes() != nil || len(x.Bytes()) != 400 {
		t.Errorf("%d bytes of a HostBuffer, %d of a Buffer", len(x.Bytes()), len(own.Bytes()))
	}
	clear(y.Bytes())
	s := must[*Sequence](t)(d.Record([]Command{add(adder(t, d), x.All(), y.All(), 100, 1)}, RecordOptions{}))
	for i := range uint32(3) {
		copy(x.Bytes(), bytesOf(count(100, i)...))
		ok(t, s.Run())
	}
	if got := wordsOf(y.Bytes()); got[1] != 3 || got[99] != 297 {
		t.Errorf("%d", got)
	}
}

func TestRangeStep(t *testing.T) {
	for _, c := range []struct{ most, align, unit, want int64 }{
		{1 << 27, 16, 4096, 1 << 27},
		{1 << 27, 16, 4100, 1<<27 - 1<<27%16400},
		{1<<32 - 1, 64, 1, 1<<32 - 64},
		{1000, 16, 48, 960},
		{1000, 16, 1000, 0}, // 2000 bytes begin at a multiple of 16
		{1000, 16, 1 << 62, 0},
		{1000, 16, 0, 0},
		{1000, 16, -16, 0},
	} {
		got, err := rangeStep(Limits{Range: c.most, RangeAlignment: c.align}, c.unit)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("units of %d in %d: %d, %v, want %d", c.unit, c.most, got, err, c.want)
		}
		if err == nil && (got > c.most || got%c.align != 0 || got%c.unit != 0) {
			t.Errorf("units of %d in %d: %d", c.unit, c.most, got)
		}
	}
}

// TestBeyondRange: a buffer that is larger than a shader sees is divided.
func TestBeyondRange(t *testing.T) {
	d := open(t, Options{})
	const row = 1 << 14
	size := d.Limits.Range/row*row + 3*row
	if size > 1<<28 {
		t.Skipf("%s sees %s at once", d.Name, bytesText(d.Limits.Range))
	}
	p, big := adder(t, d), must[*Buffer](t)(d.Buffer(size))
	if err := d.Run(p, [3]int{1}, []*Buffer{big, big}, bytesOf(0, 0)); err == nil || !strings.Contains(err.Error(), "Buffer.Split divides it") {
		t.Errorf("%v", err)
	}
	ranges := must[[]Range](t)(big.Split(row))
	if len(ranges) != 2 || ranges[0].Size+ranges[1].Size != size || ranges[1].Offset != ranges[0].Size {
		t.Fatalf("%v", ranges)
	}
	sum := filled(t, d, 0, 0)
	ok(t, big.Upload(0, bytesOf(5, 6)))
	ok(t, big.Upload(ranges[1].Offset, bytesOf(70, 80)))
	var commands []Command
	for _, r := range ranges {
		commands = append(commands, add(p, r, sum.All(), 2, 1))
	}
	ok(t, must[*Sequence](t)(d.Record(commands, RecordOptions{})).Run())
	if got := contents(t, sum); got[0] != 75 || got[1] != 86 {
		t.Errorf("%d", got)
	}
	small := filled(t, d, 1)
	if r := must[[]Range](t)(small.Split(1)); len(r) != 1 || r[0] != small.All() {
		t.Errorf("%v", r)
	}
}

// TestOutOfMemory: what does not fit is refused with the bytes that are missing, and there is as much again when buffers are freed.
func TestOutOfMemory(t *testing.T) {
	d := open(t, Options{MemoryLimit: 1 << 20})
	a := must[*Buffer](t)(d.Buffer(1 << 19))
	free := must[int64](t)(d.FreeMemory())
	if free != 1<<19 {
		t.Errorf("%d bytes free", free)
	}
	ok(t, d.Fits(1<<19))
	_, err := d.Buffer(3 << 19)
	for _, err := range []error{err, d.Fits(3 << 19)} {
		var no *OutOfMemory
		if !errors.As(err, &no) || no.Missing() != 1<<20 || err.Error() != "vulkan: "+d.Name+" has too little memory: 1.5 MiB needed, 524288 bytes free, 1.0 MiB missing" {
			t.Errorf("%v", err)
		}
	}
	must[*Buffer](t)(d.HostBuffer(1 << 20)) // is not the device's
	a.Free()
	must[*Buffer](t)(d.Buffer(1 << 20))
	var no *OutOfMemory
	if err := open(t, Options{}).Fits(1 << 50); !errors.As(err, &no) || no.Missing() <= 1<<49 {
		t.Errorf("a PiB fits: %v", err)
	}
	if text := (&OutOfMemory{"card", 5 << 30, 6 << 30}).Error(); !strings.HasSuffix(text, "5.0 GiB needed, 6.0 GiB free but refused by its driver, which needs larger free pieces") {
		t.Error(text)
	}
}

// TestManyBuffers: the number of buffers is bounded by the device, and those that were freed do not count.
func TestManyBuffers(t *testing.T) {
	d := open(t, Options{})
	d.Limits.Allocations = 3
	for range 5 {
		a, b := filled(t, d, 1), must[*Buffer](t)(d.HostBuffer(4))
		c := filled(t, d, 1)
		_, err := d.Buffer(4)
		refused(t, err, "has 3 buffers, and no more: use ranges of larger ones")
		for _, b := range []*Buffer{a, b, c} {
			b.Free()
		}
	}
}
