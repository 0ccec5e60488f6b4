package schedule

import (
	"math/bits"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
)

// HalvingAdd adds up what 2^d iterations of an unrolled loop look up by averages, rounded up,
// in pairs, pairs of pairs and so on: bytes stay bytes, without a wider sum for each
// (T-MAC's fast aggregation). The sum counts 2^d as much. Each average is up to 1/2 more than
// what it stands for, the last one up to d/2: the product is bounded, not exact. Only tables
// of one byte (quantize_table q8) are averaged, and no schedule does it that does not say so.
//
//	for f 4                                  sum1 += avg(avg(t[x0], t[x1]), avg(t[x2], t[x3]))
//	    sum1 += t[x[f]]              ->
//	sum += sum1                              sum += sum1 << 2
type HalvingAdd struct {
	Loop string `json:"loop"`
}

// Apply implements Step.
func (x HalvingAdd) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.Loop); err != nil {
		return nil, err
	}
	c, st, i, err := edit(x, s, x.Loop)
	if err != nil {
		return nil, err
	}
	l := &st.loops[i]
	switch {
	case c.tables == nil || !c.tables.Rounded():
		return nil, illegal(x, x.Loop, "only tables of one byte are averaged: quantize_table q8 first")
	case l.Root != "k" && l.Root != partLoop:
		return nil, illegal(x, x.Loop, "is not a loop over lookups that count the same")
	case l.Kind != nest.Unrolled:
		return nil, illegal(x, x.Loop, "is %s: bind it unrolled", l.Kind)
	case l.N < 2 || bits.OnesCount(uint(l.N)) != 1:
		return nil, illegal(x, x.Loop, "%d iterations: want a power of two", l.N)
	case l.N<<c.averages() > mostAveraged:
		return nil, illegal(x, x.Loop, "%d lookups in an average, at most %d", l.N<<c.averages(), mostAveraged)
	case c.added() || len(st.staged) > 0:
		return nil, illegal(x, x.Loop, "must come before steps that add accumulators, set their type or stage values")
	}
	l.Kind = nest.Averaged
	st.accumulators = st.accumulators[:st.made]
	c.recombine()
	return c, nil
}

// mostAveraged bounds the lookups of an average.
const mostAveraged = 64

// averages is the number of averages between a lookup and the sum.
func (s *Product) averages() int {
	n := 0
	for _, l := range s.main().loops {
		if l.Kind == nest.Averaged {
			n += bits.Len(uint(l.N)) - 1
		}
	}
	return n
}

// averaged is the body of a stage by tables, i32(entry), with the average over all averaged
// loops in place of the entry.
func (st *stage) averaged(body ir.Expr) ir.Expr {
	var leaves []ir.Expr
	var sum ir.Cast
	for _, l := range st.loops {
		if l.Kind != nest.Averaged {
			continue
		}
		if leaves == nil {
			sum = body.(ir.Choose).Of[0].(ir.Cast) // an entry of one byte has no halves
			leaves = []ir.Expr{sum.X}
		}
		var all []ir.Expr
		for _, leaf := range leaves {
			for i := range l.N {
				all = append(all, iteration(leaf, l, i))
			}
		}
		leaves = all
	}
	if leaves == nil {
		return body
	}
	for len(leaves) > 1 {
		for i := range len(leaves) / 2 {
			leaves[i] = ir.Binary{Op: ir.Avg, X: leaves[2*i], Y: leaves[2*i+1]}
		}
		leaves = leaves[:len(leaves)/2]
	}
	return ir.Cast{T: sum.T, X: leaves[0]}
}

// iteration is e at iteration i of a loop that does not run.
func iteration(e ir.Expr, l nest.Loop, i int) ir.Expr {
	return ir.Map(e, func(x ir.Expr) ir.Expr {
		a, ok := x.(ir.Axis)
		switch {
		case ok && a.Name == l.Name:
			return ir.I32(i * map[bool]int{true: l.Coef, false: 1}[l.Name == l.Root])
		case ok && a.Name == l.Root:
			return ir.Binary{Op: ir.Add, X: a, Y: ir.I32(l.Coef * i)}
		}
		return x
	})
}

// Propose implements Proposer: each unrolled loop over lookups.
func (x HalvingAdd) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || p.tables == nil || !p.tables.Rounded() {
		return nil
	}
	for _, l := range s.Loops() {
		if l.Kind == nest.Unrolled && l.N > 1 && (l.Root == "k" || l.Root == partLoop) {
			out = append(out, HalvingAdd{l.Name})
		}
	}
	return out
}
