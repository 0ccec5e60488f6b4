package space

import (
	"reflect"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// For is the space of p's schedules on a target.
func For(p ir.Problem, t lower.Selector) (*Space, error) {
	s, err := schedule.NewProduct(p)
	if err != nil {
		return nil, err
	}
	known := newMemo()
	proves := func(s schedule.State) error {
		_, err := known.kernel(s.(*schedule.Product))
		return err
	}
	sp := &Space{rules: products, start: s, machine: MachineOf(t), proves: proves, fits: fitsProduct, part: 1, known: known}
	if sp.machine.Group > 0 {
		sp.rules, sp.fits = grids, fitsGrid
	}
	sp.rules = withOthers(sp.rules, placed)
	return sp, nil
}

// MachineOf is what proposals ask of a target.
func MachineOf(t lower.Selector) schedule.Machine {
	m := t.Machine()
	return schedule.Machine{
		Bits: m.VecBits, Vectors: m.NumVec, Narrow: m.Narrow, Octets: m.Octets, Group: m.Group,
		Dot4: lower.Can(t, func(r lower.Row) bool { return r.Op == vir.OpDot4 }),
		Gathers: lower.Can(t, func(r lower.Row) bool {
			return r.Op == vir.OpLookupPair && r.Dst == vir.Type{Elem: format.I32, Lanes: m.VecBits / 32}
		}),
		Entries: entries(t),
		Unsigned: lower.Can(t, func(r lower.Row) bool {
			return r.Op == vir.OpDot4 && r.Args[1].Elem == format.U8 || r.Op == vir.OpDot2Sat
		}),
	}
}

// entries is how many bytes an instruction looks up one of, at most.
func entries(t lower.Selector) (most int) {
	for n := 16; n <= 256; n *= 2 {
		if lower.Can(t, func(r lower.Row) bool { return r.Op == vir.Lookup(n, false) && r.Dst.Elem == format.U8 }) {
			most = n
		}
	}
	return most
}

// Moves says that Neighbours, Mutate and searches change decisions of rule i.
func (sp *Space) Moves(i int) bool {
	return sp.moves == nil || slices.Contains(sp.moves, sp.rules[i].Name)
}

// Layout says that how weights are packed follows from rule i.
func (sp *Space) Layout(i int) bool { return sp.rules[i].Layout }

// Columns is sp with kernels of n columns only.
func (sp *Space) Columns(n int) *Space {
	return sp.only(anyRule, func(s schedule.State) bool { c := columnsOf(s); return c == 0 || c == n })
}

// Within is sp with kernels of at most n columns.
func (sp *Space) Within(n int) *Space {
	return sp.only(anyRule, func(s schedule.State) bool { return columnsOf(s) <= n })
}

// columnsOf is how many columns a call makes, 0 before that is decided.
func columnsOf(s schedule.State) (n int) {
	for _, l := range s.Loops() {
		switch {
		case l.Root == "n" && l.Kind.Outside():
			n = max(n, 1)
		case l.Root == "n":
			n = max(n, 1) * l.N
		}
	}
	return n
}

// Exact is sp without tables whose entries or sums are rounded: what they add up to is bounded, not exact.
func (sp *Space) Exact() *Space {
	exact := func(s schedule.State) bool { return !s.(*schedule.Product).Rounds() }
	return sp.only("entries", exact).only("averages", exact)
}

// ByTables is sp with products by lookups in tables only, or only without them.
func (sp *Space) ByTables(is bool) *Space {
	return sp.only("entries", func(s schedule.State) bool { return (indexed(s) > 0) == is })
}

// Prepared is sp with products of prepared activations, which workgroups do not prepare themselves.
func (sp *Space) Prepared() *Space {
	return sp.only("quantize", func(s schedule.State) bool { return !s.(*schedule.Product).Quantizes() })
}

// Sharing is sp with kernels only that read the packed matrices and the prepared activations of k. Its neighbours and mutations begin with
// decisions that leave packing as it is, or with how many tiles lie side by side.
func (sp *Space) Sharing(k *schedule.Kernel) *Space {
	c := sp.only("pack", func(s schedule.State) bool { return s.(*schedule.Product).Buffers() == k.Buffers() })
	c = c.only("tile", func(s schedule.State) bool { return loop(s, "mt").Coef == k.Weights.TileM*max(loop(s, "side").N, 1) })
	var moves []string
	for _, r := range sp.rules {
		if (!r.Layout || r.Name == "tile") && (sp.moves == nil || slices.Contains(sp.moves, r.Name)) {
			moves = append(moves, r.Name)
		}
	}
	return c.Moving(moves...)
}

// Relaid is the point with the packing of y and, as near as may be, the other decisions of x.
func (sp *Space) Relaid(x, y Point) (Point, error) {
	z := slices.Clone(x)
	for i, r := range sp.rules {
		if r.Layout {
			z[i] = y[i]
		}
	}
	return sp.Near(z)
}

// Kernel is the kernel of a point.
func (sp *Space) Kernel(x Point) (*schedule.Kernel, error) {
	states, err := sp.states(x)
	if err != nil {
		return nil, err
	}
	k, err := sp.known.kernel(states[len(states)-1].(*schedule.Product))
	if err != nil {
		return nil, err
	}
	c := *k
	c.Trace = x.Trace()
	return &c, nil
}

// mostRegisters bounds the iterations that are spelled out one after the other, each of a register of bytes: code and the time to compile it
// grow with them. An iteration becomes at least one instruction, on average five. The longest default schedules have 512.
const mostRegisters = 768

// fitsProduct says that the sums of a call may fit the registers, some of them only while they are used, and that the code is no
// longer than it may be, or 1/part of both.
func fitsProduct(s schedule.State, m schedule.Machine, part int) bool {
	code, lanes := 1, 1
	for _, l := range s.Loops() {
		switch l.Kind {
		case nest.Unrolled:
			code *= l.N
		case nest.Vector, nest.Dot, nest.Pair, nest.Tile:
			lanes *= l.N
		}
	}
	return code*max(lanes/m.Lanes(8), 1)*part <= mostRegisters && 2*part*s.(*schedule.Product).Sums(m.Bits) <= 3*m.Vectors
}

// products are the decisions about a product. Loops: columns n = nt nc; rows m = mt, tiles side by side, runs rq, calls ro, runs
// in a call rb, vectors r, row fields s of a cell, lanes l, pairs e; groups g = gt, gb gc gd, gi; elements k = records kt, what has one
// book kb, steps ks, cells u, fields f, lanes x, dot products j; or of tables f and neighbours q, planes, parts and halves.
var products = []Rule{
	{Name: "fill", Layout: true, Offers: optional(schedule.FillGroups{})},
	{Name: "decompose", Layout: true, Kind: true, Must: true, Offers: each(schedule.Decompose{})},
	{Name: "entries", Layout: true, Kind: true, Offers: each(schedule.QuantizeTable{})},
	{Name: "zero", Offers: zero},
	{Name: "columns", Must: true, Offers: columns},
	{Name: "tile", Layout: true, Must: true, Offers: tile},
	{Name: "runs", Offers: dots(splitRows("rq", "mq", "outer", true))},
	{Name: "call", Must: true, Offers: splitRows("ro", "mb", "outer", false)},
	{Name: "runs in a call", Offers: dots(splitRows("rb", "mc", "unrolled", true))},
	{Name: "vectors", Layout: true, Must: true, Offers: rows},
	{Name: "lanes", Layout: true, Must: true, Offers: lanes},
	{Name: "pairs", Layout: true, Must: true, Offers: pairs},
	{Name: "record", Layout: true, Must: true, Offers: record},
	{Name: "groups b", Layout: true, Offers: span(0)},
	{Name: "groups c", Layout: true, Offers: span(1)},
	{Name: "groups d", Layout: true, Offers: span(2)},
	{Name: "groups", Offers: spelledOut("gi")},
	{Name: "books", Layout: true, Offers: books},
	{Name: "steps", Must: true, Offers: steps},
	{Name: "cells", Layout: true, Must: true, Offers: oneCell},
	{Name: "steps spelled out", Offers: spelledOut("ks")},
	{Name: "cells spelled out", Offers: spelledOut("u")},
	{Name: "fields", Layout: true, Must: true, Offers: fields},
	{Name: "instruction", Must: true, Offers: instruction},
	{Name: "order", Must: true, Offers: order},
	{Name: "pack", Layout: true, Must: true, Offers: pack},
	{Name: "chunk", Offers: dots(optional(schedule.Pack{Tensor: "act"}))},
	{Name: "averages", Offers: optional(schedule.HalvingAdd{})},
	{Name: "lanes apart", Offers: each(schedule.Rfactor{Loop: "x"})},
	{Name: "scaled", Offers: readScaled},
	{Name: "apart", Offers: apart},
	{Name: "sums", Offers: sums, Whole: true},
	{Name: "stage", Offers: staged},
	{Name: "stage super", Offers: optional(schedule.Stage{Value: "super"})},
	{Name: "fission", Offers: optional(schedule.Fission{})},
	{Name: "scale", Offers: optional(schedule.ScaleAt{})},
	{Name: "prefetch", Offers: optional(schedule.Prefetch{}), Open: true},
}

// placed are the kinds of steps that the rules of products make, and the kinds for operators or workgroups only.
var placed = []schedule.Step{
	schedule.FillGroups{}, schedule.Decompose{}, schedule.QuantizeTable{}, schedule.HoistZero{}, schedule.Split{}, schedule.Fuse{},
	schedule.Bind{}, schedule.Tensorize{}, schedule.Reorder{}, schedule.Pack{}, schedule.HalvingAdd{}, schedule.Rfactor{},
	schedule.ReadScaled{}, schedule.WidenEvery{}, schedule.Accumulate{}, schedule.Stage{}, schedule.Fission{}, schedule.ScaleAt{}, schedule.Prefetch{}, schedule.Inline{}, schedule.SplitK{},
}

// withOthers adds a rule for each kind of step that proposes its values and that no rule makes: before the last one, or not at all.
func withOthers(rules []Rule, placed []schedule.Step) []Rule {
	last := len(rules) - 1
	out := slices.Clone(rules[:last])
	for _, x := range schedule.Proposers() {
		if !slices.ContainsFunc(placed, func(y schedule.Step) bool { return reflect.TypeOf(x) == reflect.TypeOf(y) }) {
			out = append(out, Rule{Name: schedule.NameOf(x), Offers: optional(x)})
		}
	}
	return append(out, rules[last])
}

// offers is what a rule offers on a state.
type offers func(s schedule.State, m schedule.Machine) []schedule.Trace

// each offers every proposal of x.
func each(x schedule.Proposer) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		for _, y := range x.Propose(s, m) {
			out = append(out, schedule.Trace{y})
		}
		return out
	}
}

