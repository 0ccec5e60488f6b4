package schedule

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Batch makes calls of an operator at once, which are numbered along some axes: each is a workgroup, or several if loops are bound to group. From
// one call to the next each tensor moves by a step that the caller gives, 0 if calls share it. Along the last axis, tensor Listed moves by the numbers of
// bytes in a list instead: it lies in pages of a cache, say.
//
//	                           group calls0
//	for k                          for k
//	    z[k] = x[k]*y[k]   ->          z[k] = x[k]*y[k]
type Batch struct {
	Axes   int    `json:"axes"`
	Listed string `json:"listed,omitempty"`
}

// Apply implements Step.
func (x Batch) Apply(*Product) (*Product, error) { return nil, illegal(x, "axes", "is for operators") }

// ApplyOperator implements OperatorStep.
func (x Batch) ApplyOperator(s *Operator) (*Operator, error) {
	switch {
	case s.batch.Axes > 0:
		return nil, illegal(x, "axes", "are there already")
	case x.Axes < 1 || x.Axes > vir.MaxGrid:
		return nil, illegal(x, "axes", "%d: want 1 to %d", x.Axes, vir.MaxGrid)
	}
	if x.Listed != "" && !slices.ContainsFunc(s.tensors(), func(t *ir.Tensor) bool { return t.Name == x.Listed && s.role(t) != ScratchTensor }) {
		return nil, illegal(x, x.Listed, "is no tensor that callers give")
	}
	given := slices.DeleteFunc(s.tensors(), func(t *ir.Tensor) bool { return s.role(t) == ScratchTensor })
	if words := len(given)*(1+x.Axes) + len(s.Of.Rows); words > vir.MaxWords {
		return nil, illegal(x, "axes", "need %d parameters of workgroups: there are at most %d", words, vir.MaxWords)
	}
	c := s.clone()
	c.batch = x
	return c, nil
}

// mostLocal bounds the bytes of scratch that a workgroup shares: each device has that much.
const mostLocal = 16 << 10

// grouped says that workgroups run s, whose lanes share scratch.
func (s *Operator) grouped() bool {
	return s.batch.Axes > 0 || slices.ContainsFunc(s.Loops(), func(l nest.Loop) bool { return l.Kind == nest.Group || l.Kind == nest.Lane })
}

// grid gives k its workgroups: first the loops over groups, then the axes of calls.
func (s *Operator) grid(k *OperatorKernel) error {
	if err := s.sameLoops(nest.Lane); err != nil || !s.grouped() {
		return err
	}
	if err := s.sameLoops(nest.Group); err != nil {
		return err
	}
	n := k.Nest
	n.Aligned = map[string]int{}
	for _, p := range tensorsIn(k.Params) {
		if p.Role != ScratchTensor { // which is aligned by itself
			n.Aligned[p.Name] = s.alignment(p)
		}
	}
	for i, l := range loopsOf(s.stages[0], nest.Group) {
		if err := s.groupsOf(k, i, l); err != nil {
			return err
		}
	}
	for axis := range s.batch.Axes {
		listed := ""
		if axis == s.batch.Axes-1 {
			listed = s.batch.Listed
		}
		n.Grid = append(n.Grid, k.callsAlong(axis, listed))
	}
	if len(n.Grid) > vir.MaxGrid {
		return &Unfinished{fmt.Sprintf("%d loops over groups and axes of calls", len(n.Grid)), "are more than the dimensions that workgroups have"}
	}
	return s.local(k)
}

// groupsOf gives k the groups of loop number i over groups, which is l in the first stage.
func (s *Operator) groupsOf(k *OperatorKernel, i int, l nest.Loop) error {
	d, r := s.stages[0].dims[l.Root], nest.Repeat{Count: nest.CountParam(l)}
	k.Params = append(k.Params, OperatorParam{Name: r.Count, Role: TripCount, Size: d.Run, Div: d.Div * l.Coef})
	for _, p := range tensorsIn(k.Params) {
		by, err := s.moved(p, i)
		if err != nil {
			return err
		}
		if by != "" && p.Role != ScratchTensor {
			r.Moves = append(r.Moves, nest.Move{Param: p.Name, By: by})
			k.constant(by)
		}
	}
	k.Nest.Grid = append(k.Nest.Grid, r)
	return nil
}

