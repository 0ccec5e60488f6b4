package vir_test

import (
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

// The digests of two functions differ if any field does. Sources of instructions do not count.
func TestDigest(t *testing.T) {
	f := &vir.Func{
		Name:   "f",
		Params: []vir.Param{{Name: "x"}, {Name: "n", Int: true}},
		Consts: [][]byte{{1, 2}},
		Regs:   []vir.Type{{Lanes: 4}, {Lanes: 8}},
		Repeat: &vir.Repeat{Moves: []vir.Move{{}}},
		Grid:   []vir.Repeat{{Moves: []vir.Move{{}}}},
		Body: []vir.Node{&vir.Loop{Carried: []vir.Reg{0}, Body: []vir.Node{
			&vir.Instr{Op: vir.OpAdd, Args: []vir.Reg{0, 1}, Mem: vir.Mem{Stride: []vir.Stride{{}}}, Fold: 1},
		}}},
		Sources: []int32{3},
	}
	digest := f.Digest()
	if f.Clone().Digest() != digest {
		t.Error("a copy has another digest")
	}
	fields := 0
	eachNumber(reflect.ValueOf(f).Elem(), "", func(name string, matters bool) {
		fields++
		if (f.Digest() != digest) != matters {
			t.Errorf("%s has changed: another digest %v, want %v", name, !matters, matters)
		}
	})
	if fields < 40 || f.Digest() != digest {
		t.Errorf("%d fields have changed one after the other, and are as before %v", fields, f.Digest() == digest)
	}
}

// eachNumber changes each number, text and flag in v while it calls changed with its name, and whether it is about more than a source.
func eachNumber(v reflect.Value, name string, changed func(name string, matters bool)) {
	try := func(to any) {
		before := reflect.ValueOf(v.Interface())
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		changed(name, !sources[name])
		v.Set(before)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		eachNumber(v.Elem(), name, changed)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachNumber(v.Index(i), name, changed)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachNumber(v.Field(i), name+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.String:
		try(v.String() + "x")
	case reflect.Bool:
		try(!v.Bool())
	case reflect.Uint8:
		try(v.Uint() + 1)
	default:
		try(v.Int() + 1)
	}
}

var sources = map[string]bool{".Sources": true, ".Body.Body.From": true}
