package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
)

// Widths are the column-block widths that a default schedule has kernels for, and
// the cheapest of Wider if its products cost less than at all Widths: it
// decodes a weight for more columns. More columns than these leave too few registers
// to formats with groups. Formats without groups that take long to decode may also have a
// kernel of Widest columns. Figures: docs/lab/choices.md, Widths.
var (
	Widths = []int{1, 2, 4, 8}
	Wider  = []int{12, 14}
	Widest = 22
)

// Use is a schedule for one width of column blocks, and the choice that it spells out.
type Use struct {
	Cols   int
	Trace  schedule.Trace
	Choice Choice
	// Kernel is the kernel of the trace, not printed, by whose cost the trace was chosen.
	// It is nil for a trace of another origin.
	Kernel *variant.Kernel
	// Prepare is the schedule that prepares activations for all schedules that this one was chosen with, nil: not chosen yet.
	Prepare schedule.Trace
}

// Default chooses schedules for p on a machine without measuring: one for each
// width, ascending, all for one packed buffer. The same arguments give the same traces.
//
// For each width it takes, among the row blocks and field scales whose
// accumulators fit the registers, the kernel whose instructions cost least per
// product, by the costs in the target's rows. A width that no choice fits, or
// whose products cost more than at a narrower width and that no wider one follows, is left out; width 1 is
// always there. Interrupted, it returns the error of ctx.
func Default(ctx context.Context, p ir.Problem, t lower.Target) ([]Use, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return newDefaults(ctx, p, t).usesOf("no default schedule", (*defaults).chooseLayout)
}

// DotUses is Default among schedules by dot products.
func DotUses(ctx context.Context, p ir.Problem, t lower.Target) ([]Use, error) {
	return newDefaults(ctx, p, t).usesOf(noDots, (*defaults).chooseDots)
}

const noDots = "no schedule by dot products"

// RowFieldUses is DotUses of codes as they are, on a machine with Memory.RowFields: default schedules have rows in a byte only where that was measured.
func RowFieldUses(ctx context.Context, p ir.Problem, t lower.Target) ([]Use, error) {
	return newDefaults(ctx, p, t).usesOf(noDots, func(d *defaults) (*candidate, error) {
		return d.chooseTile(layoutChoice(p, d.m, coding{}), true)
	})
}

// usesOf are the schedules of the layout that choose finds. Without one the error says
// that there is none. Results after an interruption are dropped.
func (d *defaults) usesOf(none string, choose func(*defaults) (*candidate, error)) (uses []Use, err error) {
	l, err := choose(d)
	if err == nil {
		uses = l.uses()
	}
	switch {
	case d.ctx.Err() != nil:
		return nil, d.ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%v on %s: %s: %w", d.p.Weight, d.m.Name, none, err)
	}
	return uses, nil
}

// uses are the schedules of all widths.
func (l *candidate) uses() []Use {
	var out, wide, waiting []Use
	least := math.Inf(1)
	for _, cols := range Widths {
		if u, err := l.use(cols); err == nil {
			both := l.withoutSuper(u.sideBySide(l.defaults)) // it changes no choice made by cost
			waiting = append(waiting, both.as(cols))
			if u.cost >= least {
				continue // more columns at once cost registers, and save no more than decoding
			}
			out, waiting, least = append(out, waiting...), nil, u.cost
		}
	}
	for _, cols := range Wider {
		if u, err := l.use(cols); err == nil && u.cost < least {
			wide, least = []Use{u.as(cols)}, u.cost
		}
	}
	if len(wide) > 0 { // so few columns would be done by a wider one
		out = append(append(out, waiting...), wide...)
	}
	if len(wide) > 0 && l.p.GroupK() == 0 {
		if u, err := l.use(Widest); err == nil && u.cost < worthWidest*least {
			out = append(out, u.as(Widest))
		}
	}
	return out
}

// as is u for cols columns.
func (u *scheduled) as(cols int) Use {
	return Use{Cols: cols, Trace: u.trace, Choice: u.choice, Kernel: u.built.kernel}
}

