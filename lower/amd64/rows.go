package amd64

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/x86"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
)

// Element types by width and kind.
var (
	elems8   = []format.DType{format.U8, format.I8}
	elems16  = []format.DType{format.U16, format.I16, format.F16}
	elems32  = []format.DType{format.U32, format.I32, format.F32}
	allElems = append(append(append([]format.DType(nil), elems8...), elems16...), elems32...)
	ints16   = elems16[:2]
	ints32   = elems32[:2]
	u8Only   = []format.DType{format.U8}
	i8Only   = []format.DType{format.I8}
	i16Only  = []format.DType{format.I16}
	i32Only  = []format.DType{format.I32}
	f32Only  = []format.DType{format.F32}
)

// inst is one instruction: with vector operands, VEX-encoded or EVEX-encoded,
// and with 4 bytes broadcast from memory (EVEX only, nil if there is none).
type inst struct{ vex, evex, bcst ctor }

func both(x ctor) inst { return inst{vex: x, evex: x} }

func bcst(x, b ctor) inst { return inst{x, x, b} }

// lanewise lists the instructions whose result and arguments have one type.
var lanewise = []struct {
	op    vir.Op
	elems []format.DType
	inst  inst
	form  form
	args  int
	fold  []int // arguments that may be a memory operand; VEX shifts have none
	cost  core.Class
}{
	{vir.OpAnd, allElems, inst{f3(x86.VPAND), x86.VPANDD, x86.VPANDD_BCST}, commuting, 2, []int{1, 2}, alu},
	{vir.OpOr, allElems, inst{f3(x86.VPOR), x86.VPORD, x86.VPORD_BCST}, commuting, 2, []int{1, 2}, alu},
	{vir.OpXor, allElems, inst{f3(x86.VPXOR), x86.VPXORD, x86.VPXORD_BCST}, commuting, 2, []int{1, 2}, alu},
	{vir.OpAndNot, allElems, inst{f3(x86.VPANDN), x86.VPANDND, x86.VPANDND_BCST}, forward, 2, []int{1}, alu},
	{vir.OpShl, ints16, both(x86.VPSLLW), immediate, 1, []int{1}, shift},
	{vir.OpShl, ints32, bcst(x86.VPSLLD, x86.VPSLLD_BCST), immediate, 1, []int{1}, shift},
	{vir.OpShrU, ints16, both(x86.VPSRLW), immediate, 1, []int{1}, shift},
	{vir.OpShrU, ints32, bcst(x86.VPSRLD, x86.VPSRLD_BCST), immediate, 1, []int{1}, shift},
	{vir.OpShrS, ints16, both(x86.VPSRAW), immediate, 1, []int{1}, shift},
	{vir.OpShrS, ints32, bcst(x86.VPSRAD, x86.VPSRAD_BCST), immediate, 1, []int{1}, shift},
	{vir.OpAdd, elems8, both(x86.VPADDB), commuting, 2, []int{1, 2}, alu},
	{vir.OpAdd, ints16, both(x86.VPADDW), commuting, 2, []int{1, 2}, alu},
	{vir.OpAdd, ints32, bcst(x86.VPADDD, x86.VPADDD_BCST), commuting, 2, []int{1, 2}, alu},
	{vir.OpAdd, f32Only, bcst(x86.VADDPS, x86.VADDPS_BCST), commuting, 2, []int{1, 2}, floatAdd},
	{vir.OpSub, elems8, both(x86.VPSUBB), reverse, 2, []int{2}, alu},
	{vir.OpSub, ints16, both(x86.VPSUBW), reverse, 2, []int{2}, alu},
	{vir.OpSub, ints32, bcst(x86.VPSUBD, x86.VPSUBD_BCST), reverse, 2, []int{2}, alu},
	{vir.OpSub, f32Only, bcst(x86.VSUBPS, x86.VSUBPS_BCST), reverse, 2, []int{2}, floatAdd},
	{vir.OpMul, ints16, both(x86.VPMULLW), commuting, 2, []int{1, 2}, multi},
	{vir.OpMul, ints32, bcst(x86.VPMULLD, x86.VPMULLD_BCST), commuting, 2, []int{1, 2}, mul32},
	{vir.OpMul, f32Only, bcst(x86.VMULPS, x86.VMULPS_BCST), commuting, 2, []int{1, 2}, floatMul},
	{vir.OpDiv, f32Only, bcst(x86.VDIVPS, x86.VDIVPS_BCST), reverse, 2, []int{2}, divide},
	{vir.OpMinS, i8Only, both(x86.VPMINSB), commuting, 2, []int{1, 2}, compare},
	{vir.OpMinS, i16Only, both(x86.VPMINSW), commuting, 2, []int{1, 2}, compare},
	{vir.OpMinS, i32Only, bcst(x86.VPMINSD, x86.VPMINSD_BCST), commuting, 2, []int{1, 2}, compare},
	{vir.OpMaxS, i8Only, both(x86.VPMAXSB), commuting, 2, []int{1, 2}, compare},
	{vir.OpMaxS, i16Only, both(x86.VPMAXSW), commuting, 2, []int{1, 2}, compare},
	{vir.OpMaxS, i32Only, bcst(x86.VPMAXSD, x86.VPMAXSD_BCST), commuting, 2, []int{1, 2}, compare},
	{vir.OpAddSat, u8Only, both(x86.VPADDUSB), commuting, 2, []int{1, 2}, compare},
	{vir.OpSubSat, u8Only, both(x86.VPSUBUSB), reverse, 2, []int{2}, compare},
	{vir.OpAbs, i8Only, both(x86.VPABSB), reverse, 1, []int{1}, compare},
	{vir.OpAbs, i16Only, both(x86.VPABSW), reverse, 1, []int{1}, compare},
	{vir.OpAbs, i32Only, bcst(x86.VPABSD, x86.VPABSD_BCST), reverse, 1, []int{1}, compare},
	{vir.OpSign, i8Only, inst{vex: f3(x86.VPSIGNB)}, reverse, 2, []int{2}, compare},
	{vir.OpAvgU, []format.DType{format.U8}, both(x86.VPAVGB), commuting, 2, []int{1, 2}, compare},
	{vir.OpAvgU, []format.DType{format.U16}, both(x86.VPAVGW), commuting, 2, []int{1, 2}, compare},
	{vir.OpCmpGtS, i8Only, inst{vex: x86.VPCMPGTB}, reverse, 2, []int{2}, compare},
	{vir.OpCmpGtS, i16Only, inst{vex: x86.VPCMPGTW}, reverse, 2, []int{2}, compare},
	{vir.OpCmpGtS, i32Only, inst{vex: x86.VPCMPGTD}, reverse, 2, []int{2}, compare},
	{vir.OpCmpGtS, i8Only, inst{evex: x86.VPCMPGTB}, throughMask(f2(x86.VPMOVM2B)), 2, []int{2}, toMask},
	{vir.OpCmpGtS, i16Only, inst{evex: x86.VPCMPGTW}, throughMask(f2(x86.VPMOVM2W)), 2, []int{2}, toMask},
	{vir.OpCmpGtS, i32Only, inst{evex: x86.VPCMPGTD, bcst: x86.VPCMPGTD_BCST}, throughMask(f2(x86.VPMOVM2D)), 2, []int{2}, toMask},
	// Of two zeros, and if one of them is a NaN, the result is the second source, which Go writes first.
	{vir.OpMaxF, f32Only, bcst(x86.VMAXPS, x86.VMAXPS_BCST), reverse, 2, []int{2}, floatAdd},
	{vir.OpMinF, f32Only, bcst(x86.VMINPS, x86.VMINPS_BCST), reverse, 2, []int{2}, floatAdd},
	{vir.OpCanonNaN, f32Only, inst{evex: x86.VCMPPS}, canonNaN, 1, nil, toMask},
	{vir.OpSelMSB, elems8, inst{vex: f4(x86.VPBLENDVB)}, forward3, 3, []int{2}, blend},
	{vir.OpSelMSB, elems32, inst{vex: f4(x86.VBLENDVPS)}, forward3, 3, []int{2}, blend},
	{vir.OpSelMSB, elems8, inst{evex: x86.VPBLENDMB}, byMask(f2(x86.VPMOVB2M)), 3, []int{2}, toMask},
	{vir.OpSelMSB, elems16, inst{evex: x86.VPBLENDMW}, byMask(f2(x86.VPMOVW2M)), 3, []int{2}, toMask},
	{vir.OpSelMSB, elems32, inst{evex: x86.VPBLENDMD, bcst: x86.VPBLENDMD_BCST}, byMask(f2(x86.VPMOVD2M)), 3, []int{2}, toMask},
	{vir.OpSubMSB, elems8, inst{evex: x86.VPSUBB}, subMasked(f2(x86.VPMOVB2M)), 3, nil, toMask},
	{vir.OpSubMSB, ints16, inst{evex: x86.VPSUBW}, subMasked(f2(x86.VPMOVW2M)), 3, nil, toMask},
	{vir.OpSubMSB, ints32, inst{evex: x86.VPSUBD}, subMasked(f2(x86.VPMOVD2M)), 3, nil, toMask},
	// a ? b : c with c (the result) as the table's most significant input
	{vir.OpBitSel, allElems, inst{evex: x86.VPTERNLOGD, bcst: x86.VPTERNLOGD_BCST}, ternlog(0xb8), 3, []int{2}, select3},
}

