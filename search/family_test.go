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
		all, err := TableUses(p, target, 3)
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
		uses, err := Default(p, target)
		if err != nil || name == "w1" && !seen[fmt.Sprint(uses[0].Trace[:2])] {
			t.Errorf("the default of %s is by %v, %v", name, uses[0].Trace[:2], err)
		}
	}
	wide, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TableUses(wide, target, 3); err == nil {
		t.Error("tables of 8 bits")
	}
}
