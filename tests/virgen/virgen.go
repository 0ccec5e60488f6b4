// Package virgen makes random functions of the vector IR for tests of what
// rewrites or runs them.
package virgen

import (
	"encoding/binary"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// Bounds within which the addresses of random functions stay.
const (
	BufBytes = 4096 // of every buffer
	MaxTrips = 3    // the largest constant trip count, and the largest the parameter may be
)

// The parameters of random functions, in order.
const (
	paramX = iota
	paramY
	paramOut
	paramTrips
	paramList
	paramStep
	paramTimes
)

var params = []vir.Param{
	paramX: {Name: "x"}, paramY: {Name: "y"}, paramOut: {Name: "out"},
	paramTrips: {Name: "n", Int: true}, paramList: {Name: "list"}, paramStep: {Name: "step", Int: true},
	paramTimes: {Name: "times", Int: true},
}

// Func returns a well-typed function of about n instructions: loops, carried
// registers, constants, loads, stores and every operation, with operands on which
// none fails and no NaN arises. Its parameters are three buffers, a trip count, a list
// of the numbers of loops, a number of bytes and how often the body runs.
func Func(rng *rand.Rand, n int) *vir.Func {
	g := &generator{rng: rng, f: &vir.Func{Name: "random", Params: slices.Clone(params)}}
	for range 2 + rng.Intn(3) {
		g.carried = append(g.carried, g.make(g.accType()))
	}
	g.block(n, 0)
	for _, r := range g.carried {
		g.store(r)
	}
	g.f.Body = g.out
	if rng.Intn(3) == 0 {
		g.f.Repeat = &vir.Repeat{Count: paramTimes, Moves: []vir.Move{{Param: paramX, By: paramStep}, {Param: paramOut, By: paramStep}}}
	}
	return g.f
}

// Args returns random arguments for the parameters of a function of Func.
func Args(rng *rand.Rand, f *vir.Func, trips int) []vir.Arg {
	args := make([]vir.Arg, len(f.Params))
	for i, p := range f.Params {
		if p.Int {
			args[i].Int = int64(trips)
		} else {
			args[i].Buf = make([]byte, BufBytes)
			rng.Read(args[i].Buf)
		}
		if i == paramList {
			args[i].Buf = nil
			for range MaxTrips {
				args[i].Buf = binary.LittleEndian.AppendUint32(args[i].Buf, rng.Uint32()%MaxTrips)
			}
		}
	}
	return args
}

type generator struct {
	rng     *rand.Rand
	f       *vir.Func
	out     []vir.Node
	scope   []vir.Reg // immutable registers in scope
	carried []vir.Reg
	loops   []*vir.Loop // around
	nextID  int
}

func (g *generator) elem(es ...format.DType) format.DType { return es[g.rng.Intn(len(es))] }

// size is a total width in bits.
func (g *generator) size() int { return 32 << g.rng.Intn(5) }

func sized(e format.DType, bits int) vir.Type { return vir.Type{Elem: e, Lanes: bits / e.Bits()} }

func (g *generator) intType() vir.Type {
	return sized(g.elem(format.U8, format.I8, format.U16, format.I16, format.U32, format.I32), g.size())
}

func (g *generator) accType() vir.Type {
	return sized(g.elem(format.I8, format.U16, format.I16, format.I32, format.F32), g.size())
}

func (g *generator) mem() vir.Mem {
	m := vir.Mem{Buf: []int{paramX, paramY, paramOut}[g.rng.Intn(3)], Off: 64 + 4*g.rng.Intn(200)}
	if g.rng.Intn(4) == 0 {
		m.Buf = paramX
		m.Off = 64
	}
	for _, l := range g.loops {
		if by := []int{0, 16, 64, 128, -4}[g.rng.Intn(5)]; by != 0 {
			m.Stride = append(m.Stride, vir.Stride{Loop: l.ID, Bytes: by})
		}
		if g.rng.Intn(8) == 0 && l.List == 0 {
			m.Stride = slices.DeleteFunc(m.Stride, func(s vir.Stride) bool { return s.Loop == l.ID })
			m.Stride = append(m.Stride, vir.Stride{Loop: l.ID, Bytes: 16 * g.rng.Intn(2), Multiple: g.multiple(2)})
		}
	}
	if g.rng.Intn(8) == 0 {
		m.Plus[0] = g.multiple(16)
		if first := min(paramTrips, paramStep); m.Plus[0].By == first && g.rng.Intn(2) == 0 {
			m.Plus[1] = vir.Multiple{Times: 4, By: paramTrips + paramStep - first}
		} else if g.rng.Intn(2) == 0 {
			m.Plus[0].Times = 1
		}
	}
	return m
}

// multiple multiplies one of the integers by at most `most` words.
func (g *generator) multiple(most int) vir.Multiple {
	return vir.Multiple{Times: 4 * (1 + g.rng.Intn(most)), By: []int{paramTrips, paramStep}[g.rng.Intn(2)]}
}

func (g *generator) add(in *vir.Instr) {
	if in.Dst != vir.NoReg && !slices.Contains(g.carried, in.Dst) {
		g.scope = append(g.scope, in.Dst)
	}
	g.out = append(g.out, in)
}

func (g *generator) reg(t vir.Type) vir.Reg {
	g.f.Regs = append(g.f.Regs, t)
	return vir.Reg(len(g.f.Regs) - 1)
}

func (g *generator) op(op vir.Op, t vir.Type, imm int64, args ...vir.Reg) vir.Reg {
	r := g.reg(t)
	g.add(&vir.Instr{Op: op, Dst: r, Args: args, Imm: imm})
	return r
}

// need returns a register of type t: a present one or a new one.
func (g *generator) need(t vir.Type) vir.Reg {
	var have []vir.Reg
	for _, r := range slices.Concat(g.scope, g.carried) {
		if g.f.Regs[r] == t {
			have = append(have, r)
		}
	}
	if len(have) > 0 && g.rng.Intn(8) > 0 {
		return have[len(have)-1-g.rng.Intn(min(len(have), 6))]
	}
	return g.make(t)
}

// make returns a new register of type t. Floats come from integers only, so that
// no NaN does.
func (g *generator) make(t vir.Type) vir.Reg {
	if t.Elem == format.F32 {
		i := g.make(sized(format.I32, t.Bits()))
		return g.op(vir.OpCvtF32, t, 0, i)
	}
	switch g.rng.Intn(6) {
	case 0:
		return g.op(vir.OpSplat, t, int64(g.rng.Intn(300)-20))
	case 1:
		data := make([]byte, t.Bytes())
		g.rng.Read(data)
		g.f.Consts = append(g.f.Consts, data)
		return g.op(vir.OpConst, t, int64(len(g.f.Consts)-1))
	case 2:
		r := g.reg(t)
		g.add(&vir.Instr{Op: vir.OpLoadSplat, Dst: r, Mem: g.mem()})
		return r
	case 3:
		u := sized(g.elem(format.U8, format.I16, format.U32), t.Bits())
		if u != t && u.Lanes > 0 {
			return g.op(vir.OpBitcast, t, 0, g.need(u))
		}
	}
	r := g.reg(t)
	g.add(&vir.Instr{Op: vir.OpLoad, Dst: r, Mem: g.mem()})
	return r
}

func (g *generator) store(r vir.Reg) {
	m := g.mem()
	m.Buf = []int{paramOut, paramOut, paramOut, paramY}[g.rng.Intn(4)]
	g.add(&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: m})
}

