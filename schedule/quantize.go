package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
)

// Quantize lets each workgroup of a product of one column prepare the activations itself: from floats x, by a schedule of their preparation,
// into buffers that its lanes share. They have room for Room elements of K. All loops of lanes of a stage count what the
// lanes of the product count, outermost first.
//
//	group mt M/16                        group mt M/16
//	    lane r 16                            lane amax.l 16
//	        for ks                 ->            for amax.o
//	            sum[] += w * act[k]                  amax[] max= x[k]
//	                                         lane act.l 16
//	                                             ...  act[k] = x[k] * inv
//	                                         lane r 16
//	                                             for ks
//	                                                 sum[] += w * act[k]
type Quantize struct {
	Trace Trace `json:"trace"`
	Room  int   `json:"room"`
}

// mostRoom bounds the elements of K whose activations a workgroup shares.
const mostRoom = 1 << 15

// Apply implements Step.
func (x Quantize) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, "x"); err != nil {
		return nil, err
	}
	switch {
	case s.quantized != nil:
		return nil, illegal(x, "x", "is quantized already")
	case s.tables != nil || s.fill != nil || s.Problem.Act.Floats():
		return nil, illegal(x, "x", "becomes 8-bit activations: not f32 ones, tables of them or filled groups")
	case x.Room < 1 || x.Room > mostRoom:
		return nil, illegal(x, "x", "room for %d elements: want 1 to %d", x.Room, mostRoom)
	}
	c := s.clone()
	c.quantized = &x
	return c, nil
}

// Unquantized is t without the step quantize at its end, if it has it: the schedule of a product of activations that are prepared.
func Unquantized(t Trace) Trace {
	if n := len(t) - 1; n >= 0 {
		if _, ok := t[n].(Quantize); ok {
			return t[:n:n]
		}
	}
	return t
}

// Quantizes says that workgroups prepare activations.
func (s *Product) Quantizes() bool { return s.quantized != nil }

// prepared is k with its activations prepared by each workgroup.
func (x Quantize) prepared(k *Kernel) error {
	p, err := compilePreparation(k.Problem, nil, x.Trace, x.Room)
	if err != nil {
		return fmt.Errorf("quantize: %w", err)
	}
	n, lanes := k.Nest, lanesOf(k.Nest.Loops, "")
	switch {
	case k.Cols != 1 || len(n.Grid) != 2 || len(lanes) == 0:
		return &Unfinished{"quantize", "is for products of one column, bound to group, in lanes"}
	case k.ScaledSums:
		return &Unfinished{"quantize", "makes no sums of activations that are multiplied by their scales"}
	}
	for _, st := range p.Graph.Stages {
		if have := lanesOf(p.Nest.Loops, st.Out.Name+"."); len(have) > 0 && !slices.Equal(have, lanes) {
			return &Unfinished{fmt.Sprintf("quantize: lanes %v of stage %s", have, st.Out.Name), "must be the same number as in the product"}
		}
	}
	for i, name := range p.Nest.Counts {
		if stage, _, _ := strings.Cut(name, "."); (stage == "act" || stage == "sums" || stage == "ascale") && p.CountDiv[i]%k.StepK != 0 {
			return &Unfinished{fmt.Sprintf("quantize: loop %s of %d elements", name, p.CountDiv[i]), "must make whole iterations of the product's loop over K"}
		}
	}
	k.Quantized, k.Room = p, x.Room
	k.PlainSums()
	x.join(n, p)
	return nil
}