// worthWidest is the most that a product may cost by a kernel of Widest, of what it costs
// without: less is not worth the code. Figures: docs/lab/choices.md, worthWidest.
const worthWidest = 0.985

// defaults chooses the schedules of p on t, and lowers each trace once: ways to choose that begin apart come to the same ones (of the kernels of q3_k on amd64/avx2 that
// are tried, two in five), and most kernels that are tried take too many registers.
type defaults struct {
	ctx   context.Context // of one call
	p     ir.Problem
	t     lower.Target
	m     lower.Machine     // t's
	mu    sync.Mutex        // of known
	known map[string]*built // by trace, and whether values are computed again
}

// built is a kernel, what a product by it costs, and the bytes of a weight, or why there is no kernel, once that was found out. Of a hundred
// kernels five are chosen: one that was not the cheapest of any choices is dropped. Of 1264 default kernels none was chosen afterwards.
type built struct {
	once   sync.Once
	kernel *variant.Kernel // nil: dropped
	won    bool            // it was the cheapest of some choices, or of a width
	work   work
	bytes  float64
	err    error
}

func newDefaults(ctx context.Context, p ir.Problem, t lower.Target) *defaults {
	return &defaults{ctx: ctx, p: p, t: t, m: t.Machine(), known: map[string]*built{}}
}

// candidate is a packed layout and the best schedules for it that were asked for,
// by width: nil and why if there is none.
type candidate struct {
	*defaults
	base Choice
	best map[int]*scheduled
	none map[int]error
}

func (d *defaults) candidate(base Choice) *candidate {
	return &candidate{d, base, map[int]*scheduled{}, map[int]error{}}
}

// use is the best schedule of a width.
func (l *candidate) use(cols int) (*scheduled, error) {
	if _, asked := l.best[cols]; !asked {
		l.best[cols], l.none[cols] = l.find(cols)
		if u := l.best[cols]; u != nil {
			u.built.won = true
		}
	}
	return l.best[cols], l.none[cols]
}

// find chooses it. What asks for weights as the machine usually does may be a slow one.
func (l *candidate) find(cols int) (*scheduled, error) {
	u, err := l.cheapestOf(cols)
	if err != nil || u.choice.Streams != l.m.Streams || u.choice.Streams == u.streams(l.p, l.m) {
		return u, err
	}
	c := u.choice
	if c.Streams = u.streams(l.p, l.m); c.Tiles > 1 {
		c.Streams = ofEach(c.Streams, c.Tiles)
	}
	if other, err := l.build(c); err == nil {
		return other, nil
	}
	return u, nil // it has a kernel as it is
}

// cheapestOf is the kernel of a width that costs least by the first of the ways to spare registers that has one.
func (l *candidate) cheapestOf(cols int) (u *scheduled, err error) {
	if l.base.Table != nil {
		return l.tableUse(cols)
	}
	for _, c := range l.base.sparing(cols) {
		v, fail := l.widthUse(c, cols)
		if fail == nil && (u == nil || v.cost < u.cost) {
			u = v
		}
		if err = telling(err, fail); u != nil && u.cost < l.fewerCost(cols) {
			break
		}
	}
	if u != nil {
		return u, nil
	}
	return nil, err
}

// fewerCost is the least that a product of fewer columns costs. More that cost as much are not worth a kernel, though tile and time
// count them as one: what needs fewer registers is tried too, even by blocks that are not whole tiles.
func (l *candidate) fewerCost(cols int) float64 {
	least := math.Inf(1)
	for _, n := range Widths {
		if n >= cols {
			break
		}
		if u, err := l.use(n); err == nil {
			least = min(least, u.cost)
		}
	}
	return least
}

// sparing is c and, after it, what needs fewer and fewer registers: a loop over cells;
// for one column, which every product has, weights that are signed, without sums of
// activations, and scales that no other group waits for.
func (c Choice) sparing(cols int) []Choice {
	serial := c
	serial.Serial = true
	switch {
	case cols > 1 && c.Serial:
		return []Choice{c}
	case cols > 1:
		return []Choice{c, serial}
	}
	signed, alone := serial, serial
	signed.Hoist, alone.AtGroup = "none", true
	both := signed
	both.AtGroup = true
	return []Choice{c, serial, signed, alone, both}
}

