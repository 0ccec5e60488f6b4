package tune

import (
	"math"
	"slices"
	"testing"
)

// A candidate, with kernels of all widths, is measured as often as its ratio needs, for purposes out of a cache and of memory, beside the default and beside
// another candidate.
func TestBesideMeasures(t *testing.T) {
	small := Purpose{Mode: "l2", M: 64, N: 1, K: 256}
	wide, cycled := small, small
	wide.N, cycled.Total = 4, 1<<22
	x := tuner(t, "w4", small)
	c := x.Seeds(t.Context())[0]
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	whole, err := x.Complete(c)
	if err != nil || len(whole.Kernels) < 2 || len(c.Kernels) != 1 {
		t.Fatalf("%v, %d kernels of %d", err, len(whole.Kernels), len(c.Kernels))
	}
	for _, base := range []*Candidate{nil, whole} {
		all, err := x.Beside(base, whole, []Purpose{small, wide, cycled})
		if err != nil || len(all) != 3 {
			t.Fatalf("%v, %d purposes", err, len(all))
		}
		for i, b := range all {
			if r := b.Ratio(); len(b.Ns) != repeats || len(b.BaseNs) != repeats || b.Purpose != []Purpose{small, wide, cycled}[i] || r.Low <= 0 || math.IsInf(r.High, 0) || slices.Min(b.Ns) <= 0 {
				t.Errorf("%+v", b)
			}
		}
	}
}

// What the machine refuses while a candidate is measured beside another is no fault of either.
func TestBesideUnmeasured(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	c := x.Seeds(t.Context())[0]
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()+"/gone")
	if _, err := x.Beside(nil, c, x.Purposes); unmeasured([]Result{{Err: err}}) == nil {
		t.Error(err)
	}
}
