package ir

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Dim is an axis of a stage: N iterations, or, if N is 0, ceil(size/Div)
// iterations where size is the run-time size named Run ("M", "N" or "K").
type Dim struct {
	Name string
	N    int
	Run  string
	Div  int
}

// Extent is the number of iterations for the given sizes.
func (d Dim) Extent(sizes map[string]int) int {
	if d.N > 0 {
		return d.N
	}
	return (sizes[d.Run] + d.Div - 1) / d.Div
}

func (d Dim) String() string {
	switch {
	case d.N > 0:
		return fmt.Sprintf("%s:%d", d.Name, d.N)
	case d.Div > 1:
		return fmt.Sprintf("%s:%s/%d", d.Name, d.Run, d.Div)
	}
	return fmt.Sprintf("%s:%s", d.Name, d.Run)
}

// Stage computes Out[Axes] = Combine over Reduce of Body, starting from Init
// (nil: zero). With no Reduce, Out[Axes] = Body. If Axes are more than the
// dimensions of Out, the last ones together count its last dimension.
type Stage struct {
	Out     *Tensor
	Axes    []Dim
	Reduce  []Dim
	Combine Op // Add or MaxS; in ascending order of the Reduce axes
	Init    Expr
	Body    Expr
}

func (s Stage) String() string {
	var dims []string
	for _, d := range s.Axes {
		dims = append(dims, d.String())
	}
	out := fmt.Sprintf("%s[%s] %s =", s.Out.Name, strings.Join(dims, " "), s.Out.Elem)
	if len(s.Reduce) == 0 {
		return out + " " + shared(s.Body)
	}
	if s.Init != nil {
		out += " " + s.Init.String() + " +"
	}
	name := map[Op]string{Add: "sum", MaxS: "max"}[s.Combine]
	for _, d := range s.Reduce {
		out += " " + name + " " + d.String()
	}
	return out + " of " + shared(s.Body)
}

// longEnough is the number of operations from which a part of an expression that is used twice is printed once.
const longEnough = 3

// shared is the text of e, in which parts that occur twice have names.
func shared(e Expr) string {
	values, e := Share(e, longEnough)
	text := e.String()
	for _, v := range values {
		text += fmt.Sprintf("\n  where %s = %s", v.Name, v.Value)
	}
	for _, v := range values {
		text = strings.ReplaceAll(text, v.Name+"[]", v.Name)
	}
	return text
}

// Graph is a list of stages in order of evaluation.
type Graph struct {
	Inputs []*Tensor
	Stages []Stage
}

// Stage returns the stage that computes the tensor called name, or nil.
func (g *Graph) Stage(name string) *Stage {
	for i := range g.Stages {
		if g.Stages[i].Out.Name == name {
			return &g.Stages[i]
		}
	}
	return nil
}

// Clone returns a copy whose stages may be edited.
func (g *Graph) Clone() *Graph {
	return &Graph{Inputs: g.Inputs, Stages: append([]Stage(nil), g.Stages...)}
}

