package abi

import (
	"slices"
	"testing"
)

// columns counts the columns of a cut's blocks, padding included, and the blocks.
func (c Cut) columns(widths []int) (all, blocks int) {
	for i, n := range c.Blocks(len(widths)) {
		all, blocks = all+n*widths[i], blocks+n
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

// The blocks of the widest kernel come first, and the one that need not be full last.
func TestBlocks(t *testing.T) {
	for _, x := range []struct {
		c    Cut
		want []int // kernels, and how many blocks of each
	}{{Cut{2, 1, 3, 0}, []int{4, 2, 1, 3, 0, 1}}, {Cut{0, -1, 0, 2}, []int{2, 1}}, {Cut{7, -1, 0, -1}, []int{4, 7}}, {Cut{0, 3, 2, -1}, []int{3, 2}}} {
		var got, first []int
		for i, n := range x.c.Blocks(5) {
			got = append(got, i, n)
		}
		for i, n := range x.c.Blocks(5) {
			first = append(first, i, n)
			break
		}
		if !slices.Equal(got, x.want) || !slices.Equal(first, x.want[:2]) {
			t.Errorf("%+v: %v, first %v, want %v", x.c, got, first, x.want)
		}
	}
}
