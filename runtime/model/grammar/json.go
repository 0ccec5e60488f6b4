package grammar

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// value is a JSON value of a schema. Its fields keep their order.
type value struct {
	*path
	kind   typeSet
	fields []field
	index  map[string]int // of the fields
	items  []value
	text   string // of a string or number
	truth  bool
}

type field struct {
	name string
	value
}

// path is the place of a value in a schema.
type path struct {
	up   *path
	name string
	id   int32 // another one for each value
}

// String is the JSON pointer, such as #/properties/age.
func (p *path) String() string {
	var names []string
	for ; p != nil; p = p.up {
		names = append(names, p.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// typeSet is a set of JSON types. Numbers are integers and fractions.
type typeSet uint8

const (
	isNull typeSet = 1 << iota
	isBool
	isObject
	isArray
	isString
	isInteger
	isFraction
	isNumber = isInteger | isFraction
	isAny    = isNull | isBool | isObject | isArray | isString | isNumber
)

// typeNames are the types of a schema.
var typeNames = map[string]typeSet{
	"null": isNull, "boolean": isBool, "object": isObject, "array": isArray, "string": isString, "integer": isInteger, "number": isNumber,
}

func (v *value) get(name string) (value, bool) {
	if i, ok := v.index[name]; ok {
		return v.fields[i].value, true
	}
	return value{}, false
}

// decoder reads JSON with the order of its fields.
type decoder struct {
	*json.Decoder
	text   []byte
	values int32
}

// decode reads a schema.
func decode(text []byte) (value, error) {
	if len(text) > mostText {
		return value{}, errorf(line("#"), "the schema has %d bytes, at most %d are allowed", len(text), mostText)
	}
	d := &decoder{Decoder: json.NewDecoder(bytes.NewReader(text)), text: text}
	d.UseNumber()
	v, err := d.value(nil, "#", 0)
	if err != nil {
		return value{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return value{}, errorf(d.place(), "want the end of the JSON text")
	}
	return v, nil
}

// place is the line and the column of what comes after the last token.
func (d *decoder) place() line {
	p := parser{text: string(d.text), last: lineStart{number: 1}}
	at := min(int(d.InputOffset()), len(d.text))
	rest := strings.TrimLeft(p.text[at:], " \t\r\n")
	if strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, ":") {
		rest = strings.TrimLeft(rest[1:], " \t\r\n")
	}
	return p.place(len(p.text) - len(rest))
}

// token is the next token.
func (d *decoder) token() (json.Token, error) {
	t, err := d.Token()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, errorf(d.place(), "JSON: the text ends too early")
	}
	if err != nil {
		return nil, errorf(d.place(), "JSON: %v", err)
	}
	return t, nil
}

// value reads a value.
func (d *decoder) value(up *path, name string, depth int) (value, error) {
	d.values++
	v := value{path: &path{up, escapePointer.Replace(name), d.values}}
	if depth > mostDepth {
		return value{}, errorf(v, "there are more than %d values in each other", mostDepth)
	}
	t, err := d.token()
	if err != nil {
		return value{}, err
	}
	switch t := t.(type) {
	case nil:
		v.kind = isNull
	case bool:
		v.kind, v.truth = isBool, t
	case string:
		v.kind, v.text = isString, t
	case json.Number:
		v.kind, v.text = isNumber, t.String()
	case json.Delim:
		if t == '{' {
			return d.object(v, depth)
		}
		return d.array(v, depth)
	}
	return v, nil
}

func (d *decoder) array(v value, depth int) (value, error) {
	v.kind = isArray
	for d.More() {
		x, err := d.value(v.path, strconv.Itoa(len(v.items)), depth+1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, x)
	}
	_, err := d.token()
	return v, err
}

func (d *decoder) object(v value, depth int) (value, error) {
	v.kind = isObject
	v.index = map[string]int{}
	for d.More() {
		t, err := d.token()
		if err != nil {
			return v, err
		}
		name, _ := t.(string)
		if _, ok := v.index[name]; ok {
			return v, errorf(&path{up: v.path, name: escapePointer.Replace(name)}, "the name comes twice")
		}
		v.index[name] = len(v.fields)
		x, err := d.value(v.path, name, depth+1)
		if err != nil {
			return v, err
		}
		v.fields = append(v.fields, field{name, x})
	}
	_, err := d.token()
	return v, err
}

// A JSON pointer writes ~ and / of names in another way.
var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// encode is the JSON text of a value, without blanks.
func (v *value) encode() string {
	var parts []string
	switch v.kind {
	case isObject:
		for i := range v.fields {
			f := &v.fields[i]
			parts = append(parts, quote(f.name)+":"+f.encode())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case isArray:
		for i := range v.items {
			parts = append(parts, v.items[i].encode())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case isString:
		return quote(v.text)
	case isBool:
		return strconv.FormatBool(v.truth)
	case isNull:
		return "null"
	}
	return v.text
}

// short is the beginning of the JSON text of a value, for errors.
func (v *value) short() string {
	text := []rune(v.encode())
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}

// quote is a JSON string.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text)
	return strings.TrimSuffix(b.String(), "\n")
}

// canonical is the same text for values that are equal.
func (v *value) canonical() string {
	var parts []string
	switch v.kind {
	case isObject:
		for i := range v.fields {
			parts = append(parts, quote(v.fields[i].name)+":"+v.fields[i].canonical())
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	case isArray:
		for i := range v.items {
			parts = append(parts, v.items[i].canonical())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case isNumber:
		if r, err := rational(*v); err == nil {
			return r.RatString()
		}
	}
	return v.encode()
}

// types are the types that a value has.
func (v *value) types() typeSet {
	if v.kind != isNumber {
		return v.kind
	}
	if r, err := rational(*v); err == nil && r.IsInt() {
		return isInteger
	}
	return isFraction
}

// mostExponent bounds numbers of a schema, so that their digits stay few.
const mostExponent = 60

// rational is a number.
func rational(v value) (*big.Rat, error) {
	if v.kind != isNumber {
		return nil, errorf(v, "want a number, not %s", v.short())
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(v.text), "e")
	e, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if err != nil || e > mostExponent || e < -mostExponent || len(mantissa) > mostExponent {
		return nil, errorf(v, "the number %s has too many digits: at most %d are possible", v.text, mostExponent)
	}
	r, _ := new(big.Rat).SetString(v.text)
	return r, nil
}
