package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// CheckRanges proves that no accumulator of a product loses information for any
// codes and any activations with K up to the problem's limit, or returns an
// *Overflow that says which inputs would do it.
//
// A 16-bit accumulator and one that is scaled back by a shift must hold every
// partial sum. Other 32-bit accumulators may wrap: sums modulo 2^32 are exact
// when the group's true sum fits, which is checked last. Sums of f32 are what
// ir.Matmul defines, rounding and all.
func (s *Product) CheckRanges() error {
	if s.Problem.Act.Floats() {
		return nil
	}
	st := s.main()
	peak := s.peak()
	plan, err := st.plan()
	if err != nil {
		return err
	}
	for i := 1; i < len(st.accumulators); i++ {
		acc := st.accumulators[i]
		if s.tables != nil {
			if err := s.checkEntries(acc, s.summed(plan, i)); err != nil {
				return err
			}
			continue
		}
		bound, shift, terms := s.sumBound(plan, i, peak)
		limit := int64(math.MaxInt32)
		switch {
		case acc.Temp.Elem == format.I16:
			limit = math.MaxInt16
		case acc.shift == nil || acc.shift[len(acc.shift)-1] == 0:
			continue
		}
		if bound > limit {
			return &Overflow{"accumulator " + acc.Temp.Name, acc.Temp.Elem.String(), bound, limit, terms, peak, shift, ir.ActMax}
		}
	}
	return s.checkSum()
}

// peak is the largest magnitude of what the dot product multiplies activations with,
// or of what an entry of a table counts an activation.
func (s *Product) peak() int {
	if t := s.tables; t != nil {
		return max(-slices.Min(t.Alphabet), slices.Max(t.Alphabet))
	}
	lo, hi := s.valueRange()
	return max(-lo, hi)
}

// valueRange is the range of what the dot product multiplies activations with,
// before any field scaling. Packing refuses codes without a level.
func (s *Product) valueRange() (lo, hi int) {
	if s.folded { // bytes with a sign
		return -128, 127
	}
	w := s.Problem.Weight
	lo, hi = w.MinLevel(), w.MaxLevel()
	if !s.hoisted {
		return lo, hi
	}
	if _, table := s.main().values["w"].(ir.Lookup); table {
		return 0, hi - lo
	}
	return 0, w.Codes() - 1
}

// summed gives, by name, the trip counts of the loops whose products one element
// of accumulator i adds up.
func (s *Product) summed(p *nest.Plan, i int) map[string]int {
	kept := map[string]bool{}
	for _, acc := range p.Accumulators[:i+1] {
		for _, k := range acc.Keep {
			kept[k.Name] = true
		}
	}
	loops, inside := map[string]int{}, false
	for _, l := range p.Loops {
		inside = inside || l.Name == p.Accumulators[i].At
		if !inside || l.Root == "g" || l.Kind == nest.Averaged || !p.Reduce[l.Root] || kept[l.Name] {
			continue
		}
		loops[l.Name] = l.N
		if l.N == 0 {
			loops[l.Name] = (s.Problem.LimitK() + l.Coef - 1) / l.Coef
		}
	}
	return loops
}

// sumBound is the largest magnitude `bound` of accumulator i. It is reached by `terms` products, scaled by 2^shift.
func (s *Product) sumBound(p *nest.Plan, i, peak int) (bound int64, shift, terms int) {
	loops := s.summed(p, i)
	var classes *accumulator
	for j := 1; j <= i; j++ {
		if s.main().accumulators[j].shift != nil {
			classes = &s.main().accumulators[j]
		}
	}
	if classes == nil {
		terms = 1
		for _, n := range loops {
			terms *= n
		}
		return int64(terms) * int64(peak) * ir.ActMax, 0, terms
	}
	for c, sh := range classes.shift {
		n := classes.terms(c, loops)
		if b := int64(n) * int64(peak) * ir.ActMax << sh; b > bound {
			bound, shift, terms = b, sh, n
		}
	}
	return bound, shift, terms
}

// checkEntries: a narrow accumulator holds every sum of entries over loops. Bytes of
// lower halves are read without a sign, as are entries with residuals.
func (s *Product) checkEntries(acc accumulator, loops map[string]int) error {
	if acc.Temp.Elem == format.I32 || acc.Temp.Elem == format.F32 {
		return nil
	}
	halves := 1
	if s.tables.Split() || s.tables.Residual {
		halves = 2
	}
	for half := range halves {
		lo, hi, terms := s.entryRange(half, loops)
		least, most := int64(-1)<<(acc.Temp.Elem.Bits()-1), int64(1)<<(acc.Temp.Elem.Bits()-1)-1
		if s.unsigned(half) && acc.Temp.Elem == format.I8 {
			least, most = 0, math.MaxUint8
		}
		if lo < least || hi > most {
			return &Overflow{"accumulator " + acc.Temp.Name, acc.Temp.Elem.String(), max(hi, -lo), most, terms, s.peak(), 0, ir.ActMax}
		}
	}
	return nil
}

