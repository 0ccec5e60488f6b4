package model

import (
	"slices"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/pool"
)

// experts is the feed-forward part of layers in which each position chooses some of several networks. docs/ir.md defines it.
type experts struct {
	Experts
	embedding int
}

// rowBytes counts the prepared activations, too: each chosen expert has its own.
func (x *experts) rowBytes() int64 {
	used := int64(x.Used) * (4*3 + 5*int64(x.embedding) + 9*int64(x.FeedForward))
	if x.Shared > 0 {
		used += 4 * (1 + int64(x.embedding) + 2*int64(max(x.Shared-x.Used*x.FeedForward, 0))) // gates have room for one or the other
	}
	return 4*int64(x.Count) + used
}

// routed is the rows of a batch by the experts that they choose.
type routed struct {
	experts *experts
	scores  []float32 // [rows][experts]
	chosen  []int32   // [rows][used], in descending order of scores
	weights []float32 // [rows][used]
	places  []int32   // [rows][used]: the place of a row in sorted
	groups  []group
	ends    []int32   // of each expert's rows in sorted
	sorted  []float32 // [rows*used][embedding], by experts: what they read, and then what they compute
	// Of the expert that all rows have:
	score  []float32 // [rows]
	shared []float32 // [rows][embedding], what it computes

	// Of the stacks that multiply now:
	in       []float32 // [rows*used][k], or one row for all groups
	k        int
	acts     [2]groupActs // two stacks may want other ones
	prepared int          // of acts
}

// group is neighbouring rows of sorted, of one expert.
type group struct{ expert, first, n int }

// groupActs is the activations of each group as a product wants them.
type groupActs struct {
	routed  *routed
	product *runtime.Product
	memory  []byte
	ends    []int    // of what lies in memory
	of      [][]byte // of each group
}

// stack is a matrix of each expert, and where the products of rows go.
type stack struct {
	of  []*matrix
	dst []float32 // [rows*used][m]
}

func (x *experts) feed(ws *workspace, n int) error {
	l, r := ws.layer, &ws.routed
	r.begin(x, n)
	if err := r.shareAndScore(ws, n); err != nil {
		return err
	}
	ws.each(n, (*workspace).route)
	r.group()
	in := ws.normed[:x.embedding] // of all groups
	if n > 1 {
		ws.each(n, (*workspace).sort)
		in = r.sorted
	}
	ws.openGates(n*x.Used, x.FeedForward)
	ws.clock(&ws.times.Rest)
	if err := r.multiply(ws, in, x.embedding, stack{l.stacks[gateExperts], ws.gates}, stack{l.stacks[upExperts], ws.ups}); err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	ws.each(n*x.Used, (*workspace).gate)
	ws.clock(&ws.times.Rest)
	if err := r.multiply(ws, ws.gates, x.FeedForward, stack{l.stacks[downExperts], r.sorted}); err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	ws.each(n, (*workspace).combine)
	ws.clock(&ws.times.Rest)
	return nil
}

// shareAndScore computes the scores of experts, and the expert that all rows have, if there is one.
func (r *routed) shareAndScore(ws *workspace, n int) error {
	x, l := r.experts, ws.layer
	if x.Shared == 0 {
		err := ws.multiply(ws.normed, n, product{l.matrices[router], r.scores})
		ws.clock(&ws.times.Products)
		return err
	}
	ws.openGates(n, x.Shared)
	err := ws.multiply(ws.normed, n, product{l.matrices[router], r.scores}, product{l.matrices[sharedRouter], r.score},
		product{l.matrices[sharedGate], ws.gates}, product{l.matrices[sharedUp], ws.ups})
	if err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	ws.each(n, (*workspace).gate)
	ws.clock(&ws.times.Rest)
	err = ws.multiply(ws.gates, n, product{l.matrices[sharedDown], r.shared})
	ws.clock(&ws.times.Products)
	return err
}

// begin makes room for n rows.
func (r *routed) begin(x *experts, n int) {
	r.experts = x
	r.scores, r.ends = grow(r.scores, n*x.Count), grow(r.ends, x.Count)
	r.chosen, r.weights, r.places = grow(r.chosen, n*x.Used), grow(r.weights, n*x.Used), grow(r.places, n*x.Used)
	r.sorted = grow(r.sorted, n*x.Used*x.embedding)
	if x.Shared > 0 {
		r.score, r.shared = grow(r.score, n), grow(r.shared, n*x.embedding)
	}
}

// route chooses the experts of a row.
func (ws *workspace) route(row int) {
	r := &ws.routed
	x := r.experts
	x.Routing.Route(r.chosen[row*x.Used:][:x.Used], r.weights[row*x.Used:][:x.Used], r.scores[row*x.Count:][:x.Count])
}

