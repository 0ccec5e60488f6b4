package space

import (
	"slices"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// grids are the decisions about a product on a machine with workgroups. Loops: columns n = nt groups, nl lanes, nc; rows m = mt groups,
// lr of a lane, rl lanes, rv of a load, s of a cell; groups g = gt, gi lanes, gb; elements k = kb, ks and ki lanes of what has one book,
// u or ku, fields f, kl lanes, and v j of a load.
var grids = []Rule{
	{Name: "fill", Layout: true, Offers: optional(schedule.FillGroups{})},
	{Name: "decompose", Layout: true, Must: true, Offers: decomposeDots},
	{Name: "zero", Offers: zero},
	{Name: "columns", Must: true, Offers: columnGroups},
	{Name: "column lanes", Offers: columnLanes},
	{Name: "rows", Layout: true, Must: true, Offers: rowGroups},
	{Name: "books", Layout: true, Offers: booksOfLanes},
	{Name: "load", Layout: true, Must: true, Offers: loads},
	{Name: "row fields", Layout: true, Must: true, Offers: rowFields},
	{Name: "row lanes", Layout: true, Must: true, Offers: rowLanes},
	{Name: "lanes", Layout: true, Offers: lanesOf("kl", "kq")},
	{Name: "fields", Layout: true, Must: true, Offers: fieldsOfLoads},
	{Name: "steps", Layout: true, Offers: stepsOfLanes},
	{Name: "book lanes", Layout: true, Offers: lanesOf("ki", "kb")},
	{Name: "blocks", Layout: true, Offers: groupBlocks},
	{Name: "group lanes", Layout: true, Offers: lanesOf("gi", "gq", "g")},
	{Name: "order", Must: true, Offers: gridOrder},
	{Name: "pack", Layout: true, Must: true, Offers: gridPack},
	{Name: "chunk", Offers: optional(schedule.Pack{Tensor: "act"})},
	{Name: "scaled", Offers: gridScaled},
	{Name: "sums", Offers: gridSums, Whole: true},
	{Name: "shared", Offers: sharedActs},
	{Name: "stage", Offers: optional(schedule.Stage{Value: "w"})},
	{Name: "stage super", Offers: optional(schedule.Stage{Value: "super"})},
	{Name: "scale", Offers: optional(schedule.ScaleAt{})},
	{Name: "prefetch", Offers: optional(schedule.Prefetch{})},
	{Name: "parts", Offers: optional(schedule.SplitK{})},
	{Name: "quantize", Offers: quantizes},
}

// The space of workgroups: iterations that a lane spells out, words of its sums, and lanes of a group; and how many elements of K the
// lanes of a row take at once if fewer lanes are possible, because K is rarely a multiple of more.
const (
	mostSpelled = 512
	mostSums    = 96
	mostLanes   = 512
	mostAtOnce  = 2048
)

// fitsGrid says that a lane's sums and code are no more than they may be, or 1/part of both, and that a group has enough lanes.
func fitsGrid(s schedule.State, m schedule.Machine, part int) bool {
	code, lanes := 1, 1
	for _, l := range s.Loops() {
		switch l.Kind {
		case nest.Unrolled, nest.Vector:
			code *= l.N
		case nest.Lane:
			lanes *= l.N
		}
	}
	return code*part <= mostSpelled && lanes <= min(m.Group, mostLanes) && part*s.(*schedule.Product).Sums(32) <= mostSums
}

// decomposeDots offers no tables.
func decomposeDots(s schedule.State, m schedule.Machine) []schedule.Trace {
	return slices.DeleteFunc(each(schedule.Decompose{})(s, m), func(t schedule.Trace) bool { return t[0].(schedule.Decompose).Family != "dot" })
}

// columnGroups: the columns of a group.
func columnGroups(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 3, 6} {
		out = append(out, schedule.Trace{split("n", n, "nt", "nc"), bind("nt", "group")})
	}
	return out
}

// columnLanes: the columns of a lane.
func columnLanes(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	n := loop(s, "nc").N
	for _, by := range []int{8, 4, 16, 2, 1, 3, 6} {
		switch {
		case n%by != 0:
		case n == by:
			out = slices.Insert(out, 0, schedule.Trace{bind("nc", "unrolled")})
		default:
			out = append(out, schedule.Trace{split("nc", by, "nl", "nc"), bind("nl", "lane"), bind("nc", "unrolled")})
		}
	}
	return out
}

