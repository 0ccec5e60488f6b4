package template

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/schedule"
)

// Tables is what a schedule by tables decides besides rows, columns, Flush,
// Cells, Serial, Scale and Streams of its Choice.
type Tables struct {
	Digits string // bits, signs, codes or levels
	Parts  []int
	Mirror bool   // tables are stored by half
	Signs  bool   // the signs of mirrored codewords lie together
	Low    int    // bits of the lower one of two bytes of an entry, 0: 16 bits, or as Exact says
	Round  bool   // entries are one byte, without their lowest Low bits; products are bounded
	Halve  string // with Round, the loop whose lookups are averaged, "": added
	Exact  bool   // bytes with residuals
	Float  bool   // entries are f32
	Along  int    // units of K that a vector reads, summed by dot products; 1: lanes are rows only
	Narrow bool   // 16-bit sums, widened after Flush units
	Bytes  bool   // sums of bytes, of Flush cells, in 16-bit sums of Cells
	Pairs  bool   // pairs of rows are neighbours in narrow sums
}

// fields is how many units of K share a cell: as few as fill words of the width of
// entries, of codewords up to a sixteenth of one, but at least a bit.
func (c *Tables) fields(w format.Weight) int {
	word := c.word()
	if c.Digits == ir.DigitLevels {
		_, bits, err := format.JoinCodes(w.Codes(), c.Parts[0], c.mirrored(c.Parts[0]))
		f := 1
		for err == nil && ((word-len(c.Parts)*bits*f%word)%word > max(word/16, 1) || c.Signs && len(c.Parts)*f%8 != 0) {
			f++
		}
		return f
	}
	digits := c.unit()
	if c.Digits == ir.DigitCodes {
		digits *= w.Bits
	}
	f := 1
	for digits*f%word != 0 {
		f *= 2
	}
	return f
}

// mirrored is how many codes of a codeword of join are mirrored.
func (c *Tables) mirrored(join int) int {
	if c.Mirror {
		return join
	}
	return 0
}

// bytes says that entries are bytes.
func (c *Tables) bytes() bool { return c.Low > 0 || c.Exact }

// word is the width of a lane's index.
func (c *Tables) word() int {
	switch {
	case c.Float:
		return 32
	case c.bytes():
		return 8
	}
	return 16
}

// kind is the step that says so.
func (c *Tables) kind() schedule.QuantizeTable {
	switch {
	case c.Float:
		return schedule.QuantizeTable{Kind: "f32"}
	case c.Round:
		return schedule.QuantizeTable{Kind: "q8", Low: c.Low}
	case c.Low > 0:
		return schedule.QuantizeTable{Kind: "split", Low: c.Low}
	case c.Exact:
		return schedule.QuantizeTable{Kind: "u8"}
	}
	return schedule.QuantizeTable{Kind: "i16"}
}

// unit is the elements of K of an index.
func (c *Tables) unit() int {
	n := 0
	for _, g := range c.Parts {
		n += g
	}
	return n
}

// tables spells out a schedule by tables.
func (b *builder) tables() {
	c, t := b.c, b.c.Table
	b.add(schedule.Decompose{Family: "table", Value: t.Digits, Parts: t.Parts, Mirror: t.Mirror})
	b.add(t.kind())
	if c.Hoist != "none" {
		b.add(schedule.HoistZero{At: c.Hoist})
	}
	b.columns()
	b.rows()
	b.units()
	order := b.calls()
	if t.Exact { // the residuals of few iterations after all bytes
		order = append(order, "half")
	}
	order, lanes := append(order, b.loops...), b.lanes("q")
	vectors := append(b.vectors(), "s")
	if c.Order/2%2 == 0 {
		order = append(order, "f")
	} else { // all indices of a vector of codes in turn: it is held for fewer lookups, their tables for more
		vectors = append(vectors, "f")
	}
	if t.Exact && t.Bytes { // a byte holds one entry, and is widened around the lanes
		order, lanes = append(order, "q"), b.lanes()
	}
	order = append(order, "plane", "part")
	if !t.Exact {
		order = append(order, "half")
	}
	if c.Order%2 == 0 {
		order = append(append(order, "nc"), vectors...)
	} else {
		order = append(append(order, vectors...), "nc")
	}
	b.add(schedule.Reorder{Order: append(order, lanes...)})
	b.packUnits()
	if t.Halve != "" {
		b.add(schedule.HalvingAdd{Loop: t.Halve})
	}
	switch {
	case t.Bytes:
		loop := "u"
		if t.Exact {
			loop = "q"
		}
		b.add(schedule.WidenEvery{Loop: "ks"}, schedule.Accumulate{Type: "i16"}, schedule.WidenEvery{Loop: loop}, schedule.Accumulate{Type: "i8"})
	case t.Narrow:
		b.add(schedule.WidenEvery{Loop: "u"}, schedule.Accumulate{Type: "i16"})
	}
	if c.Scale == "begin" {
		b.add(schedule.ScaleAt{Where: c.Scale})
	}
	b.prefetch(c.Streams)
}

