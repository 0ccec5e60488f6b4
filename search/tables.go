package search

import (
	"fmt"
	"math/rand"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TableChoice is what a schedule by tables decides besides rows, columns, Flush,
// Cells, Serial, Scale and Streams of its Choice.
type TableChoice struct {
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
	Keep   bool   // the index in a register for all columns
}

// fields is how many units of K share a cell: as few as fill words of the width of
// entries, of codewords up to a sixteenth of one, but at least a bit.
func (c *TableChoice) fields(w format.Weight) int {
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
func (c *TableChoice) mirrored(join int) int {
	if c.Mirror {
		return join
	}
	return 0
}

// bytes says that entries are bytes.
func (c *TableChoice) bytes() bool { return c.Low > 0 || c.Exact }

// word is the width of a lane's index.
func (c *TableChoice) word() int {
	switch {
	case c.Float:
		return 32
	case c.bytes():
		return 8
	}
	return 16
}

// kind is the step that says so.
func (c *TableChoice) kind() schedule.QuantizeTable {
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
func (c *TableChoice) unit() int {
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
	if t.Keep {
		at := "half"
		if t.Exact {
			at = "part"
		}
		b.add(schedule.Stage{Value: "x", At: at})
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

// exact is how indices of tables with residuals are made for p, nil if there are none.
func exact(p ir.Problem) *TableChoice {
	for _, x := range []TableChoice{{Digits: ir.DigitBits, Parts: []int{4}}, {Digits: ir.DigitCodes, Parts: []int{2}}} {
		d, err := ir.Decompose(p.Weight, x.Digits, x.Parts...)
		t := ir.Tables{Decomposition: d, Elem: format.U8, Residual: true}
		if err == nil && p.GroupK() == 0 && !p.Act.Floats() && t.Check() == nil {
			return &x
		}
	}
	return nil
}

// parts are ways to cut an index of c's digits of w for which there are lookups.
func (c *TableChoice) parts(w format.Weight) (out [][]int) {
	bits, digits, split := w.Bits, c.Digits, c.bytes()
	switch {
	case digits == ir.DigitLevels:
		for g := 2; ; g++ {
			if _, _, err := format.JoinCodes(w.Codes(), g, c.mirrored(g)); err != nil {
				return out
			}
			out = append(out, []int{g}, []int{g, g, g})
		}
	case c.Mirror && split:
		return [][]int{{5}, {5}, {8}, {4, 4}, {3}}
	case c.Mirror:
		return [][]int{{6, 5, 5}, {6, 5, 5}, {5, 5, 6}, {8}, {4}}
	case digits != ir.DigitCodes && split:
		return [][]int{{4}, {4}, {2}, {4, 4}, {1}}
	case digits != ir.DigitCodes:
		return [][]int{{5, 5, 6}, {5, 5, 6}, {4, 4, 4, 4}, {4}, {6, 2}}
	case bits == 1:
		return [][]int{{4}, {5, 3}, {4, 4}}
	case bits == 2:
		return [][]int{{2}, {3, 3, 2}, {2, 2}, {1}}
	case bits == 3:
		return [][]int{{1}, {2}, {1, 1}}
	}
	return [][]int{{1}, {1, 1}}
}

// sampleTables makes c a random schedule by tables.
func (c *Choice) sampleTables(rng *rand.Rand, p ir.Problem, m lower.Machine) {
	t := &TableChoice{Digits: pick(rng, ir.DigitBits, ir.DigitSigns, ir.DigitCodes), Low: pick(rng, 0, 0, 8, pick(rng, 8, 7, 6, 5)), Along: 1, Keep: rng.Intn(3) == 0}
	c.Act = pick(rng, tablesAhead...)
	t.sampleDigits(rng, p.Weight)
	t.sampleEntries(rng, p)
	c.Table, c.AlongK, c.Octets, c.RowFields, c.Chunk = t, false, false, 1, 0
	c.sampleLanes(rng, m)
	c.sampleSums(rng)
	c.Cells = c.Flush * pick(rng, 1, 2, 4)
	for c.Block*c.Cols > 4 && c.Cols > 1 {
		c.Cols--
	}
	c.fitGroups(p, m)
}

// sampleDigits draws what digits of w indices are made of, and whether they are mirrored. Digits that w has not become others.
func (t *TableChoice) sampleDigits(rng *rand.Rand, w format.Weight) {
	if _, err := ir.Decompose(w, ir.DigitBits, 1); err != nil {
		t.Digits = ir.DigitCodes
	}
	t.Mirror = w.Symmetric() && rng.Intn(2) == 0
	if n := w.Codes(); n <= 16 && (n&(n-1) != 0 || t.Mirror) && rng.Intn(2) == 0 {
		t.Digits = ir.DigitLevels
	}
	switch {
	case t.Digits == ir.DigitSigns:
		t.Mirror = rng.Intn(2) == 0
	case t.Digits != ir.DigitLevels:
		t.Mirror = false
	}
	t.Signs = t.Mirror && t.Digits == ir.DigitLevels && rng.Intn(3) == 0
}

// sampleEntries draws what entries are, of the digits that were drawn, and how an index is cut.
func (t *TableChoice) sampleEntries(rng *rand.Rand, p ir.Problem) {
	if t.Mirror {
		t.Low = min(t.Low, mirrorLow)
	}
	x := exact(p)
	if x != nil && rng.Intn(3) == 0 {
		t.Digits, t.Exact, t.Low, t.Mirror, t.Signs = x.Digits, true, 0, false, false
	} else if t.Low > 0 && rng.Intn(4) == 0 {
		t.Round, t.Low, t.Halve = true, pick(rng, 3, 4), pick(rng, "", "f", "part", "u")
	}
	t.Parts = pick(rng, t.parts(p.Weight)...)
	if t.Exact {
		t.Parts = x.Parts
	}
}

// sampleLanes draws how many units of K a vector reads, and its lanes.
func (c *Choice) sampleLanes(rng *rand.Rand, m lower.Machine) {
	t, bits := c.Table, 16
	switch {
	case t.bytes() && rng.Intn(3) > 0:
		t.Along, bits = 4, 32
	case t.bytes():
		bits = 8
	case rng.Intn(3) == 0:
		t.Along, bits = 2, 32
	}
	c.Lanes = m.VecBits / bits
	if rng.Intn(4) == 0 {
		c.Lanes = max(c.Lanes/2, 4)
	}
}

// sampleSums draws what entries are summed in, of the lanes that were drawn, and if that is bytes, how many bits of an entry the lower one has.
func (c *Choice) sampleSums(rng *rand.Rand) {
	t := c.Table
	t.Narrow = t.Along == 1 && rng.Intn(3) > 0
	t.Bytes = t.Along == 1 && t.bytes() && rng.Intn(2) == 0
	if t.Halve != "" {
		t.Keep, t.Narrow, t.Bytes = false, t.Narrow && t.Halve != "u", t.Bytes && t.Halve != "u"
		c.Serial = c.Serial && t.Halve != "u"
	}
	t.Pairs = (t.Narrow || t.Bytes) && rng.Intn(3) > 0
	switch {
	case t.Bytes && t.Round:
		t.Low = pick(rng, 4, 5, 6)
	case t.Bytes && !t.Exact:
		t.Low = pick(rng, 5, 5, 6, 7)
	}
}

// fitGroups makes what c reads at once fit p's groups.
func (c *Choice) fitGroups(p ir.Problem, m lower.Machine) {
	g, t := p.GroupK(), c.Table
	if g == 0 {
		return
	}
	cell := t.unit() * t.fields(p.Weight)
	for t.Along > 1 && g%(cell*t.Along) != 0 {
		t.Along = 1
		c.Lanes = m.VecBits / 16
	}
	for c.Flush > 1 && g%(cell*t.Along*c.Flush) != 0 {
		c.Flush /= 2
	}
}

// Tables are chosen where a product by them is estimated to take less than this share
// of one by dot products: they take several times as long to prepare. All are fits between the nearest cases; many columns of groups are worse by tables than
// estimated, or, on a machine without dot4, by dot products. Figures: docs/lab/choices.md, tablesWin.
const (
	tablesWin           = 0.97
	tablesWinGroups     = 0.9
	tablesWinGroupsDot2 = 1.05
)

func (d *defaults) tablesWin() float64 {
	switch {
	case d.p.GroupK() == 0:
		return tablesWin
	case hasDot4(d.t):
		return tablesWinGroups
	}
	return tablesWinGroupsDot2
}

// mostTriedBits is the widest code that default schedules try tables for. With each bit
// more, an index stands for fewer codes; TableUses looks at more.
const mostTriedBits = 2

// chooseTables is the layout whose products by tables cost least, nil if there is none.
func (d *defaults) chooseTables() *candidate {
	if d.p.Weight.Bits > mostTriedBits {
		return nil
	}
	best, _ := d.cheapestTables(usualTables(d.p, d.t))
	return best
}

// cheapestTables is that of some layouts, or why none of them has a kernel.
func (d *defaults) cheapestTables(layouts []Choice) (best *candidate, err error) {
	least := 0.0
	for _, base := range layouts {
		l := d.candidate(base)
		if _, fail := l.use(1); fail != nil {
			err = telling(err, fail)
			continue
		}
		if cost := l.blocks(); best == nil || cost < least {
			best, least = l, cost
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

// tableForms lists the ways in which vectors look into tables of p, without the digits and parts of indices:
// bytes of 16 entries, two for an entry, whose sums are bytes; bytes along K, summed by
// dot products; entries of 16 bits, in lanes of rows or two of them by a dot product, and bytes with
// residuals, four neighbours of K at once or, where no instruction looks up among 64 bytes, in sums of 16 bits.
func tableForms(p ir.Problem, t lower.Target) []Choice {
	m := t.Machine()
	form := func(rows, lane, flush int, serial bool, x TableChoice) Choice {
		return Choice{Rows: rows, Lanes: m.VecBits / lane, RowFields: 1, Flush: flush, Serial: serial,
			Hoist: "flush", Order: 1, Scale: "end", Streams: m.Streams, Table: &x}
	}
	out := []Choice{
		form(1, 8, 4, true, TableChoice{Low: 5, Along: 1, Bytes: true, Pairs: true}),
		form(1, 32, 1, true, TableChoice{Low: 8, Along: 4}),
	}
	if hasLookup(t, format.I16, 32) {
		out = append(out,
			form(2, 16, 8, true, TableChoice{Along: 1, Narrow: true, Pairs: true}),
			form(1, 32, 1, true, TableChoice{Along: 2}))
	}
	switch {
	case exact(p) == nil:
	case hasLookup(t, format.U8, 64):
		out = append(out, form(4, 32, 1, false, TableChoice{Exact: true, Along: 4}))
	default:
		c := form(1, 8, 2, true, TableChoice{Exact: true, Along: 1, Bytes: true, Pairs: true})
		// Additions to one row vector wait for each other, two cycles each: two tiles. Figures: docs/lab/choices.md, tableForms.
		c.Tiles, c.Far = 2, 0
		out = append(out, c)
	}
	return out
}

// usualTables are the layouts that default schedules try: each form by vectors of rows, and
// bytes with residuals, with the largest tables that fit its registers.
// Tables stored by half are not among them: they gain too little for what they take to prepare. Neither are bounded ones. Figures: docs/lab/choices.md, usualTables.
func usualTables(p ir.Problem, t lower.Target) (out []Choice) {
	digits, narrow, wide := ir.DigitBits, []int{4}, []int{5, 5, 6}
	if p.Weight.Bits > 1 {
		digits, narrow, wide = ir.DigitCodes, []int{2}, []int{3, 3, 2}
	}
	for _, c := range tableForms(p, t) {
		x := c.Table
		switch {
		case x.Exact:
			x.Digits, x.Parts = exact(p).Digits, exact(p).Parts
		case x.Along > 1:
			continue
		case x.bytes():
			x.Digits, x.Parts = digits, narrow
		default:
			x.Digits, x.Parts = digits, wide
		}
		out = append(out, c.fitTables(p))
	}
	return out
}

// fitTables is c with records of the usual length and sums that end with groups.
func (c Choice) fitTables(p ir.Problem) Choice {
	if c.Table.Exact && !c.Table.Bytes { // a record is a cell, which has residuals or none
		c.Cells = 1
		return c
	}
	g, cell := p.GroupK(), c.Table.unit()*c.Table.fields(p.Weight)*c.Table.Along
	for g > 0 && c.Flush > 1 && g%(cell*c.Flush) != 0 {
		c.Flush /= 2
	}
	record := tableRecord
	if c.Table.Exact { // records are looked up again whole
		record /= 2
	}
	c.Cells = max(record/cell, c.Flush)
	c.AtGroup = g > 0 && p.Unit()/g > mostGroups
	return c
}

// hasLookup reports whether t looks up in tables of n entries of type e.
func hasLookup(t lower.Target, e format.DType, n int) bool {
	return lower.Can(t, func(r lower.Row) bool { return r.Op == vir.Lookup(n, false) && r.Dst.Elem == e })
}

// tableRecord is the usual length of a record of codes for tables: sums of 16 bits are
// widened after it.
const tableRecord = 256

// tableUse is the best schedule by tables for a width. A width that takes too many
// registers is followed by none that does not.
func (l *candidate) tableUse(cols int) (*scheduled, error) {
	for narrower, u := range l.best {
		if u == nil && narrower < cols {
			return nil, fmt.Errorf("%d columns are too many already", narrower)
		}
	}
	var all []Choice
	c := l.base
	least := 1 // rows of vectors
	if c.Table.Exact && c.Table.Along > 1 {
		least = c.Rows // fewer read the same bytes of tables for fewer products; figures: docs/lab/choices.md, tableUse
	}
	if c.Cols, c.Block = cols, c.Rows; cols == 1 && c.Table.Exact && c.Table.Bytes { // whole tiles, whatever they cost: see tableForms
		return l.build(c)
	}
	if c.Tiles > 1 { // their sums have no room for more columns
		c.Tiles, c.Streams = 0, l.m.Streams
	}
	for ; c.Block >= least; c.Block /= 2 {
		all = append(all, c)
		if cols > 1 {
			keep := *c.Table
			keep.Keep = true
			c := c
			c.Table = &keep
			all = append(all, c)
		}
	}
	return l.cheapest(all)
}

// blocks is the time of products of a column block of each width. Widths without a kernel
// are done in narrower blocks.
func (l *candidate) blocks() float64 {
	total, least := 0.0, 0.0
	for i, cols := range Widths {
		if u, err := l.use(cols); err == nil && (i == 0 || l.base.Table == nil || u.cost < least) {
			least = u.cost
		}
		read := reading(l.best[1].bytes) / float64(cols)
		if slow := l.m.TablesRead; slow > 0 && cols == 1 && l.base.Table != nil {
			read *= slow
		}
		total += max(least, read)
	}
	return total
}
