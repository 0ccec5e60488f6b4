package model

import (
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Experts in steps on a device. Each position has a place for each expert that it chooses, in descending order of scores: the places of a position follow each other. A product
// of all places is one step, as the device computes where the matrix of each begins.

// expertsLayout is where experts lie in the memory of a step, if a model has any.
type expertsLayout struct {
	scored         region                  // scores of experts
	ranks          region                  // i32: how many experts come before each
	chosen         region                  // i32 [n][ops.Block]: numbers of the first experts
	chosenScores   region                  // [n][ops.Block]
	exps, weights  region                  // [n][ops.Block]
	top, total     region                  // [n]
	scoreBlocks    scoreBlocks             // of all scores, if they have a part in weights
	begins         region                  // u32 [stacks][places]: where in its stack the matrix of each place begins
	choices        [len(stackRoles)]region // products of places
	gatedChoices   region                  // of places
	chosenActs     []actLayout             // of places
	sharedOut      region                  // what the expert that all positions have computes
	opening, opens region                  // the score of its gate, and its sigmoid
}

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
	return nil
}

// keepExperts lays out what experts need.
func (r *resident) keepExperts(k *kept) {
	x := &r.m.config.Experts
	numbers := make([]int32, max(x.Count, ops.Block))
	for i := range numbers {
		numbers[i] = int32(i)
	}
	var ends []int32
	for at := 0; at < x.Count; at += ops.Block {
		ends = append(ends, int32(min(x.Count-at, ops.Block)))
	}
	e := &k.experts
	e.numbers, e.used, e.ends = k.keep(numbers), k.keep([]int32{int32(x.Used)}), k.keep(ends)
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
	places := l.n * x.Used
	l.begins = l.rows(len(stackRoles), places)
	for i, role := range stackRoles {
		height := 0
		for layer := range l.m.layers {
			m := l.m.layers[layer].stacks[role][0]
			whole := l.steps(m, 1).Whole
			height = max(height, (m.m+whole-1)/whole*whole)
			l.takeChosenAct(m)
		}
		l.choices[i] = l.rows(places, height)
	}
	l.gatedChoices = l.rows(places, x.FeedForward)
	if x.Shared > 0 {
		l.sharedOut = l.results(l.n, l.all(sharedDown)...)
		l.opening, l.opens = l.results(l.n, l.all(sharedRouter)...), l.rows(l.n, ops.Panel)
	}
}

// takeChosenAct takes a region for the activations of all places, unless the matrices of an earlier stack have them.
func (l *layout) takeChosenAct(x *matrix) {
	if l.chosenAct(x) == nil {
		steps := l.steps(x, 1)
		l.chosenActs = append(l.chosenActs, actLayout{sized{x, 1}, taken(&l.bytes, l.n*l.m.config.Experts.Used*steps.Blocks[0].Bytes), steps.Padded})
	}
}

func (l *layout) chosenAct(x *matrix) *actLayout { return actIn(l.chosenActs, x, 1) }

// feedExperts adds the experts of a layer.
func (s *list) feedExperts(layer int) {
	x, l := &s.m.config.Experts, &s.m.layers[layer]
	s.multiply(s.normed, target{l.matrices[router], s.scored})
	s.route(layer)
	s.quantizeChosen(s.normed, s.first*s.normed.row, []int{s.normed.row, 0}, l.stacks[gateExperts][0], l.stacks[upExperts][0])
	s.multiplyChosen(l, 0, 1)
	row := func(name string, r region) tensorAt { return s.at(name, r, 0, r.row) }
	gated := s.gatedChoices
	s.operator(false, s.m.row.gate.operator, map[string]int{"K": x.FeedForward}, []int{s.span.n * x.Used}, row("gate", s.choices[0]), row("up", s.choices[1]), row("out", gated))
	s.quantizeChosen(gated, 0, []int{x.Used * gated.row, gated.row}, l.stacks[downExperts][0])
	s.multiplyChosen(l, 2)
	out := s.choices[2]
	s.operator(false, "weighted", map[string]int{"K": s.m.config.Embedding, "U": x.Used}, []int{s.span.n}, s.at("y", out, 0, x.Used*out.row).rowsOf(out.row),
		s.each("w", s.weights), s.each("out", s.mixed))
	if x.Shared > 0 {
		s.feedShared(l)
	}
}

