package schedule

import (
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Decompose chooses how the product of codes and activations becomes machine
// arithmetic.
//
// Family "dot": codes become 8-bit integers in registers, then a dot-product
// instruction. Value "affine" computes a level from its code (level = base +
// step*code), "lookup" reads it from a table.
//
//	sum += levels[codes[m,k]] * act[n,k]   ->   w = i8(codes[m,k])*step + base   or   w = table[codes[m,k]]
//	                                            sum += w * act[n,k]
//
// Family "table": digits of several codes of a row make an index into a table of
// sums of activations, which is made once for all rows. Value says what a digit is:
// "bits" (each bit of a code, 0 or 1), "signs" (each bit, as -1 or +1), "codes"
// (whole codes), "levels" (whole codes to the base of their number, as codewords have
// them). Parts says how many codes make an index, one table for each part;
// the loop k then counts whole sets of parts, and there are loops over the bits of
// a code (plane), the parts (part), and the bytes of an entry (half). Of f32
// activations, each part has act.float codes, the ones that are summed first, and the digits are the levels.
//
//	sum += levels[codes[m,k]] * act[n,k]   ->   x = digits of codes[m, k..]
//	                                            sum += coef[plane] * table[n,k,part][x]
//
// Mirror stores half of each table: if what digits count is symmetric, the entry of
// the mirror image x' of an index (every digit the opposite one) is -table[x].
//
//	x = lower of x and x', side = x above x'
//	sum += coef[plane] * (side ? -table[n,k,part][x] : table[n,k,part][x])
type Decompose struct {
	Family string `json:"family"`
	Value  string `json:"value"`
	Parts  []int  `json:"parts,omitempty"`
	Mirror bool   `json:"mirror,omitempty"`
}

// Apply implements Step.
func (x Decompose) Apply(s *Product) (*Product, error) {
	switch {
	case len(s.stages) > 0:
		return nil, illegal(x, x.Family, "already decomposed")
	case s.fill != nil && x.Family != "dot":
		return nil, illegal(x, x.Family, "groups are filled up for dot products")
	}
	c := s.clone()
	var err error
	switch x.Family {
	case "dot":
		err = x.dot(c)
	case "table":
		err = x.table(c)
	default:
		err = illegal(x, x.Family, "no such family; have dot, table")
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dot makes the stage of the product by dot products.
func (x Decompose) dot(s *Product) error {
	w := s.Problem.Weight
	switch {
	case s.Problem.Act.Floats():
		return illegal(x, x.Family, "dot products are of int8 activations; these are f32: use table")
	case x.Value != "affine" && x.Value != "lookup":
		return illegal(x, x.Value, "want affine or lookup")
	case x.Parts != nil:
		return illegal(x, x.Family, "has no parts")
	case x.Mirror:
		return illegal(x, x.Family, "has no tables to mirror")
	}
	base, step, affine := w.Affine()
	if x.Value == "affine" && !affine {
		return illegal(x, x.Value, "the levels are not evenly spaced; use lookup")
	}
	t, mk, nk := s.Problem.Tensors(), s.element("m"), s.element("n")
	st := s.product(1)
	st.values["a"] = ir.Read{T: t.Act, Index: nk}
	levels, code := s.Problem.Level(mk)
	if x.Value == "affine" {
		st.values["w"] = ir.Binary{Op: ir.Add, Y: ir.Const{T: format.I8, V: int64(base)},
			X: ir.Binary{Op: ir.Mul, X: ir.Cast{T: format.I8, X: code}, Y: ir.Const{T: format.I8, V: int64(step)}}}
	} else {
		st.values["w"] = lookup(levels, format.I8, code)
	}
	st.body = product(value("w", format.I8), value("a", format.I8))
	s.stages = []*stage{st}
	return nil
}

// element is the index of the element at the point of axis and the loops over K.
func (s *Product) element(axis string) []ir.Expr {
	return []ir.Expr{ir.Axis{Name: axis}, s.Problem.AllK()}
}

// product is the stage of the whole product with its plain loops. Loops over K
// count units of unit elements. Values and body are left to the family.
func (s *Product) product(unit int) *stage {
	p := s.Problem
	st := &stage{name: "out", reduce: map[string]bool{"k": true, "g": true}, values: map[string]ir.Expr{}}
	st.loops = []nest.Loop{{Name: "n", Root: "n", Coef: 1}, {Name: "m", Root: "m", Coef: 1}}
	if p.GroupK() > 0 {
		st.loops = append(st.loops, nest.Loop{Name: "g", Root: "g", Coef: 1})
	}
	st.loops = append(st.loops, nest.Loop{Name: "k", Root: "k", Coef: unit, N: p.GroupK() / unit})

	s.scalings(st)
	st.accumulators = []accumulator{{Accumulator: nest.Accumulator{Temp: &ir.Tensor{Name: "acc", Elem: format.F32}, Op: ir.Add}}}
	if p.Block() > 1 {
		st.accumulators = append(st.accumulators, s.blockAccumulator())
	}
	sum := &ir.Tensor{Name: "sum", Elem: p.SumType()}
	st.accumulators = append(st.accumulators, accumulator{Accumulator: nest.Accumulator{Temp: sum, Op: ir.Add, Flush: s.flushed(ir.Read{T: sum})}, root: "k"})
	st.made = len(st.accumulators)
	st.out = &ir.Tensor{Name: "out", Elem: format.F32, Dims: []string{"n", "m"}}
	st.index = []ir.Expr{ir.Axis{Name: "n"}, ir.Axis{Name: "m"}}
	st.final = p.Result(ir.Read{T: st.accumulators[0].Temp})
	return st
}

// blockAccumulator is the accumulator of a block of groups, beside it that of its minimums.
func (s *Product) blockAccumulator() accumulator {
	block := &ir.Tensor{Name: "block", Elem: format.I32}
	acc := nest.Accumulator{Temp: block, Op: ir.Add, Flush: s.scaled(ir.Read{T: block})}
	least := ir.Expr(nil)
	if s.Problem.Weight.Min {
		least = value("subleast", format.I32)
	}
	if each := s.Problem.SubLeast(least); each != nil {
		acc.Beside = &nest.Beside{Temp: leastTemp, Each: each}
	}
	return accumulator{Accumulator: acc, root: "g"}
}

// leastTemp is the sum of the minimums of a block.
var leastTemp = &ir.Tensor{Name: "blockleast", Elem: format.I32}

func product(w, a ir.Expr) ir.Expr {
	return ir.Binary{Op: ir.Mul, X: ir.Cast{T: format.I32, X: w}, Y: ir.Cast{T: format.I32, X: a}}
}

// lookup pads the table to a size that lookups have: 16, 32 ... 256.
func lookup(levels []int, t format.DType, code ir.Expr) ir.Expr {
	n := 16
	for n < len(levels) {
		n *= 2
	}
	return ir.Lookup{Table: append(slices.Clone(levels), make([]int, n-len(levels))...), T: t, X: code}
}

// scalings are the values that a group's sum is scaled by.
func (s *Product) scalings(st *stage) {
	p := s.Problem
	st.superSpan, st.block = max(p.Weight.Super/max(p.GroupK(), 1), 1), p.Block()
	super, supermin := named(st.values, "super", p.Super()), named(st.values, "supermin", p.SuperMin())
	if st.block > 1 {
		named(st.values, "sub", p.SubScale())
		named(st.values, "subleast", p.SubMin())
	}
	named(st.values, "scale", p.Scale(named(st.values, "own", p.Own(super))))
	least := ir.Expr(ir.Read{T: leastTemp})
	if p.Block() == 1 && p.Weight.Min {
		least = p.OfAct(p.Tensors().Sums)
	}
	named(st.values, "least", p.Least(named(st.values, "ownleast", p.OwnLeast(supermin)), p.ScaledSum(least)))
}

// named makes e a value of the name and reads it, nil of none.
func named(values map[string]ir.Expr, name string, e ir.Expr) ir.Expr {
	if e == nil {
		return nil
	}
	values[name] = e
	return value(name, e.Type())
}

// flushed is what a group's sum adds to the sum of all, or to its block.
func (s *Product) flushed(sum ir.Expr) ir.Expr {
	if s.Problem.Block() > 1 {
		return s.Problem.SubScaled(sum, value("sub", format.I32))
	}
	return s.scaled(sum)
}

// scaled is what a group's sum, or the integer of a block, adds to the sum of all.
func (s *Product) scaled(sum ir.Expr) ir.Expr {
	return s.Problem.Scaled(sum, value("scale", format.F32), value("least", format.F32))
}

// mostIndexed bounds the bits of codes for which tables are proposed: each bit is a lookup of its own, or doubles a table.
const mostIndexed = 4

// Propose implements Proposer: levels that are computed, levels from a table of at most 64, and tables of activations for what indices
// are made of: a part of one size, or parts that fill a byte or two.
func (x Decompose) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok {
		return nil
	}
	w := p.Problem.Weight
	_, _, affine := w.Affine()
	if affine && !p.Problem.Act.Floats() {
		out = append(out, Decompose{Family: "dot", Value: "affine"})
	}
	if (w.Codes() <= 64 || !affine) && !p.Problem.Act.Floats() {
		out = append(out, Decompose{Family: "dot", Value: "lookup"})
	}
	if s.(*Product).fill != nil {
		return out
	}
	for _, value := range []string{ir.DigitCodes, ir.DigitLevels, ir.DigitBits, ir.DigitSigns} {
		digit := map[string]int{ir.DigitCodes: w.Bits, ir.DigitLevels: bits.Len(uint(w.Codes() - 1))}[value]
		if value != ir.DigitLevels && w.Bits > mostIndexed || digit > mostIndexed {
			continue
		}
		for _, parts := range indexParts(max(digit, 1), value == ir.DigitLevels) {
			for _, mirror := range []bool{false, true} {
				step := Decompose{"table", value, parts, mirror}
				if _, err := step.Apply(p); err == nil {
					out = append(out, step)
				}
			}
		}
	}
	return out
}

// indexParts are ways to cut an index of digits of some bits: equal parts, and, unless they must be equal codewords, up to four that fill 8 or
// 16 bits, the largest or the smallest first.
func indexParts(digit int, equal bool) (out [][]int) {
	least := 1
	if equal { // a codeword is of several codes
		least = 2
	}
	for n := least; n*digit <= 8; n++ {
		for parts := []int{n}; len(parts) <= 4 && len(parts)*n*digit <= 16; parts = append(slices.Clone(parts), n) {
			out = append(out, parts)
		}
	}
	for _, word := range []int{8, 16} {
		total := word / digit
		for n := 2; n <= 4 && !equal; n++ {
			if even := total / n; even > 0 && total%n > 0 && (even+1)*digit <= 6 {
				parts := slices.Repeat([]int{even}, n)
				for i := range total % n {
					parts[i]++
				}
				back := slices.Clone(parts)
				slices.Reverse(back)
				out = append(out, parts, back)
			}
		}
	}
	return out
}
