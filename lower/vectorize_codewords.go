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
	if c := p.Codewords; c.Fraction && v.typeOf(x).Lanes >= 4 {
		return v.digit(x, c.Levels, word%c.Words()), nil
	}
	value, used := p.Codewords.Decoder(len(bits), word%p.Codewords.Words())
	if len(value) <= 128 {
		return v.lookBytes(x, value), nil
	}
	if class := classes(p.Codewords); class != nil {
		return v.lookSteps(x, inSteps(value, used), class), nil
	}
	return v.lookHalves(x, halve(value, used)), nil
}

// digit is digit number n of fractions x to the base of levels: what the product with the next power of levels has above the lowest 8
// bits, without levels times what the product before has there. Products have 16 bits, even and odd bytes in words of their own.
//
//	v1:u32x4 = and v0 00ff00ff00ff00ff            even bytes; the odd ones are shifted before
//	v2:u32x4 = mul v1 3^n
func (v *vectorizer) digit(x vir.Reg, levels, n int) vir.Reg {
	const even = 0x00ff00ff
	t := v.typeOf(x)
	w := vir.Type{Elem: format.U32, Lanes: t.Lanes / 4}
	and := func(a vir.Reg, mask int64) vir.Reg { return v.op(w, vir.OpAnd, 0, a, v.splat(w, mask)) }
	mul := func(a vir.Reg, by int) vir.Reg { return v.op(w, vir.OpMul, 0, a, v.splat(w, int64(by))) }
	x = v.cast(x, w)
	above := func(power int) vir.Reg {
		low, high := mul(and(x, even), power), mul(and(v.op(w, vir.OpShrU, 8, x), even), power)
		return v.op(w, vir.OpOr, 0, and(v.op(w, vir.OpShrU, 8, low), even), and(high, even<<8))
	}
	power := 1
	for range n {
		power *= levels
	}
	d := above(power * levels)
	if n > 0 {
		d = v.op(w, vir.OpSub, 0, d, mul(above(power), levels))
	}
	return v.cast(d, t)
}

// stepBits is how many low bits of a codeword of 8 bits a table of 64 entries does not see.
const stepBits = 2

// classes is by which classes of their upper bits, at most 16, codewords of 8 bits are
// taken apart with tables of 64 entries: a word that the upper bits alone do not tell depends
// on their class and on the lower bits. It is the class by the upper bits, times
// 1<<stepBits, or nil if there are more.
func classes(c *format.Codewords) (class []byte) {
	const low = 1 << stepBits
	var lower [][]byte // tables of the words that depend on the lower bits too
	for w := range c.Words() {
		if value := inSteps(c.Decoder(8, w)); !oneOfEach(value, low) {
			lower = append(lower, value)
		}
	}
	number := map[string]int{}
	for i := 0; i < 256; i += low {
		var row []byte
		for _, value := range lower {
			row = append(row, value[i:i+low]...)
		}
		if _, known := number[string(row)]; !known {
			number[string(row)] = len(number)
		}
		class = append(class, byte(number[string(row)]<<stepBits))
	}
	if len(number) > 64/low {
		return nil
	}
	return class
}

// inSteps returns a copy of `table` in which an unused entry equals the entry before it. Only the first entry of a step
// stays as it is.
func inSteps(table []byte, used []bool) []byte {
	table = slices.Clone(table)
	for i := range table {
		if !used[i] && i%(1<<stepBits) > 0 {
			table[i] = table[i-1]
		}
	}
	return table
}

// oneOfEach says that of each n neighbours in table all are equal.
func oneOfEach(table []byte, n int) bool {
	for i, x := range table {
		if x != table[i/n*n] {
			return false
		}
	}
	return true
}

// lookSteps looks codewords x up in a table of 256 by tables of 64:
//
//	v1:u8x64 = shru v0 2                        of 16 bits: the upper bits of a codeword are lookup64's index
//	v2:u8x64 = lookup64mod v1 table/4           a word that depends on these alone
//
//	v3:u8x64 = lookup64mod v1 class
//	v4:u8x64 = bitsel 3 v0 v3
//	v5:u8x64 = lookup64mod v4 by class          one that depends on all bits
func (v *vectorizer) lookSteps(x vir.Reg, table, class []byte) vir.Reg {
	const low = 1 << stepBits
	upper, short := v.shiftBits(x, stepBits), make([]byte, 64)
	if oneOfEach(table, low) {
		for i := range short {
			short[i] = table[i*low]
		}
		return v.lookTable(upper, format.U8, vir.OpLookup64Mod, 64, short)
	}
	for i, value := range table {
		short[int(class[i/low])+i%low] = value
	}
	t, known := v.typeOf(x), v.lookTable(upper, format.U8, vir.OpLookup64Mod, 64, class)
	index := v.op(t, vir.OpBitSel, 0, v.splat(t, low-1), x, known)
	return v.lookTable(index, format.U8, vir.OpLookup64Mod, 64, short)
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
