package gen

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
)

// Every field is written with its value: each is another number, or the text of one.
func TestLiteral(t *testing.T) {
	var spec runtime.Spec
	w := filler{t: t}
	w.fill(reflect.ValueOf(&spec).Elem(), "")
	f := jen.NewFile("x")
	f.Var().Id("X").Op("=").Add(literal(reflect.ValueOf(&spec)))
	var b strings.Builder
	if err := f.Render(&b); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range w.want {
		if !regexp.MustCompile(pattern).MatchString(b.String()) {
			t.Errorf("no %s", pattern)
		}
	}
	if len(w.want) < 50 {
		t.Errorf("only %d fields", len(w.want))
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

// filler sets all of a value to something else than zero, and returns the expected text.
type filler struct {
	t    *testing.T
	n    int64
	want []string
}

func (w *filler) fill(v reflect.Value, field string) {
	w.n++
	text := ""
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			w.fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		w.fill(v.Index(0), field)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		w.fill(v.Elem(), field)
	case reflect.Int:
		v.SetInt(-w.n)
		text = fmt.Sprintf(`(\[\]int\{)?-%d\b`, w.n)
	case reflect.Uint8:
		v.SetUint(uint64(128 + w.n%64)) // no UTF-8
		text = fmt.Sprintf(`\[\]byte\("\\x%02x"\)`, v.Uint())
	case reflect.Uint32:
		v.SetUint(uint64(w.n))
		text = fmt.Sprintf(`%d\b`, w.n)
	case reflect.Interface: // a device, which shaders.go writes
	case reflect.Float64:
		v.SetFloat(float64(w.n) + 0.5)
		text = fmt.Sprintf(`%d\.5\b`, w.n)
	case reflect.Bool:
		v.SetBool(true)
		text = "true"
	case reflect.String:
		v.SetString(fmt.Sprintf("name%d", w.n))
		text = fmt.Sprintf(`(\[\]string\{)?"name%d"`, w.n)
	case reflect.Func: // has the name of its struct; packages have no kernels by lists, and none that end in operators
		if field != "Listed" && field != "Ended" {
			text = "name"
		}
	default:
		w.t.Fatalf("a %v", v.Type())
	}
	switch x := v.Addr().Interface().(type) {
	case *format.DType:
		*x, text = format.F16, "format.F16"
	case *format.Per:
		*x, text = format.PerGroup, "format.PerGroup"
	case *abi.WordKind:
		*x, text = abi.CountWord, "3"
	}
	if text != "" {
		w.want = append(w.want, `\b`+field+`:\s+`+text)
	}
}
