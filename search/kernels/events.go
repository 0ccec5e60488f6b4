package kernels

import (
	"fmt"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
)

// Event is what a provider reports: Compiling, Verifying, Done, Linking, PureGo, OnCPU, NotUsed, NotKept or Damaged. Its text is one line for a person.
type Event interface {
	fmt.Stringer
	event()
}

// Compiling begins to compile the kernels of a product, which may take seconds.
type Compiling struct {
	Problem ir.Problem
	Target  lower.Selector
	Step
}

// Step counts the products that Expect has named.
type Step struct {
	Number int // from 1, 0: another product
	Of     int
}

// String is "", or " (1 of 3)".
func (s Step) String() string {
	if s.Number == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d)", s.Number, s.Of)
}

// Verifying begins to compare them with the definition.
type Verifying struct {
	Problem ir.Problem
	Target  lower.Selector
	Step
}

// Done ends what takes long.
type Done struct{}

// PureGo says that this and perhaps other products are in pure Go, and why. It comes once.
type PureGo struct {
	Problem ir.Problem
	Why     error
}

// OnCPU says that a product does not run on the device, and why.
type OnCPU struct {
	Problem ir.Problem
	Why     error
}

// NotUsed says that a product does without its shader of some columns, which does on the device what no shader may do. Others take its place.
type NotUsed struct {
	Problem ir.Problem
	Columns int
	Why     error
}

// NotKept says that kernels are made again by every process, and why.
type NotKept struct{ Why error }

// Damaged says that something was damaged in the folder, and is made again.
type Damaged struct{ What, Folder string }

// Linking begins to build a program with the kernels of products.
type Linking struct{ Products int }

func (e Compiling) String() string {
	return fmt.Sprintf("compiling kernels of %s for %s%v", e.Problem.Name(), e.Target.Machine().Name, e.Step)
}

func (e Verifying) String() string {
	return fmt.Sprintf("checking kernels of %s on %s against the definition%v", e.Problem.Name(), e.Target.Machine().Name, e.Step)
}

func (e Done) String() string { return "" }

func (e PureGo) String() string {
	return fmt.Sprintf("%s runs in pure Go, about %d times slower: %s", e.Problem.Name(), slower, message.Line(e.Why))
}

// slower is about how many times longer a product takes in pure Go than by kernels. Figures: docs/lab/choices.md, slower.
const slower = 200

func (e OnCPU) String() string {
	return fmt.Sprintf("%s runs on this CPU: %s", e.Problem.Name(), message.Line(e.Why))
}

func (e NotUsed) String() string {
	return fmt.Sprintf("%s does without its shader of %s, and others take its place: %s", e.Problem.Name(), message.Count(e.Columns, "column"), message.Line(e.Why))
}

func (e NotKept) String() string {
	return "kernels are not kept, and are compiled again at each start: " + message.Line(message.Plain(e.Why))
}

func (e Damaged) String() string {
	return fmt.Sprintf("%s in %s: damaged, and made again", e.What, e.Folder)
}

func (e Linking) String() string {
	return "building a program with the kernels of " + message.Count(e.Products, "product")
}

func (Compiling) event() {}
func (Verifying) event() {}
func (Done) event()      {}
func (Linking) event()   {}
func (PureGo) event()    {}
func (OnCPU) event()     {}
func (NotUsed) event()   {}
func (NotKept) event()   {}
func (Damaged) event()   {}
