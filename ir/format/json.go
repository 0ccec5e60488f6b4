package format

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// UnmarshalStrict reads JSON into what `to` points to. It refuses fields that the type lacks, by exactly that name,
// fields that are there twice, null in a list, and a list of another length than an array: encoding/json takes "Bits" for "bits", the last of several, and null
// for 0. Errors name the path of the value, such as cpus[0].vendor. A type with an UnmarshalJSON judges its own fields.
func UnmarshalStrict(data []byte, to any) error { return unmarshal(data, to, false) }

// UnmarshalWhole is UnmarshalStrict for a value that must have all fields. It also refuses an object that lacks a field
// of its type, and null. A field with the option omitempty may be missing.
func UnmarshalWhole(data []byte, to any) error { return unmarshal(data, to, true) }

func unmarshal(data []byte, to any, whole bool) error {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil { // syntax, and how deep it is
		return err
	}
	c := checker{d: json.NewDecoder(bytes.NewReader(data)), whole: whole}
	c.d.UseNumber() // so that a number that is too large is reported with its path
	if err := c.value(reflect.TypeOf(to).Elem(), !whole); err != nil {
		return err
	}
	if c.found != nil {
		return c.found
	}
	err := json.Unmarshal(data, to)
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	// It comes from an UnmarshalJSON. Leave out the names of Go types, which stand for embedded structs.
	path := slices.DeleteFunc(strings.Split(kind.Field, "."), func(name string) bool { return name != strings.ToLower(name) })
	return &mistyped{strings.Join(path, "."), kind.Value, wanted(kind)}
}

// mistyped says that JSON has another kind of value than the type wants.
type mistyped struct {
	path string // "" is the whole value
	kind string // of the value in JSON: "string"
	want string // "an integer"
}

func (m *mistyped) Error() string { return cmp.Or(m.path, "the value") + " is " + m.text() }

func (m *mistyped) text() string { return fmt.Sprintf("JSON %s; want %s", m.kind, m.want) }

// ErrorLine is the line of data, from 1, in which err, of reading it as JSON, found its syntax broken; 0 if err is another.
func ErrorLine(data []byte, err error) int {
	var bad *json.SyntaxError
	if !errors.As(err, &bad) {
		return 0
	}
	before := data[:max(0, min(int(bad.Offset), len(data))-1)] // of the last byte that was read
	return 1 + bytes.Count(before, []byte("\n"))
}

// wanted is what JSON must have instead of the value of an error.
func wanted(err *json.UnmarshalTypeError) string {
	if want := wantedFor(err.Type); want != "a number" || !strings.HasPrefix(err.Value, "number ") {
		return want
	}
	return fmt.Sprintf("a number that %d bits hold", err.Type.Bits())
}

