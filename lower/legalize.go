package lower

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// legalize makes every instruction one that the target has a row for. An instruction without a row is replaced by the
// target's own expansion. Else, if it is wider than a register of the machine, it is halved. Else an expansion that all
// targets share replaces it.
//
//	v0:u8x32 = load x+0                v0:u8x16 = load x+0
//	v1:i8x32 = lookup16 v0 v9          v2:u8x16 = load x+16
//	                             ->    v1:i8x16 = lookup16 v0 v9
//	                                   v3:i8x16 = lookup16 v2 v10
//
// That ends: halving makes vectors narrower, and expansions use operations
// declared earlier (a test holds the list of exceptions).
func (t *table) legalize(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	l := &legalizer{
		t: t, b: &Builder{F: clone(f), ranges: vir.Ranges(f), def: definitions(f, mut)}, mut: mut,
		half: map[vir.Reg][2]vir.Reg{}, alias: map[vir.Reg]vir.Reg{},
	}
	body, err := l.body(f.Body)
	if err != nil {
		return nil, err
	}
	l.b.F.Body = body
	return l.b.F, nil
}

type legalizer struct {
	t     *table
	b     *Builder
	mut   []bool                 // of the registers that were there before, and halves
	half  map[vir.Reg][2]vir.Reg // the halves of registers that are too wide, low half first
	alias map[vir.Reg]vir.Reg    // halves of halves that already have a register
	out   []vir.Node
	n     int // instructions so far
}

func (l *legalizer) body(body []vir.Node) ([]vir.Node, error) {
	outer := l.out
	l.out = make([]vir.Node, 0, len(body))
	defer func() { l.out = outer }()
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			if err := l.instr(n, 0); err != nil {
				return nil, err
			}
		case *vir.Loop:
			if err := l.loop(n); err != nil {
				return nil, err
			}
		}
	}
	return l.out, nil
}

func (l *legalizer) loop(n *vir.Loop) error {
	lp := *n
	lp.Carried = nil
	for _, r := range n.Carried {
		lp.Carried = append(lp.Carried, l.parts(r)...)
	}
	var err error
	lp.Body, err = l.body(n.Body)
	l.out = append(l.out, &lp)
	return err
}

// maxExpansions bounds the expansions of expansions; the deepest known chain
// (a wide lookup64 as selects of lookup16) is about 10.
const maxExpansions = 40

