package device

import (
	"bytes"
	"os"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
)

// TestRoundsMatrices: element by element, each operation on matrices of floats is rounded, whatever the device answers about whole matrices. Shaders
// use whole matrices only where all of the device's shapes round.
func TestRoundsMatrices(t *testing.T) {
	d := opened(t)
	found, all := 0, true
	for _, s := range spirv.Shapes {
		if !multiplies(d, s) {
			continue
		}
		found++
		all = all && roundsSums(d, s)
		have, want, err := rounded(d, s, controls(d))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%v: element by element: %x, %v, want %x", s, have, err, want)
		}
		c := controls(d)
		c.Matrices = true
		if have, want, err := rounded(d, s, c); err != nil || len(have) != len(want) {
			t.Errorf("%v: whole matrices: %d bytes, %v", s, len(have), err)
		}
	}
	if c := Controls(d); c.Matrices != (found > 0 && all) {
		t.Errorf("%d shapes, which round: %v. Shaders ask for %+v", found, all, c)
	}
	if os.Getenv("TMACC_TILES") == "1" && found == 0 {
		t.Errorf("%v has no cooperative matrices", d)
	}
}
