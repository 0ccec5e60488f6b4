package search

import (
	"encoding/binary"
	"math"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/jit"
)

// Activations prepared by compiled kernels equal those of the definition.
func TestDefaultPrepare(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, tg := range amd64.Targets() {
		for _, c := range []struct {
			name  string
			group int
			k     int
		}{{"w2", 0, 63}, {"w2", 32, 4096}, {"w4-g32", 0, 256}, {"w4-g32", 32, 256}, {"w4-g48", 16, 144}, {"w4-g160", 160, 480}, {"w1", 0, 4099}} {
			w, err := format.Lookup(c.name)
			if err != nil {
				t.Fatal(err)
			}
			p := ir.Problem{Weight: w, Act: format.Act{Group: c.group}}
			tr, err := DefaultPrepare(p, tg)
			if err != nil {
				t.Fatal(err)
			}
			k, err := schedule.CompilePrepare(p, tr)
			if err != nil {
				t.Fatal(err)
			}
			f, err := lower.Vectorize(k.Nest, "prepare")
			if err != nil {
				t.Fatalf("%v\n%v", err, k.Nest)
			}
			m, err := lower.Compile(tg, f)
			if err != nil {
				t.Fatalf("%v\n%v", err, f)
			}
			for kind := range 5 {
				checkPrepare(t, rng, p, k, kind, c.k, func(a []vir.Arg) error { return vir.Eval(f, a) })
				checkPrepare(t, rng, p, k, kind, c.k, func(a []vir.Arg) error { return jit.Run(tg, m, a) })
			}
		}
	}
}

func checkPrepare(t *testing.T, rng *rand.Rand, p ir.Problem, k *schedule.PrepareKernel, kind, size int, run func([]vir.Arg) error) {
	t.Helper()
	x := ir.NewArray(1, size)
	for i := range x.V {
		v := float32(rng.NormFloat64())
		switch kind {
		case 1:
			v = 0
		case 2:
			v *= 1e-40
		case 3:
			if i == size/2 {
				v = float32(math.Inf(-1))
			}
		case 4:
			if i == 1 {
				v = float32(math.NaN())
			}
		}
		x.V[i] = int64(math.Float32bits(v))
	}
	want, err := ir.Eval(ir.PrepareAct(p), map[string]int{"N": 1, "K": size}, map[string]*ir.Array{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	pad := (size + k.PadK - 1) / k.PadK * k.PadK
	buf := make([]byte, 4*pad)
	for i, v := range x.V {
		binary.LittleEndian.PutUint32(buf[4*i:], uint32(v))
	}
	room := func() vir.Arg { return vir.Arg{Buf: make([]byte, 4*(pad/16+64))} }
	args := []vir.Arg{{Buf: buf}, {Buf: make([]byte, pad)}, room(), room(), room(), room(), room()}
	for _, d := range k.CountDiv {
		args = append(args, vir.Arg{Int: int64((size + d - 1) / d)})
	}
	if err := run(args); err != nil {
		t.Fatalf("%v\n%v", err, k.Nest)
	}
	for i := range size {
		if got := int64(int8(args[1].Buf[i])); got != want["act"].At(0, i) {
			t.Fatalf("kind %d act %d: %d, want %d", kind, i, got, want["act"].At(0, i))
		}
	}
	for a, name := range map[int]string{2: "sums", 3: "ascale"} {
		w := want[name]
		for i := range w.Shape[1] {
			got := binary.LittleEndian.Uint32(args[a].Buf[4*i:])
			if got != uint32(w.At(0, i)) {
				t.Fatalf("kind %d %s %d: %08x, want %08x", kind, name, i, got, uint32(w.At(0, i)))
			}
		}
	}
}
