package lower

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// chosen is e without its choices, which loops in the code make.
func (v *vectorizer) chosen(e ir.Expr) (ir.Expr, error) {
	for {
		c, ok := e.(ir.Choose)
		if !ok {
			return e, nil
		}
		i, ok, err := v.number(c.By)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, refuse(c.By.String(), "chooses from one iteration or lane to the next; unroll its loop")
		}
		if i < 0 || int(i) >= len(c.Of) {
			return nil, refuse(c.By.String(), "is %d of %d choices", i, len(c.Of))
		}
		e = c.Of[i]
	}
}

// inSerial says that e depends on the variable of an open serial loop.
func (v *vectorizer) inSerial(e ir.Expr) bool {
	found := false
	ir.Walk(e, func(x ir.Expr) {
		a, ok := x.(ir.Axis)
		found = found || ok && (v.sharesOut(a.Name) || slices.ContainsFunc(v.serial, func(o *openLoop) bool { return o.loop.Name == a.Name || o.loop.Root == a.Name }))
	})
	return found
}

// join reads a number made of digits of several codes: their bits where they lie,
// in lanes of type elem.
func (v *vectorizer) join(j ir.Join, elem format.DType) (vir.Reg, error) {
	if j.Of == ir.Upper {
		x, err := v.upper(j, elem)
		if err != nil {
			return 0, err
		}
		return v.op(v.typeOf(x), vir.OpShrU, int64(elem.Bits()-1), x), nil
	}
	return v.masked(v.joined(j, elem))
}

// joined computes the join j; only the bits in `have` are right, the others are arbitrary. The join is of a
// number, or of the lower one of a number and its mirror image. If codes are not stored mirrored, the image of a number
// has all its bits inverted:
//
//	v1 = submsb upper -1 v0      -1 - v0 where the number v0 is above its image
func (v *vectorizer) joined(j ir.Join, elem format.DType) (x vir.Reg, have int64, err error) {
	n, err := v.locate(j)
	if err != nil {
		return 0, 0, err
	}
	if j.Of == ir.Whole {
		return v.bitsOf(n, n.bits, 0, elem)
	}
	top := len(n.bits) - 1
	if x, have, err = v.bitsOf(n, n.bits[:top], 0, elem); err != nil || n.mirrored {
		return x, have, err
	}
	upper, err := v.upper(j, elem)
	return v.op(v.typeOf(x), vir.OpSubMSB, 0, upper, v.splat(v.typeOf(x), -1), x), have, err
}

// upper is, in the top bit of lanes of type elem, whether a number is above its mirror
// image. Other bits are anything.
func (v *vectorizer) upper(j ir.Join, elem format.DType) (vir.Reg, error) {
	n, err := v.locate(j)
	if err != nil {
		return 0, err
	}
	x, _, err := v.bitsOf(n, n.bits[len(n.bits)-1:], elem.Bits()-1, elem)
	return x, err
}

// negIf is x or its negative: of numbers that are where they are above their mirror
// images, the top bit says so where it lies.
func (v *vectorizer) negIf(e ir.Binary) (vir.Reg, error) {
	x, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	t := v.typeOf(x)
	sign, err := v.upperIn(e.Y, t.Elem)
	if err != nil {
		return 0, err
	}
	return v.op(t, vir.OpSubMSB, 0, sign, v.splat(t, 0), x), nil
}

// upperIn is a number that is 0 or 1 in the top bit of lanes of type elem.
func (v *vectorizer) upperIn(e ir.Expr, elem format.DType) (vir.Reg, error) {
	t := vir.Type{Elem: elem, Lanes: v.width()}
	for inner := e; ; {
		c, err := v.chosen(inner)
		if err != nil {
			return 0, err
		}
		switch c := c.(type) {
		case ir.Cast:
			inner = c.X
			continue
		case ir.Join:
			if c.Of == ir.Upper {
				x, err := v.upper(c, elem.Unsigned())
				return v.cast(x, t), err
			}
		}
		break
	}
	x, err := v.vec(e)
	if err != nil {
		return 0, err
	}
	return v.op(t, vir.OpShl, int64(elem.Bits()-1), x), nil
}

// bitsOf collects some of a number's bits in lanes of type elem, moved to bit s and up.
// Other bits, those not in have, are anything.
func (v *vectorizer) bitsOf(n located, some []format.BitPos, s int, elem format.DType) (x vir.Reg, have int64, err error) {
	first, size := n.bits[0].Word, elem.Bytes()
	for _, at := range n.bits {
		first = min(first, at.Word)
	}
	if !v.aligned(n.buf, n.mem, size) {
		return 0, 0, refuse(n.buf.Name(), "words of %d bytes are not %d bytes apart", size, size)
	}
	first -= (n.mem.Off + first) & (size - 1) // the last one ends in the buffer
	var bits []format.BitPos
	for _, at := range some {
		bits = append(bits, format.BitPos{Word: (at.Word - first) / size, Bit: at.Bit + 8*((at.Word-first)%size)})
	}
	return v.gather(bits, s, func(word int) (vir.Reg, error) {
		m := n.mem
		m.Off += first + word*size
		return v.load(n.buf, n.pos, m, elem)
	})
}