// unsigned says that bytes of a half of entries, and their sums in bytes, have no sign.
func (s *Product) unsigned(half int) bool {
	return s.tables.Residual || s.tables.Split() && !s.tables.Mirror && half == 0
}

// entryRange is the range of a sum of entries, or halves of them, over loops, and how
// many activations reach it. Lower halves reach their largest value for any number of
// activations.
func (s *Product) entryRange(half int, loops map[string]int) (lo, hi int64, terms int) {
	t, times := s.tables, 1
	for name, n := range loops {
		if name != partLoop && name != halfLoop {
			times *= n
		}
	}
	for q, n := range t.Parts {
		least, most := -t.Bound(q), t.Bound(q)
		switch {
		case t.Residual && loops[halfLoop] > 0: // both are added to one sum
			least, most = 0, math.MaxUint8+t.MostResidual()
		case t.Residual && half == 0:
			least, most = 0, math.MaxUint8
		case t.Residual:
			least, most = 0, t.MostResidual()
		case t.Split():
			least, most = t.HalfRange(half, most)
		case t.Rounded():
			least, most = t.HalfRange(1, most)
		}
		l, h := int64(least), int64(most)
		if loops[partLoop] > 0 {
			lo, hi, terms = lo+l, hi+h, terms+n
		} else {
			lo, hi, terms = min(lo, l), max(hi, h), max(terms, n)
		}
	}
	return lo * int64(times), hi * int64(times), terms * times
}

// terms is how many products an accumulator of one class adds over loops: over
// those that do not count fields all, of the fields the most that are in the
// class for any position of the field loops that are not summed.
func (acc *accumulator) terms(class int, loops map[string]int) int {
	terms, isField := 1, map[string]bool{}
	for _, d := range acc.fields {
		isField[d.loop] = true
	}
	for name, n := range loops {
		if !isField[name] {
			terms *= n
		}
	}
	at := map[int]int{} // by the part of the field number that stands still
	for f, c := range acc.classOf {
		still := 0
		for _, d := range acc.fields {
			if loops[d.loop] == 0 {
				still += f / d.stride % d.n * d.stride
			}
		}
		if c == class {
			at[still]++
		}
	}
	most := 0
	for _, n := range at {
		most = max(most, n)
	}
	return terms * most
}

// deviation bounds the integer sum of a group, by steps of the run-time loop or, if that is
// shorter, of the group. An entry of a rounded table is half of 2^low at most away from what
// it stands for (if low is 0 nothing); on the way into a sum, each of d averages adds up to half
// of 2^low:
//
//	most = lookups of a step * sum |coef| * (1 + d) * 2^(low-1) / halfOf, rounded up, and 1 if halfOf is 2
func (s *Product) deviation() Deviation {
	t := s.tables
	if t == nil {
		return Deviation{}
	}
	entry := t.Deviation() + s.averages()<<t.Low // in halves
	if entry == 0 {
		return Deviation{}
	}
	step := cmp.Or(s.Problem.GroupK(), math.MaxInt) // a sum of all of K has a run-time loop
	for _, l := range s.main().loops {
		if l.N == 0 && s.main().reduce[l.Root] {
			step = min(step, s.fullCoef(l))
		}
	}
	most := 0
	for _, c := range t.Coef {
		most += max(c, -c)
	}
	most *= (step + t.Digits() - 1) / t.Digits() * len(t.Parts) * entry
	return Deviation{step, (most+2*t.HalfOf-1)/(2*t.HalfOf) + t.HalfOf - 1}
}

// checkSum: the true sum of a group, and how far it may be off, must fit 32 bits.
func (s *Product) checkSum() error {
	w := s.Problem.Weight
	peak := w.Peak()
	terms := s.Problem.GroupK()
	if terms == 0 {
		terms = s.Problem.LimitK()
	}
	bound := int64(terms)*int64(peak)*ir.ActMax + int64(s.deviation().Of(terms))
	if n := s.Problem.Block(); n > 1 && bound*int64(n*w.MostScale()) > math.MaxInt32 {
		return &Overflow{"the sum of a block of groups", "i32", bound * int64(n*w.MostScale()), math.MaxInt32, n * terms, peak * w.MostScale(), 0, ir.ActMax}
	}
	if s.tables != nil {
		bound *= int64(s.tables.HalfOf)
	}
	if bound > math.MaxInt32 {
		return &Overflow{"the sum of a group", "i32", bound, math.MaxInt32, terms, peak, 0, ir.ActMax}
	}
	return nil
}

// checkPairs: dot2 adds two products with saturation to 16 bits.
func (s *Product) checkPairs() error {
	_, hi := s.valueRange()
	shift := 0
	for _, acc := range s.main().accumulators {
		for _, sh := range acc.shift {
			shift = max(shift, sh)
		}
	}
	if bound := int64(2*hi*ir.ActMax) << shift; bound > math.MaxInt16 {
		return &Overflow{"a pair of products", "i16", bound, math.MaxInt16, 2, hi, shift, ir.ActMax}
	}
	return nil
}