// feedShared adds the expert that all positions have to what the others have computed, times its gate.
func (s *list) feedShared(l *layer) {
	s.network(l, sharedGate, sharedUp, sharedDown, s.sharedOut)
	s.multiply(s.normed, target{l.matrices[sharedRouter], s.opening})
	s.operator(false, "sigmoid", map[string]int{"K": ops.Panel}, []int{s.span.n}, s.each("x", s.opening), s.each("out", s.opens))
	s.operator(false, "addscaled", map[string]int{"K": s.m.config.Embedding}, []int{s.span.n}, s.each("x", s.mixed), s.each("y", s.sharedOut), s.each("scale", s.opens), s.each("out", s.mixed))
}

// route adds the choice of experts by their scores, their weights, and where the matrices of each place begin.
func (s *list) route(layer int) {
	x, e, n := &s.m.config.Experts, &s.kept.experts, []int{s.span.n}
	from := func(r region) int { return s.first * r.row }
	count := map[string]int{"E": x.Count}
	s.operator(false, "rank", count, []int{x.Count, s.span.n}, s.at("x", s.scored, from(s.scored), 0, s.scored.row), s.at("number", e.numbers, 0),
		s.at("own", s.scored, from(s.scored), 4, s.scored.row), s.at("at", e.numbers, 0, 4), s.at("rank", s.ranks, from(s.ranks), 4, s.ranks.row))
	s.operator(false, "choose", count, n, s.each("x", s.scored), s.each("rank", s.ranks), s.at("number", e.numbers, 0), s.at("place", e.numbers, 0), s.each("chosen", s.chosen), s.each("score", s.chosenScores))
	s.operator(false, "place", nil, []int{x.Used, s.span.n, len(stackRoles)}, s.at("number", s.chosen, from(s.chosen), 4, s.chosen.row), s.at("apart", e.apart[layer], 0, 0, 0, 4),
		s.at("place", s.begins, 0, 4, 4*x.Used, s.begins.row))
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

// quantizeChosen adds the activations of all places for stacks, whose first matrices are given. They move by steps from row to row, and from place to place of a row.
func (s *list) quantizeChosen(in region, from int, steps []int, all ...*matrix) {
	var prepared []*actLayout
	used := s.m.config.Experts.Used
	for _, x := range all {
		act := s.chosenAct(x)
		if slices.Contains(prepared, act) {
			continue
		}
		b := s.layout.steps(act.of.x, 1).Blocks[0]
		to := func(name string, from int) tensorAt { return s.at(name, act.region, from, used*b.Bytes, b.Bytes) }
		s.calls(len(prepared) > 0, b.Quantizer, map[string]int{"K": x.k}, []int{s.span.n, used}, s.at("x", in, from, steps...), to("act", 0), to("sums", b.Sums), to("ascale", b.Scales))
		prepared = append(prepared, act)
	}
}

// multiplyChosen adds the products of all places by stacks of a layer, by their numbers.
func (s *list) multiplyChosen(l *layer, stacks ...int) {
	for i, n := range stacks {
		x, out := l.stacks[stackRoles[n]][0], s.choices[n]
		run := s.layout.steps(x, 1).Blocks[0].Run
		run.Blocks = s.span.n * s.m.config.Experts.Used
		s.add(&abi.Multiplying{Beside: i > 0, Matrix: x.packed.Loaded(), Runs: []abi.Run{run}, Act: s.place(s.chosenAct(x).region, 0), Out: s.place(out, 0), Column: out.row,
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
