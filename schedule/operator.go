package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
)

// Operator is what steps rewrite when a float operator is scheduled: the decisions made so far. It has a stage for
// each one of its graph that no step has inlined.
type Operator struct {
	nests
	Of      operator.Operator
	streams map[string]nest.Streams // prefetch distances of inputs
	batch   Batch                   // calls that are made at once
	to      *Prepared               // of a preparation: where its results lie
}

// NewOperator is the state of an operator before any step: one loop nest for each stage.
func NewOperator(o operator.Operator) *Operator {
	s := &Operator{nests: nests{Graph: o.Graph}, Of: o, streams: map[string]nest.Streams{}}
	for _, gs := range o.Graph.Stages {
		var index []ir.Expr
		for _, d := range gs.Axes {
			index = append(index, ir.Axis{Name: d.Name})
		}
		s.stages = append(s.stages, newStage(gs, gs.Axes, index, gs.Body))
	}
	return s
}

// clone copies s deeply enough for a step to edit.
func (s *Operator) clone() *Operator {
	c := *s
	c.nests, c.streams = s.nests.clone(), maps.Clone(s.streams)
	return &c
}

// edited is a copy of s with x applied.
func (s *Operator) edited(x loopEdit) (*Operator, error) {
	c := s.clone()
	if err := x.edit(&c.nests, 1); err != nil {
		return nil, err
	}
	return c, nil
}

// OperatorKernel is a scheduled operator: all of its stages, one after the other.
type OperatorKernel struct {
	Of     operator.Operator
	Trace  Trace
	Nest   *nest.Nest
	Params []OperatorParam // in the order of Nest.Params: tensors, then steps, then counts; of workgroups also calls, and then scratch
}

// Role is what a parameter of an operator is.
type Role uint8

// The roles of parameters. Tensors and lists are pointers, the others integers.
const (
	InputTensor   Role = iota // a tensor that is read
	OutputTensor              // a tensor that callers want
	ScratchTensor             // a tensor between two stages: its contents mean nothing before and after the call
	RowStep                   // how many bytes the rows of a tensor are apart
	TripCount                 // of a run-time loop
	CallCount                 // how many calls there are along an axis
	CallStep                  // how many bytes a tensor moves from one call to the next along an axis
	CallList                  // a pointer to how many bytes, u32, a tensor moves to each call along an axis
	ConstantStep              // a number of bytes that is always the same
)

// OperatorParam is a parameter of an operator.
type OperatorParam struct {
	Name string
	Role Role
	// Of a tensor:
	Elem   format.DType
	Dims   []Room // of each index: the elements that the kernel may touch
	Stride int    // elements from one value of the last index to the next
	// Of a step, the tensor whose rows are that far apart. A tensor that is not named by any step is dense.
	Tensor string
	// Of a count: it is ceil(Size / Div), where Size names a run-time size.
	Size string
	Div  int
	// Of calls, the number of their axis. Of a step that is always the same, its bytes.
	Axis, Value int
}

// Room is how many elements of one index a kernel may touch: N, or if N is 0 the run-time size Size, rounded up to a
// multiple of each of Pads. Inputs must be zero behind the size, and bytes written there mean nothing.
type Room struct {
	N    int
	Size string
	Pads []int
}

// CompileOperator replays t on an operator and builds its loops.
func CompileOperator(o operator.Operator, t Trace) (*OperatorKernel, error) {
	s, err := t.ReplayOperator(NewOperator(o))
	if err != nil {
		return nil, err
	}
	k, err := s.Kernel()
	if err != nil {
		return nil, err
	}
	k.Trace = t
	return k, nil
}

// Kernel builds the loops of s, and checks that nothing is left open.
func (s *Operator) Kernel() (*OperatorKernel, error) {
	k := &OperatorKernel{Of: s.Of, Nest: &nest.Nest{Name: s.Of.Name, Loops: slices.Clone(s.Loops()), Buffers: map[string]nest.Buffer{}}}
	for _, st := range s.stages {
		if err := k.add(st); err != nil {
			return nil, fmt.Errorf("stage %s: %w", st.name, err)
		}
	}
	for _, t := range s.tensors() {
		if err := s.addTensor(k, t); err != nil {
			return nil, err
		}
	}
	for _, name := range s.Of.Rows {
		k.Params = append(k.Params, OperatorParam{Name: nest.StepParam(name), Role: RowStep, Tensor: name})
	}
	for _, st := range s.stages {
		k.addCounts(st)
	}
	if err := s.grid(k); err != nil {
		return nil, err
	}
	for _, p := range k.Params {
		k.Nest.Params = append(k.Nest.Params, p.Name)
	}
	return k, nil
}

