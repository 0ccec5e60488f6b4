package schedule

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Rfactor keeps the partial sums over one loop of the reduction apart, in an
// accumulator of their own each, until the lowest accumulator is flushed.
//
//	                              for f 4
//	sum[l] = 0                        sum1[l,f] = 0
//	for ks                        for ks
//	    for f 4              ->       for f 4
//	        sum[l] += p[ks,f]             sum1[l,f] += p[ks,f]
//	                              for f 4
//	                                  sum[l] += sum1[l,f]
type Rfactor struct {
	Loop string `json:"loop"`
}

// Apply implements Step.
func (x Rfactor) Apply(s *Product) (*Product, error) { return s.edited(x) }

// ApplyPreparation implements PreparationStep.
func (x Rfactor) ApplyPreparation(s *Preparation) (*Preparation, error) { return s.edited(x) }

func (x Rfactor) edit(n *nests, _ int) error {
	st, i, err := n.loop(x, x.Loop)
	if err != nil {
		return err
	}
	l := st.loops[i]
	switch {
	case len(st.accumulators) == 0 || !st.reduce[l.Root]:
		return illegal(x, x.Loop, "is not a loop of a reduction")
	case l.Kind != nest.Unrolled && l.Kind != nest.Vector:
		return illegal(x, x.Loop, "is %s; only unrolled or vector loops can have an accumulator each", l.Kind)
	case st.lowest().Temp.Elem == format.F32:
		return illegal(x, x.Loop, "would change the order of a float sum")
	case l.Root == "g":
		return illegal(x, x.Loop, "groups have different scales")
	case st.keptBy(x.Loop) != "":
		return illegal(x, x.Loop, "%s keeps it apart already", st.keptBy(x.Loop))
	}
	st.insert([]nest.Keep{{Name: x.Loop}}, func(t ir.Expr) ir.Expr { return t })
	return nil
}

// WidenEvery flushes the lowest accumulator after every run of loop Loop. If
// that is still the sum of the group itself, a new one is made below it.
//
//	sum = 0                      sum = 0
//	for ko                       for ko
//	    for ki             ->        sum1 = 0
//	        sum += p                 for ki
//	                                     sum1 += p
//	                                 sum += sum1
type WidenEvery struct {
	Loop string `json:"loop"`
}

// Apply implements Step.
func (x WidenEvery) Apply(s *Product) (*Product, error) {
	c, st, i, err := edit(x, s, x.Loop)
	if err != nil {
		return nil, err
	}
	l := st.loops[i]
	switch {
	case len(st.accumulators) == 0 || l.Root != "k":
		return nil, illegal(x, x.Loop, "is not a loop over the elements of a group")
	case l.Kind == nest.Vector || l.Kind == nest.Dot || l.Kind == nest.Tile:
		return nil, illegal(x, x.Loop, "is %s: there is nothing to flush inside an instruction", l.Kind)
	case l.Kind == nest.Averaged:
		return nil, illegal(x, x.Loop, "is averaged: its iterations are one sum")
	case st.lowest().Temp.Elem == format.F32:
		return nil, illegal(x, x.Loop, "would change the order of a float sum")
	}
	if st.lowest().root == "k" && len(st.lowest().Keep) == 0 || st.lowest().At != "" {
		st.insert(nil, func(t ir.Expr) ir.Expr { return t })
	}
	st.lowest().At = x.Loop
	return c, nil
}

// Accumulate sets the type of the lowest accumulator: "i8" or "i16" (narrow: more
// lanes, refused unless proven free of overflow) or "i32" (wide).
//
//	sum1 i32                     sum1 i16
//	sum1 += p              ->    sum1 += p
//	sum  += sum1                 sum  += i32(sum1)
type Accumulate struct {
	Type string `json:"type"`
}

