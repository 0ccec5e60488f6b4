package delivery

import (
	"fmt"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
)

// Event is what a package reports while it is made: Compiling, Checking, Probing, Measuring, Running or Note. Its text
// is one line for a person. All but a Note say what begins now and may take seconds.
type Event interface {
	fmt.Stringer
	event()
}

// Compiling begins to compile a product for a target.
type Compiling struct {
	Problem ir.Problem
	Target  lower.Selector
	Number  int // from 1
	Of      int // products times targets
}

// Checking begins to compare the kernels of a product for a target with the definition.
type Checking struct {
	Problem ir.Problem
	Target  lower.Selector
}

// Probing begins to measure what this machine can do.
type Probing struct{}

// Measuring begins to measure a product on a target.
type Measuring struct {
	Problem ir.Problem
	Target  lower.Target
	N       int // the most activations per call
}

// Running begins a call of the go command.
type Running struct {
	Command string // "build", "vet" or "test"
	Dir     string // of the package
}

// Note tells about something that does not end the work.
type Note string

func (e Compiling) String() string {
	return fmt.Sprintf("compiling %s for %s (%d of %d)", e.Problem.Name(), e.Target.Machine().Name, e.Number, e.Of)
}

func (e Checking) String() string {
	return fmt.Sprintf("checking %s on %s against the definition", e.Problem.Weight, e.Target.Machine().Name)
}

func (e Probing) String() string { return "measuring what this machine can do" }

func (e Measuring) String() string {
	return fmt.Sprintf("measuring %s on %s, %s", e.Problem.Name(), e.Target.Machine().Name, message.Count(e.N, "activation"))
}

func (e Running) String() string { return fmt.Sprintf("go %s of the package in %s", e.Command, e.Dir) }
func (e Note) String() string    { return string(e) }

func (Compiling) event() {}
func (Checking) event()  {}
func (Probing) event()   {}
func (Measuring) event() {}
func (Running) event()   {}
func (Note) event()      {}

// say reports an event.
func (x *Package) say(e Event) {
	if x.Events != nil {
		x.Events(e)
	}
}
