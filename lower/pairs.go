package lower

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// pairs adds up products of bytes from memory, each the same in all lanes, and constants two at a time, on targets that have
// such sums of unsigned and signed bytes: the sum of two products and an addition are two instructions less. Constants
// without a sign are the unsigned bytes. Else those from memory are, 128 more each, and what that is too much is added with
// the constants: as the product of a number that all lanes have with one of each, where a pair has room for it.
//
//	v1:i16x8 = widen (loadsplat act+0: i8)      v6:u16x8 = loadsplat act+0
//	v2:i16x8 = widen (loadsplat act+1: i8)      v7:u16x8 = xor v6 0x8080
//	v3:i16x8 = mul v1 c0(-1 0 1...)        ->   v8:i16x8 = dot2sat v7 c2(-1 1 0 1 1 0...)
//	v4:i16x8 = mul v2 c1(1 1 0...)              v5:i16x8 = add v8 c3(0 -128 -128...)
//	v5:i16x8 = add v3 v4
func (t *table) pairs(f *vir.Func) (*vir.Func, error) {
	wide := vir.Type{Elem: format.I16, Lanes: t.m.VecBits / 16}
	if !t.has(vir.OpDot2Sat, wide, as(wide, format.U8), as(wide, format.I8)) {
		return f, nil
	}
	if !has(f.Body, func(in *vir.Instr) bool { // no sum of 16 bits
		return (in.Op == vir.OpAdd || in.Op == vir.OpSub) && f.Regs[in.Dst].Elem == format.I16
	}) {
		return f, nil
	}
	mut := mutable(f)
	p := &pairing{b: &Builder{F: clone(f), ranges: vir.Ranges(f)}, mut: mut, def: definitions(f, mut), inner: make([]bool, len(f.Regs)), blocks: map[*vir.Instr]*block{}}
	p.find(f.Body)
	p.b.F.Body = vir.Map(f.Body, p.instr)
	return p.b.F, nil
}

type pairing struct {
	b      *Builder
	mut    []bool
	def    []*vir.Instr
	inner  []bool // registers that only sums read
	blocks map[*vir.Instr]*block
}

// block is the body that an instruction stands in: what it and its loops store to.
type block struct{ stored map[int]bool }

// find notes where instructions stand and what reads registers.
func (p *pairing) find(body []vir.Node) {
	read := make([]bool, len(p.inner))
	backwards(body, func(in *vir.Instr) { // uses first
		absorbs := p.sums(in) && (in.Op != vir.OpShl || p.inner[in.Dst])
		for _, r := range in.Args {
			p.inner[r] = (p.inner[r] || !read[r]) && absorbs
			read[r] = true
		}
	})
	p.stand(body)
}

func (p *pairing) stand(body []vir.Node) *block {
	here := &block{map[int]bool{}}
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			p.blocks[n] = here
			if n.Op.Orders() {
				here.stored[n.Mem.Buf] = true
			}
		case *vir.Loop:
			maps.Copy(here.stored, p.stand(n.Body).stored)
		}
	}
	return here
}

// sums says whether in may be part of a sum.
func (p *pairing) sums(in *vir.Instr) bool {
	if in.Dst == vir.NoReg || p.mut[in.Dst] || p.b.TypeOf(in.Dst).Elem != format.I16 || in.Fold > 0 {
		return false
	}
	switch in.Op {
	case vir.OpAdd, vir.OpSub, vir.OpShl:
		return true
	case vir.OpMul:
		return p.constant(in.Args[0]) != nil || p.constant(in.Args[1]) != nil
	case vir.OpAnd:
		return p.isMask(in.Args[0]) || p.isMask(in.Args[1])
	}
	return false
}

// isMask says that r is a constant of lanes that are all ones or 0.
func (p *pairing) isMask(r vir.Reg) bool {
	lanes := p.constant(r)
	return lanes != nil && !slices.ContainsFunc(lanes, func(x int64) bool { return x != 0 && x != -1 })
}

// instr is what in becomes.
func (p *pairing) instr(in *vir.Instr) []*vir.Instr {
	if !p.sums(in) || p.inner[in.Dst] || in.Op != vir.OpAdd && in.Op != vir.OpSub {
		return vir.Kept
	}
	l := p.linear(in.Dst, in)
	if l == nil || len(l.terms) < 2 {
		return vir.Kept
	}
	if out := p.sum(in, l); out != nil {
		return out
	}
	return vir.Kept
}

// linear is a sum of bytes times constants, and constants; each has a number for each lane.
type linear struct {
	terms []term
	plus  []int64
	ops   int // that it takes
}

// term is a signed byte from memory, the same in all lanes, times numbers.
type term struct {
	from  vir.Mem
	of    vir.Range
	times []int64
}

// mostTerms bounds the bytes of a sum, mostOps what it takes to add them up.
const (
	mostTerms = 32
	mostOps   = 4 * mostTerms
)

