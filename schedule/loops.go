package schedule

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
)

// maxCoef bounds how far one iteration of a loop moves along its axis.
const maxCoef = 1 << 20

var loopName = regexp.MustCompile(`^[a-z][a-z0-9_.]{0,15}$`)

// edit finds a loop and returns a copy of the product to edit, with the loop's
// stage and position.
func edit(x Step, s *Product, loop string) (*Product, *stage, int, error) {
	c := s.clone()
	st, i, err := c.loop(x, loop)
	return c, st, i, err
}

// Split divides a loop in two, the inner one running By times. By must divide a
// constant trip count; a run-time one is rounded up, its tail padded by packing. Both parts of an unrolled loop are unrolled.
//
//	for m 64            for mo 2
//	    s[m]       ->       for mi 32
//	                            s[32*mo+mi]
type Split struct {
	Loop string `json:"loop"`
	By   int    `json:"by"`
	Into Pair   `json:"into"`
}

// Pair is the names of an outer and an inner loop.
type Pair [2]string

// UnmarshalJSON reads a list of two.
func (p *Pair) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	if len(names) != 2 {
		return fmt.Errorf("%d loop names, want 2", len(names))
	}
	*p = Pair(names)
	return nil
}

// Apply implements Step.
func (x Split) Apply(s *Product) (*Product, error) {
	if s.weights != nil {
		return nil, illegal(x, x.Loop, "split before pack: the layout is made of the loops")
	}
	return s.edited(x)
}

// ApplyPreparation implements PreparationStep.
func (x Split) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

// ApplyOperator implements OperatorStep.
func (x Split) ApplyOperator(s *Operator) (*Operator, error) { return s.edited(x) }

func (x Split) edit(n *nests, _ int) error {
	st, i, err := n.loop(x, x.Loop)
	if err != nil {
		return err
	}
	l := st.loops[i]
	switch {
	case x.By < 1 || x.By > 4096:
		return illegal(x, x.Loop, "%d is not between 1 and 4096", x.By)
	case l.N > 0 && l.N%x.By != 0:
		return illegal(x, x.Loop, "%d does not divide its extent %d", x.By, l.N)
	case l.Coef*x.By > maxCoef:
		return illegal(x, x.Loop, "an iteration would advance by %d, at most %d", l.Coef*x.By, maxCoef)
	case l.Kind != nest.Serial && l.Kind != nest.Unrolled:
		return illegal(x, x.Loop, "it is bound %s; split first", l.Kind)
	case !loopName.MatchString(x.Into[0]) || !loopName.MatchString(x.Into[1]) || x.Into[0] == x.Into[1]:
		return illegal(x, x.Loop, "want two different loop names of up to 16 small letters, digits, '_' and '.', a letter first; have %q and %q", x.Into[0], x.Into[1])
	}
	for _, name := range x.Into {
		if other, _ := n.find(name); name == l.Root || name != x.Loop && (other != nil || reserved[name]) {
			return illegal(x, x.Loop, "there is a loop or axis %s already", name)
		}
	}
	if used := st.usedBy(x.Loop); used != "" {
		return illegal(x, x.Loop, "%s refers to it; split first", used)
	}
	outer, inner := l, l
	outer.Name, inner.Name = x.Into[0], x.Into[1]
	outer.Coef, inner.N = l.Coef*x.By, x.By
	if l.N > 0 {
		outer.N = l.N / x.By
	}
	st.loops = slices.Replace(st.loops, i, i+1, outer, inner)
	return nil
}

// reserved are names that loops must not take: the stage axes, the classes of
// read_scaled, and what Pack calls the words of a cell and what groups share.
var reserved = map[string]bool{"m": true, "n": true, "k": true, "g": true, "scale": true, "words": true,
	"planes": true, sharedWord: true, nest.ListParam: true, planeLoop: true, partLoop: true, halfLoop: true, digitLoop: true, partsLoop: true}

