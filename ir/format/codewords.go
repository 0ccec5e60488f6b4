package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Codewords says that the codes of a cell are stored joined, Join of them in
// fewer bits than one by one: where the number of levels is no power of two, few
// of the bit patterns of several codes are used. Codes c0, c1, ..., each below
// Levels, are codeword Table[c0 + c1*Levels + c2*Levels^2 + ...].
type Codewords struct {
	Join   int    `json:"join"`
	Levels int    `json:"levels"`
	Table  []byte `json:"table"`
	// Apart says that each code decodes to a word of its own, instead of several codes to one word:
	// looking a code up takes no longer than moving it out of a word.
	Apart bool `json:"apart,omitempty"`
	// Fraction says that codewords are what FractionCodes makes: products take them apart, without tables.
	Fraction bool `json:"fraction,omitempty"`
}

// maxJoin is the most codes of a codeword: its 8 bits hold no more.
const maxJoin = 8

// JoinCodes makes codewords of join codes below levels, and says how many bits
// they have: as few as possible, at most 8. The last codes, join-mirror of them,
// make the codeword's low part, a number of base levels. The first mirror codes
// make a number of that base too, n, and its mirror image is that in which each code c
// is levels-1-c. The codeword has the lower one of the two and, in its highest bit,
// whether n is the upper one: n and its image differ in one bit.
//
//	levels 3, join 5, mirror 4     bit 7: n > 40     bits 6 to 0: 3*min(n, 80-n) + c4     n = c0 + 3*c1 + 9*c2 + 27*c3
//	levels 3, join 3, mirror 0                       bits 4 to 0: c0 + 3*c1 + 9*c2
func JoinCodes(levels, join, mirror int) (c *Codewords, width int, err error) {
	thing := fmt.Sprintf("codewords of %d codes of %d levels", join, levels)
	if join < 2 || levels < 2 || power(levels, join) > 256 {
		return nil, 0, errorf(thing, "there must be 2 to %d codes, and at most 256 ways to choose them", maxJoin)
	}
	if mirror < 0 || mirror > join {
		return nil, 0, errorf(thing, "%d codes to mirror; they must be some of the codes", mirror)
	}
	c = &Codewords{Join: join, Levels: levels, Table: make([]byte, power(levels, join))}
	n, rest := power(levels, mirror), power(levels, join-mirror)
	if mirror == 0 {
		width = bits.Len(uint(rest - 1))
		for i := range c.Table {
			c.Table[i] = byte(i)
		}
		return c, width, nil
	}
	width = bits.Len(uint((n-1)/2*rest+rest-1)) + 1
	if width > 8 {
		return nil, 0, errorf(thing, "mirrored they have %d bits, at most 8", width)
	}
	for i := range c.Table {
		lower, side := i%n, 0
		if lower > n-1-lower {
			lower, side = n-1-lower, 1
		}
		c.Table[i] = byte(side<<(width-1) | lower*rest + i/n)
	}
	return c, width, nil
}

// HeadCodes makes codewords of 8 bits from which tables of 64 entries find each code. The
// first head codes make a number h of base levels, the others a number t, whose count is
// rounded up to a multiple of 4. So a codeword without its two lowest bits says what h is
// and in which four t lies, and that four with those two bits says what t is.
//
//	levels 3, join 5, head 2     28*h + t     h = c0 + 3*c1, below 9     t = c2 + 3*c3 + 9*c4, below 27
func HeadCodes(levels, join, head int) (*Codewords, error) {
	c, width, err := JoinCodes(levels, join, 0)
	if err != nil {
		return nil, err
	}
	thing := fmt.Sprintf("codewords of %d codes of %d levels", join, levels)
	n, rest := power(levels, head), (power(levels, join-head)+3)/4*4
	switch {
	case head < 1 || head >= join:
		return nil, errorf(thing, "%d codes at the head; they must be some of the codes, not all", head)
	case width < 8:
		return nil, errorf(thing, "with %d codes at the head they would still have %d bits, which one lookup tells apart", head, width)
	case n*rest > 256 || rest > 64:
		return nil, errorf(thing, "%d codes at the head make %d times %d codewords; at most 256, and 64 for each, are possible", head, n, rest)
	}
	c.Apart = true
	for i := range c.Table {
		c.Table[i] = byte(i%n*rest + i/n)
	}
	return c, nil
}

