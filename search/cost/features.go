package cost

import (
	"math"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// Features describe a kernel k of code m, whose execution units take p, to a model of what an estimate leaves out: sizes, what bounds
// the parts of it, and what its loops do for each product, by logarithms.
func Features(k *schedule.Kernel, m *lower.Kernel, p Pipeline) []float64 {
	products := float64(k.Rows * k.Cols * TypicalK)
	out := []float64{math.Log(p.Cycles / products), float64(p.Vectors), float64(p.Scalars)}
	tables := 0.0
	if k.Tables != nil {
		tables = 1
	}
	bytes := float64(k.Weights.TileBytes(TypicalK)) / float64(k.Weights.TileM*TypicalK)
	out = append(out, float64(k.Rows), float64(k.Cols), float64(k.StepK), float64(k.Weights.TileM), bytes, tables)
	return append(append(out, p.bounds()...), counts(m, float64(k.Rows*k.Cols*k.StepK))...)
}

// bounds are the shares of the cycles that ports bound, or the latency of instructions, and the instructions for each cycle.
func (p Pipeline) bounds() []float64 {
	var ports, latency, instrs float64
	for _, x := range p.Stretches {
		switch share := x.Cycles * x.Times / p.Cycles; {
		case strings.HasPrefix(x.Bound, "ports"):
			ports += share
		case x.Bound == "latency":
			latency += share
		}
		instrs += float64(x.Instrs) * x.Times / p.Cycles
	}
	return []float64{ports, latency, instrs}
}

// counts are how many instructions of some kinds the loops of m have for each product, and how many there are in all and around the loops.
func counts(m *lower.Kernel, products float64) []float64 {
	var spread, prefetch, lookup, dot, folded, outside float64
	lists, depth, deepest := 0.0, 0, 0
	for _, op := range m.Ops {
		switch op.Kind {
		case lower.MLoopBegin:
			depth++
			deepest = max(deepest, depth)
			if op.List != nil {
				lists++
			}
		case lower.MLoopEnd:
			depth--
		case lower.MInstr:
			switch o := op.In.Op; {
			case depth == 0:
				outside++
			case o == vir.OpPrefetch || o == vir.OpPrefetch2:
				prefetch++
			case o == vir.OpLoadSplat:
				spread++
			case o.IsLookup():
				lookup++
			case o.IsDot():
				dot++
			}
			if op.In.Fold > 0 {
				folded++
			}
		}
	}
	each := func(n float64) float64 { return math.Log((n + 1) / products) }
	return []float64{each(dot), each(lookup), each(folded), each(spread), each(prefetch), math.Log(outside + 1),
		math.Log(float64(len(m.Ops))), lists, float64(deepest), math.Log(products)}
}
