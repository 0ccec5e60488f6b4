package lower

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// unfold makes every folded memory operand a load of its own, so that the passes
// up to fold see only one form.
//
//	v0 = dot4 v0 v1 [x+4 i8x16 splat 4]   ->   v2:u32x4 = loadsplat x+4
//	                                           v3:i8x16 = bitcast v2
//	                                           v0:i32x4 = dot4 v0 v1 v3
func unfold(f *vir.Func) (*vir.Func, error) {
	b := &Builder{F: clone(f)}
	b.F.Body = vir.Map(f.Body, func(in *vir.Instr) []*vir.Instr {
		if in.Fold == 0 {
			return vir.Kept
		}
		s := b.Seq()
		args := slices.Clone(in.Args)
		args[in.Fold-1] = s.operand(in)
		c := *in
		c.Args, c.Mem, c.Fold, c.FoldUnit, c.FoldConst, c.FoldType = args, vir.Mem{}, 0, 0, 0, vir.Type{}
		s.Add(&c)
		return s.out
	})
	return b.F, nil
}

// operand appends the load of in's folded argument.
func (s *Seq) operand(in *vir.Instr) vir.Reg {
	if in.FoldConst > 0 {
		return s.Imm(vir.OpConst, in.FoldType, int64(in.FoldConst-1))
	}
	t, op := in.FoldType, vir.OpLoad
	switch in.FoldUnit {
	case 0:
	case t.Elem.Bytes():
		op = vir.OpLoadSplat
	case 2:
		t, op = vir.Type{Elem: format.U16, Lanes: t.Bytes() / 2}, vir.OpLoadSplat
	case 4:
		t, op = vir.Type{Elem: format.U32, Lanes: t.Bytes() / 4}, vir.OpLoadSplat
	default:
		return s.repeated(in)
	}
	r := s.b.Reg(t)
	s.Add(&vir.Instr{Op: op, Dst: r, Mem: in.Mem})
	return s.Bitcast(in.FoldType, r)
}

// repeated loads a unit wider than any element and tiles it.
func (s *Seq) repeated(in *vir.Instr) vir.Reg {
	t := vir.Type{Elem: in.FoldType.Elem, Lanes: in.FoldUnit / in.FoldType.Elem.Bytes()}
	r := s.b.Reg(t)
	s.Add(&vir.Instr{Op: vir.OpLoad, Dst: r, Mem: in.Mem})
	return s.Op(vir.OpTile, in.FoldType, r)
}

// cse gives equal values within one body one register and drops operations that
// change nothing: shifts by 0, bitcasts to the same type, half of join and the
// like.
//
// Two loads of the same bytes are equal unless a store to the same parameter lies
// between them. Stores to another parameter never matter: parameters point to
// disjoint buffers.
//
//	v3:u16x8 = shru v1 4         v3:u16x8 = shru v1 4
//	v4:u16x8 = shru v1 4    ->   v5:u16x8 = add v3 v3
//	v5:u16x8 = add v3 v4
func cse(f *vir.Func) (*vir.Func, error) {
	mut := mutable(f)
	c := &numbering{
		f: f, mut: mut, def: definitions(f, mut), to: identity(len(f.Regs)),
		version: make([]int64, len(f.Regs)), stores: make([]int64, len(f.Params)),
	}
	g := *f
	g.Body = c.body(f.Body)
	return &g, nil
}

type numbering struct {
	f       *vir.Func
	mut     []bool
	def     []*vir.Instr // as they were before this pass
	to      []vir.Reg    // which register stands for each
	version []int64      // of mutable registers: definitions passed
	stores  []int64      // of parameters: stores passed
	key     []byte
}

func (c *numbering) body(body []vir.Node) []vir.Node {
	out := make([]vir.Node, 0, len(body))
	seen := newSeen(len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			if in := c.instr(n, seen); in != nil {
				out = append(out, in)
			}
		case *vir.Loop:
			l := *n
			c.passed(n)
			l.Body = c.body(n.Body)
			c.passed(n)
			out = append(out, &l)
		}
	}
	return out
}

// passed counts what loop l may have defined and stored.
func (c *numbering) passed(l *vir.Loop) {
	each(l.Body, func(in *vir.Instr) { c.effects(in) })
}

func (c *numbering) effects(in *vir.Instr) {
	switch in.Op {
	case vir.OpStore:
		c.stores[in.Mem.Buf]++
	case vir.OpBarrier:
		for i := range c.stores {
			c.stores[i]++
		}
	}
	if in.Dst != vir.NoReg && c.mut[in.Dst] {
		c.version[in.Dst]++
	}
}

