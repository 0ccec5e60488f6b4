package tests

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/tests/check"
)

func TestFirstNative(t *testing.T) {
	w, _ := format.Lookup("w2")
	var tr schedule.Trace
	if err := json.Unmarshal([]byte(traceA), &tr); err != nil {
		t.Fatal(err)
	}
	for _, tg := range amd64.Targets() {
		k, err := schedule.Compile(ir.Problem{Weight: w}, tr)
		if err != nil {
			t.Fatal(err)
		}
		c := check.New(rand.New(rand.NewSource(1)), k.Problem, 37, 2, 63, check.Uniform)
		want := c.Naive()
		f, err := lower.Vectorize(k.Nest, "first")
		if err != nil {
			t.Fatal(err)
		}
		mk, err := lower.Compile(tg, f)
		if err != nil {
			t.Log(tg.Machine().Name, err)
			continue
		}
		t.Log(lower.Dump(mk))
		got, err := c.Run(k, func(a []vir.Arg) error { return jit.Run(tg, mk, a) })
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Compare(got, want, c.M); err != nil {
			t.Fatal(err)
		}
	}
}
