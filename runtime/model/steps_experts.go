package model

import (
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Experts in steps on a device. Each position has a place for each expert that it chooses, in descending order of scores: the places of a position follow each other. A product
// of all places is one step, as the device computes where the matrix of each begins. Where there are many places for each expert, they are sorted by experts into slots of blocks: a slot for each column
// of a kernel. All slots of a block have one expert, whose weights are read once for them.

// expertsLayout is where experts lie in the memory of a step, if a model has any.
type expertsLayout struct {
	scored         region                  // scores of experts
	ranks          region                  // i32: how many experts come before each
	chosen         region                  // i32 [n][ops.Block]: numbers of the first experts
	chosenScores   region                  // [n][ops.Block]
	exps, weights  region                  // [n][ops.Block]
	top, total     region                  // [n]
	scoreBlocks    scoreBlocks             // of all scores, if they have a part in weights
	begins         region                  // u32 [stacks][blocks]: where in its stack the matrix of each block begins
	choices        [len(stackRoles)]region // products of slots
	gatedChoices   region                  // of slots
	chosenActs     []actLayout             // of slots
	groupings      []grouping              // of all positions, and of those that are wanted
	sorted         sortedLayout
	sharedOut      region // what the expert that all positions have computes
	opening, opens region // the score of its gate, and its sigmoid
}

// sortedLayout is where places that are sorted by experts lie. All but rows are i32, with room for whole panels.
type sortedLayout struct {
	keys, experts region // of places
	earlier       region // how many places of its expert come before each
	slots         region // of places
	from          region // of slots: bytes from the first row of positions to the one that each has
	ofBlocks      region // experts
	to            region // of places: bytes from the first row of slots to the one that each has
	rows          region // [slots][embedding]: what they read, and then what places have computed
}

// grouping is how places are multiplied: in blocks of slots, by a kernel of cols columns. Of one column, blocks are places.
type grouping struct{ cols, blocks int }

func (g grouping) slots() int { return g.cols * g.blocks }

// scoreBlocks is blocks of scores: exponentials, maxima and sums of each, and of those that have been merged.
type scoreBlocks struct {
	n      int
	exps   region // [n][blocks][ops.Block]
	tops   region // [n][blocks]
	totals region // [n][blocks]
	merged [2]struct{ exps, top, total region }
}

// keptExperts is what experts need of what stays.
type keptExperts struct {
	numbers region   // i32: 0, 1, 2 and so on
	used    region   // i32: how many are chosen
	ends    region   // i32, of each block of scores: how many it has
	apart   []region // i32 [stacks], of each layer: bytes from a matrix to the next
	panels  map[*matrix]region
	rows    region // i32: bytes from the first row of positions to that of each place
	slot    region // i32: bytes from the product of a slot to the next
	// Of groupings, by columns:
	firsts map[int]region // i32: the first slot of each block
	masks  map[int]region // i32: columns - 1
}

// stackRoles are the stacks of experts.
var stackRoles = [...]role{gateExperts, upExperts, downExperts}

// ofRouter says that a matrix has a row for each expert, or one for the expert that all positions have.
func ofRouter(r int) bool { return role(r) == router || role(r) == sharedRouter }

// coveredFloats is why the device does not multiply by a matrix of floats in a step.
func coveredFloats(x *matrix) error {
	if x.k%ops.Panel != 0 {
		return errorf("device", "scores of experts by %d activations are computed on the CPU", x.k)
	}
	return nil
}

// coversExperts is why experts are not computed on a device.
func (r *resident) coversExperts() error {
	c := &r.m.config
	r.widths = r.widths[:0]
	for cols := 2; c.Experts.fills(r.mostPlaces(), cols); cols *= 2 {
		r.widths = append(r.widths, cols)
	}
	if n := c.Experts.FeedForward; n%ops.Panel != 0 || c.Experts.Shared%ops.Panel != 0 {
		return errorf("device", "experts of %d elements are computed on the CPU", n)
	}
	for i := range r.m.layers {
		l := &r.m.layers[i]
		if l.vectors[gatedNorm] != nil {
			return errorf("device", "experts with a norm are computed on the CPU")
		}
		for _, role := range stackRoles {
			if err := r.coversStack(l, l.stacks[role], l.apart[role]); err != nil {
				return err
			}
		}
	}
	if r.on == nil {
		return errorf("device", "matrices of floats are multiplied on the CPU")
	}
	return nil
}

func (r *resident) coversStack(l *layer, all []*matrix, apart int) error {
	if all[0].packed == nil {
		return errorf("device", "experts of floats are computed on the CPU")
	}
	if apart == 0 {
		return errorf("device", "experts are multiplied one by one: %v", l.separate)
	}
	if slices.ContainsFunc(all, func(x *matrix) bool { return x.packed.Scale() != 1 }) {
		return errorf("device", "experts with a scale each are computed on the CPU")
	}
	steps, err := all[0].packed.Product().Steps(1, all[0].k)
	if err != nil {
		return err
	}
	if steps.Columns != 1 {
		return errorf("device", "experts are multiplied by a kernel of %d columns: one is missing", steps.Columns)
	}
	if err := steps.On.Lists(steps.Blocks[0].Kernel); err != nil {
		return errorf("device", "experts are multiplied one by one: %v", err)
	}
	r.on = steps.On
	r.keepWidths(all[0])
	return nil
}

// keepWidths keeps the numbers of columns for which the product of x, too, has a kernel that multiplies by a list of matrices.
func (r *resident) keepWidths(x *matrix) {
	p := x.packed.Product()
	r.widths = slices.DeleteFunc(r.widths, func(cols int) bool {
		steps, err := p.Steps(cols, x.k)
		return err != nil || len(steps.Blocks) != 1 || steps.Blocks[0].Cols != cols || steps.On.Lists(steps.Blocks[0].Kernel) != nil
	})
}

// mostPlaces is how many places the largest step has at most.
func (r *resident) mostPlaces() int {
	return min(r.m.options.Chunk, r.m.options.Context) * r.m.config.Experts.Used
}

// idle is how many slots of some places nobody has at most, in blocks of cols: in the last one of each expert.
func (x *Experts) idle(places, cols int) int { return min(x.Count, places) * (cols - 1) }

// fills says that at least half of the slots of places have somebody.
func (x *Experts) fills(places, cols int) bool { return x.idle(places, cols) <= places }

// grouped is how the places of n positions are multiplied: by the widest kernel whose slots they fill.
func (r *resident) grouped(n int) grouping {
	x := &r.m.config.Experts
	places := n * x.Used
	g := grouping{1, places}
	for _, cols := range r.widths { // ascending
		if x.fills(places, cols) && places <= ops.MostPlaces {
			g = grouping{cols, (places + x.idle(places, cols)) / cols}
		}
	}
	return g
}

// keepExperts lays out what experts need.
func (r *resident) keepExperts(k *kept) {
	x := &r.m.config.Experts
	many := max(x.Count, ops.Block)
	if len(r.widths) > 0 {
		many = max(many, 2*r.mostPlaces()+ops.Panel) // slots
	}
	ascending := func(n, by, times int) (all []int32) { // each number some times
		for i := range n {
			all = append(all, int32(i/times*by))
		}
		return all
	}
	var ends []int32
	for at := 0; at < x.Count; at += ops.Block {
		ends = append(ends, int32(min(x.Count-at, ops.Block)))
	}
	e := &k.experts
	e.numbers, e.used, e.ends = k.keep(ascending(many, 1, 1)), k.keep([]int32{int32(x.Used)}), k.keep(ends)
	if e.firsts, e.masks = map[int]region{}, map[int]region{}; len(r.widths) > 0 {
		e.rows = k.keep(ascending(r.mostPlaces(), 4*r.m.config.Embedding, x.Used))
	}
	for _, cols := range r.widths {
		e.firsts[cols], e.masks[cols] = k.keep(ascending(many/cols+ops.Panel, cols, 1)), k.keep([]int32{int32(cols - 1)})
	}
	e.slot = k.keep([]int32{int32(4 * r.height(downExperts))})
	e.panels = map[*matrix]region{}
	for i := range r.m.layers {
		l := &r.m.layers[i]
		var apart []int32
		for _, role := range stackRoles {
			apart = append(apart, int32(l.apart[role]))
		}
		e.apart = append(e.apart, k.keep(apart))
		for _, m := range l.matrices {
			if m != nil && m.packed == nil {
				_, panels := m.floats.Panels()
				e.panels[m] = k.keep(panels)
			}
		}
	}
	k.number(x.Routing.Scale)
}

// takeExperts takes the regions of experts.
func (l *layout) takeExperts() {
	x := &l.m.config.Experts
	blocks := (x.Count + ops.Block - 1) / ops.Block
	l.scored, l.ranks = l.resultsOf(l.n, blocks*ops.Block, l.all(router)...), l.rows(l.n, x.Count)
	for _, r := range []*region{&l.chosen, &l.chosenScores, &l.exps, &l.weights} {
		*r = l.rows(l.n, ops.Block)
	}
	l.top, l.total = l.rows(l.n, 1), l.rows(l.n, 1)
	if !x.Routing.Normalize {
		b := &l.scoreBlocks
		b.n, b.exps, b.tops, b.totals = blocks, l.rows(l.n, blocks*ops.Block), l.rows(l.n, blocks), l.rows(l.n, blocks)
		for i := range b.merged {
			b.merged[i].exps, b.merged[i].top, b.merged[i].total = l.rows(l.n, ops.Block), l.rows(l.n, 1), l.rows(l.n, 1)
		}
	}
	l.takeSlots()
	if x.Shared > 0 {
		l.sharedOut = l.results(l.n, l.all(sharedDown)...)
		l.opening, l.opens = l.results(l.n, l.all(sharedRouter)...), l.rows(l.n, ops.Panel)
	}
}

// height is how many numbers the product of a slot has by stacks of a role, by kernels of any columns: they write whole tiles.
func (r *resident) height(of role) (most int) {
	for i := range r.m.layers {
		x := r.m.layers[i].stacks[of][0]
		for _, cols := range append([]int{1}, r.widths...) {
			steps, _ := x.packed.Product().Steps(cols, x.k) // as for the rows when it was covered
			most = max(most, (x.m+steps.Whole-1)/steps.Whole*steps.Whole)
		}
	}
	return most
}

// takeSlots takes the regions of products by experts: of all positions, and in the last layer of those that are wanted.
func (l *layout) takeSlots() {
	x, blocks, slots := &l.m.config.Experts, 0, 0
	l.groupings = []grouping{l.grouped(l.n)}
	if l.wanted.n > 0 {
		l.groupings = append(l.groupings, l.grouped(l.wanted.n))
	}
	for _, g := range l.groupings {
		blocks, slots = max(blocks, g.blocks), max(slots, g.slots())
		for _, role := range stackRoles {
			for layer := range l.m.layers {
				l.takeChosenAct(l.m.layers[layer].stacks[role][0], g)
			}
		}
	}
	l.begins = l.rows(len(stackRoles), blocks)
	for i, role := range stackRoles {
		l.choices[i] = l.rows(slots, l.height(role))
	}
	l.gatedChoices = l.rows(slots, x.FeedForward)
	if l.groupings[0].cols > 1 {
		to := &l.sorted
		for _, r := range []*region{&to.keys, &to.experts, &to.earlier, &to.slots, &to.to} {
			*r = l.words(l.n*x.Used + ops.Panel)
		}
		to.from, to.ofBlocks = l.words(slots+ops.Panel), l.words(blocks+ops.Panel)
		to.rows = l.rows(slots, l.m.config.Embedding)
	}
}

// takeChosenAct takes a region for the activations of all slots, unless the matrices of an earlier stack have them.
func (l *layout) takeChosenAct(x *matrix, g grouping) {
	if actIn(l.chosenActs, x, g.cols) == nil {
		steps := l.steps(x, g.cols)
		l.chosenActs = append(l.chosenActs, actLayout{sized{x, g.cols}, taken(&l.bytes, g.blocks*steps.Blocks[0].Bytes), steps.Padded})
	}
}

// feedExperts adds the experts of a layer.
func (s *list) feedExperts(layer int) {
	x, l, g := &s.m.config.Experts, &s.m.layers[layer], s.grouped(s.span.n)
	s.multiply(s.normed, target{x: l.matrices[router], out: s.scored})
	s.route()
	if g.cols > 1 {
		s.sort(layer, g)
		s.quantizeChosen(g, s.sorted.rows, 0, false, l.stacks[gateExperts][0], l.stacks[upExperts][0])
	} else {
		s.beginBlocks(layer, []int{x.Used, s.span.n}, s.at("number", s.chosen, s.first*s.chosen.row, 4, s.chosen.row))
		s.quantizeChosen(g, s.normed, s.first*s.normed.row, true, l.stacks[gateExperts][0], l.stacks[upExperts][0])
	}
	s.multiplyChosen(g, l, 0, 1)
	row := func(name string, r region) tensorAt { return s.at(name, r, 0, r.row) }
	s.operator(false, s.m.row.gate.operator, map[string]int{"K": x.FeedForward}, []int{g.slots()}, row("gate", s.choices[0]), row("up", s.choices[1]), row("out", s.gatedChoices))
	s.quantizeChosen(g, s.gatedChoices, 0, false, l.stacks[downExperts][0])
	s.multiplyChosen(g, l, 2)
	out := s.choices[2]
	if g.cols > 1 {
		s.gather(s.at("x", out, 0), s.sorted.to, s.sorted.rows, s.span.n*x.Used)
		out = s.sorted.rows
	}
	s.operator(false, "weighted", map[string]int{"K": s.m.config.Embedding, "U": x.Used}, []int{s.span.n}, s.at("y", out, 0, x.Used*out.row).rowsOf(out.row),
		s.each("w", s.weights), s.each("out", s.mixed))
	if x.Shared > 0 {
		s.feedShared(l)
	}
}

// beginBlocks adds where the matrices of blocks begin, by the numbers of their experts.
func (s *list) beginBlocks(layer int, calls []int, experts tensorAt) {
	s.operator(false, "place", nil, []int{calls[0], calls[1], len(stackRoles)}, experts, s.at("apart", s.kept.experts.apart[layer], 0, 0, 0, 4),
		s.at("place", s.begins, 0, 4, 4*calls[0], s.begins.row))
}

// sort adds the slots of places, the rows that slots have, and where the matrices of blocks begin.
func (s *list) sort(layer int, g grouping) {
	x, e, to := &s.m.config.Experts, &s.kept.experts, &s.sorted
	places := s.span.n * x.Used
	panels := func(n int) []int { return []int{(n + ops.Panel - 1) / ops.Panel} }
	all := func(name string, r region) tensorAt { return s.at(name, r, 0) }
	panel := func(name string, r region) tensorAt { return s.at(name, r, 0, 4*ops.Panel) }
	place := func(name string, r region) tensorAt { return s.at(name, r, 0, 4, 4*x.Used) }
	of := map[string]int{"P": places}
	s.operator(false, "key", nil, []int{x.Used, s.span.n}, s.at("chosen", s.chosen, s.first*s.chosen.row, 4, s.chosen.row), place("number", e.numbers), place("expert", to.experts), place("key", to.keys))
	s.operator(false, "earlier", of, panels(places), all("key", to.keys), panel("own", to.keys), panel("earlier", to.earlier))
	s.operator(false, "slot", of, panels(places), all("key", to.keys), all("earlier", to.earlier), panel("own", to.keys), panel("column", to.earlier), all("mask", e.masks[g.cols]), panel("slot", to.slots))
	s.operator(false, "found", of, panels(g.slots()), all("key", to.slots), all("value", e.rows), panel("own", e.numbers), panel("found", to.from))
	s.operator(true, "found", of, panels(g.blocks), all("key", to.slots), all("value", to.experts), panel("own", e.firsts[g.cols]), panel("found", to.ofBlocks))
	s.operator(true, "place", nil, []int{x.Used, s.span.n}, place("number", to.slots), all("apart", e.slot), place("place", to.to))
	s.beginBlocks(layer, []int{g.blocks, 1}, s.at("number", to.ofBlocks, 0, 4))
	s.gather(s.at("x", s.normed, s.first*s.normed.row), to.from, to.rows, g.slots())
}

// gather adds copies of n vectors, which lie behind the first of x by the bytes that a list says.
func (s *list) gather(x tensorAt, by, out region, n int) {
	s.operator(false, "gather_paged", map[string]int{"K": s.m.config.Embedding}, []int{1, 1, n}, x, s.at("places", by, 0), s.at("out", out, 0, 0, 0, out.row))
}

// feedShared adds the expert that all positions have to what the others have computed, times its gate.
func (s *list) feedShared(l *layer) {
	s.multiply(s.network(l, sharedGate, sharedUp), target{x: l.matrices[sharedDown], out: s.sharedOut})
	s.multiply(s.normed, target{x: l.matrices[sharedRouter], out: s.opening})
	s.operator(false, "sigmoid", map[string]int{"K": ops.Panel}, []int{s.span.n}, s.each("x", s.opening), s.each("out", s.opens))
	s.operator(false, "addscaled", map[string]int{"K": s.m.config.Embedding}, []int{s.span.n}, s.each("x", s.mixed), s.each("y", s.sharedOut), s.each("scale", s.opens), s.each("out", s.mixed))
}

// route adds the choice of experts by their scores, and their weights.
func (s *list) route() {
	x, e, n := &s.m.config.Experts, &s.kept.experts, []int{s.span.n}
	from := func(r region) int { return s.first * r.row }
	count := map[string]int{"E": x.Count}
	s.operator(false, "rank", count, []int{x.Count, s.span.n}, s.at("x", s.scored, from(s.scored), 0, s.scored.row), s.at("number", e.numbers, 0),
		s.at("own", s.scored, from(s.scored), 4, s.scored.row), s.at("at", e.numbers, 0, 4), s.at("rank", s.ranks, from(s.ranks), 4, s.ranks.row))
	s.operator(false, "choose", count, n, s.each("x", s.scored), s.each("rank", s.ranks), s.at("number", e.numbers, 0), s.at("place", e.numbers, 0), s.each("chosen", s.chosen), s.each("score", s.chosenScores))
	s.operator(true, "softmax", map[string]int{"R": 1}, n, s.each("s", s.chosenScores), s.at("scale", s.kept.numbers[1], 0), s.at("first", s.kept.whole[0], 0), s.at("end", e.used, 0),
		s.each("top1", s.top), s.each("e", s.exps), s.each("total1", s.total))
	total := s.total
	if !x.Routing.Normalize {
		total = s.sumScores()
	}
	s.operator(false, "finish", map[string]int{"R": 1, "D": ops.Block}, n, s.each("o", s.exps).rowsOf(s.exps.row), s.each("l", total), s.each("out", s.weights).rowsOf(s.weights.row))
	if by := x.Routing.Scale; by != 0 && by != 1 {
		s.operator(false, "scale", map[string]int{"K": ops.Block}, n, s.each("x", s.weights), s.at("by", s.kept.numbers[by], 0), s.each("out", s.weights))
	}
}

// sumScores adds the sum of the exponentials of all scores, and is where it is: by blocks, which are merged in order.
func (s *list) sumScores() region {
	b, row := &s.scoreBlocks, 4*ops.Block
	s.operator(true, "softmax", map[string]int{"R": 1}, []int{s.span.n, b.n}, s.at("s", s.scored, s.first*s.scored.row, s.scored.row, row), s.at("scale", s.kept.numbers[1], 0),
		s.at("first", s.kept.whole[0], 0), s.at("end", s.kept.experts.ends, 0, 0, 4), s.at("top1", b.tops, s.first*b.tops.row, b.tops.row, 4),
		s.at("e", b.exps, s.first*b.exps.row, b.exps.row, row), s.at("total1", b.totals, s.first*b.totals.row, b.totals.row, 4))
	block := func(name string, r region, i, bytes int) tensorAt { return s.at(name, r, s.first*r.row+i*bytes, r.row) }
	exps, top, total := b.exps, b.tops, b.totals
	for i := 1; i < b.n; i++ {
		to := b.merged[i%len(b.merged)]
		s.operator(false, "merge", map[string]int{"R": 1, "D": ops.Block}, []int{s.span.n}, s.each("o", exps).rowsOf(row), s.each("m", top), s.each("l", total),
			block("o2", b.exps, i, row).rowsOf(row), block("m2", b.tops, i, 4), block("l2", b.totals, i, 4), s.each("top", to.top), s.each("total", to.total), s.each("out", to.exps).rowsOf(row))
		exps, top, total = to.exps, to.top, to.total
	}
	return total
}

// quantizeChosen adds the activations of all slots for stacks, whose first matrices are given: of a row for each slot, or of one that the places of a position share.
func (s *list) quantizeChosen(g grouping, in region, from int, shared bool, all ...*matrix) {
	var prepared []*actLayout
	for _, x := range all {
		act := actIn(s.chosenActs, x, g.cols)
		if slices.Contains(prepared, act) {
			continue
		}
		b := s.layout.steps(act.of.x, g.cols).Blocks[0]
		calls, moves := []int{g.cols, g.blocks}, []int{in.row, g.cols * in.row}
		to := func(name string, from, column int) tensorAt { return s.at(name, act.region, from, column, b.Bytes) }
		if used := s.m.config.Experts.Used; shared { // of one column
			calls, moves = []int{used, s.span.n}, []int{0, in.row}
			to = func(name string, from, _ int) tensorAt { return s.at(name, act.region, from, b.Bytes, used*b.Bytes) }
		}
		s.calls(len(prepared) > 0, b.Quantizer, map[string]int{"K": x.k}, calls, s.at("x", in, from, moves...), to("act", 0, b.Chunk), to("sums", b.Sums, 4), to("ascale", b.Scales, 4))
		prepared = append(prepared, act)
	}
}

// multiplyChosen adds the products of all slots by stacks of a layer, by their numbers.
func (s *list) multiplyChosen(g grouping, l *layer, stacks ...int) {
	for i, n := range stacks {
		x, out := l.stacks[stackRoles[n]][0], s.choices[n]
		run := s.layout.steps(x, g.cols).Blocks[0].Run
		run.Blocks = g.blocks
		s.add(&abi.Multiplying{Beside: i > 0, Matrix: x.packed.Loaded(), Runs: []abi.Run{run}, Act: s.place(actIn(s.chosenActs, x, g.cols).region, 0), Out: s.place(out, 0), Column: out.row,
			List: s.place(s.begins, n*s.begins.row)})
	}
}

// multiplyFloats adds the product of a matrix of floats.
func (s *list) multiplyFloats(in region, t target) {
	elem, _ := t.x.floats.Panels()
	b, panels := s.kept.experts.panels[t.x], (t.x.m+ops.Panel-1)/ops.Panel
	for r := 0; r < s.span.n; {
		n, times := mostRows, 1
		for n > s.span.n-r {
			n /= 2
		}
		if n == mostRows {
			times = (s.span.n - r) / n
		}
		row := s.first + r
		s.operator(r > 0, "matmul_"+elemName(elem)+"_"+strconv.Itoa(n), map[string]int{"K": t.x.k}, []int{panels, times}, s.at("a", in, row*in.row, 0, n*in.row).rowsOf(in.row),
			s.at("b", b, 0, t.x.k*ops.Panel*elem.Bytes()), s.at("out", t.out, row*t.out.row, 4*ops.Panel, n*t.out.row).rowsOf(t.out.row))
		r += n * times
	}
}
