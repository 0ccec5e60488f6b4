package vulkan

import (
	"encoding/binary"
	"os"
	"testing"
)

func open(t *testing.T, o Options) *Device {
	t.Helper()
	t.Setenv("TMACC_CACHE", t.TempDir())
	d, err := Open(o)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func shader(t *testing.T, name string) []byte {
	b, err := os.ReadFile("testdata/" + name + ".spv")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func words(w ...uint32) (b []byte) {
	for _, w := range w {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func TestRun(t *testing.T) {
	for _, staged := range []bool{false, true} {
		d := open(t, Options{Validate: true, staged: staged})
		p, err := d.Pipeline(shader(t, "add"), Layout{Buffers: 2, PushBytes: 8})
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.Buffer(4000)
		if err != nil {
			t.Fatal(err)
		}
		y, err := d.Buffer(4000)
		if err != nil {
			t.Fatal(err)
		}
		var xs, ys []uint32
		for i := range 1000 {
			xs, ys = append(xs, uint32(i)), append(ys, uint32(7*i))
		}
		if err := x.Upload(0, words(xs...)); err != nil {
			t.Fatal(err)
		}
		if err := y.Upload(0, words(ys...)); err != nil {
			t.Fatal(err)
		}
		if err := d.Run(p, [3]int{16, 1, 1}, []*Buffer{x, y}, words(999, 3)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4000)
		if err := y.Download(0, got); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			want := uint32(10 * i)
			if i == 999 {
				want = 7 * 999
			}
			if g := binary.LittleEndian.Uint32(got[4*i:]); g != want {
				t.Fatalf("%d: %d, want %d", i, g, want)
			}
		}
	}
}
