package search

import (
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

// workOf estimates the time of one call, per product.
func workOf(k *schedule.Kernel, m *lower.Kernel) work {
	t := tally{kernel: k, machine: m.Machine, times: 1, chain: map[vir.Reg]float64{}, fresh: map[vir.Reg]float64{}}
	for i := range m.Ops {
		switch op := &m.Ops[i]; op.Kind {
		case lower.MInstr:
			t.instr(op)
		case lower.MLoopBegin:
			t.begin(op)
		case lower.MLoopEnd:
			t.end(op)
		}
	}
	t.flush()
	products := float64(k.Rows * k.Cols * typicalK)
	return work{t.sum.alu / products, t.sum.mem / products, t.sum.issue / products, t.sum.chain / products, t.sum.total / products}
}

// tally adds up the work of a kernel by stretches of its code, which end where a loop begins or ends.
type tally struct {
	kernel       *schedule.Kernel
	machine      lower.Machine
	trips        []float64           // of the loops around the stretch
	times        float64             // that it runs
	sum, part    work                // of the stretches before, and of this one once
	busy         lower.BusyTimes     // of this one, each set of units that arithmetic runs on
	chain, fresh map[vir.Reg]float64 // how long additions wait for one another, to sums that go on and to those that begin in it
}

// instr counts an instruction.
func (t *tally) instr(op *lower.MOp) {
	t.part.issue += issueCost
	switch {
	case op.In.Op.HasMem():
		t.part.mem += float64(op.Row.Cost)
	case op.In.Op == vir.OpTile && op.In.Fold > 0: // a load that repeats what it reads
	default:
		t.busy = t.busy.With(op.Row, 1)
	}
	if op.In.Fold > 0 {
		t.part.mem += foldCost(t.machine, op.In)
	}
	if len(t.trips) > 0 && op.Row.Tied > 0 {
		t.add(op.In, op.In.Args[op.Row.Tied-1])
	}
}

// add counts what an addition to sum in a loop waits.
func (t *tally) add(in *vir.Instr, sum vir.Reg) {
	switch {
	case in.Dst == sum:
		t.chain[sum] += accumulates
	case in.Op.IsDot():
		t.fresh[in.Dst] = t.fresh[sum] + float64(t.machine.Fresh)
	}
}

// begin enters a loop.
func (t *tally) begin(op *lower.MOp) {
	t.flush()
	n := float64(op.Count.Const)
	if op.Count.Param >= 0 {
		n = float64(t.kernel.FilledK(typicalK)) / float64(t.kernel.StepK)
	}
	if op.List != nil {
		n *= min(1, float64(t.kernel.StepK)/listedK)
	}
	t.trips, t.times = append(t.trips, n), t.times*n
}

// end leaves a loop.
func (t *tally) end(op *lower.MOp) {
	t.part.issue += issueCost * float64(2+len(op.Adds))
	t.flush()
	last := len(t.trips) - 1
	t.times /= t.trips[last]
	t.trips = t.trips[:last]
}

// flush ends a stretch: what it does counts as often as it runs.
func (t *tally) flush() {
	wait := longest(t.fresh, 0)
	part := t.part
	part.chain = longest(t.chain, wait)
	part.alu = slices.Max(t.busy[:])
	t.sum.alu += t.times * part.alu
	t.sum.mem += t.times * part.mem
	t.sum.issue += t.times * part.issue
	t.sum.chain += t.times * part.chain
	t.sum.total += t.times * (max(part.alu, part.mem, part.issue, part.chain) + (t.busy[0]+part.mem+part.issue+wait)/10)
	t.part, t.busy = work{}, lower.BusyTimes{}
	clear(t.chain)
	clear(t.fresh)
}

// longest is the most of least and of all waits.
func longest(waits map[vir.Reg]float64, least float64) float64 {
	for _, w := range waits {
		least = max(least, w)
	}
	return least
}

// bytesPerWeight is how many bytes a packed weight takes, with its share of scales and padding.
func bytesPerWeight(k *schedule.Kernel) float64 {
	return float64(k.Weights.TileBytes(typicalK)) / float64(k.Weights.TileM*typicalK)
}

// Estimate is about how long a product of one weight and one activation takes by a
// kernel, in tenths of a cycle: arithmetic, or where weights come from memory, the
// time to read them if that is longer.
func Estimate(k *schedule.Kernel, m *lower.Kernel, memory bool) float64 {
	cost := workOf(k, m).total
	if memory {
		cost = max(cost, reading(bytesPerWeight(k))/float64(k.Cols))
	}
	return cost
}
