package space

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
)

// laneRules are the rules of an operator on a machine with workgroups. Stages whose elements are read once are computed where they are read.
// An axis that all stages have becomes groups, or rows of it that stages have more axes in. Of each stage the innermost axis becomes
// lanes. Each call of a batch is a group, or several.
func laneRules(o operator.Operator, s *schedule.Operator) (rules []Rule) {
	for _, stage := range s.Stages() {
		if !slices.Contains(o.Outputs, stage) {
			of := optional(schedule.Inline{Stage: stage})
			if readOnce(o, stage) {
				of = ahead(each(schedule.Inline{Stage: stage}))
			}
			rules = append(rules, Rule{Name: "inline " + stage, Offers: of})
		}
	}
	rules = append(rules, Rule{Name: "groups", Offers: groupOffers})
	loops := s.Loops()
	for i, l := range loops {
		stage := stageOf(l)
		if i == 0 || stageOf(loops[i-1]) != stage {
			rules = append(rules, Rule{Name: stage + " lanes", Offers: stageLanes(stage)})
		}
		rules = append(rules, Rule{Name: l.Root + " steps", Offers: stepsInLane(l.Root)})
		if i+1 == len(loops) || stageOf(loops[i+1]) != stage {
			rules = append(rules, Rule{Name: stage + " order", Offers: laneOrder(stage)})
		}
	}
	return append(rules, Rule{Name: "batch", Must: true, Offers: batches, Whole: true})
}

// readOnce says that other stages read each element of a stage once.
func readOnce(o operator.Operator, stage string) bool {
	sizes := o.Typical()[0]
	extent := func(all []ir.Dim) int {
		n := 1
		for _, d := range all {
			if n *= d.N; d.N == 0 {
				n = (sizes[d.Run] + d.Div - 1) / d.Div
			}
		}
		return n
	}
	of, reads := o.Graph.Stage(stage), 0
	for _, st := range o.Graph.Stages {
		ir.Walk(st.Body, func(e ir.Expr) {
			if r, ok := e.(ir.Read); ok && r.T == of.Out {
				reads += extent(slices.Concat(st.Axes, st.Reduce))
			}
		})
	}
	return reads <= extent(of.Axes)
}

// groupOffers: the first axis of a run-time size, if all stages have it. Groups have one value of the longest of its steps each where a stage has other axes,
// and else some.
func groupOffers(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	o := s.(*schedule.Operator)
	var common []nest.Loop
	alone, longest := true, 0
	for _, stage := range o.Stages() {
		i := len(common)
		for _, l := range s.Loops() {
			switch d := o.Dim(l.Root); {
			case stageOf(l) != stage || o.Reduces(l.Root):
			case len(common) == i && l.N == 0 && (i == 0 || d.Run == o.Dim(common[0].Root).Run):
				common, longest = append(common, l), max(longest, d.Div*max(1, o.Together(l.Root)))
			case l.N != 1:
				alone = false
			}
		}
		if len(common) == i {
			return nil
		}
	}
	for _, n := range []int{1, 32, 64, 128, 256, 512, 1024} {
		if alone == (n == 1) || !alone && n > 128 {
			continue
		}
		var t schedule.Trace
		for _, l := range common {
			if by := n * longest / o.Dim(l.Root).Div; by > 1 {
				t = append(t, split(l.Name, by, l.Root+"g", l.Root+"i"), bind(l.Root+"g", "group"))
			} else {
				t = append(t, bind(l.Name, "group"))
			}
		}
		out = append(out, t)
	}
	if o.Of.Paged != "" { // vectors in pages are short, and calls have heads, panels and positions
		return append([]schedule.Trace{nil}, out...)
	}
	return append(out, nil)
}

// stageLanes makes lanes of an axis of a stage. All stages have equally many, few if there are many groups, and all of them have a use for that many.
func stageLanes(stage string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		o, lanes, idle := s.(*schedule.Operator), []int{256, 128, 64, 32, 16, 8}, true
		if slices.ContainsFunc(s.Loops(), func(l nest.Loop) bool { return l.Kind == nest.Group }) {
			lanes = []int{32, 64, 128, 256, 16, 8}
		}
		if i := slices.IndexFunc(s.Loops(), func(l nest.Loop) bool { return l.Kind == nest.Lane }); i >= 0 {
			lanes = []int{s.Loops()[i].N}
		}
		for _, n := range lanes {
			wastes := func(stage string) bool { return len(inLanesOf(o, stage, n)) == 0 && long(o, stage, n) }
			if n > m.Group || slices.ContainsFunc(o.Stages(), wastes) {
				continue
			}
			idle = idle && !long(o, stage, n)
			for _, l := range inLanesOf(o, stage, n) {
				switch chunk := chunkOf(o, l); {
				case l.N == n:
					out = append(out, schedule.Trace{bind(l.Name, "lane")})
				case chunk > n:
					out = append(out, schedule.Trace{split(l.Name, chunk, l.Root+"o", l.Root+"c"), split(l.Root+"c", n, l.Root+"c", l.Root+"l"), bind(l.Root+"c", "unrolled"), bind(l.Root+"l", "lane")})
				default:
					out = append(out, schedule.Trace{split(l.Name, n, l.Root+"o", l.Root+"l"), bind(l.Root+"l", "lane")})
				}
			}
		}
		if idle || len(out) == 0 {
			out = append(out, nil)
		}
		return out
	}
}