func (g *generator) block(n, depth int) {
	for i := 0; i < n; i++ {
		switch k := g.rng.Intn(20); {
		case k == 0 && depth < 2 && n > 4:
			g.loop(n/2, depth)
			i += n / 2
		case k == 1:
			g.add(&vir.Instr{Op: []vir.Op{vir.OpPrefetch, vir.OpPrefetch2}[g.rng.Intn(2)], Dst: vir.NoReg, Mem: g.mem()})
		case k < 4:
			g.store(g.any())
		case k < 8 && depth > 0:
			g.update(g.carried[g.rng.Intn(len(g.carried))])
		default:
			g.random()
		}
	}
}

// any returns some register, the latest ones most often.
func (g *generator) any() vir.Reg {
	if len(g.scope) == 0 || g.rng.Intn(5) == 0 {
		return g.carried[g.rng.Intn(len(g.carried))]
	}
	return g.scope[len(g.scope)-1-g.rng.Intn(min(len(g.scope), 8))]
}

func (g *generator) loop(n, depth int) {
	l := &vir.Loop{ID: g.nextID, Count: vir.Extent{Const: 1 + g.rng.Intn(MaxTrips), Param: -1}, Carried: slices.Clone(g.carried)}
	if g.rng.Intn(3) == 0 {
		l.Count = vir.Extent{Param: paramTrips}
	}
	if g.rng.Intn(4) == 0 {
		l.List = 1 + paramList
	}
	g.nextID++
	out, scope := g.out, len(g.scope)
	g.out, g.loops = nil, append(g.loops, l)
	g.block(n, depth+1)
	l.Body = g.out
	g.out, g.scope, g.loops = append(out, l), g.scope[:scope], g.loops[:len(g.loops)-1]
}

