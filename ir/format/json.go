package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// UnmarshalStrict reads JSON into what to points to. It refuses fields that are not there, by
// exactly that name, and those that are there twice: encoding/json takes "Bits" for
// "bits", and the last of several.
func UnmarshalStrict(data []byte, to any) error {
	if err := checkFields(json.NewDecoder(bytes.NewReader(data)), reflect.TypeOf(to).Elem()); err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// unknownField is the name of a field that is not there.
type unknownField string

func (name unknownField) Error() string { return fmt.Sprintf("json: unknown field %q", string(name)) }

// checkFields checks the names of all fields of the next value, which is to become a t,
// nil if that has no fields.
func checkFields(d *json.Decoder, t reflect.Type) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			if err := checkFields(d, elemOf(t)); err != nil {
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
			switch {
			case seen[name]:
				return fmt.Errorf("json: field %q is there twice", name)
			case fields != nil && !known:
				return unknownField(name)
			}
			seen[name] = true
			if err := checkFields(d, field); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// elemOf is the type of the elements of a list, nil if t is none.
func elemOf(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	return t.Elem()
}

// fieldsOf are the types of the fields of t by their names in JSON, nil if it has none.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for i, name := range fieldNames(t) {
		fields[name] = t.Field(i).Type
	}
	return fields
}

// fieldNames are the names in JSON of a type's fields.
func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
