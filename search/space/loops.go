package space

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// ForOperator is the space of an operator's schedules on a target.
func ForOperator(o operator.Operator, t lower.Selector) *Space {
	return ForLoops(schedule.NewOperator(o), t)
}

// ForLoops is the space of the schedules that begin with the loops of s.
func ForLoops(s *schedule.Operator, t lower.Selector) *Space {
	o, machine := s.Of, MachineOf(t)
	sp := &Space{start: s, machine: machine, fits: fitsOperator(o), part: 1, known: newMemo(),
		proves: func(s schedule.State) error {
			_, err := s.(*schedule.Operator).Kernel()
			return err
		}}
	if sp.rules = vectorRules(o, s); machine.Group > 0 {
		sp.rules = laneRules(o, s)
	}
	return sp
}

// fitsOperator is fitsNests for schedules that pad nothing at typical sizes of an operator.
func fitsOperator(o operator.Operator) func(s schedule.State, m schedule.Machine, part int) bool {
	return func(s schedule.State, m schedule.Machine, part int) bool {
		pads := func(sizes map[string]int) bool { return !s.(*schedule.Operator).Divides(sizes) }
		return fitsNests(s, m, part) && !slices.ContainsFunc(o.Typical(), pads)
	}
}

// vectorRules are the rules of an operator on a machine without workgroups.
func vectorRules(o operator.Operator, s *schedule.Operator) (rules []Rule) {
	for _, stage := range s.Stages() {
		if !slices.Contains(o.Outputs, stage) {
			rules = append(rules, Rule{Name: "inline " + stage, Offers: optional(schedule.Inline{Stage: stage})})
		}
	}
	rules = append(rules, nestRules(s)...)
	rules[len(rules)-1].Whole = true
	for _, in := range o.Graph.Inputs {
		of := optional(schedule.Prefetch{Tensor: in.Name})
		if slices.Contains(o.Stored, in.Name) {
			of = ahead(each(schedule.Prefetch{Tensor: in.Name}))
		}
		rules = append(rules, Rule{Name: "prefetch " + in.Name, Offers: of, Open: true})
	}
	return rules
}

// nests are the states that have stages.
type nests interface {
	Stages() []string
	InOrder(root string) bool
	Reduces(root string) bool
	Adds(root string) bool
	Neighbours(root string, m schedule.Machine) bool
	Builds(stage string) error
	Sums(bits int) int
	Fills(l nest.Loop) int
}

// ForPreparation is the space of the schedules that prepare activations of p on a target: down to 8 bits, and tables if the product has
// them. The tables of chunk elements of K lie together, 0: of all.
func ForPreparation(p ir.Problem, tables *ir.Tables, chunk int, t lower.Selector) (*Space, error) {
	s, err := schedule.NewPreparation(p, tables)
	if err != nil {
		return nil, err
	}
	whole := &Space{start: s, machine: MachineOf(t), fits: fitsNests, part: 1, known: newMemo(),
		proves: func(s schedule.State) error {
			_, err := s.(*schedule.Preparation).Kernel()
			return err
		}}
	for _, stages := range independent(s.Stages()) {
		part := *whole
		part.start, part.known = s.Only(stages...), newMemo()
		part.rules = preparationRules(part.start, chunk)
		whole.parts, whole.rules = append(whole.parts, &part), append(whole.rules, part.rules...)
	}
	for _, sp := range append(whole.parts, whole) {
		sp.rules[len(sp.rules)-1].Whole = true
	}
	whole.rules = append(whole.rules, Rule{Name: "prefetch", Offers: ahead(each(schedule.Prefetch{}))})
	return whole, nil
}

// Preparation is the kernel of a point: of a space's part, of its stages only.
func (sp *Space) Preparation(x Point) (*schedule.PreparationKernel, error) {
	states, err := sp.states(x)
	if err != nil {
		return nil, err
	}
	return states[len(states)-1].(*schedule.Preparation).Kernel()
}

// Parts are spaces whose decisions do not depend on each other. The traces of a point of each, one after the other, are a point of
// sp that asks for nothing ahead. There are none of products and operators.
func (sp *Space) Parts() []*Space { return sp.parts }

// independent are stages whose schedules depend on each other: wide activations may be a part of the tables.
func independent(stages []string) (out [][]string) {
	for i, name := range stages {
		if i > 0 && stages[i-1] == "wide" {
			out[len(out)-1] = append(out[len(out)-1], name)
			continue
		}
		out = append(out, []string{name})
	}
	return out
}

