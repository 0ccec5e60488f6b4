package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// nests is what products, preparations and operators have in common: a graph, and a loop nest for each of its stages.
type nests struct {
	Graph  *ir.Graph
	stages []*stage
}

// clone copies n deeply enough for a step to edit.
func (n *nests) clone() nests {
	c := *n
	c.stages = nil
	for _, st := range n.stages {
		d := *st
		d.loops = slices.Clone(st.loops)
		d.accumulators = slices.Clone(st.accumulators)
		d.staged = slices.Clone(st.staged)
		d.values = maps.Clone(st.values)
		c.stages = append(c.stages, &d)
	}
	return c
}

// find returns the stage and position of the loop called name.
func (n *nests) find(name string) (*stage, int) {
	for _, st := range n.stages {
		for i, l := range st.loops {
			if l.Name == name {
				return st, i
			}
		}
	}
	return nil, -1
}

// loop finds the loop called name for the step x.
func (n *nests) loop(x Step, name string) (st *stage, i int, err error) {
	if st, i = n.find(name); st == nil {
		return nil, 0, illegal(x, name, "no such loop")
	}
	return st, i, nil
}

// Loops lists the loops of all stages, outermost first. Nobody may change the list.
func (n *nests) Loops() []nest.Loop {
	if len(n.stages) == 1 { // the only stage of a product, which is asked often
		return slices.Clip(n.stages[0].loops)
	}
	all := 0
	for _, st := range n.stages {
		all += len(st.loops)
	}
	out := make([]nest.Loop, 0, all)
	for _, st := range n.stages {
		out = append(out, st.loops...)
	}
	return out
}

// Stages names the stages that have loops of their own.
func (n *nests) Stages() (names []string) {
	for _, st := range n.stages {
		names = append(names, st.name)
	}
	return names
}

// InOrder says that an axis is summed in floats, in ascending order.
func (n *nests) InOrder(root string) bool {
	for _, st := range n.stages {
		if st.reduce[root] && st.lowest().Temp.Elem == format.F32 {
			return true
		}
	}
	return false
}

// Reduces says that a stage sums over an axis, or takes the largest.
func (n *nests) Reduces(root string) bool {
	return slices.ContainsFunc(n.stages, func(st *stage) bool { return st.reduce[root] })
}

// Adds says that an axis is summed in integers, which instructions may add four at a time.
func (n *nests) Adds(root string) bool {
	return slices.ContainsFunc(n.stages, func(st *stage) bool {
		return st.reduce[root] && st.lowest().Op == ir.Add && st.lowest().Temp.Elem == format.I32
	})
}

// Neighbours says that all that a stage reads and writes at neighbouring values of an axis are neighbours too, or the same.
func (s *Operator) Neighbours(root string, _ Machine) bool { return s.neighbours(root, s.Of.Stride) }

// Neighbours is that of Operator. Neighbours may also be as far apart as the values of all axes inside reach, or where an instruction
// gathers, a group apart.
func (s *Preparation) Neighbours(root string, m Machine) bool {
	return m.Gathers || s.neighbours(root, nil) || s.dense(root)
}

// dense says that a stage writes at neighbouring values of an axis what follows the values of all axes inside.
func (n *nests) dense(root string) bool {
	for _, st := range n.stages {
		if _, ok := st.dims[root]; !ok || st.reduce[root] {
			continue
		}
		inside, reach := map[string]bool{}, 1
		for _, l := range slices.Backward(st.loops) {
			if l.Root == root {
				break
			}
			if !inside[l.Root] && !st.reduce[l.Root] {
				reach *= st.dims[l.Root].N
			}
			inside[l.Root] = true
		}
		first, _ := ir.EvalExpr(st.index[len(st.index)-1], axes{})
		next, _ := ir.EvalExpr(st.index[len(st.index)-1], axes{root: 1})
		return int(next-first)/max(st.out.Block, 1) == reach
	}
	return false
}

// neighbours has the distance of neighbours along the last index of some tensors.
func (n *nests) neighbours(root string, stride map[string]int) bool {
	for _, st := range n.stages {
		if _, ok := st.dims[root]; !ok {
			continue
		}
		for _, t := range n.tensors() {
			for _, index := range st.accesses(t) {
				for i, e := range index {
					first, _ := ir.EvalExpr(e, axes{})
					next, _ := ir.EvalExpr(e, axes{root: 1})
					if by := int(next-first) / max(t.Block, 1); by != 0 && (by != 1 || i < len(index)-1 || stride[t.Name] > 1) {
						return false
					}
				}
			}
		}
	}
	return true
}

// Builds says why the loops over axes that begin with a name and a point have no nest.
func (n *nests) Builds(name string) error {
	for _, st := range n.stages {
		if len(st.loops) == 0 || !strings.HasPrefix(st.loops[0].Root, name+".") {
			continue
		}
		plan, err := st.plan()
		if err == nil && len(st.reduce) > 0 && st.lowest().Temp.Elem == format.F32 {
			err = st.ascending()
		}
		if err == nil {
			_, err = nest.Build(plan)
		}
		return err
	}
	return nil
}

