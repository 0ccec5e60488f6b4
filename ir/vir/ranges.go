package vir

import (
	"math"
	"math/bits"

	"github.com/tmacc/tmacc/ir/format"
)

// Range bounds the value of every lane of a register: Lo <= lane <= Hi.
type Range struct{ Lo, Hi int64 }

// in says that r lies in s.
// none is the range of a register that is no integer.
var none = Range{1, 0}

// Known says that r bounds something: Ranges has no range of registers that are no integers.
func (r Range) Known() bool { return r.Lo <= r.Hi }

func (r Range) in(s Range) bool { return s.Lo <= r.Lo && r.Hi <= s.Hi }

func (r Range) union(s Range) Range { return Range{min(r.Lo, s.Lo), max(r.Hi, s.Hi)} }

// FullRange is what fits in d: for a float its bits, as lanes hold them.
func FullRange(d format.DType) Range {
	if d.IsSigned() {
		return Range{-1 << (d.Bits() - 1), 1<<(d.Bits()-1) - 1}
	}
	return Range{0, 1<<d.Bits() - 1}
}

// Ranges bounds every integer register of f, which passes Verify, for all inputs
// on which Eval succeeds. Loaded values and registers with several definitions
// have the range of their type, unless the parameter says more; what depends on
// constants only is exact. Ranges are by register.
func Ranges(f *Func) []Range {
	n := len(f.Regs)
	a := &rangeAnalysis{f: f, defs: make([]int, n), lanes: make([][]int64, n), known: make([]Range, n), most: make([]Param, n)}
	Walk(f.Body, func(in *Instr, _ []*Loop) {
		if in.Op.HasResult() {
			a.defs[in.Dst]++
		}
	})
	Walk(f.Body, a.visit)
	for r := range a.known {
		if a.defs[r] == 0 || !isInt(f.Regs[r].Elem) {
			a.known[r] = none
		}
	}
	return a.known
}

type rangeAnalysis struct {
	f     *Func
	defs  []int     // definitions by register
	lanes [][]int64 // registers that are constant
	known []Range
	most  []Param // registers whose bytes or words, as signed numbers, have the bound of a parameter
}

func (a *rangeAnalysis) visit(in *Instr, _ []*Loop) {
	if !in.Op.HasResult() {
		return
	}
	full := FullRange(a.f.Regs[in.Dst].Elem)
	a.known[in.Dst] = full
	if a.defs[in.Dst] > 1 {
		return
	}
	if v := a.constant(in); v != nil {
		a.lanes[in.Dst] = v
		a.known[in.Dst] = rangeOf(v)
		return
	}
	if r := a.bound(in); r.in(full) {
		a.known[in.Dst] = r
	}
	p := a.mostOf(in)
	a.most[in.Dst] = p
	if p.bounded(a.f.Regs[in.Dst].Elem) {
		a.known[in.Dst] = Range{-int64(p.Most), int64(p.Most)}
	}
}

// mostOf is the parameter that bounds the bytes or words that in loads or moves.
func (a *rangeAnalysis) mostOf(in *Instr) Param {
	p := a.movedFrom(in)
	if t := a.f.Regs[in.Dst]; p.Words && (t.Bytes()%4 != 0 || in.Op == OpSpread && t.Elem.Bytes() < 4) {
		return Param{} // parts of words
	}
	return p
}

func (a *rangeAnalysis) movedFrom(in *Instr) Param {
	switch in.Op {
	case OpLoad, OpLoadSplat, OpLoadRows, OpLoadColumns:
		return a.f.Params[in.Mem.Buf]
	case OpBitcast, OpHalf, OpSplatLane, OpTile, OpSpread:
		if in.FoldConst > 0 {
			return Param{}
		}
		if in.Fold > 0 {
			return a.f.Params[in.Mem.Buf]
		}
		return a.most[in.Args[0]]
	}
	return Param{}
}

