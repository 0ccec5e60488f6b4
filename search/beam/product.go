package beam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Purpose is a use of products that schedules are chosen for. Weight is how much its time counts beside the times of other purposes.
type Purpose struct {
	cost.Purpose
	Weight float64
}

// many is a number of activations that any number of columns divides well enough.
const many = 256

// Purposes are the uses of products. Decoding reads all weights for one activation, and is what most programs wait for.
var Purposes = []Purpose{
	{cost.Purpose{N: 1, At: cost.Shared}, 3}, {cost.Purpose{N: 1, At: cost.DRAM}, 2}, {cost.Purpose{N: 1, At: cost.L2}, 2},
	{cost.Purpose{N: 2, At: cost.Shared}, 0.5}, {cost.Purpose{N: 2, At: cost.L2}, 0.5},
	{cost.Purpose{N: 4, At: cost.Shared}, 1}, {cost.Purpose{N: 4, At: cost.DRAM}, 1}, {cost.Purpose{N: 4, At: cost.L2}, 1},
	{cost.Purpose{N: 8, At: cost.Shared}, 0.5}, {cost.Purpose{N: 8, At: cost.L2}, 0.5},
	{cost.Purpose{N: many, At: cost.L2}, 3},
}

// of are the purposes of n activations.
func of(n int) (out []Purpose) {
	for _, x := range Purposes {
		if x.N == n {
			out = append(out, x)
		}
	}
	return out
}

// How far a choice goes: about 200 points are evaluated. Each search begins where the one before it ended.
var (
	startsSearch  = Search{Width: 40, Budget: 120, Most: 6}                        // among ways to decompose
	anySearch     = Search{Width: 6, Budget: 400, Most: 8, Passes: 3}              // where no start has a kernel
	smallerSearch = Search{Width: 8, Budget: 24, Most: 2, Passes: 1, Strict: true} // among layouts of fewer bits
	sumsSearch    = Search{Width: 2, Budget: 12, Most: 3, Passes: 1, Strict: true} // of starts, so that sums do not wait for each other
	earlySearch   = Search{Width: 1, Budget: 20, Most: 6, Passes: 1, Strict: true} // for one column
	lateSearch    = Search{Width: 1, Budget: 10, Most: 5, Passes: 1, Strict: true, Backward: true}
	columnsSearch = Search{Width: 3, Most: 5, Passes: 1, Backward: true} // for more columns, beside its starts
)

const (
	eachKind      = 2    // starts of each kind
	samples       = 40   // further starts where these have no kernel
	lastSamples   = 600  // points where no search finds one
	mostStarts    = 4    // for one column, each by other means
	muchWorse     = 0.4  // in the score: a start by other means that is worse by more is none
	mostLayouts   = 6    // that are followed
	mostWide      = 3    // of them, to many columns
	notMuchWorse  = 0.3  // layouts whose score for one column is worse by more are not, nor to many columns those whose score for one and four is
	again         = 0.15 // in the score: other layouts of a kind come after the best ones of kinds that are worse by less
	closeCall     = 0.1  // in the score: tables and dot products that differ by less are compared by kernels for all numbers of columns
	otherKinds    = 2    // of starts, by each decision
	fewTries      = 4    // for each of them where no start has a kernel, for some number of columns
	triesOfWeight = 9    // of the layout that is chosen, for each weight of a purpose
)

// Product chooses the schedules of p on a target by what the model predicts for Purposes: of ascending numbers of columns, one first, and for
// one packed matrix. Their products are exact. The same arguments give the same schedules. The error says why there is none, or it is that of ctx.
func Product(ctx context.Context, p ir.Problem, t lower.Target) ([]search.Use, error) {
	all, err := Layouts(ctx, p, t)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Layouts are the schedules of Product, and then the schedules of the other layouts that it compared, which have fewer numbers of columns: by other
// means, such as tables, or another number of lanes. A search that measures begins with them.
func Layouts(ctx context.Context, p ir.Problem, t lower.Target) ([][]search.Use, error) {
	return layouts(ctx, p, t, "no default schedule", func(sp *space.Space) *space.Space { return sp })
}

// Tables are Layouts among schedules by tables.
func Tables(ctx context.Context, p ir.Problem, t lower.Target) ([][]search.Use, error) {
	return layouts(ctx, p, t, "no schedule by tables", func(sp *space.Space) *space.Space { return sp.ByTables(true) })
}

// Dots are Layouts among schedules by dot products.
func Dots(ctx context.Context, p ir.Problem, t lower.Target) ([][]search.Use, error) {
	return layouts(ctx, p, t, "no schedule by dot products", func(sp *space.Space) *space.Space { return sp.ByTables(false) })
}

// layouts are Layouts in a part of the space. Without one the error begins with none.
func layouts(ctx context.Context, p ir.Problem, t lower.Target, none string, part func(*space.Space) *space.Space) (all [][]search.Use, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	sp, err := space.For(p, t)
	if err != nil {
		return nil, err
	}
	c := newChooser(ctx, t, part(sp.Exact()))
	c.problem = p
	sets, err := c.choose()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%v on %s: %s: %w", p.Weight, t.Machine().Name, none, err)
	}
	for _, ks := range sets {
		all = append(all, ks.uses())
	}
	return all, nil
}