// loopEdit is a step that treats the loops of products, preparations and operators alike.
type loopEdit interface {
	Step
	// edit rewrites the stages of n, whose innermost loops advance by unit elements of K.
	edit(n *nests, unit int) error
}

// stage is one loop nest: loops, accumulators from the last to the first, and
// named values that the body reads (inlined unless staged).
type stage struct {
	name         string
	loops        []nest.Loop
	reduce       map[string]bool
	accumulators []accumulator
	values       map[string]ir.Expr
	staged       []nest.Staged
	body         ir.Expr
	out          *ir.Tensor
	index        []ir.Expr
	dims         map[string]ir.Dim // of the graph's stage, by name

	superSpan int // groups of a super-block, at least 1
	block     int // groups that are one integer when floats scale it, at least 1
	made      int // accumulators that decompose made, the last one of a group
	holders   int // lanes that hold tiles together
	final     ir.Expr
}

// newStage is a stage of a graph as a nest of its own, with a loop for each of axes and for each axis that it sums over. An
// element of its tensor has this index and is made of body.
func newStage(gs ir.Stage, axes []ir.Dim, index []ir.Expr, body ir.Expr) *stage {
	st := &stage{name: gs.Out.Name, reduce: map[string]bool{}, values: map[string]ir.Expr{}, out: gs.Out, index: index, dims: map[string]ir.Dim{}}
	for _, d := range slices.Concat(axes, gs.Reduce) {
		st.loops = append(st.loops, nest.Loop{Name: d.Name, Root: d.Name, Coef: 1, N: d.N})
		st.dims[d.Name] = d
	}
	for _, d := range gs.Reduce {
		st.reduce[d.Name] = true
	}
	if len(gs.Reduce) == 0 {
		st.final = body
		return st
	}
	temp := &ir.Tensor{Name: gs.Out.Name + ".0", Elem: gs.Out.Elem}
	st.accumulators = []accumulator{{Accumulator: nest.Accumulator{Temp: temp, Op: gs.Combine}}}
	st.body, st.final = body, ir.Read{T: temp}
	return st
}

// accumulator is an accumulator of a stage. Its loop is At, or, while At is empty, the
// outermost loop of the reduction that Root says ("k": within a group, "g": within a block
// of groups, "": of any).
type accumulator struct {
	nest.Accumulator
	root string
	// Set by read_scaled, which makes classes of fields:
	shift   []int // of each class
	classOf []int // of each field number
	fields  []fieldLoop
}

// fieldLoop counts a digit of the field number.
type fieldLoop struct {
	loop      string
	n, stride int
}

// lowest is the innermost accumulator of st.
func (st *stage) lowest() *accumulator { return &st.accumulators[len(st.accumulators)-1] }

// sum is the accumulator of a group.
func (st *stage) sum() *accumulator { return &st.accumulators[st.made-1] }

// insert adds an accumulator below the lowest, of the same type and extent.
func (st *stage) insert(keep []nest.Keep, flush func(ir.Expr) ir.Expr) *accumulator {
	low := *st.lowest()
	t := &ir.Tensor{Name: fmt.Sprintf("%s%d", st.accumulators[0].Temp.Name, len(st.accumulators)), Elem: low.Temp.Elem}
	low.Temp, low.Keep, low.Init, low.Beside = t, keep, nil, nil
	low.shift, low.classOf, low.fields = nil, nil, nil
	low.Flush = flush(ir.Read{T: t})
	st.accumulators = append(st.accumulators, low)
	return st.lowest()
}

// plan resolves what was left open and returns the stage for nest.Build.
func (st *stage) plan() (*nest.Plan, error) {
	p := &nest.Plan{Name: st.name, Loops: st.loops, Reduce: st.reduce, Staged: nil,
		Out: st.out, Index: st.index}
	inline := st.inliner()
	if err := st.wholeBlocks(); err != nil {
		return nil, err
	}
	for _, acc := range st.accumulators {
		n := acc.Accumulator
		if n.At == "" {
			n.At = st.outermost(acc.root)
		}
		if n.Flush != nil {
			n.Flush = inline(n.Flush)
		}
		if acc.root == "g" { // when the loops in it have ended
			n.Flush = st.ofFirst(n.Flush)
		}
		if n.Init != nil {
			n.Init = inline(n.Init)
		}
		if n.Beside != nil {
			beside := *n.Beside
			beside.Each = inline(beside.Each)
			if beside.Over != nil {
				beside.Apart = n.At
			}
			n.Beside = &beside
		}
		n.Keep = st.within(n.At, n.Keep)
		p.Accumulators = append(p.Accumulators, n)
	}
	for _, sg := range st.staged {
		sg.Value = inline(st.values[sg.Temp.Name])
		if ofBlock(sg.Temp.Name) {
			sg.Value = st.ofFirst(sg.Value)
		}
		if !isSuper(sg.Temp.Name) {
			p.Staged = append(p.Staged, sg)
			continue
		}
		var err error
		if sg.Value, err = st.ofBlock(sg.Value, sg.At); err != nil {
			return nil, err
		}
		p.Staged = slices.Insert(p.Staged, 0, sg) // scale reads it
	}
	if st.body != nil {
		p.Body = st.averaged(inline(st.body))
	}
	p.Final = inline(st.final)
	return p, nil
}