// optional offers nothing, and then every proposal of x.
func optional(x schedule.Proposer) offers {
	return func(s schedule.State, m schedule.Machine) []schedule.Trace {
		return append([]schedule.Trace{nil}, each(x)(s, m)...)
	}
}

// ahead offers what of does, and then to leave things as they are.
func ahead(of offers) offers {
	return func(s schedule.State, m schedule.Machine) []schedule.Trace { return append(slices.Clip(of(s, m)), nil) }
}

// dots is for products without tables.
func dots(of offers) offers {
	return func(s schedule.State, m schedule.Machine) []schedule.Trace {
		if indexed(s) > 0 {
			return nil
		}
		return of(s, m)
	}
}

// indexed is the bits of an index into tables, 0 of products without them.
func indexed(s schedule.State) int { return s.(*schedule.Product).IndexBits() }

// loop is the loop of a name, of no iterations if there is none.
func loop(s schedule.State, name string) (l nest.Loop) {
	all := s.Loops()
	if i := slices.IndexFunc(all, func(l nest.Loop) bool { return l.Name == name }); i >= 0 {
		l = all[i]
	}
	return l
}

// open is the innermost loop over an axis that nothing is decided about.
func open(s schedule.State, roots ...string) (out nest.Loop) {
	for _, l := range s.Loops() {
		if slices.Contains(roots, l.Root) && l.Kind == nest.Serial {
			out = l
		}
	}
	return out
}

