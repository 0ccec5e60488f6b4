package lower

import (
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// balanced is t with rows of equal cost in the order by which the units that are busiest in f have least to do: instructions
// that differ only in the units they run on serve where those have time. The first stays first unless another is better.
func (t *table) balanced(f *vir.Func) *table {
	var load BusyTimes
	var choices []*Row // those that f uses and that others may stand for
	used := map[*Row]float64{}
	vir.Walk(f.Body, func(in *vir.Instr, around []*vir.Loop) {
		row := t.find(f, in)
		if row == nil || in.Op.HasMem() {
			return
		}
		times := trips(around)
		load = load.With(row, times)
		if used[row] == 0 && len(t.equals(row)) > 0 {
			choices = append(choices, row)
		}
		used[row] += times
	})
	b := t
	for _, row := range choices {
		best, without := row, load.With(row, -used[row])
		for _, other := range t.equals(row) {
			if with := without.With(other, used[row]); slices.Max(with[:]) < slices.Max(load[:]) {
				best, load = other, with
			}
		}
		if best != row {
			if b == t {
				b = &table{Selector: t.Selector, m: t.m, rows: maps.Clone(t.rows)}
			}
			k := keyOf(row.Op, row.Dst)
			b.rows[k] = append([]*Row{best}, slices.DeleteFunc(slices.Clone(b.rows[k]), func(r *Row) bool { return r == best })...)
		}
	}
	return b
}

// equals are the rows that could stand for row at the same cost.
func (t *table) equals(row *Row) (out []*Row) {
	for _, r := range t.rows[keyOf(row.Op, row.Dst)] {
		if r != row && r.Op == row.Op && r.Cost == row.Cost && slices.Equal(r.Args, row.Args) {
			out = append(out, r)
		}
	}
	return out
}

// BusyTimes is how long each of the sets of units that Row.Busy tells apart is busy, in tenths of a cycle.
type BusyTimes [MostBusy]float64

// With returns b with `times` executions of `row` added.
func (b BusyTimes) With(row *Row, times float64) BusyTimes {
	if row.Busy == nil {
		b[0] += float64(times * float64(row.Cost)) // rounded: hosts that fuse it with the sum would choose other rows
	}
	for i, c := range row.Busy {
		b[i] += float64(times * float64(c))
	}
	return b
}

// manyTrips stands for a parameter that counts iterations.
const manyTrips = 64

// trips is how often the body of the innermost of loops runs.
func trips(loops []*vir.Loop) float64 {
	times := 1.0
	for _, l := range loops {
		if l.Count.Param >= 0 {
			times *= manyTrips
		} else {
			times *= float64(l.Count.Const)
		}
	}
	return times
}
