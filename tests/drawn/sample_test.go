package drawn

import (
	"slices"
	"testing"
)

// A seed draws the same cases again and others the second time; another seed draws others, in time all; TMACC_LONG draws all.
func TestSome(t *testing.T) {
	all := make([]int, 10)
	for i := range all {
		all[i] = i
	}
	draw := func(seed, long string) (first, second []int) {
		t.Setenv("TMACC_SEED", seed)
		t.Setenv("TMACC_LONG", long)
		d := New(t)
		return Some(d, 4, all), Some(d, 4, all)
	}
	one, two := draw("1", "")
	if len(one) != 3 || !slices.IsSorted(one) || slices.Equal(one, two) {
		t.Errorf("drew %v, then %v; want 3 of 10 in order, then others", one, two)
	}
	if again, _ := draw("1", ""); !slices.Equal(again, one) {
		t.Errorf("the same seed draws %v, then %v", one, again)
	}
	seen := map[int]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"} {
		some, _ := draw(seed, "")
		for _, x := range some {
			seen[x] = true
		}
	}
	if len(seen) != len(all) {
		t.Errorf("16 seeds draw %d of %d cases", len(seen), len(all))
	}
	if long, _ := draw("1", "1"); !slices.Equal(long, all) {
		t.Errorf("TMACC_LONG=1 draws %v", long)
	}
	t.Setenv("TMACC_LONG", "")
	if few := Some(New(t), 4, all[:1]); len(few) != 1 {
		t.Errorf("of one case %d are drawn", len(few))
	}
	if none := Some(New(t), 4, all[:0]); len(none) != 0 {
		t.Errorf("of no case %d are drawn", len(none))
	}
}
