package ir

import "fmt"

// Shared is a value that an expression uses more than once. Later values and the expression read it by its name.
type Shared struct {
	Name  string
	Value Expr
}

// Share finds the parts of e that occur more than once and have at least `least` operations. It returns them in order of
// evaluation, called v0, v1 and so on, and e in terms of them.
func Share(e Expr, least int) ([]Shared, Expr) {
	s := &sharer{uses: map[string]int{}, named: map[string]Expr{}, least: least}
	s.count(e)
	return s.values, s.rewrite(e)
}

type sharer struct {
	uses   map[string]int // of expressions, by their text
	named  map[string]Expr
	values []Shared
	least  int
}

// count counts uses of e and of its parts. Parts of a second use are no uses of their own.
func (s *sharer) count(e Expr) {
	if Operations(e) >= s.least {
		key := e.String()
		s.uses[key]++
		if s.uses[key] > 1 {
			return
		}
	}
	for _, x := range operands(e) {
		s.count(x)
	}
}

// rewrite is e with names for values that are used more than once, inner ones first.
func (s *sharer) rewrite(e Expr) Expr {
	key := ""
	if Operations(e) >= s.least {
		key = e.String()
		if v := s.named[key]; v != nil {
			return v
		}
	}
	out := withOperands(e, s.rewrite)
	if key == "" || s.uses[key] < 2 {
		return out
	}
	name := fmt.Sprintf("v%d", len(s.values))
	s.values = append(s.values, Shared{name, out})
	s.named[key] = Read{T: &Tensor{Name: name, Elem: e.Type()}}
	return s.named[key]
}

// Operations counts the operations of e.
func Operations(e Expr) int {
	n := 0
	Walk(e, func(x Expr) {
		switch x.(type) {
		case Unary, Binary, Cast, Lookup, Join, Choose:
			n++
		}
	})
	return n
}

// operands are the expressions that e is made of, without indices.
func operands(e Expr) []Expr {
	switch e := e.(type) {
	case Unary:
		return []Expr{e.X}
	case Binary:
		return []Expr{e.X, e.Y}
	case Cast:
		return []Expr{e.X}
	case Lookup:
		return []Expr{e.X}
	case Choose:
		return append([]Expr{e.By}, e.Of...)
	}
	return nil
}

// withOperands is e made of f of its operands.
func withOperands(e Expr, f func(Expr) Expr) Expr {
	switch x := e.(type) {
	case Unary:
		return Unary{x.Op, f(x.X)}
	case Binary:
		left := f(x.X)
		return Binary{x.Op, left, f(x.Y)}
	case Cast:
		return Cast{x.T, f(x.X)}
	case Lookup:
		return Lookup{x.Table, x.T, f(x.X)}
	case Choose:
		c := Choose{By: f(x.By)}
		for _, y := range x.Of {
			c.Of = append(c.Of, f(y))
		}
		return c
	}
	return e
}
