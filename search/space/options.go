package space

import (
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

// Kinds are points of each kind, at most `most` of each, from all over what begins so. Their other decisions are first offers, the last
// one is as in x.
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
			left := 2 * len(sp.rules)
			if y, err := sp.descend(from.state, from.picks, first, &left); err == nil {
				out = append(out, y)
			}
		}
	}
	return out
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
		if y, err := sp.descend(states[tile], x[:tile], first, &left); err == nil {
			out = append(out, y)
		}
	}
	return out
}

// Means are what points of products have little in common by: whether they have tables, and how many lanes of a row elements of K are in.
type Means struct {
	Tables bool
	Along  int
}

// Means are the means of x.
func (sp *Space) Means(x Point) Means {
	states, err := sp.states(x)
	if err != nil {
		return Means{}
	}
	last := states[len(states)-1]
	by := Means{Tables: indexed(last) > 0}
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

// Around are points with all decisions of rules of some names. Their other decisions are the nearest to x's.
func (sp *Space) Around(x Point, rules ...string) []Point { return sp.around(x, nearest(x), rules) }

// Anew are points as Around lists them, with the first offers to the rules that packing does not follow from.
func (sp *Space) Anew(x Point, rules ...string) []Point {
	return sp.around(x, func(rule int, offers []schedule.Trace) []schedule.Trace {
		if sp.rules[rule].Layout {
			return near(x[rule], offers)
		}
		return offers
	}, rules)
}

func (sp *Space) around(x Point, by prefer, rules []string) (out []Point) {
	last := lastOf(sp.rules, func(r Rule) bool { return slices.Contains(rules, r.Name) })
	var visit func(s schedule.State, picks Point) bool
	visit = func(s schedule.State, picks Point) (any bool) {
		i := len(picks)
		if i > last {
			left := 2 * len(sp.rules)
			y, err := sp.descend(s, picks, by, &left)
			if err == nil {
				out = append(out, y)
			}
			return err == nil
		}
		all := slices.Contains(rules, sp.rules[i].Name)
		for n, offer := range by(i, sp.offers(i, s)) {
			if !all && (any || n == mostTried || n == 1 && sp.rules[i].Layout) {
				break
			}
			if next, err := sp.decide(i, s, offer); err == nil {
				any = visit(next, append(slices.Clone(picks), offer)) || any
			}
		}
		return any
	}
	visit(sp.start, nil)
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