// rowSet collects the rows of one instruction set, with what they take on a core.
type rowSet struct {
	m     lower.ISA
	costs core.Costs
	rows  []lower.Row
	known map[microKey][]core.Micro
}

// microKey is a class of instructions, and whether they have more than 256 bits.
type microKey struct {
	class core.Class
	wide  bool
}

func (s *rowSet) evex() bool { return s.m.NumVec > 16 }

func makeRows(isa lower.ISA, costs core.Costs) []lower.Row {
	s := &rowSet{m: isa, costs: costs, known: map[microKey][]core.Micro{}}
	s.add(lower.Row{Op: vir.OpPrefetch}, free, func(p *printer) { p.ins(f1(x86.PREFETCHT0), p.mem) })
	s.add(lower.Row{Op: vir.OpPrefetch2}, free, func(p *printer) { p.ins(f1(x86.PREFETCHT1), p.mem) })
	s.lanewise()
	s.sumsByProducts()
	for _, e := range allElems {
		for _, t := range s.types(e) {
			s.moves(t)
			s.halves(t)
			s.tiles(t)
		}
	}
	s.converts()
	s.dots()
	s.lookups()
	return s.rows
}

// add appends a row. Its Asm is what the printer makes of it, so that every
// operand form is checked when the table is built.
func (s *rowSet) add(r lower.Row, c core.Class, e emit) {
	bits := r.Dst.Bits()
	for _, a := range r.Args {
		bits = max(bits, a.Bits())
	}
	r.Cost, r.Busy = s.cost(c, bits)
	on := c
	if r.Op == vir.OpPrefetch || r.Op == vir.OpPrefetch2 {
		on = load
	}
	r.Latency, r.Micros = s.costs[on].Latency, s.micros(on, bits)
	r.Need |= AVX2
	if s.evex() {
		r.Need |= evex
	}
	r.Code = e
	r.Asm = sample(&r)
	s.rows = append(s.rows, r)
}

