package space

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// rooms are the elements of K that workgroups which prepare activations themselves have room for.
var rooms = []int{1 << 14, 1 << 13, 1 << 12}

// A lane reads some activations at once, and spells out at most mostVectors of these reads.
const vector, mostVectors = 4, 16

// quantizes: the caller prepares activations, or each workgroup does, for the one column that it has.
func quantizes(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	out = []schedule.Trace{nil}
	p := s.(*schedule.Product)
	at := preparing{all: 1, step: 1}
	for _, l := range s.Loops() {
		switch {
		case l.Kind == nest.Lane:
			at.lanes, at.all = append(at.lanes, l.N), at.all*l.N
		case l.N == 0 && l.Root == "k":
			at.step = l.Coef
		case l.N == 0 && l.Root == "g":
			at.step = l.Coef * p.Problem.GroupK()
		}
	}
	if len(at.lanes) == 0 || columnsOf(s) != 1 || p.Problem.Act.Floats() {
		return out
	}
	of, err := schedule.NewPreparation(p.Problem, nil)
	if err != nil {
		return out
	}
	for _, at.vectors = range []int{4, 8} {
		t, ok := at.trace(of)
		for _, room := range rooms {
			if ok {
				out = append(out, schedule.Trace{schedule.Quantize{Trace: t, Room: room}})
			}
		}
	}
	return out
}

// preparing is how lanes of a product, in loops from the outermost one on, prepare its activations.
type preparing struct {
	lanes   []int
	all     int // product of lanes
	step    int // elements of K that an iteration of the product takes
	vectors int // that a lane spells out
}

// trace is the schedule of a preparation. Where a scale or a sum is of all elements, neighbouring lanes have neighbouring vectors, else groups. An iteration over K
// makes whole steps. ok says that lanes spell out no more than they may.
func (p preparing) trace(of *schedule.Preparation) (out schedule.Trace, ok bool) {
	groups := map[string]int{}
	for _, l := range of.Loops() {
		groups[l.Root] = l.N
	}
	for root, size := range groups { // stages read what others write: all of them go as far
		if strings.HasSuffix(root, ".k") && size > 0 {
			p.step *= size * p.all / gcd(p.step, size*p.all)
		}
	}
	for _, l := range of.Loops() {
		stage := stageOf(l)
		var t schedule.Trace
		switch {
		case l.N != 0:
			continue
		case l.Root == stage+".k":
			t, ok = p.words(stage)
		case groups[stage+".k"] == 0: // one number for each group
			t, ok = p.numbers(stage, of.Problem.Act.Group)
		default:
			t, ok = p.groups(stage, groups[stage+".k"])
		}
		if !ok {
			return nil, false
		}
		out = append(out, t...)
	}
	return out, true
}

// words: all elements of a stage. Lanes take vectors that lie side by side.
func (p preparing) words(stage string) (t schedule.Trace, ok bool) {
	n, ok := p.times(p.vectors, vector*p.all)
	if !ok {
		return nil, false
	}
	in := func(part string) string { return stage + "." + part }
	t = schedule.Trace{split(in("k"), vector*p.all, in("a"), in("d")), split(in("a"), n, in("o"), in("u")), bind(in("u"), "unrolled")}
	t, order := p.inLanes(t, stage, vector, in("c"))
	return p.vectored(t, stage, slices.Concat([]string{in("g")}, order, []string{in("o"), in("u"), in("c")})), true
}

// groups: groups of a stage, each for one lane.
func (p preparing) groups(stage string, size int) (t schedule.Trace, ok bool) {
	n, ok := p.times(1, size*p.all)
	if !ok || size%vector != 0 {
		return nil, false
	}
	in := func(part string) string { return stage + "." + part }
	t = schedule.Trace{split(in("g"), p.all, in("a"), in("d")), split(in("a"), n, in("o"), in("u"))}
	t, order := p.inLanes(t, stage, 1, "")
	t = append(t, split(in("k"), vector, in("v"), in("c")))
	order = append(order, in("o"), in("u"))
	if spelled := gcd(size/vector, mostVectors/2); spelled < size/vector {
		t = append(t, split(in("v"), spelled, in("w"), in("v")))
		order = append(order, in("w"))
	}
	t = append(t, bind(in("v"), "unrolled"))
	return p.vectored(t, stage, append(order, in("v"), in("c"))), true
}

// numbers: a number for each group of some elements.
func (p preparing) numbers(stage string, size int) (t schedule.Trace, ok bool) {
	n, ok := p.times(1, size*p.all)
	if !ok {
		return nil, false
	}
	in := func(part string) string { return stage + "." + part }
	t = schedule.Trace{split(in("g"), p.all, in("a"), in("d")), split(in("a"), n, in("o"), in("u"))}
	t, order := p.inLanes(t, stage, 1, "")
	return append(t, schedule.Reorder{Order: append(order, in("o"), in("u"))}), true
}

// times is how many times, at least `least`, all lanes take some elements so that these are whole steps.
func (p preparing) times(least, elements int) (n int, ok bool) {
	whole := p.step / gcd(p.step, elements)
	n = (least + whole - 1) / whole * whole
	return n, n <= mostVectors
}

// inLanes splits loop d of a stage into loops of lanes, each iteration of which has some elements, called rest.
func (p preparing) inLanes(t schedule.Trace, stage string, each int, rest string) (_ schedule.Trace, order []string) {
	from, left := stage+".d", p.all
	for i, n := range p.lanes {
		left /= n
		lane, inner := fmt.Sprintf("%s.l%d", stage, i), fmt.Sprintf("%s.d%d", stage, i)
		if i+1 == len(p.lanes) {
			inner = rest
		}
		if inner == "" {
			t = append(t, schedule.Trace{bind(from, "lane")}...)
			return t, append(order, from)
		}
		t = append(t, split(from, left*each, lane, inner), bind(lane, "lane"))
		order, from = append(order, lane), inner
	}
	return t, order
}

// vectored gives a stage's loops an order, the innermost of which is a vector or what a dot product sums.
func (p preparing) vectored(t schedule.Trace, stage string, order []string) schedule.Trace {
	c := order[len(order)-1]
	if stage == "sums" {
		return append(t, schedule.Tensorize{Loop: c, To: "dot4"}, schedule.Reorder{Order: order})
	}
	t = append(t, bind(c, "vector"), schedule.Reorder{Order: order})
	if stage == "amax" {
		t = append(t, schedule.Rfactor{Loop: c})
	}
	return t
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