// chooser chooses the schedules of one product.
type chooser struct {
	ctx     context.Context
	problem ir.Problem
	target  lower.Target
	space   *space.Space
	mu      sync.Mutex               // of kernels, codes and vectors
	kernels map[string]*kernel       // by trace
	codes   map[sizes][]*code        // whatever the order
	vectors map[vir.Digest][]*code   // by vector IR, of different loops
	least   map[cost.Purpose]float64 // logarithms of the least times that are known
}

func newChooser(ctx context.Context, t lower.Target, sp *space.Space) *chooser {
	return &chooser{ctx: ctx, target: t, space: sp, kernels: map[string]*kernel{}, codes: map[sizes][]*code{}, vectors: map[vir.Digest][]*code{}, least: map[cost.Purpose]float64{}}
}

// set is kernels of one layout, of ascending numbers of columns.
type set []*kernel

// uses are the schedules of ks with their kernels.
func (ks set) uses() (out []search.Use) {
	for _, k := range ks {
		out = append(out, search.Use{Cols: k.Cols, Trace: k.Trace, Kernel: &variant.Kernel{Schedule: k.Kernel, Code: k.code}})
	}
	return out
}

// choose chooses a layout by kernels for one and for four columns, and then kernels for all numbers of columns. The other layouts follow.
func (c *chooser) choose() ([]set, error) {
	if err := c.oneColumn(); err != nil {
		if overflow := (*schedule.Overflow)(nil); errors.As(err, &overflow) {
			return nil, err // no kind of sums has room for all of K
		}
		k := c.repeating()
		if k == nil {
			return nil, err
		}
		return []set{{k}}, nil
	}
	ones, err := c.layouts()
	if err != nil {
		return nil, err
	}
	var sets []set
	for _, k := range ones {
		sets = append(sets, set{c.late(k)})
	}
	compared := of(1) // only for what there are kernels for: wider ones do the work of others, as badly as they are wide
	for _, n := range []int{4, many} {
		if n == many {
			sets = sets[:min(len(sets), mostWide)]
			most := c.score(sets[0], compared) + notMuchWorse
			sets = slices.DeleteFunc(sets, func(s set) bool { return c.score(s, compared) > most })
		}
		compared = append(compared, of(n)...)
		for i, s := range sets {
			sets[i] = c.wider(s, n, 0)
		}
		c.leastOf(compared, sets)
		slices.SortStableFunc(sets, func(a, b set) int { return cmp.Compare(c.score(a, compared), c.score(b, compared)) })
	}
	other := slices.IndexFunc(sets, func(ks set) bool {
		return c.tables(ks) != c.tables(sets[0]) && c.score(ks, compared) < c.score(sets[0], compared)+closeCall
	})
	c.leastOf(Purposes, sets)
	sets[0] = c.allColumns(sets[0])
	if other > 0 {
		sets[other] = c.allColumns(sets[other])
		if c.score(sets[other], Purposes)+c.preparing(sets[other]) < c.score(sets[0], Purposes)+c.preparing(sets[0]) {
			sets[0], sets[other] = sets[other], sets[0]
		}
	}
	for i := range sets[0] {
		sets[0] = c.otherwise(sets[0], i)
	}
	sets[0] = c.worth(sets[0])
	return sets, nil
}

// tables says that the kernels of a layout look sums up in tables.
func (c *chooser) tables(ks set) bool { return c.space.Means(ks[0].point).Tables }

