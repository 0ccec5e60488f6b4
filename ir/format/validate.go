package format

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Validate reports what makes l unusable for any matrix, or nil: every digit
// repeats with the tile and the record, every element lies inside its header or
// record, no two parts share a byte, and no two codes share a bit or their place
// in a codeword; codewords are different and fit their bits.
func (l *Layout) Validate() error {
	switch {
	case l.TileM < 1 || l.RecordK < 1 || l.TileM > maxRecordElems/l.RecordK:
		return errorf("layout", "tile_m %d by record_k %d; both must be at least 1, their product at most %d", l.TileM, l.RecordK, maxRecordElems)
	case l.HeaderBytes < 0 || l.HeaderBytes > maxTileBytes:
		return errorf("layout", "header_bytes is %d; it must be 0 to %d", l.HeaderBytes, maxTileBytes)
	case l.RecordBytes < 1 || l.RecordBytes > maxTileBytes:
		return errorf("layout", "record_bytes is %d; it must be 1 to %d", l.RecordBytes, maxTileBytes)
	case len(l.Parts) < 1 || len(l.Parts) > maxParts:
		return errorf("layout", "has %d parts; it must have 1 to %d", len(l.Parts), maxParts)
	}
	used := occupancy{parts: l.Parts, owner: make([]uint8, l.HeaderBytes+l.RecordBytes), mark: make([]int32, l.HeaderBytes+l.RecordBytes)}
	for i := range l.Parts {
		p := &l.Parts[i]
		if l.Part(p.Name) != p {
			return errorf(partName(p), "there are two parts of this name")
		}
		if err := l.validPart(p); err != nil {
			return err
		}
		if err := l.occupy(&used, i); err != nil {
			return err
		}
	}
	return nil
}

func partName(p *Part) string { return fmt.Sprintf("layout part %q", p.Name) }

func (l *Layout) validPart(p *Part) error {
	bad := func(problem string, args ...any) error { return errorf(partName(p), problem, args...) }
	switch {
	case p.Name == "" || !printable(p.Name):
		return bad("its name must be letters, digits, '_', '-' and '.', 1 to 64 of them")
	case int(p.Elem) >= len(dtypes):
		return bad("unknown elem %d", uint8(p.Elem))
	case p.Base < 0 || p.Base > 2*maxTileBytes:
		return bad("base is %d; it must be 0 to %d", p.Base, 2*maxTileBytes)
	case p.Elem != Invalid && (len(p.Fields) > 0 || len(p.Map) > 0 || p.WordStride != 0 || p.Codewords != nil):
		return bad("has whole elements (elem %s) and also fields, a map, a word_stride or codewords; leave out one or the other", p.Elem)
	case p.Elem == Invalid && len(p.Map) == 0:
		return bad("has neither elem nor a map")
	case p.WordStride < -maxTileBytes || p.WordStride > maxTileBytes:
		return bad("word_stride is %d; it is too large", p.WordStride)
	case len(p.Digits) > maxDigits || len(p.Fields) > maxDigits:
		return bad("has more than %d digits", maxDigits)
	case len(p.Map) > maxFields:
		return bad("has %d fields; at most %d are allowed", len(p.Map), maxFields)
	}
	for _, digits := range [][]Digit{p.Digits, p.Fields} {
		for _, d := range digits {
			if err := l.validDigit(p, d); err != nil {
				return err
			}
		}
	}
	for f, code := range p.Map {
		if len(code) < 1 || len(code) > 8 || len(code) != len(p.Map[0]) {
			return bad("field %d has %d bits; every field must have the same number, 1 to 8", f, len(code))
		}
		for _, b := range code {
			if b.Bit < 0 || b.Bit > 7 || b.Word < 0 || b.Word > maxTileBytes {
				return bad("field %d: bit %d of word %d; a word has bits 0 to 7, and words count from 0", f, b.Bit, b.Word)
			}
		}
	}
	if p.Codewords != nil {
		return p.Codewords.valid(p)
	}
	return nil
}

// validDigit holds a digit to the period of its part: as indices count over the
// whole matrix, a digit that does not repeat with the tile or the record would
// move the address out of it.
func (l *Layout) validDigit(p *Part, d Digit) error {
	extent := l.TileM
	switch d.Axis {
	case "m", "n":
	case "k":
		extent = l.RecordK
		if p.Header {
			return errorf(partName(p), "lies in the header, which all of K shares: it can have no k digit")
		}
	default:
		return errorf(partName(p), "digit of axis %q; there are m, n and k", d.Axis)
	}
	period := d.In
	if period == 0 {
		period = d.Div * d.Mod
	}
	if d.Div < 1 || d.Mod < 1 || d.Div > extent || d.Mod > extent || d.In < 0 || extent%period != 0 {
		return errorf(partName(p), "digit %v; div and mod must be at least 1 and their product, or in, must divide the %d of the tile or record", d, extent)
	}
	if d.Stride < -2*maxTileBytes || d.Stride > 2*maxTileBytes {
		return errorf(partName(p), "digit %v has stride %d; it is too large", d, d.Stride)
	}
	return nil
}

