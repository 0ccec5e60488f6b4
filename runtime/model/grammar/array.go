package grammar

// array is the elements that the facts demand, in brackets.
func (s *schema) array(f *facts) (int32, error) {
	most := f.maxItems
	var fixed []int32
	for i := 0; i < f.prefix() && (most < 0 || i < most); i++ {
		kid, err := s.of(f.element(i)...)
		if err != nil {
			return 0, err
		}
		if kid == impossible {
			most = i
			break
		}
		fixed = append(fixed, kid)
	}
	other, err := s.others(f)
	if err != nil {
		return 0, err
	}
	if other == impossible || f.prefix() > 0 && len(f.element(f.prefix())) == 0 && f.minItems <= len(fixed) {
		most = len(fixed) // elements that no schema describes are left out
	}
	if most >= 0 && f.minItems > most {
		return impossible, nil
	}
	least, bound := max(f.minItems-len(fixed), 0), -1
	if most >= 0 {
		bound = min(most-len(fixed), mostRepeats)
	}
	return s.brackets(fixed, other, int32(least), int32(bound)), nil
}

// others is an element behind the ones that have schemas of their own.
func (s *schema) others(f *facts) (int32, error) {
	if schemas := f.element(f.prefix()); len(schemas) > 0 {
		return s.of(schemas...)
	}
	return s.anything()
}

// prefix is how many elements have schemas of their own.
func (f *facts) prefix() (n int) {
	for _, a := range f.arrays {
		n = max(n, len(a.prefix))
	}
	return n
}

// element is the schemas of element i.
func (f *facts) element(i int) (schemas []value) {
	for _, a := range f.arrays {
		if i < len(a.prefix) {
			schemas = append(schemas, a.prefix[i])
		} else if a.items != nil {
			schemas = append(schemas, *a.items)
		}
	}
	return schemas
}

// brackets is an array of fixed elements and least to most others.
func (s *schema) brackets(fixed []int32, other, least, most int32) int32 {
	open, end := s.sequence(s.literal("["), s.blank()), s.sequence(s.blank(), s.literal("]"))
	switch {
	case len(fixed) > 0 && most == 0:
		return s.sequence(open, s.list(fixed), end)
	case len(fixed) > 0:
		return s.sequence(open, s.list(fixed), s.repeat(s.next(other), least, most), end)
	case most == 0:
		return s.sequence(open, s.literal("]"))
	}
	more := s.sequence(other, s.repeat(s.next(other), max(least-1, 0), max(most-1, -1)), s.blank())
	if least == 0 {
		more = s.optional(more)
	}
	return s.sequence(open, more, s.literal("]"))
}

// next is an element or field after another one.
func (s *schema) next(kid int32) int32 { return s.sequence(s.literal(","), s.blank(), kid) }

// list is elements or fields, one after the other.
func (s *schema) list(kids []int32) int32 {
	parts := []int32{kids[0]}
	for _, kid := range kids[1:] {
		parts = append(parts, s.next(kid))
	}
	return s.sequence(parts...)
}
