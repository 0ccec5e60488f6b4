// Package template makes traces of products for tests by one nest of loops, whose decisions are the fields of a struct. Tests say with it which
// schedule they need, whether a space has it or not. Package search/space lists the schedules that are worth a try, and search/beam chooses among them.
package template

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// Choice is every decision that makes a trace.
type Choice struct {
	// Layout.
	AlongK    bool   // lanes are elements of K of one row, summed at the end, instead of rows
	Lanes     int    // 32-bit lanes of a vector
	Octets    bool   // a row has eight elements of K side by side, not four, for instructions that multiply two rows by two columns
	Rows      int    // vectors of rows (AlongK: rows) per tile
	RowFields int    // fields of a cell that are rows, the others are elements of K
	Cells     int    // cells of one vector that follow each other along K before the next row vector
	Map       string // bits within a cell
	Join      int    // codes per codeword, 0: stored one by one
	Mirror    int    // codes of a codeword whose mirror image differs in one bit
	Head      int    // codes of a codeword that all its bits but the lowest two tell, instead of Mirror
	Fill      int    // elements of K that a group is filled up to, 0: its own are whole cells
	Run       int    // row vectors of a run: their cells take turns in a record or group, then follows the next run; 0: all of a tile
	Lead      bool   // the data that several groups share, and group data not behind its codes, leads the record
	// Computation.
	Value  string // affine or lookup
	Hoist  string // init, flush or none
	Dot    int    // products per instruction: 4 into 32 bits, 2 or 1 into 16
	Below  int    // read_scaled, 0: shift every field down
	Flush  int    // cells repeated in the code; a sum of 16 bits is widened after them
	Cols   int    // columns per call
	Block  int    // row vectors per call, divides Rows
	Tiles  int    // whole tiles per call, side by side; 0 is 1
	Order  int    // order of the unrolled loops, index into orders; by tables bit 0: columns inside row vectors, bit 1: fields inside row vectors
	Serial bool   // cells are a loop of the kernel instead of repeated code
	Stage  string // loop at which decoded weights are kept, "": not
	Scale  string // scale_at
	nest.Streams
	Chunk   int     // activation chunk, 0: default
	Factor  string  // unrolled loop of K with accumulators of its own, "": none
	AtGroup bool    // the loop over groups inside a record is serial, not unrolled
	Super   bool    // with AtGroup super-scales are kept in registers, not read for each group
	Fission bool    // minimums of blocks of groups are summed in loops of their own
	Table   *Tables // by tables, nil: by dot products
}

// mostGroups is how many groups in a record are spelled out.
const mostGroups = 4

// orders are the orders of the unrolled loops inside the loop over cells:
// row vectors, row fields, fields along K, columns.
var orders = [][]string{
	{"r", "s", "f", "n"}, {"f", "s", "r", "n"}, {"f", "n", "s", "r"}, {"n", "r", "s", "f"}, {"r", "s", "n", "f"}, {"f", "s", "n", "r"},
}

// fewestCodes is the smallest number of codes of w that fill whole bytes.
func fewestCodes(w format.Weight) int {
	f := 1
	for f*w.Bits%8 != 0 {
		f *= 2
	}
	return f
}

// cellFields is the number of codes in a cell of c. Joined codes fill the fewest codewords that waste at most one bit.
func (c *Choice) cellFields(w format.Weight) int {
	if c.Join == 0 {
		return fewestCodes(w)
	}
	_, bits, err := format.JoinCodes(w.Codes(), c.Join, c.Mirror)
	n := 1
	for err == nil && (n*bits+1)%8 > 1 {
		n++
	}
	return n * c.Join
}

// builder collects the steps of one trace.
type builder struct {
	p     ir.Problem
	c     Choice
	t     schedule.Trace
	loops []string // serial and outer loops over K and rows, outermost first
	runs  []string // loops over the runs of row vectors of a tile
	turns []string // loops over the row vectors of a run

	super string // the loop over the super-blocks
	block string // the outermost loop over the groups of a block that is one integer
}

func (b *builder) add(s ...schedule.Step) { b.t = append(b.t, s...) }

