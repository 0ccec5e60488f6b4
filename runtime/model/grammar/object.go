package grammar

import (
	"slices"
	"unicode/utf8"
)

// object is the fields that the facts demand, in braces: the required ones, then the others that the schemas name, each there
// or not, then more where additionalProperties says so.
func (s *schema) object(f *facts) (int32, error) {
	required, optional, err := s.fields(f)
	if err != nil || required == nil {
		return impossible, err
	}
	more, err := s.additional(f)
	if err != nil {
		return 0, err
	}
	if missing := f.minFields - len(required); missing > 0 { // more of them are required, then
		if missing > len(optional) {
			return 0, errorf(f.path, "minProperties is not possible for more fields than properties names")
		}
		required, optional = append(required, optional[:missing]...), optional[missing:]
	}
	if f.maxFields >= 0 {
		if len(required) > f.maxFields {
			return impossible, nil
		}
		if free := f.maxFields - len(required); len(optional) > free || more != impossible {
			optional, more = optional[:min(free, len(optional))], impossible
		}
	}
	return s.braces(required, optional, more), nil
}

// fields are the texts of the fields that the schemas name. Without a value for a required one, required is nil.
func (s *schema) fields(f *facts) (required, optional []int32, err error) {
	required = []int32{}
	named := f.named()
	known, must := setOf(named), setOf(f.required)
	for _, name := range f.required {
		if !known[name] {
			named = append(named, name)
		}
	}
	for _, name := range named {
		value, err := s.of(f.field(name)...)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case value == impossible && must[name]:
			return nil, nil, nil
		case value == impossible:
		case must[name]:
			required = append(required, s.pair(s.literal(quote(name)), value))
		default:
			optional = append(optional, s.pair(s.literal(quote(name)), value))
		}
	}
	return required, optional, nil
}

// named are the names of fields that have schemas of their own, in the order of the schemas.
func (f *facts) named() (names []string) {
	seen := map[string]bool{}
	for _, o := range f.objects {
		for _, x := range o.fields.fields {
			if !seen[x.name] {
				seen[x.name] = true
				names = append(names, x.name)
			}
		}
	}
	return names
}

// field is the schemas of a field.
func (f *facts) field(name string) (schemas []value) {
	for _, o := range f.objects {
		if x, ok := o.fields.get(name); ok {
			schemas = append(schemas, x)
		} else if o.additional != nil {
			schemas = append(schemas, *o.additional)
		}
	}
	if len(schemas) == 0 {
		return []value{anyValue}
	}
	return schemas
}

// pair is a field.
func (s *schema) pair(name, value int32) int32 {
	return s.sequence(name, s.literal(":"), s.blank(), value)
}

// additional is a field with another name, or impossible. Where no schema speaks of fields, any may come.
func (s *schema) additional(f *facts) (int32, error) {
	schemas := []value{}
	for _, o := range f.objects {
		if o.additional != nil {
			schemas = append(schemas, *o.additional)
		}
	}
	switch {
	case len(f.objects) == 0 && len(f.required) == 0:
		schemas = append(schemas, anyValue)
	case len(schemas) == 0:
		return impossible, nil
	}
	v, err := s.of(schemas...)
	if err != nil || v == impossible {
		return impossible, err
	}
	names := slices.Concat(f.named(), f.required)
	if len(names) == 0 {
		return s.pair(s.quoted(s.repeat(s.char(), 0, -1)), v), nil
	}
	return s.pair(s.quoted(s.otherName(names)), v), nil
}

// otherName is the characters of a name, without escapes, that is none of the names.
func (s *schema) otherName(names []string) int32 {
	if len(s.nodes) > mostNodes {
		return 0
	}
	branches := map[rune][]string{}
	taken := false
	var order []rune
	for _, name := range names {
		c, n := utf8.DecodeRuneInString(name)
		if n == 0 {
			taken = true
			continue
		}
		if branches[c] == nil {
			order = append(order, c)
		}
		branches[c] = append(branches[c], name[n:])
	}
	var kids []int32
	for _, c := range order {
		if plainChars.has(c) {
			kids = append(kids, s.sequence(s.chars(newCharSet(span{c, c})), s.otherName(branches[c])))
		}
	}
	kids = append(kids, s.sequence(s.plainBut(order), s.repeat(s.plain(), 0, -1)))
	if !taken {
		kids = append(kids, s.sequence())
	}
	return s.choice(kids...)
}

// plainBut is a character that stands for itself and is none of these.
func (s *schema) plainBut(chars []rune) int32 {
	n, ok := s.shared.but[string(chars)]
	if !ok {
		var spans []span
		for _, c := range chars {
			spans = append(spans, span{c, c})
		}
		n = s.chars(plainChars.without(newCharSet(spans...)))
		s.shared.but[string(chars)] = n
	}
	return n
}

// braces is an object.
func (s *schema) braces(required, optional []int32, more int32) int32 {
	open := s.sequence(s.literal("{"), s.blank())
	if len(required) > 0 {
		return s.sequence(open, s.list(required), s.tail(optional, more), s.blank(), s.literal("}"))
	}
	// The first field that is there has no comma before it.
	var kids []int32
	rest := s.tail(nil, more) // behind each of them, from the last one on
	for _, kid := range slices.Backward(optional) {
		kids = append(kids, s.sequence(kid, rest))
		rest = s.sequence(s.optional(s.next(kid)), rest)
	}
	slices.Reverse(kids)
	if more != impossible {
		kids = append(kids, s.sequence(more, s.repeat(s.next(more), 0, -1)))
	}
	if len(kids) == 0 {
		return s.sequence(open, s.literal("}"))
	}
	return s.sequence(open, s.optional(s.sequence(s.choice(kids...), s.blank())), s.literal("}"))
}

// tail is optional fields after others, and more after them.
func (s *schema) tail(optional []int32, more int32) int32 {
	var parts []int32
	for _, kid := range optional {
		parts = append(parts, s.optional(s.next(kid)))
	}
	if more != impossible {
		parts = append(parts, s.repeat(s.next(more), 0, -1))
	}
	return s.sequence(parts...)
}
