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
		`{"C":5}`:                          `unknown field "C"`,
		`{"inner":{}}`:                     `unknown field "inner"`,
		`{"":1}`:                           `unknown field ""`,
		`{"c":5,"c":5}`:                    `field "c" is there twice`,
		`{"map":{"x":{"c":1,"C":2}}}`:      `unknown field "C"`,
		`{"map":{"x":{},"x":{}}}`:          `field "x" is there twice`,
		`{"-":1}`:                          `unknown field "-"`,
		`{"ptr":{"d":1}}`:                  `ptr: its own`,
		strings.Repeat(`{"list":[`, 1<<20): `exceeded max depth`,
		strings.Repeat("[", 1000):          `unexpected end of JSON input`,
		`{"list":[1,null]}`:                "null in a list",
	} {
		if err := UnmarshalStrict([]byte(text), &x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