func split(loop string, by int, outer, inner string) schedule.Step {
	return schedule.Split{Loop: loop, By: by, Into: schedule.Pair{outer, inner}}
}

func bind(loop, to string) schedule.Step { return schedule.Bind{Loop: loop, To: to} }

// zero: products need it where indices leave a bias or weights have zero points; where no dot product takes weights without
// a sign, and they do not fit one byte without it, weights stay as they are.
func zero(s schedule.State, m schedule.Machine) []schedule.Trace {
	w := s.(*schedule.Product).Problem.Weight
	out := each(schedule.HoistZero{})(s, m)
	if indexed(s) == 0 && !w.Zero && w.MaxLevel()-w.MinLevel() > 127 && !(m.Unsigned && m.Dot4) {
		return append([]schedule.Trace{nil}, out...)
	}
	if s.(*schedule.Product).MustHoist() {
		return out
	}
	return append(out, nil)
}

// columns of a call, all together or in two levels.
func columns(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	var two []schedule.Trace
	for _, x := range (schedule.Split{Loop: "n", Into: schedule.Pair{"nt", "nc"}}).Propose(s, m) {
		n := x.(schedule.Split).By
		if n > m.Vectors {
			break
		}
		one := schedule.Trace{x, bind("nt", "outer")}
		out = append(out, append(slices.Clip(one), bind("nc", "unrolled")))
		if n > 2 && n%2 == 0 {
			two = append(two, append(slices.Clip(one), split("nc", n/2, "nb", "nc"), bind("nb", "unrolled"), bind("nc", "unrolled")))
		}
	}
	return append(out, two...)
}