// usedBy names what refers to a loop: an accumulator or a staged value.
func (st *stage) usedBy(loop string) string {
	if acc := st.keptBy(loop); acc != "" {
		return acc
	}
	for _, acc := range st.accumulators {
		if acc.At == loop || slices.ContainsFunc(acc.fields, func(f fieldLoop) bool { return f.loop == loop }) {
			return "accumulator " + acc.Temp.Name
		}
		if acc.Beside != nil && acc.Beside.Apart == loop {
			return "accumulator " + acc.Beside.Temp.Name
		}
	}
	for _, sg := range st.staged {
		if sg.At == loop {
			return "staged " + sg.Temp.Name
		}
	}
	return ""
}

// keptBy names the accumulator that keeps the values of a loop apart.
func (st *stage) keptBy(loop string) string {
	for _, acc := range st.accumulators {
		if slices.ContainsFunc(acc.Keep, func(k nest.Keep) bool { return k.Name == loop }) {
			return "accumulator " + acc.Temp.Name
		}
	}
	return ""
}

// Fuse makes one loop of two adjacent ones that count the same stage axis: the
// inverse of Split.
//
//	for ko 4              for k 16
//	    for ki 4     ->       s[k]
//	        s[4*ko+ki]
type Fuse struct {
	Outer string `json:"outer"`
	Inner string `json:"inner"`
	Into  string `json:"into"`
}

// Apply implements Step.
func (x Fuse) Apply(s *Product) (*Product, error) {
	if s.weights != nil {
		return nil, illegal(x, x.Outer, "fuse before pack: the layout is made of the loops")
	}
	return s.edited(x)
}

// ApplyPreparation implements PreparationStep.
func (x Fuse) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

// ApplyOperator implements OperatorStep.
func (x Fuse) ApplyOperator(s *Operator) (*Operator, error) { return s.edited(x) }

func (x Fuse) edit(n *nests, _ int) error {
	st, i, err := n.loop(x, x.Outer)
	if err != nil {
		return err
	}
	if i+1 >= len(st.loops) || st.loops[i+1].Name != x.Inner {
		return illegal(x, x.Outer, "loop %s is not right inside it", x.Inner)
	}
	a, b := st.loops[i], st.loops[i+1]
	switch {
	case a.Root != b.Root || b.N == 0 || a.Coef != b.Coef*b.N:
		return illegal(x, x.Outer, "%s does not continue it", x.Inner)
	case a.Kind != nest.Serial || b.Kind != nest.Serial:
		return illegal(x, x.Outer, "a bound loop cannot be fused")
	case st.usedBy(x.Outer) != "":
		return illegal(x, x.Outer, "%s refers to it", st.usedBy(x.Outer))
	case st.usedBy(x.Inner) != "":
		return illegal(x, x.Inner, "%s refers to it", st.usedBy(x.Inner))
	case !loopName.MatchString(x.Into):
		return illegal(x, x.Outer, "%q is not a loop name", x.Into)
	}
	others := slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Root == a.Root && l.Name != a.Name && l.Name != b.Name })
	if other, _ := n.find(x.Into); other != nil && x.Into != x.Outer && x.Into != x.Inner || reserved[x.Into] && x.Into != a.Root || x.Into == a.Root && others {
		return illegal(x, x.Outer, "there is a loop or axis %s already", x.Into)
	}
	f := nest.Loop{Name: x.Into, Root: a.Root, Coef: b.Coef, N: a.N * b.N}
	st.loops = slices.Replace(st.loops, i, i+2, f)
	return nil
}

// Reorder puts the loops of a stage in the given order, outermost first. All of
// them must be named. Integer sums may be reordered freely, the float sum over
// groups not (it keeps the order of ascending groups).
//
//	for m                 for k
//	    for k        ->       for m
//	        s[m,k]                s[m,k]
type Reorder struct {
	Order []string `json:"order"`
}

// Apply implements Step.
func (x Reorder) Apply(s *Product) (*Product, error) { return s.edited(x) }

// ApplyPreparation implements PreparationStep.
func (x Reorder) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

// ApplyOperator implements OperatorStep.
func (x Reorder) ApplyOperator(s *Operator) (*Operator, error) { return s.edited(x) }

