package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// UnmarshalStrict reads JSON into what to points to. It refuses fields that are not there, by
// exactly that name, those that are there twice, and null in a list: encoding/json takes "Bits" for
// "bits", the last of several, and null for 0. What has an UnmarshalJSON of its own judges its own fields.
func UnmarshalStrict(data []byte, to any) error {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil { // syntax, and how deep it is
		return err
	}
	names := json.NewDecoder(bytes.NewReader(data))
	names.UseNumber() // a number that is too large is reported by the decoder below, with its name
	if err := checkFields(names, reflect.TypeOf(to).Elem()); err != nil && err != errNull {
		return err
	}
	err := json.Unmarshal(data, to)
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	want := wanted(kind.Type)
	if strings.HasPrefix(kind.Value, "number ") && want == "a number" {
		want = fmt.Sprintf("a number that %d bits hold", kind.Type.Bits())
	}
	text := fmt.Sprintf("JSON %s; want %s", kind.Value, want)
	if kind.Field == "" {
		return mistyped(text)
	}
	// Leave out the names of Go types, which stand for embedded structs.
	path := slices.DeleteFunc(strings.Split(kind.Field, "."), func(name string) bool { return name != strings.ToLower(name) })
	return fmt.Errorf("%s is %s", strings.Join(path, "."), text)
}

// mistyped says what the whole value is instead of what it must be.
type mistyped string

func (m mistyped) Error() string { return string(m) }

// ErrorLine is the line of data, from 1, in which err, of reading it as JSON, found its syntax broken; 0 if err is another.
func ErrorLine(data []byte, err error) int {
	var bad *json.SyntaxError
	if !errors.As(err, &bad) {
		return 0
	}
	before := data[:max(0, min(int(bad.Offset), len(data))-1)] // of the last byte that was read
	return 1 + bytes.Count(before, []byte("\n"))
}

// wanted is what JSON must have for a type.
func wanted(t reflect.Type) string {
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

// unknownField is the name of a field that is not there.
type unknownField string

func (name unknownField) Error() string {
	return fmt.Sprintf("json: unknown field %.80q", string(name))
}

// errNull is what checkFields finds null to be; whether that is an error depends on where it is.
var errNull = errors.New("json: null")

// checkFields checks the names of all fields of the next value, which is to become a t,
// nil if that has no fields.
func checkFields(d *json.Decoder, t reflect.Type) error {
	if readsItself(t) {
		return d.Decode(new(json.RawMessage))
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case nil:
		return errNull
	case json.Delim('['):
		for d.More() {
			if err := checkFields(d, elemOf(t)); err == errNull {
				return errors.New("json: null in a list")
			} else if err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('{'):
		fields, seen := fieldsOf(t), map[string]bool{}
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return err
			}
			name := token.(string) // the decoder takes nothing else
			field, known := fields[name]
			if fields == nil {
				field = elemOf(t)
			}
			switch {
			case seen[name]:
				return fmt.Errorf("json: field %.80q is there twice", name)
			case fields != nil && !known:
				return unknownField(name)
			}
			seen[name] = true
			if err := checkFields(d, field); err != nil && err != errNull {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
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

// fieldsOf are the types of the fields of t, and of structs that it embeds, by their names in JSON, nil if it has none.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); !f.Anonymous && name != "-" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	return fields
}

// fieldNames lists the JSON names of a type's fields, embedded structs included.
func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); !f.Anonymous && name != "-" && f.IsExported() {
			names = append(names, name)
		}
	}
	return names
}

// nameOf is the name of a field in JSON.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