// chooseLayout fixes what all widths share: whether activations are tables, codes are
// joined in codewords, and the tile. Fewer bytes come faster from memory, and take longer to decode: of
// one column and of a small block, which time counts.
func (d *defaults) chooseLayout() (*candidate, error) {
	if d.p.Act.Floats() {
		return d.chooseFloats()
	}
	dots, err := d.chooseDots()
	if err != nil {
		return nil, err
	}
	if l := d.chooseTables(); l != nil && l.blocks() < d.tablesWin()*dots.blocks() {
		return l, nil
	}
	return dots, nil
}

// chooseDots fixes it for products by dot products.
func (d *defaults) chooseDots() (best *candidate, err error) {
	plain := layoutChoice(d.p, d.m, coding{})
	best, err = d.chooseTile(plain, d.m.RowFields)
	if err != nil {
		return nil, err
	}
	if plain.Octets = d.m.Octets; plain.Octets { // one column takes longer
		if l, fail := d.chooseTile(plain, d.m.RowFields); fail == nil && l.time() < best.time() {
			best = l
		}
	}
	x, cost := d.quickest(tightest(d.p))
	if cost > best.time() {
		return best, nil
	}
	l, fail := d.chooseTile(layoutChoice(d.p, d.m, x), d.m.RowFields)
	if fail == nil && l.time() < best.time() {
		best = l
	}
	return best, nil
}

// quickest is the coding that a small kernel takes least time to decode, and its
// cost, infinite if there is none.
func (d *defaults) quickest(all []coding) (best coding, cost float64) {
	cost = math.Inf(1)
	for _, x := range all {
		c := layoutChoice(d.p, d.m, x)
		c.Rows, c.Block, c.Cols, c.Order, c.Below = 2, 2, 1, 0, 4
		ways := []Choice{c}
		if !hasDot4(d.t) {
			c.Below = 0
			ways = c.widenings(d.p, d.m.Narrow)
		} else if c.Head > 0 {
			ways = []Choice{c.fieldsApart()}
		}
		if u, err := d.cheapest(ways); err == nil && u.cost < cost {
			best, cost = x, u.cost
		}
	}
	return best, cost
}

// tightest lists the codings of the fewest bits per code, also with groups filled up to whole cells.
// In each coding the codes of whole decoded bytes are mirrored, or all, or none:
// a byte of both kinds has no symmetry that helps to decode it. Codewords of rows would do for any group, but take too many
// sums for more than two columns. Figures: docs/lab/choices.md, tightest.
func tightest(p ir.Problem) (out []coding) {
	least := float64(p.Weight.Bits)
	for _, x := range codings(p.Weight) {
		c := Choice{}
		x.use(&c)
		rate, inByte := float64(x.bits)/float64(x.join), 8/bits.Len(uint(p.Weight.Codes()-1))
		c.RowFields = 1
		to, ok := c.filling(p)
		if to > 0 {
			rate *= float64(to) / float64(p.SpanK())
		}
		if !ok || rate > least || to > 0 && rate > worthFilling*float64(p.Weight.Bits) || x.mirror%inByte != 0 && x.mirror != x.join {
			continue
		}
		if rate < least {
			least, out = rate, nil
		}
		out = append(out, x)
	}
	return out
}

// worthFilling bounds the bits of codewords, as a part of the bits of plain codes, where groups are filled up for codewords. They take longer
// to decode, and the filling is multiplied too. Figures: docs/lab/choices.md, worthFilling.
const worthFilling = 0.85

// bytesPerCycle is about what one core reads from memory. Figures: docs/lab/choices.md, bytesPerCycle.
const bytesPerCycle = 6.0

// reading is about how long that takes, in tenths of a cycle.
func reading(bytes float64) float64 { return 10 * bytes / bytesPerCycle }

// time is that of a product of one column, and of a small block, whose weights are
// in memory: the longer of arithmetic and reading.
func (l *candidate) time() float64 {
	total := 0.0
	for _, cols := range []int{1, small} {
		if u, err := l.use(cols); err == nil {
			total += max(u.cost, reading(u.bytes)/float64(cols))
		} else {
			total += math.Inf(1)
		}
	}
	return total
}