func (x Reorder) edit(n *nests, _ int) error {
	if len(x.Order) == 0 {
		return illegal(x, "order", "is empty")
	}
	st, _, err := n.loop(x, x.Order[0])
	if err != nil {
		return err
	}
	var loops []nest.Loop
	for _, name := range x.Order {
		i := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Name == name })
		if i < 0 {
			return illegal(x, name, "no such loop in this stage")
		}
		if slices.ContainsFunc(loops, func(l nest.Loop) bool { return l.Name == name }) {
			return illegal(x, name, "named twice")
		}
		loops = append(loops, st.loops[i])
	}
	for _, l := range st.loops {
		if !slices.Contains(x.Order, l.Name) {
			return illegal(x, l.Name, "is not in the order")
		}
	}
	st.loops = loops
	return nil
}

// Bind says how a loop runs: "outer" (by the caller, one kernel call each, or tiles of rows one after the other by a call),
// "unrolled", or "vector" (the lanes of a register; the outermost vector loop
// has the widest stride). Loops start out serial. "pair" is for two rows, the innermost
// lanes: they are neighbours in the lowest accumulator, which is half as wide as the one
// above, and that has a register for each. A flush widens every other lane, which is a
// shift or a mask. "group" and "lane" are for targets with workgroups: a group has the lanes of all loops that are bound so,
// and all groups run at once. Lanes of a reduction sum a part each, which
// are added up in the order of lanes, and the code around them runs once.
//
//	for l 16                    vector l 16
//	    acc[l] += x[l]     ->       acc[l] += x[l]      one instruction
type Bind struct {
	Loop string `json:"loop"`
	To   string `json:"to"`
}

var bindings = map[string]nest.Kind{"outer": nest.Outer, "unrolled": nest.Unrolled, "vector": nest.Vector, "pair": nest.Pair, "group": nest.Group, "lane": nest.Lane}

// MostUnrolled bounds the iterations of an unrolled loop. MostLanes bounds the iterations of a vector loop, MostGroupLanes
// the ones of a loop of lanes.
const (
	MostUnrolled   = 64
	MostLanes      = 64
	MostGroupLanes = 1024
)

// Apply implements Step.
func (x Bind) Apply(s *Product) (*Product, error) { return s.edited(x) }

// ApplyPreparation implements PreparationStep.
func (x Bind) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

// ApplyOperator implements OperatorStep.
func (x Bind) ApplyOperator(s *Operator) (*Operator, error) { return s.edited(x) }

func (x Bind) edit(n *nests, _ int) error {
	st, i, err := n.loop(x, x.Loop)
	if err != nil {
		return err
	}
	l := &st.loops[i]
	kind, ok := bindings[x.To]
	switch {
	case !ok:
		return illegal(x, x.Loop, "cannot be bound to %q; have outer, unrolled, vector, pair, group, lane", x.To)
	case l.Kind != nest.Serial:
		return illegal(x, x.Loop, "is bound %s already", l.Kind)
	case l.N == 0 && !kind.Outside():
		return illegal(x, x.Loop, "its trip count is known at run time only")
	case kind.Outside() && st.reduce[l.Root]:
		return illegal(x, x.Loop, "a reduction cannot be spread over calls")
	case kind == nest.Lane && l.N > MostGroupLanes:
		return illegal(x, x.Loop, "%d lanes of a group, at most %d", l.N, MostGroupLanes)
	case kind == nest.Unrolled && l.N > MostUnrolled:
		return illegal(x, x.Loop, "%d iterations are too many to unroll", l.N)
	case kind == nest.Pair && (l.N != 2 || st.reduce[l.Root]):
		return illegal(x, x.Loop, "a pair is two rows or columns")
	case kind == nest.Vector && (l.N > MostLanes || l.N&(l.N-1) != 0):
		return illegal(x, x.Loop, "%d is not a power of two of at most %d lanes", l.N, MostLanes)
	}
	l.Kind = kind
	return nil
}