// update redefines carried register r.
func (g *generator) update(r vir.Reg) {
	t := g.f.Regs[r]
	in := &vir.Instr{Op: vir.OpAdd, Dst: r}
	switch other := g.need(t); {
	case t.Elem == format.I32 && g.rng.Intn(2) == 0:
		a := g.need(sized(g.elem(format.U8, format.I8), t.Bits()))
		in.Op, in.Args = vir.OpDot4, []vir.Reg{r, a, g.need(sized(format.I8, t.Bits()))}
	case g.rng.Intn(4) == 0:
		in.Op, in.Args = vir.OpSub, []vir.Reg{other, r}
	case g.rng.Intn(6) == 0:
		in.Op, in.Args = vir.OpBitcast, []vir.Reg{other}
	case g.rng.Intn(3) == 0 && t.Elem != format.F32:
		in.Op, in.Args = vir.OpBitcast, []vir.Reg{g.detour(r)}
	case g.rng.Intn(6) == 0 && t.Lanes > 1:
		h := g.need(vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2})
		in.Op, in.Args = vir.OpJoin, []vir.Reg{h, g.op(vir.OpHalf, g.f.Regs[h], int64(g.rng.Intn(2)), r)}
	case g.rng.Intn(6) == 0:
		in.Op, in.Imm, in.Args = vir.OpHalf, int64(g.rng.Intn(2)), []vir.Reg{g.need(vir.Type{Elem: t.Elem, Lanes: 2 * t.Lanes})}
	default:
		in.Args = []vir.Reg{r, other}
	}
	g.add(in)
}

// detour computes what may become the next value of r in another type; some of
// what it adds reads or changes r.
func (g *generator) detour(r vir.Reg) vir.Reg {
	u := sized(g.elem(format.I8, format.I16), g.f.Regs[r].Bits())
	if g.rng.Intn(4) == 0 {
		return g.need(u)
	}
	x := g.op(vir.OpAdd, u, 0, g.op(vir.OpBitcast, u, 0, r), g.need(u))
	switch g.rng.Intn(6) {
	case 0:
		g.store(r)
	case 1:
		g.random()
	case 2:
		g.add(&vir.Instr{Op: vir.OpXor, Dst: r, Args: []vir.Reg{r, g.need(g.f.Regs[r])}})
	case 3:
		t := g.f.Regs[r]
		g.add(&vir.Instr{Op: vir.OpAdd, Dst: r, Args: []vir.Reg{g.make(t), g.make(t)}})
	}
	return x
}