// cost is what an instruction of a class takes, and how long it keeps units busy.
func (s *rowSet) cost(c core.Class, bits int) (tenths int, busy []int) {
	if c == free {
		return 0, nil
	}
	cost, ok := s.costs[c]
	if !ok {
		panic("BUG: amd64: a core has no cost of " + string(c))
	}
	return cost.At(bits)
}

// micros are the micro-operations of an instruction of a class.
func (s *rowSet) micros(c core.Class, bits int) []core.Micro {
	key := microKey{c, bits > 256}
	if _, ok := s.known[key]; !ok {
		s.known[key] = s.costs[c].Micros(bits)
	}
	return s.known[key]
}

// types lists the vectors of e that one register holds, from one lane up.
func (s *rowSet) types(e format.DType) []vir.Type {
	var ts []vir.Type
	for n := 1; n*e.Bits() <= s.m.VecBits; n *= 2 {
		ts = append(ts, vir.Type{Elem: e, Lanes: n})
	}
	return ts
}

// choose returns the encoding of i that the machine uses, or nil.
func (s *rowSet) choose(i inst) (plain, broadcast ctor) {
	if s.evex() {
		return i.evex, i.bcst
	}
	return i.vex, nil
}

// fold says which arguments of r may be memory operands: an instruction reads
// at least `least` bits, and with broadcast 32.
func (s *rowSet) fold(r *lower.Row, args []int, least int, broadcast ctor) {
	if len(args) == 0 {
		return
	}
	bits := r.Args[args[0]-1].Bits()
	if bits >= least {
		r.Fold = args
	}
	if bits >= 32 && broadcast != nil {
		r.FoldSplat = args
	}
}

