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
	err := unmarshalStrict(data, to)
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &typ):
		return fmt.Errorf("json: line %d: %s", lineOf(data, typ.Offset), mistyped(typ))
	case errors.As(err, &syntax):
		return fmt.Errorf("json: line %d: %w", lineOf(data, syntax.Offset), err)
	}
	return err
}

func unmarshalStrict(data []byte, to any) error {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil { // syntax, and how deep it is
		return err
	}
	if err := checkFields(json.NewDecoder(bytes.NewReader(data)), reflect.TypeOf(to).Elem()); err != nil && err != errNull {
		return err
	}
	return json.Unmarshal(data, to)
}

// lineOf is the line that ends at an offset, or has it; the first is 1.
func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(int(offset)-1, 0), len(data))], []byte("\n"))
}

// mistyped says what is where something else must be, as JSON calls it and not as Go does.
func mistyped(e *json.UnmarshalTypeError) string {
	field := e.Field
	if field == "" {
		field = "the value"
	}
	want := map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "an array", reflect.Array: "an array",
		reflect.Struct: "an object", reflect.Map: "an object", reflect.Float32: "a number", reflect.Float64: "a number"}[e.Type.Kind()]
	if want == "" {
		want = "a whole number"
	}
	if number, ok := strings.CutPrefix(e.Value, "number "); ok {
		return fmt.Sprintf("%s is %s; it must be %s that %d bits hold", field, number, want, e.Type.Bits())
	}
	return fmt.Sprintf("%s: %s where %s must be", field, e.Value, want)
}

// unknownField is the name of a field that is not there.
type unknownField string

func (name unknownField) Error() string { return fmt.Sprintf("json: unknown field %q", string(name)) }

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
				return fmt.Errorf("json: field %q is there twice", name)
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
		if name := nameOf(f); !f.Anonymous && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

// fieldNames are the names in JSON of a type's fields, those of structs that it embeds among them.
func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); !f.Anonymous && name != "-" {
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
