package targets

import (
	"slices"
	"testing"

	"github.com/tmacc/tmacc/lower"
)

// names returns the names of targets.
func names(ts []lower.Target) (out []string) {
	for _, t := range ts {
		out = append(out, t.Machine().Name)
	}
	return out
}

// The list of all targets has the order that programs try them in, from its end.
func TestAllIsPreferredReversed(t *testing.T) {
	best := lower.Preferred(All())
	slices.Reverse(best)
	if got := names(All()); !slices.Equal(got, names(best)) {
		t.Errorf("the list is %v, by preference it is %v", got, names(best))
	}
}

// A target that has all features of another, and more, comes first, in whatever order they are given.
func TestPreferredByFeatures(t *testing.T) {
	for _, a := range All() {
		for _, b := range All() {
			x, y := a.Machine(), b.Machine()
			if x.Arch() != y.Arch() || x.Has&y.Has != y.Has || x.Has == y.Has {
				continue
			}
			for _, ts := range [][]lower.Target{{a, b}, {b, a}} {
				if got := lower.Preferred(ts)[0].Machine().Name; got != x.Name {
					t.Errorf("of %v, %s comes first, which lacks features of %s", names(ts), got, x.Name)
				}
			}
		}
	}
}
