package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// tiles makes vectors of tiles on targets where a core has all elements of a tile: its lanes are the rows, one after the other, or
// the columns of what a product has on the right. Products are of rows by two columns, which sum over eight.
// Figures: docs/lab/choices.md, columns.
//
//	v3:i8x4x8a = bitcast v2                    v5:i8x8 = load x+0
//	v4:i8x8x2b = loadcolumns x+0 by 64         v6:i8x8 = load x+64
//	v1:i32x4x2c = matmul v1 v3 v4        ->    v4:i8x16 = join v5 v6
//	v7:i32x4 = column v1 0                     v1:i32x8 = mmla v1 v2 v4
//	                                           v7:i32x4 = unzip (half v1 0) (half v1 1) 0
func (t *table) tiles(f *vir.Func) (*vir.Func, error) {
	if t.m.Group > 0 || !slices.ContainsFunc(f.Regs, vir.Type.Tile) {
		return f, nil
	}
	g := clone(f)
	g.Regs = slices.Clone(f.Regs)
	for i, r := range f.Regs {
		g.Regs[i] = vir.Type{Elem: r.Elem, Lanes: r.Lanes}
	}
	x := &untiler{f: f, b: &Builder{F: g}}
	g.Body = vir.Map(f.Body, x.instr)
	if x.refused != nil {
		return nil, &Unsupported{t.m.Name, f.Format(x.refused)}
	}
	return g, nil
}

type untiler struct {
	f       *vir.Func // with tiles
	b       *Builder
	refused *vir.Instr // the first operation that vectors do not have
}

// instr is what in becomes. Arithmetic of elements is the same on vectors.
func (x *untiler) instr(in *vir.Instr) []*vir.Instr {
	var out []*vir.Instr
	switch s := x.b.Seq(); in.Op {
	case vir.OpMatMul:
		if c, a := x.f.Regs[in.Dst], x.f.ArgType(in, 1); c.Columns() == 2 && c.Rows > 1 && a.Columns() == 8 {
			out = s.End(in.Dst, vir.OpMMLA, 0, in.Args...)
		}
	case vir.OpColumn:
		if c := x.f.ArgType(in, 0); c.Columns() == 2 {
			t := x.f.Regs[in.Dst]
			out = s.End(in.Dst, vir.OpUnzip, in.Imm, s.Imm(vir.OpHalf, t, 0, in.Args[0]), s.Imm(vir.OpHalf, t, 1, in.Args[0]))
		}
	case vir.OpLoadRows, vir.OpLoadColumns:
		out = x.load(in)
	case vir.OpStoreRows, vir.OpStoreColumns:
	default:
		return vir.Kept
	}
	if out == nil && x.refused == nil {
		x.refused = in
	}
	return out
}

// load joins the stretches of a tile, which are its lanes one after the other.
func (x *untiler) load(in *vir.Instr) []*vir.Instr {
	n, bytes := x.f.TileRuns(in)
	t := x.f.Regs[in.Dst]
	if (in.Op == vir.OpLoadColumns) != (t.Use == vir.UseB) {
		return nil
	}
	s, mem := x.b.Seq(), in.Mem
	mem.Apart = vir.Apart{}
	if n == 1 || in.Mem.Apart == (vir.Apart{Bytes: bytes}) {
		s.Add(&vir.Instr{Op: vir.OpLoad, Dst: in.Dst, Mem: mem})
		return s.out
	}
	run := vir.Type{Elem: t.Elem, Lanes: t.Lanes / n}
	var regs []vir.Reg
	for range n {
		regs = append(regs, x.b.Reg(run))
		s.Add(&vir.Instr{Op: vir.OpLoad, Dst: regs[len(regs)-1], Mem: mem})
		var ok bool
		if mem, ok = mem.Moved(in.Mem.Apart); !ok {
			return nil
		}
	}
	for run.Lanes *= 2; len(regs) > 2; run.Lanes *= 2 {
		var joined []vir.Reg
		for i := 0; i < len(regs); i += 2 {
			joined = append(joined, s.Op(vir.OpJoin, run, regs[i], regs[i+1]))
		}
		regs = joined
	}
	return s.End(in.Dst, vir.OpJoin, 0, regs...)
}