// tensorsIn are the parameters that are tensors.
func tensorsIn(all []OperatorParam) []OperatorParam {
	return slices.DeleteFunc(slices.Clone(all), func(p OperatorParam) bool { return p.Role > ScratchTensor })
}

// loopsOf are the loops of a stage that run in some way.
func loopsOf(st *stage, kind nest.Kind) []nest.Loop {
	return slices.DeleteFunc(slices.Clone(st.loops), func(l nest.Loop) bool { return l.Kind != kind })
}

// sameLoops: all stages of a workgroup have the same groups, and where they have lanes, the same numbers of them.
func (s *Operator) sameLoops(kind nest.Kind) error {
	var first []nest.Loop
	var of *stage
	for i, st := range s.stages {
		loops := loopsOf(st, kind)
		if i == 0 || kind == nest.Lane && len(first) == 0 {
			first, of = loops, st
			continue
		}
		same := slices.EqualFunc(loops, first, func(a, b nest.Loop) bool {
			x, y := st.dims[a.Root], of.dims[b.Root]
			return a.N == b.N && (kind == nest.Lane || x.Run == y.Run && x.Div*a.Coef == y.Div*b.Coef)
		})
		if !same && (kind == nest.Group || len(loops) > 0) {
			return &Unfinished{fmt.Sprintf("loops over %vs in stage %s", kind, st.name), "are others than in the stage before"}
		}
	}
	return nil
}

// alignment is what addresses of a tensor are multiples of: the bytes of the widest vector of its neighbours, at most 16.
func (s *Operator) alignment(p OperatorParam) int {
	widest := 1
	for _, st := range s.stages {
		for _, index := range st.accesses(s.tensor(p.Name)) {
			n := 1
			for _, l := range loopsOf(st, nest.Vector) {
				if by, _ := moves(index, l.Root, 1); len(by) > 0 && by[len(by)-1] == 1 && p.Stride == 1 {
					n *= l.N
				}
			}
			widest = max(widest, n)
		}
	}
	return min(widest*p.Elem.Bytes(), 16)
}

// tensor is the tensor of a name.
func (s *Operator) tensor(name string) *ir.Tensor {
	all := s.tensors()
	return all[slices.IndexFunc(all, func(t *ir.Tensor) bool { return t.Name == name })]
}

// moves are how far each index moves when an axis goes on by some values.
func moves(index []ir.Expr, root string, by int) (out []int, err error) {
	for _, e := range index {
		first, err := ir.EvalExpr(e, axes{})
		if err != nil {
			return nil, err
		}
		next, err := ir.EvalExpr(e, axes{root: by})
		if err != nil {
			return nil, err
		}
		out = append(out, int(next-first))
	}
	return out, nil
}

// moved is the parameter by which a tensor moves from one group to the next of loop number i over groups, "" if it does not.
func (s *Operator) moved(p OperatorParam, i int) (by string, err error) {
	t, seen := s.tensor(p.Name), false
	for _, st := range s.stages {
		l := loopsOf(st, nest.Group)[i]
		for _, index := range st.accesses(t) {
			x, err := s.movedBy(p, index, l)
			if err != nil {
				return "", err
			}
			if seen && x != by {
				return "", &Unfinished{"tensor " + t.Name + " in loop " + l.Name, "is not where the group is: each group has elements of its own"}
			}
			by, seen = x, true
		}
	}
	return by, nil
}

// movedBy is the parameter by which the element at index moves from one iteration of a loop to the next.
func (s *Operator) movedBy(p OperatorParam, index []ir.Expr, l nest.Loop) (string, error) {
	by, err := moves(index, l.Root, l.Coef)
	if err != nil {
		return "", err
	}
	bytes, stride := 0, p.Stride*p.Elem.Bytes()
	for i := len(by) - 1; i >= 0; i-- {
		if i == 0 && by[0] != 0 && slices.Contains(s.Of.Rows, p.Name) {
			if by[0] > 1 || bytes != 0 {
				return "", &Unfinished{"tensor " + p.Name + " in loop " + l.Name, "moves by several rows: groups have one row each"}
			}
			return nest.StepParam(p.Name), nil
		}
		if b := s.tensor(p.Name).Block; b != 0 && i == len(by)-1 {
			by[i] /= max(b, 1)
		}
		bytes += by[i] * stride
		stride *= p.Dims[i].N
	}
	if s.to != nil && s.to.Cols > 1 && p.Name == "act" { // in chunks
		if bytes%s.to.Chunk != 0 {
			return "", &Unfinished{"loop " + l.Name, "moves activations by no whole chunks"}
		}
		bytes *= s.to.Cols
	}
	if bytes == 0 {
		return "", nil
	}
	return nest.StepParam(fmt.Sprint(bytes)), nil
}