// prefetch adds the step that asks for weights and activations, if any are.
func (b *builder) prefetch(s nest.Streams) {
	s.Rest = s.Rest && b.c.Tiles > 1 && s.Ahead+s.Far > 0
	if s != (nest.Streams{}) {
		b.add(schedule.Prefetch{Bytes: s.Ahead, Far: s.Far, Every: s.Every, Rest: s.Rest, Act: s.Act})
	}
}

func (b *builder) split(loop string, by int, outer, inner string) {
	b.add(schedule.Split{Loop: loop, By: by, Into: [2]string{outer, inner}})
}

func (b *builder) bind(loop, to string) { b.add(schedule.Bind{Loop: loop, To: to}) }

// Trace spells c out as steps for p. The trace may be illegal: that is for the
// steps to say.
func (c Choice) Trace(p ir.Problem) schedule.Trace {
	b := &builder{p: c.filled(p), c: c}
	if c.Fill > 0 {
		b.add(schedule.FillGroups{To: c.Fill})
	}
	if c.Table != nil {
		b.tables()
		return b.t
	}
	b.add(schedule.Decompose{Family: "dot", Value: c.Value})
	if c.Hoist != "none" {
		b.add(schedule.HoistZero{At: c.Hoist})
	}
	b.columns()
	b.rows()
	b.along()
	b.order()
	b.pack()
	b.accumulators()
	if c.Stage != "" {
		b.add(schedule.Stage{Value: "w", At: c.Stage})
	}
	if c.Super && c.AtGroup && p.Weight.Super > 0 {
		b.add(schedule.Stage{Value: "super", At: b.super})
	}
	if c.Fission && leastOfBlocks(p) {
		b.add(schedule.Fission{Loop: b.block})
	}
	if c.Scale == "begin" {
		b.add(schedule.ScaleAt{Where: c.Scale})
	}
	b.prefetch(c.Streams)
	return b.t
}

// leastOfBlocks says that groups have minimums and blocks of them are one integer.
func leastOfBlocks(p ir.Problem) bool { return p.Weight.Min && p.Block() > 1 }

// columns: n = Cols*nt + n.
func (b *builder) columns() {
	b.split("n", b.c.Cols, "nt", "nc")
	b.bind("nt", "outer")
	b.bind("nc", "unrolled")
}

// rows: m = mt, then tile of a call side, call block ro, row vector r, row field s, lane l.
func (b *builder) rows() {
	lanes := b.c.Lanes
	if b.c.AlongK {
		lanes = 1
	}
	vector := b.c.RowFields * lanes
	tile, in := b.c.Rows*vector, "mi"
	b.split("m", tile*max(b.c.Tiles, 1), "mt", in)
	b.bind("mt", "outer")
	if b.c.Tiles > 1 {
		b.split("mi", tile, "side", "ms")
		b.bind("side", "unrolled")
		in = "ms"
	}
	b.blocks(in, vector)
	b.split("mr", lanes, "s", "l")
	b.bind("s", "unrolled")
	switch t := b.c.Table; {
	case b.c.AlongK:
		b.bind("l", "unrolled")
	case t != nil && t.Pairs:
		b.split("l", lanes/2, "e", "l")
		b.bind("l", "vector")
		b.bind("e", "pair")
	default:
		b.bind("l", "vector")
	}
}

// blocks splits a tile into call blocks ro of row vectors r. A call of several runs has rb for them, and
// where a run is several calls, rq is for the runs.
func (b *builder) blocks(tile string, vector int) {
	block, run, in := b.c.Block, b.c.run(), "mb"
	if block < run && run < b.c.Rows {
		b.split(tile, run*vector, "rq", "mq")
		b.bind("rq", "outer")
		b.runs, tile = []string{"rq"}, "mq"
	}
	b.split(tile, block*vector, "ro", in)
	b.bind("ro", "outer")
	if 1 < run && run < block {
		b.split(in, run*vector, "rb", "mc")
		b.bind("rb", "unrolled")
		in = "mc"
	}
	b.split(in, vector, "r", "mr")
	b.bind("r", "unrolled")
	switch {
	case run == b.c.Rows || run > block:
		b.turns = []string{"ro", "r"}
	case run == 1:
		b.runs = []string{"ro", "r"}
	case run == block:
		b.runs, b.turns = []string{"ro"}, []string{"r"}
	default:
		b.runs, b.turns = []string{"ro", "rb"}, []string{"r"}
	}
}

