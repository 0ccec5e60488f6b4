package abi

import "testing"

// columns counts the columns of a cut's blocks, padding included, and the blocks.
func (c Cut) columns(widths []int) (all, blocks int) {
	all, blocks = c.Full*widths[len(widths)-1], c.Full+c.Some
	if c.Some > 0 {
		all += c.Some * widths[c.Middle]
	}
	if c.Tail >= 0 {
		all, blocks = all+widths[c.Tail], blocks+1
	}
	return all, blocks
}

// A cut has room for all activations, fills all blocks but the last, and up to the columns of the widest kernel takes no longer than any one kernel for all of them.
func TestCutOf(t *testing.T) {
	for _, widths := range [][]int{{1}, {1, 4}, {2, 8}, {1, 2, 4, 8, 64}, {1, 4, 12}, {1, 2, 16}, {1, 4, 8, 44}, {3, 5, 7}} {
		cols := func(i int) int { return widths[i] }
		for n := 1; n <= 150; n++ {
			c := CutOf(len(widths), cols, n)
			all, blocks := c.columns(widths)
			if all < n || c.Tail >= 0 && all-widths[c.Tail] >= n || (c.Some > 0) != (c.Middle >= 0) {
				t.Fatalf("%v, n = %d: %+v has %d columns", widths, n, c, all)
			}
			for i, w := range widths {
				calls := (n + w - 1) / w
				if one := calls * (w + 1); n <= widths[len(widths)-1] && all+blocks > one {
					t.Errorf("%v, n = %d: %+v takes %d, kernel %d alone %d", widths, n, c, all+blocks, i, one)
				}
			}
			whole, _ := CutWhole(len(widths), cols, n).columns(widths)
			if whole < n {
				t.Errorf("%v, n = %d: a cut without small blocks has %d columns", widths, n, whole)
			}
		}
	}
}

// One more activation than a kernel has columns takes a small kernel more.
func TestCuts(t *testing.T) {
	widths := []int{1, 2, 4, 8, 64}
	for n, want := range map[int]Cut{
		1: {0, -1, 0, 0}, 3: {0, -1, 0, 2}, 8: {0, -1, 0, 3}, 9: {0, 3, 1, 0}, 14: {0, 3, 1, 3}, 16: {0, 3, 2, -1}, 40: {0, 3, 5, -1}, 64: {1, -1, 0, -1}, 65: {1, -1, 0, 0}, 73: {1, 3, 1, 0},
	} {
		if got := CutOf(len(widths), func(i int) int { return widths[i] }, n); got != want {
			t.Errorf("n = %d: %+v, want %+v", n, got, want)
		}
	}
}