// addCounts gives k a parameter for each run-time loop of st.
func (k *OperatorKernel) addCounts(st *stage) {
	for _, l := range st.loops {
		if d := st.dims[l.Root]; l.N == 0 && l.Kind != nest.Group {
			k.Nest.Counts = append(k.Nest.Counts, l.Name)
			k.Params = append(k.Params, OperatorParam{Name: nest.CountParam(l), Role: TripCount, Size: d.Run, Div: d.Div * l.Coef})
		}
	}
}

// Divides says that run-time loops count whole steps of sizes: nothing is padded.
func (s *Operator) Divides(sizes map[string]int) bool {
	return !slices.ContainsFunc(s.stages, func(st *stage) bool {
		return slices.ContainsFunc(st.loops, func(l nest.Loop) bool {
			d := st.dims[l.Root]
			return l.N == 0 && sizes[d.Run]%(d.Div*l.Coef) != 0
		})
	})
}

// Dim is the extent of an axis, without a name.
func (s *Operator) Dim(root string) (d ir.Dim) {
	for _, st := range s.stages {
		if x, ok := st.dims[root]; ok {
			d = x
		}
	}
	d.Name = ""
	return d
}

// Fills is that of Preparation: operators have no chunks.
func (s *Operator) Fills(nest.Loop) int { return 0 }

// add appends the loops of one stage.
func (k *OperatorKernel) add(st *stage) error {
	for _, l := range st.loops {
		if l.Kind == nest.Outer || l.Kind == nest.Pair {
			return &Unfinished{"loop " + l.Name, "must be serial, unrolled, a vector, lanes or groups: an operator is one call, with sums of one type"}
		}
		if l.Kind == nest.Group && l.N > 0 {
			return &Unfinished{"loop " + l.Name, "has a known number of iterations: groups count at run time"}
		}
		if div := st.dims[l.Root].Div * l.Coef; l.N == 0 && div > maxPad {
			return &Unfinished{"loop " + l.Name, "pads rows to a multiple of more than 1048576"}
		}
	}
	if len(st.reduce) > 0 && st.lowest().Temp.Elem == format.F32 {
		if err := st.ascending(); err != nil {
			return err
		}
	}
	plan, err := st.plan()
	if err != nil {
		return err
	}
	body, err := nest.Build(plan)
	k.Nest.Body = append(k.Nest.Body, body...)
	return err
}

// ascending: a sum of floats runs over its elements in ascending order.
func (st *stage) ascending() error {
	last := map[string]int{} // the steps of the loops around, by axis
	for _, l := range st.loops {
		switch coef, around := last[l.Root]; {
		case !st.reduce[l.Root] || l.N == 1:
			continue
		case l.Kind != nest.Serial && l.Kind != nest.Unrolled:
			return &Unfinished{"loop " + l.Name, "floats are summed in order, not in lanes"}
		case around && l.Coef > coef:
			return &Unfinished{"loop " + l.Name, "floats are summed in ascending order: move it outside the loops of shorter steps"}
		}
		last[l.Root] = l.Coef
	}
	return nil
}

// tensors lists the inputs, then what the stages make.
func (s *nests) tensors() []*ir.Tensor {
	out := slices.Clone(s.Graph.Inputs)
	for _, st := range s.stages {
		out = append(out, st.out)
	}
	return out
}