// located is where a number is read: the places of all lanes, the address of the first, and the byte from there that holds
// each bit, the lowest bit first. If `mirrored` is set, the bits belong to the lower one of the number and its mirror
// image. The last bit then says whether the lower one is the image.
type located struct {
	buf      *nest.Codes
	pos      []nest.Pos
	mem      vir.Mem
	bits     []format.BitPos
	mirrored bool
}

// aligned says that what serial loops, records, tiles and callers add to an address is
// a multiple of size.
func (v *vectorizer) aligned(b *nest.Codes, mem vir.Mem, size int) bool {
	all := b.Layout.HeaderBytes | b.Layout.RecordBytes | b.Part.Base
	for _, s := range mem.Stride {
		all |= s.Bytes
	}
	for _, l := range v.n.Loops {
		for it := 1; l.Kind.Outside() && it < l.N; it++ {
			all |= v.origin(b, l, it).Byte
		}
	}
	return all%size == 0
}

// locate finds the number that j is, or is part of.
func (v *vectorizer) locate(j ir.Join) (located, error) {
	n := located{buf: v.n.Buffers[j.T.Name].(*nest.Codes)}
	plane := int64(-1)
	if j.Plane != nil {
		var known bool
		var err error
		if plane, known, err = v.number(j.Plane); err != nil || !known {
			return n, refuse(j.String(), "reads another bit from one iteration or lane to the next; unroll its loop")
		}
	}
	if n.buf.Part.Codewords != nil {
		return v.codeword(j, n)
	}
	for i := range j.N {
		p, m, err := v.access(n.buf, v.plusIndex(j.Index, i))
		if err != nil {
			return n, err
		}
		if i == 0 {
			n.pos, n.mem = p, m
		}
		if !together(n.pos, p) || m.Plus != n.mem.Plus || !slices.Equal(m.Stride, n.mem.Stride) {
			return n, refuse(j.String(), "the codes of an index do not lie together")
		}
		code := n.buf.Part.Map[p[0].Field]
		if plane >= 0 {
			code = code[plane : plane+1]
		}
		if 1<<len(code) != j.Radix {
			return n, refuse(j.String(), "digits of %d bits do not make numbers to base %d", len(code), j.Radix)
		}
		for _, at := range code {
			n.bits = append(n.bits, format.BitPos{Word: m.Off - n.mem.Off + at.Word*n.buf.Part.WordStride, Bit: at.Bit})
		}
	}
	return n, nil
}

// codeword is digits of codes that are stored as one number already.
func (v *vectorizer) codeword(j ir.Join, n located) (located, error) {
	part := n.buf.Part
	c, mirror := part.Codewords, 0
	if n.mirrored = j.Of != ir.Whole; n.mirrored {
		mirror = j.N
	}
	var err error
	if n.pos, n.mem, err = v.access(n.buf, j.Index); err != nil {
		return n, err
	}
	word, first := part.Place(n.pos[0].Field)
	if j.Plane != nil || first != 0 || j.N != c.Join || j.Radix != c.Levels || !c.Mirrors(mirror) || !together(n.pos, n.pos) {
		return n, refuse(j.String(), "codewords of %d codes of %d levels are other numbers", c.Join, c.Levels)
	}
	for _, at := range part.Map[word] {
		n.bits = append(n.bits, format.BitPos{Word: at.Word * part.WordStride, Bit: at.Bit})
	}
	return n, nil
}

// together says that each lane of q is as far from that of p as the first, and all
// lanes of q are in one field.
func together(p, q []nest.Pos) bool {
	for i := range q {
		if q[i].Byte-p[i].Byte != q[0].Byte-p[0].Byte || q[i].Field != q[0].Field {
			return false
		}
	}
	return true
}

