package space

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tmacc/tmacc/schedule"
)

// Mend is the point that begins with the decisions of t, as far as the rules make them and the steps apply, and goes on with the decisions
// nearest to x's. So x with another decision in the middle gets what follows from that. The error says which rule has no decision left.
func (sp *Space) Mend(t schedule.Trace, x Point) (Point, error) {
	if len(x) != len(sp.rules) {
		return nil, fmt.Errorf("space: a point of %d decisions, want %d", len(x), len(sp.rules))
	}
	b := sp.beginning(t)
	return sp.walk(b.state, b.picks, nearest(x))
}

// beginning is the decisions that t begins with.
func (sp *Space) beginning(t schedule.Trace) begun {
	b := begun{state: sp.start}
	for i, r := range sp.rules {
		offer, ok := longest(sp.offers(i, b.state), t, r.Open)
		if !ok {
			break
		}
		next, err := sp.decide(i, b.state, offer)
		if err != nil {
			break
		}
		b.state, b.picks, t = next, append(b.picks, offer), t[len(offer):]
	}
	return b
}

// Next are points that begin with all steps of t and differ in the decision that follows, at most `most` of each rule that may make it: of
// optional rules up to the first that must decide. What follows from it is nearest to x. Each has the index of its rule.
func (sp *Space) Next(t schedule.Trace, x Point, most int) (rules []int, out []Point) {
	if len(x) != len(sp.rules) {
		return nil, nil
	}
	b := begun{state: sp.start}
	for i, r := range sp.rules {
		begins := func(o schedule.Trace) bool { return len(o) > len(t) && slices.EqualFunc(t, o[:len(t)], sameStep) }
		n := 0
		for _, offer := range near(x[i], sp.offers(i, b.state)) {
			if n == most || !begins(offer) {
				continue
			}
			if y, err := sp.vary(b.state, append(slices.Clone(b.picks), x[i:]...), i, offer); err == nil {
				rules, out, n = append(rules, i), append(out, y), n+1
			}
		}
		offer, ok := longest(sp.offers(i, b.state), t, r.Open)
		if !ok || len(offer) == 0 && len(t) == 0 && r.Must {
			break
		}
		next, err := sp.decide(i, b.state, offer)
		if err != nil {
			break
		}
		b.state, b.picks, t = next, append(b.picks, offer), t[len(offer):]
	}
	return rules, out
}

func sameStep(a, b schedule.Step) bool { return reflect.DeepEqual(a, b) }