// instr appends what in becomes. depth counts the expansions in comes from.
func (l *legalizer) instr(in *vir.Instr, depth int) error {
	if depth > maxExpansions {
		panic("BUG: " + l.t.m.Name + ": expanding does not end: " + l.b.F.Format(in))
	}
	in = l.resolve(in)
	wide := l.wide(in)
	if !wide && l.t.find(l.b.F, in) != nil {
		l.out = append(l.out, in)
		if l.n++; l.n > l.t.most && l.t.most > 0 {
			return tooLong(l.b.F, l.n, l.t.most)
		}
		return nil
	}
	parts, ok := l.expand(in, wide)
	if !ok {
		return &Unsupported{l.t.m.Name, l.b.F.Format(in)}
	}
	for _, p := range vir.Inherit(in, parts) {
		if err := l.instr(p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// expand returns what computes in by other instructions, possibly none.
func (l *legalizer) expand(in *vir.Instr, wide bool) ([]*vir.Instr, bool) {
	if wide && (in.Op == vir.OpHalf || in.Op == vir.OpJoin) {
		return l.regroup(in), true
	}
	if parts := l.t.Expand(l.b, in); parts != nil {
		l.check(in, parts)
		return parts, true
	}
	if wide {
		if parts := l.halve(in); parts != nil {
			return parts, true
		}
	}
	parts := expandShared(l.t, l.b, in)
	return parts, parts != nil
}

// check holds expansions to writing the result last: it may be a carried register
// that is also an argument.
func (l *legalizer) check(in *vir.Instr, parts []*vir.Instr) {
	for i, p := range parts {
		if in.Dst != vir.NoReg && (p.Dst == in.Dst) != (i == len(parts)-1) {
			panic(fmt.Sprintf("BUG: %s: the last instruction of an expansion, and no other, sets its result: %s", l.t.m.Name, l.b.F.Format(in)))
		}
	}
}

// resolve replaces arguments that stand for other registers.
func (l *legalizer) resolve(in *vir.Instr) *vir.Instr {
	for i, r := range in.Args {
		if s := l.original(r); s != r {
			args := slices.Clone(in.Args)
			args[i] = s
			in = withArgs(in, args)
		}
	}
	return in
}

func (l *legalizer) original(r vir.Reg) vir.Reg {
	for {
		s, ok := l.alias[r]
		if !ok {
			return r
		}
		r = s
	}
}

// isWide says that no register holds r. A tile that no row has is in no smaller ones.
func (l *legalizer) isWide(r vir.Reg) bool {
	t := l.b.TypeOf(r)
	return t.Bits() > l.t.m.VecBits && !t.Tile()
}

func (l *legalizer) wide(in *vir.Instr) bool {
	return in.Dst != vir.NoReg && l.isWide(in.Dst) || slices.ContainsFunc(in.Args, l.isWide)
}

func (l *legalizer) isMutable(r vir.Reg) bool { return int(r) < len(l.mut) && l.mut[r] }

// halfOf is the register of half h of r, which is too wide to have one itself.
func (l *legalizer) halfOf(r vir.Reg, h int) vir.Reg {
	r = l.original(r)
	p, ok := l.half[r]
	if !ok {
		p = [2]vir.Reg{l.newHalf(r), l.newHalf(r)}
		l.half[r] = p
	}
	return l.original(p[h])
}

func (l *legalizer) newHalf(r vir.Reg) vir.Reg {
	h := l.b.Reg(halved(l.b.TypeOf(r)))
	if l.isMutable(r) {
		l.mut = append(l.mut, make([]bool, int(h)+1-len(l.mut))...)
		l.mut[h] = true
	}
	if x, ok := l.b.known(r); ok {
		l.b.setRange(h, x)
	}
	return h
}

func halved(t vir.Type) vir.Type { return vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2} }

// parts are the registers that hold r.
func (l *legalizer) parts(r vir.Reg) []vir.Reg {
	if !l.isWide(r) {
		return []vir.Reg{r}
	}
	return append(l.parts(l.halfOf(r, 0)), l.parts(l.halfOf(r, 1))...)
}

// regroup resolves halves and joins of registers that exist as halves only: by
// naming the half, or by a move if either register may change later.
func (l *legalizer) regroup(in *vir.Instr) []*vir.Instr {
	if in.Op == vir.OpHalf {
		part := l.halfOf(in.Args[0], int(in.Imm))
		if l.isMutable(part) || l.isMutable(in.Dst) {
			return []*vir.Instr{move(in.Dst, part)}
		}
		l.alias[in.Dst] = part
		return nil
	}
	if l.isMutable(in.Dst) || slices.ContainsFunc(in.Args, l.isMutable) {
		return []*vir.Instr{move(l.halfOf(in.Dst, 0), in.Args[0]), move(l.halfOf(in.Dst, 1), in.Args[1])}
	}
	l.half[in.Dst] = [2]vir.Reg{in.Args[0], in.Args[1]}
	return nil
}

// halve returns in as two instructions on half the lanes, or nil if its result
// does not follow from halves of its arguments.
func (l *legalizer) halve(in *vir.Instr) []*vir.Instr {
	t := resultType(l.b.F, in)
	switch in.Op {
	case vir.OpRedAdd:
		return l.halveReduction(in, vir.OpAdd)
	case vir.OpRedMaxS:
		return l.halveReduction(in, vir.OpMaxS)
	case vir.OpMulWide, vir.OpDot1:
		if l.b.TypeOf(in.Args[len(in.Args)-1]).Lanes > t.Lanes {
			return nil // of a half
		}
	case vir.OpSpread, vir.OpDot4Unit:
		if l.isWide(in.Args[len(in.Args)-1]) {
			return nil // of a part
		}
	}
	if t.Lanes == 1 || in.Op.IsLookup() && !l.isWide(in.Dst) {
		return nil
	}
	s := l.b.Seq()
	var dst [2]vir.Reg
	for h := range dst {
		s.Add(l.halfInstr(s, in, h))
		dst[h] = s.out[len(s.out)-1].Dst
	}
	if in.Dst != vir.NoReg && !l.inPlace(in) {
		return s.End(in.Dst, vir.OpJoin, 0, dst[0], dst[1])
	}
	return s.out
}

// halfInstr is half h of in. It appends to s what takes its arguments apart.
func (l *legalizer) halfInstr(s *Seq, in *vir.Instr, h int) *vir.Instr {
	c := *in
	c.Args = slices.Clone(in.Args)
	for i, r := range in.Args {
		if !l.whole(in, i) && !rearranges(in.Op) {
			c.Args[i] = l.piece(s, r, h)
		}
	}
	switch in.Op {
	case vir.OpAddPairs, vir.OpUnzip: // what comes of one argument
		c.Args = []vir.Reg{l.piece(s, in.Args[h], 0), l.piece(s, in.Args[h], 1)}
	case vir.OpLoad, vir.OpStore:
		c.Mem.Off += h * resultType(l.b.F, in).Bytes() / 2
	case vir.OpMulWide, vir.OpDot1:
		if l.whole(in, in.Op.NumArgs()-1) {
			c.Imm = int64(h)
		}
	case vir.OpConst:
		data := l.b.F.Consts[in.Imm]
		n := len(data) / 2
		c.Imm = l.b.Const(data[h*n : h*n+n])
	}
	switch {
	case in.Dst == vir.NoReg:
	case l.inPlace(in):
		c.Dst = l.halfOf(in.Dst, h)
	default:
		c.Dst = l.b.Reg(halved(l.b.TypeOf(in.Dst)))
	}
	return &c
}

// rearranges says that a half of op's result follows from other parts of its arguments than that half.
func rearranges(op vir.Op) bool {
	return op == vir.OpAddPairs || op == vir.OpUnzip
}

// inPlace says whether the halves of in can go straight to the halves of its
// result: not if the result has none, or the first would overwrite a table that
// the second needs.
func (l *legalizer) inPlace(in *vir.Instr) bool {
	if !l.isWide(in.Dst) {
		return false
	}
	for i, r := range in.Args {
		if r == in.Dst && (l.whole(in, i) || rearranges(in.Op)) {
			return false
		}
	}
	return true
}

// whole says whether both halves of in read all of argument i: a scalar, a tile, what they take
// half of themselves, or the only table of a lookup. A table per group of lanes is halved with the lanes.
func (l *legalizer) whole(in *vir.Instr, i int) bool {
	switch {
	case in.Op == vir.OpSplatLane:
		return true
	case in.Op == vir.OpTile:
		return l.b.TypeOf(in.Args[0]).Lanes < l.b.TypeOf(in.Dst).Lanes
	case in.Op == vir.OpLookupPair:
		return i > 0
	case in.Op == vir.OpSpread:
		return true
	case in.Op == vir.OpDot4Unit || in.Op == vir.OpMMLA:
		return i == 2
	case in.Op == vir.OpMulWide || in.Op == vir.OpDot1: // each reads its half
		return i >= in.Op.NumArgs()-2 && in.Imm == 0 && !l.isWide(in.Args[i])
	}
	n := in.Op.Entries()
	return n > 0 && i == 1 && l.b.TypeOf(in.Args[1]).Lanes <= n
}

// piece is half h of r; one that exists whole is taken apart by s.
func (l *legalizer) piece(s *Seq, r vir.Reg, h int) vir.Reg {
	if l.isWide(r) {
		return l.halfOf(r, h)
	}
	p := s.Imm(vir.OpHalf, halved(l.b.TypeOf(r)), int64(h), r)
	if x, ok := l.b.known(r); ok {
		l.b.setRange(p, x)
	}
	return p
}

// halveReduction combines the halves lane by lane before it reduces them, if there is
// one result.
func (l *legalizer) halveReduction(in *vir.Instr, op vir.Op) []*vir.Instr {
	if l.b.TypeOf(in.Dst).Lanes > 1 {
		return nil
	}
	s := l.b.Seq()
	lo, hi := l.piece(s, in.Args[0], 0), l.piece(s, in.Args[0], 1)
	return s.End(in.Dst, in.Op, 0, s.Op(op, l.b.TypeOf(lo), lo, hi))
}
