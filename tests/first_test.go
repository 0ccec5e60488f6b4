package tests

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

const traceA = `[{"decompose":{"family":"dot","value":"affine"}},
{"hoist_zero":{"at":"init"}},
{"split":{"loop":"m","by":64,"into":["mt","mi"]}},
{"split":{"loop":"mi","by":16,"into":["r","l"]}},
{"split":{"loop":"k","by":16,"into":["ks","kk"]}},
{"split":{"loop":"kk","by":4,"into":["f","j"]}},
{"bind":{"loop":"n","to":"outer"}},
{"bind":{"loop":"mt","to":"outer"}},
{"bind":{"loop":"r","to":"unrolled"}},
{"bind":{"loop":"f","to":"unrolled"}},
{"bind":{"loop":"l","to":"vector"}},
{"tensorize":{"loop":"j","to":"dot4"}},
{"reorder":{"order":["n","mt","ks","r","f","l","j"]}},
{"pack":{"tensor":"codes","order":["mt","ks","r","l","j"],"fields":["f"],"map":"dense"}},
{"read_scaled":{"below":8}},
{"prefetch":{"bytes":4096}}]`

func TestFirst(t *testing.T) {
	w, err := format.Lookup("w2")
	if err != nil {
		t.Fatal(err)
	}
	var tr schedule.Trace
	if err := json.Unmarshal([]byte(traceA), &tr); err != nil {
		t.Fatal(err)
	}
	k, err := schedule.Compile(ir.Problem{Weight: w}, tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(k.Nest)
	c := check.New(rand.New(rand.NewSource(1)), k.Problem, 37, 2, 63, check.Uniform)
	want := c.Naive()
	got, err := c.Run(k, func(a []vir.Arg) error {
		var na []nest.Arg
		for _, x := range a {
			na = append(na, nest.Arg{Buf: x.Buf, Int: int(x.Int)})
		}
		return nest.Eval(k.Nest, na)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Compare(got, want, c.M); err != nil {
		t.Fatal(err)
	}
	f, err := lower.Vectorize(k.Nest, "first")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f)
	if err := vir.Verify(f); err != nil {
		t.Fatal(err)
	}
	got, err = c.Run(k, func(a []vir.Arg) error { return vir.Eval(f, a) })
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Compare(got, want, c.M); err != nil {
		t.Fatal(err)
	}
}
