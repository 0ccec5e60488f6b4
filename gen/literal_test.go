package gen

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// No field of what is written is left out.
func TestLiteral(t *testing.T) {
	var spec runtime.Spec
	names := map[string]bool{}
	fill(t, reflect.ValueOf(&spec).Elem(), names)
	f := jen.NewFile("x")
	f.Var().Id("X").Op("=").Add(literal(reflect.ValueOf(&spec)))
	var b strings.Builder
	if err := f.Render(&b); err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if !strings.Contains(b.String(), name+":") {
			t.Errorf("no %s", name)
		}
	}
	if len(names) < 50 {
		t.Errorf("only %d fields", len(names))
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

// fill sets all of v to something else than zero, and collects the names of fields.
func fill(t *testing.T, v reflect.Value, names map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			names[v.Type().Field(i).Name] = true
			fill(t, v.Field(i), names)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), names)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), names)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("name")
	case reflect.Func: // has the name of its struct
	default:
		t.Fatalf("a %v", v.Type())
	}
	if d, ok := v.Addr().Interface().(*format.DType); ok {
		*d = format.F16
	}
}
