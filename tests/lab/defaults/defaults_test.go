package defaults

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower/targets"
)

// The usual products are all built-in formats and the formats of all GGUF types; no two rows of the lists have one name.
func TestProducts(t *testing.T) {
	all, err := Products([]string{"usual", "untuned"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range all {
		if name := Name(p, "t"); names[name] {
			t.Errorf("%s is there twice", name)
		} else {
			names[name] = true
		}
	}
	wanted := format.Names()
	for _, typeName := range blocks.Types() {
		w, _, err := blocks.Product(typeName)
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, w.Name)
	}
	for _, name := range wanted {
		if !names[name+" t"] {
			t.Errorf("no %s", name)
		}
	}
	if len(Untuned()) != 5 || len(Study()) != 5 {
		t.Error("want five untuned products and five of the study")
	}
	if _, err := Products([]string{"w44"}); err == nil || !strings.Contains(err.Error(), `unknown format "w44"`) {
		t.Errorf("error %v", err)
	}
}

// A row is what was written, and its name says where it is unusual.
func TestRow(t *testing.T) {
	products, err := Products([]string{"w2"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Choose(context.Background(), products[0], targets.ByName("avx2"))
	if err != nil || r.Error != "" || len(r.Kernels) < 2 || len(r.Prepare) == 0 || r.Seconds < 0 || r.Elapsed <= 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var file bytes.Buffer
	if err := Write(&file, r); err != nil {
		t.Fatal(err)
	}
	all, err := Read(bytes.NewReader(file.Bytes()))
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0].Kernels, r.Kernels) || !reflect.DeepEqual(all[0].Prepare, r.Prepare) {
		t.Fatalf("%+v, %v", all, err)
	}
	if name := all[0].Name(); name != "w2 amd64/avx2" {
		t.Errorf("name %s", name)
	}
	if r.Problem.Act.Group = 64; r.Name() != "w2/a64 amd64/avx2" {
		t.Errorf("name %s", r.Name())
	}
}

// Lines that no program wrote are errors with the line's number.
func TestReadRefuses(t *testing.T) {
	products, err := Products([]string{"w2"})
	if err != nil {
		t.Fatal(err)
	}
	line := func(change func(*Row)) string {
		r := Row{Problem: products[0], Target: "t", Error: "none"}
		change(&r)
		var b bytes.Buffer
		if err := Write(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	good := line(func(*Row) {})
	for want, text := range map[string]string{
		"line 1: ":                             "x\n",
		"line 2: w2 t is in an earlier line":   good + good,
		"line 1: target is \"\"":               line(func(r *Row) { r.Target = "" }),
		"line 1: want either kernels or an er": line(func(r *Row) { r.Error = "" }),
		"line 1: kernels are not in ascending": line(func(r *Row) { r.Error = ""; r.Kernels = []Kernel{{Cols: 2}, {Cols: 1}} }),
		"no transform":                         strings.Replace(good, `"prepare":[]`, `"prepare":[{"fly":{}}]`, 1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if all, err := Read(strings.NewReader(good)); err != nil || !slices.EqualFunc(all, []string{"none"}, func(r Row, why string) bool { return r.Error == why }) {
		t.Errorf("%v, %v", all, err)
	}
}
