package virgen

import (
	"math/rand"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// tileBytes is what Tiles reads of each of its buffers, and the most that it stores.
const tileBytes = BufBytes

// Tiles returns a well-typed function by one subgroup of lanes: they copy bytes into a buffer that they share. Some of
// its bytes are tiles of rows by depth, others of depth by columns. It adds up products of them in a loop, then does arithmetic with the
// sums and stores some of them. No sum of floats is rounded.
func Tiles(rng *rand.Rand, from format.DType, rows, columns, depth, lanes int) *vir.Func {
	g := &tileGenerator{rng: rng, f: &vir.Func{Name: "tiles", Params: []vir.Param{{Name: "x", Align: 16}, {Name: "y", Align: 16}, {Name: "out", Align: 16},
		{Name: "n", Int: true}, {Name: "near", Shared: tileBytes}}}}
	fill := &vir.Loop{ID: 0, Count: vir.Extent{Const: lanes, Param: -1}, Lane: true}
	for at := 0; at < tileBytes; at += 16 * lanes {
		r := g.reg(vir.Type{Elem: format.U8, Lanes: 16})
		strides := []vir.Stride{{Loop: 0, Bytes: 16}}
		fill.Body = append(fill.Body, &vir.Instr{Op: vir.OpLoad, Dst: r, Mem: vir.Mem{Buf: 0, Off: at, Stride: strides}},
			&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: vir.Mem{Buf: 4, Off: at, Stride: strides}})
	}
	sum := vir.TileOf(format.I32, rows, columns, vir.UseC)
	if from == format.F16 {
		sum = sum.With(format.F32)
	}
	var sums []vir.Reg
	for range 1 + rng.Intn(3) {
		sums = append(sums, g.put(vir.OpSplat, sum, 0, vir.Mem{}))
	}
	before := g.out
	g.out = nil
	for range 1 + rng.Intn(4) {
		a := g.load(vir.TileOf(from, rows, depth, vir.UseA))
		b := g.load(vir.TileOf(from, depth, columns, vir.UseB))
		r := sums[rng.Intn(len(sums))]
		g.out = append(g.out, &vir.Instr{Op: vir.OpMatMul, Dst: r, Args: []vir.Reg{r, a, b}})
	}
	loop := &vir.Loop{ID: 1, Count: vir.Extent{Param: 3, Less: rng.Intn(2)}, Carried: sums, Body: g.out}
	g.out = append(append([]vir.Node{fill, &vir.Instr{Op: vir.OpBarrier, Dst: vir.NoReg}}, before...), loop)
	for i, r := range sums {
		g.finish(r, i*tileBytes/4)
	}
	g.f.Body = g.out
	return g.f
}

type tileGenerator struct {
	rng *rand.Rand
	f   *vir.Func
	out []vir.Node
}

func (g *tileGenerator) reg(t vir.Type) vir.Reg {
	g.f.Regs = append(g.f.Regs, t)
	return vir.Reg(len(g.f.Regs) - 1)
}

func (g *tileGenerator) put(op vir.Op, t vir.Type, imm int64, m vir.Mem, args ...vir.Reg) vir.Reg {
	r := g.reg(t)
	g.out = append(g.out, &vir.Instr{Op: op, Dst: r, Args: args, Imm: imm, Mem: m})
	return r
}

// load reads a tile from the shared buffer or from y, where rows or columns may be more apart than they need, or from one
// row or column.
func (g *tileGenerator) load(t vir.Type) vir.Reg {
	op, n, bytes := vir.OpLoadRows, t.Rows, t.Columns()*t.Elem.Bytes()
	if g.rng.Intn(2) == 0 {
		op, n, bytes = vir.OpLoadColumns, t.Columns(), t.Rows*t.Elem.Bytes()
	}
	m, unit := vir.Mem{Buf: 1 + 3*g.rng.Intn(2)}, min(16, bytes) // what rows begin at a multiple of
	if g.rng.Intn(4) > 0 {
		m.Apart.Bytes = bytes + unit*g.rng.Intn(3)
	}
	m.Off = unit * g.rng.Intn((tileBytes-(n-1)*m.Apart.Bytes-bytes)/unit)
	return g.put(op, t, 0, m)
}

// finish computes with a sum, and stores what that gives.
func (g *tileGenerator) finish(r vir.Reg, at int) {
	t := g.f.Regs[r]
	if t.Elem == format.I32 {
		if g.rng.Intn(2) == 0 {
			r = g.put([]vir.Op{vir.OpAdd, vir.OpSub}[g.rng.Intn(2)], t, 0, vir.Mem{}, r, g.put(vir.OpSplat, t, int64(g.rng.Int31())-1<<30, vir.Mem{}))
		}
		g.store(r, at)
		t = t.With(format.F32)
		r = g.put(vir.OpCvtF32, t, 0, vir.Mem{}, r)
	}
	for range g.rng.Intn(4) {
		op := []vir.Op{vir.OpAdd, vir.OpSub, vir.OpMul}[g.rng.Intn(3)]
		r = g.put(op, t, 0, vir.Mem{}, r, g.put(vir.OpCvtF32, t, 0, vir.Mem{}, g.put(vir.OpSplat, t.With(format.I32), int64(1+g.rng.Intn(1000)), vir.Mem{})))
	}
	g.store(g.put(vir.OpCanonNaN, t, 0, vir.Mem{}, r), at+tileBytes)
}

func (g *tileGenerator) store(r vir.Reg, at int) {
	t := g.f.Regs[r]
	op, apart := vir.OpStoreRows, t.Columns()
	if g.rng.Intn(2) == 0 {
		op, apart = vir.OpStoreColumns, t.Rows
	}
	g.out = append(g.out, &vir.Instr{Op: op, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: vir.Mem{Buf: 2, Off: at, Apart: vir.Apart{Bytes: 4 * apart}}})
}

// TileArgs returns arguments of a function of Tiles: bytes, or small whole numbers.
func TileArgs(rng *rand.Rand, from format.DType, n int) []vir.Arg {
	buffer := func() (b []byte) {
		for len(b) < tileBytes {
			if from == format.F16 {
				h := format.HalfFromFloat32(float32(rng.Intn(64) - 32))
				b = append(b, byte(h), byte(h>>8))
			} else {
				b = append(b, byte(rng.Intn(256)))
			}
		}
		return b
	}
	return []vir.Arg{{Buf: buffer()}, {Buf: buffer()}, {Buf: make([]byte, 2*tileBytes)}, {Int: int64(n)}}
}
