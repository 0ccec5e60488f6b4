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

// TestRandomStridesTogether compares two serial loops with the places of all their iterations. Each loop alone may have
// a stride, and the last iterations of both may lie where the strides say, while others do not.
func TestRandomStridesTogether(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	affine, hidden := 0, 0
	for range 40000 {
		var digits []format.Digit
		for div := 1; len(digits) < 3; {
			mod := 1 << (1 + rng.Intn(2))
			digits = append(digits, format.Digit{Axis: "k", Div: div, Mod: mod, Stride: rng.Intn(6)})
			div *= mod
		}
		base, loops := rng.Intn(8), []nest.Loop{{Name: "a", N: 2 + rng.Intn(3)}, {Name: "b", N: 2 + rng.Intn(3)}}
		coef := []int{1 + rng.Intn(6), 1 + rng.Intn(6)}
		part := format.Part{Digits: digits}
		at := func(a, b int) int { return part.Offset(0, base+a*coef[0]+b*coef[1]) - part.Offset(0, base) }
		apart, all := true, true
		for a := range loops[0].N {
			for b := range loops[1].N {
				right := at(a, b) == a*at(1, 0)+b*at(0, 1)
				all = all && right
				apart = apart && (right || a > 0 && b > 0)
			}
		}
		if err := accessOver(digits, base, loops, coef); (err == nil) != all {
			t.Fatalf("%v, base %d, loops %v times %v: %v, affine is %v", digits, base, loops, coef, err, all)
		}
		switch a, b := loops[0].N-1, loops[1].N-1; {
		case all:
			affine++
		case apart && at(a, b) == a*at(1, 0)+b*at(0, 1):
			hidden++
		}
	}
	if affine < 100 || hidden < 10 {
		t.Errorf("%d layouts have strides, in %d only the last iterations of both loops lie right", affine, hidden)
	}
}

// TestRandomStridesOfRows compares three serial loops, each of which moves the row, the element of the row, both or neither, with the places of all
// their iterations.
func TestRandomStridesOfRows(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	affine, other := 0, 0
	for range 20000 {
		var digits []format.Digit
		for _, axis := range []string{"m", "k"} {
			for div, n := 1, 1+rng.Intn(2); n > 0; n-- {
				mod := 1 << (1 + rng.Intn(2))
				digits = append(digits, format.Digit{Axis: axis, Div: div, Mod: mod, Stride: rng.Intn(6)})
				div *= mod
			}
		}
		var loops []nest.Loop
		var rows, coef []int
		for _, name := range []string{"a", "b", "c"} {
			loops = append(loops, nest.Loop{Name: name, N: 1 + rng.Intn(4)})
			rows, coef = append(rows, max(0, rng.Intn(4)-1)), append(coef, max(0, rng.Intn(5)-2))
		}
		part, base := format.Part{Digits: digits}, rng.Intn(8)
		at := func(a, b, c int) int {
			row, k := 0, base
			for i, x := range []int{a, b, c} {
				row, k = row+x*rows[i], k+x*coef[i]
			}
			return part.Offset(row, k) - part.Offset(0, base)
		}
		all := true
		for a := range loops[0].N {
			for b := range loops[1].N {
				for c := range loops[2].N {
					all = all && at(a, b, c) == a*at(1, 0, 0)+b*at(0, 1, 0)+c*at(0, 0, 1)
				}
			}
		}
		if err := accessTo(digits, base, loops, rows, coef); (err == nil) != all {
			t.Fatalf("%v, base %d, loops %v times %v and %v: %v, affine is %v", digits, base, loops, rows, coef, err, all)
		}
		if all {
			affine++
		} else {
			other++
		}
	}
	if affine < 1000 || other < 1000 {
		t.Errorf("%d layouts have strides, and %d have none", affine, other)
	}
}