// digitSums are the sums over digits of rows and of columns: what layouts are validated
// by would else be divided for every element of a record, which may be a million.
type digitSums struct{ rows, columns []int }

func tabulate(digits []Digit, rows, columns int) digitSums {
	t := digitSums{make([]int, rows), make([]int, columns)}
	for _, d := range digits {
		of := t.rows
		if d.Axis == "k" {
			of = t.columns
		}
		for i := range of {
			of[i] += d.At(i) * d.Stride
		}
	}
	return t
}

// sum is sumDigits.
func (t *digitSums) sum(row, k int) int { return t.rows[row] + t.columns[k] }

// occupancy says who lies at each byte of a header followed by one record.
type occupancy struct {
	parts []Part
	owner []uint8 // 1 + index of the part, 0 if free
	mark  []int32 // whole elements: where the element begins; codes: the bits taken
}

// occupy marks the bytes of part i, or reports where they lie outside or on
// something else.
func (l *Layout) occupy(used *occupancy, i int) error {
	p := &l.Parts[i]
	columns := l.RecordK
	lo, hi := l.HeaderBytes, l.HeaderBytes+l.RecordBytes
	if p.Header {
		lo, hi = 0, l.HeaderBytes
		if p.Elem != Invalid {
			columns = 1
		}
	}
	offset := tabulate(p.Digits, l.TileM, columns)
	if p.Elem == Invalid {
		return used.codes(i, offset, tabulate(p.Fields, l.TileM, columns), lo, hi)
	}
	for row := range l.TileM {
		last := math.MinInt
		for k := range columns {
			at := p.Base + offset.sum(row, k)
			if at == last {
				continue // the same element
			}
			if err := used.element(i, at, lo, hi, row, k); err != nil {
				return err
			}
			last = at
		}
	}
	return nil
}