// random adds one operation of any kind.
func (g *generator) random() {
	t := g.intType()
	w := t.Elem.Bits()
	signed := sized(g.elem(format.I8, format.I16, format.I32), t.Bits())
	i32, f32 := sized(format.I32, t.Bits()), sized(format.F32, t.Bits())
	ops := []func(){
		func() { g.op(g.bitOp(), t, 0, g.need(t), g.need(t)) },
		func() { g.op(vir.OpAnd, t, 0, g.need(t), g.op(vir.OpSplat, t, int64(1)<<g.rng.Intn(w)-1)) },
		func() { g.op(vir.OpBitSel, t, 0, g.need(t), g.need(t), g.need(t)) },
		func() { g.op(vir.OpShl+vir.Op(g.rng.Intn(3)), t, int64(g.rng.Intn(w)), g.need(t)) },
		func() { g.op(vir.OpAdd+vir.Op(g.rng.Intn(2)), t, 0, g.need(t), g.need(t)) },
		func() { g.op(vir.OpMul, i32, 0, g.need(i32), g.need(i32)) },
		func() { g.op(vir.OpMinS+vir.Op(g.rng.Intn(2)), signed, 0, g.need(signed), g.need(signed)) },
		func() {
			avg := sized(g.elem(format.I8, format.I16), t.Bits())
			g.op(vir.OpAvgS, avg, 0, g.need(avg), g.need(avg))
		},
		func() {
			avg := sized(g.elem(format.U8, format.U16), t.Bits())
			g.op(vir.OpAvgU, avg, 0, g.need(avg), g.need(avg))
		},
		func() { g.op(vir.OpCmpGtS, signed, 0, g.need(signed), g.need(signed)) },
		func() { g.op(vir.OpSelMSB+vir.Op(g.rng.Intn(2)), t, 0, g.need(t), g.need(t), g.need(t)) },
		func() {
			u8 := sized(format.U8, t.Bits())
			g.op(vir.OpAddSat+vir.Op(g.rng.Intn(2)), u8, 0, g.need(u8), g.need(u8))
		},
		func() { g.op(vir.OpAbs, signed, 0, g.need(signed)) },
		func() { g.op(vir.OpAdd+vir.Op(g.rng.Intn(3)), f32, 0, g.need(f32), g.need(f32)) },
		func() { g.op(vir.OpCanonNaN, f32, 0, g.need(f32)) },
		func() { g.op(vir.OpCmpGtF, i32, 0, g.need(f32), g.need(f32)) },
		func() { g.op(vir.OpMaxF+vir.Op(g.rng.Intn(2)), f32, 0, g.need(f32), g.need(f32)) },
		func() { g.op(vir.OpCvtF16, vir.Type{Elem: format.F16, Lanes: f32.Lanes}, 0, g.need(f32)) },
		func() { g.op(vir.OpCvtI32, i32, 0, g.op(vir.OpCvtF32, f32, 0, g.op(vir.OpShrS, i32, 8, g.need(i32)))) },
		func() {
			to := vir.Type{Elem: format.I32, Lanes: max(i32.Lanes>>g.rng.Intn(8), 1)}
			g.op(vir.OpRedAdd+vir.Op(g.rng.Intn(2)), to, 0, g.need(i32))
		},
		g.widths, g.dots, g.lookups, g.lookups, g.halves,
	}
	ops[g.rng.Intn(len(ops))]()
}

func (g *generator) bitOp() vir.Op {
	return []vir.Op{vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAndNot}[g.rng.Intn(4)]
}

func (g *generator) widths() {
	lanes := 2 << g.rng.Intn(5)
	of := func(es ...format.DType) vir.Type { return vir.Type{Elem: g.elem(es...), Lanes: lanes} }
	switch g.rng.Intn(5) {
	case 0:
		g.op(vir.OpWiden, of(format.I16), 0, g.need(of(format.U8, format.I8)))
	case 1:
		g.op(vir.OpWiden, of(format.I32), 0, g.need(of(format.U16, format.I16, format.U8, format.I8)))
	case 2:
		g.op(vir.OpTrunc, of(format.I8, format.U8), 0, g.need(of(format.I32, format.I16)))
	case 3:
		g.op(vir.OpTrunc, of(format.I16, format.U16), 0, g.need(of(format.I32)))
	default:
		t := of(format.U8, format.I32)
		g.op(vir.OpSplatLane, t, 0, g.need(vir.Type{Elem: t.Elem, Lanes: 1}))
	}
}

