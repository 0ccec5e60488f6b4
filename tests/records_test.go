package tests

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/qemu"
)

// TestRecords compiles every record for its target, as whoever takes it would, and compares the kernels of one in four with the
// definition.
func TestRecords(t *testing.T) {
	all, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	var entries []tune.Entry
	for _, l := range all {
		entries = append(entries, l.Entries...)
	}
	if len(entries) == 0 {
		t.Fatal("there are no records")
	}
	for _, e := range entries {
		p, target := recorded(t, e)
		if _, err := build.Variant(t.Context(), p, target, e.Uses()); err != nil {
			t.Errorf("%v: measure it again (tmacc tune -record), or remove its line", err)
		}
	}
	for _, e := range drawn.Some(drawn.New(t), 4, entries) {
		t.Run(e.Product+" on "+e.Target, func(t *testing.T) { checkRecord(t, e) })
	}
}

// recorded is the product and the target of a record.
func recorded(t *testing.T, e tune.Entry) (ir.Problem, lower.Target) {
	t.Helper()
	p, err := ir.Named(e.Product)
	target := targets.ByName(e.Target)
	if err != nil || target == nil {
		t.Fatalf("%s on %s: %v", e.Product, e.Target, err)
	}
	p.Act.Group = e.ActGroup
	return p, target
}

// checkRecord runs the kernels of a record.
func checkRecord(t *testing.T, e tune.Entry) {
	p, target := recorded(t, e)
	if m := target.Machine(); m.Arch() == "arm64" {
		qemu.Start(t, target)
	} else {
		target = native.Target(t, m.Name)
	}
	var all []*native.Kernel
	for _, u := range e.Uses() {
		k, err := native.Compile(target, p, u.Trace)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	native.Load(t, target, all...)
	rng := rand.New(rand.NewSource(1))
	for _, k := range all {
		for _, kind := range []check.Kind{check.Uniform, check.Extreme} {
			if err := k.Check(check.New(rng, p, k.Rows+5, k.Cols, p.WholeK(2*k.StepK+61), kind)); err != nil {
				t.Errorf("%d columns: %v", k.Cols, err)
			}
		}
	}
	if cols := slices.MinFunc(all, func(a, b *native.Kernel) int { return a.Cols - b.Cols }).Cols; cols != 1 {
		t.Errorf("the narrowest kernel has %d columns, want 1", cols)
	}
}
