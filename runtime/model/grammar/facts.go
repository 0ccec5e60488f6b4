package grammar

import (
	"encoding/binary"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// facts are what schemas demand of a value together.
type facts struct {
	key     []byte         // the numbers of the schemas, in their order
	path    *path          // of the first one
	has     map[int32]bool // the schemas
	types   typeSet
	enum    []value // the values that there are
	isEnum  bool
	choices []alternatives
	chosen  []int32 // the numbers of the schemas with alternatives that were chosen among

	least, most          *big.Rat // of a number; nil: any
	overLeast, underMost bool     // the bound itself is no value
	minLength, maxLength int      // of a string; maxLength < 0: any
	pattern, format      *value
	arrays               []arrayFacts
	minItems, maxItems   int // maxItems < 0: any
	objects              []objectFacts
	required             []string
	minFields, maxFields int // maxFields < 0: any
}

// alternatives are schemas: one of them holds, and no other one if exclusive.
type alternatives struct {
	value
	exclusive bool
}

// arrayFacts are the keywords for the elements of an array in one schema.
type arrayFacts struct {
	prefix []value
	items  *value // of the others; nil: any
}

// objectFacts are the keywords for the fields of an object in one schema.
type objectFacts struct {
	fields     value
	additional *value // of other fields; nil: any
}

func newFacts() *facts {
	return &facts{has: map[int32]bool{}, types: isAny, maxLength: -1, maxItems: -1, maxFields: -1}
}

// clone is a copy to which other schemas can be added.
func (f *facts) clone() *facts {
	out := *f
	out.key, out.has = slices.Clip(f.key), maps.Clone(f.has)
	out.enum, out.choices, out.arrays = slices.Clip(f.enum), slices.Clip(f.choices), slices.Clip(f.arrays)
	out.objects, out.required, out.chosen = slices.Clip(f.objects), slices.Clip(f.required), slices.Clip(f.chosen)
	return &out
}

// gather is the facts of schemas together.
func (s *schema) gather(schemas ...value) (*facts, error) {
	return s.with(newFacts(), schemas...)
}

// with is facts with more schemas added.
func (s *schema) with(f *facts, schemas ...value) (*facts, error) {
	f = f.clone()
	for _, v := range schemas {
		if err := s.addTo(f, v); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// choose takes the first alternatives out of the facts. One of them is to be added.
func (f *facts) choose() (alternatives, *facts) {
	first, out := f.choices[0], f.clone()
	out.choices = slices.Clone(f.choices[1:])
	out.key = binary.LittleEndian.AppendUint32(out.key, uint32(first.id))
	out.chosen = append(out.chosen, first.up.id)
	return first, out
}

// addTo adds a schema to facts.
func (s *schema) addTo(f *facts, v value) error {
	switch {
	case v.kind == isBool:
		if !v.truth {
			f.types = 0
		}
	case v.kind != isObject:
		return errorf(v, "want a schema, which is an object, true or false, not %s", v.short())
	case slices.Contains(s.open, v.id) || slices.Contains(f.chosen, v.id):
		return errorf(v, "the schema refers to itself, with nothing around it that ends")
	}
	if f.path == nil {
		f.path = v.path
	}
	if f.has[v.id] {
		return nil
	}
	f.has[v.id], f.key = true, binary.LittleEndian.AppendUint32(f.key, uint32(v.id))
	s.open = append(s.open, v.id)
	defer func() { s.open = s.open[:len(s.open)-1] }()
	return s.keywords(f, v)
}

// refused are the keywords that no grammar can hold a value to, or that this package cannot.
var refused = strings.Fields(`not if then else contains minContains maxContains patternProperties propertyNames dependentRequired
	dependentSchemas dependencies unevaluatedItems unevaluatedProperties multipleOf $dynamicRef $recursiveRef extends disallow`)

// keywords adds the keywords of a schema. Other ones, such as title and default, are remarks.
func (s *schema) keywords(f *facts, v value) error {
	for _, x := range v.fields {
		if slices.Contains(refused, x.name) {
			return errorf(x, "the keyword %s is not possible: leave it out", x.name)
		}
		if err := s.keyword(f, x.name, x.value); err != nil {
			return err
		}
	}
	f.array(v)
	f.object(v)
	return nil
}

// keyword adds one keyword.
func (s *schema) keyword(f *facts, name string, v value) (err error) {
	switch name {
	case "$ref":
		return s.reference(f, v)
	case "allOf":
		return s.all(f, v)
	case "anyOf", "oneOf":
		return f.offer(v, name == "oneOf")
	case "type":
		return f.restrict(v)
	case "enum":
		if v.kind != isArray || len(v.items) == 0 {
			return errorf(v, "want a list of values")
		}
		f.among(v.items)
	case "const":
		f.among([]value{v})
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum":
		return f.bound(name, v)
	case "minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties":
		return f.length(name, v)
	case "pattern", "format":
		return f.text(name, v)
	case "required":
		f.required, err = names(f.required, v)
	case "uniqueItems":
		if v.kind != isBool || v.truth {
			return errorf(v, "the keyword uniqueItems is not possible: leave it out")
		}
	case "prefixItems", "properties", "items", "additionalItems", "additionalProperties":
		return shape(name, v)
	}
	return err
}

// restrict adds the keyword type.
func (f *facts) restrict(v value) error {
	list := v.items
	if v.kind != isArray {
		list = []value{v}
	}
	types := typeSet(0)
	for _, x := range list {
		t, ok := typeNames[x.text]
		if !ok || x.kind != isString {
			return errorf(v, "there is no type %s: want null, boolean, object, array, string, integer or number", x.short())
		}
		types |= t
	}
	f.types &= types
	return nil
}

// among adds the values of enum or const.
func (f *facts) among(list []value) {
	before, seen := canonicals(f.enum), map[string]bool{}
	var both []value
	for _, x := range list {
		if c := x.canonical(); (!f.isEnum || before[c]) && !seen[c] {
			seen[c], both = true, append(both, x)
		}
	}
	f.enum, f.isEnum = both, true
}

// canonicals are the canonical texts of values.
func canonicals(list []value) map[string]bool {
	out := map[string]bool{}
	for _, x := range list {
		out[x.canonical()] = true
	}
	return out
}

// offer adds anyOf or oneOf.
func (f *facts) offer(v value, exclusive bool) error {
	if v.kind != isArray || len(v.items) == 0 {
		return errorf(v, "want a list of schemas")
	}
	f.choices = append(f.choices, alternatives{v, exclusive})
	return nil
}

// all adds allOf.
func (s *schema) all(f *facts, v value) error {
	if v.kind != isArray {
		return errorf(v, "want a list of schemas")
	}
	for _, x := range v.items {
		if err := s.addTo(f, x); err != nil {
			return err
		}
	}
	return nil
}

// bound adds a bound of numbers.
func (f *facts) bound(name string, v value) error {
	x, err := rational(v)
	if err != nil {
		return err
	}
	exclusive := strings.HasPrefix(name, "exclusive")
	if strings.HasSuffix(strings.ToLower(name), "minimum") {
		if f.least == nil || x.Cmp(f.least) > 0 || x.Cmp(f.least) == 0 && exclusive {
			f.least, f.overLeast = x, exclusive
		}
		return nil
	}
	if f.most == nil || x.Cmp(f.most) < 0 || x.Cmp(f.most) == 0 && exclusive {
		f.most, f.underMost = x, exclusive
	}
	return nil
}

// length adds a bound of a number of characters, elements or fields.
func (f *facts) length(name string, v value) error {
	x, err := rational(v)
	if err != nil || !x.IsInt() || x.Sign() < 0 {
		return errorf(v, "want a whole number, 0 or more, not %s", v.short())
	}
	n := 1 << 30
	if x.Num().IsInt64() {
		n = int(min(x.Num().Int64(), 1<<30))
	}
	least, most := &f.minLength, &f.maxLength
	switch {
	case strings.HasSuffix(name, "Items"):
		least, most = &f.minItems, &f.maxItems
	case strings.HasSuffix(name, "Properties"):
		least, most = &f.minFields, &f.maxFields
	}
	switch {
	case strings.HasPrefix(name, "max"):
		if *most < 0 || n < *most {
			*most = n
		}
	case n > mostRepeats:
		return errorf(v, "more than %d are not possible", mostRepeats)
	default:
		*least = max(*least, n)
	}
	return nil
}

// text adds pattern or format.
func (f *facts) text(name string, v value) error {
	if v.kind != isString {
		return errorf(v, "want a string, not %s", v.short())
	}
	to := &f.pattern
	if name == "format" {
		to = &f.format
	}
	if *to != nil && (*to).text != v.text {
		return errorf(v, "there is another %s, at %s: only one is possible", name, *to)
	}
	*to = &v
	return nil
}

// setOf is a set of names.
func setOf(names []string) map[string]bool {
	out := map[string]bool{}
	for _, x := range names {
		out[x] = true
	}
	return out
}

// names adds strings to a list.
func names(list []string, v value) ([]string, error) {
	if v.kind != isArray {
		return nil, errorf(v, "want a list of names, not %s", v.short())
	}
	seen := setOf(list)
	for _, x := range v.items {
		if x.kind != isString {
			return nil, errorf(x, "want a name, not %s", x.short())
		}
		if !seen[x.text] {
			seen[x.text], list = true, append(list, x.text)
		}
	}
	return list, nil
}

// shape checks that a keyword for elements or fields has schemas where it should.
func shape(name string, v value) error {
	switch {
	case name == "properties" && v.kind != isObject:
		return errorf(v, "want an object with a schema for each name, not %s", v.short())
	case name == "prefixItems" && v.kind != isArray:
		return errorf(v, "want a list of schemas, not %s", v.short())
	}
	return nil
}

// array adds the keywords for elements of one schema. A list as items is prefixItems of older drafts.
func (f *facts) array(v value) {
	var a arrayFacts
	prefix, hasPrefix := v.get("prefixItems")
	items, hasItems := v.get("items")
	if hasItems && items.kind == isArray {
		prefix, hasPrefix = items, true
		items, hasItems = v.get("additionalItems")
	}
	if a.prefix = prefix.items; hasItems {
		a.items = &items
	}
	if hasPrefix || hasItems {
		f.arrays = append(f.arrays, a)
	}
}

// object adds the keywords for fields of one schema.
func (f *facts) object(v value) {
	fields, hasFields := v.get("properties")
	additional, hasAdditional := v.get("additionalProperties")
	o := objectFacts{fields: fields}
	if hasAdditional {
		o.additional = &additional
	}
	if hasFields || hasAdditional {
		f.objects = append(f.objects, o)
	}
}

// reference adds the schema that $ref names.
func (s *schema) reference(f *facts, v value) error {
	pointer, ok := strings.CutPrefix(v.text, "#")
	if v.kind != isString || !ok || pointer != "" && pointer[0] != '/' {
		return errorf(v, "cannot follow %s: only places of this schema, such as #/$defs/name, can be referred to", v.short())
	}
	at := s.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		next, ok := at.step(unescapePointer.Replace(name))
		if !ok {
			return errorf(v, "there is no %s in the schema", v.text)
		}
		at = next
	}
	return s.addTo(f, at)
}

// step is the value with a name, or with a number, in a value.
func (v *value) step(name string) (value, bool) {
	if i, err := strconv.Atoi(name); v.kind == isArray && err == nil && i >= 0 && i < len(v.items) {
		return v.items[i], true
	}
	return v.get(name)
}