// preparationRules are the rules about some stages of a preparation.
func preparationRules(s schedule.State, chunk int) (rules []Rule) {
	of := s.(nests).Stages()
	if chunk > 0 && slices.Contains(of, "table") {
		rules = append(rules, Rule{Name: "chunk", Offers: ahead(together(chunk))})
	}
	if rules = append(rules, nestRules(s)...); slices.Contains(of, "wide") {
		rules = append(rules, Rule{Name: "wide", Offers: ahead(each(schedule.Stage{Value: "wide"}))})
	}
	return rules
}

// together offers that the tables of `chunk` elements of K lie together, if they are whole blocks.
func together(chunk int) offers {
	return func(s schedule.State, _ schedule.Machine) []schedule.Trace {
		return applying(s, []schedule.Trace{{schedule.Pack{Tensor: "table", Chunk: chunk}}})
	}
}

// stageOf is the stage of a loop: axes are named after it.
func stageOf(l nest.Loop) string {
	stage, _, _ := strings.Cut(l.Root, ".")
	return stage
}

// nestRules are the rules about the loops of each stage: an axis becomes, from the inside, what a dot product sums, lanes, and up to two
// loops in it. Then all loops of the stage get an order, and sums of integers accumulators of their own.
func nestRules(s schedule.State) (rules []Rule) {
	loops := s.Loops()
	for i, l := range loops {
		for _, part := range []struct{ name, to string }{{"d", "dot"}, {"v", "vector"}, {"l", "lane"}, {"u", "unrolled"}, {"t", "unrolled"}} {
			of := ofStage(stageOf(l), axis(l.Root, part.name, part.to))
			if part.to == "lane" {
				of = laneOffers(l.Root)
			}
			rules = append(rules, Rule{Name: l.Root + " " + part.name, Offers: of})
		}
		if i+1 == len(loops) || stageOf(loops[i+1]) != stageOf(l) {
			rules = append(rules, Rule{Name: stageOf(l) + " order", Offers: stageOrder(stageOf(l))},
				Rule{Name: stageOf(l) + " apart", Must: true, Offers: ofStage(stageOf(l), stageApart(stageOf(l)))})
		}
	}
	return rules
}

// ofStage remembers the offers of `of`, which depend on the loops of one stage and on which stages there are.
func ofStage(stage string, of offers) offers {
	known := new(sync.Map)
	return func(s schedule.State, m schedule.Machine) []schedule.Trace {
		key := fmt.Sprint(s.(nests).Stages())
		for _, l := range s.Loops() {
			if stageOf(l) == stage {
				key += fmt.Sprintf(" %s %d %d %d", l.Name, l.Coef, l.N, l.Kind)
			}
		}
		out, ok := known.Load(key)
		if !ok {
			out, _ = known.LoadOrStore(key, of(s, m))
		}
		return out.([]schedule.Trace)
	}
}

// axis offers to leave the open loop of an axis as it is, to split a part of it off, or to take all of it.
func axis(root, part, to string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		l := openOf(s, root)
		lanes := to == "vector" || to == "dot"
		if of := s.(nests); l.Name == "" || lanes && (of.InOrder(root) || !of.Neighbours(root, m)) || to == "dot" && !of.Adds(root) {
			return nil
		}
		n, fill := l.N, s.(nests).Fills(l)
		switch {
		case fill == 1:
			return nil
		case fill > 0 && part == "t":
			x := split(l.Name, fill, root+"o", root+part)
			out := applying(s, []schedule.Trace{{x, runs(root+part, to)}, {x}})
			if fill > mostTogether { // an unrolled loop inside has the room
				slices.Reverse(out)
			}
			return out
		case fill > 0:
			n = fill
		}
		for _, by := range parts(n, to, m) {
			if by == l.N && !(lanes && s.(nests).Reduces(root)) { // lanes of a sum are in a loop where it begins
				out = append(out, schedule.Trace{runs(l.Name, to)})
				continue
			}
			x := split(l.Name, by, root+"o", root+part)
			if out = append(out, schedule.Trace{x, runs(root+part, to)}); part == "t" && blocks(s, root) {
				out = append(out, schedule.Trace{x})
			}
		}
		out = applying(s, out)
		if lanes && around(s, root) { // then all of it, so that lanes are neighbours
			all := func(t schedule.Trace) int {
				if x, ok := t[0].(schedule.Split); ok && x.By < l.N {
					return 1
				}
				return 0
			}
			slices.SortStableFunc(out, func(a, b schedule.Trace) int { return all(a) - all(b) })
			return append(out, nil)
		}
		if part == "t" || m.Group > 0 && to == "unrolled" || (lanes || l.N == 0) && !last(s, root, m) {
			return append([]schedule.Trace{nil}, out...)
		}
		return append(out, nil)
	}
}

