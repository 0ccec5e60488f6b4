package grammar

import "slices"

// apart is an error unless a value can hold at most one of the alternatives of oneOf.
func (s *schema) apart(v value, all []*facts) error {
	for i := range all {
		for j := range i {
			ok, err := s.disjoint(all[j], all[i], 0)
			if err != nil {
				return err
			}
			if s.compared > mostCompared {
				return errorf(v, "there are too many alternatives to tell apart: use anyOf")
			}
			if !ok {
				return errorf(v, "alternatives %d and %d are not told apart by a type, a constant or a required field: use anyOf", j, i)
			}
		}
	}
	return nil
}

// mostNested is how deep in fields disjoint looks for a difference.
const mostNested = 4

// mostCompared bounds how many facts of a schema are compared.
const mostCompared = 200_000

// disjoint reports whether it is clear that no value has what both facts demand.
func (s *schema) disjoint(f, g *facts, depth int) (bool, error) {
	if s.compared++; s.compared > mostCompared {
		return false, nil
	}
	for _, pair := range [][2]*facts{{f, g}, {g, f}} {
		if len(pair[0].choices) > 0 {
			return s.eachDisjoint(pair[0], pair[1], depth)
		}
	}
	types := f.types & g.types
	if f.isEnum || g.isEnum {
		return enumsDisjoint(f, g), nil
	}
	if types&isObject != 0 {
		if ok, err := s.fieldsDisjoint(f, g, depth); !ok {
			return false, err
		}
		types &^= isObject
	}
	if types&isNumber != 0 && (f.above(g) || g.above(f)) {
		types &^= isNumber
	}
	return types == 0, nil
}

// eachDisjoint is disjoint of each of the first alternatives of f.
func (s *schema) eachDisjoint(f, g *facts, depth int) (bool, error) {
	if depth > mostNested {
		return false, nil
	}
	first, base := f.choose()
	for _, x := range first.items {
		with, err := s.with(base, x)
		if err != nil {
			return false, err
		}
		if ok, err := s.disjoint(with, g, depth+1); !ok {
			return false, err
		}
	}
	return true, nil
}

// enumsDisjoint reports whether no listed value of one may be one of the other.
func enumsDisjoint(f, g *facts) bool {
	if !f.isEnum {
		f, g = g, f
	}
	others := canonicals(g.enum)
	for _, x := range f.enum {
		if x.types()&f.types&g.types != 0 && (!g.isEnum || others[x.canonical()]) {
			return false
		}
	}
	return true
}

// above reports whether all numbers of f are larger than all of g.
func (f *facts) above(g *facts) bool {
	if f.least == nil || g.most == nil {
		return false
	}
	c := f.least.Cmp(g.most)
	return c > 0 || c == 0 && (f.overLeast || g.underMost)
}

// fieldsDisjoint reports whether no object can have the fields of both: one needs a field that the other forbids, or they need
// the same one with other values.
func (s *schema) fieldsDisjoint(f, g *facts, depth int) (bool, error) {
	if depth > mostNested {
		return false, nil
	}
	for _, name := range slices.Concat(f.required, g.required) {
		a, err := s.gather(f.field(name)...)
		if err != nil {
			return false, err
		}
		b, err := s.gather(g.field(name)...)
		if err != nil {
			return false, err
		}
		if ok, err := s.disjoint(a, b, depth+1); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