// widths are the numbers of lanes that a vector of sums, or of indices, may have. A single lane is a row whose elements of K are lanes.
func widths(s schedule.State, m schedule.Machine) []int {
	full := m.Lanes(32)
	switch indexed(s) {
	case 8:
		if m.Entries < 64 { // not those of four neighbours
			return []int{m.Lanes(8), m.Lanes(16), full, full / 2}
		}
		return []int{full, m.Lanes(8), m.Lanes(16), full / 2}
	case 16:
		return []int{full, m.Lanes(16), full / 2}
	case 32:
		return []int{full, full / 2}
	}
	return []int{full, full / 2, 1}
}

// tile of rows, one or several side by side.
func tile(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	var tiles []int
	for _, w := range widths(s, m) {
		for _, n := range []int{2, 4, 1, 3, 8, 6, 16} {
			if !slices.Contains(tiles, n*w) {
				tiles = append(tiles, n*w)
			}
		}
	}
	for _, side := range []int{1, 2, 4} {
		for _, n := range tiles {
			t := schedule.Trace{split("m", n*side, "mt", "mi"), bind("mt", "outer")}
			if side > 1 {
				t = append(t, split("mi", n, "side", "ms"), bind("side", "unrolled"))
			}
			out = append(out, t)
		}
	}
	return out
}

// splitRows splits the open part of a tile into whole vectors, the whole of it first, or not at all if it need not be split.
// Tiles side by side are read whole.
func splitRows(outer, inner, to string, may bool) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		l, whole := open(s, "m"), vectors(s, m)
		for n := l.N; n > 0; n-- {
			of := func(v int) bool { return n%v == 0 && (v >= m.Lanes(32)/2 || l.N <= mostAlone) }
			switch {
			case l.N%n != 0 || !slices.ContainsFunc(whole, of) || to == "outer" && loop(s, "side").N > 1 && n < l.N:
			case may && n == l.N:
				out = append(out, nil)
			default:
				out = append(out, schedule.Trace{split(l.Name, n, outer, inner), bind(outer, to)})
			}
		}
		return out
	}
}