// Tensorize makes the innermost lanes one dot-product instruction: "dot4" sums
// 4 products of bytes into 32 bits, "dot2" sums 2 into 16 bits, "dot1" adds one to 16 bits.
//
//	vector l 16                          vector l 16
//	    for j 4                     ->       dot j 4
//	        acc[l] += w[l,j]*a[j]                acc[l] += w[l,j]*a[j]
//
// "tile" makes three loops one product of matrices, of Rows by Columns, which sums over Loop. Lanes lanes of a workgroup hold
// the matrices together, a subgroup. Without Lanes, a core has its own: rows may be a vector loop and columns an unrolled one. An
// accumulator below the others, which begins with 0, is a matrix then.
//
//	for i 16                             tile i 16
//	    for c 16                             tile c 16
//	        for j 32                ->           tile j 32
//	            acc[i,c] += w[i,j]*a[c,j]            acc[i,c] += w[i,j]*a[c,j]
type Tensorize struct {
	Loop    string `json:"loop"`
	To      string `json:"to"`
	Rows    string `json:"rows,omitempty"`
	Columns string `json:"columns,omitempty"`
	Lanes   int    `json:"lanes,omitempty"`
}

// Apply implements Step.
func (x Tensorize) Apply(s *Product) (*Product, error) { return s.edited(x) }

// ApplyPreparation implements PreparationStep.
func (x Tensorize) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

func (x Tensorize) edit(n *nests, unit int) error {
	st, i, err := n.loop(x, x.Loop)
	if err != nil {
		return err
	}
	if x.To == "tile" {
		return x.tile(st, unit)
	}
	l := &st.loops[i]
	want := map[string]int{"dot4": 4, "dot2": 2, "dot1": 1}[x.To]
	switch {
	case want == 0:
		return illegal(x, x.Loop, "no instruction %q; have dot4, dot2, dot1, tile", x.To)
	case x.Rows != "" || x.Columns != "" || x.Lanes != 0:
		return illegal(x, x.Loop, "rows, columns and lanes are a tile's")
	case l.Kind != nest.Serial:
		return illegal(x, x.Loop, "is bound %s already", l.Kind)
	case !st.reduce[l.Root] || l.Root == "g" || l.Coef != unit || l.N != want:
		return illegal(x, x.Loop, "%s wants the innermost %d steps of %d along K, this is %d of %s with stride %d", x.To, want, unit, l.N, l.Root, l.Coef)
	}
	l.Kind = nest.Dot
	return nil
}

// tile makes the loops of a tile ones.
func (x Tensorize) tile(st *stage, unit int) error {
	if x.Lanes < 0 || x.Lanes > MostGroupLanes || x.Lanes&(x.Lanes-1) != 0 {
		return illegal(x, x.Loop, "%d lanes: want a power of two of at most %d", x.Lanes, MostGroupLanes)
	}
	for _, part := range []struct {
		name, root string
		coef       int
		bound      nest.Kind
	}{{x.Rows, "m", 1, nest.Vector}, {x.Columns, "n", 1, nest.Unrolled}, {x.Loop, "k", unit, nest.Serial}} {
		i := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Name == part.name })
		if i < 0 {
			return illegal(x, x.Loop, "there is no loop %q over %s", part.name, part.root)
		}
		switch l := &st.loops[i]; {
		case l.Root != part.root || l.Coef != part.coef:
			return illegal(x, part.name, "a tile wants the innermost steps of %d along %s, this is of %s with stride %d", part.coef, part.root, l.Root, l.Coef)
		case l.Kind != nest.Serial && (l.Kind != part.bound || x.Lanes > 0):
			return illegal(x, part.name, "is bound %s already", l.Kind)
		case l.N < 1 || l.N > MostLanes || l.N&(l.N-1) != 0:
			return illegal(x, part.name, "%d is not a power of two of at most %d", l.N, MostLanes)
		default:
			l.Kind = nest.Tile
		}
	}
	if st.holders = x.Lanes; x.Lanes == 0 && len(st.accumulators) > 0 {
		st.insert(nil, func(t ir.Expr) ir.Expr { return t })
	}
	return nil
}

