package peak

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
)

// TestMatrices: with ones everywhere a sum is the depth times the iterations, and the shader needs the shape that it is for.
func TestMatrices(t *testing.T) {
	m := Matrices{Shape: spirv.Shape{Rows: 8, Columns: 8, Depth: 8, From: format.I8}, Rows: 2, Columns: 3, Subgroups: 2, Lanes: 8}
	f := m.Func()
	in := make([]byte, m.InBytes())
	for i := range in {
		in[i] = 1
	}
	out := make([]byte, 3*m.OutBytes())
	if err := vir.Eval(f, []vir.Arg{In: {Buf: in}, Out: {Buf: out}, Count: {Int: 5}, Groups: {Int: 3}, Step: {Int: int64(m.OutBytes())}}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(out); i += 4 {
		if x := binary.LittleEndian.Uint32(out[i:]); x != 5*8 {
			t.Fatalf("word %d is %d, want 40", i/4, x)
		}
	}
	if got, want := m.Products()*5*3, len(out)/4*8*5; got != want {
		t.Errorf("%d products, want %d", got, want)
	}
	target, ok := spirv.ByName("spirv/coop")
	if !ok {
		t.Fatal("no target spirv/coop")
	}
	s, err := lower.Select(context.Background(), target, f)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := target.Print(s, spirv.Controls{Subgroup: m.Lanes})
	if err != nil {
		t.Fatal(err)
	}
	if len(sh.Shapes) != 1 || sh.Shapes[0] != m.Shape {
		t.Errorf("it needs %v, want %v", sh.Shapes, m.Shape)
	}
	if _, err := target.Print(s, spirv.Controls{Subgroup: 16}); err == nil {
		t.Error("subgroups of 16 lanes hold tiles of 8")
	}
}
