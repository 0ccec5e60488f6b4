package vulkan

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// open opens a device that the validation layer watches, if the layer is installed. Without a device the test is skipped.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	o.Validate = true
	return unwatched(t, o)
}

// unwatched opens a device without the layer, unless the options have it.
func unwatched(t testing.TB, o Options) *Device {
	t.Helper()
	t.Setenv("TMACC_CACHE", t.TempDir())
	d, err := Open(o)
	var no *Unavailable
	if errors.As(err, &no) && no.Problem == noLayer {
		o.Validate = false
		d, err = Open(o)
	}
	if errors.As(err, &no) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
	return d
}

// piece is the size of slots in tests.
const piece = 64 << 10

// ways are the ways in which bytes may go to a device and back.
var ways = []Options{{}, {slotBytes: piece}, {slotBytes: piece, twoTimelines: true}}

// must returns v, and ends the test at an error.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shader is a module of testdata.
func shader(t testing.TB, name string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile("testdata/" + name + ".spv"))
}

// bytesOf are words as memory has them.
func bytesOf(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func wordsOf(b []byte) (words []uint32) {
	for i := 0; i < len(b); i += 4 {
		words = append(words, binary.LittleEndian.Uint32(b[i:]))
	}
	return words
}

// count are 0, factor, 2 factor...
func count(n int, factor uint32) (words []uint32) {
	for i := range n {
		words = append(words, uint32(i)*factor)
	}
	return words
}

// filled is a buffer with words.
func filled(t testing.TB, d *Device, words ...uint32) *Buffer {
	t.Helper()
	b := must[*Buffer](t)(d.Buffer(int64(4 * len(words))))
	ok(t, b.Upload(0, bytesOf(words...)))
	return b
}

func contents(t testing.TB, b *Buffer) []uint32 {
	t.Helper()
	data := make([]byte, b.Size())
	ok(t, b.Download(0, data))
	return wordsOf(data)
}

// adder is the pipeline y += factor * x.
func adder(t testing.TB, d *Device) *Pipeline {
	t.Helper()
	return must[*Pipeline](t)(d.Pipeline(shader(t, "add"), Layout{Buffers: 2, PushBytes: 8}))
}

// add is a dispatch of it, for n words.
func add(p *Pipeline, x, y Range, n int, factor uint32) *Dispatch {
	return &Dispatch{Pipeline: p, Groups: [3]int{(n + 63) / 64}, Buffers: []Range{x, y}, Push: bytesOf(uint32(n), factor)}
}