// multiples are how many steps of a loop that is counted at run time, or that a large number of iterations divides, are worth a try.
var multiples = []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 22, 24, 32, 48, 64}

// Propose implements Proposer: multiples of By that divide the loop, or at run time some small ones.
func (x Split) Propose(s State, _ Machine) (out []Step) {
	l, unit := loopCalled(s, x.Loop), max(x.By, 1)
	if l.N == 0 {
		for _, n := range multiples {
			x.By = n * unit
			out = append(out, x)
		}
		return out
	}
	for x.By = unit; x.By <= l.N; x.By += unit {
		if l.N%x.By == 0 {
			out = append(out, x)
		}
	}
	return out
}

// Propose implements Proposer: the ways in which the loop can run.
func (x Bind) Propose(s State, _ Machine) (out []Step) {
	l := loopCalled(s, x.Loop)
	for _, b := range []struct {
		to   string
		fits bool
	}{
		{"outer", l.N == 0},
		{"vector", l.N > 1 && l.N <= MostLanes && l.N&(l.N-1) == 0},
		{"unrolled", l.N > 0 && l.N <= MostUnrolled},
		{"pair", l.N == 2},
	} {
		if b.fits && (x.To == "" || x.To == b.to) {
			out = append(out, Bind{x.Loop, b.to})
		}
	}
	return out
}

// Propose implements Proposer: the dot products of the loop's length, those in 16 bits as the machine has them. Pairs of products take
// weights without a sign and saturate.
func (x Tensorize) Propose(s State, m Machine) []Step {
	n := loopCalled(s, x.Loop).N
	p, ok := s.(*Product)
	if n != 4 && n != m.Narrow && (!ok || p.tables == nil) || n == 2 && ok && p.tables == nil && (!p.hoisted || p.checkPairs() != nil) {
		return nil
	}
	return []Step{Tensorize{Loop: x.Loop, To: fmt.Sprint("dot", n)}}
}

// Propose implements Proposer: the loops of Order stay innermost, those over K in the order that they have. The rows, the row fields
// of a cell, its fields along K and the columns, or of tables the fields, what makes an index, the rows and the columns, take every
// order; and the loop over cells may go inside the first of them.
func (x Reorder) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || len(p.stages) == 0 {
		return nil
	}
	var around, along, index, rows, cols []string
	for _, l := range s.Loops() {
		switch {
		case slices.Contains(x.Order, l.Name):
		case l.Kind == nest.Outer, l.Name == halfLoop && p.tables.Residual:
			around = append(around, l.Name)
		case l.Root == "k" || l.Root == "g":
			along = append(along, l.Name)
		case l.Root == "m":
			rows = append(rows, l.Name)
		case l.Root == "n":
			cols = append(cols, l.Name)
		default:
			index = append(index, l.Name)
		}
	}
	if len(along) < 2 || len(rows) < 2 {
		return nil
	}
	f, r := len(along)-1, len(rows)-1
	parts := [4][]string{along[f:], rows[r:], rows[:r], cols}
	if p.tables != nil {
		parts = [4][]string{along[f:], index, rows, cols}
	}
	u := loopCalled(s, along[f-1])
	for _, at := range orders {
		head, first := append(slices.Clone(around), along[:f-1]...), parts[at[0]]
		rest := slices.Concat(parts[at[1]], parts[at[2]], parts[at[3]], x.Order)
		out = append(out, Reorder{slices.Concat(head, along[f-1:f], first, rest)})
		if at[0] >= 2 && u.N > 1 {
			out = append(out, Reorder{slices.Concat(head, first, along[f-1:f], rest)})
		}
	}
	return out
}

// orders are the orders of four things.
var orders = func() (out [][4]int) {
	for i := range 4 * 4 * 4 * 4 {
		at := [4]int{i / 64, i / 16 % 4, i / 4 % 4, i % 4}
		if len(slices.Compact(slices.Sorted(slices.Values(at[:])))) == 4 {
			out = append(out, at)
		}
	}
	return out
}()