// preparing is what preparations of activations add to the score of ks. All rows of a matrix have that in common; a usual one has cost.TypicalK rows.
func (c *chooser) preparing(ks set) float64 {
	widest := ks[len(ks)-1]
	if widest.Tables == nil && c.problem.Act.Floats() {
		return 0 // there is nothing to prepare
	}
	_, cycles, err := preparation(c.ctx, c.problem, widest.Tables, widest.Chunk, c.target)
	if err != nil {
		return math.Inf(1)
	}
	sum, all := 0.0, 0.0
	for _, x := range Purposes {
		sum += float64(x.Weight * logarithm(1+float64(x.N)*cycles/cost.TypicalK/ks.time(x.N, x.At)))
		all += x.Weight
	}
	return sum / all
}

// allColumns is kernels of the layout of ks for all numbers of columns.
func (c *chooser) allColumns(ks set) set {
	all := ks[:1]
	var without []Purpose // of more columns, which have no kernel of their own
	for _, n := range []int{4, 2, 8, many} {
		weight := 0.0
		for _, x := range of(n) {
			weight += x.Weight
		}
		before := len(all)
		if all = c.wider(all, n, int(triesOfWeight*weight), without...); len(all) == before {
			without = append(without, of(n)...)
		}
	}
	return all
}

// oneColumn searches kernels for one column by early decisions, since most others follow from them. Kernels by different means have
// little in common, so each is searched by itself.
func (c *chooser) oneColumn() error {
	one := c.space.Columns(1)
	starts, err := c.starts(one)
	if err != nil {
		starts, err = c.anyStart(one)
	}
	if err != nil {
		return err
	}
	c.leastOf(of(1), c.right())
	for _, x := range starts {
		found, err := c.search(sumsSearch, of(1)).Improve(c.ctx, one.Moving("scaled", "apart"), append(one.OtherKinds(x, otherKinds), x)...)
		if err != nil {
			return err
		}
		s := c.search(earlySearch, of(1))
		s.Hopeless = math.Inf(1)
		for _, k := range c.right() {
			s.Hopeless = min(s.Hopeless, c.score(k, of(1))+notMuchWorse)
		}
		if _, err := s.Improve(c.ctx, one, found[0].Point); err != nil {
			return err
		}
	}
	return nil
}

// late is k with late decisions that are better.
func (c *chooser) late(k *kernel) *kernel {
	found, err := c.search(lateSearch, of(1)).Improve(c.ctx, c.space.Columns(1).Sharing(k.Kernel), k.point)
	if err != nil {
		return k
	}
	for _, f := range found {
		better := c.find(f.Point, of(1), math.Inf(1))
		if better.code, err = lower.BuildOnce(c.ctx, c.target, better.Nest); err == nil {
			return better
		}
	}
	return k
}

// otherwise is ks with a kernel in the place of kernel i that gets its levels in another way, or adds up other sums, if ks is better with it. Neither
// decision may gain anything without the other.
func (c *chooser) otherwise(ks set, i int) set {
	k := ks[i]
	ps := of(k.Cols)
	if len(ps) == 0 {
		ps = of(many)
	}
	sp := c.space.Columns(k.Cols).Sharing(k.Kernel)
	found, err := c.search(sumsSearch, ps).Improve(c.ctx, sp.Moving("scaled", "apart"), append(sp.OtherKinds(k.point, otherKinds), k.point)...)
	if err != nil {
		return ks
	}
	for _, f := range found {
		better := slices.Clone(ks)
		better[i] = c.find(f.Point, Purposes, math.Inf(1))
		if better[i].err != nil || c.score(better, Purposes) >= c.score(ks, Purposes) {
			continue
		}
		if better[i].code, err = lower.BuildOnce(c.ctx, c.target, better[i].Nest); err == nil {
			return better
		}
	}
	return ks
}