// tiled says that lanes have columns of their own: what they load serves many products.
func tiled(s schedule.State) bool { return loop(s, "nl").N > 1 }

// rowGroups: the rows of a group. A lane may load two or four of them at once.
func rowGroups(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	together, groups := []int{1, 4, 2}, []int{16, 8, 32, 4, 64, 128, 2, 1, 256}
	if tiled(s) {
		together, groups = []int{4, 2, 1}, []int{32, 16, 64, 8, 4, 128, 2}
	}
	for _, rv := range together {
		for _, n := range groups {
			t := schedule.Trace{split("m", n*rv, "mt", "lr"), bind("mt", "group")}
			if rv > 1 {
				t = append(t, split("lr", rv, "lr", "rv"), bind("rv", "vector"))
			}
			out = append(out, t)
		}
	}
	return out
}

// booksOfLanes: what has one book of levels is one cell or several.
func booksOfLanes(s schedule.State, m schedule.Machine) []schedule.Trace {
	l, n := open(s, "k"), s.(*schedule.Product).Problem.Weight.BookGroup
	if n == 0 || l.N > 0 && n >= l.N {
		return nil
	}
	return []schedule.Trace{{split(l.Name, n, "kb", "kd")}}
}

// loads: the bytes that a lane loads at once of a row, each with fields of elements that lie as far apart as all lanes read.
func loads(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	fewest := func(words int) int { return append(rowFieldsOf(s, 4*words), 1<<10)[0] }
	sizes := []int{4, 2, 1}
	slices.SortStableFunc(sizes, func(a, b int) int { return fewest(a) - fewest(b) })
	for _, words := range sizes {
		if loop(s, "rv").N > 1 && words > 1 || len(rowFieldsOf(s, 4*words)) == 0 {
			continue
		}
		t := schedule.Trace{split(l.Name, 4*words, "kq", "kw"), split("kw", 4, "v", "j"), schedule.Tensorize{Loop: "j", To: "dot4"}}
		if words == 1 {
			t = append(t, bind("v", "unrolled"))
		} else {
			t = append(t, bind("v", "vector"))
		}
		out = append(out, t)
	}
	return out
}

// rowFieldsOf are how many rows may have fields in a cell, few first, if a load has some elements of K of each.
func rowFieldsOf(s schedule.State, load int) (out []int) {
	k := open(s, "k")
	for _, rows := range []int{1, 2, 4, 8} {
		fits := func(codes int) bool { return codes%rows == 0 && k.N%(codes/rows*load) == 0 }
		if loop(s, "lr").N%rows == 0 && slices.ContainsFunc(cellSizes(s).codes, fits) {
			out = append(out, rows)
		}
	}
	return out
}

// rowFields: the rows of a cell.
func rowFields(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	for _, n := range rowFieldsOf(s, 1) {
		out = append(out, schedule.Trace{split("lr", n, "lr", "s"), bind("s", "unrolled")})
	}
	return out
}

// rowLanes: neighbouring lanes have neighbouring rows, a few each.
func rowLanes(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	n, of := loop(s, "lr").N, loop(s, "s").N
	for _, each := range []int{max(4/of, 1), 4, 2, 1, 8, 16} {
		if n%each == 0 {
			out = append(out, schedule.Trace{split("lr", n/each, "lr", "rl"), bind("lr", "unrolled"), bind("rl", "lane")})
		}
	}
	return out
}