// addTensor gives k the parameter of t, and the buffer that says where its elements are.
func (s *Operator) addTensor(k *OperatorKernel, t *ir.Tensor) error {
	p := OperatorParam{Name: t.Name, Elem: t.Elem, Role: s.role(t), Stride: max(s.Of.Stride[t.Name], 1)}
	var err error
	if p.Dims, err = s.room(t); err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	memory := nest.Memory{Tensor: t, Param: t.Name, Streams: s.streams[t.Name]}
	k.Params = append(k.Params, p)
	if slices.Contains(s.Of.Rows, t.Name) {
		if len(t.Dims) != 2 {
			return fmt.Errorf("tensor %s: rows have two indices, this one has %d", t.Name, len(t.Dims))
		}
		k.Nest.Buffers[t.Name] = &nest.Rows{Memory: memory, Stride: p.Stride * t.Elem.Bytes(), Step: nest.StepParam(t.Name)}
		return nil
	}
	strides := make([]int, len(p.Dims))
	stride := p.Stride * t.Elem.Bytes()
	for i := len(p.Dims) - 1; i >= 0; i-- {
		many := func(r Room) bool { return r.N != 1 }
		if strides[i] = stride; p.Dims[i].N == 0 && slices.ContainsFunc(p.Dims[:i], many) {
			return fmt.Errorf("tensor %s: its rows have a run-time number of elements, so it must be among Rows", t.Name)
		}
		stride *= p.Dims[i].N
	}
	if k.Nest.Buffers[t.Name] = s.placed(t, memory); k.Nest.Buffers[t.Name] == nil {
		k.Nest.Buffers[t.Name] = &nest.Array{Memory: memory, Strides: strides}
	}
	return nil
}

func (s *Operator) role(t *ir.Tensor) Role {
	switch {
	case slices.Contains(s.Graph.Inputs, t):
		return InputTensor
	case slices.Contains(s.Of.Outputs, t.Name):
		return OutputTensor
	}
	return ScratchTensor
}

// room is what the stages touch of t.
func (s *Operator) room(t *ir.Tensor) ([]Room, error) {
	out := make([]Room, len(t.Dims))
	for _, st := range s.stages {
		for _, index := range st.accesses(t) {
			for i, e := range index {
				if err := st.touch(&out[i], e); err != nil {
					return nil, err
				}
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].Pads)
		out[i].Pads = slices.Compact(out[i].Pads)
	}
	return out, nil
}

// accesses are the indices at which st writes and reads t.
func (st *stage) accesses(t *ir.Tensor) (out [][]ir.Expr) {
	if st.out == t {
		out = append(out, st.index)
	}
	for _, e := range []ir.Expr{st.body, st.final} {
		if e == nil {
			continue
		}
		ir.Walk(e, func(x ir.Expr) {
			if r, ok := x.(ir.Read); ok && r.T == t {
				out = append(out, r.Index)
			}
		})
	}
	return out
}

// touch makes room for all values of the index e: a sum of multiples of axes, at most one of them counted at run
// time. That one goes in steps of all that the others reach.
func (st *stage) touch(room *Room, e ir.Expr) error {
	at := axes{}
	first, err := ir.EvalExpr(e, at)
	if err != nil {
		return err
	}
	reach, run := int(first)+1, ""
	for name, d := range st.dims {
		at[name] = 1
		moved, err := ir.EvalExpr(e, at)
		delete(at, name)
		switch by := int(moved - first); {
		case err != nil:
			return err
		case by == 0:
		case d.N > 0:
			reach += by * (d.N - 1)
		case run != "" || by != d.Div:
			return fmt.Errorf("index %v of loop %s does not go in steps of %d", e, name, d.Div)
		default:
			run = name
		}
	}
	if run == "" {
		room.N = max(room.N, reach)
		return nil
	}
	d := st.dims[run]
	if reach > d.Div {
		return fmt.Errorf("index %v reaches further than the %d elements of a step of %s", e, d.Div, run)
	}
	room.Size = d.Run
	for _, l := range st.loops {
		if l.Root == run && l.N == 0 {
			room.Pads = append(room.Pads, d.Div*l.Coef)
		}
	}
	return nil
}

// axes are values of axes; others are 0.
type axes map[string]int

// Axis implements ir.Env.
func (a axes) Axis(name string) int { return a[name] }

// Load implements ir.Env.
func (a axes) Load(t *ir.Tensor, _ []int) (int64, error) {
	return 0, fmt.Errorf("an index reads %s", t.Name)
}