// vectors are the loops over the row vectors of a call.
func (b *builder) vectors() (loops []string) {
	if b.c.Tiles > 1 {
		loops = append(loops, "side")
	}
	if slices.Contains(b.runs, "rb") {
		loops = append(loops, "rb")
	}
	return append(loops, "r")
}

// calls are the loops over blocks of columns and of rows.
func (b *builder) calls() []string {
	if slices.Contains(b.runs, "rq") {
		return []string{"nt", "mt", "rq", "ro"}
	}
	return []string{"nt", "mt", "ro"}
}

// tiles are the loops over tiles.
func (b *builder) tiles() []string {
	if b.c.Tiles > 1 {
		return []string{"mt", "side"}
	}
	return []string{"mt"}
}

// along: the loops over K. Without groups k = ks, cells u, field f, (lanes x,) j;
// with groups the record is a weight group or a
// super-block, and u counts the cells of a group: see groups.
func (b *builder) along() {
	c := b.c
	b.cellLoops(c.cellK(b.p.Weight))
	b.bind("u", "unrolled")
	b.split("ku", c.along(), "f", "kx")
	b.bind("f", "unrolled")
	if c.tiled() {
		b.split("nc", 2, "nc", "c")
		b.add(schedule.Tensorize{Loop: "kx", To: "tile", Rows: "l", Columns: "c"})
		return
	}
	b.split("kx", 4, "x", "j")
	if c.AlongK || c.Octets {
		b.bind("x", "vector")
	} else {
		b.bind("x", "unrolled")
	}
	in := "j"
	if c.narrow() {
		b.split("j", c.Dot, "jo", "ji")
		b.bind("jo", "vector")
		in = "ji"
	}
	b.add(schedule.Tensorize{Loop: in, To: fmt.Sprintf("dot%d", c.Dot)})
}

// groups: records gt, and in each the groups gi of g elements; what shares a scale or a
// book in a record and is more than g elements is counted by a loop of its own around
// gi: gb, and gc and gd in it.
func (b *builder) groups(g int) {
	w, inner := b.p.Weight, b.p.Unit()
	b.split("g", inner/g, "gt", "gi")
	b.loops, b.super = append(b.loops, "gt"), "gt"
	spans, names := []int{w.Super, b.p.Act.Group, w.Group, w.BookGroup}, []string{"gb", "gc", "gd"}
	blocks := "gt"
	slices.Sort(spans)
	for _, span := range slices.Backward(slices.Compact(spans)) {
		if span <= g || span >= inner {
			continue
		}
		b.split("gi", span/g, names[0], "gi")
		b.loops = append(b.loops, names[0])
		if span == w.Super {
			b.super = names[0]
		}
		if span == g*b.p.Block() {
			blocks = names[0]
		}
		if !b.c.AtGroup {
			b.bind(names[0], "unrolled")
		}
		inner, names = span, names[1:]
	}
	b.loops = append(b.loops, "gi")
	b.block = b.loops[slices.Index(b.loops, blocks)+1]
	if g == w.Super && g < b.p.Unit() {
		b.super = "gi"
	}
	if !b.c.AtGroup || len(b.loops) > 2 && inner/g <= mostGroups {
		b.bind("gi", "unrolled")
	}
}

// cellLoops: the loops down to one cell, ku; a record kt or a group is ks times the
// cells u of a sum. Around ks, kb counts what has one book.
func (b *builder) cellLoops(cell int) {
	c, k, all := b.c, "k", b.p.GroupK()
	if all > 0 {
		b.groups(all)
	} else {
		k, all = "kc", cell*c.Cells
		b.split("k", all, "kt", k)
		b.loops = append(b.loops, "kt")
	}
	if span := b.p.Weight.BookGroup; span > 0 && span < all {
		b.split(k, span, "kb", "kd")
		b.loops = append(b.loops, "kb")
		if k = "kd"; !c.Serial {
			b.bind("kb", "unrolled")
		}
	}
	b.split(k, cell*max(c.Flush, 1), "ks", "kk")
	b.loops = append(b.loops, "ks")
	b.split("kk", cell, "u", "ku")
	b.loops = append(b.loops, "u")
	if !c.Serial {
		b.bind("ks", "unrolled")
	}
}