func (g *generator) dots() {
	t := sized(format.I32, g.size())
	u8, i8, i16 := sized(format.U8, t.Bits()), sized(format.I8, t.Bits()), sized(format.I16, t.Bits())
	a := g.need(u8)
	if g.rng.Intn(2) == 0 {
		a = g.op(vir.OpAnd, u8, 0, a, g.op(vir.OpSplat, u8, []int64{15, 63, 127, 128}[g.rng.Intn(4)]))
	}
	switch g.rng.Intn(7) {
	case 6:
		sums := vir.Type{Elem: format.I32, Lanes: 4 << g.rng.Intn(2)}
		rows := sized(g.elem(format.U8, format.I8), sums.Bits())
		g.op(vir.OpMMLA, sums, 0, g.need(sums), g.need(rows), g.need(vir.Type{Elem: format.I8, Lanes: 16}))
	case 4:
		g.products(t.Bits(), a)
	case 5:
		g.op(vir.OpSum2, t, 0, g.need(t), g.need(i16))
		if pairs := sized(g.elem(format.I16, format.I32), t.Bits()); pairs.Lanes > 1 {
			g.op(vir.OpAddPairs, pairs, 0, g.need(pairs), g.need(pairs))
		}
	case 0:
		g.op(vir.OpDot4, t, 0, g.need(t), a, g.need(i8))
		m := 4 << g.rng.Intn(4)
		g.op(vir.OpDot4Unit, t, int64(g.rng.Intn(m/4)), g.need(t), a, g.need(vir.Type{Elem: format.I8, Lanes: m}))
	case 1:
		g.op(vir.OpDot4, t, 0, g.need(t), g.need(i8), g.need(i8))
	case 2:
		g.op(vir.OpDot2, t, 0, g.need(t), g.need(i16), g.need(i16))
		g.op(vir.OpDot2Wrap, t, 0, g.need(i16), g.need(i16))
	default:
		g.op(vir.OpDot2Sat, i16, 0, a, g.need(i8))
	}
}

// products are of bytes a, or of signed ones, in 16 bits: of all lanes, or of a half.
func (g *generator) products(bits int, a vir.Reg) {
	i8 := sized(format.I8, bits)
	if g.rng.Intn(2) == 0 {
		a = g.need(i8)
	}
	lanes := i8.Lanes >> g.rng.Intn(2)
	half := 0
	if lanes < i8.Lanes {
		half = g.rng.Intn(2)
	}
	t := vir.Type{Elem: format.I16, Lanes: lanes}
	if t.Bytes() > vir.MaxBytes {
		return
	}
	g.op(vir.OpMulWide, t, int64(half), a, g.need(i8))
	g.op(vir.OpDot1, t, int64(half), g.need(t), a, g.need(i8))
}

func (g *generator) lookups() {
	t := sized(g.elem(format.U8, format.I8, format.I16, format.I32), g.size())
	u := map[int]format.DType{8: format.U8, 16: format.U16, 32: format.U32}[t.Elem.Bits()]
	index := g.need(vir.Type{Elem: u, Lanes: t.Lanes})
	n := 8 << g.rng.Intn(5)
	if half := (vir.Type{Elem: t.Elem, Lanes: n / 2}); n/2 >= t.Lanes && g.rng.Intn(3) == 0 {
		g.op(vir.OpLookupPair, t, 0, index, g.need(half), g.need(half))
		return
	}
	mod := g.rng.Intn(2) == 0
	if !mod {
		index = g.op(vir.OpAnd, g.f.Regs[index], 0, index, g.op(vir.OpSplat, g.f.Regs[index], int64(n-1)))
	}
	g.op(vir.Lookup(n, mod), t, 0, index, g.need(vir.Type{Elem: t.Elem, Lanes: max(t.Lanes, n)}))
}

func (g *generator) halves() {
	t := g.intType()
	if t.Lanes < 2 {
		return
	}
	h := vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2}
	if g.rng.Intn(4) == 0 {
		m := 1 << g.rng.Intn(5)
		g.op(vir.OpSpread, t, int64(g.rng.Intn(m)), g.need(vir.Type{Elem: t.Elem, Lanes: m}))
	} else if g.rng.Intn(4) == 0 {
		g.op(vir.OpUnzip, t, int64(g.rng.Intn(2)), g.need(t), g.need(t))
	} else if g.rng.Intn(4) == 0 {
		g.op(vir.OpTile, t, 0, g.need(vir.Type{Elem: t.Elem, Lanes: t.Lanes >> g.rng.Intn(2)}))
	} else if g.rng.Intn(2) == 0 {
		g.op(vir.OpHalf, h, int64(g.rng.Intn(2)), g.need(t))
	} else {
		g.op(vir.OpJoin, t, 0, g.need(h), g.need(h))
	}
}
