package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
)

// Inline computes a stage of an operator where it is read, instead of through memory. An element of a stage without a sum
// is computed anew wherever it is read. A sum is read by one stage only, in loops that count the same, and that
// stage then takes place where the sum is complete.
//
//	for k                              for k
//	    p[k] = x[k]*y[k]        ->         z[k] = x[k]*y[k] + w[k]
//	for k
//	    z[k] = p[k] + w[k]
type Inline struct {
	Stage string `json:"stage"`
}

// Apply implements Step.
func (x Inline) Apply(*Product) (*Product, error) {
	return nil, illegal(x, x.Stage, "is for operators")
}

// ApplyOperator implements OperatorStep.
func (x Inline) ApplyOperator(s *Operator) (*Operator, error) {
	i := slices.IndexFunc(s.stages, func(st *stage) bool { return st.name == x.Stage })
	switch {
	case i < 0:
		return nil, illegal(x, x.Stage, "no such stage")
	case s.role(s.stages[i].out) != ScratchTensor:
		return nil, illegal(x, x.Stage, "callers want it")
	case !s.stages[i].byAxes():
		return nil, illegal(x, x.Stage, "is not indexed by its axes")
	}
	c := s.clone()
	st := c.stages[i]
	c.stages = slices.Delete(c.stages, i, i+1)
	if len(st.reduce) > 0 {
		return c, x.intoSum(c, st)
	}
	for _, reader := range c.stages {
		reader.body, reader.final = st.inlined(reader.body), st.inlined(reader.final)
	}
	return c, nil
}

// inlined is e with the elements of st, which sums nothing, computed where e reads them.
func (st *stage) inlined(e ir.Expr) ir.Expr {
	if e == nil {
		return nil
	}
	return ir.Map(e, func(e ir.Expr) ir.Expr {
		r, ok := e.(ir.Read)
		if !ok || r.T != st.out {
			return e
		}
		at := map[string]ir.Expr{}
		for i, x := range st.index {
			at[x.(ir.Axis).Name] = r.Index[i]
		}
		return renamed(st.final, at)
	})
}

// renamed is e with other expressions for axes.
func renamed(e ir.Expr, as map[string]ir.Expr) ir.Expr {
	return ir.Map(e, func(e ir.Expr) ir.Expr {
		if a, ok := e.(ir.Axis); ok && as[a.Name] != nil {
			return as[a.Name]
		}
		return e
	})
}

// intoSum puts the sum st, which is not among the stages of s any more, in the place of the stage that reads it, which becomes
// what the sum ends in.
func (x Inline) intoSum(s *Operator, st *stage) error {
	var readers []*stage
	for _, r := range s.stages {
		if len(r.accesses(st.out)) > 0 {
			readers = append(readers, r)
		}
	}
	if len(readers) != 1 || len(readers[0].reduce) > 0 {
		return illegal(x, x.Stage, "is read by %d stages: a sum ends in one, which sums nothing itself", len(readers))
	}
	reader := readers[0]
	as := map[string]ir.Expr{}
	for i, e := range reader.index {
		if len(reader.index) != len(st.index) || !sameExtent(reader.dim(i), st.dim(i)) {
			return illegal(x, x.Stage, "is read in loops that do not count what its own count")
		}
		as[e.(ir.Axis).Name] = st.index[i]
	}
	for _, index := range reader.accesses(st.out) {
		if !slices.Equal(index, reader.index) {
			return illegal(x, x.Stage, "is read elsewhere than at the element at hand")
		}
	}
	temp := st.final
	st.final = ir.Map(renamed(reader.final, as), func(e ir.Expr) ir.Expr {
		if r, ok := e.(ir.Read); ok && r.T == st.out {
			return temp
		}
		return e
	})
	st.out, st.name = reader.out, reader.name
	s.stages[slices.Index(s.stages, reader)] = st
	return nil
}

// dim is the axis of index i of what st, a stage of an operator, makes.
func (st *stage) dim(i int) ir.Dim { return st.dims[st.index[i].(ir.Axis).Name] }

// sameExtent says that two axes have the same number of iterations for all sizes.
func sameExtent(a, b ir.Dim) bool { return a.N == b.N && a.Run == b.Run && a.Div == b.Div }

// Propose implements Proposer: the stage that x names, or each stage that callers do not want.
func (x Inline) Propose(s State, _ Machine) (out []Step) {
	o, ok := s.(*Operator)
	if !ok {
		return nil
	}
	for _, st := range o.stages {
		if o.role(st.out) == ScratchTensor && st.byAxes() && (x.Stage == "" || x.Stage == st.name) {
			out = append(out, Inline{st.name})
		}
	}
	return out
}