// entry reads entries of tables in memory at an index that is data:
//
//	one table for all lanes        a lookup in it
//	neighbouring tables            their distance is added to the index of a lane, and
//	                               all are one larger table
func (v *vectorizer) entry(e ir.Read, b *nest.Tables) (vir.Reg, error) {
	part, ok, err := v.number(e.Index[2])
	if err != nil || !ok {
		return 0, refuse(e.T.Name, "lanes read tables of different parts")
	}
	x, have, err := v.indexBits(e.Index[len(e.Index)-1])
	if err != nil {
		return 0, err
	}
	pos, mem, err := v.access(b, v.zeroIndex(e.Index))
	if err != nil {
		return 0, err
	}
	size, offsets := b.Of.Stored(int(part)), make([]int, len(pos))
	low := pos[0].Byte
	for _, p := range pos {
		low = min(low, p.Byte)
	}
	most := 0
	for i, p := range pos {
		offsets[i] = (p.Byte - low) / e.T.Elem.Bytes()
		most = max(most, offsets[i])
	}
	mod := false // the index may have bits beyond its table
	switch {
	case most > 0:
		if size, x, err = v.oneTable(e, x, have, size, offsets, most); err != nil {
			return 0, err
		}
	case have == int64(size-1):
		mod = true
	case have >= 0:
		x = v.op(v.typeOf(x), vir.OpAnd, 0, x, v.splat(v.typeOf(x), have))
	}
	mem.Off += low - pos[0].Byte
	return v.lookupIn(e, mod, x, size, mem, b.Ahead)
}

// indexBits is an index whose bits outside have are anything; have is -1 if it is
// exact.
func (v *vectorizer) indexBits(e ir.Expr) (x vir.Reg, have int64, err error) {
	if e, err = v.chosen(e); err != nil {
		return 0, 0, err
	}
	if c, ok := e.(ir.Cast); ok {
		if j, ok := c.X.(ir.Join); ok && j.Of != ir.Upper {
			return v.joined(j, c.T)
		}
	}
	x, err = v.vec(e)
	return x, -1, err
}

// oneTable makes one table of neighbouring tables with `entries` entries each.
func (v *vectorizer) oneTable(e ir.Read, x vir.Reg, have int64, entries int, offsets []int, most int) (size int, index vir.Reg, err error) {
	size = most + entries
	t := v.typeOf(x)
	if bits.OnesCount(uint(size)) != 1 || size > 1<<t.Elem.Bits() {
		return 0, 0, refuse(e.T.Name, "the tables of neighbouring lanes span %d entries", size)
	}
	for _, o := range offsets {
		if o%entries != 0 {
			return 0, 0, refuse(e.T.Name, "the tables of neighbouring lanes overlap")
		}
	}
	data := make([]byte, 0, t.Bytes())
	for _, o := range offsets {
		if t.Elem.Bits() == 8 {
			data = append(data, byte(o))
		} else {
			data = binary.LittleEndian.AppendUint16(data, uint16(o))
		}
	}
	if have < 0 {
		have = int64(entries - 1)
	}
	// The index last: where instructions overwrite an argument, it is that one.
	return size, v.op(t, vir.OpBitSel, 0, v.splat(t, ^have), v.lanesConst(t, data), x), nil
}

// lookupIn looks up x in the table of `size` entries at mem. A table of 256 entries is read by its halves:
//
//	v2 = lookup128mod v0 table+0
//	v3 = lookup128mod v0 table+128
//	v4 = shl v0 8                    of 16 bits: bit 7 goes to the top
//	v5 = selmsb v4 v3 v2
func (v *vectorizer) lookupIn(e ir.Read, mod bool, x vir.Reg, size int, mem vir.Mem, ahead int) (vir.Reg, error) {
	t := vir.Type{Elem: e.T.Elem, Lanes: v.width()}
	index := v.typeOf(x)
	if index.Elem.Bits() != t.Elem.Bits() {
		return 0, refuse(e.T.Name, "no lookup of entries of %v by %v", t.Elem, index.Elem)
	}
	if op := vir.Lookup(size, mod); op != vir.OpInvalid {
		return v.op(t, op, 0, x, v.tableAt(mem, t, size, ahead)), nil
	}
	if size != 256 {
		return 0, refuse(e.T.Name, "no lookup of %d entries of %v", size, t.Elem)
	}
	upper := mem
	upper.Off += 128 * t.Elem.Bytes()
	low := v.op(t, vir.OpLookup128Mod, 0, x, v.tableAt(mem, t, 128, ahead))
	high := v.op(t, vir.OpLookup128Mod, 0, x, v.tableAt(upper, t, 128, ahead))
	if by := t.Elem.Bits() - 8; by > 0 {
		x = v.op(index, vir.OpShl, int64(by), x)
	}
	return v.op(t, vir.OpSelMSB, 0, v.cast(x, t), high, low), nil
}

// tableAt loads the table of `size` entries at mem, for lookups whose result has type t. If `ahead` is not 0 it also
// prefetches the table that lies `ahead` bytes further.
func (v *vectorizer) tableAt(mem vir.Mem, t vir.Type, size, ahead int) vir.Reg {
	t.Lanes = max(t.Lanes, size)
	key := readKey("table", mem, int(t.Elem), t.Lanes, size)
	table, ok := v.loads[key]
	if !ok {
		table = v.loadPeriod(t, size, mem)
		if ahead > 0 && !v.listed() {
			v.prefetch(vir.OpPrefetch, mem, size*t.Elem.Bytes(), ahead, true)
		}
		v.loads[key] = table
	}
	return table
}