// FractionCodes makes codewords of 8 bits that are fractions, in 256ths, rounded up, whose digits to the base of levels are the
// codes. The codeword times levels has the first code above its lowest 8 bits, and in them the codeword of the codes that follow.
//
//	levels 3, join 5     (256*n + 242) / 243     n = 81*c0 + 27*c1 + 9*c2 + 3*c3 + c4
func FractionCodes(levels, join int) (*Codewords, error) {
	c, _, err := JoinCodes(levels, join, 0)
	if err != nil {
		return nil, err
	}
	c.Apart, c.Fraction = true, true
	for i := range c.Table {
		n := 0
		for j := range join {
			n = n*levels + i/power(levels, j)%levels
		}
		c.Table[i] = byte((256*n + len(c.Table) - 1) / len(c.Table))
	}
	return c, nil
}

// power is base^n, or 257 if that is more, for any base of at least 2.
func power(base, n int) int {
	p := 1
	for ; n > 0 && p < 257; n-- { // the product of 257 might overflow
		p = min(p*base, 257)
	}
	return p
}

// Code is code number i of a codeword; ok is false if no codes have it.
func (c *Codewords) Code(word byte, i int) (code byte, ok bool) {
	n := bytes.IndexByte(c.Table, word)
	if n < 0 {
		return 0, false
	}
	return byte(n / power(c.Levels, i) % c.Levels), true
}

// Place is where field f is stored: index word into Map, and of a codeword,
// code number i.
func (p *Part) Place(f int) (word, i int) {
	if p.Codewords == nil {
		return f, 0
	}
	return f / p.Codewords.Join, f % p.Codewords.Join
}

// NumFields is the number of fields of a cell.
func (p *Part) NumFields() int {
	if p.Codewords == nil {
		return len(p.Map)
	}
	return len(p.Map) * p.Codewords.Join
}

// CodeBits is what a code takes, in bits: the words of a cell among its codes.
func (p *Part) CodeBits() float64 {
	words := map[int]bool{}
	for _, bits := range p.Map {
		for _, b := range bits {
			words[b.Word] = true
		}
	}
	return float64(8*len(words)) / float64(p.NumFields())
}

// Unjoined is the bit map of the codes themselves: Map, or, for codewords, the
// words into which a decoder takes them apart, one codeword after the
// other. Whole codes fill a word from bit 0 up.
//
//	3 levels, join 5:   word 0   3.1 3.0  2.1 2.0  1.1 1.0  0.1 0.0     field.bit, bit 7 first
//	                    word 1                              4.1 4.0
func (p *Part) Unjoined() [][]BitPos {
	if p.Codewords == nil {
		return p.Map
	}
	c := p.Codewords
	m := make([][]BitPos, p.NumFields())
	for f := range m {
		w, i := p.Place(f)
		m[f] = run(w*c.Words()+i/c.perWord(), i%c.perWord()*c.bits(), c.bits())
	}
	return m
}

// Words is how many words of 8 bits the codes of a codeword take apart.
func (c *Codewords) Words() int { return (c.Join + c.perWord() - 1) / c.perWord() }

func (c *Codewords) bits() int { return bits.Len(uint(c.Levels - 1)) }

func (c *Codewords) perWord() int {
	if c.Apart {
		return 1
	}
	return 8 / c.bits()
}

// Decoder is, by codeword of a part of width bits, word number w of its codes
// taken apart, and whether codes have this codeword.
func (c *Codewords) Decoder(width, w int) (value []byte, used []bool) {
	value, used = make([]byte, 1<<width), make([]bool, 1<<width)
	for n, word := range c.Table {
		used[word] = true
		for i := w * c.perWord(); i < min((w+1)*c.perWord(), c.Join); i++ {
			code := n / power(c.Levels, i) % c.Levels
			value[word] |= byte(code << (i % c.perWord() * c.bits()))
		}
	}
	return value, used
}