// tiled says that an instruction multiplies rows by two columns.
func (c *Choice) tiled() bool { return c.Octets && c.Cols%2 == 0 }

// narrow says that products are summed in 16 bits first.
func (c *Choice) narrow() bool { return c.Dot < 4 }

// dots are the innermost lanes over K.
func (b *builder) dots() []string {
	switch {
	case b.c.tiled():
		return []string{"kx"}
	case b.c.narrow():
		return []string{"x", "jo", "ji"}
	}
	return []string{"x", "j"}
}

func (b *builder) order() {
	order := append(b.calls(), b.loops...)
	for _, o := range orders[b.c.Order%len(orders)] {
		switch o {
		case "n":
			order = append(order, "nc")
		case "r":
			order = append(order, b.vectors()...)
		default:
			order = append(order, o)
		}
	}
	if order = append(order, "l"); b.c.tiled() {
		order = append(order, "c")
	}
	b.add(schedule.Reorder{Order: append(order, b.dots()...)})
}

func (b *builder) pack() {
	c := b.c
	order := append([]string{"mt"}, b.loops...)
	i := 2 // after the tile and the record
	if b.p.GroupK() > 0 {
		i = 3
	}
	order = slices.Concat(order[:i], b.runs, order[i:], b.turns)
	order = append(append(b.tiles(), order[1:]...), "words", "l")
	b.add(schedule.Pack{Tensor: "codes", Order: append(order, b.dots()...), Fields: []string{"s", "f"}, Map: c.Map, Join: c.Join, Mirror: c.Mirror, Head: c.Head, Lead: c.Lead && b.leads()})
	if c.Chunk > 0 {
		b.add(schedule.Pack{Tensor: "act", Chunk: c.Chunk})
	}
}

// leads says that there is something to lead a record of several groups.
func (b *builder) leads() bool {
	return b.p.Unit() > b.p.GroupK() && slices.ContainsFunc(b.p.Weight.Shared(), func(x format.Shared) bool { return x.Span > 0 })
}

func (b *builder) accumulators() {
	c := b.c
	if (c.AlongK || c.Octets) && !c.tiled() {
		b.add(schedule.Rfactor{Loop: "x"})
	}
	if c.Below > 0 {
		b.add(schedule.ReadScaled{Below: c.Below})
	}
	if c.Factor != "" {
		b.add(schedule.Rfactor{Loop: c.Factor})
	}
	if c.narrow() {
		b.add(schedule.Rfactor{Loop: "jo"})
		b.add(schedule.WidenEvery{Loop: "u"})
		b.add(schedule.Accumulate{Type: "i16"})
	}
}

// run is how many row vectors of a tile take turns cell by cell.
func (c *Choice) run() int {
	if c.Run == 0 || c.Table != nil {
		return c.Rows
	}
	return c.Run
}

// along is how many elements of K a field of c is.
func (c *Choice) along() int {
	if c.AlongK {
		return 4 * c.Lanes
	}
	if c.Octets {
		return 8
	}
	return 4
}

// cellK is how many elements of K a cell of c has.
func (c *Choice) cellK(w format.Weight) int {
	return c.along() * max(c.cellFields(w)/c.RowFields, 1)
}

// filled is p with groups as c fills them up.
func (c *Choice) filled(p ir.Problem) ir.Problem {
	if q, err := p.Filled(c.Fill); err == nil {
		return q
	}
	return p
}

// Align makes cells so small, and records so large, that what shares a scale or a book
// is whole cells of whole records.
func (c *Choice) Align(p ir.Problem) {
	p = c.filled(p)
	span, w := p.SpanK(), p.Weight
	for c.Join == 0 && span > 0 && c.RowFields < c.cellFields(w) && span%c.cellK(w) != 0 {
		c.RowFields *= 2
	}
	for record := c.cellK(w) * c.Cells; w.BookGroup > 0 && c.Cells*c.cellK(w)%w.BookGroup != 0; {
		c.Cells += record / c.cellK(w)
	}
}
