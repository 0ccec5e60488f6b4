package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// unjoin takes codewords apart: word number word of format.Part.Unjoined, in each
// lane, by tables that are made of the codewords.
func (v *vectorizer) unjoin(p *format.Part, word int, stored func(int) (vir.Reg, error)) (vir.Reg, error) {
	bits := p.Map[word/p.Codewords.Words()]
	x, err := v.masked(v.gather(bits, 0, stored))
	if err != nil {
		return 0, err
	}
	value, used := p.Codewords.Decoder(len(bits), word%p.Codewords.Words())
	if len(value) <= 128 {
		return v.lookBytes(x, value), nil
	}
	return v.lookHalves(x, halve(value, used)), nil
}

// lookBytes looks bytes x up in a table of at most 128 entries, a power of two.
func (v *vectorizer) lookBytes(x vir.Reg, table []byte) vir.Reg {
	n := max(len(table), 16)
	return v.lookTable(x, format.U8, vir.Lookup(n, false), n, table)
}

// lookTable applies a lookup of n entries of type elem to x in a table that is repeated.
func (v *vectorizer) lookTable(x vir.Reg, elem format.DType, op vir.Op, n int, table []byte) vir.Reg {
	t := v.typeOf(x)
	data := make([]byte, max(t.Lanes, n))
	for i := range data {
		data[i] = table[i%len(table)]
	}
	c := v.lanesConst(vir.Type{Elem: elem, Lanes: len(data)}, data)
	return v.op(vir.Type{Elem: elem, Lanes: t.Lanes}, op, 0, x, c)
}

// halves is a table of 256 bytes by its halves.
type halves struct {
	low, high []byte // high: nil if the top bit of the index does not matter,
	mirror    bool   // or if it asks for sum - entry
	sum       byte
}

// halve looks for a relation of the halves of a table, of whose entries only the
// used ones matter; nil says that all do.
func halve(table []byte, used []bool) halves {
	if used == nil {
		used = slices.Repeat([]bool{true}, len(table))
	}
	h := halves{low: make([]byte, 128)}
	same, mirrored, known := true, true, false
	for i := range h.low {
		if !used[i] || !used[i+128] {
			continue
		}
		same = same && table[i] == table[i+128]
		if !known {
			h.sum, known = table[i]+table[i+128], true
		}
		mirrored = mirrored && table[i]+table[i+128] == h.sum
	}
	h.mirror = mirrored && !same
	for i := range h.low {
		switch {
		case used[i]:
			h.low[i] = table[i]
		case h.mirror:
			h.low[i] = h.sum - table[i+128]
		default:
			h.low[i] = table[i+128]
		}
	}
	if !same && !mirrored {
		h.low, h.high = table[:128], table[128:]
	}
	return h
}

// lookHalves looks up in a table of 256 by tables of 128:
//
//	v1:u8x64 = lookup128mod v0 low
//	v2:u8x64 = submsb v0 sum v1                                 mirrored
//
//	v2:u8x64 = lookup128mod v0 high
//	v3:u8x64 = selmsb v0 v2 v1                                  unrelated
func (v *vectorizer) lookHalves(x vir.Reg, h halves) vir.Reg {
	t := v.typeOf(x)
	low := v.lookTable(x, format.U8, vir.OpLookup128Mod, 128, h.low)
	switch {
	case h.mirror:
		return v.op(t, vir.OpSubMSB, 0, x, v.splat(t, int64(h.sum)), low)
	case h.high != nil:
		return v.op(t, vir.OpSelMSB, 0, x, v.lookTable(x, format.U8, vir.OpLookup128Mod, 128, h.high), low)
	}
	return low
}