// inLanesOf are the loops of a stage that may become n lanes, without padding sizes as models have them: first the innermost one that the stage does not sum over. It
// has none if it has lanes.
func inLanesOf(o *schedule.Operator, stage string, n int) (out []nest.Loop) {
	for _, l := range o.Loops() {
		d := o.Dim(l.Root)
		pads := func(sizes map[string]int) bool { return sizes[d.Run]%(d.Div*l.Coef*n) != 0 }
		switch {
		case stageOf(l) == stage && l.Kind == nest.Lane:
			return nil
		case stageOf(l) != stage || l.N == 1 || l.Kind != nest.Serial || o.InOrder(l.Root) || l.N%n != 0:
		case l.N == 0 && slices.ContainsFunc(o.Of.Typical(), pads), chunkOf(o, l) > 0 && chunkOf(o, l)%n != 0:
		case o.Reduces(l.Root):
			out = append(out, l)
		default:
			out = slices.Insert(out, 0, l)
		}
	}
	return out
}

// chunkOf is how many iterations of a loop are in a chunk, 0: no chunk ends in it.
func chunkOf(o *schedule.Operator, l nest.Loop) int {
	if chunk := o.Together(l.Root) / max(l.Coef, 1); l.N == 0 || l.N > chunk {
		return chunk
	}
	return 0
}

// long says that one lane would need some time for a stage that has no lanes.
func long(o *schedule.Operator, stage string, n int) bool {
	of := func(l nest.Loop) bool { return stageOf(l) == stage }
	return !slices.ContainsFunc(o.Loops(), func(l nest.Loop) bool { return of(l) && l.Kind == nest.Lane }) &&
		slices.ContainsFunc(o.Loops(), func(l nest.Loop) bool { return of(l) && l.Kind == nest.Serial && (l.N == 0 || l.N > 2*n) })
}

// stepsInLane: how many iterations over an axis a lane spells out.
func stepsInLane(root string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		l := openOf(s, root)
		if chunk := chunkOf(s.(*schedule.Operator), l); l.Name != "" && chunk > 1 {
			return []schedule.Trace{{split(l.Name, chunk, root+"s", root+"u"), bind(root+"u", "unrolled")}}
		}
		if l.N > 0 {
			return spelledOut(l.Name)(s, m)
		}
		for _, n := range []int{4, 8, 2, 16} {
			if l.Name != "" {
				out = append(out, schedule.Trace{split(l.Name, n, root+"s", root+"u"), bind(root+"u", "unrolled")})
			}
		}
		return append(out, nil)
	}
}

// laneOrder: groups and lanes are around the other loops of a stage, which have any order, or lanes of a sum where it begins.
func laneOrder(stage string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		var around, inside []nest.Loop
		var now []string
		for _, l := range s.Loops() {
			switch {
			case stageOf(l) != stage:
				continue
			case l.Kind == nest.Group || l.Kind == nest.Lane:
				around = append(around, l)
			default:
				inside = append(inside, l)
			}
			now = append(now, l.Name)
		}
		slices.SortStableFunc(around, func(a, b nest.Loop) int { return int(a.Kind) - int(b.Kind) })
		slices.SortStableFunc(inside, func(a, b nest.Loop) int { return inwards(s, inside, a) - inwards(s, inside, b) })
		permute(nil, inside, func(order []nest.Loop) {
			var names []string
			begin := 0 // lanes of a sum are where it begins
			if n := len(around); n > 0 && s.(nests).Reduces(around[n-1].Root) {
				begins := func(l nest.Loop) bool { return s.(nests).Reduces(l.Root) || l.Kind == nest.Unrolled }
				begin = slices.IndexFunc(append(slices.Clip(order), around[n-1]), begins)
			}
			for _, l := range slices.Concat(order[:begin], around, order[begin:]) {
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

// batches: calls along the axes that loops over groups leave, and then with a list of places.
func batches(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	groups := 0
	for _, l := range s.Loops() {
		if stageOf(l) == stageOf(s.Loops()[0]) && l.Kind == nest.Group {
			groups++
		}
	}
	for _, listed := range slices.Compact([]string{"", s.(*schedule.Operator).Of.Paged}) {
		for n := vir.MaxGrid - groups; n > 0; n-- {
			out = append(out, schedule.Trace{schedule.Batch{Axes: n, Listed: listed}})
		}
	}
	return out
}
