package lower

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// TestStride: a serial loop has a stride only if all of its iterations are equally far apart.
func TestStride(t *testing.T) {
	line := []format.Digit{{Axis: "k", Div: 1, Mod: 8, Stride: 1}}
	back := append(line, format.Digit{Axis: "k", Div: 8, Mod: 2, Stride: 16}, format.Digit{Axis: "k", Div: 16, Stride: 8})
	for _, c := range []struct {
		name   string
		digits []format.Digit
		n      int
		stride int // -1: none
	}{
		{"one line", line, 8, 1},
		{"lines that follow each other", append(line, format.Digit{Axis: "k", Div: 8, Stride: 8}), 32, 1},
		{"a line repeated", line, 32, -1},
		{"another line between, and back at the end", back, 32, -1},
		{"another line at the end", back, 16, -1},
	} {
		if got, err := strideOver(c.digits, c.n); (err != nil) != (c.stride < 0) || err == nil && got != c.stride {
			t.Errorf("%s: stride %d, %v, want %d", c.name, got, err, c.stride)
		}
	}
}

// TestRandomStrides compares with the places of all iterations.
func TestRandomStrides(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	affine := 0
	for range 2000 {
		var digits []format.Digit
		for div := 1; len(digits) < 3; {
			mod := 1 << (1 + rng.Intn(3))
			digits = append(digits, format.Digit{Axis: "k", Div: div, Mod: mod, Stride: 1 << rng.Intn(6)})
			div *= mod
		}
		n, want := 2+rng.Intn(40), -1
		part := format.Part{Digits: digits}
		step := part.Offset(0, 1) - part.Offset(0, 0)
		for it := range n {
			if want = step; part.Offset(0, it) != it*step {
				want = -1
				break
			}
		}
		if got, err := strideOver(digits, n); (err != nil) != (want < 0) || err == nil && got != want {
			t.Fatalf("%v, %d iterations: stride %d, %v, want %d", digits, n, got, err, want)
		}
		if want >= 0 {
			affine++
		}
	}
	if affine < 100 {
		t.Errorf("only %d layouts have a stride", affine)
	}
}

// strideOver is the stride of a serial loop over n bytes of one row that digits place.
func strideOver(digits []format.Digit, n int) (int, error) {
	loop := nest.Loop{Name: "k", Root: "k", Coef: 1, N: n}
	b := &nest.Buffer{
		Tensor: &ir.Tensor{Name: "w", Elem: format.U8, Dims: []string{"m", "k"}}, Param: "w",
		Layout: &format.Layout{TileM: 1, RecordK: 1 << 20}, Part: &format.Part{Digits: digits},
	}
	v := &vectorizer{
		n: &nest.Nest{Name: "f", Loops: []nest.Loop{loop}}, vars: map[string]int{"k": 0}, params: map[string]int{"w": 0},
		serial: []*openLoop{{loop, &vir.Loop{}}}, places: map[string]accessed{},
	}
	_, mem, err := v.access(b, []ir.Expr{ir.Const{T: format.I32}, ir.Axis{Name: "k"}})
	if err != nil {
		return 0, fmt.Errorf("access: %w", err)
	}
	if len(mem.Stride) == 0 {
		return 0, nil
	}
	return mem.Stride[0].Bytes, nil
}
