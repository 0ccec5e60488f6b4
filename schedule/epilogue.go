package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
)

// Epilogue lets a product end in a float operator: what it would store is the operator's input Tensor, and what the operator makes of that is stored. The
// operator makes each element of an element of each input, or of inputs of one element. The bits are the same as of the product and the operator after it.
//
//	group mt M/16                        group mt M/16
//	    lane r 16                            lane r 16
//	        for ks                 ->            for ks
//	            sum[] += w * act[k]                  sum[] += w * act[k]
//	        out[r] = sum[] * scale               out[r] = x[r] + sum[] * scale
type Epilogue struct {
	Operator string `json:"operator"`
	Tensor   string `json:"tensor"`
}

// Apply implements Step.
func (x Epilogue) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.Operator); err != nil {
		return nil, err
	}
	if s.epilogue != nil {
		return nil, illegal(x, x.Operator, "the product ends in an operator already")
	}
	e, err := x.ending()
	if err != nil {
		return nil, err
	}
	c := s.clone()
	c.epilogue = e
	st := c.main()
	st.final = e.of(st.final)
	return c, nil
}

// ending is an operator at the end of a product.
type ending struct {
	body   ir.Expr
	own    *ir.Tensor               // in body, what the product computes
	tensor map[*ir.Tensor]ir.Tensor // what others are in the product, where they lie in memory
	inputs []EpilogueInput
}

// EpilogueInput is an input of the operator that a product ends in. Its parameters are a pointer, and unless it has one element the bytes from one column to the
// next, and from one block of columns to the next. Its rows lie as the product's do.
type EpilogueInput struct {
	Name string // in the operator
	One  bool   // it has one element
}

// Params are the parameters of x: its pointer, and the steps of columns and of blocks of columns. One element has no steps.
func (x EpilogueInput) Params() [3]string {
	name := "epilogue." + x.Name
	return [3]string{name, nest.StepParam(name), nest.StepParam("block." + name)}
}

// ending is the operator of x, if products can end in it.
func (x Epilogue) ending() (*ending, error) {
	o := operator.Find(x.Operator)
	if o == nil {
		return nil, illegal(x, x.Operator, "no such operator")
	}
	each := illegal(x, x.Operator, "does not make each f32 of one vector by itself")
	if g := o.Graph; len(g.Stages) != 1 || len(g.Stages[0].Axes) != 1 || len(g.Stages[0].Reduce) > 0 || g.Stages[0].Out.Elem != format.F32 || len(o.Stride) > 0 {
		return nil, each
	}
	st := o.Graph.Stages[0]
	e := &ending{body: st.Body, tensor: map[*ir.Tensor]ir.Tensor{}}
	for _, t := range o.Graph.Inputs {
		here, elsewhere := 0, 0
		ir.Walk(st.Body, func(at ir.Expr) {
			if r, ok := at.(ir.Read); ok && r.T == t {
				if len(r.Index) == 1 && r.Index[0] == ir.Expr(ir.Axis{Name: st.Axes[0].Name}) {
					here++
				} else {
					elsewhere++
				}
			}
		})
		in := EpilogueInput{Name: t.Name, One: here == 0}
		switch {
		case t.Elem != format.F32 || here > 0 && elsewhere > 0:
			return nil, each
		case t.Name != x.Tensor:
			e.inputs = append(e.inputs, in)
			to := ir.Tensor{Name: in.Params()[0], Elem: t.Elem, Dims: []string{"n", "m"}}
			if in.One {
				to.Dims = t.Dims
			}
			e.tensor[t] = to
		case in.One:
			return nil, illegal(x, x.Operator, "input %s has one element", t.Name)
		default:
			e.own = t
		}
	}
	if e.own == nil {
		return nil, illegal(x, x.Operator, "has no input %q", x.Tensor)
	}
	return e, nil
}

// of is what the operator makes of the final value of a product.
func (e *ending) of(final ir.Expr) ir.Expr {
	tensors := map[*ir.Tensor]*ir.Tensor{}
	for t, as := range e.tensor {
		tensors[t] = &as
	}
	return ir.Map(e.body, func(at ir.Expr) ir.Expr {
		r, ok := at.(ir.Read)
		switch {
		case !ok:
			return at
		case r.T == e.own:
			return final
		case tensors[r.T] == nil:
			return at
		}
		if r.T = tensors[r.T]; len(r.T.Dims) == 2 {
			r.Index = []ir.Expr{ir.Axis{Name: "n"}, ir.Axis{Name: "m"}}
		}
		return r
	})
}

// addTo gives k the inputs of the operator.
func (e *ending) addTo(k *Kernel) error {
	n := k.Nest
	switch {
	case len(n.Grid) == 0:
		return &Unfinished{"epilogue", "is for targets with workgroups: bind tiles of rows to group"}
	case n.Holders > 0:
		return &Unfinished{"epilogue", "is for lanes that have floats of their own, not for tiles that lanes hold together"}
	}
	k.Epilogue = append([]EpilogueInput{}, e.inputs...)
	for _, in := range e.inputs {
		p := in.Params()
		memory := nest.Memory{Tensor: &ir.Tensor{Name: p[0], Elem: format.F32, Dims: []string{"n", "m"}}, Param: p[0]}
		if in.One {
			memory.Tensor.Dims = []string{"i"}
			n.Buffers[p[0]] = &nest.Array{Memory: memory, Strides: []int{format.F32.Bytes()}}
			n.Params = append(n.Params, p[0])
			continue
		}
		n.Buffers[p[0]] = &nest.Rows{Memory: memory, Stride: format.F32.Bytes(), Step: p[1], Side: sideRows, Tile: k.Weights.TileM}
		n.Params = append(n.Params, p[0], p[1])
		n.Grid[0].Moves = append(n.Grid[0].Moves, nest.Move{Param: p[0], By: rowsStep})
		if len(n.Grid) > 1 {
			n.Params = append(n.Params, p[2])
			n.Grid[1].Moves = append(slices.Clip(n.Grid[1].Moves), nest.Move{Param: p[0], By: p[2]})
		}
	}
	return nil
}
