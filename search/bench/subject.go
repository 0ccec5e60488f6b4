package bench

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
)

// Subject is a product to be measured, by its kernels for one target.
type Subject struct {
	Problem ir.Problem
	Variant variant.Variant
	Product *runtime.Product
	Tuned   bool // the schedules are from a lock
}

// Target is the target's name without its architecture: "avx2".
func (x Subject) Target() string { return x.Variant.Target.Machine().ShortName() }

// Record returns a record of x with everything that is known before x is measured. A product without kernels
// counts as storing every bit of its weights.
func (x Subject) Record(mode string, m, n, k int) (measure.Record, measure.Weights) {
	w := x.Problem.Weight
	r := measure.Record{Format: x.Problem.Name(), BitsPerWeight: float64(w.Bits), Group: w.Group, M: m, K: k, N: n, Target: x.Target(),
		Exact: !x.Problem.Act.Floats() && Exact(x.Variant.Kernels), Threads: 1, Mode: mode}
	weights := measure.Weights{NominalBits: nominalBits(w), ScaleBits: scaleBits(w, m, k)}
	if len(x.Variant.Kernels) > 0 {
		s := x.Variant.Kernels[0].Schedule
		r.Family, r.BitsPerWeight = Family(s.Trace), s.Weights.Part(format.Codes).CodeBits()
		weights.NominalBits = min(weights.NominalBits, r.BitsPerWeight)
	}
	return r, weights
}

// Residual reports whether kernels read residuals of tables, where activations have some.
func (x Subject) Residual() bool {
	t := x.Variant.Kernels[0].Schedule.Tables
	return t != nil && t.Residual
}

// nominalBits returns the bits per weight that the format needs at least. Codewords may take less than the format's whole
// bits: six levels take 2.67 bits instead of 3.
func nominalBits(w format.Weight) float64 {
	if w.Bound > 0 {
		return w.Bound
	}
	return float64(w.Bits)
}

// scaleBits returns the bits of everything that weights share: scales, zero points, minimums.
func scaleBits(w format.Weight, m, k int) float64 {
	bits := 0.0
	for _, x := range w.Shared() {
		bits += float64(x.Elem.Bits()) * float64(w.Count(x, m, k))
	}
	return bits
}

// StoredBits returns the bits per weight of a matrix of many rows and k columns, scales included.
func StoredBits(l *format.Layout, k int) float64 {
	return 8 * float64(l.TileBytes(k)) / float64(l.TileM) / float64(k)
}

// Exact reports whether all kernels give the bits of the definition.
func Exact(kernels []variant.Kernel) bool {
	return !slices.ContainsFunc(kernels, func(k variant.Kernel) bool { return !k.Schedule.Exact() })
}

// Family returns the decomposition that a trace begins with, or "".
func Family(t schedule.Trace) string {
	for _, step := range t {
		if d, ok := step.(schedule.Decompose); ok {
			return d.Family
		}
	}
	return ""
}
