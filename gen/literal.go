package gen

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// literal is v as Go has it, of any type that a runtime.Spec is made of: all fields that are not zero. A function is the
// one that has the Name of its struct.
func literal(v reflect.Value) *jen.Statement {
	t := v.Type()
	switch t.Kind() {
	case reflect.Pointer:
		return jen.Op("&").Add(literal(v.Elem()))
	case reflect.Struct:
		return jen.Qual(t.PkgPath(), t.Name()).Add(body(v))
	case reflect.Slice:
		return typeOf(t).Add(body(v))
	}
	return scalar(v)
}

// body is a literal without its type, which the elements of a list do not repeat; more are further fields.
func body(v reflect.Value, more ...jen.Code) *jen.Statement {
	switch v.Kind() {
	case reflect.Pointer:
		return body(v.Elem())
	case reflect.Struct:
		return braces(flat(v.Type()) && len(more) == 0, append(structFields(v, false), more...))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return jen.Parens(jen.Lit(string(v.Bytes())))
		}
		of := v.Type().Elem()
		var items []jen.Code
		for i := range v.Len() {
			if x := v.Index(i); numbers(of) {
				items = append(items, braces(true, structFields(x, true)))
			} else {
				items = append(items, body(x))
			}
		}
		return braces(isScalar(of) || numbers(of), items)
	}
	return scalar(v)
}

// structFields are the fields of a struct: those that are not zero, or all.
func structFields(v reflect.Value, all bool) (out []jen.Code) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Type.Kind() == reflect.Func && !v.FieldByName("Name").IsValid(): // kernels by lists, which packages do not have
		case f.Type.Kind() == reflect.Func && isModule(v.FieldByName("Name").String()): // a shader has none
		case f.Type.Kind() == reflect.Func:
			out = append(out, field(f.Name, jen.Id(v.FieldByName("Name").String())))
		case all || !v.Field(i).IsZero():
			out = append(out, field(f.Name, literal(v.Field(i))))
		}
	}
	return out
}

func field(name string, v jen.Code) *jen.Statement { return jen.Id(name).Op(":").Add(v) }

// scalar is a literal of one word; constants of package format have their names.
func scalar(v reflect.Value) *jen.Statement {
	switch x := v.Interface().(type) {
	case format.DType:
		return jen.Qual(formatPath, strings.ToUpper(x.String()))
	case format.Per:
		return jen.Qual(formatPath, map[format.Per]string{format.PerTensor: "PerTensor", format.PerRow: "PerRow", format.PerGroup: "PerGroup"}[x])
	case int, string, bool, float64:
		return jen.Lit(x)
	case uint32:
		return jen.Id(fmt.Sprint(x))
	case abi.WordKind:
		return jen.Id(fmt.Sprint(uint8(x)))
	default:
		panic(fmt.Sprintf("BUG: gen: no literal of %T", x))
	}
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Pointer:
		return false
	}
	return true
}

// flat says that all fields of a struct are scalars: it has one line.
func flat(t reflect.Type) bool {
	for i := range t.NumField() {
		if !isScalar(t.Field(i).Type) {
			return false
		}
	}
	return true
}

// numbers says that t is a struct of numbers: in a list of them zeros are numbers like others.
func numbers(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if t.Field(i).Type.Kind() != reflect.Int {
			return false
		}
	}
	return true
}

// typeOf is the type of a list: of pointers, lists or what has a name.
func typeOf(t reflect.Type) *jen.Statement {
	switch t.Kind() {
	case reflect.Slice:
		return jen.Index().Add(typeOf(t.Elem()))
	case reflect.Pointer:
		return jen.Op("*").Add(typeOf(t.Elem()))
	}
	if t.PkgPath() == "" {
		return jen.Id(strings.Replace(t.Name(), "uint8", "byte", 1))
	}
	return jen.Qual(t.PkgPath(), t.Name())
}

// braces is the body of a composite literal, on one line or an element per line.
func braces(one bool, items []jen.Code) *jen.Statement {
	if one {
		return jen.Values(items...)
	}
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, items...)
}
