package lower

import (
	"encoding/binary"
	"math/bits"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// A pattern is a set of the bits of a register: bit i stands for bit i of every
// 32-bit word of it, whatever its lanes, so bitcasts keep patterns. A register
// narrower than 32 bits is taken as repeated to fill a word.
type pattern uint32

const allBits = ^pattern(0)

// lanes applies fn to each w-bit lane of p.
func (p pattern) lanes(w int, fn func(lane uint64) uint64) pattern {
	mask := uint64(1)<<w - 1
	var out uint64
	for at := 0; at < 32; at += w {
		out |= fn(uint64(p)>>at&mask) & mask << at
	}
	return pattern(out)
}

func (p pattern) shl(w int, by int64) pattern {
	return p.lanes(w, func(x uint64) uint64 { return x << by })
}

func (p pattern) shr(w int, by int64) pattern {
	return p.lanes(w, func(x uint64) uint64 { return x >> by })
}

// merge is the union of p's w-bit lanes, in every lane.
func (p pattern) merge(w int) pattern {
	out := p
	for ; w < 32; w *= 2 {
		out |= pattern(bits.RotateLeft32(uint32(out), w))
	}
	return out
}

// below is, lane by lane, the bits up to the highest in p: what the low bits of
// sums and products depend on.
func (p pattern) below(w int) pattern {
	return p.lanes(w, func(x uint64) uint64 { return 1<<bits.Len64(x) - 1 })
}

// dropMasks removes each AND that makes no difference: because no consumer looks
// at the bits it clears (demanded bits), or because they are 0 already.
//
//	v2:u8x16 = splat 63
//	v3:u8x16 = and v1 v2
//	v4:i8x16 = lookup64mod v3 v0   ->   v4:i8x16 = lookup64mod v1 v0
//
// The two reasons are used one after the other, each in one walk: of two equal
// masks in a row the first is not demanded and the second changes nothing, and
// removing both would be wrong.
func dropMasks(f *vir.Func) (*vir.Func, error) {
	for _, mark := range []func(*masks){(*masks).undemanded, (*masks).zeroAlready} {
		m := &masks{f: f, mut: mutable(f), to: identity(len(f.Regs))}
		m.constants()
		mark(m)
		f = m.dropMarked()
	}
	return f, nil
}

type masks struct {
	f   *vir.Func
	mut []bool
	// Of constants: the bits that are 1 in some word, in every word.
	isConst   []bool
	some, all []pattern
	to        []vir.Reg // what stands for each register: of a redundant AND, what it masks
}

func (m *masks) dropMarked() *vir.Func {
	g := *m.f
	g.Body = vir.Map(m.f.Body, func(in *vir.Instr) []*vir.Instr {
		if in.Dst == vir.NoReg || m.to[in.Dst] == in.Dst {
			return renamed(in, m.to)
		}
		m.to[in.Dst] = m.to[m.to[in.Dst]]
		return nil
	})
	return &g
}

// constants finds the known bits of constants.
func (m *masks) constants() {
	n := len(m.f.Regs)
	m.isConst, m.some, m.all = make([]bool, n), make([]pattern, n), make([]pattern, n)
	each(m.f.Body, func(in *vir.Instr) {
		if in.Dst == vir.NoReg || m.mut[in.Dst] {
			return
		}
		switch in.Op {
		case vir.OpConst:
			m.setConst(in.Dst, m.f.Consts[in.Imm])
		case vir.OpSplat:
			t := m.f.Regs[in.Dst]
			t.Lanes = 4 / t.Elem.Bytes()
			m.setConst(in.Dst, splatBytes(t, in.Imm))
		case vir.OpBitcast:
			a := in.Args[0]
			m.isConst[in.Dst], m.some[in.Dst], m.all[in.Dst] = m.isConst[a], m.some[a], m.all[a]
		}
	})
}

func (m *masks) setConst(r vir.Reg, data []byte) {
	for len(data) < 4 {
		data = append(data[:len(data):len(data)], data...)
	}
	m.isConst[r], m.all[r] = true, allBits
	for ; len(data) > 0; data = data[4:] {
		w := pattern(binary.LittleEndian.Uint32(data))
		m.some[r] |= w
		m.all[r] &= w
	}
}

// masked returns the argument of an AND that a constant masks, NoReg if there is
// none, and the bits that stay in every lane.
func (m *masks) masked(in *vir.Instr) (vir.Reg, pattern) {
	if in.Op != vir.OpAnd || m.mut[in.Dst] {
		return vir.NoReg, 0
	}
	a, b := in.Args[0], in.Args[1]
	switch {
	case m.isConst[b] && !m.mut[a]:
		return a, m.all[b]
	case m.isConst[a] && !m.mut[b]:
		return b, m.all[a]
	}
	return vir.NoReg, 0
}

// undemanded marks the ANDs that clear only bits nobody looks at. Uses come after
// definitions, so one walk backwards knows all demands in time; carried registers
// are taken as demanded in full.
func (m *masks) undemanded() {
	demand := make([]pattern, len(m.f.Regs))
	backwards(m.f.Body, func(in *vir.Instr) {
		want := allBits
		if in.Dst != vir.NoReg && !m.mut[in.Dst] {
			want = demand[in.Dst]
		}
		if a, stay := m.masked(in); a != vir.NoReg && want&^stay == 0 {
			m.to[in.Dst] = a
			demand[a] |= want
			return
		}
		for i, r := range in.Args {
			demand[r] |= m.demanded(in, i, want)
		}
	})
}

func backwards(body []vir.Node, fn func(*vir.Instr)) {
	for i := len(body) - 1; i >= 0; i-- {
		switch n := body[i].(type) {
		case *vir.Instr:
			fn(n)
		case *vir.Loop:
			backwards(n.Body, fn)
		}
	}
}

// demanded is the bits of argument i of in on which the bits want of its result
// depend.
func (m *masks) demanded(in *vir.Instr, i int, want pattern) pattern {
	if in.Dst == vir.NoReg || m.f.Regs[in.Dst].Bits() < 32 {
		return allBits
	}
	t := m.f.Regs[in.Dst]
	w := t.Elem.Bits()
	switch in.Op {
	case vir.OpBitcast, vir.OpXor:
		return want
	case vir.OpAnd:
		return want & m.someOf(in.Args[1-i])
	case vir.OpOr:
		return want &^ m.all[in.Args[1-i]]
	case vir.OpAndNot:
		if i == 0 {
			return want &^ m.all[in.Args[1]]
		}
		return want & m.someOf(in.Args[0])
	case vir.OpBitSel:
		return m.demandedSel(in, i, want)
	case vir.OpShl:
		return want.shr(w, in.Imm)
	case vir.OpShrU:
		return want.shl(w, in.Imm)
	case vir.OpShrS:
		return want.shl(w, in.Imm) | m.signOf(in, want)
	case vir.OpAdd, vir.OpSub, vir.OpMul:
		if t.Elem != format.F32 {
			return want.below(w)
		}
	case vir.OpHalf:
		return want
	case vir.OpTile:
		if m.f.Regs[in.Args[0]].Bits() >= 32 {
			return want
		}
	case vir.OpJoin:
		if t.Bits() >= 64 {
			return want
		}
	case vir.OpWiden:
		return demandedWiden(w, m.f.Regs[in.Args[0]].Elem.Bits(), want)
	case vir.OpTrunc:
		return m.demandedTrunc(in, want)
	case vir.OpSelMSB, vir.OpSubMSB:
		return demandedMSB(in, i, want, w)
	}
	if n := m.indexed(in); n > 0 && i == 0 {
		return pattern(n - 1).merge(w)
	}
	return allBits
}

// indexed is the number of entries among which the low bits of in's index choose,
// 0 if in is no such lookup.
func (m *masks) indexed(in *vir.Instr) int {
	switch {
	case in.Op == vir.OpLookupPair:
		return 2 * m.f.Regs[in.Args[1]].Lanes
	case in.Op.Mod():
		return in.Op.Entries()
	}
	return 0
}

// demandedMSB: of the first argument, the top bits.
func demandedMSB(in *vir.Instr, i int, want pattern, w int) pattern {
	switch {
	case i == 0:
		return pattern(1 << (w - 1)).merge(w)
	case in.Op == vir.OpSubMSB:
		return want.below(w)
	}
	return want
}

// someOf is the bits of r that may be 1: all of them unless r is a constant.
func (m *masks) someOf(r vir.Reg) pattern {
	if m.isConst[r] {
		return m.some[r]
	}
	return allBits
}

func (m *masks) demandedSel(in *vir.Instr, i int, want pattern) pattern {
	switch mask := in.Args[0]; i {
	case 1:
		return want & m.someOf(mask)
	case 2:
		return want &^ m.all[mask]
	}
	return want
}

// signOf returns the sign bits that a signed right shift copies into `want`.
func (m *masks) signOf(in *vir.Instr, want pattern) pattern {
	w := m.f.Regs[in.Dst].Elem.Bits()
	return want.lanes(w, func(x uint64) uint64 {
		if x>>(w-1-int(in.Imm)) == 0 {
			return 0
		}
		return 1 << (w - 1)
	})
}

// demandedWiden: the low bits of each w-bit lane are the argument's, of from bits,
// the upper ones depend on its sign at most.
func demandedWiden(w, from int, want pattern) pattern {
	lane := uint64(want.merge(w)) & (1<<w - 1)
	if lane>>from != 0 {
		lane |= 1 << (from - 1)
	}
	return pattern(lane & (1<<from - 1)).merge(from)
}

// demandedTrunc: only the low bits of each lane of the argument count.
func (m *masks) demandedTrunc(in *vir.Instr, want pattern) pattern {
	w := m.f.Regs[in.Dst].Elem.Bits()
	lane := uint64(want.merge(w)) & (1<<w - 1)
	return pattern(lane).merge(m.f.Regs[in.Args[0]].Elem.Bits())
}

// zeroAlready marks the ANDs whose argument has no bit that they clear.
func (m *masks) zeroAlready() {
	may := make([]pattern, len(m.f.Regs)) // bits that may be 1
	each(m.f.Body, func(in *vir.Instr) {
		if in.Dst == vir.NoReg {
			return
		}
		if m.mut[in.Dst] {
			may[in.Dst] = allBits
			return
		}
		may[in.Dst] = m.maybe(in, may)
		if a, stay := m.masked(in); a != vir.NoReg && may[a]&^stay == 0 {
			m.to[in.Dst] = a
		}
	})
}

// maybe is the bits of in's result that may be 1.
func (m *masks) maybe(in *vir.Instr, may []pattern) pattern {
	t := m.f.Regs[in.Dst]
	w := t.Elem.Bits()
	switch {
	case m.isConst[in.Dst]:
		return m.some[in.Dst]
	case t.Bits() < 32 || in.Op.NumArgs() == 0 || m.f.Regs[in.Args[0]].Bits() < 32:
		return allBits
	}
	a := may[in.Args[0]]
	switch in.Op {
	case vir.OpBitcast, vir.OpHalf, vir.OpTile:
		return a
	case vir.OpAnd:
		return a & may[in.Args[1]]
	case vir.OpAndNot:
		return a &^ m.all[in.Args[1]]
	case vir.OpOr, vir.OpXor, vir.OpJoin:
		return a | may[in.Args[1]]
	case vir.OpBitSel:
		return a&may[in.Args[1]] | may[in.Args[2]]
	case vir.OpShl:
		return a.shl(w, in.Imm)
	case vir.OpShrU:
		return a.shr(w, in.Imm)
	case vir.OpSelMSB:
		return may[in.Args[1]] | may[in.Args[2]]
	case vir.OpLookupPair:
		return (may[in.Args[1]] | may[in.Args[2]]).merge(w)
	}
	if in.Op.Entries() > 0 {
		return may[in.Args[1]].merge(w)
	}
	return allBits
}