// StringMap is the bit map that strings codes of bits bits together, whatever
// the words: bit 0 of each follows the last bit of the one before. The last word
// may have bits left over.
func StringMap(bits, fields int) (m [][]BitPos, words int) {
	m = make([][]BitPos, fields)
	for f := range m {
		for i := f * bits; i < (f+1)*bits; i++ {
			m[f] = append(m[f], BitPos{Word: i / 8, Bit: i % 8})
		}
	}
	return m, (fields*bits + 7) / 8
}

// SignMap is StringMap without the last bit of each code: the last bits lie together, in words
// behind the others. Fields must be a multiple of 8.
func SignMap(bits, fields int) (m [][]BitPos, words int) {
	m, words = StringMap(bits-1, fields)
	for f := range m {
		m[f] = append(m[f], BitPos{Word: words + f/8, Bit: f % 8})
	}
	return m, words + fields/8
}

// valid returns an error that names the fault of the codewords of part p, or nil.
func (c *Codewords) valid(p *Part) error {
	bad := func(problem string, args ...any) error { return errorf(partName(p), problem, args...) }
	switch {
	case c.Join < 2 || c.Join > maxJoin:
		return bad("joins %d codes; it must be 2 to %d", c.Join, maxJoin)
	case c.Levels < 2 || power(c.Levels, c.Join) > 256:
		return bad("joins %d codes of %d levels; there must be 4 to 256 ways to choose them", c.Join, c.Levels)
	case len(c.Table) != power(c.Levels, c.Join):
		return bad("has %d codewords for %d codes of %d levels, which are %d", len(c.Table), c.Join, c.Levels, power(c.Levels, c.Join))
	case len(p.Map)*c.Join > maxFields:
		return bad("has %d fields; at most %d are allowed", len(p.Map)*c.Join, maxFields)
	}
	if f, err := FractionCodes(c.Levels, c.Join); c.Fraction && (err != nil || !bytes.Equal(c.Table, f.Table) || !c.Apart || len(p.Map[0]) != 8) {
		return bad("codewords are no fractions of 256ths in 8 bits, with codes apart")
	}
	for i, word := range c.Table {
		if int(word)>>len(p.Map[0]) != 0 {
			return bad("codeword %d does not fit %d bits", word, len(p.Map[0]))
		}
		if j := bytes.IndexByte(c.Table, word); j != i {
			return bad("codes %d and %d have the same codeword, %d", j, i, word)
		}
	}
	return nil
}

// codeword is the place of one codeword in the first record of tile 0, and the codes that it joins.
type codeword struct {
	at, word int32          // address, index into Map
	cells    [maxJoin]int32 // index of each code among the cells, -1: none, as if it were 0
}

// codewords lists the codewords of a tile's record in the order of their codes.
func (p *Packer) codewords(codes *Part) []codeword {
	var words []codeword
	index := map[[2]int32]int{}
	for i, c := range p.cells {
		word, code := codes.Place(int(c.field))
		id := [2]int32{c.at, int32(word)}
		n, known := index[id]
		if !known {
			n = len(words)
			index[id] = n
			w := codeword{at: c.at, word: int32(word)}
			for j := range w.cells {
				w.cells[j] = -1
			}
			words = append(words, w)
		}
		words[n].cells[code] = int32(i)
	}
	return words
}

// element is the index of a cell of a record among the codes of the matrix, -1
// outside it.
func (p *packer) element(cell int32, tile, record int) int {
	row, col := tile*p.l.TileM+int(cell)/p.l.RecordK, record*p.l.RecordK+int(cell)%p.l.RecordK
	if cell < 0 || row >= p.m || col >= p.k {
		return -1
	}
	return row*p.k + col
}

// words4 is 4 codewords in bytes side by side, whose codes are side by side, too: the four of code i begin at cells[i].
type words4 struct {
	at    int32
	cells []int32 // of the codes that there are
	scale []uint32
}

