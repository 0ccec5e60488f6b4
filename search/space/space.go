// Package space derives the schedules that are worth a try from what steps propose. A space is a short list of rules. Each rule offers
// short lists of steps on a state, and a point is one offer of each rule: its trace is their concatenation.
package space

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"

	"github.com/tmacc/tmacc/schedule"
)

// Rule is one decision.
type Rule struct {
	Name string
	// Offers lists what may be decided on a state, a sensible decision first. An empty list of steps leaves things as they are.
	Offers func(s schedule.State, m schedule.Machine) []schedule.Trace
	// Must says that a state without offers is a dead end. Of other rules, it has nothing to decide.
	Must bool
	// Whole says that nothing is left open after this rule: what later rules decide may make a kernel faster.
	Whole bool
	// Layout says that how weights are packed follows from this rule.
	Layout bool
	// Kind says that this rule decides of what kind a point is.
	Kind bool
	// Open says that decisions of other numbers than offered are as good: traces have distances between the steps of a ladder.
	Open bool
}

// Space is the schedules of a product, a preparation or an operator for a machine.
type Space struct {
	rules   []Rule
	start   schedule.State
	machine schedule.Machine
	// proves says why a state without open decisions has no kernel.
	proves func(schedule.State) error
	// fits says that a state is worth a try: that its sums fit 1/part of the room that there is, say. Parse does not ask.
	fits func(s schedule.State, m schedule.Machine, part int) bool
	part int
	// keeps says, after the rule of a name, that a state is among those that the space was restricted to.
	keeps map[string][]func(schedule.State) bool
	// moves are the rules whose decisions Neighbours and Mutate change, nil: all.
	moves []string
	parts []*Space
	known *memo
}

// Point is one decision of each rule of a space.
type Point []schedule.Trace

// Trace is the schedule of x.
func (x Point) Trace() schedule.Trace { return slices.Concat(x...) }

// Rules names the rules, in their order.
func (sp *Space) Rules() (names []string) {
	for _, r := range sp.rules {
		names = append(names, r.Name)
	}
	return names
}

// anyRule stands for all rules in Space.keeps.
const anyRule = ""

// only is sp with the states after a rule that keep accepts.
func (sp *Space) only(rule string, keep func(schedule.State) bool) *Space {
	c := *sp
	c.keeps = map[string][]func(schedule.State) bool{}
	for name, all := range sp.keeps {
		c.keeps[name] = slices.Clone(all)
	}
	c.keeps[rule] = append(c.keeps[rule], keep)
	return &c
}

// Moving is sp in which Neighbours and Mutate begin with decisions of rules of these names only.
func (sp *Space) Moving(rules ...string) *Space {
	c := *sp
	c.moves = append([]string{}, rules...)
	return &c
}

// moving are the rules that Neighbours and Mutate begin with, by index.
func (sp *Space) moving() (out []int) {
	for i, r := range sp.rules {
		if sp.moves == nil || slices.Contains(sp.moves, r.Name) {
			out = append(out, i)
		}
	}
	return out
}

// offers are what rule i may decide on s.
func (sp *Space) offers(i int, s schedule.State) []schedule.Trace {
	return sp.known.offersOf(i, s, func() []schedule.Trace {
		all := sp.rules[i].Offers(s, sp.machine)
		if len(all) == 0 && !sp.rules[i].Must {
			all = []schedule.Trace{nil}
		}
		return all
	})
}

// after is the state after the steps of an offer of rule i.
func (sp *Space) after(i int, s schedule.State, offer schedule.Trace) (schedule.State, error) {
	s, err := sp.known.after(s, offer)
	if err != nil {
		return nil, err
	}
	whole := slices.IndexFunc(sp.rules, func(r Rule) bool { return r.Whole })
	if i == whole || whole >= 0 && i > whole && len(offer) > 0 {
		return s, sp.proves(s)
	}
	return s, nil
}

