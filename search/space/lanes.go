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

// groupOffers: the first axis of a run-time size, if all stages have it. Groups have one value of it each where a stage has other axes, and else some.
func groupOffers(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	o := s.(*schedule.Operator)
	var common []nest.Loop
	alone := true
	for _, stage := range o.Stages() {
		i := len(common)
		for _, l := range s.Loops() {
			switch {
			case stageOf(l) != stage || o.Reduces(l.Root):
			case len(common) == i && l.N == 0 && (i == 0 || o.Dim(l.Root) == o.Dim(common[0].Root)):
				common = append(common, l)
			case l.N != 1:
				alone = false
			}
		}
		if len(common) == i {
			return nil
		}
	}
	if !alone {
		var t schedule.Trace
		for _, l := range common {
			t = append(t, bind(l.Name, "group"))
		}
		return []schedule.Trace{t, nil}
	}
	for _, n := range []int{32, 64, 128, 256, 512, 1024} {
		var t schedule.Trace
		for _, l := range common {
			t = append(t, split(l.Name, n, l.Root+"g", l.Root+"i"), bind(l.Root+"g", "group"))
		}
		out = append(out, t)
	}
	return append(out, nil)
}

// stageLanes makes lanes of the innermost axis of a stage that it does not sum over. All stages have equally many.
func stageLanes(stage string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		lanes, of := []int{32, 64, 128, 256, 16, 8}, nest.Loop{}
		for _, l := range s.Loops() {
			switch {
			case l.Kind == nest.Lane:
				lanes = []int{l.N}
			case stageOf(l) == stage && !s.(nests).Reduces(l.Root) && l.Kind == nest.Serial:
				of = l
			}
		}
		for _, n := range lanes {
			switch {
			case of.Name == "" || n > m.Group || of.N%n != 0:
			case of.N == n:
				out = append(out, schedule.Trace{bind(of.Name, "lane")})
			default:
				out = append(out, schedule.Trace{split(of.Name, n, of.Root+"o", of.Root+"l"), bind(of.Root+"l", "lane")})
			}
		}
		return append(out, nil)
	}
}

// stepsInLane: how many iterations over an axis a lane spells out.
func stepsInLane(root string) offers {
	return func(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
		l := openOf(s, root)
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

// laneOrder: groups and lanes are around the other loops of a stage, which have any order.
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
			for _, l := range slices.Concat(around, order) {
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

// batches: calls along the axes that loops over groups leave.
func batches(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	groups := 0
	for _, l := range s.Loops() {
		if stageOf(l) == stageOf(s.Loops()[0]) && l.Kind == nest.Group {
			groups++
		}
	}
	for n := vir.MaxGrid - groups; n > 0; n-- {
		out = append(out, schedule.Trace{schedule.Batch{Axes: n}})
	}
	return out
}
