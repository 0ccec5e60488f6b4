package search

import (
	"fmt"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
)

// TestTableUses: schedules by tables are of different tables, no more than asked for, the first for
// one column, all widths of one packed layout; among them is the one that is the default.
func TestTableUses(t *testing.T) {
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx512vbmi")
	all, err := TableUses(p, target, 3)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d schedules, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, uses := range all {
		kind := fmt.Sprint(uses[0].Trace[:2])
		if seen[kind] || uses[0].Cols != 1 {
			t.Errorf("%s for %d columns first, or twice", kind, uses[0].Cols)
		}
		seen[kind] = true
		hash := ""
		for _, u := range uses {
			k, err := schedule.Compile(p, u.Trace)
			if err != nil {
				t.Fatal(err)
			}
			if h := k.Weights.Hash(); hash != "" && h != hash {
				t.Errorf("%s: %d columns read another layout", kind, u.Cols)
			} else {
				hash = h
			}
		}
	}
	uses, err := Default(p, target)
	if err != nil || !seen[fmt.Sprint(uses[0].Trace[:2])] {
		t.Errorf("the default is by %v, %v", uses[0].Trace[:2], err)
	}
	wide, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TableUses(wide, target, 3); err == nil {
		t.Error("tables of 8 bits")
	}
}