// wantedFor is what JSON must have for a type.
func wantedFor(t reflect.Type) string {
	if t == reflect.TypeFor[[]byte]() { // in base64
		return "a text"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a text"
}

// checker reads the tokens of a JSON value beside the type that the value is to become. Names that are wrong end it.
// The first value of another kind, or missing field, is found, for a wrong name may explain it.
type checker struct {
	d     *json.Decoder
	whole bool     // all fields without omitempty must be there
	path  []string // of the value that is read: ".cpus", "[0]"
	found error
}

// value checks the next value, which is to become a t, nil if nothing is known about it.
func (c *checker) value(t reflect.Type, nullable bool) error {
	if readsItself(t) {
		return c.d.Decode(new(json.RawMessage))
	}
	token, err := c.d.Token()
	if err != nil {
		return err
	}
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch token {
	case nil:
		if !nullable {
			c.mistyped("null", t)
		}
	case json.Delim('['):
		return c.list(c.kind(t, "array", reflect.Slice, reflect.Array))
	case json.Delim('{'):
		return c.object(c.kind(t, "object", reflect.Struct, reflect.Map))
	default:
		c.scalar(token, t)
	}
	return nil
}

// kind is t if it is of one of kinds, or nil. A value of that kind in JSON is found to be mistyped if t is of another.
func (c *checker) kind(t reflect.Type, value string, kinds ...reflect.Kind) reflect.Type {
	switch {
	case t == nil || t.Kind() == reflect.Interface:
		return nil
	case !slices.Contains(kinds, t.Kind()):
		c.mistyped(value, t)
		return nil
	}
	return t
}

// mistyped notes that the value in JSON is of another kind than t wants.
func (c *checker) mistyped(kind string, t reflect.Type) {
	want := "a value"
	if t != nil {
		want = wantedFor(t)
	}
	c.find(&mistyped{c.at(), kind, want})
}

func (c *checker) find(err error) {
	if c.found == nil {
		c.found = err
	}
}

// scalar checks a text, a number or a truth value.
func (c *checker) scalar(token json.Token, t reflect.Type) {
	text, err := json.Marshal(token)
	if err != nil || t == nil {
		return
	}
	var kind *json.UnmarshalTypeError
	if errors.As(json.Unmarshal(text, reflect.New(t).Interface()), &kind) {
		c.find(&mistyped{c.at(), kind.Value, wanted(kind)})
	}
}

// list checks the elements of a list, which is to become a t.
func (c *checker) list(t reflect.Type) error {
	n := 0
	for ; c.d.More(); n++ {
		if err := c.inside("["+strconv.Itoa(n)+"]", elemOf(t), false); err != nil {
			return err
		}
	}
	if t != nil && t.Kind() == reflect.Array && n != t.Len() { // encoding/json would leave values out, or take 0
		c.find(fmt.Errorf("%s is a list of %d: want %d values", cmp.Or(c.at(), "the value"), n, t.Len()))
	}
	_, err := c.d.Token()
	return err
}

// object checks the names and the values of an object, which is to become a t.
func (c *checker) object(t reflect.Type) error {
	fields, seen := fieldsOf(t), map[string]bool{}
	for c.d.More() {
		token, err := c.d.Token()
		if err != nil {
			return err
		}
		name := token.(string) // the decoder takes nothing else
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		of := elemOf(t)
		switch {
		case seen[name]:
			return fmt.Errorf("field %.80q is there twice%s", name, c.in())
		case i >= 0:
			of = fields[i].of
		case fields != nil:
			return fmt.Errorf("unknown field %.80q%s; there are %s", name, c.in(), fieldNames(fields))
		}
		seen[name] = true
		if err := c.inside("."+PathName(name), of, !c.whole); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if c.whole && !f.optional && !seen[f.name] {
			c.find(fmt.Errorf("%s is missing: want %s", strings.TrimPrefix(c.at()+"."+f.name, "."), wantedFor(f.of)))
		}
	}
	_, err := c.d.Token()
	return err
}

// inside checks the next value, one step further on the path.
func (c *checker) inside(step string, t reflect.Type, nullable bool) error {
	c.path = append(c.path, step)
	err := c.value(t, nullable)
	c.path = c.path[:len(c.path)-1]
	return err
}

// at is the path of the value that is read, "" for the whole one.
func (c *checker) at() string {
	return fmt.Sprintf("%.200s", strings.TrimPrefix(strings.Join(c.path, ""), "."))
}

// in is at in a sentence about a field of the value.
func (c *checker) in() string {
	if len(c.path) == 0 {
		return ""
	}
	return " in " + c.at()
}

// PathName is a name as paths in errors have it: in quotes if it is no plain word, and cut if it is long.
func PathName(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name == "" {
		return fmt.Sprintf("%.40q", name)
	}
	return fmt.Sprintf("%.40s", name)
}

// readsItself says that a t has an UnmarshalJSON.
func readsItself(t reflect.Type) bool {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// elemOf is the type of the elements of a list or a map, nil if t is none.
func elemOf(t reflect.Type) reflect.Type {
	if t == nil || !slices.Contains([]reflect.Kind{reflect.Slice, reflect.Array, reflect.Map}, t.Kind()) {
		return nil
	}
	return t.Elem()
}

// field is a field of a struct in JSON.
type field struct {
	name     string
	of       reflect.Type
	optional bool // omitempty
}

// fieldsOf lists the fields of t, and of structs that it embeds. It returns nil if t is no struct.
func fieldsOf(t reflect.Type) []field {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := []field{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && name != "-" && f.IsExported() {
			fields = append(fields, field{name, f.Type, options == "omitempty"})
		}
	}
	return fields
}

// fieldNames lists the names of fields, with commas.
func fieldNames(fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