// instr returns what remains of in: nil if another register has its value.
func (c *numbering) instr(in *vir.Instr, seen *seen) *vir.Instr {
	in = c.shortcut(rename(in, c.to))
	if in.Dst == vir.NoReg || c.mut[in.Dst] {
		c.effects(in)
		return in
	}
	r := c.plain(in)
	if r == vir.NoReg {
		r = seen.add(c.encode(in), in.Dst)
	}
	if r == in.Dst {
		return in
	}
	c.to[in.Dst] = r
	return nil
}

// seen has keys and a register for each. A map of strings would take longer.
type seen struct {
	first []int32 // by hash: 1 + the number of an entry, 0: none
	all   []seenKey
	keys  []byte // of all entries, one after the other
}

type seenKey struct {
	hash     uint64
	from, to int // in keys
	reg      vir.Reg
	next     int32 // 1 + the number of the next entry of this part of the hash
}

func newSeen(n int) *seen {
	return &seen{first: make([]int32, 1<<bits.Len(uint(n))), all: make([]seenKey, 0, n), keys: make([]byte, 0, 16*n)}
}

// seed makes hashes of keys.
var seed = maphash.MakeSeed()

// add is the register of a key, which becomes r if it has none.
func (s *seen) add(key []byte, r vir.Reg) vir.Reg {
	hash := maphash.Bytes(seed, key)
	slot := &s.first[hash&uint64(len(s.first)-1)]
	for i := *slot; i > 0; i = s.all[i-1].next {
		if x := &s.all[i-1]; x.hash == hash && bytes.Equal(s.keys[x.from:x.to], key) {
			return x.reg
		}
	}
	from := len(s.keys)
	s.keys = append(s.keys, key...)
	s.all = append(s.all, seenKey{hash, from, len(s.keys), r, *slot})
	*slot = int32(len(s.all))
	return r
}

// encode is equal for two instructions of a body iff their results are. The next call overwrites it.
func (c *numbering) encode(in *vir.Instr) []byte {
	t := c.f.Regs[in.Dst]
	k := append(c.key[:0], byte(in.Op), byte(t.Elem))
	k = binary.AppendVarint(k, int64(t.Lanes))
	k = binary.AppendVarint(k, in.Imm)
	for _, r := range in.Args {
		k = binary.AppendVarint(k, int64(r))
		k = binary.AppendVarint(k, c.version[r])
	}
	if in.Op.HasMem() {
		k = binary.AppendVarint(k, c.stores[in.Mem.Buf])
		k = in.Mem.AppendKey(k)
	}
	c.key = k
	return k
}

// shortcut makes an instruction that changes nothing a move, a bitcast of a
// bitcast one of the original and a shift up of a shift up one shift.
func (c *numbering) shortcut(in *vir.Instr) *vir.Instr {
	if in.Fold > 0 || in.Dst == vir.NoReg {
		return in
	}
	if in.Op == vir.OpBitcast {
		if d := c.def[in.Args[0]]; d != nil && d.Op == vir.OpBitcast && !c.mut[d.Args[0]] {
			return withArgs(in, []vir.Reg{c.to[d.Args[0]]})
		}
		return in
	}
	if in.Op == vir.OpShl {
		if d := c.def[in.Args[0]]; d != nil && d.Op == vir.OpShl && d.Fold == 0 && !c.mut[d.Args[0]] && d.Imm+in.Imm < int64(c.f.Regs[in.Dst].Elem.Bits()) {
			in = withArgs(in, []vir.Reg{c.to[d.Args[0]]})
			in.Imm += d.Imm
			return in
		}
	}
	if r := c.unchanged(in); r != vir.NoReg {
		return move(in.Dst, r)
	}
	return in
}

// plain is the register that a move copies, if its value cannot change.
func (c *numbering) plain(in *vir.Instr) vir.Reg {
	if isMove(c.f, in) && !c.mut[in.Args[0]] {
		return in.Args[0]
	}
	return vir.NoReg
}

// unchanged is the register whose value in computes once more, or NoReg.
func (c *numbering) unchanged(in *vir.Instr) vir.Reg {
	a := in.Args
	switch in.Op {
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		if in.Imm == 0 {
			return a[0]
		}
	case vir.OpSplatLane, vir.OpTile, vir.OpRedAdd, vir.OpRedMaxS:
		if c.f.Regs[in.Dst] == c.f.Regs[a[0]] {
			return a[0]
		}
	case vir.OpAnd, vir.OpMinS, vir.OpMaxS:
		if a[0] == a[1] {
			return a[0]
		}
	case vir.OpBitSel:
		if a[1] == a[2] {
			return a[1]
		}
	case vir.OpOr, vir.OpXor, vir.OpAdd:
		return c.neutral(in.Op, a)
	case vir.OpSub, vir.OpAndNot:
		if c.isZero(in.Op, a[1]) {
			return a[0]
		}
	case vir.OpHalf:
		if d := c.def[a[0]]; d != nil && d.Op == vir.OpJoin && !c.mut[d.Args[in.Imm]] {
			return c.to[d.Args[in.Imm]]
		} else if d != nil && d.Op == vir.OpTile && !c.mut[d.Args[0]] && c.f.Regs[d.Args[0]] == c.f.Regs[in.Dst] {
			return c.to[d.Args[0]]
		}
	case vir.OpJoin:
		return c.joined(a)
	}
	return vir.NoReg
}