// errNotKept says that a state is outside of what a space was restricted to, or not worth a try.
var errNotKept = errors.New("is not in the space")

// errNoneLeft says that a walk has nothing more to try.
var errNoneLeft = errors.New("no decision left")

// decide is after for states that are worth a try.
func (sp *Space) decide(i int, s schedule.State, offer schedule.Trace) (schedule.State, error) {
	next, err := sp.after(i, s, offer)
	if err != nil {
		return nil, err
	}
	if len(offer) > 0 && !sp.fits(next, sp.machine, sp.part) {
		return nil, errNotKept
	}
	for _, keep := range slices.Concat(sp.keeps[sp.rules[i].Name], sp.keeps[anyRule]) {
		if !keep(next) {
			return nil, errNotKept
		}
	}
	return next, nil
}

// prefer puts the offers of a rule in the order in which a walk tries them.
type prefer func(rule int, offers []schedule.Trace) []schedule.Trace

// mostTried bounds the offers of one rule that a walk follows to a dead end each, and mostDecided, times the number of rules, all that it tries to decide.
const (
	mostTried   = 3
	mostDecided = 8
)

// walk completes picks, decisions of the first rules that lead to s, by what prefer says. It goes back from dead ends.
func (sp *Space) walk(s schedule.State, picks Point, by prefer) (Point, error) {
	left := mostDecided * len(sp.rules)
	return sp.descend(s, picks, by, &left)
}

func (sp *Space) descend(s schedule.State, picks Point, by prefer, left *int) (Point, error) {
	i := len(picks)
	if i == len(sp.rules) {
		return slices.Clone(picks), nil
	}
	var fail error
	tried := 0
	for _, offer := range by(i, sp.offers(i, s)) {
		if *left--; *left < 0 || tried == mostTried {
			break
		}
		next, err := sp.decide(i, s, offer)
		if err == nil {
			var x Point
			tried++
			if x, err = sp.descend(next, append(picks, offer), by, left); err == nil {
				return x, nil
			}
			if fail == nil || !errors.Is(err, errNoneLeft) {
				fail = err
			}
		} else if fail == nil {
			fail = fmt.Errorf("%s: %w", sp.rules[i].Name, err)
		}
	}
	if fail == nil {
		fail = fmt.Errorf("%s: %w", sp.rules[i].Name, errNoneLeft)
	}
	return nil, fail
}

// First is the point of the first offers, or of the next ones where these do not apply.
func (sp *Space) First() (Point, error) {
	return sp.walk(sp.start, nil, func(_ int, offers []schedule.Trace) []schedule.Trace { return offers })
}

// mostSamples is how often Sample and Mutate begin again.
const mostSamples = 20

// Spare is sp of points whose sums and code take half of the room that they may take in sp. Most kernels that take all of it do not
// lower.
func (sp *Space) Spare() *Space {
	half := *sp
	half.part *= 2
	return &half
}

// Sample draws a point of Spare. Each rule takes its first offer in one case of two, else any. The same state of rng gives the same point.
func (sp *Space) Sample(rng *rand.Rand) (x Point, err error) {
	half := sp.Spare()
	for range mostSamples {
		x, err = half.walk(sp.start, nil, func(_ int, offers []schedule.Trace) []schedule.Trace {
			return shuffled(rng, offers)
		})
		if err == nil {
			return x, nil
		}
	}
	return nil, err
}

// SampleKind is Sample of a kind that is drawn first, each as likely as any other: of what kinds there are hardly depends how many
// decisions each has.
func (sp *Space) SampleKind(rng *rand.Rand) (x Point, err error) {
	half, kinds := sp.Spare(), sp.kinds()
	if len(kinds) == 0 { // Sample says why
		return sp.Sample(rng)
	}
	for range mostSamples {
		of := kinds[rng.Intn(len(kinds))]
		from := of[rng.Intn(len(of))]
		x, err = half.walk(from.state, from.picks, func(_ int, offers []schedule.Trace) []schedule.Trace {
			return shuffled(rng, offers)
		})
		if err == nil {
			return x, nil
		}
	}
	return nil, err
}

