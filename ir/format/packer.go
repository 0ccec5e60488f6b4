package format

import "encoding/binary"

// Packer packs matrices of one format into one layout. Its tables say where every
// bit of a tile's record comes from. Its methods may be called concurrently.
type Packer struct {
	w      Weight
	l      *Layout
	cells  []cell     // TileM by RecordK
	fields [][]bitRun // by index into Map: the pieces of a code or codeword
	words4 []target   // groups of 4 bytes of a record, that codes make in one way
	bytes  []target   // the other bytes of codes; both are empty if codes are joined
	moves  []move     // of all of them
	joins  []codeword // of a tile's record; nil unless codes are joined
	fours  []words4   // of them, those that are made by fours
	words  []codeword // the others
	shared []places
}

// target is a byte of a record, or 4 of them: moves from first up to end make it.
type target struct{ at, first, end int32 }

// move is a piece of a byte: bits of the code of cell from. The next bytes of a group
// have the bits of the next cells.
type move struct {
	from     int32
	down, up uint8 // lowest bit in the code, in the byte
	mask     byte  // the bits, moved down to bit 0
}

// NewPacker makes a Packer of format w and layout l, which must fit it.
func NewPacker(w Weight, l *Layout) (*Packer, error) {
	if err := l.Fits(w); err != nil {
		return nil, err
	}
	codes := l.Part(Codes)
	p := &Packer{w: w, l: l, cells: make([]cell, l.TileM*l.RecordK)}
	for i := range p.cells {
		row, col := i/l.RecordK, i%l.RecordK
		p.cells[i] = cell{int32(codes.Offset(row, col)), int32(codes.Field(row, col))}
	}
	for _, code := range codes.Map {
		p.fields = append(p.fields, bitRuns(code, codes.WordStride))
	}
	if codes.Codewords != nil {
		p.joins = p.codewords(codes)
		p.fours, p.words = p.joined(codes, p.joins)
	} else {
		p.plan()
	}
	for _, x := range w.Shared() {
		part := l.Part(x.Name)
		p.shared = append(p.shared, places{x, l.slots(w, x, part), part.Elem, part.Header})
	}
	return p, nil
}

// plan sorts the pieces of all codes by the byte that they are in.
func (p *Packer) plan() {
	count := make([]int32, p.l.HeaderBytes+p.l.RecordBytes+1)
	each := func(f func(at int32, m move)) {
		for i, c := range p.cells {
			for _, r := range p.fields[c.field] {
				f(c.at+r.word, move{int32(i), r.from, r.to, r.mask})
			}
		}
	}
	total := int32(0)
	each(func(at int32, _ move) { count[at]++; total++ })
	next := int32(0)
	var all []target
	for at, n := range count {
		if count[at] = next; n > 0 {
			all = append(all, target{int32(at), next, next + n})
			next += n
		}
	}
	p.moves = make([]move, total)
	each(func(at int32, m move) { p.moves[count[at]] = m; count[at]++ })
	for len(all) > 0 {
		if p.grouped(all) {
			p.words4, all = append(p.words4, all[0]), all[4:]
		} else {
			p.bytes, all = append(p.bytes, all[0]), all[1:]
		}
	}
}

// grouped reports whether the first 4 bytes of all lie side by side and take the
// same bits of cells that do.
func (p *Packer) grouped(all []target) bool {
	if len(all) < 4 {
		return false
	}
	first := p.moves[all[0].first:all[0].end]
	for j, t := range all[:4] {
		if t.at != all[0].at+int32(j) || int(t.end-t.first) != len(first) {
			return false
		}
		for i, m := range p.moves[t.first:t.end] {
			m.from -= int32(j)
			if m != first[i] {
				return false
			}
		}
	}
	return true
}

