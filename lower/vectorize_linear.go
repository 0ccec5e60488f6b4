package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
)

// variable is where a loop stands: at 0 if it is not open.
type variable struct {
	at   int
	open bool
}

// variable is that of a loop, always the same one.
func (v *vectorizer) variable(loop string) *variable {
	x := v.vars[loop]
	if x == nil {
		x = &variable{}
		v.vars[loop] = x
	}
	return x
}

// set opens a loop, or moves it.
func (v *vectorizer) set(loop string, at int) { *v.variable(loop) = variable{at, true} }

// affineIndices are the indices of an access. Others, and the same ones where an axis means something else, have another number.
type affineIndices struct {
	number int
	all    []affineIndex
}

// affineIndex is an index that is a sum of multiples of axes. It is evaluated often, and so without looking up names.
type affineIndex struct {
	is    bool // false: the index is something else
	base  int64
	terms []indexTerm
	axes  []indexAxis
}

// indexTerm is a multiple of a variable.
type indexTerm struct {
	of    *variable
	times int64
}

// indexAxis is the variable of an axis, and whether it was open when terms were made of it.
type indexAxis struct {
	*variable
	was bool
}

// value is what index j of an access is where the loops stand.
func (v *vectorizer) value(index []ir.Expr, j int) (int64, error) {
	x, ok := v.affine[&index[0]]
	if !ok {
		x = &affineIndices{all: make([]affineIndex, len(index))}
		v.affine[&index[0]] = x
	}
	all := x.all
	l := &all[j]
	if !ok || l.is && l.stale() {
		v.indexed++
		x.number = v.indexed
		for i, e := range index {
			all[i] = affineIndex{is: affine(e), terms: all[i].terms[:0], axes: all[i].axes[:0]}
			if all[i].is {
				v.add(&all[i], e, 1)
			}
		}
	}
	if !l.is {
		return ir.EvalExpr(index[j], v)
	}
	sum := l.base
	for _, t := range l.terms {
		sum += int64(t.of.at) * t.times
	}
	return sum, nil
}

// stale says that an axis means something else by now.
func (l *affineIndex) stale() bool {
	for _, a := range l.axes {
		if a.open != a.was {
			return true
		}
	}
	return false
}

// add adds e, which is affine, times a number.
func (v *vectorizer) add(l *affineIndex, e ir.Expr, times int64) {
	switch e := e.(type) {
	case ir.Const:
		l.base += e.V * times
	case ir.Axis:
		x := v.variable(e.Name)
		if l.axes = append(l.axes, indexAxis{x, x.open}); x.open {
			l.terms = append(l.terms, indexTerm{x, times})
			return
		}
		for _, loop := range v.roots[e.Name] {
			l.terms = append(l.terms, indexTerm{v.variable(loop.Name), times * int64(loop.Coef)})
		}
	case ir.Binary:
		x, left := e.X.(ir.Const)
		y, right := e.Y.(ir.Const)
		switch {
		case e.Op == ir.Add:
			v.add(l, e.X, times)
			v.add(l, e.Y, times)
		case left:
			v.add(l, e.Y, times*x.V)
		case right:
			v.add(l, e.X, times*y.V)
		}
	}
}

// shiftedIndex is indices, and what the last one is instead: itself plus a number, or 0.
type shiftedIndex struct {
	of   *ir.Expr // the first
	by   int
	zero bool
}

// plusIndex is indices whose last one is larger by a number, the same ones every time.
func (v *vectorizer) plusIndex(index []ir.Expr, by int) []ir.Expr {
	return v.shiftedBy(shiftedIndex{of: &index[0], by: by}, index)
}

// zeroIndex is indices whose last one is 0, the same ones every time.
func (v *vectorizer) zeroIndex(index []ir.Expr) []ir.Expr {
	return v.shiftedBy(shiftedIndex{of: &index[0], zero: true}, index)
}

func (v *vectorizer) shiftedBy(key shiftedIndex, index []ir.Expr) []ir.Expr {
	if out, ok := v.shifted[key]; ok {
		return out
	}
	out := slices.Clone(index)
	last := &out[len(out)-1]
	if *last = ir.Expr(ir.I32(0)); !key.zero {
		*last = ir.Binary{Op: ir.Add, X: index[len(index)-1], Y: ir.I32(key.by)}
	}
	v.shifted[key] = out
	return out
}