// lanes are the loops over the rows of a vector, and more.
func (b *builder) lanes(more ...string) []string {
	if b.c.Table.Pairs {
		return append([]string{"l", "e"}, more...)
	}
	return append([]string{"l"}, more...)
}

// units: the loops over K. k = record kt, ks, units u of a sum, fields f, lanes q.
func (b *builder) units() {
	c, t := b.c, b.c.Table
	b.cellLoops(max(t.fields(b.p.Weight)/c.RowFields, 1) * t.Along)
	if !c.Serial || t.Bytes {
		b.bind("u", "unrolled")
	}
	b.split("ku", t.Along, "f", "q")
	for _, l := range []string{"f", "plane", "part", "half"} {
		b.bind(l, "unrolled")
	}
	switch {
	case t.Along == 1:
		b.bind("q", "unrolled")
	case t.bytes():
		b.add(schedule.Tensorize{Loop: "q", To: "dot4"})
	default:
		b.add(schedule.Tensorize{Loop: "q", To: "dot2"})
	}
}

// packUnits packs the bits of a plane, whole codes, or codewords, as indices want them.
func (b *builder) packUnits() {
	t := b.c.Table
	order := append(append(b.tiles(), b.loops...), "ro")
	fields := []string{"s", "f", "digit"}
	last, word := append([]string{"r", "words"}, b.lanes("q")...), 0
	switch {
	case t.Float:
		word = 4
	case !t.bytes(): // neighbouring lanes have their bytes beside each other
		last = append([]string{"r"}, b.lanes("q", "words")...)
	}
	switch t.Digits {
	case ir.DigitCodes:
		b.add(schedule.Pack{Tensor: "codes", Order: append(order, last...), Fields: fields, Map: "dense", Word: word})
		return
	case ir.DigitLevels:
		bits := map[bool]string{false: "words", true: "signs"}[t.Signs]
		b.add(schedule.Pack{Tensor: "codes", Order: append(order, last...), Fields: fields, Map: bits, Join: t.Parts[0], Mirror: t.mirrored(t.Parts[0]), Word: word})
		return
	}
	b.add(schedule.Pack{Tensor: "codes", Order: append(append(order, "planes"), last...), Fields: fields, Map: "planes", Word: word})
}

// Floats is a schedule of p by tables of f32 activations, of one vector of rows. A word has 32 bits and holds all the indices that fit. Where a
// group ends within a word, neighbouring rows share the word.
func Floats(p ir.Problem, lanes int) Choice {
	c := Choice{Lanes: lanes, Rows: 1, Block: 1, Cols: 1, RowFields: 1, Cells: 1, Flush: 1, Hoist: "none", Order: 1, Scale: "end", Serial: true}
	c.Table = floatTable(p)
	c.shareWords(p)
	g := p.GroupK()
	c.AtGroup = g > 0 && p.Weight.Unit()/g > mostGroups
	return c
}

// shareWords puts several rows in each word until every group ends at the end of a word. Rows can share only words of
// codes. A number that joins several codes fills a word of one row, so joined codes become plain codes first.
func (c *Choice) shareWords(p ir.Problem) {
	for g := p.GroupK(); g > 0 && g%(c.Table.unit()*max(c.Table.fields(p.Weight)/c.RowFields, 1)) != 0; {
		if c.Table.Digits == ir.DigitLevels {
			c.Table.Digits = ir.DigitCodes
		} else {
			c.RowFields *= 2
		}
	}
}

// floatTable returns tables of f32 activations. An index stands for `Act.Float` activations. It is made of codes, or of codes joined to one
// number where that takes fewer bits.
func floatTable(p ir.Problem) *Tables {
	w, by := p.Weight, p.Act.Float
	t := &Tables{Digits: ir.DigitCodes, Parts: []int{by}, Float: true, Along: 1}
	if _, bits, err := format.JoinCodes(len(w.Levels), by, 0); err == nil && bits < by*w.Bits {
		t.Digits = ir.DigitLevels
	}
	return t
}
