package grammar

// ParseSchema makes a grammar of a JSON schema, by JSON Schema 2020-12: its texts are JSON values that the schema accepts, but not
// all of them. Fields come in the order of the schema, the required ones first. There are other fields only where
// additionalProperties says so. A schema that demands nothing, {}, gives objects, as llama.cpp does, and true any value. An *Error has the place in the schema, or in its text.
func ParseSchema(text []byte) (*Grammar, error) {
	root, err := decode(text)
	if err != nil {
		return nil, err
	}
	s := &schema{builder: newBuilder(), root: root, known: map[string]int32{}, shared: sharedNodes{but: map[string]int32{}}}
	f, err := s.gather(root)
	if err != nil {
		return nil, err
	}
	if root.kind == isObject && f.free() {
		f.types = isObject
	}
	n, err := s.value(f)
	if err != nil {
		return nil, err
	}
	if n == impossible {
		return nil, errorf(line("#"), "no value is possible: what the schema demands contradicts itself")
	}
	return s.grammar(n, line("#"))
}

// schema makes a grammar of a JSON schema.
type schema struct {
	*builder
	root   value
	known  map[string]int32 // the nodes of values, by the keys of their facts
	open   []int32          // the numbers of the schemas that are being gathered
	shared sharedNodes
	depth  int
	// compared is how many facts were compared, for oneOf.
	compared int
}

// impossible is in place of the node of a value that there is not.
const impossible int32 = -1

// value is the texts of a value, or impossible.
func (s *schema) value(f *facts) (int32, error) {
	if n, ok := s.known[string(f.key)]; ok {
		return n, nil
	}
	if f.free() && !f.has[anyValue.id] {
		return s.anything()
	}
	if s.depth++; s.depth > mostDepth || len(s.known) > mostNodes/10 || len(s.nodes) > mostNodes {
		return 0, errorf(f.path, "the schema is too large")
	}
	defer func() { s.depth-- }()
	n := s.rule("", f.path)
	s.known[string(f.key)] = n
	kid, err := s.one(f)
	switch {
	case err != nil:
		return 0, err
	case kid == impossible:
		s.known[string(f.key)] = impossible
		s.define(n, s.choice()) // for where the value is in itself
		return impossible, nil
	}
	s.define(n, kid)
	return n, nil
}

// of is the texts of the value of schemas together.
func (s *schema) of(schemas ...value) (int32, error) {
	f, err := s.gather(schemas...)
	if err != nil {
		return 0, err
	}
	return s.value(f)
}

// one is the texts of a value: one of the alternatives, of the values of an enumeration, or of the types.
func (s *schema) one(f *facts) (int32, error) {
	if len(f.choices) > 0 {
		return s.alternative(f)
	}
	if f.isEnum {
		return s.enumeration(f)
	}
	var kids []int32
	for _, x := range []struct {
		types typeSet
		make  func(*facts) (int32, error)
	}{{isObject, s.object}, {isArray, s.array}, {isString, s.text}, {isNumber, s.number}, {isBool, s.boolean}, {isNull, s.null}} {
		if f.wanted()&x.types == 0 {
			continue
		}
		kid, err := x.make(f)
		if err != nil {
			return 0, err
		}
		if kid != impossible {
			kids = append(kids, kid)
		}
	}
	return s.any(kids), nil
}

// any is a choice of nodes, or impossible if there are none.
func (s *schema) any(kids []int32) int32 {
	if len(kids) == 0 {
		return impossible
	}
	return s.choice(kids...)
}

// wanted are the types of a value. Where the schema names none, they are the ones that it has keywords for.
func (f *facts) wanted() typeSet {
	if f.types != isAny {
		return f.types
	}
	types := typeSet(0)
	if len(f.objects) > 0 || len(f.required) > 0 || f.minFields > 0 || f.maxFields >= 0 {
		types |= isObject
	}
	if len(f.arrays) > 0 || f.minItems > 0 || f.maxItems >= 0 {
		types |= isArray
	}
	if f.minLength > 0 || f.maxLength >= 0 || f.pattern != nil || f.format != nil {
		types |= isString
	}
	if f.least != nil || f.most != nil {
		types |= isNumber
	}
	if types == 0 {
		return isAny
	}
	return types
}

// free reports whether any value will do.
func (f *facts) free() bool {
	return f.types == isAny && f.wanted() == isAny && !f.isEnum && len(f.choices) == 0
}

// alternative is one of the first alternatives, together with everything else.
func (s *schema) alternative(f *facts) (int32, error) {
	first, base := f.choose()
	var kids []int32
	var all []*facts
	for _, x := range first.items {
		with, err := s.with(base, x)
		if err != nil {
			return 0, err
		}
		with.path = x.path
		all = append(all, with)
		kid, err := s.value(with)
		if err != nil {
			return 0, err
		}
		if kid != impossible {
			kids = append(kids, kid)
		}
	}
	if first.exclusive {
		if err := s.apart(first.value, all); err != nil {
			return 0, err
		}
	}
	return s.any(kids), nil
}

// enumeration is one of the listed values that everything else allows.
func (s *schema) enumeration(f *facts) (int32, error) {
	var kids []int32
	for _, v := range f.enum {
		ok, err := f.allows(v)
		if err != nil {
			return 0, err
		}
		if ok {
			kids = append(kids, s.literal(v.encode()))
		}
	}
	return s.any(kids), nil
}

// allows reports whether a value of an enumeration has what else is demanded.
func (f *facts) allows(v value) (bool, error) {
	if v.types()&f.types == 0 {
		return false, nil
	}
	switch v.kind {
	case isNumber:
		x, err := rational(v)
		return err == nil && f.within(x), err
	case isString:
		n := len([]rune(v.text))
		if f.pattern != nil {
			return false, errorf(f.pattern, "pattern is not possible beside enum or const")
		}
		return n >= f.minLength && (f.maxLength < 0 || n <= f.maxLength), nil
	case isArray:
		if len(f.arrays) > 0 || f.minItems > 0 || f.maxItems >= 0 {
			return false, errorf(f.path, "keywords for elements are not possible beside enum or const with an array")
		}
	case isObject:
		if len(f.objects) > 0 || len(f.required) > 0 || f.minFields > 0 || f.maxFields >= 0 {
			return false, errorf(f.path, "keywords for fields are not possible beside enum or const with an object")
		}
	}
	return true, nil
}

func (s *schema) boolean(*facts) (int32, error) {
	return s.choice(s.literal("true"), s.literal("false")), nil
}

func (s *schema) null(*facts) (int32, error) { return s.literal("null"), nil }

// sharedNodes are nodes that many values have, 0 until they are needed.
type sharedNodes struct {
	blank, char, plain int32
	but                map[string]int32 // characters but these
}

// once makes a node when it is first needed.
func once(at *int32, make func() int32) int32 {
	if *at == 0 {
		*at = make()
	}
	return *at
}

// blank is the blanks that may be between the parts of arrays and objects: none, a space, or one or two ends of lines with an
// indentation.
func (s *schema) blank() int32 {
	return once(&s.shared.blank, func() int32 {
		tabs := s.oneByte(newByteSet(' ', ' ').or(newByteSet('\t', '\t')))
		return s.optional(s.choice(s.literal(" "), s.sequence(s.repeat(s.literal("\n"), 1, 2), s.repeat(tabs, 0, 20))))
	})
}

// anyValue is a schema that accepts each value.
var anyValue = value{path: &path{name: "any value"}, kind: isBool, truth: true}

// anything is any value.
func (s *schema) anything() (int32, error) {
	return s.of(anyValue)
}
