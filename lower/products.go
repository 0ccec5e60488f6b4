package lower

import (
	"math"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// products multiplies 32-bit numbers whose value fits in 16 bits as pairs of 16-bit numbers. One product of each pair is
// 0. It is for targets that add pairs of products of 16 bits. The multiplication takes half as long, and the same
// instruction adds the sum. One of the upper halves must be 0, if need be by a mask.
//
//	v3:i32x16 = mul v1 v2        v4:i16x32 = bitcast v1
//	v0:i32x16 = add v0 v3   ->   v5:i16x32 = bitcast v2
//	                             v0:i32x16 = dot2 v0 v4 v5      v2: 0 to 32767
//
// A number may also multiply sums of pairs: several sums of the same body, or sums that need more bits. Where a lookup can
// put the number in both halves of its lanes, each sum takes a product less. Figures: docs/lab/choices.md, products.
//
//	v3:i32x8 = dot2 0 v1 1             v6:u8x32 = lookup16 c(0 1 0 1 4 5 4 5...) v2
//	v4:i32x8 = mul v3 v2        ->     v4:i32x8 = dot2wrap v1 v6
//	v5:i32x8 = add v0 v4               v5:i32x8 = dot2 v0 v1 v6
func (t *table) products(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	p := &pairer{t: t, b: &Builder{F: clone(f)}, mut: mut, sums: map[vir.Reg]int{}}
	if !has(f.Body, func(in *vir.Instr) bool { return in.Op == vir.OpMul && p.hasPairs(in) }) {
		return f, nil
	}
	p.b.ranges, p.b.def, p.uses = vir.Ranges(f), definitions(f, mut), useCounts(f)
	each(f.Body, func(in *vir.Instr) {
		for i, r := range in.Args {
			if in.Op == vir.OpMul && p.sumOfPairs(r) != nil {
				p.sums[in.Args[1-i]]++
			}
		}
	})
	p.b.F.Body = p.body(f.Body)
	return p.b.F, nil
}

type pairer struct {
	t     *table
	b     *Builder
	mut   []bool
	uses  []int
	sums  map[vir.Reg]int        // how many sums of pairs each register multiplies
	home  map[vir.Reg]bool       // what the body at hand defines
	pairs map[vir.Reg]*vir.Instr // products of the body at hand, as sums of pairs
}

func (p *pairer) body(body []vir.Node) []vir.Node {
	pairs, home := p.pairs, p.home
	p.pairs, p.home = map[vir.Reg]*vir.Instr{}, map[vir.Reg]bool{}
	out := make([]vir.Node, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			for _, in := range p.instr(n) {
				out = append(out, in)
			}
			p.home[n.Dst] = true
		case *vir.Loop:
			l := *n
			l.Body = p.body(n.Body)
			out = append(out, &l)
		}
	}
	p.pairs, p.home = pairs, home
	return out
}

// instr is what in becomes.
func (p *pairer) instr(in *vir.Instr) []*vir.Instr {
	switch {
	case in.Op == vir.OpMul && p.hasPairs(in):
		paired := p.fits16(in.Args[0]) && p.fits16(in.Args[1])
		for i, r := range in.Args {
			if y := in.Args[1-i]; p.home[r] && (p.sums[y] > 1 || !paired) && p.fits16(y) {
				if x := p.sumOfPairs(r); x != nil {
					return p.merged(in, x, y)
				}
			}
		}
		if paired {
			return p.product(in)
		}
	case in.Op == vir.OpAdd:
		for i, r := range in.Args {
			if pair := p.pairs[r]; pair != nil && p.uses[r] == 1 {
				return p.b.Seq().End(in.Dst, vir.OpDot2, 0, in.Args[1-i], pair.Args[0], pair.Args[1])
			}
		}
	}
	return []*vir.Instr{in}
}

// hasPairs says that in is a product of 32 bits, and the target has sums of pairs.
func (p *pairer) hasPairs(in *vir.Instr) bool {
	d := p.b.TypeOf(in.Dst)
	if d.Elem != format.I32 || p.mut[in.Dst] {
		return false
	}
	d = p.t.inRegister(d, d.Elem)
	pairs := as(d, format.I16)
	return p.t.has(vir.OpDot2Wrap, d, pairs, pairs) || p.t.has(vir.OpDot2, d, d, pairs, pairs)
}

// fits16 says whether r, which does not change, fits 16 bits.
func (p *pairer) fits16(r vir.Reg) bool {
	x := p.b.Range(r)
	return !p.mut[r] && x.Lo >= math.MinInt16 && x.Hi <= math.MaxInt16
}

// product is in as a sum of pairs.
func (p *pairer) product(in *vir.Instr) []*vir.Instr {
	s, d := p.b.Seq(), p.b.TypeOf(in.Dst)
	x, y := in.Args[0], in.Args[1]
	if p.b.Range(x).Lo < 0 && p.b.Range(y).Lo < 0 {
		y = s.Op(vir.OpAnd, d, y, s.Splat(d, math.MaxUint16))
	}
	out := s.End(in.Dst, vir.OpDot2Wrap, 0, s.Bitcast(as(d, format.I16), x), s.Bitcast(as(d, format.I16), y))
	p.pairs[in.Dst] = out[len(out)-1]
	return out
}

// sumOfPairs is what r sums in pairs, as they are, for the only one that reads it, nil if that is not all.
func (p *pairer) sumOfPairs(r vir.Reg) (of []vir.Reg) {
	bytes := p.t.inRegister(p.b.TypeOf(r), format.I8)
	if !p.t.has(vir.OpLookup16, bytes, as(bytes, format.U8), bytes) {
		return nil
	}
	for d := p.b.def[r]; d != nil && d.Op == vir.OpDot2 && d.Fold == 0 && p.uses[d.Dst] == 1 && !p.mut[d.Args[1]] && p.splat(d.Args[2], 1); d = p.b.def[d.Args[0]] {
		if of = append(of, d.Args[1]); p.splat(d.Args[0], 0) {
			return of
		}
	}
	return nil
}

// splat says whether r is n in every lane.
func (p *pairer) splat(r vir.Reg, n int64) bool {
	d := p.b.def[r]
	return d != nil && d.Op == vir.OpSplat && d.Imm == n
}

// merged replaces `in`, which multiplies the sums of pairs `all` by y. In the replacement, y multiplies each element of
// a pair before the pair is summed.
func (p *pairer) merged(in *vir.Instr, all []vir.Reg, y vir.Reg) []*vir.Instr {
	s, d := p.b.Seq(), p.b.TypeOf(in.Dst)
	low := make([]byte, d.Bytes()) // of each lane, twice
	for i := range low {
		low[i] = byte(i%16/4*4 + i%2)
	}
	both := s.Op(vir.OpLookup16, as(d, format.I8), s.Imm(vir.OpConst, as(d, format.U8), p.b.Const(low)), s.Bitcast(as(d, format.I8), y))
	pair := s.Bitcast(as(d, format.I16), both)
	last := len(all) - 1
	if last == 0 {
		out := s.End(in.Dst, vir.OpDot2Wrap, 0, all[0], pair)
		p.pairs[in.Dst] = out[len(out)-1]
		return out
	}
	sum := s.Op(vir.OpDot2Wrap, d, all[0], pair)
	for _, x := range all[1:last] {
		sum = s.Op(vir.OpDot2, d, sum, x, pair)
	}
	return s.End(in.Dst, vir.OpDot2, 0, sum, all[last], pair)
}
