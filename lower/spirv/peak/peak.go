// Package peak makes functions that ask one thing of a device as often as they can: they measure how fast it is at most.
package peak

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv"
)

// Matrices says how subgroups multiply cooperative matrices that stay in registers.
type Matrices struct {
	Shape         spirv.Shape
	Rows, Columns int // of products that a subgroup has at once
	Subgroups     int // of a workgroup
	Lanes         int // of a subgroup
}

// The parameters of the function of Matrices.
const (
	In     = iota // InBytes with any numbers: A and B
	Out           // Step bytes for each workgroup: the sums
	Count         // iterations
	Groups        // workgroups
	Step          // OutBytes
)

// Products is the number of multiply-adds of an iteration of a workgroup.
func (m Matrices) Products() int {
	return m.Subgroups * m.Rows * m.Columns * m.Shape.Rows * m.Shape.Columns * m.Shape.Depth
}

// InBytes is the number of bytes that the function reads.
func (m Matrices) InBytes() int {
	s := m.Shape
	return (m.Rows*s.Rows + m.Columns*s.Columns) * s.Depth * s.From.Bytes()
}

// OutBytes is the number of bytes that a workgroup stores.
func (m Matrices) OutBytes() int {
	return 4 * m.Subgroups * m.Rows * m.Columns * m.Shape.Rows * m.Shape.Columns
}

// Func is the function: each workgroup loads A and B once, adds up their products Count times, and stores the sums.
func (m Matrices) Func() *vir.Func {
	f := &vir.Func{Name: "matrices", Params: []vir.Param{In: {Name: "in", Align: 16}, Out: {Name: "out", Align: 16}, Count: {Name: "n", Int: true}, Groups: {Name: "groups", Int: true}, Step: {Name: "step", Int: true, Align: 16}},
		Grid: []vir.Repeat{{Count: Groups, Moves: []vir.Move{{Param: Out, By: Step}}}}}
	reg := func(t vir.Type) vir.Reg {
		f.Regs = append(f.Regs, t)
		return vir.Reg(len(f.Regs) - 1)
	}
	s, e := m.Shape, m.Shape.From
	subgroups := &vir.Loop{ID: 0, Count: vir.Extent{Const: m.Subgroups, Param: -1}, Lane: true}
	put := func(in *vir.Instr) { subgroups.Body = append(subgroups.Body, in) }
	var a, b, c []vir.Reg
	at := 0
	load := func(all *[]vir.Reg, op vir.Op, t vir.Type) {
		r := reg(t)
		put(&vir.Instr{Op: op, Dst: r, Mem: vir.Mem{Buf: In, Off: at, Apart: vir.Apart{Bytes: s.Depth * e.Bytes()}}})
		at += t.Bytes()
		*all = append(*all, r)
	}
	for range m.Rows {
		load(&a, vir.OpLoadRows, vir.TileOf(e, s.Rows, s.Depth, vir.UseA))
	}
	for range m.Columns {
		load(&b, vir.OpLoadColumns, vir.TileOf(e, s.Depth, s.Columns, vir.UseB))
	}
	sum := vir.TileOf(format.I32, s.Rows, s.Columns, vir.UseC)
	if e == format.F16 {
		sum = sum.With(format.F32)
	}
	loop := &vir.Loop{ID: 1, Count: vir.Extent{Param: Count}}
	for i := range m.Rows * m.Columns {
		r := reg(sum)
		put(&vir.Instr{Op: vir.OpSplat, Dst: r})
		c = append(c, r)
		loop.Body = append(loop.Body, &vir.Instr{Op: vir.OpMatMul, Dst: r, Args: []vir.Reg{r, a[i/m.Columns], b[i%m.Columns]}})
	}
	loop.Carried = slices.Clone(c)
	subgroups.Body = append(subgroups.Body, loop)
	for i, r := range c {
		put(&vir.Instr{Op: vir.OpStoreRows, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: vir.Mem{Buf: Out, Off: i * sum.Bytes(), Apart: vir.Apart{Bytes: 4 * s.Columns},
			Stride: []vir.Stride{{Loop: 0, Bytes: len(c) * sum.Bytes()}}}})
	}
	subgroups.Body = append(subgroups.Body, &vir.Loop{ID: 2, Count: vir.Extent{Const: m.Lanes, Param: -1}, Lane: true})
	f.Body = []vir.Node{subgroups}
	return f
}