// begun is the decisions of the first rules and what they lead to.
type begun struct {
	picks Point
	state schedule.State
}

// kinds are all decisions up to the last rule that decides of a kind, by kind: decisions of one kind have the same names in their steps.
func (sp *Space) kinds() [][]begun {
	all := []begun{{nil, sp.start}}
	for i := range 1 + lastOf(sp.rules, func(r Rule) bool { return r.Kind }) {
		var next []begun
		for _, b := range all {
			for _, offer := range sp.offers(i, b.state) {
				if s, err := sp.decide(i, b.state, offer); err == nil {
					next = append(next, begun{append(slices.Clip(b.picks), offer), s})
				}
			}
		}
		all = next
	}
	at, out := map[string]int{}, [][]begun(nil)
	for _, b := range all {
		name := namesIn(b.picks.Trace())
		if _, ok := at[name]; !ok {
			at[name], out = len(out), append(out, nil)
		}
		out[at[name]] = append(out[at[name]], b)
	}
	return out
}

func lastOf(rules []Rule, is func(Rule) bool) (last int) {
	for i, r := range rules {
		if is(r) {
			last = i
		}
	}
	return last
}

// namesIn are the texts in the fields of steps.
func namesIn(t schedule.Trace) (out string) {
	for _, x := range t {
		v := reflect.ValueOf(x)
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String {
				out += f.String() + " "
			}
		}
	}
	return out
}

func shuffled(rng *rand.Rand, offers []schedule.Trace) []schedule.Trace {
	if len(offers) == 0 {
		return nil
	}
	out := slices.Clone(offers)
	first := rng.Intn(2) == 0
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if first {
		return append(out[:0:0], append([]schedule.Trace{offers[0]}, out...)...)
	}
	return out
}

// nearest prefers the offers most like the decisions of x.
func nearest(x Point) prefer {
	return func(rule int, offers []schedule.Trace) []schedule.Trace { return near(x[rule], offers) }
}

// near sorts offers by how far they are from a decision.
func near(x schedule.Trace, offers []schedule.Trace) []schedule.Trace {
	far := make([]float64, len(offers))
	order := make([]int, len(offers))
	for i, o := range offers {
		far[i], order[i] = distance(x, o), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case far[i] < far[j]:
			return -1
		case far[i] > far[j]:
			return 1
		}
		return 0
	})
	out := make([]schedule.Trace, len(offers))
	for i, at := range order {
		out[i] = offers[at]
	}
	return out
}

// distance is 0 for equal lists of steps. Steps of another kind, too many or too few count most, then fields, numbers by their ratio.
func distance(a, b schedule.Trace) (far float64) {
	const step, field = 100, 10
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || reflect.TypeOf(a[i]) != reflect.TypeOf(b[i]) {
			far += step
			continue
		}
		x, y := reflect.ValueOf(a[i]), reflect.ValueOf(b[i])
		for f := range x.NumField() {
			p, q := x.Field(f), y.Field(f)
			switch {
			case p.CanInt():
				ratio := math.Log2(float64(p.Int()+1) / float64(q.Int()+1))
				far += min(math.Abs(math.Round(ratio*(1<<20))/(1<<20)), field) // the same on every host
			case !reflect.DeepEqual(p.Interface(), q.Interface()):
				far += field
			}
		}
	}
	return far
}

// states are the states before each rule of a point, and after the last one.
func (sp *Space) states(x Point) ([]schedule.State, error) {
	out := []schedule.State{sp.start}
	for i, offer := range x {
		next, err := sp.after(i, out[i], offer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sp.rules[i].Name, err)
		}
		out = append(out, next)
	}
	return out, nil
}

