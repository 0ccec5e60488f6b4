package lower

import (
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// lookups lets a table do the work of the mask, and if it can the shift, that
// make its index, where the target has a lookup that ignores high bits: a larger
// table has at every index what the lookup would have found.
//
//	v1:u16x32 = shru v0 2
//	v2:u8x64 = and v1 3              v5:i8x64 = const: entry i is that of i>>2&3 in v4
//	v3:i8x64 = lookup16 v2 v4   ->   v3:i8x64 = lookup64mod v0 v5
//
// Other uses of the masked index would keep the mask: then nothing changes.
func (t *table) lookups(f *vir.Func) (*vir.Func, error) {
	x := &absorber{t: t, b: &Builder{F: clone(f)}, mut: mutable(f)}
	x.def = definitions(f, x.mut)
	x.others = useCounts(f)
	each(f.Body, func(in *vir.Instr) {
		if x.absorb(in) != nil {
			x.others[in.Args[0]]--
		}
	})
	body := vir.Map(f.Body, func(in *vir.Instr) []*vir.Instr {
		if a := x.absorb(in); a != nil && x.others[in.Args[0]] == 0 {
			return x.rewrite(in, a)
		}
		return vir.Kept
	})
	x.b.F.Body = append(x.top, body...)
	return x.b.F, nil
}

type absorber struct {
	t      *table
	b      *Builder
	mut    []bool
	def    []*vir.Instr
	others []int // uses of each register that are no lookups to rewrite
	top    []vir.Node
}

// absorbed is a lookup of entry (index >> shift) & mask that needs neither shift
// nor mask.
type absorbed struct {
	op    vir.Op
	index vir.Reg
	data  []byte
	table vir.Type
}

// absorb says what lookup in can become, nil if it stays.
func (x *absorber) absorb(in *vir.Instr) *absorbed {
	n := in.Op.Entries()
	if n == 0 || in.Fold > 0 || x.b.TypeOf(in.Dst).Elem.Bits() != 8 {
		return nil
	}
	old := x.constant(in.Args[1])
	masked, mask := x.mask(in.Args[0])
	if old == nil || mask < 0 || !repeats(old, n) {
		return nil
	}
	dst := x.b.TypeOf(in.Dst)
	for _, op := range []vir.Op{vir.OpLookup64Mod, vir.OpLookup32Mod, vir.OpLookup16Mod} {
		size := op.Entries()
		a := &absorbed{op: op, index: masked, table: vir.Type{Elem: dst.Elem, Lanes: max(size, dst.Lanes)}}
		if size < n || !x.t.has(op, dst, x.b.TypeOf(in.Args[0]), a.table) || !x.t.has(vir.OpConst, a.table) {
			continue
		}
		shift := 0
		if from, s := x.shift(masked); bits.Len(uint(mask))+s <= min(bits.Len(uint(size-1)), 8) {
			a.index, shift = from, s
		}
		for i := range a.table.Lanes {
			a.data = append(a.data, old[i%size>>shift&mask&(n-1)])
		}
		return a
	}
	return nil
}

// rewrite is in as a says.
func (x *absorber) rewrite(in *vir.Instr, a *absorbed) []*vir.Instr {
	table := x.b.Reg(a.table)
	x.top = append(x.top, &vir.Instr{Op: vir.OpConst, Dst: table, Imm: x.b.Const(a.data)})
	s := x.b.Seq()
	return s.End(in.Dst, a.op, 0, s.Bitcast(x.b.TypeOf(in.Args[0]), a.index), table)
}

// constant is the bytes of r if it is a constant.
func (x *absorber) constant(r vir.Reg) []byte {
	switch d := x.def[r]; {
	case d == nil:
	case d.Op == vir.OpConst:
		return x.b.F.Consts[d.Imm]
	case d.Op == vir.OpSplat:
		return splatBytes(x.b.TypeOf(r), d.Imm)
	}
	return nil
}

// mask finds r = from & mask, the mask equal in all bytes; else it is -1.
func (x *absorber) mask(r vir.Reg) (from vir.Reg, mask int) {
	d := x.original(r)
	if d == nil || d.Op != vir.OpAnd || d.Fold > 0 {
		return r, -1
	}
	for i, a := range d.Args {
		c := x.constant(a)
		if c == nil || x.mut[d.Args[1-i]] {
			continue
		}
		if m, ok := splatValue(format.U8, c); ok {
			return d.Args[1-i], int(m)
		}
	}
	return r, -1
}

// shift finds r = from >> s, for bits that stay within their byte.
func (x *absorber) shift(r vir.Reg) (from vir.Reg, s int) {
	d := x.original(r)
	if d == nil || d.Op != vir.OpShrU || d.Fold > 0 || x.mut[d.Args[0]] {
		return r, 0
	}
	from = d.Args[0]
	if b := x.def[from]; b != nil && b.Op == vir.OpBitcast && b.Fold == 0 && !x.mut[b.Args[0]] {
		from = b.Args[0]
	}
	return from, int(d.Imm)
}

// original is the instruction whose bytes r holds.
func (x *absorber) original(r vir.Reg) *vir.Instr {
	d := x.def[r]
	for d != nil && d.Op == vir.OpBitcast && d.Fold == 0 {
		d = x.def[d.Args[0]]
	}
	return d
}

// repeats says whether data is its first n bytes over and over.
func repeats(data []byte, n int) bool {
	return len(data) <= n || slices.Equal(data[n:], data[:len(data)-n])
}
