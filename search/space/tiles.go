package space

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// ForTiles is the space of p's schedules by products of matrices that the lanes of a subgroup hold together. Shapes are the rows, columns
// and depth of the ones that the device has. The error says that the target has none of them.
func ForTiles(p ir.Problem, t lower.Selector, subgroup int, shapes [][3]int) (*Space, error) {
	return tileGrid{lanes: subgroup}.space(p, t, shapes)
}

// ForTilesOf is the part of ForTiles whose kernels read the packed matrices of k, which may be a kernel without such products.
func ForTilesOf(k *schedule.Kernel, t lower.Selector, subgroup int, shapes [][3]int) (*Space, error) {
	if k.Fill != 0 {
		return nil, fmt.Errorf("%s: tiles have no groups that are filled", k.Problem.Name())
	}
	sp, err := tileGrid{lanes: subgroup, like: k}.space(k.Problem, t, shapes)
	if err != nil {
		return nil, err
	}
	return sp.only("pack", func(s schedule.State) bool { return s.(*schedule.Product).Buffers() == k.Buffers() }), nil
}

// space has the schedules of g by some shapes, the ones that t has.
func (g tileGrid) space(p ir.Problem, t lower.Selector, shapes [][3]int) (*Space, error) {
	sp, err := For(p, t)
	if err != nil {
		return nil, err
	}
	for _, x := range shapes {
		if lower.Can(t, func(r lower.Row) bool {
			return r.Op == vir.OpMatMul && r.Args[1].Elem == format.I8 && [3]int{r.Args[1].Rows, r.Args[2].Columns(), r.Args[1].Columns()} == x
		}) {
			g.shapes = append(g.shapes, x)
		}
	}
	if len(g.shapes) == 0 {
		return nil, fmt.Errorf("%s has no products of matrices of the shapes %v", t.Machine().Name, shapes)
	}
	sp.rules, sp.fits = g.rules(), func(s schedule.State, m schedule.Machine, part int) bool { return g.fits(s, m, part) }
	return sp, nil
}

// tileGrid makes the rules of products of matrices in workgroups. Loops: columns n = nt groups, wn subgroups, tn, j of a matrix; rows m = mt
// groups, wm subgroups, tm, i; groups g = gt, gr in turn, f fields or gi; elements k = ks, ku and kr in turn, f fields, u, d of a matrix; limbs of
// weights that have the scales of their groups.
type tileGrid struct {
	shapes [][3]int
	lanes  int
	like   *schedule.Kernel // whose packed matrices are read, nil: any
}

func (g tileGrid) rules() []Rule {
	rules := []Rule{
		{Name: "decompose", Layout: true, Must: true, Offers: decomposeDots},
		{Name: "fold", Layout: true, Offers: g.fold},
		{Name: "zero", Offers: ahead(zeroOfTiles)},
		{Name: "columns", Must: true, Offers: inGroups("n", "nt", "nn", 1)},
		{Name: "rows", Layout: true, Must: true, Offers: inGroups("m", "mt", "mm", 1)},
		{Name: "matrix", Layout: true, Must: true, Offers: g.matrix},
		{Name: "column subgroups", Must: true, Offers: inSubgroups("nn", "wn", "tn")},
		{Name: "row subgroups", Layout: true, Must: true, Offers: inSubgroups("mm", "wm", "tm")},
		{Name: "depth", Layout: true, Must: true, Offers: g.iteration},
		{Name: "fields", Layout: true, Must: true, Offers: g.fields},
		{Name: "order", Must: true, Offers: tileOrder},
		{Name: "pack", Layout: true, Must: true, Offers: tilePack},
		{Name: "stage", Must: true, Offers: tileStage, Whole: true},
		{Name: "scales", Offers: g.scales},
		{Name: "chunk", Layout: true, Offers: tileChunk},
		{Name: "shared", Offers: tileActs},
	}
	if g.like == nil {
		return rules
	}
	for name, offers := range map[string]offers{"rows": inGroups("m", "mt", "mm", g.like.Weights.TileM), "depth": g.iterationOf, "fields": g.fieldsOf, "pack": g.packAlike} {
		rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })].Offers = offers
	}
	return rules
}

// fold: weights have the integer scales of their groups, as they must where these are shorter than matrices are deep.
func (g tileGrid) fold(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	group := s.(*schedule.Product).Problem.GroupK()
	if slices.ContainsFunc(g.shapes, func(x [3]int) bool { return group%x[2] == 0 }) {
		out = append(out, nil)
	}
	folded := schedule.FoldScales{}
	if _, err := folded.Apply(s.(*schedule.Product)); err == nil {
		out = append(out, schedule.Trace{folded})
	}
	return out
}

