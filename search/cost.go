package search

import (
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// typicalK is the K that costs are weighed at.
const typicalK = 4096

// listedK is about how many elements of K there are for each that brings its iteration on a list: outliers of activations
// are rare.
const listedK = 2048.0

// What the rows do not say, in tenths of a cycle: a core issues some six
// instructions a cycle, loads beside arithmetic, and an accumulator can be added
// to every few cycles.
const (
	issueCost   = 10.0 / 6
	accumulates = 50.0
	loads       = 5.0 // an operand from memory
)

// foldCost is what the operand from memory of in takes.
func foldCost(m lower.Machine, in *vir.Instr) float64 {
	if m.Halves && in.FoldUnit == 0 && in.FoldType.Bits() == m.VecBits {
		return 2 * loads
	}
	return loads
}

// work is what a kernel does for one product, in tenths of a cycle: all loops
// together, each as often as it runs.
type work struct {
	alu, mem, issue float64 // if nothing else took time
	chain           float64 // additions that wait for one another, to one accumulator
	total           float64 // by loop the longest of these, and a tenth of arithmetic, reading, issue and what sums that begin in it wait
}

// costPerProduct estimates the time of one call, per product.
func costPerProduct(k *schedule.Kernel, m *lower.Kernel) float64 { return workOf(k, m).total }

func workOf(k *schedule.Kernel, m *lower.Kernel) work {
	trips, times := []float64{}, 1.0
	var sum, part work       // of the kernel, and of a stretch of its code
	var busy lower.BusyTimes // of the stretch, each set of units that arithmetic runs on
	chain, fresh := map[vir.Reg]float64{}, map[vir.Reg]float64{}
	flush := func() { // ends a stretch, which runs times times
		wait := 0.0
		for _, c := range fresh {
			wait = max(wait, c)
		}
		part.chain = wait
		for _, c := range chain {
			part.chain = max(part.chain, c)
		}
		part.alu = slices.Max(busy[:])
		sum.alu += times * part.alu
		sum.mem += times * part.mem
		sum.issue += times * part.issue
		sum.chain += times * part.chain
		sum.total += times * (max(part.alu, part.mem, part.issue, part.chain) + (busy[0]+part.mem+part.issue+wait)/10)
		part = work{}
		clear(busy[:])
		clear(chain)
		clear(fresh)
	}
	for _, op := range m.Ops {
		switch op.Kind {
		case lower.MInstr:
			part.issue += issueCost
			switch {
			case op.In.Op.HasMem():
				part.mem += float64(op.Row.Cost)
			case op.In.Op == vir.OpTile && op.In.Fold > 0: // a load that repeats what it reads
			default:
				busy = busy.With(op.Row, 1)
			}
			if op.In.Fold > 0 {
				part.mem += foldCost(m.Machine, op.In)
			}
			if len(trips) > 0 && op.Row.Tied > 0 {
				switch sum := op.In.Args[op.Row.Tied-1]; {
				case op.In.Dst == sum:
					chain[sum] += accumulates
				case op.In.Op == vir.OpDot4 || op.In.Op == vir.OpDot2:
					fresh[op.In.Dst] = fresh[sum] + float64(m.Machine.Fresh)
				}
			}
		case lower.MLoopBegin:
			flush()
			n := float64(op.Count.Const)
			if op.Count.Param >= 0 {
				n = float64(k.FilledK(typicalK)) / float64(k.StepK)
			}
			if op.List != nil {
				n *= min(1, float64(k.StepK)/listedK)
			}
			trips, times = append(trips, n), times*n
		case lower.MLoopEnd:
			part.issue += issueCost * float64(2+len(op.Adds))
			flush()
			times /= trips[len(trips)-1]
			trips = trips[:len(trips)-1]
		}
	}
	flush()
	products := float64(k.Rows * k.Cols * typicalK)
	return work{sum.alu / products, sum.mem / products, sum.issue / products, sum.chain / products, sum.total / products}
}

// bytesPerWeight are those of a packed weight, scales and padding included.
func bytesPerWeight(k *schedule.Kernel) float64 {
	return float64(k.Weights.TileBytes(typicalK)) / float64(k.Weights.TileM*typicalK)
}

// Estimate is about how long a product of one weight and one activation takes by a
// kernel, in tenths of a cycle: arithmetic, or where weights come from memory, the
// time to read them if that is longer.
func Estimate(k *schedule.Kernel, m *lower.Kernel, memory bool) float64 {
	cost := costPerProduct(k, m)
	if memory {
		cost = max(cost, reading(bytesPerWeight(k))/float64(k.Cols))
	}
	return cost
}

// Features describe a kernel to a model of its cost: sizes, what bounds it by the costs of its
// instructions, and what its loops do for each product, by logarithms.
func Features(k *schedule.Kernel, m *lower.Kernel) []float64 {
	var spread, prefetch, lookup, dot, folded, outside float64
	var regs [64]bool
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
			if op.Dst >= 0 && op.Dst < len(regs) {
				regs[op.Dst] = true
			}
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
	used := 0.0
	for _, r := range regs {
		if r {
			used++
		}
	}
	w := workOf(k, m)
	products := float64(k.Rows * k.Cols * k.StepK)
	each := func(n float64) float64 { return math.Log((n + 1) / products) }
	tables := 0.0
	if k.Tables != nil {
		tables = 1
	}
	return []float64{
		math.Log(w.total), math.Log(w.alu + 1e-4), math.Log(w.mem + 1e-4), math.Log(w.issue + 1e-4), math.Log(w.chain + 1e-4),
		float64(k.Rows), float64(k.Cols), float64(k.StepK), float64(k.Weights.TileM), bytesPerWeight(k), tables, lists,
		each(dot), each(lookup), each(folded), each(spread), each(prefetch), math.Log(outside + 1), math.Log(float64(len(m.Ops))),
		used, float64(deepest), math.Log(products),
	}
}