// constant makes by a parameter of k, if it is a number of bytes and none yet.
func (k *OperatorKernel) constant(by string) {
	var n int
	if _, err := fmt.Sscanf(by, nest.StepParam("%d"), &n); err != nil || slices.ContainsFunc(k.Params, func(p OperatorParam) bool { return p.Name == by }) {
		return
	}
	k.Params = append(k.Params, OperatorParam{Name: by, Role: ConstantStep, Value: n})
	k.Nest.Aligned[by] = n & -n
}

// listParam is a list of places.
const listParam = "places"

// callsAlong are the workgroups along an axis of calls. All tensors but scratch move, one of them by a list.
func (k *OperatorKernel) callsAlong(axis int, listed string) nest.Repeat {
	name := fmt.Sprintf("calls%d", axis)
	r := nest.Repeat{Count: nest.CountParam(nest.Loop{Name: name})}
	k.Params = append(k.Params, OperatorParam{Name: r.Count, Role: CallCount, Axis: axis})
	for _, p := range tensorsIn(k.Params) {
		switch {
		case p.Role == ScratchTensor:
		case p.Name == listed:
			k.Params = append(k.Params, OperatorParam{Name: listParam, Role: CallList, Elem: format.U32, Tensor: p.Name, Axis: axis})
			k.Nest.Aligned[listParam] = format.U32.Bytes()
			r.Moves = append(r.Moves, nest.Move{Param: p.Name, By: listParam})
		default:
			by := nest.StepParam(name + "." + p.Name)
			k.Params = append(k.Params, OperatorParam{Name: by, Role: CallStep, Tensor: p.Name, Axis: axis})
			k.Nest.Aligned[by] = k.Nest.Aligned[p.Name]
			r.Moves = append(r.Moves, nest.Move{Param: p.Name, By: by})
		}
	}
	return r
}

// local puts scratch into memory that the lanes of a workgroup share: parameters at the end.
func (s *Operator) local(k *OperatorKernel) error {
	var scratch []OperatorParam
	k.Nest.Local = map[string]int{}
	total := 0
	for _, p := range k.Params {
		if p.Role != ScratchTensor {
			continue
		}
		bytes := p.Elem.Bytes()
		for i := range p.Dims {
			reach, err := s.reach(s.tensor(p.Name), i)
			if err != nil {
				return err
			}
			bytes *= reach
		}
		scratch, total = append(scratch, p), total+bytes
		k.Nest.Local[p.Name] = (bytes + 3) &^ 3
	}
	if total > mostLocal {
		return &Unfinished{fmt.Sprintf("scratch of %d bytes", total), "is more than each device lets a workgroup share"}
	}
	k.Params = append(slices.DeleteFunc(k.Params, func(p OperatorParam) bool { return p.Role == ScratchTensor }), scratch...)
	return nil
}

// reach is the number of values of index i of a tensor in one workgroup.
func (s *Operator) reach(t *ir.Tensor, i int) (most int, err error) {
	for _, st := range s.stages {
		for _, index := range st.accesses(t) {
			first, err := ir.EvalExpr(index[i], axes{})
			if err != nil {
				return 0, err
			}
			n := int(first) + 1
			for _, l := range st.loops {
				by, err := moves(index[i:i+1], l.Root, l.Coef)
				if err != nil {
					return 0, err
				}
				switch by[0] /= max(t.Block, 1); {
				case by[0] == 0 || l.Kind == nest.Group:
				case l.N == 0:
					return 0, &Unfinished{"loop " + l.Name, "makes scratch of a run-time size, for which workgroups have no room: inline it"}
				default:
					n += by[0] * (l.N - 1)
				}
			}
			most = max(most, n)
		}
	}
	return most, nil
}