// codes is occupy of part i, which has codes.
func (u *occupancy) codes(i int, offset, field digitSums, lo, hi int) error {
	p := &u.parts[i]
	var joined map[int]uint8 // address and word of a codeword -> its codes seen
	if p.Codewords != nil {
		joined = map[int]uint8{}
	}
	fields, bytes := p.NumFields(), p.masks()
	for row := range offset.rows {
		for k := range offset.columns {
			at, f := p.Base+offset.sum(row, k), field.sum(row, k)
			if f < 0 || f >= fields {
				return errorf(partName(p), "row %d, k %d has field %d; the map has %d", row, k, f, fields)
			}
			word, code := p.Place(f)
			if joined != nil {
				codeword := at*len(p.Map) + word
				seen := joined[codeword]
				if seen>>code&1 != 0 {
					return errorf(partName(p), "row %d, k %d shares code %d of the codeword at byte %d with another element", row, k, code, at)
				}
				joined[codeword] = seen | 1<<code
				if seen != 0 {
					continue // the bits are marked
				}
			}
			for _, b := range bytes[word] {
				if err := u.bits(i, at+b.at, b.mask, lo, hi, row, k); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func outside(p *Part, at, lo, hi, row, k int) error {
	where := "the record; base counts from the tile's start and includes header_bytes"
	if p.Header {
		where = "the header"
	}
	return errorf(partName(p), "row %d, k %d lies at byte %d, outside bytes %d to %d of %s", row, k, at, lo, hi, where)
}

// element takes the bytes of a whole element; several (row, k) may share it.
func (u *occupancy) element(i, at, lo, hi, row, k int) error {
	p := &u.parts[i]
	if at < lo || at+p.Elem.Bytes() > hi {
		return outside(p, at, lo, hi, row, k)
	}
	for b := at; b < at+p.Elem.Bytes(); b++ {
		if u.owner[b] != 0 && (int(u.owner[b]) != i+1 || int(u.mark[b]) != at) {
			return errorf(partName(p), "row %d, k %d shares byte %d with part %q", row, k, b, u.parts[u.owner[b]-1].Name)
		}
		u.owner[b], u.mark[b] = uint8(i+1), int32(at)
	}
	return nil
}

// masked is bits of a byte that lies `at` bytes behind a cell.
type masked struct {
	at   int
	mask int32
}

// masks are the bits of each code of a cell, one mask for each byte. A bit that is there twice has another mask.
func (p *Part) masks() [][]masked {
	out := make([][]masked, len(p.Map))
	for i, code := range p.Map {
		for _, b := range code {
			at, bit := b.Word*p.WordStride, int32(1)<<b.Bit
			same := func(x masked) bool { return x.at == at && x.mask&bit == 0 }
			if j := slices.IndexFunc(out[i], same); j >= 0 {
				out[i][j].mask |= bit
			} else {
				out[i] = append(out[i], masked{at, bit})
			}
		}
	}
	return out
}

// bits takes bits of a code in a byte; nothing else may lie there.
func (u *occupancy) bits(i, at int, mask int32, lo, hi, row, k int) error {
	if at < lo || at >= hi {
		return outside(&u.parts[i], at, lo, hi, row, k)
	}
	if u.owner[at] != 0 && (int(u.owner[at]) != i+1 || u.mark[at]&mask != 0) {
		bit := bits.TrailingZeros32(uint32(mask))
		if int(u.owner[at]) == i+1 {
			bit = bits.TrailingZeros32(uint32(u.mark[at] & mask))
		}
		return errorf(partName(&u.parts[i]), "row %d, k %d shares bit %d of byte %d with part %q", row, k, bit, at, u.parts[u.owner[at]-1].Name)
	}
	u.owner[at] = uint8(i + 1)
	u.mark[at] |= mask
	return nil
}

// Fits reports why l cannot hold weights of format w, or nil: it needs a part
// "codes" of w.Bits bits, or of codewords for its levels, and one for everything of w.Shared, of its type (scales of
// one level also of another type), with no two numbers at one address. A record
// must be whole groups and super-blocks, or these whole records (each then repeats
// the numbers).
func (l *Layout) Fits(w Weight) error {
	if err := w.Validate(); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return err
	}
	codes := l.Part(Codes)
	switch {
	case codes == nil || codes.Elem != Invalid || codes.Header:
		return errorf("layout", "has no part %q with a bit map in its records", Codes)
	case codes.Codewords != nil && codes.Codewords.Levels != w.Codes():
		return errorf(partName(codes), "joins codes of %d levels; weight %s has %d", codes.Codewords.Levels, w, w.Codes())
	case codes.Codewords == nil && len(codes.Map[0]) != w.Bits:
		return errorf(partName(codes), "has %d bits per code; weight %s has %d", len(codes.Map[0]), w, w.Bits)
	}
	for _, x := range w.Shared() {
		if x.Span > 0 && l.RecordK%x.Span != 0 && x.Span%l.RecordK != 0 {
			return errorf("layout", "record_k %d is neither a multiple nor a divisor of the group of %d", l.RecordK, x.Span)
		}
	}
	return l.fitsShared(w)
}

// fitsShared: l has a part for everything that weights of w share, and for nothing
// else of that kind.
func (l *Layout) fitsShared(w Weight) error {
	shared := w.Shared()
	for _, name := range PartNames[ZerosPart:] {
		has := slices.ContainsFunc(shared, func(x Shared) bool { return x.Name == name })
		if has != (l.Part(name) != nil) {
			return errorf("layout", "part %q and weight %s: one is there without the other", name, w)
		}
	}
	for _, x := range shared {
		elems := []DType{x.Elem}
		if x.Name == Scales && x.Elem.Bits() > 8 {
			elems = []DType{F16, BF16, F32}
		}
		if err := l.fitsPart(w, x, elems); err != nil {
			return err
		}
	}
	return nil
}

func (l *Layout) fitsPart(w Weight, x Shared, elems []DType) error {
	p := l.Part(x.Name)
	switch {
	case p == nil:
		return errorf("layout", "has no part %q", x.Name)
	case !slices.Contains(elems, p.Elem):
		return errorf(partName(p), "elem is %s; it must be one of %v", p.Elem, elems)
	case x.Span > 0 && p.Header:
		return errorf(partName(p), "lies in the header, but weight %s has one per group: it must lie in the records", w)
	}
	at := map[int]int{} // address -> index within the tile and record
	for _, s := range l.slots(w, x, p) {
		if other, ok := at[s.offset]; ok && other != s.index {
			return errorf(partName(p), "row %d, k %d lies at byte %d, and so does another %s of weight %s", s.row, s.k, s.offset, x.noun, w)
		}
		at[s.offset] = s.index
	}
	return nil
}

// slot is one place of a shared number in a tile's header or record.
type slot struct {
	row, k int // within the tile, within the record
	offset int // Part.Offset
	index  int // equal for equal numbers within a tile and record
}

// slots lists the places of x in part p, one for every distinct pair of number
// and address.
func (l *Layout) slots(w Weight, x Shared, p *Part) []slot {
	columns := l.RecordK
	if p.Header {
		columns = 1
	}
	var slots []slot
	seen := map[[2]int]bool{}
	for row := range l.TileM {
		for k := range columns {
			s := slot{row: row, k: k, offset: p.Offset(row, k), index: row}
			switch {
			case x.perTensor(w.Per):
				s.index = 0
			case x.Span > 0:
				s.index = row*l.RecordK + k/x.Span
			}
			if id := [2]int{s.offset, s.index}; !seen[id] {
				seen[id] = true
				slots = append(slots, s)
			}
		}
	}
	return slots
}
