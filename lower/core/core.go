// Package core describes processor cores: what instructions cost there, how they run side by side, and what bringing lines of memory takes. The
// compiler's passes read none of it: rows take their costs from a core, and the model that schedules are chosen by reads it.
package core

import (
	"strings"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// Core is a processor core. The built-in ones have a file each, in the folder of their architecture.
type Core struct {
	Name  string    // a word of small letters, digits and dashes
	ISAs  []string  // the instruction sets that kernels are tuned for it with: "amd64/avx2"
	CPUs  []cpu.Set // the CPUs that have the core; none: all CPUs that no other core names
	Own   bool      // described by a user's file; programs prefer it to the built-in cores of the same CPUs
	Costs Costs

	Pipeline  Pipeline
	Hierarchy Hierarchy
}

// Class is a kind of instructions that take equally long. Each architecture has its own classes.
type Class string

// Costs has the cost of each class of an architecture.
type Costs map[Class]Cost

// Cost is what an instruction of a class takes, in tenths of a cycle.
type Cost struct {
	Tenths int   // reciprocal throughput
	Busy   []int // how long each set of execution units is busy, as lower.Row.Busy; nil: the first set, for Tenths
	// The same for instructions of more than 256 bits. If Wide is 0, they take what narrower ones take.
	Wide     int
	WideBusy []int

	Latency   int    // cycles from its operands to its result; of a load from the first-level cache
	Ports     string // what each of its micro-operations runs on, as Micros reads it
	WidePorts string // the same of more than 256 bits; "": Ports
}

// At returns the reciprocal throughput of an instruction on registers of that many bits, and how long it keeps each
// set of execution units busy.
func (c Cost) At(bits int) (tenths int, busy []int) {
	if bits > 256 && c.Wide > 0 {
		return c.Wide, c.WideBusy
	}
	return c.Tenths, c.Busy
}

// Micros are the micro-operations of an instruction on registers of that many bits, nil if its ports are not known.
func (c Cost) Micros(bits int) []Micro {
	text := c.Ports
	if bits > 256 && c.WidePorts != "" {
		text = c.WidePorts
	}
	micros, err := Micros(text)
	if err != nil {
		return nil
	}
	return micros
}

// IsFile says that a word for a core is the path of a file with one, not a name.
func IsFile(word string) bool {
	return strings.HasSuffix(word, ".json") || strings.ContainsAny(word, `/\`)
}