func (s *rowSet) lanewise() {
	for _, l := range lanewise {
		plain, broadcast := s.choose(l.inst)
		if plain == nil {
			continue
		}
		for _, e := range l.elems {
			for _, t := range s.types(e) {
				r := lower.Row{Op: l.op, Dst: t}
				for range l.args {
					r.Args = append(r.Args, t)
				}
				if l.op == vir.OpBitSel || l.op == vir.OpSubMSB {
					r.Tied = 3
				}
				if s.evex() || !isShift(l.op) {
					s.fold(&r, l.fold, 128, broadcast)
				}
				s.add(r, l.cost, l.form(plain, broadcast))
			}
		}
	}
}

// sumsByProducts adds floats as x*1 + sum, which has the bits of x + sum, except that of two NaNs it may keep the other. It is for cores where VADDPS shares its units
// with shifts and half of the permutations. The ones are broadcast from memory, so that no register holds
// them. Where activations are int8 in groups, all units are busy. Figures: docs/lab/choices.md, sumsByProducts.
func (s *rowSet) sumsByProducts() {
	if !s.evex() {
		return
	}
	one := math.Float32bits(1)
	for _, t := range s.types(format.F32) {
		s.add(lower.Row{Op: vir.OpAdd, Dst: t, Args: []vir.Type{t, t}, Tied: 1}, floatFMA, func(p *printer) {
			p.ins(x86.VFMADD231PS_BCST, p.pool.word(one), p.a[1], p.dst)
		})
	}
}

func isShift(op vir.Op) bool { return op == vir.OpShl || op == vir.OpShrU || op == vir.OpShrS }

// moves adds loads, stores, constants and copies of t.
func (s *rowSet) moves(t vir.Type) {
	one := vir.Type{Elem: t.Elem, Lanes: 1}
	read, write, pick := s.memory(t.Bytes())
	repeat, repeatCost := ctor(x86.VPBROADCASTD), splat
	switch t.Elem.Bytes() {
	case 1:
		repeat, repeatCost = x86.VPBROADCASTB, splatBytes
	case 2:
		repeat, repeatCost = x86.VPBROADCASTW, splatBytes
	}
	s.add(lower.Row{Op: vir.OpLoad, Dst: t}, load, func(p *printer) { p.ins(read, p.mem, p.dst) })
	s.add(lower.Row{Op: vir.OpLoadSplat, Dst: t}, repeatCost, func(p *printer) { p.ins(repeat, p.mem, p.dst) })
	s.add(lower.Row{Op: vir.OpStore, Dst: t, Args: []vir.Type{t}}, store, func(p *printer) {
		p.ins(write, append(pick, p.a[0], p.mem)...)
	})
	s.add(lower.Row{Op: vir.OpConst, Dst: t}, load, func(p *printer) { p.ins(read, p.pool.data(p.constant), p.dst) })
	s.add(lower.Row{Op: vir.OpSplat, Dst: t}, load, splatImm(t, s.evex()))
	s.add(lower.Row{Op: vir.OpSplatLane, Dst: t, Args: []vir.Type{one}}, permute, func(p *printer) { p.ins(repeat, p.a[0], p.dst) })
	for _, e := range allElems {
		if from := (vir.Type{Elem: e, Lanes: t.Bytes() / e.Bytes()}); from.Lanes > 0 {
			s.add(lower.Row{Op: vir.OpBitcast, Dst: t, Args: []vir.Type{from}}, free, func(p *printer) { p.move(p.a[0], p.dst) })
		}
	}
}

// memory returns how n bytes are read and written, and the operands that come
// first when writing.
func (s *rowSet) memory(n int) (read, write ctor, pick []operand.Op) {
	switch {
	case n == 1:
		return x86.VPBROADCASTB, f3(x86.VPEXTRB), []operand.Op{operand.U8(0)}
	case n == 2:
		return x86.VPBROADCASTW, f3(x86.VPEXTRW), []operand.Op{operand.U8(0)}
	case n == 4:
		return f2(x86.VMOVD), f2(x86.VMOVD), nil
	case n == 8:
		return f2(x86.VMOVQ), f2(x86.VMOVQ), nil
	case s.evex():
		return x86.VMOVDQU64, x86.VMOVDQU64, nil
	}
	return f2(x86.VMOVDQU), f2(x86.VMOVDQU), nil
}