// mostOfMatrices bounds the matrices that a subgroup multiplies in an iteration, and the words of sums of a lane.
const mostOfMatrices, mostMatrixSums = 128, 128

func (g tileGrid) fits(s schedule.State, m schedule.Machine, part int) bool {
	code, lanes := 1, g.lanes
	for _, l := range s.Loops() {
		switch l.Kind {
		case nest.Unrolled:
			code *= l.N
		case nest.Lane:
			lanes *= l.N
		}
	}
	sums := max(loop(s, "tm").N, 1) * max(loop(s, "tn").N, 1) * g.shapes[0][0] * g.shapes[0][1] / g.lanes
	if loop(s, "limb").N > 0 { // and the sums of limbs
		sums += sums / 2
	}
	return code*part <= mostOfMatrices && lanes <= min(m.Group, mostLanes) && part*sums <= mostMatrixSums
}

// zeroOfTiles: matrices of bytes have a sign, so zero points alone leave the sum.
func zeroOfTiles(s schedule.State, m schedule.Machine) []schedule.Trace {
	if s.(*schedule.Product).MustHoist() {
		return zero(s, m)
	}
	return nil
}

// inGroups: what a workgroup has of an axis, in whole tiles.
func inGroups(axis, outer, inner string, tile int) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		for _, n := range []int{128, 64, 256, 32} {
			if n%tile != 0 || tile > 1 && n/tile > format.MostTiles {
				continue
			}
			out = append(out, schedule.Trace{split(axis, n, outer, inner), bind(outer, "group")})
		}
		return out
	}
}

// matrix: the shape that one instruction multiplies, the innermost part of the rows and columns of a group.
func (g tileGrid) matrix(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	for _, x := range g.shapes {
		if loop(s, "mm").N%x[0] == 0 && loop(s, "nn").N%x[1] == 0 {
			out = append(out, schedule.Trace{split("mm", x[0], "mm", "i"), split("nn", x[1], "nn", "j")})
		}
	}
	return out
}

// inSubgroups: how many matrices along an axis a subgroup has.
func inSubgroups(of, outer, inner string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		for _, n := range []int{4, 2, 1, 8} {
			if l := loop(s, of); l.N%n == 0 {
				out = append(out, schedule.Trace{split(of, n, outer, inner), bind(outer, "lane"), bind(inner, "unrolled")})
			}
		}
		return out
	}
}

// depth is how deep the matrices are whose rows and columns were decided.
func (g tileGrid) depth(s schedule.State) int {
	for _, x := range g.shapes {
		if x[0] == loop(s, "i").N && x[1] == loop(s, "j").N {
			return x[2]
		}
	}
	return 0
}

// longGroup is a number of elements of K: groups that have more are taken in parts, too.
const longGroup = 128

// iteration: the elements of K, or the groups, of an iteration.
func (g tileGrid) iteration(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	k, d := open(s, "k"), g.depth(s)
	if k.N > 0 {
		p := s.(*schedule.Product).Problem
		unit := p.Unit() / (p.GroupK() * loop(s, "g").Coef)
		for _, n := range []int{4, 8, 2} {
			if d > 0 && unit == 1 && k.N > longGroup && k.N%(n*d) == 0 && k.N > n*d {
				out = append(out, schedule.Trace{split("g", 1, "gt", "gi"), split(k.Name, n*d, "kr", "kk")})
			}
		}
		for _, n := range []int{1, 2, 4} {
			out = append(out, schedule.Trace{split("g", n*unit, "gt", "gi")})
		}
		return out
	}
	for _, n := range []int{4, 2, 8, 16} {
		out = append(out, schedule.Trace{split(k.Name, n*d, "ks", "kk")})
	}
	return out
}