// mostAlone bounds the rows of a tile whose lanes are elements of K: each has a sum of its own.
const mostAlone = 8

// vectors lists the numbers of rows, the preferred one first, that lanes have whose cells have fields of one row or of several.
func vectors(s schedule.State, m schedule.Machine) (out []int) {
	sizes := cellSizes(s)
	for _, share := range []int{1, 2, 4, 8} {
		for _, w := range widths(s, m) {
			if len(sizes.lengths(s, m, w, share)) > 0 {
				out = append(out, share*w)
			}
		}
	}
	return out
}

// rows of a vector and of the cells that it shares with others.
func rows(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "m")
	for _, n := range vectors(s, m) {
		if o := (schedule.Trace{split(l.Name, n, "r", "mr"), bind("r", "unrolled")}); l.N%n == 0 && l.N/n <= m.Vectors && !contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// lanes of a vector, and the rows of a cell that are in other vectors.
func lanes(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l, sizes := open(s, "m"), cellSizes(s)
	for _, w := range widths(s, m) {
		if l.N%w == 0 && len(sizes.lengths(s, m, w, l.N/w)) > 0 {
			out = append(out, schedule.Trace{split(l.Name, w, "s", "l"), bind("s", "unrolled")})
		}
	}
	return out
}

// pairs: lanes are a vector's, one row is none, and two neighbours of a vector of indices may be summed in one lane: first where sums are narrow.
func pairs(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	n := loop(s, "l").N
	if n == 1 {
		return []schedule.Trace{{bind("l", "unrolled")}}
	}
	out = append(out, schedule.Trace{bind("l", "vector")})
	if b := indexed(s); b > 0 && b < 32 && n*32 > m.Bits {
		out = append(out, schedule.Trace{split("l", n/2, "e", "l"), bind("l", "vector"), bind("e", "pair")})
		slices.Reverse(out)
	}
	return out
}

// alongs are how many iterations over k the lanes of a field may take, beside some lanes of rows.
func alongs(s schedule.State, m schedule.Machine, lanes int) []int {
	full := m.Lanes(32)
	switch b := indexed(s); {
	case b == 0 && lanes == 1:
		return []int{4 * full, 2 * full}
	case b == 0 && m.Octets:
		return []int{8, 4}
	case b == 0:
		return []int{4}
	case b == 8 && lanes <= full:
		return []int{4, 1}
	case b == 16 && lanes <= full:
		return []int{2, 1}
	}
	return []int{1}
}

// cells are the numbers of codes that a cell may have, and how many elements of K the innermost loops advance by.
type cells struct {
	codes []int
	unit  int
}

func cellSizes(s schedule.State) cells {
	p := s.(*schedule.Product)
	return cells{p.CellSizes(), p.UnitK()}
}

// lengths are how many iterations over k a cell may take, and each in how many lanes of a field, beside some lanes of rows and
// with the fields of some rows. What shares a scale or a book is whole cells.
func (c cells) lengths(s schedule.State, m schedule.Machine, lanes, rows int) (out [][2]int) {
	span, k := s.(*schedule.Product).Problem.SpanK(), open(s, "k")
	for _, along := range alongs(s, m, lanes) {
		for _, n := range c.codes {
			cell := n / (rows * c.unit) * along
			if n%(rows*c.unit) == 0 && span%(cell*c.unit) == 0 && k.N%cell == 0 {
				out = append(out, [2]int{cell, along})
			}
		}
	}
	return out
}

// cellsHere are the lengths of cells beside the lanes and rows that were decided.
func cellsHere(s schedule.State, m schedule.Machine) [][2]int {
	return cellSizes(s).lengths(s, m, loop(s, "l").N*max(loop(s, "e").N, 1), loop(s, "s").N)
}

// record: what follows the codes of all rows of a tile: a few cells, or one or several groups.
func record(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	p := s.(*schedule.Product).Problem
	if g := p.GroupK(); g > 0 {
		for n := 1; n <= 4; n *= 2 {
			out = append(out, schedule.Trace{split("g", n*p.Unit()/g, "gt", "gi")})
		}
		return out
	}
	most := func(cell int) int { return mostSpelledOut * cell }
	if narrowed(s, m) {
		most = func(int) int { return mostBytes / max(loop(s, "part").N, 1) }
	}
	for _, cell := range cellsHere(s, m) {
		first := 0
		all := (schedule.Split{Loop: "k", By: cell[0], Into: schedule.Pair{"kt", "kc"}}).Propose(s, m)
		for _, x := range append(all, ofBooks(s, cell[0])...) {
			by := x.(schedule.Split).By
			n := by * s.(*schedule.Product).UnitK()
			o := schedule.Trace{x}
			switch {
			case n > 1024 || n%max(p.Weight.BookGroup, 1) != 0 || contains(out, o):
			case len(out) == 0 || first > 0 && by <= most(cell[0]):
				first = by
				out = slices.Insert(out, 0, o)
			default:
				out = append(out, o)
			}
		}
	}
	return out
}

// ofBooks are the records of one, two and four elements of K's groups with a book each, in whole cells: ladders of splits have few odd factors.
func ofBooks(s schedule.State, cell int) (out []schedule.Step) {
	p := s.(*schedule.Product)
	group := p.Problem.Weight.BookGroup
	for n := group; n > 0 && n <= 4*group; n *= 2 {
		if unit := p.UnitK(); n%(cell*unit) == 0 {
			out = append(out, schedule.Split{Loop: "k", By: n / unit, Into: schedule.Pair{"kt", "kc"}})
		}
	}
	return out
}

// mostBytes is how many bytes a sum of 16 bits has room for.
const mostBytes = 128

// narrowed says that entries are bytes, and vectors have more lanes than sums of 32 bits do.
func narrowed(s schedule.State, m schedule.Machine) bool {
	return indexed(s) == 8 && loop(s, "l").N*max(loop(s, "e").N, 1) > m.Lanes(32)
}

func contains(all []schedule.Trace, t schedule.Trace) bool {
	return slices.ContainsFunc(all, func(o schedule.Trace) bool { return distance(o, t) == 0 })
}

// spelledOut offers to run a loop or to unroll it. Up to mostSpelledOut iterations are unrolled first.
func spelledOut(name string) offers {
	return func(s schedule.State, m schedule.Machine) []schedule.Trace {
		n := loop(s, name).N
		out := []schedule.Trace{{bind(name, "unrolled")}, nil}
		switch {
		case n == 0:
			return nil
		case n > mostSpelledOut:
			slices.Reverse(out)
		}
		return out
	}
}

const mostSpelledOut = 4

// span splits the groups of a record where some share what others do not, in the order of their lengths; the first loop that no span
// needs may split them anywhere.
func span(i int) offers {
	name := []string{"gb", "gc", "gd"}[i]
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		p, gi := s.(*schedule.Product).Problem, loop(s, "gi")
		if gi.N == 0 {
			return nil
		}
		w, g := p.Weight, p.GroupK()
		spans := []int{w.Super, p.Act.Group, w.Group, w.BookGroup, p.Unit()}
		spans = slices.DeleteFunc(spans, func(n int) bool { return n <= g || n >= g*loop(s, "gt").Coef })
		slices.Sort(spans)
		spans = slices.Compact(spans)
		slices.Reverse(spans)
		both := func(by int) {
			x := split("gi", by, name, "gi")
			out = append(out, schedule.Trace{x}, schedule.Trace{x, bind(name, "unrolled")})
		}
		switch {
		case i < len(spans):
			if both(spans[i] / g); gi.N/(spans[i]/g) <= mostSpelledOut {
				slices.Reverse(out)
			}
		case i == len(spans):
			out = append(out, nil)
			for by := 2; by < gi.N; by *= 2 {
				both(by)
			}
		}
		return out
	}
}