// joined sorts codewords: by fours where they can be made so, and the others.
func (p *Packer) joined(codes *Part, words []codeword) (fours []words4, rest []codeword) {
	slices.SortFunc(words, func(a, b codeword) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.word, b.word)) })
	for len(words) > 0 {
		if !p.sideBySide(codes.Codewords, words) {
			rest, words = append(rest, words[0]), words[1:]
			continue
		}
		four, scale := words4{at: words[0].at + p.fields[words[0].word][0].word}, uint32(1)
		for _, cell := range words[0].cells[:codes.Codewords.Join] {
			if cell >= 0 {
				four.cells, four.scale = append(four.cells, cell), append(four.scale, scale)
			}
			scale *= uint32(codes.Codewords.Levels)
		}
		fours, words = append(fours, four), words[4:]
	}
	return fours, rest
}

// sideBySide reports whether the first 4 codewords are whole bytes side by side, and their codes are.
func (p *Packer) sideBySide(c *Codewords, words []codeword) bool {
	if len(words) < 4 {
		return false
	}
	for j, w := range words[:4] {
		if w.at != words[0].at+int32(j) || w.word != words[0].word || len(p.fields[w.word]) != 1 || p.fields[w.word][0].mask != 255 {
			return false
		}
		for i, cell := range w.cells[:c.Join] {
			first := words[0].cells[i]
			if first < 0 && cell >= 0 || first >= 0 && cell != first+int32(j) {
				return false
			}
		}
	}
	return true
}

// putWords makes the codewords of a record from the codes of its cells and stores
// them into zeroed bits.
func (p *Packer) putWords(to, tile []byte) {
	c := p.l.Part(Codes).Codewords
	for i := range p.fours {
		w, n := &p.fours[i], uint32(0) // the numbers of 4 codewords, each below 256
		for j, cell := range w.cells {
			n += binary.LittleEndian.Uint32(tile[cell:]) * w.scale[j]
		}
		table, bytes := c.Table, to[w.at:][:4]
		bytes[0], bytes[1], bytes[2], bytes[3] = table[n&255], table[n>>8&255], table[n>>16&255], table[n>>24]
	}
	for i := range p.words {
		w := &p.words[i]
		n, weight := 0, 1
		for _, cell := range w.cells[:c.Join] {
			if cell >= 0 {
				n += weight * int(tile[cell])
			}
			weight *= c.Levels
		}
		for _, r := range p.fields[w.word] {
			to[w.at+r.word] |= (c.Table[n] >> r.from & r.mask) << r.to
		}
	}
}

// getWords reads the codes of a record that are in the matrix.
func (p *packer) getWords(codes, from []byte, tile, record int) error {
	c := p.l.Part(Codes).Codewords
	for _, w := range p.joins {
		var word byte
		for _, r := range p.fields[w.word] {
			word |= from[w.at+r.word] >> r.to & r.mask << r.from
		}
		number := bytes.IndexByte(c.Table, word)
		for i, cell := range w.cells[:c.Join] {
			e := p.element(cell, tile, record)
			if e < 0 {
				continue
			}
			if number < 0 {
				return p.noCodes(w, word, tile, record)
			}
			codes[e] = byte(number / power(c.Levels, i) % c.Levels)
		}
	}
	return nil
}

// noCodes names the row and the columns of a codeword that stands for nothing.
func (p *packer) noCodes(w codeword, word byte, tile, record int) error {
	row, cols := -1, []int{}
	for _, cell := range w.cells {
		if e := p.element(cell, tile, record); e >= 0 && (row < 0 || e/p.k == row) {
			row, cols = e/p.k, append(cols, e%p.k)
		}
	}
	return errorf(fmt.Sprintf("row %d, columns %v", row, cols), "no codes of weight %s have codeword %d; pack the matrix again", p.w, word)
}

// Mirrors says that JoinCodes made these codewords with mirrored codes. If no code is
// mirrored, a codeword is the number of its codes.
func (c *Codewords) Mirrors(mirror int) bool {
	made, _, err := JoinCodes(c.Levels, c.Join, mirror)
	return err == nil && bytes.Equal(made.Table, c.Table)
}