// group makes the groups of the chosen experts, and gives each row its places: experts ascend, and rows of an expert.
func (r *routed) group() {
	clear(r.ends)
	for _, expert := range r.chosen {
		r.ends[expert]++
	}
	r.groups = r.groups[:0]
	at := 0
	for expert, n := range r.ends {
		if n > 0 {
			r.groups = append(r.groups, group{expert, at, int(n)})
		}
		r.ends[expert] = int32(at)
		at += int(n)
	}
	for i, expert := range r.chosen {
		r.places[i] = r.ends[expert]
		r.ends[expert]++
	}
}

// sort copies a row to its places.
func (ws *workspace) sort(row int) {
	r := &ws.routed
	x := r.experts
	for _, place := range r.places[row*x.Used:][:x.Used] {
		copy(r.sorted[int(place)*x.embedding:][:x.embedding], ws.normedRow(row))
	}
}

// combine adds what the experts of a row have computed, times their weights: the expert with the greatest score first, the one that
// all rows have last.
func (ws *workspace) combine(row int) {
	r := &ws.routed
	x := r.experts
	sum := ws.mixed[row*x.embedding:][:x.embedding]
	ops.Combine(sum, r.sorted, r.places[row*x.Used:][:x.Used], r.weights[row*x.Used:][:x.Used])
	if x.Shared > 0 {
		ops.AddScaled(sum, sum, r.shared[row*x.embedding:][:x.embedding], ops.Sigmoid(r.score[row]))
	}
}

// alike says that all groups have the same row.
func (r *routed) alike() bool { return len(r.in) == r.k }

// rows is the rows of a group in in.
func (r *routed) rows(g group) []float32 {
	if r.alike() {
		return r.in
	}
	return r.in[g.first*r.k:][:g.n*r.k]
}

// multiply multiplies the rows of each group, k elements each, by the matrices of its expert. If in is one row, all groups have it.
func (r *routed) multiply(ws *workspace, in []float32, k int, stacks ...stack) error {
	r.in, r.k, r.prepared = in, k, 0
	ws.calls = ws.calls[:0]
	floats := false
	for _, s := range stacks {
		if s.of[0].packed == nil {
			floats = true
			continue
		}
		acts, err := r.prepare(ws, s.of[0].packed.Product())
		if err != nil {
			return err
		}
		for i, g := range r.groups {
			ws.calls = append(ws.calls, s.of[g.expert].packed.Call(s.rows(g), acts[i]))
		}
	}
	if err := runtime.GemmAll(ws.threads, ws.calls...); err != nil || !floats {
		return err
	}
	return r.multiplyFloats(ws, stacks)
}

// multiplyFloats multiplies by the stacks of floats.
func (r *routed) multiplyFloats(ws *workspace, stacks []stack) error {
	for i, g := range r.groups {
		for _, s := range stacks {
			if s.of[0].packed == nil {
				ws.floats.Add(s.of[g.expert].floats, s.rows(g))
			}
		}
		if r.alike() && i+1 < len(r.groups) {
			continue // the next group has the same row
		}
		in := r.rows(g)
		if err := ws.floats.Run(in, len(in)/r.k, ws.threads); err != nil {
			return err
		}
	}
	return nil
}

// rows is the products of a group.
func (s *stack) rows(g group) []float32 {
	m := s.of[g.expert].m
	return s.dst[g.first*m:][:g.n*m]
}

// prepare is the activations of each group as p wants them. Products that share them prepare them once.
func (r *routed) prepare(ws *workspace, p *runtime.Product) ([][]byte, error) {
	for i := range r.acts[:r.prepared] {
		if r.acts[i].product.SharesAct(p) {
			return r.acts[i].of, nil
		}
	}
	a := &r.acts[r.prepared]
	r.prepared++
	a.routed, a.product = r, p
	if err := a.open(); err != nil {
		return nil, err
	}
	pool.Run(a, len(a.ends), 1, ws.lanes())
	return a.of, nil
}

// open gives each group its memory. Groups that have the same row have the same memory.
func (a *groupActs) open() error {
	const align = 64 // a cache line
	r := a.routed
	groups := r.groups
	if r.alike() {
		groups = groups[:1]
	}
	a.ends, a.of = a.ends[:0], a.of[:0]
	size := 0
	for _, g := range groups {
		n, err := a.product.ActSize(g.n, r.k)
		if err != nil {
			return err
		}
		size = (size+align-1)/align*align + n
		a.ends = append(a.ends, size)
	}
	a.memory = slices.Grow(a.memory[:0], size)[:size]
	at := 0
	for _, end := range a.ends {
		a.of = append(a.of, a.memory[at:end])
		at = (end + align - 1) / align * align
	}
	for len(a.of) < len(r.groups) {
		a.of = append(a.of, a.of[0])
	}
	return nil
}

// Do prepares the rows of groups.
func (a *groupActs) Do(_, first, end int) {
	r := a.routed
	for i := first; i < end; i++ {
		in := r.rows(r.groups[i])
		if err := a.product.PrepareAct(a.of[i], in, len(in)/r.k, r.k); err != nil {
			panic("BUG: model: " + err.Error()) // the sizes fit
		}
	}
}