// Pack packs an m by k matrix into packed, which has Layout.PackedBytes(m, k)
// bytes. It refuses what Check refuses, and numbers that are not exact in the
// types that the layout stores. As a matrix is its tiles one after the other, rows
// that are whole tiles may be packed as a matrix of their own, with Source.Rows.
func (p *Packer) Pack(packed []byte, src Source, m, k int) error {
	if err := src.Check(p.w, m, k); err != nil {
		return err
	}
	return p.PackChecked(packed, src, m, k)
}

// PackChecked is Pack of a source that Check has accepted.
func (p *Packer) PackChecked(packed []byte, src Source, m, k int) error {
	of, size, err := p.of(m, k)
	if err != nil {
		return err
	}
	if len(packed) != size {
		return errorf("argument packed", "has %d bytes; a %d by %d matrix in this layout has %d", len(packed), m, k, size)
	}
	for _, x := range p.shared {
		if x.elem == x.of.Elem {
			continue // checked already
		}
		if err := src.checkExact(p.w, x.of, x.elem, k); err != nil {
			return err
		}
	}
	clear(packed)
	of.putCodes(packed, src.Codes)
	of.putShared(packed, &src)
	return nil
}

// putCodes stores codes into zeroed bytes, padding too.
func (p *packer) putCodes(packed, codes []byte) {
	tile := make([]byte, len(p.cells)) // the codes of a record
	p.records(func(i, record, at int) {
		rows := min(p.l.TileM, p.m-i*p.l.TileM)
		cols := min(p.l.RecordK, p.k-record*p.l.RecordK)
		for r := range rows {
			row := tile[r*p.l.RecordK:][:p.l.RecordK]
			n := copy(row, codes[(i*p.l.TileM+r)*p.k+record*p.l.RecordK:][:cols])
			clear(row[n:])
		}
		clear(tile[rows*p.l.RecordK:])
		if p.joins != nil {
			p.putWords(packed[at:], tile)
		} else {
			p.putBytes(packed[at:], tile)
		}
	})
}

// putBytes makes the bytes of a record from the codes of its cells.
func (p *Packer) putBytes(to, tile []byte) {
	for _, t := range p.words4 {
		v := uint32(0)
		for _, m := range p.moves[t.first:t.end] {
			v |= binary.LittleEndian.Uint32(tile[m.from:]) >> (m.down & 7) & (uint32(m.mask) * 0x01010101) << (m.up & 7)
		}
		binary.LittleEndian.PutUint32(to[t.at:], v)
	}
	for _, t := range p.bytes {
		v := byte(0)
		for _, m := range p.moves[t.first:t.end] {
			v |= tile[m.from] >> (m.down & 7) & m.mask << (m.up & 7)
		}
		to[t.at] = v
	}
}

// putShared stores what weights share.
func (p *packer) putShared(packed []byte, src *Source) {
	for _, x := range p.shared {
		switch from := src.numbers(x.of.Name).(type) {
		case list[float32]:
			putNumbers(p, packed, x, *from.of)
		case list[int8]:
			putNumbers(p, packed, x, *from.of)
		case list[uint8]:
			putNumbers(p, packed, x, *from.of)
		}
	}
}

func putNumbers[T float32 | int8 | uint8](p *packer, packed []byte, to places, from []T) {
	p.elements(to, func(tile, first, rows int, all []element) {
		if bytes := packed[tile:]; to.elem.Bits() == 8 {
			for _, e := range all {
				if e.row < rows {
					bytes[e.at] = byte(int32(from[first+e.i])) // DType.Put
				}
			}
			return
		}
		for _, e := range all {
			if e.row < rows {
				to.elem.Put(packed[tile+e.at:], float32(from[first+e.i]))
			}
		}
	})
}

// Rows is the matrix of rows of s from lo up to hi, a matrix of format w with k
// columns. The sizes of s must be right.
func (s *Source) Rows(w Weight, lo, hi, k int) Source {
	rows := Source{Codes: s.Codes[lo*k : hi*k]}
	for _, x := range w.Shared() {
		rows.numbers(x.Name).share(s.numbers(x.Name), w.Index(x, lo, 0, k), w.Count(x, hi-lo, k))
	}
	return rows
}