// Apply implements Step.
func (x Accumulate) Apply(s *Product) (*Product, error) {
	t, ok := map[string]format.DType{"i8": format.I8, "i16": format.I16, "i32": format.I32}[x.Type]
	if !ok {
		return nil, illegal(x, x.Type, "want i8, i16 or i32")
	}
	if err := s.decomposed(x, x.Type); err != nil {
		return nil, err
	}
	c := s.clone()
	st := c.main()
	low := st.lowest()
	if len(st.accumulators) == st.made {
		return nil, illegal(x, x.Type, "the group's own sum is %s; add an accumulator with rfactor, read_scaled or widen_every", low.Temp.Elem)
	}
	if low.Temp.Elem == t {
		return nil, illegal(x, x.Type, "it is %s already", t)
	}
	above := st.accumulators[len(st.accumulators)-2].Temp
	if above.Elem.Bits() < t.Bits() || above.Elem == t && t != format.I32 {
		return nil, illegal(x, x.Type, "%s above it is %s", above.Name, above.Elem)
	}
	if c.tables == nil && t == format.I8 {
		return nil, illegal(x, x.Type, "products of bytes do not fit")
	}
	if t != format.I8 && low.Temp.Elem == format.I8 {
		return nil, illegal(x, x.Type, "bytes stay bytes")
	}
	old := low.Temp
	low.Temp = &ir.Tensor{Name: old.Name, Elem: t}
	low.Flush = ir.Map(low.Flush, func(e ir.Expr) ir.Expr {
		if c, ok := e.(ir.Cast); ok && c.X.Type() == c.T {
			return c.X // what was narrow is wide again
		}
		if r, ok := e.(ir.Read); !ok || r.T != old {
			return e
		}
		if t != above.Elem {
			return c.widened(ir.Read{T: low.Temp}, above.Elem)
		}
		return ir.Read{T: low.Temp}
	})
	if c.tables != nil {
		c.entries(t)
	}
	return c, nil
}

// widened is a narrow accumulator as a number of type t. Bytes that sum lower halves of
// entries, or entries with residuals, have no sign.
func (s *Product) widened(sum ir.Read, t format.DType) ir.Expr {
	signed := ir.Cast{T: t, X: sum}
	if s.tables == nil || !s.unsigned(0) || sum.T.Elem != format.I8 {
		return signed
	}
	lower := ir.Cast{T: t, X: ir.Cast{T: format.U8, X: sum}}
	if s.unsigned(1) {
		return lower
	}
	return ir.Choose{By: ir.Axis{Name: halfLoop}, Of: []ir.Expr{lower, signed}}
}

// ReadScaled reads code fields in place: a field at bit p of its byte stays
// there, scaled by 2^p, if p < Below; otherwise it is shifted down to bit
// p mod Below. Fields of one scale share an accumulator, which is scaled back
// exactly when it is flushed. Below 8 is the AND trick: no shifts at all. Of fields
// in codewords, the byte is the one that their codeword decodes to.
//
//	sum[l] += (x >> 2f & 3) * act[f]   ->   sum1[l,f] += (x & 3<<2f) * act[f]
//	                                        sum[l]    += sum1[l,f] >> 2f
type ReadScaled struct {
	Below int `json:"below"`
}

// Apply implements Step.
func (x ReadScaled) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, "codes"); err != nil {
		return nil, err
	}
	if s.weights == nil {
		return nil, illegal(x, "codes", "pack first: it reads the fields of the layout")
	}
	if x.Below < 2 || x.Below > 8 {
		return nil, illegal(x, "codes", "below %d: want 2 to 8", x.Below)
	}
	if s.scaledClasses() {
		return nil, illegal(x, "codes", "already read scaled")
	}
	c := s.clone()
	st := c.main()
	raw, ok := st.values["w"].(ir.Read)
	if !ok {
		return nil, illegal(x, "codes", "the weight is not its code: only evenly spaced levels after hoist_zero are")
	}
	if st.isStaged("w") {
		return nil, illegal(x, "codes", "must come before stage w")
	}
	part := c.weights.Part("codes")
	if part.NumFields() < 2 {
		return nil, illegal(x, "codes", "a byte holds one field")
	}
	field, loops, whole := c.fieldOf(part)
	if !whole {
		return nil, illegal(x, "codes", "a field is part of a loop")
	}
	shifts := fieldShifts(part.Unjoined(), x.Below)
	classes := slices.Compact(slices.Sorted(slices.Values(shifts)))
	classOf := make([]int, len(shifts))
	for f, sh := range shifts {
		classOf[f] = slices.Index(classes, sh)
	}
	st.values["w"] = ir.Binary{Op: ir.Shl, X: raw, Y: ir.Lookup{Table: shifts, T: format.U8, X: field}}
	keep := nest.Keep{Name: "scale", N: len(classes), Value: ir.Lookup{Table: classOf, T: format.I32, X: field}}
	low := st.insert([]nest.Keep{keep}, func(t ir.Expr) ir.Expr {
		return ir.Binary{Op: ir.ShrS, X: t, Y: ir.Lookup{Table: classes, T: format.I32, X: ir.Axis{Name: "scale"}}}
	})
	low.shift, low.classOf, low.fields = classes, classOf, loops
	return c, nil
}