// ofBlock says that a block of groups that are one integer has one value of a name.
func ofBlock(name string) bool { return slices.Contains([]string{"scale", "own", "ownleast"}, name) }

// isSuper says whether the groups of a super-block share a value.
func isSuper(name string) bool { return name == "super" || name == "supermin" }

// ofBlock is a value that the groups of a super-block share in terms of the loops
// over groups down to the one called at: those in it must stay in the super-block.
func (st *stage) ofBlock(e ir.Expr, at string) (ir.Expr, error) {
	var outer []nest.Loop
	inside := at == ""
	for _, l := range st.loops {
		switch {
		case !inside:
			outer = append(outer, l)
		case l.Root == "g" && (l.N == 0 || l.Coef*l.N > st.superSpan):
			return nil, &Unfinished{"loop " + l.Name, "leaves the super-block: stage super in it"}
		}
		inside = inside || l.Name == at
	}
	return ofGroup(e, outer), nil
}

// ofFirst is e of the first group of a block.
func (st *stage) ofFirst(e ir.Expr) ir.Expr {
	if st.block == 1 {
		return e
	}
	return ofGroup(e, slices.DeleteFunc(slices.Clone(st.loops), st.inBlock))
}

// ofGroup is e of the group at which loops stand, and those that are not among them at 0.
func ofGroup(e ir.Expr, loops []nest.Loop) ir.Expr {
	var g ir.Expr = ir.I32(0)
	for _, l := range loops {
		if l.Root == "g" && l.Kind != nest.Part {
			g = ir.Binary{Op: ir.Add, X: g, Y: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: l.Name}, Y: ir.I32(l.Coef)}}
		}
	}
	return ir.OfGroup(e, g)
}

// inBlock says that l counts groups of one block.
func (st *stage) inBlock(l nest.Loop) bool {
	return st.block > 1 && l.Root == "g" && l.Kind != nest.Part && l.N > 0 && l.Coef*l.N <= st.block
}

// wholeBlocks: loops over groups count whole blocks, or groups of a block, whose scales are
// there when all of them are summed.
func (st *stage) wholeBlocks() error {
	within := map[string]bool{"": false}
	inside := false
	for _, l := range st.loops {
		if st.block > 1 && l.Root == "g" && l.Kind != nest.Part && l.Coef < st.block && !st.inBlock(l) {
			return &Unfinished{"loop " + l.Name, "leaves a block of groups that are one integer: split it into whole blocks and the groups in them"}
		}
		inside = inside || st.inBlock(l)
		within[l.Name] = inside
	}
	for _, sg := range st.staged {
		if name := sg.Temp.Name; within[sg.At] && (isSuper(name) || ofBlock(name)) {
			return &Unfinished{"stage " + name, "is needed when all groups of a block are summed: stage it outside the loops over them"}
		}
	}
	return nil
}

// within is keep without loops over planes and halves that are outside loop at, where
// their sums are apart already.
func (st *stage) within(at string, keep []nest.Keep) []nest.Keep {
	inside := false
	loops := map[string]bool{}
	for _, l := range st.loops {
		inside = inside || l.Name == at
		loops[l.Name] = inside
	}
	return slices.DeleteFunc(slices.Clone(keep), func(k nest.Keep) bool {
		return (k.Name == planeLoop || k.Name == halfLoop) && !loops[k.Name]
	})
}

// outermost is the first loop within a group if root is k, within a block of groups if it
// is g, or of any reduction.
func (st *stage) outermost(root string) string {
	for _, l := range st.loops {
		if st.reduce[l.Root] && (root == "" || l.Root != "g" || root == "g" && st.inBlock(l)) && l.Kind != nest.Averaged {
			return l.Name
		}
	}
	return ""
}

// inliner replaces named values that are not staged by their expressions.
func (st *stage) inliner() func(ir.Expr) ir.Expr {
	var inline func(e ir.Expr) ir.Expr
	inline = func(e ir.Expr) ir.Expr {
		return ir.Map(e, func(x ir.Expr) ir.Expr {
			r, ok := x.(ir.Read)
			if !ok || r.Index != nil || st.values[r.T.Name] == nil || st.isStaged(r.T.Name) {
				return x
			}
			return inline(st.values[r.T.Name])
		})
	}
	return inline
}

func (st *stage) isStaged(name string) bool {
	return slices.ContainsFunc(st.staged, func(s nest.Staged) bool { return s.Temp.Name == name })
}

// value is a named value of type t, read by its name.
func value(name string, t format.DType) ir.Read { return ir.Read{T: &ir.Tensor{Name: name, Elem: t}} }
