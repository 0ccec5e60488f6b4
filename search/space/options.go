package space

import (
	"math"
	"reflect"
	"slices"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// Options are points that differ from x in the decision of rule i, and in what follows from it: later decisions stay the first offers
// where they were, and else become the nearest ones. They are at most `most`: one half has the decisions most like that of x, the other
// half is spread over the rest.
func (sp *Space) Options(x Point, i, most int) (out []Point) {
	states, err := sp.states(x)
	if err != nil {
		return nil
	}
	offers := sp.offers(i, states[i])
	if len(offers) == 1 {
		return nil
	}
	alike := sp.alike(x, states)
	for _, offer := range spread(near(x[i], offers), most+1) {
		if distance(offer, x[i]) == 0 {
			continue
		}
		next, err := sp.decide(i, states[i], offer)
		if err != nil {
			continue
		}
		left := 2 * len(sp.rules)
		if y, err := sp.descend(next, append(slices.Clone(x[:i]), offer), alike, &left); err == nil {
			out = append(out, y)
		}
	}
	return out
}

// Kinds are points of each kind, at most `most` of each, from all over what begins so, the fullest tables first. Their other decisions are first
// offers, the last one is as in x.
func (sp *Space) Kinds(x Point, most int) (out []Point) {
	first := func(rule int, offers []schedule.Trace) []schedule.Trace {
		if rule == len(sp.rules)-1 {
			return near(x[rule], offers)
		}
		return offers
	}
	for _, kind := range sp.kinds() {
		for i := range min(most, len(kind)) {
			from := kind[i*len(kind)/min(most, len(kind))]
			if i == 0 {
				from = sp.fullest(kind)
			}
			left := 2 * len(sp.rules)
			if y, err := sp.descend(from.state, from.picks, first, &left); err == nil {
				out = append(out, y)
			}
		}
	}
	return out
}

// fullest is the first of a kind whose one table is the largest one that an instruction looks up in: it has the fewest lookups. Else it is the first one.
func (sp *Space) fullest(kind []begun) begun {
	best, most := kind[0], 0
	for _, b := range kind {
		if n := b.state.(*schedule.Product).Looked(); len(n) == 1 && n[0] > most && n[0] <= sp.machine.Entries {
			best, most = b, n[0]
		}
	}
	return best
}

// Lanes are points with each number of lanes that vectors may have: a tile of few vectors of them. They have x's columns and way to decompose.
// Their other decisions are first offers, the last one is as in x.
func (sp *Space) Lanes(x Point) (out []Point) {
	states, err := sp.states(x)
	tile := slices.IndexFunc(sp.rules, func(r Rule) bool { return r.Name == "tile" })
	if err != nil || tile < 0 {
		return nil
	}
	for _, n := range widths(states[tile], sp.machine) {
		first := func(rule int, offers []schedule.Trace) []schedule.Trace {
			if rule == len(sp.rules)-1 {
				return near(x[rule], offers)
			}
			return laned(sp.rules[rule].Name, n, offers)
		}
		left := 2 * len(sp.rules)
		if y, err := sp.descend(states[tile], slices.Clip(x[:tile]), first, &left); err == nil {
			out = append(out, y)
		}
	}
	return out
}

// Smaller are points whose weights take the fewest bits, if x's take more: cells have another number of codes, and groups may be filled up to hold
// them. There is one for each map of the codes. Their other decisions are the nearest to x's.
func (sp *Space) Smaller(x Point) []Point {
	states, err := sp.states(x)
	if err != nil {
		return nil
	}
	var best Point
	last := states[len(states)-1]
	p, fields := last.(*schedule.Product), max(loop(last, "s").N, 1)*loop(last, "f").N
	own, least, unit := p.CellBits(fields*p.UnitK()), sp.row(x), max(loop(last, "s").N, 1)*p.UnitK()
	for _, codes := range p.CellSizes() {
		if p.CellBits(codes) >= own {
			continue
		}
		for _, fill := range sp.offers(0, sp.start) {
			left := 2 * len(sp.rules)
			y, err := sp.descend(sp.start, nil, sp.celled(x, fill, codes/unit*loop(last, "f").Coef), &left)
			if err != nil {
				continue
			}
			if n := sp.row(y); n < least {
				best, least = y, n
			}
		}
	}
	return sp.maps(best)
}

// maps are x, nil for none, and points with other maps of the codes in the same order.
func (sp *Space) maps(x Point) (out []Point) {
	if x == nil {
		return nil
	}
	out = append(out, x)
	states, err := sp.states(x)
	i := slices.IndexFunc(sp.rules, func(r Rule) bool { return r.Name == "pack" })
	if err != nil || len(x[i]) == 0 {
		return out
	}
	own := x[i][0].(schedule.Pack)
	for _, offer := range sp.offers(i, states[i]) {
		if p := offer[0].(schedule.Pack); slices.Equal(p.Order, own.Order) && !reflect.DeepEqual(p, own) {
			if y, err := sp.vary(states[i], x, i, offer); err == nil {
				out = append(out, y)
			}
		}
	}
	return out
}

// row is the bytes of a long row of weights, infinite for points without a kernel.
func (sp *Space) row(x Point) float64 {
	k, err := sp.Kernel(x)
	if err != nil {
		return math.Inf(1)
	}
	return float64(k.Weights.TileBytes(longRow)) / float64(k.Weights.TileM)
}

// longRow is how many elements of K a row has in which the end of the last record counts for little.
const longRow = 1 << 14

// celled prefers the offers most like the decisions of x that lead to cells of so many iterations over K, in groups filled up as given.
func (sp *Space) celled(x Point, fill schedule.Trace, cell int) prefer {
	return func(rule int, offers []schedule.Trace) []schedule.Trace {
		if rule == 0 {
			return []schedule.Trace{fill}
		}
		out := near(x[rule], offers)
		whole := func(t schedule.Trace) int { return 0 }
		switch sp.rules[rule].Name {
		case "record", "steps":
			whole = func(t schedule.Trace) int { return first(splitsK(t)%cell == 0) }
		case "cells":
			whole = func(t schedule.Trace) int { return first(splitsK(t) == cell) }
		}
		slices.SortStableFunc(out, func(a, b schedule.Trace) int { return whole(a) - whole(b) })
		return out
	}
}

// splitsK is by how many iterations the first step of t splits a loop, 0 if it splits groups or nothing.
func splitsK(t schedule.Trace) int {
	if len(t) > 0 {
		if x, ok := t[0].(schedule.Split); ok && x.Loop != "g" {
			return x.By
		}
	}
	return 0
}

// OtherKinds are points of another kind with the means of x, at most `most` by each rule. Dot products get their levels in another way, tables
// have other digits or entries. Decisions that follow are as Options makes them.
func (sp *Space) OtherKinds(x Point, most int) (out []Point) {
	means := sp.Means(x)
	for i, r := range sp.rules {
		if !r.Kind {
			continue
		}
		for _, y := range sp.Options(x, i, most) {
			if sp.Means(y) == means {
				out = append(out, y)
			}
		}
	}
	return out
}

// Means are what points of products have little in common by: whether they have tables, how many lanes are rows, how many lanes of each
// are elements of K, and how many vectors of rows have their codes in the same cells: a call reads all of them.
type Means struct {
	Tables             bool
	Rows, Along, Cells int
}

// Means are the means of x.
func (sp *Space) Means(x Point) Means {
	states, err := sp.states(x)
	if err != nil {
		return Means{}
	}
	last := states[len(states)-1]
	by := Means{Tables: indexed(last) > 0, Rows: loop(last, "l").N * max(loop(last, "e").N, 1), Cells: max(loop(last, "s").N, 1)}
	if l := loop(last, "x"); l.Kind == nest.Vector {
		by.Along = l.N
	}
	return by
}

// laned are the offers of a rule, the ones for vectors of n lanes first.
func laned(rule string, n int, offers []schedule.Trace) []schedule.Trace {
	want := map[string][]int{"tile": {2 * n, n}, "vectors": {n}, "lanes": {n}}[rule]
	first := func(t schedule.Trace) int {
		if len(t) > 0 {
			if x, ok := t[0].(schedule.Split); ok && slices.Contains(want, x.By) {
				return slices.Index(want, x.By)
			}
		}
		return len(want)
	}
	out := slices.Clone(offers)
	slices.SortStableFunc(out, func(a, b schedule.Trace) int { return first(a) - first(b) })
	return out
}

// Around are points with the decisions of rules of some names, one for each size of blocks of rows and columns. Their other decisions are
// the nearest to x's. If large, blocks are of one tile, and half as large as the largest ones at least.
func (sp *Space) Around(x Point, large bool, rules ...string) []Point {
	return sp.around(nearest(x), share(large, 2), rules)
}

// Anew are points as Around lists them, with the first offers to the rules that packing does not follow from.
func (sp *Space) Anew(x Point, large bool, rules ...string) []Point {
	return sp.around(func(rule int, offers []schedule.Trace) []schedule.Trace {
		if sp.rules[rule].Layout {
			return near(x[rule], offers)
		}
		return offers
	}, share(large, 2), rules)
}

// share is 1/n of the largest blocks if only large ones are wanted, 0: any.
func share(large bool, n int) int {
	if !large {
		return 0
	}
	return n
}

// Rolled are points as Anew lists them whose loops run where they may instead of being spelled out: their code is shorter. Large blocks are a
// quarter of the largest ones at least.
func (sp *Space) Rolled(x Point, large bool, rules ...string) []Point {
	return sp.around(func(rule int, offers []schedule.Trace) []schedule.Trace {
		if sp.rules[rule].Layout {
			offers = near(x[rule], offers)
		}
		return rolled(offers)
	}, share(large, 4), rules)
}

// rolled are offers, first the one that leaves the loop running that the first one spells out at its end.
func rolled(offers []schedule.Trace) []schedule.Trace {
	if len(offers) == 0 || len(offers[0]) == 0 {
		return offers
	}
	rest := len(offers[0]) - 1
	if x, ok := offers[0][rest].(schedule.Bind); !ok || x.To != "unrolled" {
		return offers
	}
	i := slices.IndexFunc(offers, func(o schedule.Trace) bool { return distance(o, offers[0][:rest]) == 0 })
	if i < 0 {
		return offers
	}
	return append([]schedule.Trace{offers[i]}, slices.Delete(slices.Clone(offers), i, i+1)...)
}

// around lists points for sizes of blocks: if share is not 0, of one tile, and at least 1/share of the largest one.
func (sp *Space) around(by prefer, share int, rules []string) (out []Point) {
	all := sp.beginnings(by, rules)
	if share > 0 {
		all = slices.DeleteFunc(all, func(b begun) bool { return loop(b.state, "side").N > 1 })
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	size := func(i int) int { return sizeOf(all[i].state)[0] * sizeOf(all[i].state)[1] }
	slices.SortStableFunc(order, func(i, j int) int { return size(j) - size(i) })
	found, most := map[[2]int]int{}, 0
	points := make([]Point, len(all))
	for _, i := range order {
		if _, ok := found[sizeOf(all[i].state)]; ok || share*size(i) < most && share > 0 {
			continue
		}
		left := 2 * len(sp.rules)
		if x, err := sp.descend(all[i].state, all[i].picks, by, &left); err == nil {
			points[i], found[sizeOf(all[i].state)], most = x, i, max(most, size(i))
		}
	}
	return slices.DeleteFunc(points, func(x Point) bool { return x == nil })
}

// Size is the rows and the columns of a call of x, 0 and 0 if it is not in the space.
func (sp *Space) Size(x Point) (rows, columns int) {
	states, err := sp.states(x)
	if err != nil {
		return 0, 0
	}
	size := sizeOf(states[len(states)-1])
	return size[0], size[1]
}

// sizeOf is the rows and the columns of a call.
func sizeOf(s schedule.State) [2]int {
	rows := 1
	for _, l := range s.Loops() {
		if l.Root == "m" && !l.Kind.Outside() {
			rows *= l.N
		}
	}
	return [2]int{rows, columnsOf(s)}
}

// beginnings are all decisions of rules of some names, and of the rules before the last of these the first ones by what `by` says. Of
// rules that packing follows from it is the first one only: others pack another way.
func (sp *Space) beginnings(by prefer, rules []string) (out []begun) {
	last := lastOf(sp.rules, func(r Rule) bool { return slices.Contains(rules, r.Name) })
	var visit func(b begun) bool
	visit = func(b begun) (any bool) {
		i := len(b.picks)
		if i > last {
			out = append(out, b)
			return true
		}
		all := slices.Contains(rules, sp.rules[i].Name)
		for n, offer := range by(i, sp.offers(i, b.state)) {
			if !all && (any || n == mostTried || n == 1 && sp.rules[i].Layout) {
				break
			}
			if next, err := sp.decide(i, b.state, offer); err == nil {
				any = visit(begun{append(slices.Clip(b.picks), offer), next}) || any
			}
		}
		return any
	}
	visit(begun{nil, sp.start})
	return out
}

// alike prefers the first offers to a rule where x, whose states are given, has them too, and else the ones most like x's decisions.
func (sp *Space) alike(x Point, states []schedule.State) prefer {
	first := map[int]bool{}
	return func(rule int, offers []schedule.Trace) []schedule.Trace {
		is, ok := first[rule]
		if !ok {
			is = distance(sp.offers(rule, states[rule])[0], x[rule]) == 0
			first[rule] = is
		}
		if is {
			return offers
		}
		return near(x[rule], offers)
	}
}

// spread is the first half of n offers, and offers from all over the rest.
func spread(offers []schedule.Trace, n int) []schedule.Trace {
	if len(offers) <= n {
		return offers
	}
	first := (n + 1) / 2
	out := offers[:first:first]
	for rest, i := offers[first:], 0; i < n-first; i++ {
		out = append(out, rest[i*len(rest)/(n-first)])
	}
	return out
}