// chooseTile fixes the tile: the usual number of row vectors or half of it, whichever
// costs less for one column and for a small block. Where
// neither has a kernel, tiles of one row vector of half the lanes need the fewest
// registers; at last, values are computed again for each use, in tiles of one row vector.
func (d *defaults) chooseTile(base Choice, rowFields bool) (*candidate, error) {
	least, bases := base, []Choice{base, base.divided(d.p, d.m, 2)}
	if d.m.Skipping >= dearSkipping && base.Rows%4 == 0 {
		quarter := base.divided(d.p, d.m, 4)
		quarter.Beside = base.Beside
		bases = append(bases, quarter)
	}
	for _, b := range bases {
		if x, ok := b.rowFields(d.p); ok && rowFields {
			bases = append(bases, x)
		}
	}
	best, err := d.cheapestTile(bases...)
	if err == nil {
		return best.halved(), nil
	}
	least.Rows, least.Lanes = 1, base.Lanes/2
	least.Beside = least.wholeShares(d.p)
	best, err = d.cheapestTile(least)
	if err != nil {
		least.Again = true
		wide := least
		wide.Lanes = base.Lanes
		best, err = d.cheapestTile(wide, least)
	}
	return best, err
}

// dearSkipping is the Memory.Skipping from which on tiles of a quarter of the row vectors are tried: all columns take them whole. Where skipping costs
// less nobody has tried them. Figures: docs/lab/choices.md, Skipping.
const dearSkipping = 1.5

// rowFields is c with equally large tiles in which two rows share a byte, instead of two neighbours along K, and with groups spelled out. Then a group's sum need not be put together from two fields, and
// an activation is read for twice the rows. It gains only together with DecodeFirst. Figures: docs/lab/choices.md, RowFields.
// Codes that are looked up, of other sizes or in super-blocks were not measured.
func (c Choice) rowFields(p ir.Problem) (Choice, bool) {
	w, g := p.Weight, p.GroupK()
	if g == 0 || g > longestSpelledOut || w.Super > 0 || c.Join > 0 || c.Value != "affine" || w.Bits != 2 && w.Bits != 4 || c.Rows%2 != 0 || c.RowFields > 1 {
		return c, false
	}
	c.Rows, c.RowFields = c.Rows/2, 2
	c.Serial, c.Flush, c.Beside = false, 1, c.wholeShares(p)
	return c, true
}

// longestSpelledOut is the most elements of K of a group whose cells of rows are spelled out: code and the time to compile it grow with them.
const longestSpelledOut = 128

// divided is c with tiles of 1/by of the row vectors.
func (c Choice) divided(p ir.Problem, m lower.Machine, by int) Choice {
	c.Rows /= by
	c.Serial, c.Flush, c.Beside = false, 1, c.wholeShares(p)
	return c.pieces(p, m)
}

