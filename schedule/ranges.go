package schedule

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// actMax is the largest magnitude of an int8 activation: PrepareAct never makes -128.
const actMax = 127

// CheckRanges proves that no accumulator of a product loses information for any
// codes and any activations with K up to the problem's limit, or returns an
// *Overflow that says which inputs would do it.
//
// A 16-bit accumulator and one that is scaled back by a shift must hold every
// partial sum. Other 32-bit accumulators may wrap: sums modulo 2^32 are exact
// when the group's true sum fits, which is checked last.
func (s *State) CheckRanges() error {
	st := s.main()
	lo, hi := s.valueRange()
	peak := max(-lo, hi)
	plan, err := st.plan()
	if err != nil {
		return err
	}
	for i := 1; i < len(st.levels); i++ {
		lv := st.levels[i]
		terms := s.terms(plan, i)
		bound, worst := s.levelBound(i, terms, peak)
		limit := int64(math.MaxInt32)
		switch {
		case lv.Temp.Elem == format.I16:
			limit = math.MaxInt16
		case lv.shift == nil || lv.shift[len(lv.shift)-1] == 0:
			continue
		}
		if bound > limit {
			return &Overflow{lv.Temp.Name, lv.Temp.Elem.String(), bound, limit, peak, actMax, worst}
		}
	}
	return s.checkSum()
}

// valueRange is the range of what the dot product multiplies activations with,
// before any field scaling.
func (s *State) valueRange() (lo, hi int) {
	w := s.Problem.Weight
	lo, hi = w.MinLevel(), w.MaxLevel()
	if !s.hoisted {
		return lo, hi
	}
	if _, table := s.main().values["w"].(ir.Lookup); table {
		return 0, hi - lo
	}
	return 0, 1<<w.Bits - 1
}

// terms is how many products accumulator i holds at most, per combination of
// what it keeps apart.
func (s *State) terms(p *nest.Plan, i int) int {
	kept := map[string]bool{}
	for _, lv := range p.Levels[:i+1] {
		for _, k := range lv.Keep {
			kept[k.Name] = true
		}
	}
	n, inside := 1, false
	for _, l := range p.Loops {
		inside = inside || l.Name == p.Levels[i].At
		if !inside || l.Root != "k" || kept[l.Name] {
			continue
		}
		trips := l.N
		if trips == 0 {
			trips = (s.Problem.LimitK() + l.Coef - 1) / l.Coef
		}
		n *= trips
	}
	return n
}

// levelBound is the largest magnitude of accumulator i, over its classes.
func (s *State) levelBound(i, terms, peak int) (bound int64, worst int) {
	var classes *level
	for j := 1; j <= i; j++ {
		if s.main().levels[j].shift != nil {
			classes = &s.main().levels[j]
		}
	}
	if classes == nil {
		return int64(terms) * int64(peak) * actMax, terms
	}
	fields := 0
	for _, n := range classes.counts {
		fields += n
	}
	for c, n := range classes.counts {
		t := s.termsOfClass(terms, n, fields)
		if b := int64(t) * int64(peak) * actMax << classes.shift[c]; b > bound {
			bound, worst = b, t
		}
	}
	return bound, worst
}

// termsOfClass: of terms products over all fields, those whose field is one of n.
// Field loops over rows do not add terms; counting them keeps the bound safe.
func (s *State) termsOfClass(terms, n, fields int) int {
	summed := 1 // fields that are summed over, not rows
	for _, d := range s.weights.Part("codes").Fields {
		if d.Axis == "k" {
			summed *= d.Mod
		}
	}
	return terms / summed * min(n, summed)
}

// checkSum: the true sum of a group must fit 32 bits.
func (s *State) checkSum() error {
	w := s.Problem.Weight
	peak := max(-w.MinLevel(), w.MaxLevel())
	if w.Zero {
		peak = max(w.MaxLevel()+128, 127-w.MinLevel())
	}
	terms := s.Problem.GroupK()
	if terms == 0 {
		terms = s.Problem.LimitK()
	}
	if bound := int64(terms) * int64(peak) * actMax; bound > math.MaxInt32 {
		return &Overflow{"sum", "i32", bound, math.MaxInt32, peak, actMax, terms}
	}
	return nil
}

// checkPairs: dot2 adds two products with saturation to 16 bits.
func (s *State) checkPairs() error {
	_, hi := s.valueRange()
	shift := 0
	for _, lv := range s.main().levels {
		for _, sh := range lv.shift {
			shift = max(shift, sh)
		}
	}
	if bound := int64(2*hi*actMax) << shift; bound > math.MaxInt16 {
		return &Overflow{fmt.Sprintf("a pair of products (fields scaled by 2^%d)", shift), "i16", bound, math.MaxInt16, hi, actMax, 2}
	}
	return nil
}