// constant is the result of in, if it depends on constants only.
func (a *rangeAnalysis) constant(in *Instr) []int64 {
	if !in.Op.Pure() || in.Op == OpLane {
		return nil
	}
	c := &call{in: in, dst: a.f.Regs[in.Dst]}
	switch in.Op {
	case OpAdd, OpSub, OpMul, OpDiv:
		if c.dst.Elem == f32 {
			return nil // the payload of a NaN is not specified
		}
	}
	for i, r := range in.Args {
		if r == NoReg || a.lanes[r] == nil {
			return nil // folded, or not constant
		}
		c.arg[i] = a.lanes[r]
		c.typ[i] = a.f.Regs[r]
	}
	if in.Op == OpConst {
		c.mem = a.f.Consts[in.Imm]
	}
	c.out = make([]int64, c.dst.Lanes)
	if ops[in.Op].eval(c) != nil {
		return nil
	}
	return c.out
}

func rangeOf(lanes []int64) Range {
	r := Range{lanes[0], lanes[0]}
	for _, x := range lanes {
		r = r.union(Range{x, x})
	}
	return r
}

// bound is the range of in's result before it wraps.
func (a *rangeAnalysis) bound(in *Instr) Range {
	dst := a.f.Regs[in.Dst]
	rule := ops[in.Op].bound
	if rule == nil || !isInt(dst.Elem) {
		return FullRange(dst.Elem)
	}
	c := &boundCall{in: in, dst: dst}
	for i, r := range in.Args {
		c.typ[i] = a.f.ArgType(in, i)
		if i == in.Fold-1 {
			c.arg[i] = FullRange(c.typ[i].Elem)
			if in.FoldConst > 0 {
				continue
			}
			if p := a.f.Params[in.Mem.Buf]; p.bounded(c.typ[i].Elem) {
				c.arg[i] = Range{-int64(p.Most), int64(p.Most)}
			}
		} else {
			c.arg[i] = a.known[r]
		}
	}
	return rule(c)
}

// boundCall is what the range of a result follows from.
type boundCall struct {
	in  *Instr
	dst Type
	typ [3]Type
	arg [3]Range
}

// A bound is the range of an integer result. It may exceed the type: then the
// result wraps, and nothing is known.
type bound func(*boundCall) Range

var anything = Range{math.MinInt64, math.MaxInt64}

func boundArg0(c *boundCall) Range  { return c.arg[0] }
func boundArg1(c *boundCall) Range  { return c.arg[1] }
func boundUnion(c *boundCall) Range { return c.arg[0].union(c.arg[1]) }

func boundArgs12(c *boundCall) Range { return c.arg[1].union(c.arg[2]) }

func boundSubMSB(c *boundCall) Range {
	return c.arg[2].union(c.arg[1].add(Range{-c.arg[2].Hi, -c.arg[2].Lo}))
}

func (r Range) add(s Range) Range { return Range{r.Lo + s.Lo, r.Hi + s.Hi} }

// mul is the range of products; r and s fit in 32 bits.
func (r Range) mul(s Range) Range {
	if r.Hi > math.MaxInt32 && s.Hi > math.MaxInt32 {
		return anything // may not fit in 64 bits
	}
	a, b, c, d := r.Lo*s.Lo, r.Lo*s.Hi, r.Hi*s.Lo, r.Hi*s.Hi
	return Range{min(a, b, c, d), max(a, b, c, d)}
}

func boundAdd(c *boundCall) Range { return c.arg[0].add(c.arg[1]) }
func boundMul(c *boundCall) Range { return c.arg[0].mul(c.arg[1]) }
func boundSub(c *boundCall) Range {
	return c.arg[0].add(Range{-c.arg[1].Hi, -c.arg[1].Lo})
}

func (r Range) and(s Range) Range {
	switch {
	case r.Lo >= 0 && s.Lo >= 0:
		return Range{0, min(r.Hi, s.Hi)}
	case r.Lo >= 0:
		return Range{0, r.Hi}
	case s.Lo >= 0:
		return Range{0, s.Hi}
	}
	return anything
}

func (r Range) andNot() Range { return r.and(anything) }

// or also bounds an exclusive or.
func (r Range) or(s Range) Range {
	if r.Lo < 0 || s.Lo < 0 {
		return anything
	}
	return Range{0, 1<<bits.Len64(uint64(max(r.Hi, s.Hi))) - 1}
}

func boundAnd(c *boundCall) Range    { return c.arg[0].and(c.arg[1]) }
func boundOr(c *boundCall) Range     { return c.arg[0].or(c.arg[1]) }
func boundAndNot(c *boundCall) Range { return c.arg[0].andNot() }
func boundBitSel(c *boundCall) Range {
	return c.arg[0].and(c.arg[1]).or(c.arg[2].andNot())
}