func (g *Graph) String() string {
	var b strings.Builder
	for _, t := range g.Inputs {
		fmt.Fprintf(&b, "input %s[%s] %s\n", t.Name, t.dims(), t.Elem)
	}
	for _, s := range g.Stages {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// dims are the dimensions of t, the last one with what shares an element: k/32
// for 32 values of k, k/K for all.
func (t *Tensor) dims() string {
	s := strings.Join(t.Dims, " ")
	switch {
	case t.Block > 0:
		s += fmt.Sprintf("/%d", t.Block)
	case t.Block < 0:
		s += "/" + strings.ToUpper(t.Dims[len(t.Dims)-1])
	}
	return s
}

// Array is a dense tensor value: integers as they are, f16 and f32 as bits.
type Array struct {
	Shape []int
	V     []int64
}

// NewArray returns a zero array.
func NewArray(shape ...int) *Array {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return &Array{shape, make([]int64, n)}
}

// At is the element at index; outside the array it is 0 (padding).
func (a *Array) At(index ...int) int64 {
	if len(index) != len(a.Shape) {
		panic(fmt.Sprintf("BUG: ir: index %v of an array of %d dimensions", index, len(a.Shape)))
	}
	p := 0
	for i, x := range index {
		if x < 0 || x >= a.Shape[i] {
			return 0
		}
		p = p*a.Shape[i] + x
	}
	return a.V[p]
}

// Eval computes every stage of g for the given run-time sizes and inputs and
// returns all tensors by name.
func Eval(g *Graph, sizes map[string]int, in map[string]*Array) (map[string]*Array, error) {
	ev := &evaluator{axes: map[string]int{}, data: map[string]*Array{}}
	for _, t := range g.Inputs {
		a := in[t.Name]
		if a == nil {
			return nil, fmt.Errorf("ir: no input %q", t.Name)
		}
		if len(a.Shape) != len(t.Dims) {
			return nil, fmt.Errorf("ir: input %q has %d dimensions; want %d", t.Name, len(a.Shape), len(t.Dims))
		}
		ev.data[t.Name] = a
	}
	for i := range g.Stages {
		if err := ev.stage(&g.Stages[i], sizes); err != nil {
			return nil, fmt.Errorf("stage %s: %w", g.Stages[i].Out.Name, err)
		}
	}
	return ev.data, nil
}

type evaluator struct {
	axes map[string]int
	data map[string]*Array
}

func (ev *evaluator) Axis(name string) int { return ev.axes[name] }

func (ev *evaluator) Load(t *Tensor, index []int) (int64, error) {
	a := ev.data[t.Name]
	if a == nil {
		return 0, fmt.Errorf("read of %s before it is computed", t.Name)
	}
	return a.At(BlockIndex(t, index)...), nil
}

// BlockIndex maps the last component of index to the element that t stores for it.
func BlockIndex(t *Tensor, index []int) []int {
	switch last := len(index) - 1; {
	case t.Block > 0:
		index[last] /= t.Block
	case t.Block < 0:
		index[last] = 0
	}
	return index
}

func (ev *evaluator) stage(s *Stage, sizes map[string]int) error {
	shape := make([]int, len(s.Axes))
	for i, d := range s.Axes {
		shape[i] = d.Extent(sizes)
	}
	out := NewArray(shape...)
	for p := range out.V {
		rest := p
		for i := len(shape) - 1; i >= 0; i-- {
			ev.axes[s.Axes[i].Name] = rest % shape[i]
			rest /= shape[i]
		}
		v, err := ev.element(s, sizes)
		if err != nil {
			return err
		}
		out.V[p] = v
	}
	ev.data[s.Out.Name] = out.merge(len(s.Out.Dims))
	return nil
}

// merge makes one of the last axes of an array that has more than dims, as a
// tensor computed by groups is read: [n, g, k] becomes [n, g*len(k)+k].
func (a *Array) merge(dims int) *Array {
	if dims < 1 || len(a.Shape) < dims {
		panic(fmt.Sprintf("BUG: ir: %d axes for %d dimensions", len(a.Shape), dims))
	}
	shape := append([]int(nil), a.Shape[:dims]...)
	for _, n := range a.Shape[dims:] {
		shape[dims-1] *= n
	}
	return &Array{shape, a.V}
}

func (ev *evaluator) element(s *Stage, sizes map[string]int) (int64, error) {
	if len(s.Reduce) == 0 {
		return EvalExpr(s.Body, ev)
	}
	acc := int64(0)
	if s.Init != nil {
		var err error
		if acc, err = EvalExpr(s.Init, ev); err != nil {
			return 0, err
		}
	}
	err := ev.reduce(s, 0, sizes, &acc)
	return acc, err
}

func (ev *evaluator) reduce(s *Stage, i int, sizes map[string]int, acc *int64) error {
	if i == len(s.Reduce) {
		v, err := EvalExpr(s.Body, ev)
		if err != nil {
			return err
		}
		*acc = Combine(s.Combine, s.Out.Elem, *acc, v)
		return nil
	}
	for x := range s.Reduce[i].Extent(sizes) {
		ev.axes[s.Reduce[i].Name] = x
		if err := ev.reduce(s, i+1, sizes, acc); err != nil {
			return err
		}
	}
	return nil
}

// Combine is one step of a reduction in type t.
func Combine(op Op, t format.DType, acc, v int64) int64 {
	if t == format.F32 {
		return evalFloat(op, f32(acc), f32(v))
	}
	return Wrap(t, evalInt(op, acc, v))
}