// books: what has one book of levels in a record or a group.
func books(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l, n := open(s, "k"), s.(*schedule.Product).Problem.Weight.BookGroup
	if n == 0 || n >= l.N*s.(*schedule.Product).UnitK() {
		return nil
	}
	x := split(l.Name, n/s.(*schedule.Product).UnitK(), "kb", "kd")
	return []schedule.Trace{{x, bind("kb", "unrolled")}, {x}}
}

// steps: the cells of a sum, few first.
func steps(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	for _, cell := range cellsHere(s, m) {
		for _, x := range (schedule.Split{Loop: l.Name, By: cell[0], Into: schedule.Pair{"ks", "kk"}}).Propose(s, m) {
			if o := (schedule.Trace{x}); !contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// oneCell divides a step into cells.
func oneCell(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	for _, cell := range cellsHere(s, m) {
		if o := (schedule.Trace{split(l.Name, cell[0], "u", "ku")}); l.N%cell[0] == 0 && !contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// fields of a cell, of tables with what an index is made of.
func fields(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	for _, cell := range cellsHere(s, m) {
		switch {
		case cell[0] != l.N:
		case indexed(s) == 0:
			out = append(out, schedule.Trace{split(l.Name, cell[1], "f", "kx"), bind("f", "unrolled")})
		default:
			t := schedule.Trace{split(l.Name, cell[1], "f", "q")}
			for _, name := range []string{"f", "plane", "part", "half"} {
				t = append(t, bind(name, "unrolled"))
			}
			out = append(out, t)
		}
	}
	return out
}

// instruction: the innermost lanes, and dot products of them, where an instruction makes one.
func instruction(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	if indexed(s) > 0 {
		if l.N == 1 {
			return []schedule.Trace{{bind("q", "unrolled")}}
		}
		return each(schedule.Tensorize{Loop: "q"})(s, m)
	}
	if m.Octets && l.N == 8 && loop(s, "l").N > 1 && loop(s, "nc").N%2 == 0 {
		return []schedule.Trace{{split("nc", 2, "nc", "c"), schedule.Tensorize{Loop: l.Name, To: "tile", Rows: "l", Columns: "c"}}}
	}
	t := schedule.Trace{split(l.Name, 4, "x", "j"), bind("x", "unrolled")}
	if l.N > 4 {
		t[1] = bind("x", "vector")
	}
	halves := append(slices.Clip(t), split("j", m.Narrow, "jo", "ji"), bind("jo", "vector"))
	wide, narrow := dotted(s, m, t, "j"), dotted(s, m, halves, "ji")
	for _, t := range narrow { // what fields add up fits if it is widened as often as it can be
		sums := append(slices.Clip(t), schedule.Rfactor{Loop: "jo"}, schedule.WidenEvery{Loop: "f"}, schedule.Accumulate{Type: "i16"})
		if next, err := after(s, sums); err != nil || next.(*schedule.Product).CheckRanges() != nil {
			narrow = nil
		}
	}
	if m.Dot4 {
		return append(wide, narrow...)
	}
	return append(narrow, wide...)
}

// after is the state after some steps.
func after(s schedule.State, t schedule.Trace) (next schedule.State, err error) {
	for _, x := range t {
		if s, err = s.After(x); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// dotted are the steps of t, and dot products of a loop that they make.
func dotted(s schedule.State, m schedule.Machine, t schedule.Trace, name string) (out []schedule.Trace) {
	next, err := after(s, t)
	if err != nil {
		return nil
	}
	for _, x := range (schedule.Tensorize{Loop: name}).Propose(next, m) {
		out = append(out, append(slices.Clip(t), x))
	}
	return out
}

// present lists the loops of some names that there are.
func present(s schedule.State, names ...string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return loop(s, n).Name == "" })
}

// order of the loops. A byte that holds one entry is widened around the lanes.
func order(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	inner := present(s, "l", "c", "e", "kx", "x", "j", "jo", "ji", "q")
	around := s.(*schedule.Product).Residual() && loop(s, "q").Kind == nest.Unrolled
	for _, x := range (schedule.Reorder{Order: inner}).Propose(s, m) {
		o := x.(schedule.Reorder).Order
		if around {
			o = slices.Insert(o[:len(o)-1:len(o)-1], slices.Index(o, "plane"), "q")
		}
		out = append(out, schedule.Trace{schedule.Reorder{Order: o}})
	}
	if shares(s) {
		then := func(t schedule.Trace) int {
			o := t[0].(schedule.Reorder).Order
			return slices.Index(o, "nc") - slices.Index(o, "f")
		}
		slices.SortStableFunc(out, func(a, b schedule.Trace) int { return first(then(a) == 1) - first(then(b) == 1) })
	}
	return out
}

// first is 0 of what comes first.
func first(is bool) int {
	if is {
		return 0
	}
	return 1
}

// shares says that several columns of a call multiply each weight, which is made once for them.
func shares(s schedule.State) bool { return indexed(s) == 0 && loop(s, "nc").N > 1 }

// pack the codes.
func pack(s schedule.State, m schedule.Machine) []schedule.Trace {
	order := slices.Concat(present(s, "mt", "side"), []string{"words"}, present(s, "l", "e", "kx", "x", "j", "jo", "ji", "q"))
	return each(schedule.Pack{Tensor: "codes", Order: order, Fields: []string{"s", "f"}})(s, m)
}

// readScaled: fields where they are, as far as the sums have room.
func readScaled(s schedule.State, m schedule.Machine) []schedule.Trace {
	return append(each(schedule.ReadScaled{})(s, m), nil)
}

// apart: accumulators of their own for cells or fields.
func apart(s schedule.State, m schedule.Machine) []schedule.Trace {
	if indexed(s) > 0 {
		return nil
	}
	return slices.Concat([]schedule.Trace{nil}, each(schedule.Rfactor{Loop: "u"})(s, m), each(schedule.Rfactor{Loop: "f"})(s, m))
}

// sums in fewer bits, and when they are widened: as seldom as they have room for, first. Of dot products if these are narrow, of entries if they
// fit: first the narrowest whose lanes fill a vector.
func sums(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	narrow := schedule.Accumulate{Type: "i16"}
	widen := each(schedule.WidenEvery{})(s, m)
	if indexed(s) == 0 {
		if loop(s, "jo").N == 0 {
			return nil
		}
		apart := schedule.Rfactor{Loop: "jo"}
		for _, w := range widen {
			out = append(out, schedule.Trace{apart, w[0], narrow})
		}
		return append(out, schedule.Trace{apart, narrow})
	}
	if indexed(s) == 32 {
		return nil
	}
	var bytes []schedule.Trace
	for i, w := range widen {
		for _, o := range widen[:i] {
			bytes = append(bytes, schedule.Trace{o[0], narrow, w[0], schedule.Accumulate{Type: "i8"}})
		}
		out = append(out, schedule.Trace{w[0], narrow})
	}
	wide := []schedule.Trace{nil}
	if loop(s, "e").N > 0 { // neighbours are in one lane
		wide = nil
	}
	switch lanes := loop(s, "l").N * max(loop(s, "e").N, 1); {
	case lanes > m.Lanes(16):
		return slices.Concat(bytes, out, wide)
	case lanes > m.Lanes(32):
		return slices.Concat(out, bytes, wide)
	}
	return slices.Concat(wide, out, bytes)
}

// staged: the weight, or of tables the index, in a register from a loop on: first the fields of a cell where several columns share them.
func staged(s schedule.State, m schedule.Machine) []schedule.Trace {
	if indexed(s) > 0 {
		return optional(schedule.Stage{Value: "x"})(s, m)
	}
	out := optional(schedule.Stage{Value: "w"})(s, m)
	if i := slices.IndexFunc(out, func(t schedule.Trace) bool { return len(t) > 0 && t[0].(schedule.Stage).At == "f" }); i > 0 && shares(s) {
		out = slices.Insert(slices.Delete(slices.Clone(out), i, i+1), 0, out[i])
	}
	return out
}