// linear is r as a sum, for what stands at at; nil if it is none.
func (p *pairing) linear(r vir.Reg, at *vir.Instr) *linear {
	if lanes := p.constant(r); lanes != nil {
		return &linear{plus: lanes}
	}
	d, n := p.def[r], p.b.TypeOf(r).Lanes
	switch {
	case d == nil || d.Fold > 0 || p.b.TypeOf(r).Elem != format.I16:
		return nil
	case d.Op == vir.OpWiden:
		load := p.def[d.Args[0]]
		if load == nil || load.Op != vir.OpLoadSplat || p.b.TypeOf(load.Dst).Elem != format.I8 || p.blocks[load] != p.blocks[at] || p.blocks[at].stored[load.Mem.Buf] {
			return nil
		}
		return &linear{terms: []term{{load.Mem, p.b.Range(load.Dst), slices.Repeat([]int64{1}, n)}}, plus: make([]int64, n)}
	case d.Op == vir.OpShl:
		l := p.linear(d.Args[0], at)
		return l.times(slices.Repeat([]int64{1 << d.Imm}, n))
	case !p.sums(d):
		return nil
	}
	x := p.linear(d.Args[0], at)
	if x == nil {
		return nil // before the other: sums of sums of sums are not taken apart twice for each
	}
	y := p.linear(d.Args[1], at)
	if y == nil {
		return nil
	}
	switch d.Op {
	case vir.OpAdd:
		return x.add(y)
	case vir.OpSub:
		return x.add(y.times(slices.Repeat([]int64{-1}, n)))
	}
	if len(x.terms) == 0 {
		x, y = y, x
	}
	if len(y.terms) > 0 {
		return nil
	}
	if d.Op == vir.OpAnd { // with all bits or none
		y.times(slices.Repeat([]int64{-1}, n))
	}
	return x.times(y.plus)
}

// constant is the lanes of r, if it is a constant of 16 bits.
func (p *pairing) constant(r vir.Reg) []int64 {
	d, t := p.def[r], p.b.TypeOf(r)
	if d == nil || t.Elem != format.I16 {
		return nil
	}
	var data []byte
	switch d.Op {
	case vir.OpSplat:
		data = splatBytes(t, d.Imm)
	case vir.OpConst:
		data = p.b.F.Consts[d.Imm]
	}
	var lanes []int64
	for ; len(data) > 0; data = data[2:] {
		lanes = append(lanes, int64(int16(binary.LittleEndian.Uint16(data))))
	}
	return lanes
}

// add is l + m, which it takes over.
func (l *linear) add(m *linear) *linear {
	if l == nil || m == nil {
		return nil
	}
	for i := range l.plus {
		l.plus[i] += m.plus[i]
	}
	for _, t := range m.terms {
		i := slices.IndexFunc(l.terms, func(u term) bool { return sameMem(u.from, t.from) })
		if i < 0 {
			l.terms = append(l.terms, t)
			continue
		}
		for k := range t.times {
			l.terms[i].times[k] += t.times[k]
		}
	}
	l.ops += m.ops + 1
	if len(l.terms) > mostTerms || l.ops > mostOps {
		return nil
	}
	return l
}

// times is l with each lane multiplied, which it takes over; nil if numbers are too large to be
// of use.
func (l *linear) times(by []int64) *linear {
	if l == nil {
		return nil
	}
	scale := func(lanes []int64) bool {
		most := int64(0)
		for i := range lanes {
			lanes[i] *= by[i]
			most = max(most, lanes[i], -lanes[i])
		}
		return most <= math.MaxInt32
	}
	ok := scale(l.plus)
	for _, t := range l.terms {
		ok = ok && scale(t.times)
	}
	if !ok {
		return nil
	}
	l.ops++
	return l
}

func sameMem(a, b vir.Mem) bool {
	return a.Buf == b.Buf && a.Off == b.Off && a.Plus == b.Plus && slices.Equal(a.Stride, b.Stride)
}

// sum returns instructions that compute l by sums of pairs, and leave the result in the register of `in`. It returns nil
// if a sum could saturate, or if this takes no fewer instructions than l does.
func (p *pairing) sum(in *vir.Instr, l *linear) []*vir.Instr {
	signed := slices.ContainsFunc(l.terms, func(t term) bool { return slices.Min(t.times) < 0 })
	pairs := l.inPairs()
	for i := range pairs {
		if !pairs[i].fits(signed, l.plus) {
			return nil
		}
	}
	for i, x := range l.plus {
		l.plus[i] = int64(int16(x)) // sums wrap
	}
	notZero := func(x int64) bool { return x != 0 }
	if last := &pairs[len(pairs)-1]; last.second == nil && slices.ContainsFunc(l.plus, notZero) {
		last.fill(signed, l.plus)
	}
	rest := slices.ContainsFunc(l.plus, notZero)
	took := 2*len(pairs) - 1
	if rest {
		took++
	}
	if took >= l.ops {
		return nil
	}
	s, t := p.b.Seq(), p.b.TypeOf(in.Dst)
	sums := make([]vir.Reg, 0, took)
	for _, x := range pairs {
		sums = append(sums, s.pair(t, signed, x))
	}
	if rest {
		var data []byte
		for _, x := range l.plus {
			data = binary.LittleEndian.AppendUint16(data, uint16(x))
		}
		sums = append(sums, s.Imm(vir.OpConst, t, p.b.Const(data)))
	}
	if len(sums) == 1 {
		return s.End(in.Dst, vir.OpBitcast, 0, sums[0])
	}
	for len(sums) > 2 {
		sums = append([]vir.Reg{s.Op(vir.OpAdd, t, sums[0], sums[1])}, sums[2:]...)
	}
	return s.End(in.Dst, vir.OpAdd, 0, sums[0], sums[1])
}