// TestSameFirst: accesses of one buffer that begin at one place are told apart, by how loops and lanes move them.
func TestSameFirst(t *testing.T) {
	b := &nest.Array{Memory: nest.Memory{Tensor: &ir.Tensor{Name: "x", Elem: format.U8, Dims: []string{"i", "j"}}, Param: "x"}, Strides: []int{4, 1}}
	loops := []nest.Loop{{Name: "a", N: 4}, {Name: "i", N: 4, Kind: nest.Vector}, {Name: "j", N: 4, Kind: nest.Vector}}
	v := newVectorizer(&nest.Nest{Name: "f", Loops: loops}, "f")
	v.params["x"] = 0
	for _, l := range loops {
		v.set(l.Name, 0)
	}
	v.serial, v.lanes = []*openLoop{{loops[0], &vir.Loop{}}}, loops[1:]
	axis := func(name string, times int64) ir.Expr {
		return ir.Binary{Op: ir.Mul, X: ir.Axis{Name: name}, Y: ir.Const{T: format.I32, V: times}}
	}
	sum := func(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Add, X: x, Y: y} }
	for _, c := range []struct {
		index          []ir.Expr
		second, stride int // bytes from the first lane to the second, and from the first iteration to the next
	}{
		{[]ir.Expr{axis("i", 1), sum(axis("j", 1), axis("a", 16))}, 1, 16},
		{[]ir.Expr{axis("j", 1), sum(axis("i", 1), axis("a", 16))}, 4, 16}, // equal in the first lane and in the last
		{[]ir.Expr{axis("i", 1), sum(axis("j", 1), axis("a", 32))}, 1, 32}, // equal in the first iteration
	} {
		pos, mem, err := v.access(b, c.index)
		if err != nil || pos[1].Byte-pos[0].Byte != c.second || len(mem.Stride) != 1 || mem.Stride[0].Bytes != c.stride {
			t.Errorf("%v: lanes at %v, strides %v, want %d bytes to the second lane and %d to the next iteration: %v", c.index, pos, mem.Stride, c.second, c.stride, err)
		}
	}
}

// accessOver is the error of reading byte base + a*coef[0] + b*coef[1] of one row that digits place.
func accessOver(digits []format.Digit, base int, loops []nest.Loop, coef []int) error {
	return accessTo(digits, base, loops, make([]int, len(loops)), coef)
}

// accessTo is accessOver of the row that is the sum of multiples of the loops.
func accessTo(digits []format.Digit, base int, loops []nest.Loop, rows, coef []int) error {
	b := &nest.Packed{
		Memory: nest.Memory{Tensor: &ir.Tensor{Name: "w", Elem: format.U8, Dims: []string{"m", "k"}}, Param: "w"},
		Layout: &format.Layout{TileM: 1, RecordK: 1 << 20}, Part: &format.Part{Digits: digits},
	}
	v := newVectorizer(&nest.Nest{Name: "f", Loops: loops}, "f")
	v.params["w"] = 0
	plus := func(x ir.Expr, l nest.Loop, times int) ir.Expr {
		return ir.Binary{Op: ir.Add, X: x, Y: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: l.Name}, Y: ir.Const{T: format.I32, V: int64(times)}}}
	}
	var row, k ir.Expr = ir.Const{T: format.I32}, ir.Const{T: format.I32, V: int64(base)}
	for i, l := range loops {
		v.set(l.Name, 0)
		v.serial = append(v.serial, &openLoop{l, &vir.Loop{}})
		row, k = plus(row, l, rows[i]), plus(k, l, coef[i])
	}
	_, _, err := v.access(b, []ir.Expr{row, k})
	return err
}

// strideOver is the stride of a serial loop over n bytes of one row that digits place.
func strideOver(digits []format.Digit, n int) (int, error) {
	loop := nest.Loop{Name: "k", Root: "k", Coef: 1, N: n}
	b := &nest.Packed{
		Memory: nest.Memory{Tensor: &ir.Tensor{Name: "w", Elem: format.U8, Dims: []string{"m", "k"}}, Param: "w"},
		Layout: &format.Layout{TileM: 1, RecordK: 1 << 20}, Part: &format.Part{Digits: digits},
	}
	v := newVectorizer(&nest.Nest{Name: "f", Loops: []nest.Loop{loop}}, "f")
	v.params["w"], v.serial = 0, []*openLoop{{loop, &vir.Loop{}}}
	v.set("k", 0)
	_, mem, err := v.access(b, []ir.Expr{ir.Const{T: format.I32}, ir.Axis{Name: "k"}})
	if err != nil {
		return 0, fmt.Errorf("access: %w", err)
	}
	if len(mem.Stride) == 0 {
		return 0, nil
	}
	return mem.Stride[0].Bytes, nil
}