// around says that lanes of a stage go over an axis around this one.
func around(s schedule.State, root string) bool {
	for _, l := range s.Loops() {
		if l.Root == root {
			return false
		}
		if stageOf(l) == stageOf(nest.Loop{Root: root}) && l.Kind == nest.Vector {
			return true
		}
	}
	return false
}

// mostTogether bounds the iterations over the tables of a chunk that are first tried unrolled.
const mostTogether = 16

// applying are the traces that apply to s.
func applying(s schedule.State, all []schedule.Trace) []schedule.Trace {
	return slices.DeleteFunc(all, func(t schedule.Trace) bool { _, err := after(s, t); return err != nil })
}

// laneOffers makes lanes of the open part of an axis, on machines that have them: one loop of a stage. All stages have equally many.
func laneOffers(root string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		l := openOf(s, root)
		lanes := []int{256, 128, 64, 512, 32}
		if l.Name != "" && !s.(nests).Reduces(l.Root) {
			lanes = []int{16, 8} // vectors of groups in each: callers have room for 64 at once
		}
		for _, o := range s.Loops() {
			switch {
			case o.Kind == nest.Lane && stageOf(o) == stageOf(l):
				return nil
			case o.Kind == nest.Lane:
				lanes = []int{o.N}
			}
		}
		for _, n := range lanes {
			if t := (schedule.Trace{split(l.Name, n, l.Root+"o", l.Root+"l"), bind(l.Root+"l", "lane")}); n <= m.Group && l.Name != "" && l.N%n == 0 {
				if _, err := after(s, t); err == nil {
					out = append(out, t)
				}
			}
		}
		return append(out, nil)
	}
}

// blocks says that a stage has a loop over another axis: a loop over a part of this one makes a difference only around it.
func blocks(s schedule.State, root string) bool {
	return slices.ContainsFunc(s.Loops(), func(l nest.Loop) bool {
		return l.Root != root && stageOf(l) == stageOf(nest.Loop{Root: root}) && l.Kind == nest.Serial && l.N != 1
	})
}

// runs makes a loop run in some way.
func runs(loop, to string) schedule.Step {
	if to == "dot" {
		return schedule.Tensorize{Loop: loop, To: "dot4"}
	}
	return bind(loop, to)
}

// last says that an axis is the innermost one of its stage that may become lanes.
func last(s schedule.State, root string, m schedule.Machine) bool {
	all := s.Loops()
	i := slices.IndexFunc(all, func(l nest.Loop) bool { return l.Root == root })
	return !slices.ContainsFunc(all[i:], func(l nest.Loop) bool {
		return l.Root != root && stageOf(l) == stageOf(all[i]) && !s.(nests).InOrder(l.Root) && s.(nests).Neighbours(l.Root, m)
	})
}

// openOf is the loop over an axis that nothing is decided about.
func openOf(s schedule.State, root string) (out nest.Loop) {
	for _, l := range s.Loops() {
		if l.Root == root && l.Kind == nest.Serial && (out.Name == "" || l.Coef > out.Coef) {
			out = l
		}
	}
	return out
}

// parts are the numbers of iterations that an axis of n may have in a loop that runs in some way, 0: of any.
func parts(n int, to string, m schedule.Machine) (out []int) {
	var want []int
	if n == 1 && to == "unrolled" {
		return []int{1}
	}
	switch to {
	case "dot":
		want = []int{4}
	case "vector":
		for _, times := range []int{1, 2, 4, 8} {
			want = append(want, times*m.Lanes(32))
		}
		want = append(want, m.Lanes(32)/2, m.Lanes(32)/4, n)
	default:
		if want = []int{n, 4, 2, 8, 16, 32}; n > 0 {
			want = append(want, 3, 6)
		}
		for by := n / 2; by > 1; by-- {
			want = append(want, by)
		}
	}
	for _, by := range want {
		if by > 1 && by <= schedule.MostUnrolled && (n == 0 || by <= n && n%by == 0) && !slices.Contains(out, by) {
			out = append(out, by)
		}
	}
	return out
}

