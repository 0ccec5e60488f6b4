// Package search has what the packages that choose schedules share with the packages that compile, measure and keep them: schedules for
// numbers of columns, why a schedule has no kernel, and what kind of schedule one is. The packages below it choose: search/space lists schedules,
// search/cost predicts how long they take, search/beam takes the best by that, and search/tune measures.
package search

import (
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
)

// Use is a schedule for a number of columns.
type Use struct {
	Cols  int
	Trace schedule.Trace
	// Kernel is the kernel of the trace, not printed, if it was compiled when the trace was chosen; nil: it was not.
	Kernel *variant.Kernel
	// Prepare is the schedule that prepares activations for all schedules that this one was chosen with, nil: not chosen yet.
	Prepare schedule.Trace
	// Most is for what products the schedule is worth it, if it ends with the step quantize, as abi.Fused has it; nil: for all.
	Most []abi.FusedRows
}

// Family names what kind of schedule t is: what it decomposes weights to, and the
// entries of its tables.
func Family(t schedule.Trace) string {
	name := ""
	for _, s := range t {
		switch s := s.(type) {
		case schedule.Decompose:
			name += s.Family + " " + s.Value
		case schedule.QuantizeTable:
			name += " " + s.Kind
		}
	}
	return name
}