// fields: fields of a cell are parts of an iteration's elements of K that lie as far apart as they may, or groups if these are
// as short as a matrix is deep. The rest is the depth of the matrices.
func (g tileGrid) fields(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	d, k, gi := g.depth(s), open(s, "k"), loop(s, "gi")
	tensorized := schedule.Tensorize{Loop: "d", To: "tile", Rows: "i", Columns: "j", Lanes: g.lanes}
	for _, f := range cellSizes(s).codes {
		if k.N%(f*d) == 0 {
			t := schedule.Trace{split(k.Name, k.N/f, "f", "kd"), bind("f", "unrolled"), split("kd", d, "u", "d"), bind("u", "unrolled")}
			if gi.N > 0 {
				t = append(t, bind("gi", "unrolled"))
			}
			out = append(out, append(t, tensorized))
		}
		if gi.N > 0 && gi.N%f == 0 && k.N%d == 0 {
			out = append(out, schedule.Trace{split("gi", gi.N/f, "f", "gi"), bind("f", "unrolled"), bind("gi", "unrolled"),
				split(k.Name, d, "u", "d"), bind("u", "unrolled"), tensorized})
		}
	}
	return out
}

func tileOrder(s schedule.State, m schedule.Machine) []schedule.Trace {
	groups, middle := []string{"gi"}, []string{"u", "f"}
	if loop(s, "f").Root == "g" {
		groups, middle = []string{"f", "gi"}, []string{"u"}
	}
	turns := []string{"ks", "gt", "gr"}
	if loop(s, "ku").Kind == nest.Serial {
		turns = append(turns, "ku")
	} else {
		middle = slices.Insert(middle, 0, "ku")
	}
	turns = append(turns, "kr")
	if i := slices.IndexFunc(turns, func(name string) bool { l := loop(s, name); return l.N > 0 && l.Root == "k" }); i > 0 {
		turns = slices.Insert(turns, i, groups...) // groups are around their elements
	} else {
		middle = append(groups, middle...)
	}
	order := slices.Concat([]string{"nt", "mt", "wm", "wn"}, present(s, turns...), present(s, middle...), present(s, "limb"), []string{"tm", "tn", "i", "j", "d"})
	return []schedule.Trace{{schedule.Reorder{Order: order}}}
}

// tilePack: a subgroup's matrices lie together, as it reads them.
func tilePack(s schedule.State, m schedule.Machine) []schedule.Trace {
	order := slices.Concat([]string{"mt"}, present(s, "ks", "gt"), []string{"wm", "words", "d"})
	return each(schedule.Pack{Tensor: "codes", Order: order, Fields: []string{"f"}})(s, m)
}

// iterated is the innermost loop that lanes run in turn, of the ones over some axes.
func iterated(s schedule.State, roots ...string) (name string) {
	for _, l := range s.Loops() {
		if l.Kind == nest.Serial && slices.Contains(roots, l.Root) {
			name = l.Name
		}
	}
	return name
}

// scales: lanes share the scales of groups, or each subgroup reads them from memory, which has halves and floats of rows beside each other.
func (g tileGrid) scales(s schedule.State, m schedule.Machine) []schedule.Trace {
	p := s.(*schedule.Product).Problem
	if p.Weight.Group == 0 {
		return nil
	}
	share := schedule.Trace{schedule.Stage{Value: "scales", At: iterated(s, "g"), Shared: true}}
	apart := slices.ContainsFunc(p.Weight.Shared(), func(x format.Shared) bool { return x.Span > 0 && x.Elem != format.F16 && x.Elem != format.F32 })
	if g.like != nil {
		apart = apart || slices.ContainsFunc(g.like.Weights.Parts, rowsApart)
	}
	if apart {
		return []schedule.Trace{share, nil}
	}
	return []schedule.Trace{nil, share}
}

// rowsApart says that neighbouring rows of what groups share do not lie beside each other.
func rowsApart(p format.Part) bool {
	return p.Elem != format.Invalid && slices.ContainsFunc(p.Digits, func(d format.Digit) bool { return d.Axis == "m" && d.Div == 1 && d.Stride != p.Elem.Bytes() })
}

// tileStage: all lanes decode weights into a buffer that they share, with loads an iteration ahead, by halves, or neither.
func tileStage(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	w := schedule.Stage{Value: "w", At: iterated(s, "k", "g"), Shared: true}
	early, halves := w, w
	early.Ahead, halves.Ahead, halves.Halves = true, true, true
	return []schedule.Trace{{early}, {halves}, {w}}
}

func tileChunk(s schedule.State, m schedule.Machine) []schedule.Trace {
	return []schedule.Trace{{schedule.Pack{Tensor: "act", Chunk: loop(s, "d").N}}, nil}
}

func tileActs(s schedule.State, m schedule.Machine) []schedule.Trace {
	return []schedule.Trace{{schedule.Stage{Value: "act", At: iterated(s, "k", "g")}}, nil}
}
