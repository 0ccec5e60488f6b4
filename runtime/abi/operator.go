package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// Operator is a float operator as a compute shader. A dispatch makes calls of the operator, each on workgroups of its own: a
// call is what a function of package runtime/ops does at once. The calls are numbered along Axes axes, the rows of a batch and the heads of
// a row, say. They run at the same time, so no call may write what another one reads or writes.
type Operator struct {
	Name    string
	Code    []byte           // a module of SPIR-V, little-endian; it needs subgroups of no size
	Lanes   int              // of a workgroup
	Tensors []OperatorTensor // the storage buffers of set 0, by binding
	Push    []OperatorWord   // the push constants, words in this order
	Grid    []OperatorCount  // workgroups along x, y and z; 1 along others
	Axes    int              // of calls
	// Sizes are the run-time sizes that callers give, K say, and what each may be.
	Sizes []OperatorSize
}

// OperatorTensor is a tensor of an operator, in a buffer. Addresses, which are offsets and steps in bytes, are multiples of Align. Inputs
// are read only.
type OperatorTensor struct {
	Name    string
	Elem    format.DType
	Align   int
	Written bool
	Rows    bool // its rows lie a number of bytes apart that callers give
}

// OperatorSize is a run-time size. It is at least 1, and a multiple of Whole.
type OperatorSize struct {
	Name  string
	Whole int
}

// OperatorCount is a number of workgroups, or of iterations: the number of calls along Axis, or if Size is set, ceil(Size / Div).
type OperatorCount struct {
	Size string
	Div  int
	Axis int
}

// WordKind says what a push constant is.
type WordKind uint8

// The kinds of push constants. Of a Tensor: how many bytes its first element is behind the beginning of the bound range, how many bytes
// apart its rows are, or how far it moves from one call to the next along Axis. Others are a Count, or a Value that never changes.
const (
	OffsetWord WordKind = iota
	RowWord
	CallWord
	CountWord
	ValueWord
)

// OperatorWord is a push constant.
type OperatorWord struct {
	Kind   WordKind
	Tensor int // its number in Operator.Tensors
	Axis   int
	Count  OperatorCount
	Value  uint32
}

// OperatorCall is what a dispatch of an operator computes.
type OperatorCall struct {
	Sizes   map[string]int
	Calls   []int           // along each axis; those that are left out are 1
	Tensors []OperatorPlace // in the order of Operator.Tensors
}

// OperatorPlace is where a tensor is, in bytes: Offset behind the beginning of the bound range. Its rows are Row bytes apart. From one call
// to the next along an axis it moves by Steps; those that are left out are 0: calls share the tensor.
type OperatorPlace struct {
	Offset, Row int
	Steps       []int
}

// Words are the push constants of a dispatch, and its workgroups along x, y and z.
func (o *Operator) Words(c *OperatorCall) (push []byte, groups [3]int, err error) {
	if err := o.check(c); err != nil {
		return nil, groups, fmt.Errorf("operator %s: %w", o.Name, err)
	}
	for i := range groups {
		groups[i] = 1
		if i < len(o.Grid) {
			groups[i] = o.count(c, o.Grid[i])
		}
	}
	for _, w := range o.Push {
		n := int(w.Value)
		switch w.Kind {
		case OffsetWord:
			n = c.Tensors[w.Tensor].Offset
		case RowWord:
			n = c.Tensors[w.Tensor].Row
		case CallWord:
			n = at(c.Tensors[w.Tensor].Steps, w.Axis, 0)
		case CountWord:
			n = o.count(c, w.Count)
		}
		if n < 0 || uint64(n) > math.MaxUint32 {
			return nil, groups, fmt.Errorf("operator %s: push constant %d is %d, which does not fit 32 bits", o.Name, len(push)/4, n)
		}
		push = binary.LittleEndian.AppendUint32(push, uint32(n))
	}
	return push, groups, nil
}

// Tensor is the number of a tensor, -1 if o has none of that name.
func (o *Operator) Tensor(name string) int {
	for i, t := range o.Tensors {
		if t.Name == name {
			return i
		}
	}
	return -1
}

// Fits says why sizes are none that o computes.
func (o *Operator) Fits(sizes map[string]int) error {
	for _, s := range o.Sizes {
		if n := sizes[s.Name]; n < 1 || n%s.Whole != 0 {
			return fmt.Errorf("size %s is %d: want a multiple of %d", s.Name, n, s.Whole)
		}
	}
	return nil
}

func (o *Operator) check(c *OperatorCall) error {
	if err := o.Fits(c.Sizes); err != nil {
		return err
	}
	if len(c.Tensors) != len(o.Tensors) || len(c.Calls) > o.Axes {
		return fmt.Errorf("%d tensors and %d axes of calls: want %d, and at most %d", len(c.Tensors), len(c.Calls), len(o.Tensors), o.Axes)
	}
	for i, t := range o.Tensors {
		p := c.Tensors[i]
		if len(p.Steps) > o.Axes {
			return fmt.Errorf("tensor %s has %d steps: at most %d", t.Name, len(p.Steps), o.Axes)
		}
		bits := p.Offset
		if t.Rows {
			bits |= p.Row
		}
		for _, s := range p.Steps {
			bits |= s
		}
		if bits < 0 || bits%t.Align != 0 {
			return fmt.Errorf("tensor %s: offset %d, rows %d and steps %v: want multiples of %d from 0 on", t.Name, p.Offset, p.Row, p.Steps, t.Align)
		}
	}
	for _, n := range c.Calls {
		if n < 1 {
			return errors.New("has no calls along an axis: want at least one")
		}
	}
	return nil
}

func (o *Operator) count(c *OperatorCall, of OperatorCount) int {
	if of.Size == "" {
		return at(c.Calls, of.Axis, 1)
	}
	return (c.Sizes[of.Size] + of.Div - 1) / of.Div
}

// at is number i of x, otherwise if there are fewer.
func at(x []int, i, otherwise int) int {
	if i < len(x) {
		return x[i]
	}
	return otherwise
}