func boundShl(c *boundCall) Range {
	return Range{c.arg[0].Lo << c.in.Imm, c.arg[0].Hi << c.in.Imm}
}

func boundShrU(c *boundCall) Range {
	r := reinterpret(c.arg[0], c.dst.Elem.Unsigned())
	return reinterpret(Range{r.Lo >> c.in.Imm, r.Hi >> c.in.Imm}, c.dst.Elem)
}

func boundShrS(c *boundCall) Range {
	s := c.dst.Elem.Signed()
	r := reinterpret(c.arg[0], s)
	r = Range{r.Lo >> c.in.Imm, r.Hi >> c.in.Imm}
	return reinterpret(r, c.dst.Elem)
}

// reinterpret is the range of the low bits of r as values of d.
func reinterpret(r Range, d format.DType) Range {
	full, turn := FullRange(d), int64(1)<<d.Bits()
	for _, shift := range []int64{0, turn, -turn} {
		if s := (Range{r.Lo + shift, r.Hi + shift}); s.in(full) {
			return s
		}
	}
	return full
}

// boundBitcast keeps what small numbers without a sign say about lanes of
// another width: their upper parts are zero.
func boundBitcast(c *boundCall) Range {
	from, to, r := c.typ[0].Elem.Bits(), c.dst.Elem.Bits(), c.arg[0]
	switch {
	case from == to:
		return reinterpret(r, c.dst.Elem)
	case r.Lo < 0:
		return anything
	}
	var hi int64 // of the first lane that becomes part of the result, or of all of them
	for shift := 0; shift < to; shift += from {
		hi |= r.Hi << shift
	}
	return Range{0, hi}
}

func boundAddSat(c *boundCall) Range {
	r := c.arg[0].add(c.arg[1])
	return Range{min(r.Lo, math.MaxUint8), min(r.Hi, math.MaxUint8)}
}

func boundSubSat(c *boundCall) Range {
	r := boundSub(c)
	return Range{max(r.Lo, 0), max(r.Hi, 0)}
}

func boundMin(c *boundCall) Range {
	return Range{min(c.arg[0].Lo, c.arg[1].Lo), min(c.arg[0].Hi, c.arg[1].Hi)}
}

func boundMax(c *boundCall) Range {
	return Range{max(c.arg[0].Lo, c.arg[1].Lo), max(c.arg[0].Hi, c.arg[1].Hi)}
}

func boundAbs(c *boundCall) Range {
	r := c.arg[0]
	return Range{max(0, r.Lo, -r.Hi), max(-r.Lo, r.Hi)}
}

func boundSign(c *boundCall) Range {
	r := c.arg[0]
	return r.union(Range{-r.Hi, -r.Lo}).union(Range{0, 0})
}

func boundAverage(c *boundCall) Range {
	a, b := c.arg[0], c.arg[1]
	return Range{average(a.Lo, b.Lo), average(a.Hi, b.Hi)}
}

func boundCmp(*boundCall) Range { return Range{-1, 0} }

// boundDot is c plus n products.
func boundDot(n int64) bound {
	return func(c *boundCall) Range {
		p := c.arg[1].mul(c.arg[2])
		return c.arg[0].add(Range{n * p.Lo, n * p.Hi})
	}
}

func boundDot2Wrap(c *boundCall) Range {
	p := c.arg[0].mul(c.arg[1])
	return Range{2 * p.Lo, 2 * p.Hi}
}

func boundDot2Sat(c *boundCall) Range {
	p, full := c.arg[0].mul(c.arg[1]), FullRange(i16)
	return Range{max(2*p.Lo, full.Lo), min(2*p.Hi, full.Hi)}
}

func boundAddPairs(c *boundCall) Range {
	r := c.arg[0].union(c.arg[1])
	return Range{2 * r.Lo, 2 * r.Hi}
}

func boundSum2(c *boundCall) Range {
	return c.arg[0].add(Range{2 * c.arg[1].Lo, 2 * c.arg[1].Hi})
}

func boundRedAdd(c *boundCall) Range {
	n := int64(c.typ[0].Lanes / c.dst.Lanes)
	return Range{n * c.arg[0].Lo, n * c.arg[0].Hi}
}