// vary is x with the decision of rule i, on s, as offered, and the nearest offers to x's decisions of later rules.
func (sp *Space) vary(s schedule.State, x Point, i int, offer schedule.Trace) (Point, error) {
	next, err := sp.decide(i, s, offer)
	if err != nil {
		return nil, err
	}
	return sp.walk(next, append(slices.Clone(x[:i]), offer), nearest(x))
}

// Neighbours calls yield for each point with one decision other than x, and the name of the rule that made it, until it returns false.
func (sp *Space) Neighbours(x Point, yield func(rule string, y Point) bool) error {
	states, err := sp.states(x)
	if err != nil {
		return err
	}
	for _, i := range sp.moving() {
		for _, offer := range sp.offers(i, states[i]) {
			if distance(offer, x[i]) == 0 {
				continue
			}
			if y, err := sp.vary(states[i], x, i, offer); err == nil && !yield(sp.rules[i].Name, y) {
				return nil
			}
		}
	}
	return nil
}

// Mutate draws a point with one decision other than x, and what follows from it.
func (sp *Space) Mutate(rng *rand.Rand, x Point) (Point, error) {
	states, err := sp.states(x)
	moving := sp.moving()
	for range mostSamples {
		if err != nil || len(moving) == 0 {
			return x, err
		}
		i := moving[rng.Intn(len(moving))]
		offers := sp.offers(i, states[i])
		offer := offers[rng.Intn(len(offers))]
		if distance(offer, x[i]) == 0 {
			continue
		}
		if y, err := sp.vary(states[i], x, i, offer); err == nil {
			return y, nil
		}
	}
	return x, nil
}

// Cross draws a point that takes each decision, or the nearest one, from a or b.
func (sp *Space) Cross(rng *rand.Rand, a, b Point) (Point, error) {
	return sp.walk(sp.start, nil, func(rule int, offers []schedule.Trace) []schedule.Trace {
		return near([]Point{a, b}[rng.Intn(2)][rule], offers)
	})
}

// Near is the point with the decisions of x, or the nearest ones: a point of a space with the same rules.
func (sp *Space) Near(x Point) (Point, error) { return sp.walk(sp.start, nil, nearest(x)) }

// Parse finds the point of a trace. The error says which rule makes no such decision.
func (sp *Space) Parse(t schedule.Trace) (Point, error) {
	s, x := sp.start, Point{}
	for i, r := range sp.rules {
		offer, ok := longest(sp.offers(i, s), t, r.Open)
		if !ok {
			return nil, fmt.Errorf("%s: no offer begins %v", r.Name, t[:min(3, len(t))])
		}
		next, err := sp.after(i, s, offer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		s, t, x = next, t[len(offer):], append(x, offer)
	}
	if len(t) > 0 {
		return nil, fmt.Errorf("no rule makes %v", t[:min(3, len(t))])
	}
	return x, nil
}

// longest is the longest offer that t begins with, of an open rule also the steps of t if one offer has their kinds.
func longest(offers []schedule.Trace, t schedule.Trace, open bool) (best schedule.Trace, ok bool) {
	for _, o := range offers {
		if len(o) > len(t) || ok && len(o) <= len(best) {
			continue
		}
		alike := func(x, y schedule.Step) bool {
			return reflect.DeepEqual(x, y) || open && reflect.TypeOf(x) == reflect.TypeOf(y) && sameNames(x, y)
		}
		if slices.EqualFunc(o, t[:len(o)], alike) {
			best, ok = slices.Clone(t[:len(o)]), true
		}
	}
	return best, ok
}

// sameNames says that the texts in two steps of a kind are equal.
func sameNames(x, y schedule.Step) bool {
	a, b := reflect.ValueOf(x), reflect.ValueOf(y)
	for i := range a.NumField() {
		if a.Field(i).Kind() == reflect.String && a.Field(i).String() != b.Field(i).String() {
			return false
		}
	}
	return true
}