// halving lists how a vector of bits is taken apart and put together: its upper
// half is high $imm, and join puts b above a. Below 256 bits, joining interleaves
// elements as large as the halves.
var halving = []struct {
	bits int
	high inst
	imm  uint64
	join inst
	cost core.Class
}{
	{512, inst{evex: x86.VEXTRACTI64X4}, 1, inst{evex: x86.VINSERTI64X4}, permute},
	{256, inst{vex: f3(x86.VEXTRACTI128), evex: x86.VEXTRACTI32X4}, 1, inst{vex: f4(x86.VINSERTI128), evex: x86.VINSERTI32X4}, permute},
	{128, both(x86.VPSHUFD), 0xee, both(x86.VPUNPCKLQDQ), shuffle},
	{64, both(x86.VPSHUFD), 0x55, both(x86.VPUNPCKLDQ), shuffle},
	{32, both(x86.VPSRLD), 16, both(x86.VPUNPCKLWD), shuffle},
	{16, both(x86.VPSRLW), 8, both(x86.VPUNPCKLBW), shuffle},
}

func (s *rowSet) halves(t vir.Type) {
	for _, l := range halving {
		if t.Lanes == 1 || t.Bits() != l.bits {
			continue
		}
		h := vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2}
		high, _ := s.choose(l.high)
		join, _ := s.choose(l.join)
		s.add(lower.Row{Op: vir.OpHalf, Dst: h, Args: []vir.Type{t}}, l.cost, func(p *printer) {
			if p.imm == 0 {
				p.move(sized(p.a[0], h), p.dst)
				return
			}
			p.ins(high, operand.U8(l.imm), p.a[0], p.dst)
		})
		r := lower.Row{Op: vir.OpJoin, Dst: t, Args: []vir.Type{h, h}}
		e := reverse(join, nil)
		if l.bits > 128 {
			s.fold(&r, []int{2}, 128, nil)
			e = func(p *printer) { p.ins(join, operand.U8(1), p.a[1], sized(p.a[0], t), p.dst) }
		}
		s.add(r, l.cost, e)
	}
}

// tiling lists how a vector of `bits` bits is repeated: from memory, and from a
// register, which wider ones name twice.
var tiling = []struct {
	bits     int
	mem, reg inst
}{
	{8, both(x86.VPBROADCASTB), both(x86.VPBROADCASTB)},
	{16, both(x86.VPBROADCASTW), both(x86.VPBROADCASTW)},
	{32, both(x86.VPBROADCASTD), both(x86.VPBROADCASTD)},
	{64, both(x86.VPBROADCASTQ), both(x86.VPBROADCASTQ)},
	{128, inst{vex: f2(x86.VBROADCASTI128), evex: x86.VBROADCASTI32X4}, inst{vex: f4(x86.VINSERTI128), evex: x86.VSHUFI32X4}},
	{256, inst{evex: x86.VBROADCASTI64X4}, inst{evex: x86.VSHUFI64X2}},
}

// tiles adds the repetition of all narrower vectors as t.
func (s *rowSet) tiles(t vir.Type) {
	for _, l := range tiling {
		a := vir.Type{Elem: t.Elem, Lanes: l.bits / t.Elem.Bits()}
		if a.Lanes < 1 || a.Lanes >= t.Lanes {
			continue
		}
		mem, _ := s.choose(l.mem)
		reg, _ := s.choose(l.reg)
		r := lower.Row{Op: vir.OpTile, Dst: t, Args: []vir.Type{a}}
		s.fold(&r, []int{1}, 8, nil)
		s.add(r, permute, func(p *printer) {
			switch {
			case operand.IsMem(p.a[0]):
				p.ins(mem, p.a[0], p.dst)
			case l.bits < 128:
				p.ins(reg, p.a[0], p.dst)
			default:
				p.tile(reg, l.bits, t)
			}
		})
	}
}