// pair is a term, and the next one: a neighbour in memory, a number that has room with it, or none.
type pair struct {
	first  term
	second *term
	number int64 // what the second multiplies, unless it is from memory
}

// inPairs returns the terms of l. A term with a neighbour in memory makes a pair with it. Terms without one come last.
func (l *linear) inPairs() []pair {
	slices.SortStableFunc(l.terms, func(t, u term) int { return t.from.Off - u.from.Off })
	var pairs, single []pair
	used := make([]bool, len(l.terms))
	for i, t := range l.terms {
		if used[i] {
			continue
		}
		next := t.from
		next.Off++
		j := slices.IndexFunc(l.terms, func(u term) bool { return sameMem(u.from, next) })
		if j < 0 || used[j] {
			single = append(single, pair{first: t})
			continue
		}
		used[j] = true
		pairs = append(pairs, pair{first: t, second: &l.terms[j]})
	}
	return append(pairs, single...)
}

// fits says whether the numbers of x are bytes and its sums do not saturate. Of signed numbers, bytes from memory are
// 128 more, and that is taken off plus.
func (x *pair) fits(signed bool, plus []int64) bool {
	terms := []*term{&x.first}
	if x.second != nil {
		terms = append(terms, x.second)
	}
	for i := range plus {
		sum := vir.Range{}
		for _, t := range terms {
			c, r := t.times[i], t.of
			if signed {
				r = vir.Range{Lo: r.Lo + 128, Hi: r.Hi + 128}
				plus[i] -= 128 * c
			}
			if signed && (c < math.MinInt8 || c > math.MaxInt8) || !signed && c > math.MaxUint8 {
				return false
			}
			sum.Lo += min(c*r.Lo, c*r.Hi)
			sum.Hi += max(c*r.Lo, c*r.Hi)
		}
		if sum.Lo < math.MinInt16 || sum.Hi > math.MaxInt16 {
			return false
		}
	}
	return true
}

// fill makes plus, if that is some number times bytes, the second of x, and 0. The number is the largest, which is
// more often that of other sums too.
func (x *pair) fill(signed bool, plus []int64) {
	lo, hi, most := int64(0), int64(math.MaxUint8), int64(math.MaxInt8)
	if signed {
		lo, hi, most = math.MinInt8, math.MaxInt8, math.MaxUint8
	}
	for number := most; number > 0; number-- {
		if slices.ContainsFunc(plus, func(x int64) bool { return x%number != 0 || x/number < lo || x/number > hi }) {
			continue
		}
		times := make([]int64, len(plus))
		for i := range plus {
			times[i] = plus[i] / number
		}
		filled := pair{x.first, &term{of: vir.Range{Lo: number, Hi: number}, times: times}, number}
		if signed {
			filled.second.of = vir.Range{Lo: number - 128, Hi: number - 128}
		}
		if filled.fits(signed, slices.Clone(plus)) {
			*x = filled
			clear(plus)
			return
		}
	}
}

// pair appends the sums of x, as lanes of type t.
func (s *Seq) pair(t vir.Type, signed bool, x pair) vir.Reg {
	words, bytes := as(t, format.U16), as(t, format.U8)
	var both vir.Reg
	if x.second != nil && x.number == 0 {
		both = s.b.Reg(words)
		s.Add(&vir.Instr{Op: vir.OpLoadSplat, Dst: both, Mem: x.first.from})
	} else {
		one := s.b.Reg(bytes)
		s.Add(&vir.Instr{Op: vir.OpLoadSplat, Dst: one, Mem: x.first.from})
		both = s.Bitcast(words, one)
	}
	turn := x.number << 8
	if x.number > 0 {
		both = s.Op(vir.OpAnd, words, both, s.Splat(words, 0xff))
	}
	if signed {
		turn |= 0x80
		if x.number == 0 {
			turn |= 0x8000
		}
	}
	if turn != 0 {
		both = s.Op(vir.OpXor, words, both, s.Splat(words, turn))
	}
	var data []byte
	for i, c := range x.first.times {
		second := int64(0)
		if x.second != nil {
			second = x.second.times[i]
		}
		data = append(data, byte(c), byte(second))
	}
	signs := as(t, format.I8)
	if signed {
		return s.Op(vir.OpDot2Sat, t, s.Bitcast(bytes, both), s.Imm(vir.OpConst, signs, s.b.Const(data)))
	}
	return s.Op(vir.OpDot2Sat, t, s.Imm(vir.OpConst, bytes, s.b.Const(data)), s.Bitcast(signs, both))
}
