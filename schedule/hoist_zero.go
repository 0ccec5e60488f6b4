package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// HoistZero takes what all weights of a group have in common, the base of
// evenly spaced levels or the smallest level of a table, and the zero point, out
// of the dot product: the weights become unsigned and the activation sums make
// up for it, as the start value of the accumulator (At "init") or when the
// group's sum is scaled ("flush").
//
//	w = code - 8                        w = code
//	sum = 0                             sum = -8*sums[n]
//	sum += w*act                 ->     sum += w*act
type HoistZero struct {
	At string `json:"at"`
}

// Apply implements Step.
func (x HoistZero) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.At); err != nil {
		return nil, err
	}
	if x.At != "init" && x.At != "flush" {
		return nil, illegal(x, x.At, "want init or flush")
	}
	switch {
	case s.hoisted:
		return nil, illegal(x, x.At, "already hoisted")
	case s.folded:
		return nil, illegal(x, x.At, "weights are multiplied by the scales of their groups, sums of activations are not")
	}
	if s.main().isStaged("w") {
		return nil, illegal(x, x.At, "must come before stage w")
	}
	c := s.clone()
	st := c.main()
	c.hoisted = true
	base, step := c.bias(), 1
	if c.tables == nil {
		base, step = c.unsign(st)
	}
	if x.At == "init" && step != 1 {
		return nil, illegal(x, x.At, "levels %d apart cannot start the accumulator; use flush", step)
	}
	sum := st.sum()
	if x.At == "init" {
		sum.Init = plus(sum.Init, c.correction(base))
		return c, nil
	}
	var total ir.Expr = ir.Read{T: sum.Temp}
	if step != 1 {
		total = ir.Binary{Op: ir.Mul, X: total, Y: ir.I32(step)}
	}
	sum.Flush = c.flushed(c.halved(plus(total, c.correction(base))))
	return c, nil
}

// plus is x + y. Either may be nil.
func plus(x, y ir.Expr) ir.Expr {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return ir.Binary{Op: ir.Add, X: x, Y: y}
}

// bias is what tables leave to the activation sums.
func (s *Product) bias() int {
	if s.tables == nil {
		return 0
	}
	return s.tables.Bias
}

// unsign makes the weight value unsigned and returns level = base + step*value.
func (s *Product) unsign(st *stage) (base, step int) {
	w := s.Problem.Weight
	if _, table := st.values["w"].(ir.Lookup); !table {
		base, step, _ = w.Affine()
		st.values["w"] = codesOf(st.values["w"])
	} else {
		levels, code := s.Problem.Level(s.element("m"))
		base, step = w.MinLevel(), 1
		for i := range levels {
			levels[i] -= base
		}
		st.values["w"] = lookup(levels, format.U8, code)
	}
	st.body = product(value("w", format.U8), value("a", format.I8))
	return base, step
}

// codesOf is the read of the codes within a weight value.
func codesOf(e ir.Expr) ir.Read {
	var out ir.Read
	ir.Walk(e, func(x ir.Expr) {
		if r, ok := x.(ir.Read); ok && r.T.Name == "codes" {
			out = r
		}
	})
	return out
}

// correction is base*sums - zeros*sums, nil if that is 0. Without zero points
// and minimums, which need the sums themselves, the caller of the kernel provides
// base*sums.
func (s *Product) correction(base int) ir.Expr {
	p := s.Problem
	sums := p.OfAct(p.Tensors().Sums)
	t := p.Tensors().Zeros
	switch {
	case t == nil && base == 0:
		return nil
	case t == nil && p.Weight.Min:
		return ir.Binary{Op: ir.Mul, X: sums, Y: ir.I32(base)}
	case t == nil: // the caller multiplies, once for all rows
		s.sumBy = base
		return sums
	}
	var e ir.Expr
	if base != 0 {
		e = ir.Binary{Op: ir.Mul, X: sums, Y: ir.I32(base)}
	}
	zero := ir.Binary{Op: ir.Mul, X: sums, Y: ir.Cast{T: format.I32,
		X: ir.Read{T: t, Index: []ir.Expr{ir.Axis{Name: "m"}, p.FirstK()}}}}
	if s.tables != nil && s.tables.HalfOf == 2 {
		zero.X = ir.Binary{Op: ir.Shl, X: sums, Y: ir.I32(1)}
	}
	if e == nil {
		e = ir.I32(0)
	}
	return ir.Binary{Op: ir.Sub, X: e, Y: zero}
}

func (s *Product) scaledClasses() bool {
	return slices.ContainsFunc(s.main().accumulators, func(l accumulator) bool { return l.shift != nil })
}

// MustHoist says that no kernel does without hoist_zero.
func (s *Product) MustHoist() bool { return s.Problem.Weight.Zero || s.bias() != 0 }

// Propose implements Proposer: at the beginning where the levels are one apart, and at the end.
func (x HoistZero) Propose(s State, _ Machine) []Step {
	p, ok := s.(*Product)
	if !ok || p.Problem.Act.Floats() {
		return nil
	}
	_, step, affine := p.Problem.Weight.Affine()
	if affine && step != 1 || p.tables != nil {
		return []Step{HoistZero{"flush"}, HoistZero{"init"}}
	}
	return []Step{HoistZero{"init"}, HoistZero{"flush"}}
}