// converting lists the instructions that make lanes of another width or kind. A
// memory operand has the size of the narrower argument.
var converting = []struct {
	op       vir.Op
	dst, arg []format.DType
	inst     inst
	fold     int // least bits of a memory operand, or 0
	need     lower.Features
	cost     core.Class
}{
	{vir.OpWiden, i16Only, i8Only, both(x86.VPMOVSXBW), 64, 0, permute},
	{vir.OpWiden, i16Only, elems8[:1], both(x86.VPMOVZXBW), 64, 0, permute},
	{vir.OpWiden, i32Only, i16Only, both(x86.VPMOVSXWD), 64, 0, permute},
	{vir.OpWiden, i32Only, elems16[:1], both(x86.VPMOVZXWD), 64, 0, permute},
	{vir.OpWiden, i32Only, i8Only, both(x86.VPMOVSXBD), 32, 0, permute},
	{vir.OpWiden, i32Only, elems8[:1], both(x86.VPMOVZXBD), 32, 0, permute},
	{vir.OpTrunc, elems8, i16Only, inst{evex: x86.VPMOVWB}, 0, 0, narrow},
	{vir.OpTrunc, ints16, i32Only, inst{evex: x86.VPMOVDW}, 0, 0, narrow},
	{vir.OpTrunc, elems8, i32Only, inst{evex: x86.VPMOVDB}, 0, 0, narrow},
	{vir.OpCvtF32, f32Only, i32Only, bcst(x86.VCVTDQ2PS, x86.VCVTDQ2PS_BCST), 128, 0, floatAdd},
	{vir.OpCvtI32, i32Only, f32Only, bcst(x86.VCVTPS2DQ, x86.VCVTPS2DQ_BCST), 128, 0, floatAdd},
	{vir.OpCvtHalf, f32Only, elems16[2:], both(x86.VCVTPH2PS), 64, F16C, toFloat},
}

func (s *rowSet) converts() {
	for _, t := range s.types(format.F32) {
		r := lower.Row{Op: vir.OpCvtF16, Dst: vir.Type{Elem: format.F16, Lanes: t.Lanes}, Args: []vir.Type{t}, Need: F16C}
		s.add(r, toFloat, func(p *printer) {
			const nearest = 0
			p.ins(x86.VCVTPS2PH, operand.U8(nearest), p.a[0], p.dst)
		})
	}
	for _, l := range converting {
		plain, broadcast := s.choose(l.inst)
		for _, d := range l.dst {
			for _, a := range l.arg {
				for _, t := range s.types(widest(d, a)) {
					r := lower.Row{Op: l.op, Dst: vir.Type{Elem: d, Lanes: t.Lanes}, Args: []vir.Type{{Elem: a, Lanes: t.Lanes}}, Need: l.need}
					if plain == nil {
						s.add(r, narrow, truncate(r.Dst, r.Args[0]))
						continue
					}
					if l.fold > 0 {
						s.fold(&r, []int{1}, l.fold, broadcast)
					}
					s.add(r, l.cost, reverse(plain, broadcast))
				}
			}
		}
	}
}

func widest(a, b format.DType) format.DType {
	if a.Bits() > b.Bits() {
		return a
	}
	return b
}

// Dot products with an accumulator.
var (
	dpbusd = inst{vex("VPDPBUSD_VEX"), x86.VPDPBUSD, x86.VPDPBUSD_BCST}
	dpwssd = inst{vex("VPDPWSSD_VEX"), x86.VPDPWSSD, x86.VPDPWSSD_BCST}
)