// stageOrder offers the orders of a stage's loops with lanes innermost. First comes the one that they have, but
// with unrolled loops inside.
func stageOrder(stage string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		var around, outer, lanes []nest.Loop
		var now []string
		for _, l := range s.Loops() {
			if stageOf(l) != stage {
				continue
			}
			switch now = append(now, l.Name); {
			case l.Kind == nest.Lane:
				around = append(around, l)
			case l.Kind == nest.Serial || l.Kind == nest.Unrolled:
				outer = append(outer, l)
			default:
				lanes = append(lanes, l)
			}
		}
		byKind := func(a, b nest.Loop) int { return int(a.Kind) - int(b.Kind) }
		slices.SortStableFunc(lanes, byKind)
		slices.SortStableFunc(outer, func(a, b nest.Loop) int { return inwards(s, outer, a) - inwards(s, outer, b) })
		permute(nil, outer, func(order []nest.Loop) {
			var names []string
			// Lanes of a sum are where it begins, other lanes around all loops.
			begin := slices.IndexFunc(order, func(l nest.Loop) bool {
				return len(around) == 0 || s.(nests).Reduces(l.Root) == s.(nests).Reduces(around[0].Root)
			})
			if begin < 0 {
				begin = len(order)
			}
			for _, l := range slices.Concat(order[:begin], around, order[begin:], lanes) {
				names = append(names, l.Name)
			}
			if slices.Equal(names, now) {
				out = append(out, nil)
				return
			}
			out = append(out, schedule.Trace{schedule.Reorder{Order: names}})
		})
		return out
	}
}

// inwards says how far inside a loop is best: serial loops and unrolled ones around others of the same axis outside. Then
// come loops of a sum, because fewer values are needed at once than with these inside, then others.
func inwards(s schedule.State, outer []nest.Loop, l nest.Loop) int {
	finer := func(x nest.Loop) bool { return x.Root == l.Root && x.Coef < l.Coef }
	switch {
	case l.Kind == nest.Serial || slices.ContainsFunc(outer, finer):
		return 0
	case s.(nests).Reduces(l.Root):
		return 1
	}
	return 2
}

// mostOrdered bounds the loops whose orders are tried.
const mostOrdered = 5

// permute yields each order of loops in which loops over one axis go from long to short steps.
func permute(done, rest []nest.Loop, yield func([]nest.Loop)) {
	if len(rest) == 0 {
		yield(done)
	}
	if len(done)+len(rest) > mostOrdered {
		return
	}
	for i, l := range rest {
		if !slices.ContainsFunc(rest, func(x nest.Loop) bool { return x.Root == l.Root && x.Coef > l.Coef }) {
			permute(append(slices.Clip(done), l), slices.Delete(slices.Clone(rest), i, i+1), yield)
		}
	}
}

// stageApart: lanes of a sum have accumulators of their own, and the loops around them may have.
func stageApart(stage string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		var lanes, unrolled schedule.Trace
		for _, l := range s.Loops() {
			x := schedule.Rfactor{Loop: l.Name}
			if _, err := s.After(x); stageOf(l) != stage || err != nil {
				continue
			}
			if l.Kind == nest.Vector {
				lanes = append(lanes, x)
			} else {
				unrolled = append(schedule.Trace{x}, unrolled...)
			}
		}
		for i := range len(unrolled) + 1 {
			t := append(slices.Clip(lanes), unrolled[:i]...)
			if next, err := after(s, t); err == nil && next.(nests).Builds(stage) == nil {
				out = append(out, t)
			}
		}
		return out
	}
}

// mostCode bounds the iterations of a stage that are spelled out one after the other.
const mostCode = 1024

// fitsNests says that the sums of no stage need more registers, and that no stage is more code, than it may be, or 1/part of both.
func fitsNests(s schedule.State, m schedule.Machine, part int) bool {
	code := map[string]int{}
	for _, l := range s.Loops() {
		if l.Kind == nest.Unrolled {
			code[stageOf(l)] = max(code[stageOf(l)], 1) * l.N
		}
		if code[stageOf(l)]*part > mostCode {
			return false
		}
	}
	return m.Vectors == 0 || 2*part*s.(nests).Sums(m.Bits) <= 3*m.Vectors
}
