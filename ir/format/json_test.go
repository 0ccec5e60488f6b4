package format

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// own has an UnmarshalJSON, which takes fields that it does not have.
type own struct {
	A int `json:"a"`
}

func (o *own) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &struct{ B *int }{&o.A})
}

// picky refuses all.
type picky struct{}

func (*picky) UnmarshalJSON([]byte) error { return errors.New("ptr: its own") }

type inner struct {
	C int `json:"c"`
}

type outer struct {
	Own  own              `json:"own"`
	Owns []own            `json:"owns"`
	List []int            `json:"list"`
	Not  int              `json:"-"`
	Ptr  *picky           `json:"ptr"`
	Map  map[string]inner `json:"map"`
	inner
}

// Fields of embedded structs are fields of what embeds them, and what reads itself judges its own.
func TestUnmarshalStrict(t *testing.T) {
	var x outer
	if err := UnmarshalStrict([]byte(`{"own":{"b":2,"B":3},"owns":[{"b":4}],"c":5,"list":null}`), &x); err != nil || x.Own.A != 3 || len(x.Owns) != 1 || x.Owns[0].A != 4 || x.C != 5 {
		t.Errorf("%+v, %v", x, err)
	}
	for text, want := range map[string]string{
		`{"C":5}`:                           `unknown field "C"`,
		`{"inner":{}}`:                      `unknown field "inner"`,
		`{"":1}`:                            `unknown field ""`,
		`{"c":5,"c":5}`:                     `field "c" is there twice`,
		`{"map":{"x":{"c":1,"C":2}}}`:       `unknown field "C" in map.x; there are c`,
		`{"map":{"x":{},"x":{}}}`:           `field "x" is there twice in map`,
		`{"map":{"x":{},"a b\n":{"c":""}}}`: `map."a b\n".c is JSON string; want an integer`,
		`{"map":{"x":{"c":1.5}},"C":2}`:     `unknown field "C"; there are own, owns, list, ptr, map, c`,
		`{"map":{"x":[]}}`:                  `map.x is JSON array; want an object`,
		`{"list":[1,{"a":1}]}`:              `list[1] is JSON object; want an integer`,
		`[]`:                                `the value is JSON array; want an object`,
		`{"-":1}`:                           `unknown field "-"`,
		`{"ptr":{"d":1}}`:                   `ptr: its own`,
		strings.Repeat(`{"list":[`, 1<<20):  `exceeded max depth`,
		strings.Repeat("[", 1000):           `unexpected end of JSON input`,
		`{"list":[1,null]}`:                 `list[1] is JSON null; want an integer`,
	} {
		if err := UnmarshalStrict([]byte(text), &x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A whole value has all fields but those with omitempty, and no null.
func TestUnmarshalWhole(t *testing.T) {
	type part struct {
		A int `json:"a"`
		B int `json:"b,omitempty"`
	}
	type whole struct {
		List  []part          `json:"list"`
		Parts map[string]part `json:"parts"`
		Part  part            `json:"part"`
		Two   [2]int          `json:"two"`
	}
	const good = `{"list":[],"parts":{"x":{"a":1}},"part":{"a":0,"b":2},"two":[7,8]}`
	var x whole
	if err := UnmarshalWhole([]byte(good), &x); err != nil || x.Parts["x"].A != 1 || x.Part.B != 2 {
		t.Errorf("%+v, %v", x, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"list":[],`, ``, `list is missing: want a list`},
		{`[]`, `[{"a":1},{"b":1}]`, `list[1].a is missing: want an integer`},
		{`{"a":1}`, `{}`, `parts.x.a is missing: want an integer`},
		{`{"a":0,"b":2}`, `{"b":2}`, `part.a is missing: want an integer`},
		{`"a":0`, `"a":null`, `part.a is JSON null; want an integer`},
		{`{"a":0,"b":2}`, `null`, `part is JSON null; want an object`},
		{`"a":0`, `"A":0`, `unknown field "A" in part; there are a, b`}, // which says more than that a is missing
		{`7,8`, `7`, `two is a list of 1: want 2 values`},
		{`7,8`, `7,8,9`, `two is a list of 3: want 2 values`},
		{good, `{}`, `list is missing: want a list`},
		{good, `null`, `the value is JSON null; want an object`},
	} {
		if err := UnmarshalWhole([]byte(strings.Replace(good, c.old, c.new, 1)), &x); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}
