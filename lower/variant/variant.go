// Package variant holds a compiled product: its kernels for one target and the
// kernel that prepares their activations. The compiler makes variants, a search
// measures them, and package gen writes them into Go packages.
package variant

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
)

// Variant is a product compiled for one target. Its kernels read one packed layout
// of the weights and differ in how many columns they compute at once.
type Variant struct {
	Target  lower.Target
	Need    []string // CPU features, named as in klauspost/cpuid/v2
	Kernels []Kernel
	Prepare *Prepare // nil: pure Go prepares activations
}

// Kernel is a scheduled product and its machine code: operations, which a search
// estimates, until it is printed, and then assembly.
type Kernel struct {
	Schedule *schedule.Kernel
	Code     *lower.Kernel   // nil: printed
	Text     *lower.Function // nil: not printed yet
}

// Prepare is a scheduled preparation of activations and its assembly.
type Prepare struct {
	Schedule *schedule.PreparationKernel
	Text     *lower.Function
}

// PrepareName is the name of a preparation among the functions of its variant.
const PrepareName = "prepare"

// Name is the name of k among the functions of its variant: "n4" for 4 columns.
func (k Kernel) Name() string { return fmt.Sprintf("n%d", k.Schedule.Cols) }

// Printed is k with its assembly instead of operations, which take more memory.
func (k Kernel) Printed(t lower.Target) Kernel {
	if k.Text == nil {
		k.Code, k.Text = nil, t.Print(k.Code)
	}
	return k
}

// Functions lists the printed kernels, the preparation last. Their names begin with
// prefix, which is for a file with other functions.
func (v *Variant) Functions(prefix string) []lower.Named {
	var fs []lower.Named
	for _, k := range v.Kernels {
		fs = append(fs, lower.Named{Name: prefix + k.Name(), Function: k.Text})
	}
	if v.Prepare != nil {
		fs = append(fs, lower.Named{Name: prefix + PrepareName, Function: v.Prepare.Text})
	}
	return fs
}

// Tables describes the lookup tables that the kernels read; nil without tables.
func (v *Variant) Tables() *ir.Tables {
	for _, k := range v.Kernels {
		if k.Schedule.Tables != nil {
			return k.Schedule.Tables
		}
	}
	return nil
}

// TableChunk is the number of elements of K whose tables lie together, as the
// widest kernel with tables wants it.
func (v *Variant) TableChunk() int {
	cols, chunk := 0, 0
	for _, k := range v.Kernels {
		if s := k.Schedule; s.Tables != nil && s.Cols > cols {
			cols, chunk = s.Cols, s.Chunk
		}
	}
	return chunk
}

// ABI describes v to the runtime, without functions and with layout number 0. The names are the ones that Functions
// gives.
func (v *Variant) ABI(prefix string) abi.Variant {
	m := v.Target.Machine()
	out := abi.Variant{Target: m.Name, ABI: abi.Version, Need: v.Need, CPUs: m.CPUs, Fill: v.Kernels[0].Schedule.Fill, Prepare: v.Prepare.abi(prefix)}
	for _, k := range v.Kernels {
		out.Kernels = append(out.Kernels, k.abi(prefix))
	}
	slices.SortFunc(out.Kernels, func(a, b abi.Kernel) int { return a.Cols - b.Cols })
	return out
}

func (k Kernel) abi(prefix string) abi.Kernel {
	s := k.Schedule
	return abi.Kernel{Name: prefix + k.Name(), Rows: s.Rows, Cols: s.Cols, StepK: s.StepK, Chunk: s.Chunk, Tables: s.Tables != nil,
		SumBy: s.SumBy, ScaledSums: s.ScaledSums, ErrorStep: s.Deviation.Span, ErrorMost: s.Deviation.Most, Scratch: s.Scratch}
}

// abi is nil for nil.
func (p *Prepare) abi(prefix string) *abi.Prepare {
	if p == nil {
		return nil
	}
	s := p.Schedule
	return &abi.Prepare{Name: prefix + PrepareName, CountDiv: s.CountDiv, Residuals: s.Residuals, Pads: s.Pads, Chunk: s.Chunk, Tables: TablesABI(s.Tables)}
}

// TablesABI describes lookup tables to the runtime; nil is the zero value.
func TablesABI(t *ir.Tables) abi.Tables {
	if t == nil {
		return abi.Tables{}
	}
	return abi.Tables{K: t.Digits() * t.Together, Bytes: t.UnitBytes() * t.Together, ID: t.ID(), Residual: t.Residual}
}
