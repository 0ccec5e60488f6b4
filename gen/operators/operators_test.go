package operators

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/runtime/ops/traces"
)

// Generated twice, the package is the same.
func TestTwice(t *testing.T) {
	a, err := Package(traces.Files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Package(traces.Files)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
			t.Errorf("%s and %s differ", a[i].Name, b[i].Name)
		}
	}
}

// There is one target for vectors of each length, and every operator has a schedule for it.
func TestTargets(t *testing.T) {
	var names []string
	for _, x := range Targets() {
		names = append(names, x.Machine().Name)
		for _, o := range operator.All() {
			if _, ok, err := Trace(o, x); !ok || err != nil {
				t.Errorf("%s has no schedule for %s: %v", o.Name, x.Machine().Name, err)
			}
		}
	}
	if want := []string{"arm64/neon", "amd64/avx512", "amd64/avx2"}; !slices.Equal(names, want) {
		t.Errorf("targets %v, want %v", names, want)
	}
}

// Sizes that a kernel and plain Go may share have elements that depend on none of another number.
func TestDivides(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"rmsnorm":      {"K": false}, // a sum over K
		"silu":         {"K": true},
		"rope":         {"H": true},
		"merge":        {"R": true, "D": true},
		"column_f16":   {"K": true},
		"matmul_f32_4": {"K": false},
	} {
		o := *operator.Find(name)
		c := &compiled{newPure(o), tensorsOf(o), nil}
		for size, divides := range want {
			if have := c.divides(size); have != divides {
				t.Errorf("%s may be cut along %s: %v, want %v", name, size, have, divides)
			}
		}
	}
}

// An index of blocks stays within an extent of whole blocks, and may leave one of single elements.
func TestWithin(t *testing.T) {
	dims := map[string]ir.Dim{"b": {Name: "b", Run: "K", Div: 32}, "j": {Name: "j", N: 32}, "k": {Name: "k", Run: "K", Div: 1}, "c": {Name: "c", N: 2}}
	block := ir.Binary{Op: ir.Add, X: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: "b"}, Y: ir.I32(32)}, Y: ir.Axis{Name: "j"}}
	fixed := ir.Binary{Op: ir.Add, X: ir.Binary{Op: ir.Mul, X: ir.Axis{Name: "c"}, Y: ir.I32(32)}, Y: ir.Axis{Name: "j"}}
	for _, c := range []struct {
		index  ir.Expr
		extent ir.Dim
		want   bool
	}{
		{block, ir.Dim{Run: "K", Div: 1}, false},
		{ir.Axis{Name: "k"}, ir.Dim{Run: "K", Div: 1}, true},
		{ir.Axis{Name: "k"}, ir.Dim{N: 64}, false},
		{fixed, ir.Dim{N: 64}, true},
		{fixed, ir.Dim{N: 63}, false},
		{ir.Axis{Name: "j"}, ir.Dim{Run: "K", Div: 1}, false},
	} {
		if have := affineOf(c.index).within(c.extent, dims); have != c.want {
			t.Errorf("%v within %v: %v, want %v", c.index, c.extent, have, c.want)
		}
	}
}