// lanesOf makes lanes of the inner iterations of the first of some loops that there is.
func lanesOf(lane string, of ...string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		of := present(s, slices.Clone(of)...)
		if len(of) == 0 {
			return nil
		}
		l := loop(s, of[0])
		for _, n := range []int{32, 16, 8, 4, 64, 128, 2} {
			if l.N%n == 0 {
				out = append(out, schedule.Trace{split(l.Name, n, l.Root+"t", lane), bind(lane, "lane")})
			}
		}
		if tiled(s) {
			return append([]schedule.Trace{nil}, out...)
		}
		if l.Root == "k" {
			cell := cellSizes(s).codes[0]
			far := func(t schedule.Trace) bool { return t[0].(schedule.Split).By*l.Coef*cell > mostAtOnce }
			slices.SortStableFunc(out, func(a, b schedule.Trace) int { return compareBool(far(a), far(b)) })
		}
		return append(out, nil)
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// fieldsOfLoads: the fields of a cell are the loads of all lanes apart.
func fieldsOfLoads(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l, rows := open(s, "k"), loop(s, "s").N
	for _, n := range cellSizes(s).codes {
		if n%rows == 0 && l.N%(n/rows) == 0 {
			out = append(out, schedule.Trace{split(l.Name, n/rows, "ku", "f"), bind("f", "unrolled")})
		}
	}
	return out
}

// stepsOfLanes: how many cells of a lane are spelled out.
func stepsOfLanes(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := open(s, "k")
	if l.N > 0 {
		return spelledOut(l.Name)(s, m)
	}
	for _, n := range []int{1, 2, 4, 3} {
		out = append(out, schedule.Trace{split(l.Name, n, "ks", "u"), bind("u", "unrolled")})
	}
	return out
}

// groupBlocks: the groups of a block, whose sums are one integer, are one lane's. Other groups that share scales of weights or of activations are lanes
// of their own, since their floats are added in order.
func groupBlocks(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	p, g := s.(*schedule.Product).Problem, open(s, "g")
	if g.Name == "" || p.Unit() <= p.GroupK() {
		return nil
	}
	t := schedule.Trace{split(g.Name, p.Unit()/p.GroupK(), "gq", "gb")}
	out = []schedule.Trace{t, append(slices.Clip(t), bind("gb", "unrolled"))}
	if p.Block() == 1 {
		out = slices.Insert(out, 0, append(slices.Clip(t), bind("gb", "lane")))
	}
	return out
}

// gridOrder: lanes are around the loops of their cells, and the rows, the columns and the fields of a load in any order.
func gridOrder(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	around := present(s, "n", "nt", "mt", "nl", "rl", "g", "gt", "gq", "gi", "gb", "ki", "kl", "kb", "kt", "ks", "ku", "u")
	for _, inner := range [][]string{{"lr", "s", "f", "nc"}, {"f", "lr", "s", "nc"}, {"f", "nc", "lr", "s"}, {"nc", "lr", "s", "f"}} {
		out = append(out, schedule.Trace{schedule.Reorder{Order: slices.Concat(around, present(s, slices.Clone(inner)...), present(s, "rv", "v", "j"))}})
	}
	return out
}

// gridPack: neighbouring lanes read neighbouring bytes.
func gridPack(s schedule.State, m schedule.Machine) []schedule.Trace {
	lanes := []string{"rl", "gi", "gb", "ki", "kl", "rv", "v", "j"}
	if loop(s, "gb").Kind != nest.Lane {
		lanes = slices.DeleteFunc(lanes, func(name string) bool { return name == "gb" })
	}
	order := slices.Concat([]string{"mt", "words"}, present(s, lanes...))
	return each(schedule.Pack{Tensor: "codes", Order: order, Fields: []string{"s", "f"}})(s, m)
}

// inLanes is the outermost loop over k in the lanes, where a lane's own sums begin.
func inLanes(s schedule.State) string {
	for _, l := range s.Loops() {
		if l.Root == "k" && l.Kind != nest.Lane {
			return l.Name
		}
	}
	return ""
}

// gridScaled: fields where they are. A lane scales back the sums of all its fields.
func gridScaled(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	out = append(out, nil)
	for _, t := range each(schedule.ReadScaled{})(s, m) {
		out = append(out, append(slices.Clip(t), schedule.WidenEvery{Loop: inLanes(s)}))
	}
	return out
}

// gridSums: the words of a load have sums of their own, which a lane adds up.
func gridSums(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	if loop(s, "v").Kind != nest.Vector {
		return nil
	}
	return []schedule.Trace{{schedule.Rfactor{Loop: "v"}, schedule.WidenEvery{Loop: inLanes(s)}}}
}

// sharedActs: all lanes of a group read activations that they have copied together.
func sharedActs(s schedule.State, m schedule.Machine) []schedule.Trace {
	out := []schedule.Trace{nil}
	for _, l := range s.Loops() {
		if l.Kind == nest.Serial && l.N == 0 {
			out = append(out, schedule.Trace{schedule.Stage{Value: "act", At: l.Name}})
		}
	}
	if tiled(s) {
		slices.Reverse(out)
	}
	return out
}