// fieldOf is the field number of the current point in terms of loops, if these are whole.
func (s *Product) fieldOf(part *format.Part) (field ir.Expr, loops []fieldLoop, whole bool) {
	field = ir.I32(0)
	for _, d := range part.Fields {
		l, ok := s.loopOf(d)
		if !ok {
			return nil, nil, false
		}
		loops = append(loops, fieldLoop{l.Name, l.N, d.Stride})
		field = ir.Binary{Op: ir.Add, X: field, Y: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: l.Name}, Y: ir.I32(d.Stride)}}
	}
	return field, loops, true
}

// fieldShifts chooses, for each field, where its code is read: the lowest bit
// after as few shifts as possible.
func fieldShifts(m [][]format.BitPos, below int) []int {
	out := make([]int, len(m))
	for f, bits := range m {
		best := -1
		for s := 0; s < below && s+len(bits) <= 8; s++ {
			c := shiftsNeeded(bits, s)
			prefer := s == bits[0].Bit%below && len(pieces(bits, s)) == 1
			if best < 0 || c < shiftsNeeded(bits, best) || c == shiftsNeeded(bits, best) && prefer {
				best = s
			}
		}
		out[f] = best
	}
	return out
}

// pieces counts the bits of a field that move together to bit s: by word and distance.
func pieces(bits []format.BitPos, s int) map[[2]int]int {
	out := map[[2]int]int{}
	for i, b := range bits {
		out[[2]int{b.Word, b.Bit - i - s}]++
	}
	return out
}

func shiftsNeeded(bits []format.BitPos, s int) int {
	n := 0
	for p := range pieces(bits, s) {
		if p[1] != 0 {
			n++
		}
	}
	return n
}

// Propose implements Proposer: each loop along K that is unrolled or the lanes of a vector.
func (x Rfactor) Propose(s State, _ Machine) (out []Step) {
	for _, l := range s.Loops() {
		if l.N > 1 && l.Root == "k" && (l.Kind == nest.Unrolled || l.Kind == nest.Vector) && (x.Loop == "" || x.Loop == l.Name) {
			out = append(out, Rfactor{l.Name})
		}
	}
	return out
}

// Propose implements Proposer: each loop along K outside the lanes.
func (x WidenEvery) Propose(s State, _ Machine) (out []Step) {
	for _, l := range s.Loops() {
		if isLane(l) {
			return out
		}
		if l.Root == "k" && l.Kind != nest.Averaged && (x.Loop == "" || x.Loop == l.Name) {
			out = append(out, WidenEvery{l.Name})
		}
	}
	return out
}

// Propose implements Proposer: the narrow types, bytes for sums of entries only.
func (x Accumulate) Propose(s State, _ Machine) []Step {
	if p, ok := s.(*Product); !ok || p.tables == nil {
		return []Step{Accumulate{"i16"}}
	}
	return []Step{Accumulate{"i16"}, Accumulate{"i8"}}
}

// Propose implements Proposer: half a byte, which takes few accumulators, no shifts at all, and quarters for fields of odd width; what
// pairs of products have room for.
func (x ReadScaled) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || p.tables != nil || p.weights == nil {
		return nil
	}
	pairs := slices.ContainsFunc(s.Loops(), func(l nest.Loop) bool { return l.Kind == nest.Dot && l.N == 2 })
	for _, x.Below = range []int{4, 8, 2} {
		if x.Below == 2 && p.Problem.Weight.Bits%2 == 0 {
			continue
		}
		if c, err := x.Apply(p); err == nil && (!pairs || c.checkPairs() == nil) {
			out = append(out, x)
		}
	}
	return out
}

// Sums is how many vectors of some bits hold the sums of a stage at once, at most.
func (n *nests) Sums(bits int) (most int) {
	for _, st := range n.stages {
		most = max(most, st.sums(bits))
	}
	return most
}

func (st *stage) sums(bits int) (vectors int) {
	kept, grouped := map[string]int{}, slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Root == "g" && st.reduce["g"] })
	at := func(i int) string { return cmp.Or(st.accumulators[i].At, st.outermost(st.accumulators[i].root)) }
	for i, acc := range st.accumulators {
		for _, k := range st.within(acc.At, acc.Keep) {
			kept[k.Name] = k.N
		}
		if i+1 < len(st.accumulators) && at(i) == at(i+1) && !(grouped && i+1 < st.made) {
			continue // it is there when the ones below are not any more
		}
		unrolled, lanes := max(kept["scale"], 1), acc.Temp.Elem.Bits()
		for _, l := range st.loops {
			_, apart := kept[l.Name]
			switch {
			case st.reduce[l.Root] && !apart:
			case isLane(l):
				lanes *= l.N
			case l.Kind == nest.Unrolled:
				unrolled *= l.N
			}
		}
		vectors += unrolled * ((lanes + bits - 1) / bits)
	}
	return vectors
}