// neutral is the argument of a sum that the other one leaves as it is.
func (c *numbering) neutral(op vir.Op, a []vir.Reg) vir.Reg {
	switch {
	case op == vir.OpOr && a[0] == a[1]:
		return a[0]
	case c.isZero(op, a[1]):
		return a[0]
	case c.isZero(op, a[0]):
		return a[1]
	}
	return vir.NoReg
}

// isZero says whether r is 0, the neutral element of op; adding the float 0 is
// not neutral, it turns -0 into 0.
func (c *numbering) isZero(op vir.Op, r vir.Reg) bool {
	d := c.def[r]
	if d == nil || d.Op != vir.OpSplat || d.Imm != 0 {
		return false
	}
	float := c.f.Regs[r].Elem == format.F32
	return !float || op != vir.OpAdd && op != vir.OpSub
}

// joined returns the register whose two halves are a[0] and a[1], or NoReg if there is none.
func (c *numbering) joined(a []vir.Reg) vir.Reg {
	lo, hi := c.def[a[0]], c.def[a[1]]
	if lo == nil || hi == nil || lo.Op != vir.OpHalf || hi.Op != vir.OpHalf || lo.Imm != 0 || hi.Imm != 1 {
		return vir.NoReg
	}
	if r := lo.Args[0]; !c.mut[r] && c.to[r] == c.to[hi.Args[0]] {
		return c.to[r]
	}
	return vir.NoReg
}

// dce drops every instruction whose result nothing uses, then loops that became
// empty.
func dce(f *vir.Func) (*vir.Func, error) {
	need := needed(f)
	g := *f
	g.Body = sweep(f.Body, need)
	return &g, nil
}

// needed says which registers stores depend on.
func needed(f *vir.Func) []bool {
	defs := make([]*vir.Instr, len(f.Regs)) // the first of each
	others := map[vir.Reg][]*vir.Instr{}
	need := make([]bool, len(f.Regs))
	var todo []vir.Reg
	use := func(in *vir.Instr) {
		for _, r := range in.Args {
			if r != vir.NoReg && !need[r] {
				need[r] = true
				todo = append(todo, r)
			}
		}
	}
	each(f.Body, func(in *vir.Instr) {
		switch {
		case in.Dst == vir.NoReg:
			use(in)
		case defs[in.Dst] == nil:
			defs[in.Dst] = in
		default:
			others[in.Dst] = append(others[in.Dst], in)
		}
	})
	for len(todo) > 0 {
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if defs[r] == nil {
			continue
		}
		use(defs[r])
		for _, in := range others[r] {
			use(in)
		}
	}
	return need
}

// sweep drops from body the instructions whose results are not needed. It returns body itself if there are none.
func sweep(body []vir.Node, need []bool) []vir.Node {
	var out []vir.Node // nil as long as nothing has changed
	for i, n := range body {
		var kept vir.Node
		switch n := n.(type) {
		case *vir.Instr:
			if n.Dst == vir.NoReg || need[n.Dst] {
				kept = n
			}
		case *vir.Loop:
			if l := sweptLoop(n, need); l != nil {
				kept = l
			}
		}
		if out == nil && kept != n {
			out = append(make([]vir.Node, 0, len(body)), body[:i]...)
		}
		if out != nil && kept != nil {
			out = append(out, kept)
		}
	}
	if out == nil {
		return body
	}
	return out
}

// sweptLoop is sweep of a loop, nil if nothing is left of it. Lanes and parts stay: they say how many there are, which hold tiles or run what follows.
func sweptLoop(n *vir.Loop, need []bool) *vir.Loop {
	body := sweep(n.Body, need)
	if len(body) == 0 && !n.Lane && !n.Part {
		return nil
	}
	l := *n
	l.Body = body
	if l.Carried = carriedIn(&l); vir.SameBody(body, n.Body) && len(l.Carried) == len(n.Carried) {
		return n
	}
	return &l
}

// carriedIn is what of l.Carried is still defined in its body.
func carriedIn(l *vir.Loop) []vir.Reg {
	if len(l.Carried) == 0 {
		return nil
	}
	defined := make([]bool, slices.Max(l.Carried)+1)
	each(l.Body, func(in *vir.Instr) {
		if in.Dst != vir.NoReg && int(in.Dst) < len(defined) {
			defined[in.Dst] = true
		}
	})
	var out []vir.Reg
	for _, r := range l.Carried {
		if defined[r] {
			out = append(out, r)
		}
	}
	return out
}