// starts are the best points by each means that is not much worse than the best one: by tables, by dot products whose lanes are rows, and by
// dot products whose lanes are elements of K. They are compared with what the best first point asks for ahead.
func (c *chooser) starts(one *space.Space) (starts []space.Point, err error) {
	s := c.search(startsSearch, of(1))
	try := func(list func(*space.Space) []space.Point) ([]*Found, error) {
		xs := list(one)
		if slices.ContainsFunc(xs, func(x space.Point) bool { return c.find(x, of(1), math.Inf(1)).err != nil }) {
			xs = append(xs, list(one.Spare())...)
		}
		return s.Improve(c.ctx, one, xs...)
	}
	first, err := one.First()
	if err != nil {
		return nil, err
	}
	kinds := func(sp *space.Space) []space.Point { return append(sp.Kinds(first, eachKind), first) }
	found, err := try(kinds)
	if err != nil {
		return nil, err
	}
	found, err = s.Improve(c.ctx, one, append(one.Options(found[0].Point, len(first)-1, s.Most), found[0].Point)...)
	if err != nil {
		return nil, err
	}
	best, before := found[0], first
	first = best.Point
	found, err = try(func(sp *space.Space) []space.Point {
		return append(c.worthAsking(sp.Kinds(first, eachKind), before, best.Cost+muchWorse), first)
	})
	if err != nil {
		return nil, err
	}
	least := math.Inf(1)
	var all []*Found
	for _, by := range []bool{false, true} {
		i := slices.IndexFunc(found, func(f *Found) bool { return one.Means(f.Point).Tables == by })
		if i < 0 {
			continue
		}
		lanes, err := try(func(sp *space.Space) []space.Point { return append(sp.Lanes(found[i].Point), found[i].Point) })
		if err != nil {
			return nil, err
		}
		if smaller := one.Smaller(lanes[0].Point); len(smaller) > 0 {
			some, err := c.search(smallerSearch, of(1)).Improve(c.ctx, one.Moving("scaled", "apart"), smaller...)
			if err == nil {
				all = append(all, some[0])
			}
		}
		all = append(all, lanes...)
		least = min(least, lanes[0].Cost)
	}
	all = append(all, found...)
	slices.SortStableFunc(all, func(a, b *Found) int { return cmp.Compare(a.Cost, b.Cost) })
	known := map[kind]bool{}
	for _, f := range all {
		if by := c.kind(c.find(f.Point, of(1), math.Inf(1))); !known[by] && f.Cost < least+muchWorse && len(starts) < mostStarts {
			known[by] = true
			starts = append(starts, f.Point)
		}
	}
	return starts, nil
}

// kind is what layouts have little in common by: the means, how many bits a code takes, and what entries of tables are stored as.
type kind struct {
	space.Means
	bits            float64
	entries         format.DType
	residual, split bool
}

// kind is the kind of a kernel.
func (c *chooser) kind(k *kernel) kind {
	of := kind{Means: c.space.Means(k.point), bits: k.Weights.Part(format.Codes).CodeBits()}
	if t := k.Tables; t != nil {
		of.entries, of.residual, of.split = t.Elem, t.Residual, t.Split()
	}
	return of
}

// anyStart is a point that has a kernel where no start has one: of formats that take most registers or code. A longer search leads there from points
// that are wrong.
func (c *chooser) anyStart(one *space.Space) ([]space.Point, error) {
	rng := rand.New(rand.NewSource(1))
	var xs []space.Point
	x, err := one.First()
	if err == nil {
		xs = append(one.Spare().Kinds(x, eachKind), x)
	}
	if overflow := (*schedule.Overflow)(nil); errors.As(err, &overflow) { // no kind of sums has room for all of K
		return nil, err
	}
	for range samples {
		if y, err := one.SampleKind(rng); err == nil {
			xs = append(xs, y)
		}
	}
	if len(xs) == 0 {
		return nil, err
	}
	found, err := c.search(anySearch, of(1)).Improve(c.ctx, one, xs...)
	if err != nil {
		return nil, err
	}
	return []space.Point{found[0].Point}, nil
}

// repeating is the least wrong of the kernels for one column that fit the registers if values are computed again, or else a drawn one, nil if there is none.
func (c *chooser) repeating() *kernel {
	var all []*kernel
	for _, k := range c.kernels {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kernel) int {
		return cmp.Or(cmp.Compare(a.wrong, b.wrong), cmp.Compare(a.point.Trace().Key(), b.point.Trace().Key()))
	})
	for _, k := range all {
		if c.repeats(k) {
			return k
		}
	}
	one, rng := c.space.Columns(1), rand.New(rand.NewSource(1))
	spare, legal := one.Spare(), false
	for i := range lastSamples {
		from := spare
		if i%2 == 1 {
			from = one
		}
		x, err := from.SampleKind(rng)
		if err != nil {
			if !legal && i >= eachKind {
				return nil // there is nothing to draw
			}
			continue
		}
		legal = true
		if k := c.find(x, of(1), math.Inf(1)); c.repeats(k) || c.ctx.Err() != nil {
			return k
		}
	}
	return nil
}