// cheapestTile takes the best of the bases that have a kernel for one column.
func (d *defaults) cheapestTile(bases ...Choice) (best *candidate, err error) {
	least := math.Inf(1)
	for _, base := range bases {
		l, cost, fail := d.tile(base)
		switch {
		case fail != nil:
			err = telling(err, fail)
		case best == nil || cost < least:
			best, least = l, cost
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// tile is a layout with the tile of base and its cost for one column and, if there is a
// kernel, a small block.
func (d *defaults) tile(base Choice) (*candidate, float64, error) {
	l := d.candidate(base)
	one, err := l.use(1)
	if err != nil {
		return nil, 0, err
	}
	few, err := l.use(small)
	switch {
	case err != nil:
		return l, 2 * d.m.Skipping * one.cost, nil // of narrower blocks
	case few.choice.Block == base.Rows:
		return l, one.cost + few.cost, nil
	case base.Run == 0 && d.m.Stride == 0: // row vectors apart are read by strides as long
		base.Run = 1
		return d.tile(base)
	}
	return l, d.m.Skipping * (one.cost + few.cost), nil
}

// recordK is the usual length of a record along K where no group sets it.
const recordK = 64

// mostGroups is how many groups of activations within one of weights, or groups
// within a super-block, are spelled out. A loop over 8 of them (tq2_0, activations in groups of 32) took 4 % longer
// from a cache; spelled out, the code and the time to compile it grow with them.
const mostGroups = 4

// streams is how m prefetches the lines that u reads. With several columns, more lines of activations
// are read in the same time, in proportion to the columns.
func (u *scheduled) streams(p ir.Problem, m lower.Machine) nest.Streams {
	c, s, most, super := u.choice, m.Streams, m.SlowLine, p.Weight.Super > 0
	if m.SlowOne > 0 && (c.Cols == 1 || c.Tiles > 1) {
		most = m.SlowOne
	}
	slow := c.Table != nil || u.cost/10*float64(c.Cols)*line/u.bytes >= most
	switch {
	case super && c.Cols == 1 && m.Alone != (nest.Streams{}) && c.alone(p, slow):
		s = m.Alone
	case super && (c.Cols > 1 || !c.Lead):
		s = m.Scattered
	case c.Table != nil && c.Cols == 1 && c.Tiles > 1 && p.GroupK() > 0 && m.GroupLookups != (nest.Streams{}):
		s = m.GroupLookups
	case slow && c.Cols >= small && m.SlowFew != (nest.Streams{}):
		s = m.SlowFew
	case slow:
		s = m.Slow
	}
	switch {
	case c.Cols == 1:
	case c.Table == nil:
		s.Act *= c.Cols
	default:
		s.Act = m.Tables
	}
	return s
}

// longGroup is how many bytes of codes a group of a tile has at least whose scales may lie elsewhere, so that Memory.Alone is how to ask for it.
// Figures: docs/lab/choices.md, Alone.
const longGroup = 256

// groupBytes is the number of bytes of a group's codes in a tile.
func (c Choice) groupBytes(p ir.Problem) int {
	p = c.filled(p)
	return c.Rows * c.RowFields * c.Lanes * p.Weight.Group * p.Weight.Bits / 8
}

// alone says that Memory.Alone is how to ask for one column of super-blocks.
func (c Choice) alone(p ir.Problem, slow bool) bool {
	if c.Lead {
		return !slow
	}
	return c.Beside || c.groupBytes(p) >= longGroup
}

// line is the bytes of a line of a cache, nearby what a prefetch of lines nearby is ahead at most.
const (
	line   = 64
	nearby = 4 * line
)

// layoutChoice is the packed layout of the usual number of rows, whose codes are
// joined as x says unless it is none.
func layoutChoice(p ir.Problem, m lower.Machine, x coding) Choice {
	w := p.Weight
	c := Choice{Lanes: m.VecBits / 32, Rows: 4, RowFields: 1, Cells: 1, Map: "dense",
		Value: "affine", Hoist: "flush", Dot: 4, Flush: 1, Order: 1, Scale: "end", Streams: m.Streams}
	_, step, ok := w.Affine()
	if !ok {
		c.Value = "lookup"
	} else if step == 1 {
		c.Hoist = "init"
	}
	if m.FewVectors() {
		c.Rows = 2
	}
	if w.Bits >= 8 && c.Ahead > 0 {
		c.Far = 0 // no room for a second one; figures: docs/lab/choices.md, Streams
	}
	if x.join > 0 {
		x.use(&c)
	}
	if c.Join > 0 {
		c.Fill, _ = c.filling(p) // which tightest has found to be allowed
		p = c.filled(p)
	}
	fields := c.cellFields(w)
	for p.GroupK() == 0 && c.Cells < 4 && 2*c.Cells*4*fields <= recordK {
		c.Cells *= 2
	}
	c.Align(p)
	if g := p.GroupK(); g > 0 && p.Unit()/g > mostGroups {
		c.AtGroup, c.Super = true, w.Super > 0
	}
	c.Beside, c.Lead = c.wholeShares(p), m.Lead
	return c.pieces(p, m)
}

// wholeShares says that the shared numbers of a group within a record are whole vectors of bytes, so that the codes of the
// next group lie in no more lines than without them. Then all is read in the order of memory. Figures: docs/lab/choices.md, wholeShares.
func (c Choice) wholeShares(p ir.Problem) bool {
	p = c.filled(p)
	bytes := 0
	for _, x := range p.Weight.Shared() {
		if x.Span > 0 && x.Span <= p.Weight.Group {
			bytes += x.Elem.Bytes()
		}
	}
	return bytes > 0 && p.Weight.Group < p.Unit() && bytes*c.Rows*c.RowFields%4 == 0
}

// pieces is c with a loop over pieces of a group that is long, or whose row vectors of a tile have more bytes than an
// iteration may read. (Cells of several words, such as w3-g128, read that many bytes as often. Groups of activations within a group of weights are
// spelled out. Neither was measured.)
func (c Choice) pieces(p ir.Problem, m lower.Machine) Choice {
	p = c.filled(p)
	w, most := p.Weight, recordK
	if cell := c.Rows * c.Lanes * 4; m.Stride > 0 {
		most = min(most, m.Stride/cell*c.cellK(w))
	}
	if max(p.GroupK(), w.BookGroup) <= most {
		return c
	}
	c.Serial, c.Flush = true, 1
	for c.Flush < 8 && 2*c.Flush*c.cellK(w) <= most && c.fitsSpans(p, 2*c.Flush) {
		c.Flush *= 2
	}
	return c
}

// small is the widest column block that is still limited by reading the weights
// once: it takes whole tiles.
const small = 4

// scheduled is a trace and the estimate of its kernel.
type scheduled struct {
	trace  schedule.Trace
	choice Choice
	cost   float64 // of a product, tenths of a cycle
	issue  float64 // the least part of cost that issuing the instructions takes
	bytes  float64 // of a weight, scales and padding included
	built  *built

	beside *scheduled // of sideBySide, once it was asked for
}

// widthUse chooses the schedule of one width. Small blocks keep to whole tiles
// if any fits the registers; wide ones take the cheapest of all row blocks.
func (d *defaults) widthUse(base Choice, cols int) (best *scheduled, err error) {
	var all []Choice
	for block := base.Rows; block >= 1; block /= 2 {
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
		c := base
		c.Cols, c.Block = cols, block
		if cols > small {
			c.Tiles = 0
		}
		if cols > 1 {
			c.Order, c.Stage = 2, "f" // decode once, then use in all columns
		}
		some := scales(c, d.p, d.narrow())
		if cols == 1 && d.m.DecodeFirst && c.Value == "affine" && c.Join == 0 && CellFields(d.p.Weight) > 1 { // bytes are not decoded
			first := c
			first.Stage = "s"
			some = append(scales(first, d.p, d.narrow()), some...) // which cost the same, if registers suffice
		}
		if c.Join > 0 { // all fields of a codeword in turn: one of them is held at a time
			c.Order = 0
			some = append(some, scales(c, d.p, d.narrow())...)
		}
		if d.p.Weight.MaxLevel()-d.p.Weight.MinLevel() > 127 && !(hasUnsigned(d.t) && hasDot4(d.t)) {
			c.Hoist = "none" // the weights as they are fit the only dot products there are
			some = append(some, c)
		}
		if cols > 1 && d.m.FewVectors() && leastOfBlocks(d.p) {
			some = append(some, fissioned(some)...)
		}
		switch {
		case !hasDot4(d.t):
		case cols <= 2 && d.m.FewVectors():
			some = append(some, apart(some)...)
		case cols == 1 && d.p.SpanK() == 0 && (c.Head > 0 || c.Value == "lookup"):
			if best, err = d.cheapest([]Choice{c.fieldsApart()}); err == nil {
				return best, nil
			}
		case cols == 1 && c.Head > 0:
			some = append(some, c.fieldsApart())
		}
		if cols <= small {
			if best, err = d.cheapest(some); err == nil {
				return best, nil
			}
		}
		all = append(all, some...)
	}
	if cols <= small {
		return nil, err
	}
	return d.cheapest(all)
}

// fissioned is choices with minimums in loops of their own, which leaves room for more columns in few registers. Figures: docs/lab/choices.md, fissioned.
func fissioned(choices []Choice) (out []Choice) {
	for _, c := range choices {
		c.Fission = true
		out = append(out, c)
	}
	return out
}

// apart is choices with accumulators of their own for 2, 4 ... cells along K: with
// few row vectors and columns, dot products into one sum wait for each other (w4 and
// w8 of one column in a cache take half as long on amd64/avxvnni).
func apart(choices []Choice) []Choice {
	var out []Choice
	for _, c := range choices {
		if c.Cells > 1 && !c.Serial && c.Dot == 4 {
			for c.Flush = 2; c.Flush <= c.Cells; c.Flush *= 2 {
				c.Factor = "u"
				out = append(out, c)
			}
		}
	}
	return out
}

// fieldsApart is c with an accumulator for each field, where all fields are looked up: a few accumulators
// would wait for each other, which the estimate does not see where an instruction that has one port
// counts twice (it was tried with the costs of the ordinary core only). Without groups and books they cost nothing. Figures: docs/lab/choices.md, fieldsApart.
func (c Choice) fieldsApart() Choice {
	c.Below, c.Factor = 0, "f"
	return c
}

// scales are the ways to read fields and to sum: with narrow > 0 also in 16 bits, so
// many products at once. Fields of odd width begin at odd bits too: two classes of them may be
// worth their accumulators.
func scales(c Choice, p ir.Problem, narrow int) []Choice {
	below := []int{8, 4, 0}
	if p.Weight.Bits%2 == 1 {
		below = []int{8, 4, 2, 0}
	}
	var out []Choice
	for _, c.Below = range below {
		out = append(out, c)
		if narrow > 0 {
			out = append(out, c.widenings(p, narrow)...)
		}
	}
	return out
}

// widenings are c with 16-bit sums of `narrow` products each. The sums are widened after every record or group, if a whole one fits, else
// after the most cells that are proven to fit; and, with fewer registers, after each cell.
func (c Choice) widenings(p ir.Problem, narrow int) []Choice {
	c.Dot = narrow
	if p.GroupK() == 0 {
		if !c.Serial {
			c.Flush = max(c.Cells, 1)
		}
		return []Choice{c}
	}
	each := c
	each.Flush = 1
	c.Whole = true
	most := c.filled(p).GroupK() / 2
	if c.Serial {
		most = min(most, recordK)
	}
	for n := mostWidened; c.refused(p) && n > 1; n /= 2 {
		if n*c.cellK(p.Weight) <= most && c.fitsSpans(p, n) {
			c.Whole, c.Flush = false, n
		}
	}
	return []Choice{c, each}
}

// mostWidened is how many cells 16-bit sums of groups count at most before they are widened.
const mostWidened = 8

func (c Choice) refused(p ir.Problem) bool {
	_, err := schedule.Compile(p, c.Trace(p))
	return err != nil
}

// hasUnsigned reports whether t has dot products of unsigned by signed bytes.
func hasUnsigned(t lower.Target) bool {
	return lower.Can(t, func(r lower.Row) bool {
		return (r.Op == vir.OpDot4 && r.Args[1].Elem == format.U8) || r.Op == vir.OpDot2Sat
	})
}

// narrow is how many products d.t sums in 16 bits at once, 0 where a 4-way dot product is better. Figures: docs/lab/choices.md, narrow.
func (d *defaults) narrow() int {
	if hasDot4(d.t) {
		return 0
	}
	return d.m.Narrow
}

// hasDot4 reports whether t multiplies and adds four bytes in one instruction.
func hasDot4(t lower.Target) bool {
	return lower.Can(t, func(r lower.Row) bool { return r.Op == vir.OpDot4 })
}

// cheapest builds every choice, all at once, and takes the one that costs least, of those the first.
func (d *defaults) cheapest(choices []Choice) (best *scheduled, err error) {
	all, fails := make([]*scheduled, len(choices)), make([]error, len(choices))
	var wg sync.WaitGroup
	for i, c := range choices {
		wg.Go(func() { all[i], fails[i] = d.fitting(c) })
	}
	wg.Wait()
	for i, s := range all {
		switch {
		case fails[i] != nil:
			err = telling(err, fails[i])
		case best == nil || s.cost < best.cost:
			best = s
		}
	}
	if best == nil {
		return nil, err
	}
	best.built.won = true
	for _, s := range all {
		if s != nil && !s.built.won {
			s.built.kernel = nil
		}
	}
	return best, nil
}

// fitting builds c, or a part of it if registers do not suffice for all.
func (d *defaults) fitting(c Choice) (*scheduled, error) {
	if n := c.sums(d.m); c.Table == nil && n > d.m.NumVec { // not worth lowering
		return nil, &lower.Pressure{Kind: "vector", Need: n, Have: d.m.NumVec, At: "the sums of a call"}
	}
	s, err := d.build(c)
	if err != nil && c.Super { // in registers of its own, it may be too much
		c.Super = false
		s, err = d.build(c)
	}
	return s, err
}

// worthSparing is the most that instructions alone may take without registers for super-scales, of what they take with them.
const worthSparing = 0.97

// withoutSuper is u, or what has no registers for super-scales if that is fewer instructions by worthSparing: where registers are few, constants are read over and
// over for want of others, which seems to cost nothing beside arithmetic. Figures: docs/lab/choices.md, withoutSuper.
func (d *defaults) withoutSuper(u *scheduled) *scheduled {
	c := u.choice
	if !c.Super || !d.m.FewVectors() {
		return u
	}
	c.Super = false
	if x, err := d.build(c); err == nil && x.issue < worthSparing*u.issue {
		return x
	}
	return u
}

// telling is the error that tells more, next if both tell as much.
func telling(err, next error) error {
	if tells(next) < tells(err) {
		return err
	}
	return next
}

// tells is how much an error tells: what overflows is no reason where others lacked registers, and what a trace leaves out
// is none where others overflowed.
func tells(err error) int {
	var pressure *lower.Pressure
	var overflow *schedule.Overflow
	switch {
	case errors.As(err, &pressure):
		return 3
	case errors.As(err, &overflow):
		return 2
	case err != nil:
		return 1
	}
	return 0
}

// build is c with what its kernel costs, or why there is none.
func (d *defaults) build(c Choice) (*scheduled, error) {
	trace := c.Trace(d.p)
	text, err := trace.MarshalJSON()
	if err != nil {
		return nil, err
	}
	key := fmt.Sprint(c.Again, string(text))
	d.mu.Lock()
	b := d.known[key]
	if b == nil {
		b = &built{}
		d.known[key] = b
	}
	d.mu.Unlock()
	if b.once.Do(func() { b.err = d.lower(b, trace, c.Again) }); b.err != nil {
		return nil, b.err
	}
	return &scheduled{trace: trace, choice: c, cost: b.work.total, issue: b.work.issue, bytes: b.bytes, built: b}, nil
}

// lowering has room for one kernel per core: more at once would only take memory.
var lowering = make(chan struct{}, runtime.GOMAXPROCS(0))

// lower makes b the kernel of a trace.
func (d *defaults) lower(b *built, trace schedule.Trace, again bool) error {
	select {
	case lowering <- struct{}{}:
		defer func() { <-lowering }()
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	k, err := schedule.Compile(d.p, trace)
	if err != nil {
		return err
	}
	m, err := Lower(d.ctx, d.t, k.Nest, again)
	if err != nil {
		return err
	}
	if indexed := slices.ContainsFunc(m.Ops, func(o lower.MOp) bool { return o.Plus > 0 }); indexed && !d.m.Indexes {
		return fmt.Errorf("%s: by too few general registers, addresses are sums of two, which no default has here", d.m.Name)
	}
	b.kernel, b.work, b.bytes = &variant.Kernel{Schedule: k, Code: m}, workOf(k, m), bytesPerWeight(k)
	return nil
}

// Lower is lower.Build if what registers do not hold may be computed again, else lower.BuildOnce.
func Lower(ctx context.Context, t lower.Target, n *nest.Nest, again bool) (*lower.Kernel, error) {
	if again {
		return lower.Build(ctx, t, n)
	}
	return lower.BuildOnce(ctx, t, n)
}
