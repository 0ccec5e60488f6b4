package schedule

import (
	"github.com/tmacc/tmacc/ir/nest"
)

// State is what a trace has made so far: a *Product, a *Preparation or an *Operator.
type State interface {
	// After returns the state after x, or the error that says why x does not apply.
	After(x Step) (State, error)
	// Loops lists the loops, outermost first.
	Loops() []nest.Loop
}

// Proposer is a step that lists its own values.
type Proposer interface {
	Step
	// Propose lists steps of the kind of x that are worth a try on s, a sensible one first. They have the fields of x that are not
	// zero. It leaves out what cannot apply where that is easily seen; After has the last word.
	Propose(s State, m Machine) []Step
}

// Machine is what proposals ask of a machine.
type Machine struct {
	Bits     int  // of a vector register
	Vectors  int  // vector registers
	Narrow   int  // products of bytes that one instruction adds to a sum of 16 bits: 2 or 1
	Dot4     bool // an instruction adds four products of bytes
	Unsigned bool // such an instruction takes weights without a sign
	Entries  int  // bytes that an instruction looks up one of, at most
	Gathers  bool // an instruction gathers lanes from two registers
	Octets   bool // an instruction multiplies two rows by two columns, eight elements of K of each
	Group    int  // lanes of a workgroup, at most; 0: there are no workgroups
}

// Lanes is how many lanes of some bits fill a vector.
func (m Machine) Lanes(bits int) int { return m.Bits / bits }

// After implements State.
func (s *Product) After(x Step) (State, error) {
	out, err := x.Apply(s)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// After implements State.
func (s *Preparation) After(x Step) (State, error) {
	y, ok := x.(PreparationStep)
	if !ok {
		return nil, forProducts(x)
	}
	out, err := y.ApplyPreparation(s)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// After implements State.
func (s *Operator) After(x Step) (State, error) {
	y, ok := x.(OperatorStep)
	if !ok {
		return nil, illegal(x, "in an operator", "is for products and preparations")
	}
	out, err := y.ApplyOperator(s)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Proposers lists a step of each kind that proposes its values, in the order of their names.
func Proposers() (out []Proposer) {
	for _, name := range StepNames() {
		if x, ok := steps[name].(Proposer); ok {
			out = append(out, x)
		}
	}
	return out
}

// loopCalled is the loop called name, of no iterations if there is none.
func loopCalled(s State, name string) nest.Loop {
	for _, l := range s.Loops() {
		if l.Name == name {
			return l
		}
	}
	return nest.Loop{N: -1}
}

// isLane says that the iterations of l run at once.
func isLane(l nest.Loop) bool {
	return l.Kind == nest.Vector || l.Kind == nest.Dot || l.Kind == nest.Pair || l.Kind == nest.Tile
}