// ParamNumbers are the numbers of the parameters of a kernel of workgroups in the order of one that neither quantizes nor ends in an operator: floats and their step are in the place of
// activations. The counts of the preparation's loops follow all others, and then three of each input of the operator.
func (k *Kernel) ParamNumbers() (numbers []int) {
	of := slices.Clone(matmulParams)
	var prepared []string
	if k.Quantized != nil {
		prepared = k.Quantized.Nest.Counts
	}
	counts := func(names []string) {
		for _, name := range names {
			of = append(of, nest.CountParam(nest.Loop{Name: name}))
		}
	}
	counts(k.Nest.Counts[:len(k.Nest.Counts)-len(prepared)])
	of = append(of, blocksParam, actStep, sumsStep, blockStep)
	counts(prepared)
	for _, in := range k.Epilogue {
		params := in.Params()
		of = append(of, params[:]...)
	}
	as := map[string]string{"x": "act", xStep: actStep}
	for _, name := range k.Nest.Params {
		if k.Nest.Local[name] > 0 {
			continue // shared by the lanes of a workgroup, the last ones
		}
		numbers = append(numbers, slices.Index(of, cmp.Or(as[name], name)))
	}
	return numbers
}

// PlainSums lets the kernel multiply activation sums itself by what the caller would multiply them by, so that it takes them as a preparation makes them.
func (k *Kernel) PlainSums() {
	multiplySums(k.Nest.Body, k.SumBy)
	k.SumBy = 1
}

// multiplySums multiplies the sums of activations that statements read.
func multiplySums(body []nest.Stmt, by int) {
	for _, s := range body {
		switch s := s.(type) {
		case *nest.For:
			multiplySums(s.Body, by)
		case *nest.Assign:
			s.Value = ir.Map(s.Value, func(e ir.Expr) ir.Expr {
				if r, ok := e.(ir.Read); ok && r.T.Name == "sums" && by != 1 {
					return ir.Binary{Op: ir.Mul, X: r, Y: ir.I32(by)}
				}
				return e
			})
		}
	}
}

// lanesOf are the numbers of lanes of loops over axes whose names begin so.
func lanesOf(loops []nest.Loop, prefix string) (lanes []int) {
	for _, l := range loops {
		if l.Kind == nest.Lane && strings.HasPrefix(l.Root, prefix) {
			lanes = append(lanes, l.N)
		}
	}
	return lanes
}

// join puts a preparation in front of a product. The parameter xStep moves the floats from column to column.
func (x Quantize) join(n *nest.Nest, p *PreparationKernel) {
	n.Body = slices.Concat(p.Nest.Body, n.Body)
	n.Loops = slices.Concat(p.Nest.Loops, n.Loops)
	buffers := maps.Clone(p.Nest.Buffers)
	maps.Copy(buffers, n.Buffers)
	n.Buffers, n.Local = buffers, map[string]int{}
	room := x.Room
	for _, div := range p.CountDiv {
		room = max(room, (x.Room+div-1)/div*div)
	}
	for _, st := range p.Graph.Stages {
		groups := 1
		if g := st.Out.Block; g > 0 {
			groups = room / g
		}
		if n.Local[st.Out.Name] = 4 * groups; st.Out.Name == "act" {
			n.Local[st.Out.Name] = room
		}
	}
	local := func(name string) bool { return n.Local[name] > 0 }
	n.Params = slices.DeleteFunc(slices.Clone(n.Params), local)
	n.Params = append(n.Params, "x", xStep)
	for _, name := range p.Nest.Counts {
		n.Params = append(n.Params, nest.CountParam(nest.Loop{Name: name}))
	}
	n.Params = append(n.Params, slices.Sorted(maps.Keys(n.Local))...)
	n.Counts = slices.Concat(n.Counts, p.Nest.Counts)
	columns := &n.Grid[1]
	columns.Moves = slices.DeleteFunc(columns.Moves, func(m nest.Move) bool { return local(m.Param) })
	columns.Moves = append(columns.Moves, nest.Move{Param: "x", By: xStep})
	maps.DeleteFunc(n.Aligned, func(name string, _ int) bool { return local(name) || name == actStep })
	n.Aligned["x"], n.Aligned[xStep] = 64, 64
}

var xStep = nest.StepParam("x")