// dots adds sums of products; those with an accumulator need VNNI.
func (s *rowSet) dots() {
	vnni := AVXVNNI
	if s.m.Has&AVX512VNNI != 0 {
		vnni = AVX512VNNI
	}
	busd, busdBroadcast := s.choose(dpbusd)
	wssd, wssdBroadcast := s.choose(dpwssd)
	for _, c := range s.types(format.I32) {
		u8 := vir.Type{Elem: format.U8, Lanes: 4 * c.Lanes}
		i8 := vir.Type{Elem: format.I8, Lanes: 4 * c.Lanes}
		i16 := vir.Type{Elem: format.I16, Lanes: 2 * c.Lanes}
		sat := lower.Row{Op: vir.OpDot2Sat, Dst: i16, Args: []vir.Type{u8, i8}}
		s.fold(&sat, []int{2}, 128, nil)
		s.add(sat, multi, reverse(x86.VPMADDUBSW, nil))
		madd := lower.Row{Op: vir.OpDot2Wrap, Dst: c, Args: []vir.Type{i16, i16}}
		s.fold(&madd, []int{1, 2}, 128, nil)
		s.add(madd, multi, commuting(x86.VPMADDWD, nil))
		if s.m.Has&vnni == 0 {
			continue
		}
		// The encoder of AVX-VNNI knows addresses in registers only.
		dot4 := lower.Row{Op: vir.OpDot4, Dst: c, Args: []vir.Type{c, u8, i8}, Need: vnni, Tied: 1, NoConst: !s.evex()}
		s.fold(&dot4, []int{3}, 128, busdBroadcast)
		s.add(dot4, multi, withoutFirst(reverse(busd, busdBroadcast)))
		dot2 := lower.Row{Op: vir.OpDot2, Dst: c, Args: []vir.Type{c, i16, i16}, Need: vnni, Tied: 1, NoConst: !s.evex()}
		s.fold(&dot2, []int{2, 3}, 128, wssdBroadcast)
		s.add(dot2, multi, withoutFirst(commuting(wssd, wssdBroadcast)))
	}
}

// permuting lists the lookups in the lanes of one register of at least the given bits,
// and of two registers; the low bits of an index count.
var permuting = []struct {
	elems     []format.DType
	one       inst
	oneCost   core.Class
	least     int
	pair      ctor // EVEX only; it overwrites the index
	pairCost  core.Class
	oneNeed   lower.Features
	pairNeeds lower.Features
}{
	{elems8, inst{evex: x86.VPERMB}, permuteByte, 256, x86.VPERMI2B, bytePairs, AVX512VBMI, AVX512VBMI},
	{elems16, inst{evex: x86.VPERMW}, permuteWord, 128, x86.VPERMI2W, permutes, 0, 0},
	{ints32, both(x86.VPERMD), permute, 256, x86.VPERMI2D, permute, 0, 0},
	{f32Only, both(x86.VPERMPS), permute, 256, x86.VPERMI2PS, permute, 0, 0},
}

// lookups adds table lookups: VPSHUFB zeroes where bit 7 of an index is set, so
// it serves only indexes known to be below 16; the others use the low bits alone.
func (s *rowSet) lookups() {
	for _, e := range elems8 {
		for _, t := range s.types(e) {
			r := lower.Row{Op: vir.OpLookup16, Dst: t, Args: []vir.Type{{Elem: format.U8, Lanes: t.Lanes}, {Elem: e, Lanes: max(16, t.Lanes)}}}
			s.fold(&r, []int{1}, 128, nil)
			s.add(r, shuffle, forward(x86.VPSHUFB, nil))
		}
	}
	for _, l := range permuting {
		index := l.elems[0].Unsigned()
		one, _ := s.choose(l.one)
		for _, e := range l.elems {
			for _, table := range s.types(e) {
				for n := 1; n <= table.Lanes && table.Bits() >= 128; n *= 2 {
					t, x := vir.Type{Elem: e, Lanes: n}, vir.Type{Elem: index, Lanes: n}
					if one != nil && table.Bits() >= l.least && s.m.Has&l.oneNeed == l.oneNeed {
						s.permute(lower.Row{Dst: t, Args: []vir.Type{x, table}, Need: l.oneNeed}, one, l.oneCost)
					}
					if s.evex() && s.m.Has&l.pairNeeds == l.pairNeeds {
						s.permutePair(lower.Row{Dst: t, Args: []vir.Type{x, table, table}, Need: l.pairNeeds}, l.pair, l.pairCost)
					}
				}
			}
		}
	}
}

func (s *rowSet) permute(r lower.Row, f ctor, c core.Class) {
	table := r.Args[1]
	s.fold(&r, []int{2}, 128, nil)
	for _, mod := range []bool{false, true} {
		r.Op = vir.Lookup(table.Lanes, mod)
		s.add(r, c, func(p *printer) { p.ins(f, p.a[1], sized(p.a[0], table), sized(p.dst, table)) })
	}
}

func (s *rowSet) permutePair(r lower.Row, f ctor, c core.Class) {
	table := r.Args[1]
	r.Op, r.Tied = vir.OpLookupPair, 1
	s.fold(&r, []int{3}, 128, nil)
	s.add(r, c, func(p *printer) { p.ins(f, p.a[2], p.a[1], sized(p.dst, table)) })
}