// repeats gives k its code, with values that are computed again if it lacks registers, if it has one column and fits so.
func (c *chooser) repeats(k *kernel) bool {
	if c.ctx.Err() != nil || k.Kernel == nil || k.Cols != 1 || k.err != nil && k.wrong >= muchCode {
		return false
	}
	var err error
	k.code, err = lower.Build(c.ctx, c.target, k.Nest)
	return err == nil
}

// worthAsking are points that may cost less than most, or of those with tables and of those without the one that costs least. What they cost
// without any waiting is known from points that ask ahead for something else, as x does.
func (c *chooser) worthAsking(all []space.Point, x space.Point, most float64) (out []space.Point) {
	type sibling struct {
		point space.Point
		least float64
	}
	by := map[bool][]sibling{}
	for _, y := range all {
		k := c.find(slices.Concat(y[:len(y)-1], x[len(x)-1:]), of(1), math.Inf(1))
		if k.err != nil {
			continue
		}
		alone := &kernel{Kernel: k.Kernel, least: k.least, lines: k.lines}
		tables := c.space.Means(y).Tables
		by[tables] = append(by[tables], sibling{y, c.score(set{alone}, of(1))})
	}
	for _, tables := range []bool{false, true} {
		s := by[tables]
		slices.SortStableFunc(s, func(a, b sibling) int { return cmp.Compare(a.least, b.least) })
		for i, y := range s {
			if i == 0 || y.least < most {
				out = append(out, y.point)
			}
		}
	}
	return out
}

// right are the kernels for one column that are known to be possible, each alone.
func (c *chooser) right() (all []set) {
	for _, k := range c.kernels {
		if k.err == nil && k.Cols == 1 && k.knows(of(1)) {
			all = append(all, set{k})
		}
	}
	return all
}

