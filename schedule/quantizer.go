package schedule

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
)

// Prepared says how a product wants a row of activations: one of Cols that lie side by side in chunks, with its sums multiplied by SumBy or scaled.
type Prepared struct {
	Cols, Chunk, SumBy int
	ScaledSums         bool
}

// Wants is how k wants activations.
func (k *Kernel) Wants() Prepared { return Prepared{k.Cols, k.Chunk, k.SumBy, k.ScaledSums} }

// NewQuantizer is the preparation of a row of activations of p as an operator: for targets with workgroups, which prepare many rows at once. Its
// outputs are act, sums and ascale. Rows have k elements.
func NewQuantizer(p ir.Problem, to Prepared, k int) (*Operator, error) {
	of, err := NewPreparation(p, nil)
	if err != nil {
		return nil, err
	}
	s := &Operator{nests: of.nests.clone(), streams: map[string]nest.Streams{}, to: &to}
	s.Of = operator.Operator{Name: "prepare", About: "activations as a product wants them", Graph: of.Graph, Outputs: []string{"act", "sums", "ascale"},
		Sizes: []map[string]int{{"K": k}}, Stride: map[string]int{"sums": to.Cols, "ascale": to.Cols}}
	for _, st := range s.stages {
		switch {
		case st.name != "sums":
		case to.ScaledSums:
			st.out = p.Tensors().ScaledSums()
			st.final = ofRow(p.ScaledSum(st.final))
		case cmp.Or(to.SumBy, 1) != 1:
			st.final = ir.Binary{Op: ir.Mul, X: st.final, Y: ir.I32(to.SumBy)}
		}
	}
	return s, nil
}

// ofRow is what a product reads for its group g, for the group of the stage sums.
func ofRow(e ir.Expr) ir.Expr {
	return renamed(e, map[string]ir.Expr{"n": ir.I32(0), "g": ir.Axis{Name: "sums.g"}})
}

// placed is where tensor t lies, nil: in an array.
func (s *Operator) placed(t *ir.Tensor, memory nest.Memory) nest.Buffer {
	if s.to == nil || t.Name != "act" || s.to.Cols == 1 {
		return nil
	}
	lay := actLayout(s.to.Cols, s.to.Chunk)
	return &nest.Packed{Memory: memory, Layout: lay, Part: lay.Part("act")}
}

// Together is how many elements along an axis lie together, and then the ones of other columns; 0: all.
func (s *Operator) Together(root string) int {
	if s.to == nil || s.to.Cols == 1 {
		return 0
	}
	of := map[string]int{"act.k": 1, "sums.k": 1, "act.g": s.Dim("act.g").Div, "sums.g": s.Dim("sums.g").Div}[root]
	if of == 0 || s.to.Chunk%of != 0 {
		return 0
	}
	return s.to.Chunk / of
}

// byAxes says that each index of a stage's tensor is an axis.
func (st *stage) byAxes() bool {
	return !slices.ContainsFunc(st.index, func(e ir.Expr) bool { _, ok := e.(ir.Axis); return !ok })
}
