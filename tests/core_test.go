package tests

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// A core that was printed and read again has the default kernels of the built-in one, under its own name. One core in eight is drawn: that all are read as
// they were printed is TestRoundTrip of lower/core, and nothing else decides.
func TestOwnCoreSameCode(t *testing.T) {
	for _, c := range drawn.Some(drawn.New(t), 8, targets.Cores()) {
		name := c.Name
		c.Name = "my-core"
		data, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		own, err := core.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		ts, err := targets.Tuned(own)
		if err != nil || len(ts) != len(c.ISAs) {
			t.Fatalf("%s: %d targets, %v", name, len(ts), err)
		}
		for _, tg := range ts {
			like := builtIn(t, tg.Machine().ISA.Name, name)
			if codeOf(t, tg) != codeOf(t, like) {
				t.Errorf("kernels on %s are not those on %s", tg.Machine().Name, like.Machine().Name)
			}
			if want := tg.Machine().ISA.Name + "+my-core"; tg.Machine().Name != want {
				t.Errorf("the target is called %s, want %s", tg.Machine().Name, want)
			}
		}
	}
}

// builtIn is the target of an instruction set for a built-in core.
func builtIn(t *testing.T, isa, core string) lower.Target {
	for _, tg := range targets.All() {
		if m := tg.Machine(); m.ISA.Name == isa && m.Core.Name == core {
			return tg
		}
	}
	t.Fatalf("no target of %s for %s", isa, core)
	return nil
}

// codeOf is the assembly of the default kernels of a format with groups, and of the preparation of activations for them.
func codeOf(t *testing.T, tg lower.Target) (code string) {
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	uses, err := chosen.Product(t.Context(), p, tg)
	if err != nil {
		t.Fatalf("%s: %v", tg.Machine().Name, err)
	}
	v, err := build.Variant(t.Context(), p, tg, uses)
	if err != nil {
		t.Fatal(err)
	}
	file, err := tg.File("kernels", v.Functions("")...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file.Data)) {
		if !strings.HasPrefix(line, "//") { // a comment names the target
			code += line
		}
	}
	return code
}
