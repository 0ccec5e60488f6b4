package search

import (
	"fmt"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/amd64"
)

// TestTableUses: schedules by tables are of different tables, no more than asked for, the first for
// one column, all widths of one packed layout; among them is the one that is the default.
func TestTableUses(t *testing.T) {
	target := amd64.ByName("avx512vbmi")
	for _, name := range []string{"w1", "w2"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := TableUses(t.Context(), p, target, 3)
		if err != nil || len(all) != 3 {
			t.Fatalf("%s: %d schedules, %v", name, len(all), err)
		}
		seen := map[string]bool{}
		for _, uses := range all {
			kind := fmt.Sprint(uses[0].Trace[:2])
			if seen[kind] || uses[0].Cols != 1 {
				t.Errorf("%s: %s for %d columns first, or twice", name, kind, uses[0].Cols)
			}
			seen[kind] = true
			checkOneLayout(t, p, uses)
		}
		uses, err := defaultOf(p, target)
		if err != nil || name == "w1" && !seen[fmt.Sprint(uses[0].Trace[:2])] {
			t.Errorf("the default of %s is by %v, %v", name, uses[0].Trace[:2], err)
		}
	}
	wide, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TableUses(t.Context(), wide, target, 3); err == nil {
		t.Error("tables of 8 bits")
	}
}

// Products are by tables where that was measured to be worth it, in groups above all without dot4.
func TestTablesWin(t *testing.T) {
	for _, c := range []struct {
		format   string
		actGroup int
		target   string
		want     bool
	}{
		{"w1", 0, "avxvnni", true}, {"w2", 0, "zen5", false}, {"w1-g128", 0, "zen5", true}, {"q1_0", 32, "zen5", false},
		{"w1-g32", 0, "zen2", true}, {"q1_0", 32, "zen2", true}, {"w1-g16", 0, "zen2", false}, {"tq2_0", 256, "zen2", false},
	} {
		p, err := ir.Named(c.format)
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = c.actGroup
		l, err := newDefaults(t.Context(), p, amd64.ByName(c.target)).chooseLayout()
		if err != nil {
			t.Fatal(err)
		}
		if got := l.base.Table != nil; got != c.want {
			t.Errorf("%s with activations in groups of %d on %s: by tables %v, want %v", c.format, c.actGroup, c.target, got, c.want)
		}
	}
}