// layouts are kernels of one column, the best one by each means whose layout is not much worse than the best layout.
func (c *chooser) layouts() (out []*kernel, err error) {
	var all []*kernel
	for _, s := range c.right() {
		all = append(all, s[0])
	}
	worse := func(k *kernel) float64 { return c.score(set{k}, of(1)) }
	slices.SortFunc(all, func(a, b *kernel) int {
		return cmp.Or(cmp.Compare(worse(a), worse(b)), cmp.Compare(a.point.Trace().Key(), b.point.Trace().Key()))
	})
	least, known := math.Inf(1), map[kind]bool{}
	if len(all) > 0 {
		least = worse(all[0])
	}
	small := c.smallest(least + notMuchWorse)
	after := map[*kernel]float64{} // what kernels are tried in the order of
	for _, k := range all {
		by := c.kind(k)
		if after[k] = worse(k); known[by] {
			after[k] += again
		}
		known[by] = true
	}
	slices.SortStableFunc(all, func(a, b *kernel) int { return cmp.Compare(after[a], after[b]) })
	if small != nil && !slices.Contains(all[:min(1, len(all))], small) {
		all = slices.Insert(all, min(1, len(all)), small)
	}
	for _, build := range []func(context.Context, lower.Target, *nest.Nest, ...lower.Watch) (*lower.Kernel, error){lower.BuildOnce, lower.Build} {
		for _, k := range all {
			same := func(o *kernel) bool {
				return o.SharesBuffers(k.Kernel) || c.kind(o) == c.kind(k) && o.Weights.TileM == k.Weights.TileM
			}
			if len(out) == mostLayouts || worse(k) > least+notMuchWorse || slices.ContainsFunc(out, same) {
				continue
			}
			if k.code, err = build(c.ctx, c.target, k.Nest); err == nil {
				out = append(out, k)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, cmp.Or(err, errors.New("no kernel for one column"))
}

// smallest is the kernel whose tile has the fewest vectors of rows, the best one of these, among those whose score for one column is less
// than most: calls of several columns have registers for few rows, and read a small tile whole. Searches may have given it up for a better
// one before they knew its score. It is nil if there is none.
func (c *chooser) smallest(most float64) *kernel {
	type small struct {
		*kernel
		vectors int
		least   float64
	}
	var all []small
	for _, k := range c.kernels {
		if k.err == nil && k.Cols == 1 {
			if x := (small{k, k.Weights.TileM / c.space.Means(k.point).Rows, c.score(set{k}, of(1))}); x.least < most {
				all = append(all, x)
			}
		}
	}
	slices.SortFunc(all, func(a, b small) int {
		return cmp.Or(cmp.Compare(a.vectors, b.vectors), cmp.Compare(a.least, b.least), cmp.Compare(a.point.Trace().Key(), b.point.Trace().Key()))
	})
	for _, x := range all {
		if k := c.find(x.point, of(1), most); k.err == nil && k.knows(of(1)) {
			return k
		}
	}
	return nil
}

// wider adds the kernel that a search finds for n activations, and for other purposes that it serves, to kernels of a layout, if there is one.
func (c *chooser) wider(ks set, n, tries int, also ...Purpose) set {
	sp := c.space.Sharing(ks[0].Kernel)
	if n < many {
		sp = sp.Columns(n)
	}
	ps := append(of(n), also...)
	from := slices.MinFunc(ks, func(a, b *kernel) int { return cmp.Compare(c.score(set{a}, ps), c.score(set{b}, ps)) })
	sizes := []string{"columns", "tile", "call"}
	s := c.search(columnsSearch, ps)
	s.bound = math.Inf(1)
	starts, best := c.fitting(s, sp.Around(from.point, n == many, sizes...))
	further := func(all []space.Point) {
		all, at := c.fitting(s, slices.DeleteFunc(all, func(x space.Point) bool {
			return best != nil && c.sizeOf(x) != c.sizeOf(best) && c.sizeOf(x).within(c.sizeOf(best))
		}))
		if starts = append(starts, all...); best == nil {
			best = at
		}
	}
	if n < many || best == nil {
		further(sp.Anew(from.point, n == many, sizes...))
	}
	if best == nil && slices.ContainsFunc(starts, func(x space.Point) bool { return c.find(x, ps, math.Inf(1)).wrong >= muchCode }) {
		further(sp.Rolled(from.point, n == many, sizes...))
	}
	if best == nil {
		tries += fewTries
	}
	s.Budget = s.calls + tries
	found, err := s.Improve(c.ctx, sp, starts...)
	if err != nil {
		return ks
	}
	for _, f := range found {
		k := c.find(f.Point, Purposes, math.Inf(1))
		at, has := slices.BinarySearchFunc(ks, k.Cols, func(o *kernel, n int) int { return cmp.Compare(o.Cols, n) })
		if has {
			continue
		}
		if k.code, err = lower.BuildOnce(c.ctx, c.target, k.Nest); err == nil {
			return slices.Insert(slices.Clone(ks), at, k)
		}
	}
	return ks
}

// size is the rows and the columns of a call.
type size struct{ rows, cols int }

func (a size) within(b size) bool { return a.rows <= b.rows && a.cols <= b.cols }

func (c *chooser) sizeOf(x space.Point) size {
	rows, cols := c.space.Size(x)
	return size{rows, cols}
}

// fitting are points, small ones first, without those that are larger than one that takes too many registers or too much code: they take more. The
// best one costs least, nil if all are wrong. Points that others are so much better than that the search would not keep them are left out, too.
func (c *chooser) fitting(s *Search, xs []space.Point) (out []space.Point, best space.Point) {
	rest := slices.Clone(xs)
	slices.SortStableFunc(rest, func(x, y space.Point) int {
		a, b := c.sizeOf(x), c.sizeOf(y)
		return cmp.Or(cmp.Compare(a.rows*a.cols, b.rows*b.cols), cmp.Compare(a.rows, b.rows))
	})
	least := math.Inf(1)
	s.Budget = s.calls + len(rest)
	var all []*Found
	for len(rest) > 0 {
		some := s.try(c.ctx, rest[:min(atOnce, len(rest))])
		all, rest = append(all, some...), rest[min(atOnce, len(rest)):]
		for _, f := range some {
			if f.err != nil {
				wrong := c.sizeOf(f.Point)
				rest = slices.DeleteFunc(rest, func(x space.Point) bool { return wrong.within(c.sizeOf(x)) })
			} else if f.Cost < least {
				least, best = f.Cost, f.Point
			}
		}
		s.keep(slices.Clone(all))
	}
	for _, f := range all {
		if f.err != nil || f.Cost <= s.bound {
			out = append(out, f.Point)
		}
	}
	return out, best
}

// atOnce is how many points are tried before what they show decides about others.
const atOnce = 2

// worth is the kernels of ks that are worth having: the best of all choices, and of equally good ones the first.
func (c *chooser) worth(ks set) (best set) {
	for choice := range 1 << (len(ks) - 1) {
		some := set{ks[0]}
		for i, k := range ks[1:] {
			if choice>>i&1 != 0 {
				some = append(some, k)
			}
		}
		if len(best) == 0 || c.score(some, Purposes) < c.score(best, Purposes) {
			best = some
		}
	}
	return best
}
