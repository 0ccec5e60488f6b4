package check

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/schedule"
)

// within compares a product of int8 activations with that in float64, whose integer sums
// are within e of the definition: it must be as near as that and the rounding of its
// floats allow. Of a group, the sum, the scale and their product are rounded, the sums
// of all groups are added up, and the scale of a whole row multiplies that:
//
//	|out - exact| <= sum over groups of e*|scale*ascale| + (groups + 8) * 2^-24 * size
//
// size is the sum of the magnitudes of all terms, e included.
func (c *Case) within(e schedule.Deviation, out []float32) error {
	for n := range c.N {
		for m := range c.M {
			exact, off, size := c.real(e, n, m)
			groups := float64((c.K + c.group() - 1) / c.group())
			bound := off + (groups+8)*0x1p-24*size + groups*0x1p-140
			got, most := float64(out[n*c.M+m]), float64(math.MaxFloat32)
			if c.Problem.Act.Group == 0 { // the sum has no scale of activations yet
				most *= min(1, math.Abs(float64(c.Scale[n][0])))
			}
			switch {
			case math.IsNaN(exact) != math.IsNaN(got), !math.IsNaN(exact) && size < most && !(math.Abs(got-exact) <= bound):
				return fmt.Errorf("column %d row %d: %v is %v away from %v; at most %v", n, m, got, got-exact, exact, bound)
			}
		}
	}
	return nil
}

// real is element n, m in float64, how far it is off if integer sums are as e says, and
// the size of its terms.
func (c *Case) real(e schedule.Deviation, n, m int) (exact, off, size float64) {
	w, g := c.Problem.Weight, c.group()
	for k0 := 0; k0 < c.K; k0 += g {
		sum, acts := 0, 0
		x := c.Source.Scaling(w, m, k0, c.K)
		end := min(k0+g, c.K)
		for k := k0; k < end; k++ {
			sum += (w.Levels[c.Source.Codes[m*c.K+k]] - int(x.Zero)) * int(c.Act[n][k])
			acts += int(c.Act[n][k])
		}
		s := float64(c.actScale(n, k0))
		scale, least := float64(x.Scale)*s, 0.0
		if w.Min {
			least = float64(x.Min) * float64(acts) * s
		}
		exact += float64(sum)*scale - least
		off += float64(e.Of(end-k0)) * math.Abs(scale)
		size += (math.Abs(float64(sum))+float64(e.Of(end-k0)))*math.Abs(scale) + math.Abs(least)
	}
	return exact, off, size
}
