package schedule

import (
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// FoldScales multiplies the weights of a block of groups that are one integer by their integer scales, so that the block is one sum and
// its groups are no loop any more: instructions may sum over several of them. A product is two bytes, its limbs: its low seven bits, and
// the bits above them. The loop limb counts them. Minimums of groups are added up beside the sum. It comes right after decompose.
//
//	for g                                  for g
//	    for i 16                               for limb 2
//	        sum = 0                                sum1 = 0
//	        for k 16                               for k 256
//	            sum += w[i,k]*a         ->             sum1 += (w[k]*scale[k/16])'limb * a
//	        block += sum*scale[i]                  block += sum1 << 7*limb
//	    acc += block*super                     acc += block*super
type FoldScales struct{}

// limbLoop counts the limbs of products of weights and scales.
const limbLoop = "limb"

// leastLoop counts the groups of a block whose minimums are added up.
const leastLoop = "least"

// limbBits is the bits of a limb that another one follows, so that it is a byte with a sign.
const limbBits = 7

// Apply implements Step.
func (x FoldScales) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, "scales"); err != nil {
		return nil, err
	}
	of := s.main()
	switch {
	case s.tables != nil:
		return nil, illegal(x, "scales", "weights are indices of tables: they have no products with scales")
	case of.block == 1:
		return nil, illegal(x, "scales", "no groups have integers for scales, so that a block of them is one integer")
	case s.fill != nil:
		return nil, illegal(x, "scales", "groups are filled up: a sum over several of them would count what fills them")
	case s.MustHoist():
		return nil, illegal(x, "scales", "zero points must leave the product: hoist_zero")
	case s.hoisted || of.isStaged("w") || !s.asDecomposed():
		return nil, illegal(x, "scales", "fold them right after decompose, while weights have a sign")
	}
	if err := x.fits(s.Problem.Weight); err != nil {
		return nil, err
	}
	c := s.clone()
	c.folded = true
	wide := func(e ir.Expr) ir.Expr { return ir.Cast{T: format.I16, X: e} }
	scale := ir.Read{T: s.Problem.Tensors().Scales, Index: s.element("m")}
	c.main().values["w"] = limbsOf(ir.Binary{Op: ir.Mul, X: wide(of.values["w"]), Y: wide(scale)})
	c.wholeBlocks()
	return c, nil
}

// asDecomposed says that the loops are the ones that decompose made.
func (s *Product) asDecomposed() bool {
	loops := s.main().loops
	return len(loops) == 4 && loops[2] == nest.Loop{Name: "g", Root: "g", Coef: 1} && loops[3] == nest.Loop{Name: "k", Root: "k", Coef: 1, N: s.Problem.GroupK()}
}

// fits proves that both limbs of the products of weights and scales of w are bytes with a sign.
func (x FoldScales) fits(w format.Weight) error {
	lo, hi := 0, 0
	least, most := w.SubRange()
	for _, level := range []int{w.MinLevel(), w.MaxLevel()} {
		for _, scale := range []int{least, most} {
			lo, hi = min(lo, level*scale), max(hi, level*scale)
		}
	}
	if lo>>limbBits < math.MinInt8 || hi>>limbBits > math.MaxInt8 {
		return illegal(x, "scales", "products of %d to %d fit no two bytes with a sign", lo, hi)
	}
	return nil
}

// limbsOf is the limb of p at which the loop stands: p = limb 0 + limb 1 << limbBits.
func limbsOf(p ir.Expr) ir.Expr {
	low := ir.Binary{Op: ir.And, X: p, Y: ir.Const{T: format.I16, V: 1<<limbBits - 1}}
	high := ir.Binary{Op: ir.ShrS, X: p, Y: ir.Const{T: format.I16, V: limbBits}}
	return ir.Choose{By: ir.Axis{Name: limbLoop}, Of: []ir.Expr{ir.Cast{T: format.I8, X: low}, ir.Cast{T: format.I8, X: high}}}
}

// wholeBlocks makes g count blocks, k the elements of one, and the sum of a group the sum of a block.
func (s *Product) wholeBlocks() {
	st := s.main()
	sum := st.accumulators[2]
	sum.Flush = s.scaled(ir.Read{T: sum.Temp})
	if least := st.accumulators[1].Beside; least != nil {
		sum.Beside = &nest.Beside{Temp: least.Temp, Each: least.Each, Over: []nest.Loop{{Name: leastLoop, Root: "g", Coef: 1, N: st.block, Kind: nest.Unrolled}}}
	}
	st.loops[2].Coef, st.loops[3].N = st.block, st.block*st.loops[3].N
	st.block, st.made = 1, 2
	st.accumulators = []accumulator{st.accumulators[0], sum}
	limb := nest.Loop{Name: limbLoop, Root: limbLoop, Coef: 1, N: 2, Kind: nest.Unrolled}
	st.loops = []nest.Loop{st.loops[0], st.loops[1], st.loops[2], limb, st.loops[3]}
	st.reduce[limbLoop] = true
	st.insert([]nest.Keep{{Name: limbLoop}}, func(t ir.Expr) ir.Expr {
		return ir.Binary{Op: ir.Mul, X: t, Y: ir.Lookup{Table: []int{1, 1 << limbBits}, T: format.I32, X: ir.Axis{Name: limbLoop}}}
	})
}
