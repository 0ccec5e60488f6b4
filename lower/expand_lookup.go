package lower

import (
	"encoding/binary"
	"math/bits"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// lookupOps are the lookups of tables per group of lanes.
var lookupOps = []vir.Op{
	vir.OpLookup8, vir.OpLookup8Mod, vir.OpLookup16, vir.OpLookup16Mod, vir.OpLookup32, vir.OpLookup32Mod,
	vir.OpLookup64, vir.OpLookup64Mod, vir.OpLookup128, vir.OpLookup128Mod,
}

// lookupRow returns the lookup of n entries that the target has a row for, with
// entries of the size of the result's; OpInvalid if it has none.
func (x *expansion) lookupRow(n int) vir.Op {
	index, table := x.typeOf(x.in.Args[0]), vir.Type{Elem: x.dst.Elem, Lanes: max(n, x.dst.Lanes)}
	elems, _ := alike(x.in.Op, x.dst.Elem)
	for _, mod := range []bool{true, false} {
		for _, e := range append(elems, x.dst.Elem) {
			if op := vir.Lookup(n, mod); op != vir.OpInvalid && x.t.has(op, as(x.dst, e), index, as(table, e)) {
				return op
			}
		}
	}
	return vir.OpInvalid
}

// lookupMasked: the index with its high bits cleared, where that suffices.
func (x *expansion) lookupMasked() []*vir.Instr {
	n := x.in.Op.Entries()
	if !x.in.Op.Mod() || x.lookupRow(n) == vir.OpInvalid {
		return nil
	}
	return x.end(vir.Lookup(n, false), x.masked(n), x.in.Args[1])
}

// masked is the index below n.
func (x *expansion) masked(n int) vir.Reg {
	index := x.in.Args[0]
	t := x.typeOf(index)
	return x.Op(vir.OpAnd, t, index, x.Splat(t, int64(n-1)))
}

// lookupInPair: the only table in two registers.
func (x *expansion) lookupInPair() []*vir.Instr {
	index, table := x.in.Args[0], x.in.Args[1]
	n := x.in.Op.Entries()
	half := vir.Type{Elem: x.dst.Elem, Lanes: n / 2}
	if x.typeOf(table).Lanes > n || !x.t.has(vir.OpLookupPair, x.dst, x.typeOf(index), half, half) {
		return nil
	}
	return x.end(vir.OpLookupPair, index, x.Imm(vir.OpHalf, half, 0, table), x.Imm(vir.OpHalf, half, 1, table))
}

// lookupPair: a lookup in the joined table.
func (x *expansion) lookupPair() []*vir.Instr {
	n := 2 * x.typeOf(x.in.Args[1]).Lanes
	table := x.Op(vir.OpJoin, vir.Type{Elem: x.dst.Elem, Lanes: n}, x.in.Args[1], x.in.Args[2])
	return x.end(vir.Lookup(n, true), x.in.Args[0], table)
}

// lookupWider: several tables as one, in which the index of a lane begins where
// its table does. Tables that are known to be equal need no such index.
//
//	v2:i16x32 = lookup16 v0 v1   ->   v3:u16x32 = const: 16 times 0, 16 times 16
//	                                  v4:u16x32 = or v0 v3
//	                                  v2:i16x32 = lookup32mod v4 v1
func (x *expansion) lookupWider() []*vir.Instr {
	index, tables := x.in.Args[0], x.in.Args[1]
	n, t := x.in.Op.Entries(), x.typeOf(tables)
	for size := 2 * n; ; size *= 2 {
		op := x.lookupRow(size)
		if vir.Lookup(size, false) == vir.OpInvalid {
			return nil
		}
		if op == vir.OpInvalid {
			continue
		}
		equal := x.b.repeats(tables, n*t.Elem.Bytes())
		if x.in.Op.Mod() && !(equal && op.Mod()) {
			index = x.masked(n)
		}
		if !equal {
			index = x.Op(vir.OpOr, x.typeOf(index), index, x.tableStarts(n, size))
		}
		if t.Lanes < size {
			t.Lanes = size
			tables = x.Op(vir.OpTile, t, tables)
		}
		return x.end(op, index, tables)
	}
}

// tableStarts is, lane by lane, where tables of n entries begin in one of size.
func (x *expansion) tableStarts(n, size int) vir.Reg {
	t := x.typeOf(x.in.Args[0])
	var data []byte
	for i := range t.Lanes {
		data = binary.LittleEndian.AppendUint32(data, uint32(i%size/n*n))[:(i+1)*t.Elem.Bytes()]
	}
	return x.Imm(vir.OpConst, t, x.b.Const(data))
}

// hasSelMSB says whether the target selects lanes of t by top bits.
func (x *expansion) hasSelMSB(t vir.Type) bool { return x.t.has(vir.OpSelMSB, t, t, t, t) }

// narrowerLookup says whether the lookup ends in tables of at most half its entries, rather than in tables of bytes.
func (x *expansion) narrowerLookup() bool {
	w := x.dst.Elem.Bytes()
	if w == 1 || vir.Lookup(w*x.in.Op.Entries(), false) == vir.OpInvalid {
		return x.in.Op.Entries() > 8
	}
	for n := x.in.Op.Entries() / 2; n > 0; n /= 2 {
		if x.lookupRow(n) != vir.OpInvalid {
			return true
		}
	}
	return false
}

// lookupHalvesByTop: a lookup in each half of the tables and a select by the index's highest bit, which is shifted to
// the top. Bits that are shifted in from another lane do not matter.
func (x *expansion) lookupHalvesByTop() []*vir.Instr {
	t := as(x.dst, x.dst.Elem.Unsigned())
	if !x.hasSelMSB(t) || !x.narrowerLookup() {
		return nil
	}
	index, shift := x.in.Args[0], t
	if t.Elem == format.U8 && t.Lanes > 1 {
		shift = as(t, format.U16)
	}
	n := x.in.Op.Entries()
	by := t.Elem.Bits() - bits.Len(uint(n-1))
	top := x.Bitcast(t, x.Imm(vir.OpShl, shift, int64(by), x.Bitcast(shift, index)))
	lo, hi := x.lookupHalves(index)
	return x.end(vir.OpSelMSB, x.Bitcast(x.dst, top), hi, lo)
}

// lookupMod: the index with its high bits cleared.
func (x *expansion) lookupMod() []*vir.Instr {
	if !x.in.Op.Mod() {
		return nil
	}
	n := x.in.Op.Entries()
	return x.end(vir.Lookup(n, false), x.masked(n), x.in.Args[1])
}

// lookupByCompare is lookupHalvesByTop for targets without such a select.
func (x *expansion) lookupByCompare() []*vir.Instr {
	if !x.narrowerLookup() {
		return nil
	}
	index := x.in.Args[0]
	signed := as(x.dst, x.dst.Elem.Signed())
	upper := x.Op(vir.OpCmpGtS, signed, x.Bitcast(signed, index), x.Splat(signed, int64(x.in.Op.Entries()/2-1)))
	lo, hi := x.lookupHalves(index)
	return x.end(vir.OpBitSel, x.Bitcast(x.dst, upper), hi, lo)
}

// lookupHalves are lookups of index in the lower and the upper halves of the
// tables.
func (x *expansion) lookupHalves(index vir.Reg) (lo, hi vir.Reg) {
	n := x.in.Op.Entries() / 2
	op := vir.Lookup(n, true)
	lo = x.Op(op, x.dst, index, x.halfTables(x.in.Args[1], x.dst.Lanes, n, 0))
	return lo, x.Op(op, x.dst, index, x.halfTables(x.in.Args[1], x.dst.Lanes, n, 1))
}

// halfTables is half h of tables of 2*n entries each, one per 2*n of lanes lanes,
// as tables of n entries, one per n of lanes lanes.
//
//	lanes 32, n 16, h 0:  [a b]      ->  [a a]
//	lanes 64, n 16, h 1:  [a b c d]  ->  [b b d d]
func (x *expansion) halfTables(tables vir.Reg, lanes, n, h int) vir.Reg {
	if t := x.typeOf(tables); t.Lanes > 2*n {
		lo, hi := x.Imm(vir.OpHalf, halved(t), 0, tables), x.Imm(vir.OpHalf, halved(t), 1, tables)
		return x.Op(vir.OpJoin, t, x.halfTables(lo, lanes/2, n, h), x.halfTables(hi, lanes/2, n, h))
	}
	half := x.Imm(vir.OpHalf, vir.Type{Elem: x.dst.Elem, Lanes: n}, int64(h), tables)
	if lanes <= n {
		return half
	}
	return x.Op(vir.OpTile, vir.Type{Elem: x.dst.Elem, Lanes: 2 * n}, half)
}

// lookupBytes: each byte of the entries, in tables of bytes.
//
//	v2:i16x8 = lookup8 v0 v1   ->   v3:u16x8 = mul v0 0x0202
//	                                v4:u16x8 = add v3 0x0100
//	                                v5:u8x16 = bitcast v4     (2*v0, 2*v0 + 1)
//	                                v6:u8x16 = bitcast v1
//	                                v7:u8x16 = lookup16 v5 v6
//	                                v2:i16x8 = bitcast v7
func (x *expansion) lookupBytes() []*vir.Instr {
	index, tables := x.in.Args[0], x.in.Args[1]
	w, t := x.dst.Elem.Bytes(), x.typeOf(index)
	op := vir.Lookup(w*x.in.Op.Entries(), false)
	if w == 1 || op == vir.OpInvalid {
		return nil
	}
	var times, plus int64
	for i := range w {
		times |= int64(w) << (8 * i)
		plus |= int64(i) << (8 * i)
	}
	first := x.Op(vir.OpMul, t, index, x.Splat(t, times))
	bytes := x.Bitcast(as(t, format.U8), x.Op(vir.OpAdd, t, first, x.Splat(t, plus)))
	found := x.Op(op, as(t, format.U8), bytes, x.Bitcast(as(x.typeOf(tables), format.U8), tables))
	return x.end(vir.OpBitcast, found)
}
