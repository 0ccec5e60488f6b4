package lower

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

// ownTiles is a random function of products of tiles, which one core has.
func ownTiles(rng *rand.Rand) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	rows := 2 << rng.Intn(3)
	sum := fmt.Sprintf("i32x%dx2c", rows)
	line("func f(w ptr, x ptr, out ptr, step int, n int)\nv0:%s = splat %d\nloop l0 n carry v0", sum, rng.Intn(3))
	for i := range 1 + rng.Intn(3) {
		elem := []string{"u8", "i8"}[rng.Intn(2)]
		apart := []string{"0", "8", "24", "8+1*step", "0+3*step"}[rng.Intn(5)]
		line("v%d:%sx%d = load w+%d l0*16", 3*i+1, elem, 8*rows, 8*rng.Intn(8))
		line("v%d:%sx%dx8a = bitcast v%d", 3*i+2, elem, rows, 3*i+1)
		line("v%d:i8x8x2b = loadcolumns x+%d l0*8%s by %s", 3*i+3, rng.Intn(16), []string{"", " step*1"}[rng.Intn(2)], apart)
		line("v0:%s = matmul v0 v%d v%d", sum, 3*i+2, 3*i+3)
	}
	line("end")
	for c := range 2 {
		line("v%d:i32x%d = column v0 %d\nstore out+%d v%d", 20+c, rows, c, 64*c, 20+c)
	}
	line("v30:i32x%d = bitcast v0\nstore out+128 v30", 2*rows)
	return b.String()
}

// TestTilesRandom: functions with tiles are lowered on machines with and without products of tiles, and mean the same.
func TestTilesRandom(t *testing.T) {
	machines := []*table{newTable(newToy(toyAll)), newTable(newToy(toyProducts)), newTable(newToy(toyDotI)), newTable(newToy(0))}
	for seed := range int64(60) {
		f, err := vir.Parse(ownTiles(rand.New(rand.NewSource(seed))))
		if err != nil {
			t.Fatal(err)
		}
		want := tileResult(t, f)
		for i, x := range machines {
			s, err := x.selected(t.Context(), f, nil)
			if err != nil {
				t.Fatalf("seed %d, machine %d: %v\n%s", seed, i, err, f)
			}
			if got := tileResult(t, s.Func); !bytes.Equal(want, got) {
				t.Fatalf("seed %d, machine %d: another result of\n%s\nas\n%s", seed, i, f, s.Func)
			}
		}
	}
}

func tileResult(t *testing.T, f *vir.Func) []byte {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	w, x, out := make([]byte, 512), make([]byte, 256), make([]byte, 512)
	rng.Read(w)
	rng.Read(x)
	if err := vir.Eval(f, []vir.Arg{{Buf: w}, {Buf: x}, {Buf: out}, {Int: 16}, {Int: 3}}); err != nil {
		t.Fatalf("%v\n%s", err, f)
	}
	return out
}

// TestTilesUnsupported: no vectors are other products, or tiles in another order.
func TestTilesUnsupported(t *testing.T) {
	for _, body := range []string{
		"v0:i8x4x16a = loadrows a+0 by 16\nv1:i8x16x2b = loadcolumns a+0 by 16\nv2:i32x4x2c = splat 0\nv3:i32x4x2c = matmul v2 v0 v1",
		"v0:i8x4x8a = loadrows a+0 by 16\nv1:i8x8x4b = loadcolumns a+0 by 16\nv2:i32x4x4c = splat 0\nv3:i32x4x4c = matmul v2 v0 v1",
		"v0:i8x1x8a = loadrows a+0 by 16\nv1:i8x8x2b = loadcolumns a+0 by 16\nv2:i32x1x2c = splat 0\nv3:i32x1x2c = matmul v2 v0 v1",
		"v0:i8x8x2b = loadrows a+0 by 16",
		"v0:i8x2x8a = loadcolumns a+0 by 16",
		"v0:i32x4x4c = splat 0\nv1:i32x4 = column v0 0",
		"v0:i32x2x2c = splat 0\nstorerows a+0 by 8 v0",
	} {
		f, err := vir.Parse("func f(a ptr)\n" + body)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Select(t.Context(), newToy(toyAll), f)
		var u *Unsupported
		if !errors.As(err, &u) {
			t.Errorf("%v of\n%s", err, body)
		}
	}
}
